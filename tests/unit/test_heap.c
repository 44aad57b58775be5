// SPDX-License-Identifier: Apache-2.0
// Memory figures against brute force: random traces through writer, reader and analysis, and small
// ones worked out by hand.
#include "test.h"

#include <math.h>

#include "aggregate/analysis/analysis.h"
#include "base/mem.h"
#include "support/dice.h"
#include "support/known.h"
#include "support/open.h"

#define MIB ((uint64_t)1 << 20)
#define N_LINES 10 // two functions of five lines
#define BEGIN_NS 1000000000u

static char path[64];

static void remove_path(void)
{
	unlink(path);
}

// A profile with two functions, f at lines 10 to 14 and g at lines 20 to 24 of app.py, and a thread
// without Python.
struct profile {
	struct fm_writer *w;
	uint32_t processes[2], threads[3]; // two threads of process 0, one of process 1
	uint32_t stacks[N_LINES + 1];      // by line; the last one has no Python frame
	uint32_t library_stack;            // f:10 calls a line of a library
};

static struct profile begin(uint64_t length_ns)
{
	snprintf(path, sizeof(path), "/tmp/fathom-heap-%d.fathom", (int)getpid());
	atexit(remove_path);
	struct profile p;
	struct fm_diag diag;
	CHECK_EQ(fm_writer_open(path, &p.w, &diag), FM_OK);
	fm_writer_meta(p.w, "memory", FM_STR_LIT("sampled"));
	for (uint32_t i = 0; i < 2; i++) {
		struct fm_process_info info = { .pid = 100 + i, .start_ns = BEGIN_NS };
		p.processes[i] = fm_writer_process(p.w, &info);
	}
	for (uint32_t i = 0; i < 3; i++)
		p.threads[i] = fm_writer_thread(p.w, p.processes[i / 2], 100 + i, BEGIN_NS);
	uint32_t codes[2] = { known_code(p.w, "f", "f", "/home/user/app.py", 10),
			      known_code(p.w, "g", "g", "/home/user/app.py", 20) };
	uint32_t image = fm_writer_image(p.w, FM_STR_LIT("/nonexistent/libnative.so"), FM_STR_LIT("x"), 0);
	uint32_t native = fm_writer_stack(p.w, FM_ROOT_STACK, fm_writer_frame(p.w, FM_FRAME_NATIVE, image, 0x40));
	for (uint32_t i = 0; i < N_LINES; i++) {
		uint32_t frame = fm_writer_frame(p.w, FM_FRAME_PYTHON, codes[i / 5], i % 5 * 10 + 1);
		uint32_t stack = FM_ROOT_STACK;
		if (i >= 5) // g is called by f:10
			stack = fm_writer_stack(p.w, stack, fm_writer_frame(p.w, FM_FRAME_PYTHON, codes[0], 1));
		p.stacks[i] = fm_writer_stack(p.w, stack, frame);
	}
	p.stacks[N_LINES] = native;
	uint32_t library = known_code(p.w, "dumps", "dumps", "/usr/lib/python3.9/json/__init__.py", 5);
	p.library_stack = fm_writer_stack(p.w, p.stacks[0], fm_writer_frame(p.w, FM_FRAME_PYTHON, library, 1));
	fm_writer_process_end(p.w, p.processes[0], BEGIN_NS + length_ns, 0, 0);
	return p;
}

static struct fm_analysis *finish(struct profile *p, const struct fm_view_options *options)
{
	struct fm_diag diag;
	CHECK_EQ(fm_writer_close(p->w, &diag), FM_OK);
	struct fm_analysis *a;
	struct fm_view_options defaults = FM_VIEW_OPTIONS_DEFAULT;
	CHECK_EQ(open_analysis(path, options ? options : &defaults, FM_ANALYSIS_STACKS, &a, &diag), FM_OK);
	return a;
}

static const struct fm_heap_line_row *line_row(const struct fm_analysis *a, uint32_t line)
{
	for (size_t i = 0; i < a->heap.lines.n; i++)
		if (a->heap.lines.items[i].line == line)
			return &a->heap.lines.items[i];
	return NULL;
}

