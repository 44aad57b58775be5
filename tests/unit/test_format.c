// SPDX-License-Identifier: Apache-2.0
// Writer and reader against each other, and the writer against places that cannot be written to.
#include "scratch_profile.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "format/record.h"

TEST(memory_survives_a_round_trip)
{
	struct fm_writer *w = open_writer();
	uint32_t process = fm_writer_process(w, &some_process);
	uint32_t threads[2] = { fm_writer_thread(w, process, 40, 124), fm_writer_thread(w, process, 41, 125) };
	uint32_t stack = fm_writer_stack(w, FM_ROOT_STACK, fm_writer_frame(w, FM_FRAME_NATIVE, FM_NO_ID, 7));
	const struct fm_alloc allocs[] = {
		{ threads[0], stack, 5000, 1, 56, 131100, FM_ALLOC_OBJ },
		{ threads[1], stack, 4000, UINT64_MAX, UINT64_MAX, UINT64_MAX, FM_ALLOC_MMAP },
		{ threads[0], FM_ROOT_STACK, 5001, 0, 1 << 20, 8 << 20, FM_ALLOC_COPY },
		{ threads[0], stack, 4999, 2, 0, 0, FM_ALLOC_RAW },  // time may step back
		{ threads[0], 99, 5002, 3, 10, 9, FM_ALLOC_MALLOC }, // no such stack: the empty one
	};
	const struct fm_free frees[] = { { threads[1], 3000, 2 }, { threads[0], 6000, 1 }, { threads[1], 2999, 9 } };
	for (size_t i = 0; i < 5; i++)
		fm_writer_alloc(w, &allocs[i]);
	for (size_t i = 0; i < 3; i++)
		fm_writer_free(w, &frees[i]);
	fm_writer_alloc(w, &(struct fm_alloc){ .thread_id = 77 }); // left out
	fm_writer_alloc(w, &(struct fm_alloc){ .domain = FM_N_ALLOC_DOMAINS });
	fm_writer_free(w, &(struct fm_free){ .thread_id = 77 });
	struct fm_site site = { process, stack, FM_ALLOC_MEM, 1, 2, 3, 4, 5, 6, 7 };
	fm_writer_site(w, &site);
	site.alloc_bytes = 100;
	fm_writer_site(w, &site); // replaces
	site.domain = FM_ALLOC_OBJ;
	fm_writer_site(w, &site);
	const struct fm_history_point points[] = { { 5, 10, 10 }, { 9, 1ull << 40, 3 }, { 9, 7, UINT64_MAX } };
	fm_writer_site_history(w, &site, points, 3);
	fm_writer_site_history(w, &(struct fm_site){ .process_id = 77 }, points, 3); // left out
	struct fm_memory_level level = { process, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 };
	fm_writer_memory_level(w, &level);
	fm_writer_alloc_type(w, process, 3, FM_STR_LIT("Node"));
	fm_writer_alloc_touched(w, process, 77, 1);
	fm_writer_alloc_touched(w, process, 77, (uint64_t)5 << 40);
	close_writer(w);

	struct fm_reader *r;
	struct fm_diag diag;
	CHECK_EQ(fm_reader_open(scratch_path(), &r, &diag), FM_OK);
	size_t n_allocs = 0, n_frees = 0;
	struct fm_alloc got[5];
	struct fm_free got_frees[3];
	for (struct fm_event ev; fm_reader_next(r, &ev) == FM_OK;)
		if (ev.type == FM_EVENT_ALLOC)
			got[n_allocs++] = ev.alloc;
		else if (ev.type == FM_EVENT_FREE)
			got_frees[n_frees++] = ev.free;
	CHECK_EQ(n_allocs, 5);
	CHECK_EQ(n_frees, 3);
	static const size_t alloc_order[] = { 0, 2, 3, 4, 1 }, free_order[] = { 1, 0, 2 }; // by thread
	for (size_t i = 0; i < 5; i++) {
		const struct fm_alloc *a = &allocs[alloc_order[i]];
		CHECK_EQ(got[i].thread_id, a->thread_id);
		CHECK_EQ(got[i].stack_id, a->stack_id == 99 ? FM_ROOT_STACK : a->stack_id);
		CHECK_EQ(got[i].time_ns, a->time_ns);
		CHECK_EQ(got[i].id, a->id);
		CHECK_EQ(got[i].size, a->size);
		CHECK_EQ(got[i].weight, a->weight);
		CHECK_EQ(got[i].domain, a->domain);
	}
	for (size_t i = 0; i < 3; i++) {
		CHECK_EQ(got_frees[i].thread_id, frees[free_order[i]].thread_id);
		CHECK_EQ(got_frees[i].time_ns, frees[free_order[i]].time_ns);
		CHECK_EQ(got_frees[i].id, frees[free_order[i]].id);
	}
	const struct fm_profile *p = fm_reader_profile(r);
	CHECK_EQ(p->sites.n, 2);
	CHECK_EQ(p->sites.items[0].alloc_bytes, 100);
	CHECK_EQ(p->sites.items[0].domain, FM_ALLOC_MEM);
	CHECK_EQ(p->sites.items[1].at_peak_bytes, 6);
	CHECK_EQ(p->histories.n, 1);
	CHECK_EQ(p->histories.items[0].domain, FM_ALLOC_OBJ);
	CHECK_EQ(p->histories.items[0].n, 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct fm_history_point *point = &p->history_points.items[p->histories.items[0].first + i];
		CHECK_EQ(point->time_ns, points[i].time_ns);
		CHECK_EQ(point->alloc_bytes, points[i].alloc_bytes);
		CHECK_EQ(point->live_bytes, points[i].live_bytes);
	}
	CHECK_EQ(p->memory_levels.n, 1);
	const uint64_t *fields = &p->memory_levels.items[0].time_ns; // eleven of one type
	for (uint64_t i = 0; i < 11; i++)
		CHECK_EQ(fields[i], 10 + i);
	CHECK_EQ(p->alloc_types.n, 1);
	CHECK_STR(p->alloc_types.items[0].name, "Node");
	CHECK_EQ(p->alloc_touches.n, 2);
	CHECK_EQ(p->alloc_touches.items[1].alloc_id, 77);
	CHECK_EQ(p->alloc_touches.items[1].bytes, (uint64_t)5 << 40);
	CHECK_EQ(p->n_lost_memory_events, 0);
	fm_reader_close(r);
}

