// SPDX-License-Identifier: Apache-2.0
// From the addresses of a sample to a stack of the capture: the kernel's part, the user's part by
// frame pointers, by branch records (--call-graph lbr) or by a copy of the stack (dwarf).
#include "import/perf_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "image/kallsyms.h"
#include "image/symbols.h"
#include "import/frame_text.h"

#define MAX_CACHED_FRAMES (1u << 20)
#define DEFAULT_MAX_CHAIN 127u // kernel.perf_event_max_stack
// Younger than some headers.
#define BRANCH_CALL_STACK (1u << 11)

void fm_perf_stacks_deinit(struct fm_perf_stacks *s)
{
	fm_perf_spaces_deinit(&s->spaces);
	fm_perf_images_deinit(&s->images);
	fm_map_deinit(&s->kernel_frames);
	fm_vec_deinit(&s->frames);
}

static uint32_t jit_frame(struct fm_perf_stacks *s, struct fm_perf_process *p, uint64_t pc, struct fm_str symbol)
{
	char path[32];
	uint32_t frame;
	if (fm_perf_python_frame(s->in, symbol, &frame))
		return frame;
	snprintf(path, sizeof(path), "[jit %u]", p->pid);
	uint32_t image = fm_writer_image(s->in->w, fm_str_of(path), FM_STR_LIT(""), FM_IMAGE_IS_JIT);
	struct fm_symbol_link link = { .name = symbol, .file = FM_STR_LIT("") };
	fm_writer_symbol(s->in->w, image, pc, &link, 1);
	return fm_writer_frame(s->in->w, FM_FRAME_NATIVE, image, pc);
}

static uint32_t new_user_frame(struct fm_perf_stacks *s, struct fm_perf_process *p, uint64_t pc)
{
	struct fm_perf_map *map = fm_perf_process_find(p, pc);
	uint64_t start;
	if (!map || !(map->image->is_file || map->image->is_vdso)) {
		struct fm_str symbol = fm_perf_jit_name(p, pc, &start);
		return symbol.len ? jit_frame(s, p, pc, symbol)
				  : fm_writer_frame(s->in->w, FM_FRAME_NATIVE, FM_NO_ID, pc);
	}
	fm_perf_image_open(&s->images, map->image, s->in);
	uint64_t addr = fm_perf_image_address(map, pc);
	struct fm_symbol symbol;
	uint32_t frame;
	if (map->image->symbols && !fm_symbols_find(map->image->symbols, addr, &symbol)) {
		struct fm_str name = fm_str_of(symbol.name);
		if (fm_perf_python_frame(s->in, name, &frame))
			return frame;
		if (map->image->is_names_only)
			return fm_frame_of_text(s->in, name);
	}
	return fm_writer_frame(s->in->w, FM_FRAME_NATIVE, map->image->image_id, addr);
}

uint32_t fm_perf_user_frame(struct fm_perf_stacks *s, struct fm_perf_process *p, uint64_t pc)
{
	bool is_new;
	if (p->frames.n >= MAX_CACHED_FRAMES)
		fm_map_deinit(&p->frames);
	const uint64_t *known = fm_map_find(&p->frames, pc);
	if (known)
		return (uint32_t)*known;
	uint32_t frame = new_user_frame(s, p, pc);
	*fm_map_at(&p->frames, pc, &is_new) = frame;
	return frame;
}

static uint32_t kernel_frame(struct fm_perf_stacks *s, uint64_t pc)
{
	bool is_new;
	uint64_t *frame = fm_map_at(&s->kernel_frames, pc, &is_new);
	if (is_new) {
		s->kernel_image_id =
			fm_writer_image(s->in->w, FM_STR_LIT("[kernel]"), FM_STR_LIT("code"), FM_IMAGE_IS_KERNEL_CODE);
		*frame = fm_writer_frame(s->in->w, FM_FRAME_NATIVE, s->kernel_image_id, pc);
	}
	return (uint32_t)*frame;
}

static void push_error(struct fm_perf_stacks *s, enum fm_stack_error why)
{
	fm_vec_push(&s->frames, fm_writer_frame(s->in->w, FM_FRAME_ERROR, 0, why));
}

static bool is_kernel_mode(uint16_t misc)
{
	unsigned mode = misc & PERF_RECORD_MISC_CPUMODE_MASK;
	return mode == PERF_RECORD_MISC_KERNEL || mode == PERF_RECORD_MISC_GUEST_KERNEL ||
	       mode == PERF_RECORD_MISC_HYPERVISOR;
}

// Marks in a chain say whose the addresses behind them are. The first address behind one is where
// execution stands, the others are where it returns to.
static void push_chain(struct fm_perf_stacks *s, struct fm_perf_process *p, const struct fm_perf_sample *sample,
		       bool is_kernel, bool want_user)
{
	bool is_first = true;
	uint64_t n_user = 0, start, limit = sample->attr->max_chain ? sample->attr->max_chain : DEFAULT_MAX_CHAIN;
	for (uint64_t i = 0; i < sample->n_chain; i++) {
		uint64_t ip = fm_perf_u64(sample->chain, i);
		if (ip >= (uint64_t)PERF_CONTEXT_MAX) {
			is_kernel = ip != (uint64_t)PERF_CONTEXT_USER && ip != (uint64_t)PERF_CONTEXT_GUEST_USER;
			is_first = true;
			continue;
		}
		if (!ip || (!is_kernel && !want_user)) // 0: a chain of frame pointers that ends as it should not
			continue;
		ip -= is_first ? 0 : 1;
		// Code without frame pointers sends the kernel's walk astray.
		if (!is_first && !is_kernel && !fm_perf_process_find(p, ip) && !fm_perf_jit_name(p, ip, &start).len) {
			push_error(s, FM_STACK_NOT_CODE);
			return;
		}
		is_first = false;
		n_user += !is_kernel;
		fm_vec_push(&s->frames, is_kernel ? kernel_frame(s, ip) : fm_perf_user_frame(s, p, ip));
	}
	if (n_user >= limit)
		push_error(s, FM_STACK_TOO_DEEP);
}