static const struct fm_heap_function_row *function_row(const struct fm_analysis *a, const char *name)
{
	for (size_t i = 0; i < a->heap.functions.n; i++)
		if (fm_str_eq(fm_analysis_function(a, a->heap.functions.items[i].function_id)->name, fm_str_of(name)))
			return &a->heap.functions.items[i];
	return NULL;
}

static uint32_t line_of(unsigned i)
{
	return i < 5 ? 10 + i : 20 + i - 5;
}

#define N_BLOCKS 300

struct trace {
	struct {
		uint64_t born_ns, freed_ns, size, weight;
		unsigned line, thread;
		uint8_t domain;
	} blocks[N_BLOCKS];
	uint64_t length_ns, child_end_ns;
	uint64_t id_step; // numbers one after the other, or far apart
};

static void invent(struct trace *t, uint64_t seed)
{
	dice_state = seed;
	t->id_step = seed % 2 ? 1 : 0x9e3779b97f4a7c15u;
	t->length_ns = 1000 + dice() % 1000000;
	t->child_end_ns = BEGIN_NS + t->length_ns / 2 + dice() % (t->length_ns / 2);
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		t->blocks[i].thread = (unsigned)(dice() % 3);
		uint64_t until_ns = t->blocks[i].thread == 2 ? t->child_end_ns : BEGIN_NS + t->length_ns;
		t->blocks[i].born_ns = BEGIN_NS + dice() % (until_ns - BEGIN_NS);
		t->blocks[i].freed_ns =
			dice() % 4 ? t->blocks[i].born_ns + dice() % (until_ns - t->blocks[i].born_ns + 1) : UINT64_MAX;
		t->blocks[i].size = 1 + dice() % (dice() % 3 ? 1000 : MIB);
		t->blocks[i].weight = t->blocks[i].size + (dice() % 2 ? dice() % 200000 : 0);
		t->blocks[i].line = (unsigned)(dice() % (N_LINES + 1));
		t->blocks[i].domain = (uint8_t)(dice() % FM_ALLOC_COPY);
	}
}

static void write_free(struct profile *p, const struct trace *t, unsigned i)
{
	// Any thread of the block's process.
	unsigned by = t->blocks[i].thread == 2 ? 2 : (unsigned)(dice() % 2);
	if (t->blocks[i].freed_ns != UINT64_MAX)
		fm_writer_free(p->w, &(struct fm_free){ p->threads[by], t->blocks[i].freed_ns, (i + 1) * t->id_step });
}

static void write_trace(struct profile *p, const struct trace *t)
{
	fm_writer_process_end(p->w, p->processes[1], t->child_end_ns, 0, 0);
	for (unsigned i = 0; i < N_BLOCKS / 2; i++) // before they are born: the order must not matter
		write_free(p, t, i);
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		fm_writer_alloc(p->w, &(struct fm_alloc){ p->threads[t->blocks[i].thread], p->stacks[t->blocks[i].line],
							  t->blocks[i].born_ns, (i + 1) * t->id_step, t->blocks[i].size,
							  t->blocks[i].weight, t->blocks[i].domain });
		if (i % 50 == 49)
			fm_writer_flush(p->w);
	}
	for (unsigned i = N_BLOCKS / 2; i < N_BLOCKS; i++)
		write_free(p, t, i);
	fm_writer_free(p->w, &(struct fm_free){ p->threads[0], BEGIN_NS + 5, 9999 }); // nobody's
	for (unsigned i = 0; i < N_BLOCKS; i++) // of the same number in the other process
		if (t->blocks[i].thread == 2 && i % 7 == 0)
			fm_writer_free(p->w, &(struct fm_free){ p->threads[0], BEGIN_NS + 5, (i + 1) * t->id_step });
}

static uint64_t gone_ns(const struct trace *t, unsigned i)
{
	uint64_t end_ns =
		t->blocks[i].thread == 2 && t->child_end_ns < BEGIN_NS + t->length_ns ? t->child_end_ns : UINT64_MAX;
	return FM_MIN(t->blocks[i].freed_ns, end_ns);
}

// Live bytes of a line (N_LINES + 1: of all) right after everything born at this instant was born,
// and before (after) what dies at it has died.
static uint64_t live(const struct trace *t, unsigned line, uint64_t at_ns, bool is_after_deaths)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < N_BLOCKS; i++)
		if ((line > N_LINES || t->blocks[i].line == line) && t->blocks[i].born_ns <= at_ns &&
		    (is_after_deaths ? gone_ns(t, i) > at_ns : gone_ns(t, i) >= at_ns))
			sum += t->blocks[i].weight;
	return sum;
}