TEST(sites_survive_in_columns)
{
	enum { N = 3000 };
	static struct fm_site sites[N];
	uint64_t state = 7;
	struct fm_writer *w = open_writer();
	for (uint32_t i = 0; i < 2; i++)
		fm_writer_process(w, &some_process);
	uint32_t stacks[100];
	for (uint32_t i = 0; i < 100; i++)
		stacks[i] = fm_writer_stack(w, i ? stacks[i / 2] : FM_ROOT_STACK,
					    fm_writer_frame(w, FM_FRAME_NATIVE, FM_NO_ID, i));
	for (uint32_t i = 0; i < N; i++) {
		uint64_t v[6];
		for (unsigned k = 0; k < 6; k++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			v[k] = state >> (state >> 58); // of all sizes, in no order
		}
		// Each of the 600 that can be comes five times: the last counts.
		sites[i] = (struct fm_site){ .process_id = i % 2,
					     .stack_id = stacks[i * 37 % 100],
					     .domain = (uint8_t)(i / 100 % 6),
					     v[0],
					     v[1],
					     v[2],
					     v[3],
					     v[4],
					     v[5],
					     (uint8_t)i };
		fm_writer_site(w, &sites[i]);
		if (i == 1000)
			fm_writer_flush(w);
	}
	close_writer(w);
	struct fm_reader *r = read_all(NULL, 0, NULL);
	const struct fm_profile *p = fm_reader_profile(r);
	CHECK_EQ(p->n_damaged_chunks, 0);
	CHECK_EQ(p->sites.n, 600);
	for (size_t k = 0; k < p->sites.n; k++) {
		const struct fm_site *got = &p->sites.items[k], *want = NULL;
		for (uint32_t i = 0; i < N; i++)
			if (sites[i].process_id == got->process_id && sites[i].stack_id == got->stack_id &&
			    sites[i].domain == got->domain)
				want = &sites[i];
		CHECK(want && !memcmp(&want->alloc_bytes, &got->alloc_bytes, 6 * sizeof(uint64_t)));
		CHECK_EQ(want->held, got->held);
	}
	fm_reader_close(r);
}