// The CPU's own record of calls: from where each was made, innermost first.
static void push_branches(struct fm_perf_stacks *s, struct fm_perf_process *p, const struct fm_perf_sample *sample,
			  bool is_kernel)
{
	uint64_t leaf = is_kernel ? fm_perf_u64(sample->branches, 1) : sample->ip;
	fm_vec_push(&s->frames, fm_perf_user_frame(s, p, leaf));
	for (uint64_t i = 0; i < sample->n_branches; i++)
		fm_vec_push(&s->frames, fm_perf_user_frame(s, p, fm_perf_u64(sample->branches, i * 3)));
}

uint32_t fm_perf_stack(struct fm_perf_stacks *s, struct fm_perf_process *p, const struct fm_perf_sample *sample,
		       uint16_t misc, uint8_t *ret_class)
{
	bool is_kernel = is_kernel_mode(misc);
	bool has_dump = sample->regs && sample->attr->sample_type & PERF_SAMPLE_STACK_USER;
	bool has_calls = sample->n_branches && sample->attr->branch_sample_type & BRANCH_CALL_STACK;
	s->frames.n = 0;
	push_chain(s, p, sample, is_kernel, !has_dump && !has_calls);
	if (has_dump)
		fm_perf_unwind(s, p, sample);
	else if (has_calls)
		push_branches(s, p, sample, is_kernel);
	if (!s->frames.n)
		fm_vec_push(&s->frames, is_kernel ? kernel_frame(s, sample->ip) : fm_perf_user_frame(s, p, sample->ip));
	*ret_class = is_kernel ? FM_CLASS_SYSTEM : fm_perf_class_of(s->in, s->frames.items, s->frames.n);
	uint32_t stack = FM_ROOT_STACK;
	for (size_t i = s->frames.n; i-- > 0;)
		stack = fm_writer_stack(s->in->w, stack, s->frames.items[i]);
	return stack;
}

// ---- The end ----

static void name_kernel(void *ctx, uint64_t addr, const char *name)
{
	struct fm_perf_stacks *s = ctx;
	struct fm_symbol_link link = { .name = fm_str_of(name), .file = FM_STR_LIT("") };
	fm_writer_symbol(s->in->w, s->kernel_image_id, addr, &link, 1);
}

// A kernel lies elsewhere after each boot: the one that runs now is the one that was recorded if it
// has the same release and lies at the same place.
static bool is_this_kernel(const struct fm_perf_stacks *s)
{
	struct utsname here;
	if (!s->kernel_text_at || uname(&here))
		return false;
	if (s->file->release.len && !fm_str_eq(s->file->release, fm_str_of(here.release)))
		return false;
	if (s->file->host.len && !fm_str_eq(s->file->host, fm_str_of(here.nodename)))
		return false;
	return fm_kallsyms_address(s->kernel_text_name) == s->kernel_text_at;
}

void fm_perf_stacks_end(struct fm_perf_stacks *s)
{
	char why[240];
	if (s->kernel_frames.n && !is_this_kernel(s))
		fm_import_missing(s->in, "names of kernel functions",
				  "the kernel that runs here is not the recorded one, or hides its addresses; run sudo "
				  "sysctl kernel.kptr_restrict=0");
	else if (s->kernel_frames.n)
		fm_kallsyms_name(&s->kernel_frames, name_kernel, s);
	if (s->n_cut) {
		snprintf(why, sizeof(why),
			 "%llu of %llu stacks are longer than the part that perf copied; use a larger size: perf "
			 "record --call-graph dwarf,65528",
			 (unsigned long long)s->n_cut, (unsigned long long)s->n_dumps);
		fm_import_missing(s->in, "the outer ends of stacks", why);
	}
	if (s->n_failed) {
		snprintf(why, sizeof(why), "%llu of %llu copied stacks could not be followed to their end",
			 (unsigned long long)s->n_failed, (unsigned long long)s->n_dumps);
		fm_import_missing(s->in, "callers of some functions", why);
	}
	if (s->images.has_unchecked)
		fm_import_missing(s->in, "whether the files are those that ran",
				  "perf.data has no build-id of some; Fathom used the files that are there now");
	if (s->images.has_other)
		fm_import_missing(s->in, "names and callers in some files",
				  s->images.is_elsewhere ? "they ran on another machine, and the files here have other "
							   "build-ids, or perf.data does not have theirs"
							 : "the files there now are other builds than those that ran");
	if (s->spaces.is_full)
		fm_import_missing(s->in, "some mappings", "the file has more of them than processes can have");
}
