// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/python/thread_state.h"

#include "sigsafe/base/sigsafe.h"

// Of lists that another thread may be changing: longer ones are taken for damaged.
#define MAX_INTERPRETERS 1024u
#define MAX_STATES 65536u
// A thread that Python does not know is looked for again after this time. One that Python comes to
// know is attached at once, and seen then.
#define UNKNOWN_FOR_NS 10000000u

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

static FM_SIGSAFE bool belongs_to(uintptr_t ts, uint64_t thread)
{
	uint64_t owner;
	return fm_sig_read_u64(ts + fm_sig.python.row.ts_thread_id, &owner) && owner == thread;
}

FM_SIGSAFE uintptr_t fm_sig_thread_state_listed(uint64_t thread)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	uint64_t interp, ts;
	if (!row->interp_threads || !fm_sig_read_u64(fm_sig.python.runtime + row->runtime_interpreters, &interp))
		return 0;
	for (uint32_t n = 0; interp && n < MAX_INTERPRETERS; n++) {
		if (!fm_sig_read_u64(interp + row->interp_threads, &ts))
			return 0;
		for (uint32_t k = 0; ts && k < MAX_STATES; k++) {
			if (belongs_to(ts, thread))
				return ts;
			if (!fm_sig_read_u64(ts + row->ts_next, &ts))
				return 0;
		}
		if (!fm_sig_read_u64(interp + row->interp_next, &interp))
			return 0;
	}
	return 0;
}

// True when the list that ts was in still has it: its neighbours name it. A state that was freed
// may still look like one.
static FM_SIGSAFE bool is_listed(uintptr_t ts, uint64_t thread)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	// `prev` stands in front of `next` in every version.
	uint64_t interp, named, next, prev;
	if (!ts || !belongs_to(ts, thread) || !fm_sig_read_u64(ts + row->ts_interp, &interp) ||
	    !fm_sig_read_u64(ts + row->ts_next, &next) || !fm_sig_read_u64(ts + row->ts_next - 8, &prev))
		return false;
	return fm_sig_read_u64(prev ? prev + row->ts_next : interp + row->interp_threads, &named) && named == ts &&
	       (!next || (fm_sig_read_u64(next + row->ts_next - 8, &named) && named == ts));
}

FM_SIGSAFE uintptr_t fm_sig_thread_state(struct fm_sig_thread *t, bool *ret_is_attached)
{
	uint64_t us = (uint64_t)pthread_self();
	uintptr_t ts = fm_sig_current_state();
	*ret_is_attached = ts && belongs_to(ts, us);
	if (FM_LIKELY(*ret_is_attached)) {
		t->thread_state = ts;
		return ts;
	}
	if (is_listed(t->thread_state, us))
		return t->thread_state;
	t->thread_state = 0;
	if (t->now_ns < t->python_unknown_until_ns)
		return 0;
	t->thread_state = fm_sig_thread_state_listed(us);
	if (!t->thread_state)
		t->python_unknown_until_ns = t->now_ns + UNKNOWN_FOR_NS;
	return t->thread_state;
}