TEST(everything_survives_a_round_trip)
{
	struct fm_writer *w = open_writer();
	fm_writer_meta(w, "rate_hz", FM_STR_LIT("1000"));
	fm_writer_meta(w, "rate_hz", FM_STR_LIT("2000"));
	fm_writer_meta(w, "host", (struct fm_str){ 0 });
	fm_writer_coverage(w, FM_STR_LIT("thread 9"), FM_STR_LIT("signals blocked"));
	struct fm_process_info early = { .pid = 40 };
	uint32_t process = fm_writer_process(w, &early);
	CHECK_EQ(process, 0);
	CHECK_EQ(fm_writer_flush(w), FM_OK);
	fm_writer_process_end(w, process, 999, -1, 9);
	fm_writer_process_update(w, process, &some_process);
	CHECK_EQ(fm_writer_process(w, &early), 1);
	uint32_t thread = fm_writer_thread(w, process, 44, 125);
	fm_writer_thread_name(w, thread, FM_STR_LIT("old"));
	fm_writer_thread_name(w, thread, FM_STR_LIT("MainThread"));
	fm_writer_thread_end(w, thread, &(struct fm_thread_totals){ 900, 800, 7, 51 });
	uint32_t image = fm_writer_image(w, FM_STR_LIT("/lib/libc.so.6"), FM_STR_LIT("\0\1\2"), FM_IMAGE_IS_MAIN);
	fm_writer_mapping(w, process, image, 0x7f0000001000, 0x7f0000002000, UINT64_MAX - 4095);
	uint32_t code = fm_writer_code(w, &some_code);
	uint32_t frames[4] = {
		fm_writer_frame(w, FM_FRAME_NATIVE, image, UINT64_MAX),
		fm_writer_frame(w, FM_FRAME_PYTHON, code, 0),
		fm_writer_frame(w, FM_FRAME_NATIVE, FM_NO_ID, 0xdeadbeef),
		fm_writer_frame(w, FM_FRAME_ERROR, 0, FM_STACK_BAD_CFA),
	};
	uint32_t stack = FM_ROOT_STACK;
	for (size_t i = 0; i < 4; i++)
		stack = fm_writer_stack(w, stack, frames[i]);
	// Extremes, and a clock that steps back: each must come back bit by bit.
	struct fm_sample samples[] = {
		{ thread, stack, 5000, 7000, 0, FM_CLASS_PYTHON }, // weight above time: the base wraps below 0
		{ thread, FM_ROOT_STACK, 4000, 0, 65535, FM_CLASS_WAIT },
		{ thread, stack, UINT64_MAX, UINT64_MAX, 1, FM_CLASS_GC },
		{ thread, 1, 0, 1, 1, FM_CLASS_SYSTEM },
		{ thread, 2, (uint64_t)1 << 63, 3, 1, FM_CLASS_GIL_WAIT },
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(samples); i++)
		fm_writer_sample(w, &samples[i]);
	fm_writer_source(w, FM_STR_LIT("/home/u/x.py"), FM_STR_LIT("def outer(): ...\n"));
	struct fm_symbol_link links[] = { { FM_STR_LIT("_ZN3foo3barEv"), FM_STR_LIT("/src/foo.cc"), 10, 12, false },
					  { FM_STR_LIT("inner"), FM_STR_LIT(""), 0, UINT32_MAX, true } };
	fm_writer_symbol(w, image, 0x1234, links, 2);
	fm_writer_symbol(w, 77, 0x1234, links, 2); // no such image: left out
	fm_writer_source(w, FM_STR_LIT("/home/u/x.py"), FM_STR_LIT("said once is enough"));
	close_writer(w);

	struct fm_sample got[8];
	size_t n;
	struct fm_reader *r = read_all(got, 8, &n);
	const struct fm_profile *p = fm_reader_profile(r);
	CHECK(!p->is_truncated);
	CHECK_EQ(p->n_damaged_chunks + p->n_undefined_refs + p->n_lost_samples, 0);
	CHECK_EQ(p->damage[0], 0);
	CHECK_EQ(n, FM_ARRAY_LEN(samples));
	for (size_t i = 0; i < n; i++) {
		CHECK_EQ(got[i].thread_id, samples[i].thread_id);
		CHECK_EQ(got[i].stack_id, samples[i].stack_id);
		CHECK_EQ(got[i].time_ns, samples[i].time_ns);
		CHECK_EQ(got[i].weight_ns, samples[i].weight_ns);
		CHECK_EQ(got[i].cpu, samples[i].cpu);
		CHECK_EQ(got[i].class, samples[i].class);
	}
	CHECK_EQ(p->metas.n, 2);
	CHECK_STR(fm_profile_meta(p, "rate_hz", FM_STR_LIT("?")), "2000");
	CHECK_STR(fm_profile_meta(p, "host", FM_STR_LIT("?")), "");
	CHECK_STR(fm_profile_meta(p, "absent", FM_STR_LIT("?")), "?");
	CHECK_EQ(p->coverages.n, 1);
	CHECK_STR(p->coverages.items[0].what, "thread 9");
	CHECK_STR(p->coverages.items[0].why, "signals blocked");
	CHECK_EQ(p->processes.n, 2);
	const struct fm_process *pr = &p->processes.items[0];
	CHECK(pr->info.pid == 40 && pr->info.parent_pid == 4 && pr->info.start_ns == 123);
	CHECK(pr->end_ns == 999 && pr->exit_code == -1 && pr->exit_signal == 9);
	CHECK(fm_str_eq(pr->info.command, some_process.command));
	CHECK_STR(pr->info.exe, "/usr/bin/python3");
	CHECK_STR(pr->info.python_version, "3.11.7");
	CHECK_STR(pr->info.engine, "perf");
	CHECK_EQ(p->processes.items[1].exit_code, -1);
	CHECK_EQ(p->threads.n, 1);
	const struct fm_thread *t = &p->threads.items[0];
	CHECK(t->process_id == 0 && t->tid == 44 && t->start_ns == 125 && t->end_ns == 900 && t->cpu_ns == 800 &&
	      t->n_dropped == 7 && t->ready_ns1 == 51);
	CHECK_STR(t->name, "MainThread");
	CHECK_EQ(p->images.n, 1);
	CHECK_STR(p->images.items[0].path, "/lib/libc.so.6");
	CHECK(fm_str_eq(p->images.items[0].build_id, FM_STR_LIT("\0\1\2")));
	CHECK_EQ(p->images.items[0].flags, FM_IMAGE_IS_MAIN);
	CHECK_EQ(p->mappings.n, 1);
	CHECK_EQ(p->symbols.n, 1);
	CHECK_EQ(p->symbols.items[0].addr, 0x1234);
	CHECK_EQ(p->symbols.items[0].n_links, 2);
	const struct fm_symbol_link *l = &p->symbol_links.items[p->symbols.items[0].first_link];
	CHECK_STR(l[0].name, "_ZN3foo3barEv");
	CHECK_STR(l[0].file, "/src/foo.cc");
	CHECK(l[0].first_line == 10 && l[0].line == 12 && !l[0].is_inlined);
	CHECK_STR(l[1].name, "inner");
	CHECK(l[1].line == UINT32_MAX && l[1].is_inlined);
	const struct fm_mapping *m = &p->mappings.items[0];
	CHECK(m->process_id == 0 && m->image_id == 0 && m->start == 0x7f0000001000 && m->end == 0x7f0000002000);
	CHECK(m->bias == UINT64_MAX - 4095);
	CHECK_EQ(p->codes.n, 1);
	const struct fm_code_info *c = &p->codes.items[0];
	CHECK_STR(c->name, "inner");
	CHECK_STR(c->qualname, "outer.<locals>.inner");
	CHECK_STR(c->filename, "/home/u/x.py");
	CHECK(c->first_line == 17 && c->line_table_kind == 3 && fm_str_eq(c->line_table, some_code.line_table));
	const struct fm_frame *f = p->frames.items;
	CHECK(f[0].kind == FM_FRAME_ERROR && f[0].value == FM_STACK_LOST);
	CHECK(f[frames[0]].kind == FM_FRAME_NATIVE && f[frames[0]].ref == image && f[frames[0]].value == UINT64_MAX);
	CHECK(f[frames[1]].kind == FM_FRAME_PYTHON && f[frames[1]].ref == code && f[frames[1]].value == 0);
	CHECK(f[frames[2]].kind == FM_FRAME_NATIVE && f[frames[2]].ref == FM_NO_ID && f[frames[2]].value == 0xdeadbeef);
	CHECK(f[frames[3]].kind == FM_FRAME_ERROR && f[frames[3]].value == FM_STACK_BAD_CFA);
	for (size_t i = 4; i-- > 0; stack = p->stacks.items[stack].parent)
		CHECK_EQ(p->stacks.items[stack].frame_id, frames[i]);
	CHECK_EQ(stack, FM_ROOT_STACK);
	CHECK_EQ(p->sources.n, 1);
	CHECK_STR(p->sources.items[0].filename, "/home/u/x.py");
	CHECK_STR(p->sources.items[0].text, "def outer(): ...\n");
	CHECK_EQ(fm_reader_bytes_read(r), fm_reader_bytes_total(r));
	fm_reader_close(r);
}