static void check_line(const struct trace *t, unsigned line, uint64_t peak_ns, const struct fm_heap_figures *f,
		       const uint64_t *timeline)
{
	uint64_t alloc = 0, python = 0, peak = 0;
	double integral = 0, alloc_var = 0;
	uint64_t end_ns = BEGIN_NS + t->length_ns;
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		if (t->blocks[i].line != line)
			continue;
		alloc += t->blocks[i].weight;
		python += t->blocks[i].domain <= FM_ALLOC_RAW ? t->blocks[i].weight : 0;
		alloc_var += (double)t->blocks[i].weight * (double)(t->blocks[i].weight - t->blocks[i].size);
		peak = FM_MAX(peak, live(t, line, t->blocks[i].born_ns, false));
		integral +=
			(double)t->blocks[i].weight * (double)(FM_MIN(gone_ns(t, i), end_ns) - t->blocks[i].born_ns);
	}
	CHECK_EQ(f->alloc_bytes, alloc);
	CHECK_EQ(f->python_bytes, python);
	CHECK_EQ(f->peak_bytes, peak);
	CHECK_EQ(f->at_peak_bytes, live(t, line, peak_ns, false));
	CHECK(fabs((double)f->avg_bytes - integral / (double)t->length_ns) <= 1);
	CHECK(fabs(f->alloc_var - alloc_var) <= 1e-9 * alloc_var);
	uint64_t highest = 0;
	for (unsigned k = 0; timeline && k < FM_HEAP_LINE_BUCKETS; k++)
		highest = FM_MAX(highest, timeline[k]);
	CHECK(!timeline || highest == peak);
}

TEST(random_traces_give_what_brute_force_gives)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct trace t;
		invent(&t, seed);
		struct profile p = begin(t.length_ns);
		write_trace(&p, &t);
		struct fm_analysis *a = finish(&p, NULL);
		const struct fm_heap *h = &a->heap;
		uint64_t peak = 0, peak_ns = 0, alloc = 0;
		for (unsigned i = 0; i < N_BLOCKS; i++) {
			uint64_t now = live(&t, N_LINES + 1, t.blocks[i].born_ns, false);
			if (now > peak || (now == peak && t.blocks[i].born_ns < peak_ns)) {
				peak = now;
				peak_ns = t.blocks[i].born_ns;
			}
			alloc += t.blocks[i].weight;
		}
		CHECK_EQ(h->peak_bytes, peak);
		CHECK_EQ(h->alloc_bytes, alloc);
		CHECK(h->peaks.n > 0 && h->peaks.items[0].bytes == peak && h->peaks.items[0].time_ns == peak_ns);
		uint64_t sum_alloc = h->no_python.alloc_bytes, sum_at_peak = h->no_python.at_peak_bytes,
			 sum_live = h->no_python.live_bytes;
		for (unsigned i = 0; i < N_LINES; i++) {
			const struct fm_heap_line_row *row = line_row(a, line_of(i));
			if (!row)
				continue;
			check_line(&t, i, peak_ns, &row->f, row->timeline);
			sum_alloc += row->f.alloc_bytes;
			sum_at_peak += row->f.at_peak_bytes;
			sum_live += row->f.live_bytes;
		}
		check_line(&t, N_LINES, peak_ns, &h->no_python, NULL);
		CHECK_EQ(sum_alloc, h->alloc_bytes);
		CHECK_EQ(sum_at_peak, h->peak_bytes);
		CHECK_EQ(sum_live, h->live_bytes);
		for (size_t k = 0; k < h->peaks.n; k++) {
			uint64_t sum = 0;
			for (uint32_t i = 0; i < h->peaks.items[k].n_lines; i++)
				sum += h->peak_lines.items[h->peaks.items[k].first_line + i].bytes;
			CHECK_EQ(sum, h->peaks.items[k].bytes);
			CHECK(!k || h->peaks.items[k].bytes <= h->peaks.items[k - 1].bytes);
		}
		uint64_t highest = 0, by_stack = 0;
		for (size_t i = 0; i < h->timeline.n; i++) {
			highest = FM_MAX(highest, h->timeline.items[i].heap_high_bytes);
			CHECK(h->timeline.items[i].heap_bytes <= h->timeline.items[i].heap_high_bytes);
		}
		CHECK_EQ(highest, peak);
		for (size_t i = 0; i < h->stacks.n; i++)
			by_stack += h->stacks.items[i].at_peak_bytes;
		CHECK_EQ(by_stack, peak);
		// g is only called by f, so f with its callees holds what all Python lines hold.
		const struct fm_heap_function_row *f = function_row(a, "f"), *g = function_row(a, "g");
		CHECK_EQ(f->total.alloc_bytes, f->self.alloc_bytes + g->self.alloc_bytes);
		CHECK_EQ(f->total.at_peak_bytes, peak - h->no_python.at_peak_bytes);
		CHECK(f->total.peak_bytes >= FM_MAX(f->self.peak_bytes, g->self.peak_bytes));
		CHECK(f->total.peak_bytes <= f->self.peak_bytes + g->self.peak_bytes);
		CHECK_EQ(g->total.peak_bytes, g->self.peak_bytes);
		fm_analysis_close(a);
	}
}

