// SPDX-License-Identifier: Apache-2.0
// Writes a profile with known, realistic content: threads at a jittered 1 kHz, a few thousand
// stacks of depth ~30 that share prefixes, Python code objects with line tables, native images. The
// same arguments give the same file.
//   gen_profile OUT N_SAMPLES [--seed N] [--threads N] [--stacks N] [--shared N] [--flush-ms N] [--memory N]
//               [--sites] [--even|--fresh] [--walk]
// --memory N adds about N allocations of the usual sizes, sampled at a mean of 128 KiB, nine of ten
// freed later; --sites sums of some stacks as exact mode has them. --shared is how many of their 30
// frames stacks have in common with another one at least (8): the more, the fewer nodes the tree
// has. --even picks every stack equally often instead of a few hot ones; --fresh makes sure that
// each is met, most of them once, and spends the rest of the time in 20,000 of them, as long
// captures do. --flush-ms is in the time of the profile (0: chunks are cut by size alone); --walk
// interns every frame of every sample anew, as a collector does. The last line tells how fast it
// was.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "format/writer.h"
#include "support/dice.h"

#define DEPTH 30
#define N_IMAGES 8
#define N_CODES 600
#define N_FRAMES 4000

// Few things are hot and many are cold.
static uint32_t skewed(uint32_t n)
{
	double u = dice_share();
	return (uint32_t)(u * u * u * n);
}

struct options {
	const char *path;
	uint64_t n_samples, n_allocs, seed, flush_ns;
	uint32_t n_threads, n_stacks, n_shared;
	bool walk, sites, even, fresh;
};

struct frame {
	enum fm_frame_kind kind;
	uint32_t ref;
	uint64_t value;
};

struct thread {
	uint64_t time_ns;
	uint32_t stack, cpu;
	uint32_t id;
};

static struct frame frames[N_FRAMES];
static uint32_t (*paths)[DEPTH]; // frame indexes, outermost first
static uint32_t *leaf_ids;       // stack id, 0 = not handed over yet