TEST(equal_infos_give_equal_ids_and_others_do_not)
{
	struct fm_writer *w = open_writer();
	uint32_t code = fm_writer_code(w, &some_code);
	CHECK_EQ(fm_writer_code(w, &some_code), code);
	for (int i = 0; i < 6; i++) {
		struct fm_code_info other = some_code;
		struct fm_str *strs[] = { &other.name, &other.qualname, &other.filename, &other.line_table };
		if (i < 4)
			*strs[i] = FM_STR_LIT("other");
		other.first_line += i == 4;
		other.line_table_kind -= i == 5;
		CHECK_EQ(fm_writer_code(w, &other), code + 1 + (uint32_t)i);
	}
	uint32_t image = fm_writer_image(w, FM_STR_LIT("/a"), FM_STR_LIT("id"), 0);
	CHECK_EQ(fm_writer_image(w, FM_STR_LIT("/a"), FM_STR_LIT("id"), 1), image);
	CHECK(fm_writer_image(w, FM_STR_LIT("/a"), FM_STR_LIT("id2"), 0) != image);
	CHECK(fm_writer_image(w, FM_STR_LIT("/b"), FM_STR_LIT("id"), 0) != image);
	uint32_t first = fm_writer_frame(w, FM_FRAME_NATIVE, image, 0);
	for (uint32_t round = 0; round < 2; round++) {
		uint32_t stack = FM_ROOT_STACK;
		for (uint32_t i = 0; i < 20000; i++) {
			CHECK_EQ(fm_writer_frame(w, FM_FRAME_NATIVE, image, (uint64_t)i << 40 | i), first + i);
			stack = fm_writer_stack(w, stack, first + i);
			CHECK_EQ(stack, i + 1);
		}
		fm_writer_flush(w);
	}
	CHECK(fm_writer_frame(w, FM_FRAME_PYTHON, image, 0) != first);
	CHECK(fm_writer_frame(w, FM_FRAME_NATIVE, image + 1, 0) != first);
	close_writer(w);
	struct fm_reader *r = read_all(NULL, 0, NULL);
	CHECK_EQ(fm_reader_profile(r)->stacks.n, 20001);
	CHECK_EQ(fm_reader_profile(r)->stacks.items[20000].parent, 19999);
	fm_reader_close(r);
}