static void allocate(struct profile *p, uint32_t stack, double at_s, double freed_s, uint64_t size, uint64_t weight)
{
	static uint64_t last_id;
	uint64_t id = ++last_id;
	fm_writer_alloc(p->w, &(struct fm_alloc){ p->threads[0], stack, BEGIN_NS + (uint64_t)(at_s * 1e9), id, size,
						  weight, FM_ALLOC_OBJ });
	if (freed_s > 0)
		fm_writer_free(p->w, &(struct fm_free){ p->threads[0], BEGIN_NS + (uint64_t)(freed_s * 1e9), id });
}

TEST(two_peaks_are_two_with_their_lines)
{
	struct profile p = begin(10000000000);
	allocate(&p, p.stacks[0], 1, 3, 400 * MIB, 400 * MIB);
	allocate(&p, p.stacks[1], 5, 7, 400 * MIB + 8, 400 * MIB + 8);
	allocate(&p, p.stacks[2], 0.5, 9, 5 * MIB, 5 * MIB);
	allocate(&p, p.stacks[3], 8, 8.5, 10 * MIB, 10 * MIB); // too small to be one
	struct fm_analysis *a = finish(&p, NULL);
	const struct fm_heap *h = &a->heap;
	CHECK_EQ(h->peaks.n, 2);
	CHECK_EQ(h->peaks.items[0].bytes, 405 * MIB + 8);
	CHECK_EQ(h->peaks.items[1].bytes, 405 * MIB);
	CHECK_EQ(h->peaks.items[1].time_ns, BEGIN_NS + 1000000000u);
	CHECK_EQ(h->peak_lines.items[h->peaks.items[0].first_line].line, 11);
	CHECK_EQ(h->peak_lines.items[h->peaks.items[1].first_line].line, 10);
	CHECK_EQ(h->peaks.items[0].n_lines, 2);
	CHECK_EQ(line_row(a, 10)->f.peak_bytes, 400 * MIB); // its own maximum, although not at the program's
	CHECK_EQ(line_row(a, 10)->f.at_peak_bytes, 0);
	CHECK_EQ(line_row(a, 10)->f.avg_bytes, 80 * MIB); // 2 s of 10
	CHECK_EQ(line_row(a, 10)->f.peak_var, 0);
	CHECK_EQ(line_row(a, 10)->timeline[5], 400 * MIB);
	CHECK_EQ(line_row(a, 10)->timeline[12], 0);
	CHECK_EQ(line_row(a, 11)->timeline[16], 400 * MIB + 8);
	CHECK_EQ(h->live_bytes, 0);
	CHECK_EQ(h->leaks.n, 0);
	fm_analysis_close(a);
}

