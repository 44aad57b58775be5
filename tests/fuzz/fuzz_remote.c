// SPDX-License-Identifier: Apache-2.0
// Memory of another process as a thread that ran meanwhile, or a crash, may leave it: any words at
// all, most of them pointers into the same few pages. The process is this one. The first byte is
// the version of Python, the second says where the chains begin; every two bytes after them become
// one word.
#include "fuzz.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collect/remote/parts.h"
#include "pyabi/pyabi.h"
#include "wire/wire.h"

#define BYTES 16384u
// Chains that bite their tails are walked up to these: what is found is found in a few rounds.
#define MAX_FRAMES 48u
#define MAX_CHAIN 64u

static struct fm_remote_files *files;
static struct fm_remote_images
	*images; // of this process: kept, because its map of addresses is long and does not change
static uint64_t base;

static void fill(const uint8_t *data, size_t size)
{
	uint64_t *words = (uint64_t *)(uintptr_t)base;
	size_t n = size / 2, i = 0;
	for (; i < n && i < BYTES / 8; i++) {
		uint16_t v = (uint16_t)(data[2 * i] | data[2 * i + 1] << 8);
		// The highest values stand for numbers, as lengths, flags and null pointers are.
		words[i] = v >= 0xf000 ? v - 0xf000u : base + (v * 8u) % BYTES;
	}
	for (; i < BYTES / 8; i++) // the same over and over
		words[i] = words[i - n];
}

static struct fm_remote *begin(const uint8_t *data)
{
	struct fm_remote *r = fm_remote_create((uint32_t)getpid(), files, NULL, 0);
	fm_remote_images_destroy(r->images);
	r->images = images;
	r->max_frames = MAX_FRAMES;
	r->max_chain = MAX_CHAIN;
	FUZZ_CHECK(fm_pyabi_row_by_minor(8 + data[0] % 6, &r->python.row) ==
		   FM_OK); // later ones chain their frames as 3.13 does
	r->python.state = FM_REMOTE_HAS_PYTHON;
	r->python.runtime = base + (data[1] % 64) * 8;
	r->python.code_type = base + 8;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	if (!files) {
		void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		FUZZ_CHECK(at != MAP_FAILED);
		base = (uintptr_t)at;
		files = fm_remote_files_create();
		images = fm_remote_images_create((uint32_t)getpid(), files);
	}
	fill(data + 2, size - 2);
	struct fm_remote *r = begin(data);
	struct fm_remote_regs regs = { .pc = (uintptr_t)LLVMFuzzerTestOneInput + data[1], .known = 1u << 7 };
	regs.r[7] = base + (data[0] / 8) * 64;
	struct fm_remote_call call = { 202, { base + data[1] } };
	struct fm_remote_stack stack = { 0 };
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	fm_remote_read_stack(r, tid, &regs, &call, FM_REMOTE_PYTHON | FM_REMOTE_NATIVE, &stack);
	// Whoever a state belongs to, its chain ends.
	fm_remote_python_walk(r, base + (data[1] % 128) * 8);
	FUZZ_CHECK(r->frames.n <= MAX_FRAMES && r->n_steps <= 4 * MAX_FRAMES + 1);
	fm_remote_merge(r, -1, &stack);
	FUZZ_CHECK(stack.frames.n <= MAX_FRAMES);
	for (size_t i = 0; i < stack.frames.n; i++) {
		uint64_t frame = stack.frames.items[i];
		if (frame >> FM_WIRE_FRAME_SHIFT == FM_WIRE_FRAME_PYTHON)
			FUZZ_CHECK(fm_remote_code(r, frame >> 32 & ((1u << FM_WIRE_CODE_BITS) - 1)));
	}
	fm_remote_stack_deinit(&stack);
	r->images = NULL;
	fm_remote_destroy(r);
	return 0;
}