TEST(many_threads_keep_their_own_order)
{
	enum { THREADS = 300, EACH = 400 };
	struct fm_writer *w = open_writer();
	uint32_t process = fm_writer_process(w, &some_process);
	for (uint32_t i = 0; i < THREADS; i++)
		fm_writer_thread(w, process, i, 0);
	uint64_t state = 1;
	uint32_t n_of[THREADS] = { 0 };
	for (uint32_t i = 0; i < THREADS * EACH; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		uint32_t thread = (uint32_t)(state >> 33) % THREADS;
		struct fm_sample s = { thread, 0, 1000 + 10 * ++n_of[thread], n_of[thread], (uint16_t)thread, 0 };
		fm_writer_sample(w, &s);
		if (i % 7777 == 0)
			fm_writer_flush(w);
	}
	close_writer(w);
	struct fm_sample *got = fm_alloc(sizeof(*got) * THREADS * EACH);
	size_t n;
	struct fm_reader *r = read_all(got, THREADS * EACH, &n);
	CHECK_EQ(n, THREADS * EACH);
	uint32_t seen[THREADS] = { 0 };
	for (size_t i = 0; i < n; i++) {
		uint32_t nth = ++seen[got[i].thread_id];
		CHECK_EQ(got[i].time_ns, 1000 + 10 * nth);
		CHECK_EQ(got[i].weight_ns, nth);
		CHECK_EQ(got[i].cpu, got[i].thread_id);
	}
	CHECK_EQ(fm_reader_profile(r)->is_truncated, false);
	fm_reader_close(r);
	free(got);
}