TEST(libraries_are_charged_to_their_caller)
{
	for (int detailed = 0; detailed < 2; detailed++) {
		struct profile p = begin(1000000000);
		allocate(&p, p.library_stack, 0.1, 0, 1000, 131572);
		allocate(&p, p.stacks[0], 0.2, 0, MIB, MIB);
		struct fm_view_options options = FM_VIEW_OPTIONS_DEFAULT;
		options.detailed = detailed;
		struct fm_analysis *a = finish(&p, &options);
		CHECK_EQ(line_row(a, 10)->f.alloc_bytes, MIB + (detailed ? 0 : 131572));
		CHECK_EQ(line_row(a, 5) != NULL, detailed);
		CHECK_EQ(function_row(a, "dumps")->self.alloc_bytes, detailed ? 131572 : 0);
		CHECK_EQ(function_row(a, "dumps")->total.alloc_bytes, 131572);
		CHECK_EQ(function_row(a, "f")->self.alloc_bytes, MIB + (detailed ? 0 : 131572));
		CHECK_EQ(function_row(a, "f")->total.alloc_bytes, MIB + 131572);
		double sd = sqrt(131572.0 * (131572 - 1000));
		CHECK(fabs(fm_heap_plus_minus(a->heap.alloc_var) - 1.96 * sd) < 1);
		CHECK_EQ(a->heap.growth_rate * 1000, 1000);
		fm_analysis_close(a);
	}
}

TEST(what_was_never_used_is_not_held)
{
	struct profile p = begin(1000000000);
	// Two large blocks at once; of one, a quarter was used, as told last.
	for (uint64_t id = 1; id <= 2; id++)
		fm_writer_alloc(p.w, &(struct fm_alloc){ p.threads[0], p.stacks[id], BEGIN_NS + id, 1000000 + id,
							 64 * MIB, 64 * MIB, FM_ALLOC_MMAP });
	fm_writer_alloc_touched(p.w, p.processes[0], 1000001, 3 * MIB);
	fm_writer_alloc_touched(p.w, p.processes[0], 1000001, 16 * MIB);
	fm_writer_alloc_touched(p.w, p.processes[0], 1000099, 1); // of a block that nobody knows
	allocate(&p, p.stacks[3], 0.5, 0.6, MIB, MIB);
	struct fm_analysis *a = finish(&p, NULL);
	CHECK_EQ(a->heap.alloc_bytes, 129 * MIB);
	CHECK_EQ(a->heap.peak_bytes, 81 * MIB);
	CHECK_EQ(a->heap.live_bytes, 80 * MIB);
	CHECK_EQ(a->heap.untouched_bytes, 48 * MIB);
	CHECK_EQ(line_row(a, 11)->f.alloc_bytes, 64 * MIB);
	CHECK_EQ(line_row(a, 11)->f.peak_bytes, 16 * MIB);
	CHECK_EQ(line_row(a, 11)->f.at_peak_bytes, 16 * MIB);
	CHECK_EQ(line_row(a, 11)->f.untouched_bytes, 48 * MIB);
	CHECK_EQ(line_row(a, 12)->f.peak_bytes, 64 * MIB);
	CHECK_EQ(line_row(a, 12)->f.untouched_bytes, 0);
	CHECK_EQ(a->heap.peaks.items[0].bytes, 81 * MIB);
	fm_analysis_close(a);
}

// 36 MB in twelve seconds beside a little one; a dictionary's table is two fifths of it and moves
// twice.
TEST(the_larger_of_two_leaks_is_found_too)
{
	struct profile p = begin(12000000000);
	double table_from = 0;
	uint64_t table = 2 * MIB;
	for (unsigned i = 0; i < 240; i++) {
		double at = i * 0.05;
		allocate(&p, p.stacks[1], at, 0, 1000, 131572);
		allocate(&p, p.stacks[1], at + 0.001, at + 0.002, 1000, 131572); // made and freed beside it
		allocate(&p, p.stacks[1], at + 0.003, at + 0.004, 1000, 131572);
		allocate(&p, p.stacks[2], at, 0, 1000, 30000);
		if (i == 60 || i == 120) {
			allocate(&p, p.stacks[1], table_from, at + 0.0005, table, table);
			table_from = at;
			table *= 2;
		}
	}
	allocate(&p, p.stacks[1], table_from, 0, table, table);
	struct fm_analysis *a = finish(&p, NULL);
	CHECK_EQ(a->heap.leaks.n, 2);
	bool is_found = false;
	for (size_t i = 0; i < a->heap.leaks.n; i++)
		is_found |= a->heap.leaks.items[i].line == 11;
	CHECK(is_found);
	fm_analysis_close(a);
}