static void write_tables(struct fm_writer *w, const struct options *o, struct thread *threads)
{
	char text[256];
	fm_writer_meta(w, "command", FM_STR_LIT("python3 generated.py"));
	fm_writer_meta(w, "rate_hz", FM_STR_LIT("1000"));
	fm_writer_meta(w, "engine", FM_STR_LIT("ticker"));
	fm_writer_coverage(w, FM_STR_LIT("process 77"),
			   FM_STR_LIT("it was gone before \xc3\xbc its maps could be read\\"));
	struct fm_process_info info = {
		.pid = 1000,
		.parent_pid = 1,
		.start_ns = 5,
		.exe = FM_STR_LIT("/usr/bin/python3.11"),
		.command = FM_STR_LIT("python3\0generated.py"),
		.python_version = FM_STR_LIT("3.11.7"),
		.engine = FM_STR_LIT("ticker"),
	};
	uint32_t process = fm_writer_process(w, &info);
	for (uint32_t i = 0; i < o->n_threads; i++) {
		threads[i] = (struct thread){ .time_ns = 1000000000u + dice_below(1000000), .cpu = i };
		threads[i].id = fm_writer_thread(w, process, 1000 + i, threads[i].time_ns);
		snprintf(text, sizeof(text), "worker-%u", i);
		fm_writer_thread_name(w, threads[i].id, fm_str_of(text));
	}
	for (uint32_t i = 0; i < N_IMAGES; i++) {
		uint8_t build_id[20];
		for (size_t k = 0; k < sizeof(build_id); k++)
			build_id[k] = (uint8_t)dice();
		snprintf(text, sizeof(text), "/usr/lib/x86_64-linux-gnu/libpart%u.so.1", i);
		uint32_t id = fm_writer_image(w, fm_str_of(text), (struct fm_str){ (char *)build_id, sizeof(build_id) },
					      i == 0);
		fm_writer_mapping(w, process, id, 0x7f0000000000u + ((uint64_t)i << 24),
				  0x7f0000000000u + ((uint64_t)i << 24) + 0x400000,
				  0x7f0000000000u + ((uint64_t)i << 24));
	}
	for (uint32_t i = 0; i < N_CODES; i++) {
		char name[64], file[96], table[200];
		snprintf(name, sizeof(name), "step_%u", i % 400);
		snprintf(text, sizeof(text), "Stage%u.step_%u", i % 40, i % 400);
		snprintf(file, sizeof(file), "/home/user/project/package_%u/module_%u.py", i % 7, i % 60);
		uint32_t n = 20 + (uint32_t)dice_below(sizeof(table) - 20);
		for (uint32_t k = 0; k < n; k++)
			table[k] = (char)(k % 2 ? dice_below(4) : dice_below(30));
		struct fm_code_info code = {
			fm_str_of(name), fm_str_of(text), fm_str_of(file), 1 + (uint32_t)dice_below(2000), 3,
			{ table, n }
		};
		fm_writer_code(w, &code);
	}
	struct fm_symbol_link links[] = { { FM_STR_LIT("outer"), FM_STR_LIT("outer.c"), 3, 7, false },
					  { FM_STR_LIT("inner"), FM_STR_LIT("inner.h"), 1, 2, true } };
	fm_writer_symbol(w, 0, 0x1000, links, 2);
	fm_writer_source(w, FM_STR_LIT("/home/user/project/package_0/module_0.py"),
			 FM_STR_LIT("def main():\n\tpass\n"));
	for (uint32_t i = 0; i < N_FRAMES; i++) {
		if (i % 50 == 49)
			frames[i] = (struct frame){ FM_FRAME_ERROR, 0, 1 + dice_below(6) };
		else if (i % 2)
			frames[i] = (struct frame){ FM_FRAME_PYTHON, (uint32_t)dice_below(N_CODES),
						    2 * dice_below(300) + 1 };
		else if (i % 40 == 0)
			frames[i] = (struct frame){ FM_FRAME_NATIVE, FM_NO_ID, 0x7fff00000000u + dice_below(1 << 20) };
		else
			frames[i] = (struct frame){ FM_FRAME_NATIVE, (uint32_t)dice_below(N_IMAGES),
						    0x1000 + dice_below(0x3ff000) };
	}
	for (uint32_t i = 0; i < o->n_stacks; i++) {
		uint32_t shared = i ? o->n_shared + (uint32_t)dice_below(DEPTH - 1 - o->n_shared) : 0;
		if (shared)
			memcpy(paths[i], paths[dice_below(i)], shared * sizeof(paths[i][0]));
		for (uint32_t k = shared; k < DEPTH; k++)
			paths[i][k] = (uint32_t)dice_below(N_FRAMES);
	}
}

static uint32_t stack_id(struct fm_writer *w, const struct options *o, uint32_t stack)
{
	if (leaf_ids[stack] && !o->walk)
		return leaf_ids[stack];
	uint32_t id = FM_ROOT_STACK;
	for (uint32_t k = 0; k < DEPTH; k++) {
		const struct frame *f = &frames[paths[stack][k]];
		id = fm_writer_stack(w, id, fm_writer_frame(w, f->kind, f->ref, f->value));
	}
	return leaf_ids[stack] = id;
}

// Blocks that wait to be freed: the one whose place is drawn again ends then.
#define N_LIVE 4096
static uint64_t live_ids[N_LIVE];