TEST(chunks_are_cut_by_size_without_a_flush)
{
	struct fm_writer *w = open_writer();
	fm_writer_thread(w, fm_writer_process(w, &some_process), 1, 0);
	uint64_t before = fm_writer_bytes(w);
	CHECK_EQ(before, FM_FILE_HEADER_BYTES);
	for (uint32_t i = 0; i < 40000; i++)
		fm_writer_sample(w, &(struct fm_sample){ .time_ns = i * 1000 });
	CHECK(fm_writer_bytes(w) > before);
	before = fm_writer_bytes(w);
	for (uint32_t i = 0; i < 100000; i++)
		fm_writer_stack(w, i, fm_writer_frame(w, FM_FRAME_NATIVE, FM_NO_ID, i * 1000003u));
	CHECK(fm_writer_bytes(w) > before);
	before = fm_writer_bytes(w);
	CHECK_EQ(fm_writer_flush(w), FM_OK);
	uint64_t flushed = fm_writer_bytes(w);
	CHECK_EQ(fm_writer_flush(w), FM_OK);
	CHECK_EQ(fm_writer_bytes(w), flushed); // nothing pending, nothing written
	close_writer(w);
	size_t n;
	struct fm_reader *r = read_all(NULL, 0, &n);
	CHECK_EQ(n, 40000);
	CHECK_EQ(fm_reader_profile(r)->stacks.n, 100001);
	fm_reader_close(r);
}