TEST(a_run_too_short_to_tell_says_so)
{
	struct profile p = begin(4600000000);
	for (unsigned i = 0; i < 450; i++) {
		allocate(&p, p.stacks[1], i * 0.01, 0, 300000, 300000);
		allocate(&p, p.stacks[2], i * 0.01, i * 0.01 + 0.02, 300000, 300000);
	}
	struct fm_analysis *a = finish(&p, NULL);
	CHECK_EQ(a->heap.leaks.n, 0);
	CHECK_EQ(a->heap.doubt.why, FM_HEAP_DOUBT_SHORT);
	CHECK_EQ(a->heap.doubt.place.line, 11);
	CHECK_EQ(a->heap.doubt.place.bytes, 450 * 300000);
	fm_analysis_close(a);
}

TEST(copies_are_no_heap)
{
	struct profile p = begin(1000000000);
	fm_writer_alloc(p.w,
			&(struct fm_alloc){ p.threads[1], p.stacks[7], BEGIN_NS + 7, 0, 100, 8 * MIB, FM_ALLOC_COPY });
	allocate(&p, p.stacks[1], 0.2, 0.3, 300, 300);
	struct fm_analysis *a = finish(&p, NULL);
	CHECK_EQ(a->heap.copy_bytes, 8 * MIB);
	CHECK_EQ(a->heap.peak_bytes, 300);
	CHECK_EQ(line_row(a, 22)->f.copy_bytes, 8 * MIB);
	CHECK_EQ(line_row(a, 22)->f.peak_bytes, 0);
	CHECK_EQ(function_row(a, "g")->self.copy_bytes, 8 * MIB);
	CHECK_EQ(function_row(a, "f")->total.copy_bytes, 8 * MIB);
	fm_analysis_close(a);
}

TEST(a_leak_is_named_with_its_types_and_teardown_hides_nothing)
{
	struct profile p = begin(20000000000);
	uint64_t first = 1000000;
	for (unsigned i = 0; i < 190; i++) {
		uint64_t at_ns = BEGIN_NS + (uint64_t)i * 100000000;
		fm_writer_alloc(p.w, &(struct fm_alloc){ p.threads[0], p.stacks[6], at_ns, first + i, 4000, 135000,
							 FM_ALLOC_OBJ });
		if (i % 20 == 0)
			fm_writer_alloc_type(p.w, p.processes[0], first + i,
					     i % 60 ? FM_STR_LIT("Node") : FM_STR_LIT("list"));
		// The interpreter ends and frees it all.
		fm_writer_free(p.w, &(struct fm_free){ p.threads[0], BEGIN_NS + 19990000000u + i, first + i });
		allocate(&p, p.stacks[2], i * 0.1, i * 0.1 + 0.05, 100000, 180000); // no leak beside it
	}
	struct fm_analysis *a = finish(&p, NULL);
	CHECK_EQ(a->heap.leaks.n, 1);
	const struct fm_heap_leak_row *leak = &a->heap.leaks.items[0];
	CHECK_EQ(leak->line, 21);
	CHECK_STR(leak->types, "Node, list");
	CHECK(leak->likelihood > 0.98);
	CHECK(fabs(leak->velocity_bytes_s - 1350000) < leak->velocity_plus_minus_bytes_s);
	uint64_t leaked = 0;
	for (size_t i = 0; i < a->heap.stacks.n; i++)
		leaked += a->heap.stacks.items[i].leaked_bytes;
	CHECK_EQ(leaked, leak->bytes);
	CHECK(a->heap.live_bytes > 25000000);
	CHECK(a->heap.slope_bytes_s > 1200000 && a->heap.slope_bytes_s < 1500000);
	fm_analysis_close(a);
}

TEST(a_leak_without_python_is_named_by_its_function)
{
	struct profile p = begin(20000000000);
	for (unsigned i = 0; i < 190; i++) {
		allocate(&p, p.stacks[N_LINES], i * 0.1, 0, 300000, 300000);
		allocate(&p, FM_ROOT_STACK, i * 0.1, 0, 300000, 300000); // by nobody at all: nothing to show
	}
	struct fm_analysis *a = finish(&p, NULL);
	CHECK_EQ(a->heap.leaks.n, 1);
	const struct fm_heap_leak_row *leak = &a->heap.leaks.items[0];
	CHECK_EQ(leak->file_id, FM_NO_ID);
	CHECK_STR(fm_analysis_function(a, leak->function_id)->module, "libnative.so");
	CHECK(fabs(leak->velocity_bytes_s - 3000000) < 30000);
	fm_analysis_close(a);
}

