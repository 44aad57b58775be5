// SPDX-License-Identifier: Apache-2.0
#include "import/scalene.h"

#include <math.h>
#include <stdlib.h>

#define MB 1048576.0
#define MAX_BYTES 9e18

// Shares of one figure of a line, one after the other; they add up to it.
struct share {
	double whole, done;
	uint64_t given;
};

static uint64_t next_share(struct share *of, double part)
{
	of->done += part;
	uint64_t until = (uint64_t)llround(of->whole * fmin(of->done, 1)), given = until - FM_MIN(until, of->given);
	of->given += given;
	return given;
}

enum { PYTHON, C, SYSTEM, N_TIMES };
struct shares {
	struct share times[N_TIMES], python_bytes, native_bytes, python_peak, native_peak, n_allocs;
};

static void put_time(struct fm_scalene *s, struct shares *of, uint32_t stack_id, double part)
{
	static const uint8_t classes[N_TIMES] = { FM_CLASS_PYTHON, FM_CLASS_NATIVE, FM_CLASS_SYSTEM };
	for (int i = 0; i < N_TIMES; i++) {
		uint64_t ns = next_share(&of->times[i], part);
		if (ns)
			fm_import_sample(s->in, s->thread_id, stack_id, classes[i],
					 (ns + FM_IMPORT_SAMPLE_NS - 1) / FM_IMPORT_SAMPLE_NS, ns);
	}
}

static void put_memory(struct fm_scalene *s, struct shares *of, uint32_t stack_id, double part)
{
	uint64_t n_allocs = next_share(&of->n_allocs, part);
	struct share *const bytes[] = { &of->python_bytes, &of->native_bytes }, *const peaks[] = { &of->python_peak,
												   &of->native_peak };
	for (int i = 0; i < 2; i++) {
		uint64_t alloc_bytes = next_share(bytes[i], part);
		struct fm_import_site site = { .process_id = fm_import_process(s->in, 0),
					       .stack_id = stack_id,
					       .domain = i ? FM_ALLOC_MALLOC : FM_ALLOC_OBJ,
					       .alloc_bytes = alloc_bytes,
					       .n_allocs = n_allocs,
					       .peak_bytes = next_share(peaks[i], part) };
		if (alloc_bytes)
			fm_import_add_site(s->in, &site);
	}
}

static void begin_shares(const struct fm_scalene *s, const struct fm_scalene_line *line, struct shares *ret)
{
	double ns = s->elapsed_s * 1e9 / 100, python = line->python_share, native = 1 - python;
	*ret = (struct shares){
		.times = { { .whole = line->python * ns }, { .whole = line->c * ns }, { .whole = line->system * ns } },
		.python_bytes.whole = line->alloc_mb * MB * python,
		.native_bytes.whole = line->alloc_mb * MB * native,
		.python_peak.whole = line->peak_mb * MB * python,
		.native_peak.whole = line->peak_mb * MB * native,
		.n_allocs.whole = line->n_allocs
	};
}

static uint32_t own_stack(struct fm_scalene *s, const struct fm_scalene_line *line)
{
	const uint64_t *name = fm_map_find(&s->function_index, fm_scalene_place(line->file, line->function_line));
	struct fm_str function = line->function_line ? FM_STR_LIT("?") : FM_STR_LIT("<module>");
	if (name)
		function = fm_intern_get(&s->texts, (uint32_t)*name);
	uint32_t frame = fm_import_python_frame(s->in, function, fm_intern_get(&s->texts, line->file), 0, line->number);
	return fm_writer_stack(s->in->w, FM_ROOT_STACK, frame);
}

static void put_copies(struct fm_scalene *s, const struct fm_scalene_line *line, uint32_t stack_id)
{
	uint64_t bytes = (uint64_t)fmin(line->copy_mb_s * MB * s->elapsed_s, MAX_BYTES);
	if (bytes)
		fm_writer_alloc(s->in->w, &(struct fm_alloc){ .thread_id = s->thread_id,
							      .stack_id = stack_id,
							      .time_ns = s->in->threads.items[s->thread_id].now_ns,
							      .size = bytes,
							      .weight = bytes,
							      .domain = FM_ALLOC_COPY });
}

static void put_all(struct fm_scalene *s)
{
	struct shares *shares = fm_alloc((s->lines.n + 1) * sizeof(*shares));
	for (size_t i = 0; i < s->lines.n; i++)
		begin_shares(s, &s->lines.items[i], &shares[i]);
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < s->stacks.n; i++) {
			const struct fm_scalene_stack *stack = &s->stacks.items[i];
			const uint64_t *idx = fm_map_find(&s->line_index, fm_scalene_place(stack->file, stack->line));
			struct fm_scalene_line *line = idx ? &s->lines.items[*idx] : NULL;
			double *sum = !line ? NULL : stack->is_memory ? &line->of_memory : &line->of_time;
			if (!sum)
				continue;
			if (pass == 0)
				*sum += stack->share;
			else if (stack->is_memory)
				put_memory(s, &shares[*idx], stack->stack_id, stack->share / *sum);
			else
				put_time(s, &shares[*idx], stack->stack_id, stack->share / *sum);
		}
	for (size_t i = 0; i < s->lines.n; i++) { // what no stack has, by its line
		const struct fm_scalene_line *line = &s->lines.items[i];
		uint32_t stack_id = own_stack(s, line);
		put_time(s, &shares[i], stack_id, 1);
		put_memory(s, &shares[i], stack_id, 1);
		put_copies(s, line, stack_id);
	}
	free(shares);
}

static void tell(struct fm_scalene *s)
{
	fm_import_missing(
		s->in, "when anything ran",
		"the file has shares of the run by line: Fathom shows them one after the other, in pieces of 1 ms");
	fm_import_missing(s->in, "waiting",
			  "Scalene counts it as time in the system, which is shown as CPU time of the kernel");
	fm_import_missing(s->in, "what memory was freed", "the file has only what lines allocated, and their peaks");
	if (s->has_native_stacks)
		fm_import_missing(s->in, "native stacks, and the histories over time",
				  "the Python stacks have all the time");
	if (s->has_gpu)
		fm_import_missing(s->in, "time on the GPU", "a capture cannot hold it");
	if (s->has_await)
		fm_import_missing(s->in, "time in await", "a capture cannot hold it");
	if (s->has_leaks)
		fm_import_missing(s->in, "leaks that Scalene found",
				  "Fathom judges leaks from blocks, which the file does not have");
}

void fm_scalene_put(struct fm_scalene *s)
{
	put_all(s);
	tell(s);
}