TEST(what_the_writer_was_told_wrongly_does_not_reach_the_file)
{
	struct fm_writer *w = open_writer();
	uint32_t thread = fm_writer_thread(w, fm_writer_process(w, &some_process), 1, 0);
	fm_writer_sample(w, &(struct fm_sample){ .thread_id = thread + 1 });
	fm_writer_sample(w, &(struct fm_sample){ .thread_id = thread, .class = FM_N_CLASSES });
	fm_writer_sample(w, &(struct fm_sample){ .thread_id = thread, .stack_id = 77 });
	fm_writer_thread_end(w, 9, &(struct fm_thread_totals){ 1, 1, 1 });
	fm_writer_mapping(w, 0, 5, 1, 2, 3);
	uint32_t stack = fm_writer_stack(w, 500, 600);
	uint32_t frame = fm_writer_frame(w, FM_FRAME_PYTHON, 12345, 1);
	close_writer(w);
	struct fm_sample got[2];
	size_t n;
	struct fm_reader *r = read_all(got, 2, &n);
	const struct fm_profile *p = fm_reader_profile(r);
	CHECK_EQ(n, 1);
	CHECK_EQ(got[0].stack_id, FM_ROOT_STACK);
	CHECK(p->stacks.items[stack].parent == FM_ROOT_STACK && p->stacks.items[stack].frame_id == FM_FRAME_LOST);
	CHECK_EQ(p->frames.items[frame].ref, FM_NO_ID);
	CHECK_EQ(p->damage[0], 0);
	fm_reader_close(r);
}

TEST(file_size_limit_leaves_a_readable_file)
{
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 20000, 20000 }), 0);
	struct fm_writer *w = open_writer();
	fm_writer_thread(w, fm_writer_process(w, &some_process), 1, 0);
	uint64_t last_bytes = 0, n_flushed = 0, state = 1, n_pending = 0;
	for (uint32_t i = 0; i < 100000; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		fm_writer_sample(w, &(struct fm_sample){ .time_ns = (uint64_t)i << 20, .weight_ns = state >> 40 });
		n_pending++;
		if (i % 100 == 99 && fm_writer_flush(w) == FM_OK) {
			n_flushed += n_pending;
			n_pending = 0;
			last_bytes = fm_writer_bytes(w);
		}
	}
	CHECK_EQ(fm_writer_error(w), FM_E_IO);
	CHECK_EQ(fm_writer_stack(w, 0, fm_writer_frame(w, FM_FRAME_ERROR, 0, 1)), FM_ROOT_STACK);
	struct fm_diag diag = { "" };
	CHECK_EQ(fm_writer_close(w, &diag), FM_E_IO);
	CHECK(strstr(diag.text, "File too large") && !strchr(diag.text, '\n'));
	struct stat st;
	CHECK_EQ(stat(scratch_path(), &st), 0);
	CHECK_EQ(st.st_size, last_bytes); // cut back to the last whole chunk
	size_t n;
	struct fm_reader *r = read_all(NULL, 0, &n);
	CHECK_EQ(n, n_flushed);
	CHECK(n > 1000);
	CHECK(fm_reader_profile(r)->is_truncated);
	CHECK_EQ(fm_reader_profile(r)->n_damaged_chunks, 0);
	fm_reader_close(r);
}

TEST(unwritable_places_are_one_clear_line)
{
	struct fm_writer *w;
	struct fm_diag diag = { "" };
	CHECK_EQ(fm_writer_open("/dev/full", &w, &diag), FM_E_IO);
	CHECK(strstr(diag.text, "/dev/full: No space left on device"));
	CHECK_EQ(fm_writer_open("/tmp", &w, &diag), FM_E_IO);
	CHECK(strstr(diag.text, "/tmp: Is a directory"));
	CHECK_EQ(fm_writer_open("/nonexistent/x.fathom", &w, &diag), FM_E_IO);
	CHECK(strstr(diag.text, "No such file or directory"));
}

static void sample_and_flush(struct fm_writer *w, uint64_t time_ns, enum fm_err expected)
{
	fm_writer_sample(w, &(struct fm_sample){ .time_ns = time_ns, .weight_ns = 1 });
	CHECK_EQ(fm_writer_flush(w), expected);
}