TEST(waiting_that_is_told_late_does_not_move_the_end)
{
	struct profile p = begin(10000000000);
	allocate(&p, p.stacks[0], 1, 9.9, MIB, MIB); // freed by the interpreter's end
	uint64_t at_ns = BEGIN_NS + 9500000000;
	fm_writer_sample(p.w, &(struct fm_sample){ p.threads[0], p.stacks[1], at_ns, 1000000, 0, FM_CLASS_PYTHON });
	fm_writer_sample(p.w, &(struct fm_sample){ p.threads[0], p.stacks[N_LINES], at_ns + 450000000, 1000000, 0,
						   FM_CLASS_NATIVE });
	fm_writer_sample(
		p.w, &(struct fm_sample){ p.threads[0], p.stacks[1], at_ns + 460000000, 1000000, 0, FM_CLASS_WAIT });
	struct fm_analysis *a = finish(&p, NULL);
	CHECK_EQ(a->heap.settled_ns, at_ns);
	CHECK_EQ(a->heap.live_bytes, MIB);
	fm_analysis_close(a);
}

TEST(exact_sites_are_taken_as_they_are)
{
	struct profile p = begin(1000000000);
	fm_writer_site(p.w,
		       &(struct fm_site){ p.processes[0], p.stacks[0], FM_ALLOC_OBJ, 1000, 10, 4, 600, 800, 700, 51 });
	fm_writer_site(p.w,
		       &(struct fm_site){ p.processes[0], p.stacks[0], FM_ALLOC_MALLOC, 500, 5, 5, 0, 500, 100, 255 });
	fm_writer_site(
		p.w, &(struct fm_site){ p.processes[0], p.stacks[N_LINES], FM_ALLOC_MALLOC, 50, 1, 0, 50, 50, 50, 0 });
	fm_writer_memory_level(p.w, &(struct fm_memory_level){ .process_id = p.processes[0],
							       .time_ns = BEGIN_NS + 500000000,
							       .heap_bytes = 650,
							       .heap_high_bytes = 850 });
	struct fm_analysis *a = finish(&p, NULL);
	CHECK(a->heap.is_exact);
	CHECK_EQ(a->heap.alloc_bytes, 1550);
	CHECK_EQ(a->heap.peak_bytes, 850);
	CHECK_EQ(a->heap.live_bytes, 650);
	const struct fm_heap_line_row *row = line_row(a, 10);
	CHECK_EQ(row->f.alloc_bytes, 1500);
	CHECK_EQ(row->f.python_bytes, 1000);
	CHECK_EQ(row->f.n_allocs, 15);
	CHECK_EQ(row->f.at_peak_bytes, 800);
	CHECK_EQ(row->f.peak_bytes, 850); // at most what the program held
	CHECK_EQ(row->f.avg_bytes, 800 / 5 + 500);
	CHECK_EQ(a->heap.no_python.alloc_bytes, 50);
	CHECK_EQ(function_row(a, "f")->self.alloc_bytes, 1500);
	uint64_t high = 0;
	for (size_t i = 0; i < a->heap.timeline.n; i++)
		high = FM_MAX(high, a->heap.timeline.items[i].heap_high_bytes);
	CHECK_EQ(high, 850);
	fm_analysis_close(a);
}