static void write_allocation(struct fm_writer *w, const struct options *o, const struct thread *t)
{
	static uint64_t last_id;
	uint64_t size = 16 + dice_below(dice_below(4) ? 512 : 100000);
	uint64_t extra = 131072 - FM_MIN(size / 2, (uint64_t)60000); // about what a mean of 128 KiB gives
	uint64_t drawn = dice_below(100);
	if (drawn == 0)
		size = 262144 + dice_below(4000000), extra = 0;
	struct fm_alloc a = { t->id,        stack_id(w, o, skewed(o->n_stacks)), t->time_ns, ++last_id, size,
			      size + extra, (uint8_t)dice_below(FM_ALLOC_COPY) };
	uint64_t *place = &live_ids[dice_below(N_LIVE)];
	if (drawn == 1) {
		a.domain = FM_ALLOC_COPY;
		a.id = 0;
	} else if (*place && drawn < 92) {
		fm_writer_free(w, &(struct fm_free){ t->id, t->time_ns, *place });
	}
	if (a.id)
		*place = a.id;
	fm_writer_alloc(w, &a);
	if (drawn == 2)
		fm_writer_alloc_type(w, 0, a.id, dice_below(2) ? FM_STR_LIT("list") : FM_STR_LIT("Node"));
}

static void write_memory_facts(struct fm_writer *w, const struct options *o, uint64_t time_ns)
{
	uint64_t rss = 50000000 + dice_below(100000000);
	fm_writer_memory_level(w, &(struct fm_memory_level){ .time_ns = time_ns,
							     .rss_bytes = rss,
							     .rss_anon_bytes = rss / 4 * 3,
							     .rss_file_bytes = rss / 4,
							     .pss_bytes = rss / 8 * 7,
							     .cgroup_limit_bytes = (uint64_t)1 << 33 });
	if (o->sites)
		fm_writer_site(w, &(struct fm_site){ 0, stack_id(w, o, skewed(20)), FM_ALLOC_OBJ, dice_below(1000000),
						     dice_below(100), dice_below(100), dice_below(1000),
						     dice_below(1000), dice_below(1000), (uint8_t)dice_below(256) });
}

static uint32_t pick_stack(const struct options *o, uint64_t sample)
{
	static uint32_t n_met;
	if (o->even)
		return (uint32_t)dice_below(o->n_stacks);
	if (!o->fresh)
		return skewed(o->n_stacks);
	if ((double)n_met * (double)o->n_samples < 1.01 * (double)sample * o->n_stacks && n_met < o->n_stacks)
		return n_met++;
	return skewed(FM_MIN(o->n_stacks, 20000u));
}

static void write_samples(struct fm_writer *w, const struct options *o, struct thread *threads)
{
	uint64_t next_flush_ns = 1000000000u + o->flush_ns;
	for (uint64_t i = 0; i < o->n_samples; i++) {
		struct thread *t = &threads[i % o->n_threads];
		uint64_t weight_ns = 750000 + dice_below(500000); // 1 ms, jittered by a quarter
		t->time_ns += weight_ns + dice_below(3000);
		uint64_t drawn = dice();
		if (drawn % 64 == 0)
			t->time_ns += dice_below(50000000); // slept
		if (drawn >> 8 & 1)
			t->stack = pick_stack(o, i);
		if ((drawn >> 16) % 200 == 0)
			t->cpu = (uint32_t)dice_below(16);
		struct fm_sample sample = {
			.thread_id = t->id,
			.stack_id = stack_id(w, o, t->stack),
			.time_ns = t->time_ns,
			.weight_ns = weight_ns,
			.cpu = (uint16_t)t->cpu,
			.class = (uint8_t)(t->stack % 7 < 3     ? FM_CLASS_NATIVE
					   : t->stack % 50 == 3 ? FM_CLASS_GC
								: FM_CLASS_PYTHON),
		};
		fm_writer_sample(w, &sample);
		for (uint64_t due = o->n_allocs * (i + 1) / o->n_samples - o->n_allocs * i / o->n_samples; due; due--)
			write_allocation(w, o, t);
		if (o->n_allocs && i % 1000 == 0)
			write_memory_facts(w, o, t->time_ns);
		if (o->flush_ns && t == threads && t->time_ns >= next_flush_ns) {
			fm_writer_flush(w);
			next_flush_ns = t->time_ns + o->flush_ns;
		}
	}
}