TEST(a_file_that_was_removed_is_an_error_that_says_so)
{
	struct fm_writer *w = open_writer();
	fm_writer_thread(w, fm_writer_process(w, &some_process), 1, 0);
	sample_and_flush(w, 1, FM_OK);
	CHECK_EQ(unlink(scratch_path()), 0);
	sample_and_flush(w, 2, FM_E_NOT_FOUND);
	struct fm_diag diag = { "" };
	CHECK_EQ(fm_writer_close(w, &diag), FM_E_NOT_FOUND);
	CHECK(strstr(diag.text, "was removed") && strstr(diag.text, scratch_path()) && !strchr(diag.text, '\n'));
}

TEST(a_file_that_somebody_changed_is_left_as_it_is)
{
	for (int is_longer = 0; is_longer < 2; is_longer++) {
		struct fm_writer *w = open_writer();
		fm_writer_thread(w, fm_writer_process(w, &some_process), 1, 0);
		sample_and_flush(w, 1, FM_OK);
		off_t len = is_longer ? (off_t)fm_writer_bytes(w) + 5 : 7;
		CHECK_EQ(truncate(scratch_path(), len), 0);
		sample_and_flush(w, 2, FM_E_NOT_FOUND);
		struct fm_diag diag = { "" };
		CHECK_EQ(fm_writer_close(w, &diag), FM_E_NOT_FOUND);
		CHECK(strstr(diag.text, "another program changed") && strstr(diag.text, scratch_path()));
		struct stat st;
		CHECK_EQ(stat(scratch_path(), &st), 0);
		CHECK_EQ(st.st_size, len);
	}
}

TEST(a_file_that_was_renamed_is_whole_and_its_name_is_known)
{
	struct fm_writer *w = open_writer();
	fm_writer_thread(w, fm_writer_process(w, &some_process), 1, 0);
	char path[256], name[256];
	CHECK(!fm_writer_has_moved(w, name, sizeof(name)));
	snprintf(path, sizeof(path), "%s.moved", scratch_path());
	CHECK_EQ(rename(scratch_path(), path), 0);
	sample_and_flush(w, 1, FM_OK);
	CHECK(fm_writer_has_moved(w, name, sizeof(name)));
	CHECK(!strcmp(name, path));
	CHECK_EQ(fm_writer_close(w, NULL), FM_OK);
	CHECK_EQ(rename(path, scratch_path()), 0);
	size_t n;
	fm_reader_close(read_all(NULL, 0, &n));
	CHECK_EQ(n, 1);
}

TEST(a_second_writer_is_refused_and_destroys_nothing)
{
	struct fm_writer *w = open_writer(), *second;
	fm_writer_thread(w, fm_writer_process(w, &some_process), 1, 0);
	sample_and_flush(w, 1, FM_OK);
	struct fm_diag diag = { "" };
	CHECK_EQ(fm_writer_open(scratch_path(), &second, &diag), FM_E_REFUSED);
	CHECK(strstr(diag.text, "another fathom is writing to") && strstr(diag.text, "%p"));
	sample_and_flush(w, 2, FM_OK);
	CHECK_EQ(fm_writer_close(w, NULL), FM_OK);
	size_t n;
	fm_reader_close(read_all(NULL, 0, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(fm_writer_open(scratch_path(), &second, &diag), FM_OK); // it has ended
	CHECK_EQ(fm_writer_close(second, NULL), FM_OK);
}

TEST(closed_pipe_is_an_error_and_not_a_signal)
{
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[1]);
	struct fm_writer *w;
	struct fm_diag diag;
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	close(ends[0]);
	fm_writer_meta(w, "key", FM_STR_LIT("value"));
	CHECK_EQ(fm_writer_flush(w), FM_E_IO);
	CHECK_EQ(fm_writer_close(w, &diag), FM_E_IO);
	CHECK(strstr(diag.text, "Broken pipe"));
}

TEST_MAIN()