TEST(resident_memory_is_taken_apart)
{
	struct profile p = begin(10000000000);
	fm_writer_process_end(p.w, p.processes[1], BEGIN_NS + 5000000000u, 0, 0);
	struct fm_memory_level levels[] = {
		{ p.processes[0], BEGIN_NS + 1000000000u, 0, 0, 50 * MIB, 30 * MIB, 19 * MIB, MIB, 40 * MIB, 0,
		  60 * MIB, 0 },
		{ p.processes[1], BEGIN_NS + 2000000000u, 0, 0, 40 * MIB, 30 * MIB, 10 * MIB, 0, 0, 2 * MIB, 0,
		  200 * MIB },
		{ p.processes[0], BEGIN_NS + 6000000000u, 0, 0, 70 * MIB, 50 * MIB, 19 * MIB, MIB, 0, 0, 150 * MIB,
		  300 * MIB },
	};
	for (size_t i = 0; i < 3; i++)
		fm_writer_memory_level(p.w, &levels[i]);
	allocate(&p, p.stacks[0], 0.5, 7, 20 * MIB, 20 * MIB);
	fm_writer_alloc(p.w, &(struct fm_alloc){ p.threads[0], p.stacks[N_LINES], BEGIN_NS + 5, 77777, 10 * MIB,
						 10 * MIB, FM_ALLOC_MALLOC });
	struct fm_analysis *a = finish(&p, NULL);
	const struct fm_heap_resident *r = &a->heap.resident;
	CHECK_EQ(r->rss_bytes, 90 * MIB); // both lived
	CHECK_EQ(r->time_ns, BEGIN_NS + 2000000000u);
	CHECK_EQ(r->anon_bytes, 60 * MIB);
	CHECK_EQ(r->file_bytes, 29 * MIB);
	CHECK_EQ(r->shmem_bytes, MIB);
	CHECK_EQ(r->swap_bytes, 2 * MIB);
	CHECK_EQ(r->python_bytes, 20 * MIB);
	CHECK_EQ(r->native_bytes, 10 * MIB);
	CHECK_EQ(r->unexplained_bytes, 32 * MIB);
	CHECK_EQ(r->untouched_bytes, 0);
	CHECK_EQ(r->owners.n, 1);
	CHECK_STR(r->owners.items[0].library, "/nonexistent/libnative.so");
	CHECK_EQ(a->heap.cgroup_limit_bytes, 200 * MIB);
	CHECK_EQ(a->heap.max_cgroup_bytes, 150 * MIB);
	// The timeline: process 1 is gone after 5 s.
	CHECK_EQ(a->heap.timeline.items[255].rss_bytes, 70 * MIB);
	CHECK_EQ(a->heap.timeline.items[60].rss_bytes, 90 * MIB);
	CHECK_EQ(a->heap.timeline.items[140].rss_bytes, 50 * MIB);
	fm_analysis_close(a);
}

TEST(a_capture_without_memory_has_none)
{
	struct profile p = begin(1000000000);
	fm_writer_meta(p.w, "memory", FM_STR_LIT("off"));
	struct fm_analysis *a = finish(&p, NULL);
	CHECK(!a->heap.is_there);
	CHECK_EQ(a->heap.timeline.n, 0);
	CHECK_EQ(a->heap.lines.n, 0);
	fm_analysis_close(a);
}

// The sum of a thinned log is the sum of the whole one, on average.
TEST(thinning_is_unbiased_and_keeps_large_blocks)
{
	double sum = 0, sq = 0;
	unsigned n_seeds = 300;
	for (unsigned seed = 1; seed <= n_seeds; seed++) {
		struct fm_heap_log log = { .max_blocks = 500 };
		dice_state = seed;
		uint64_t live_bytes = 0, large = 0;
		for (uint64_t i = 0; i < 4000; i++) {
			uint64_t id = seed * 100000 + i, size = i % 100 == 99 ? MIB : 64;
			uint64_t weight = size == 64 ? 1000 : size;
			fm_heap_log_alloc(
				&log, &(struct fm_alloc){ .id = id, .time_ns = i + 1, .size = size, .weight = weight });
			if (i % 2 == 0)
				fm_heap_log_free(&log, &(struct fm_free){ .id = id, .time_ns = i + 2 });
		}
		struct fm_profile profile = { 0 };
		fm_heap_log_sort(&log, &profile);
		CHECK(log.thinning >= 3 && log.blocks.n <= 500);
		for (size_t i = 0; i < log.blocks.n; i++) {
			const struct fm_block *b = &log.blocks.items[i];
			if (b->freed_ns == UINT64_MAX && b->size == 64)
				live_bytes += b->weight;
			large += b->size == MIB;
		}
		CHECK_EQ(large, 40);
		sum += (double)live_bytes;
		sq += (double)live_bytes * (double)live_bytes;
		fm_heap_log_deinit(&log);
	}
	double mean = sum / n_seeds, sd = sqrt(sq / n_seeds - mean * mean);
	CHECK(fabs(mean - 1960 * 1000) < 3.5 * sd / sqrt(n_seeds));
}

TEST_MAIN()