int main(int argc, char **argv)
{
	struct options o = { .seed = 1, .flush_ns = 100000000, .n_threads = 8, .n_stacks = 4000, .n_shared = 8 };
	if (argc < 3) {
		fputs("usage: gen_profile OUT N_SAMPLES [--seed N] [--threads N] [--stacks N] [--shared N] "
		      "[--flush-ms N] [--memory N] [--sites] [--even|--fresh] [--walk]\n",
		      stderr);
		return 2;
	}
	o.path = argv[1];
	o.n_samples = strtoull(argv[2], NULL, 0);
	for (int i = 3; i < argc; i++) {
		uint64_t value = i + 1 < argc ? strtoull(argv[i + 1], NULL, 0) : 0;
		bool *flag = !strcmp(argv[i], "--walk")    ? &o.walk
			     : !strcmp(argv[i], "--sites") ? &o.sites
			     : !strcmp(argv[i], "--even")  ? &o.even
			     : !strcmp(argv[i], "--fresh") ? &o.fresh
							   : NULL;
		if (flag) {
			*flag = true;
			continue;
		}
		if (!strcmp(argv[i], "--seed"))
			o.seed = value;
		else if (!strcmp(argv[i], "--threads"))
			o.n_threads = (uint32_t)FM_MAX(value, 1u);
		else if (!strcmp(argv[i], "--stacks"))
			o.n_stacks = (uint32_t)FM_MAX(value, 1u);
		else if (!strcmp(argv[i], "--memory"))
			o.n_allocs = value;
		else if (!strcmp(argv[i], "--shared"))
			o.n_shared = (uint32_t)FM_MIN(value, DEPTH - 2u);
		else if (!strcmp(argv[i], "--flush-ms"))
			o.flush_ns = value * 1000000;
		else {
			fprintf(stderr, "gen_profile: what is %s?\n", argv[i]);
			return 2;
		}
		i++;
	}
	dice_state = o.seed;
	paths = fm_alloc(o.n_stacks * sizeof(*paths));
	leaf_ids = fm_alloc(o.n_stacks * sizeof(*leaf_ids));
	struct thread *threads = fm_alloc(o.n_threads * sizeof(*threads));
	struct fm_writer *w;
	struct fm_diag diag;
	if (fm_writer_open(o.path, &w, &diag)) {
		fprintf(stderr, "gen_profile: %s\n", diag.text);
		return 1;
	}
	write_tables(w, &o, threads);
	uint64_t start_ns = fm_now_ns(), start_cpu_ns = fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	write_samples(w, &o, threads);
	fm_writer_flush(w);
	uint64_t took_ns = FM_MAX(fm_now_ns() - start_ns, 1u);
	uint64_t cpu_ns = FM_MAX(fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns, 1u);
	for (uint32_t i = 0; i < o.n_threads; i++)
		fm_writer_thread_end(w, threads[i].id,
				     &(struct fm_thread_totals){ threads[i].time_ns + 1, threads[i].time_ns / 2, i });
	fm_writer_process_end(w, 0, threads[0].time_ns + 2, -1, 9);
	fm_writer_flush(w);
	uint64_t bytes = fm_writer_bytes(w);
	if (fm_writer_close(w, &diag)) {
		fprintf(stderr, "gen_profile: %s\n", diag.text);
		return 1;
	}
	printf("%" PRIu64 " samples, %" PRIu64
	       " bytes (%.2f a sample), %.2f M samples/s written (%.2f per CPU second)\n",
	       o.n_samples, bytes, o.n_samples ? (double)bytes / (double)o.n_samples : 0.0,
	       (double)o.n_samples * 1e3 / (double)took_ns, (double)o.n_samples * 1e3 / (double)cpu_ns);
	free(threads);
	free(leaf_ids);
	free(paths);
	return 0;
}
