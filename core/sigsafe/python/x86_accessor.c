// SPDX-License-Identifier: Apache-2.0
// How a function of the interpreter gets at the thread-local that it returns, from its instructions.
#include "sigsafe/python/thread_state.h"

#include "sigsafe/base/sigsafe.h"

#if defined(__x86_64__)

// Of a function that returns a thread-local: what it does before, the access, and the load.
#define ACCESSOR_BYTES 64

struct decoder {
	uint8_t code[ACCESSOR_BYTES];
	uintptr_t start;
	uint32_t pos;
};

static FM_SIGSAFE bool skip(struct decoder *d, const char *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (d->pos + i >= ACCESSOR_BYTES || d->code[d->pos + i] != (uint8_t)bytes[i])
			return false;
	d->pos += n;
	return true;
}
#define SKIP(d, bytes) skip(d, bytes, sizeof(bytes) - 1)

static FM_SIGSAFE int32_t number(struct decoder *d)
{
	int32_t v = 0;
	if (d->pos + 4 <= ACCESSOR_BYTES)
		v = (int32_t)((uint32_t)d->code[d->pos] | (uint32_t)d->code[d->pos + 1] << 8 |
			      (uint32_t)d->code[d->pos + 2] << 16 | (uint32_t)d->code[d->pos + 3] << 24);
	d->pos += 4;
	return v;
}

static FM_SIGSAFE uintptr_t relative(struct decoder *d)
{
	int32_t distance = number(d);
	return d->start + d->pos + (uintptr_t)(intptr_t)distance;
}

// mov (%rax), %rax, with or without a displacement, which is added to the offset.
static FM_SIGSAFE bool read_load(struct decoder *d, struct fm_sig_tls *ret)
{
	if (SKIP(d, "\x48\x8b\x00"))
		return true;
	if (SKIP(d, "\x48\x8b\x40")) {
		ret->offset += (uint64_t)(int64_t)(int8_t)d->code[d->pos++ % ACCESSOR_BYTES];
		return true;
	}
	if (SKIP(d, "\x48\x8b\x80")) {
		ret->offset += (uint64_t)(int64_t)number(d);
		return true;
	}
	return false;
}

// A call of __tls_get_addr with the address of { module, offset }, in the forms that compilers
// write and linkers keep.
static FM_SIGSAFE bool read_call(struct decoder *d, struct fm_sig_tls *ret)
{
	if (!SKIP(d, "\x66\x48\x8d\x3d") && !SKIP(d, "\x48\x8d\x3d"))
		return false;
	uintptr_t index = relative(d);
	if (SKIP(d, "\x66\x66\x48\xe8") || SKIP(d, "\xe8") || SKIP(d, "\x66\x48\xff\x15") || SKIP(d, "\xff\x15") ||
	    SKIP(d, "\x67\xe8"))
		d->pos += 4;
	else
		return false;
	ret->kind = FM_SIG_TLS_MODULE;
	return fm_sig_read_u64(index, &ret->module) && fm_sig_read_u64(index + 8, &ret->offset) && ret->module &&
	       read_load(d, ret);
}

// From the thread pointer, by an offset that is in the code or in a word beside it.
static FM_SIGSAFE bool read_static(struct decoder *d, struct fm_sig_tls *ret)
{
	ret->kind = FM_SIG_TLS_STATIC;
	if (SKIP(d, "\x48\x8b\x05")) // mov word(%rip), %rax; mov %fs:(%rax), %rax
		return fm_sig_read_u64(relative(d), &ret->offset) && SKIP(d, "\x64\x48\x8b\x00");
	if (SKIP(d, "\x48\xc7\xc0")) { // mov $offset, %rax; mov %fs:(%rax), %rax
		ret->offset = (uint64_t)(int64_t)number(d);
		return SKIP(d, "\x64\x48\x8b\x00");
	}
	if (!SKIP(d, "\x64\x48\x8b\x04\x25")) // mov %fs:offset, %rax
		return false;
	ret->offset = (uint64_t)(int64_t)number(d);
	if (ret->offset)
		return true;
	// mov %fs:0, %rax, and the offset comes then: added from a word, added by lea, or in the
	// load.
	if (SKIP(d, "\x48\x03\x05"))
		return fm_sig_read_u64(relative(d), &ret->offset) && read_load(d, ret);
	if (SKIP(d, "\x48\x8d\x80"))
		ret->offset = (uint64_t)(int64_t)number(d);
	return read_load(d, ret);
}

FM_SIGSAFE bool fm_sig_tls_decode(uintptr_t accessor, struct fm_sig_tls *ret)
{
	struct decoder d = { .start = accessor };
	*ret = (struct fm_sig_tls){ 0 };
	if (!accessor || !fm_sig_read(accessor, d.code, sizeof(d.code)))
		return false;
	SKIP(&d, "\xf3\x0f\x1e\xfa"); // endbr64
	if (SKIP(&d, "\x55"))         // push %rbp; mov %rsp, %rbp
		SKIP(&d, "\x48\x89\xe5");
	SKIP(&d, "\x50"); // push %rax, or sub $8, %rsp
	if (SKIP(&d, "\x48\x83\xec"))
		d.pos++;
	struct decoder at = d;
	if (read_static(&d, ret))
		return true;
	*ret = (struct fm_sig_tls){ 0 };
	if (read_call(&at, ret))
		return true;
	*ret = (struct fm_sig_tls){ 0 };
	return false;
}

#else

FM_SIGSAFE bool fm_sig_tls_decode(uintptr_t accessor, struct fm_sig_tls *ret)
{
	(void)accessor;
	*ret = (struct fm_sig_tls){ 0 };
	return false;
}

#endif
