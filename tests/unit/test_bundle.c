// SPDX-License-Identifier: Apache-2.0
// What the viewer's bundle is made with: pruning, the timeline, edges, comparison, strings and
// packed streams.
#include "test.h"

#include <math.h>
#include <zlib.h>

#include "aggregate/tree/edges.h"
#include "aggregate/analysis/filter.h"
#include "aggregate/compare/diff.h"
#include "aggregate/tree/prune.h"
#include "aggregate/analysis/timeline.h"
#include "render/bundle/bundle.h"
#include "render/shared/packed.h"
#include "render/bundle/string_table.h"
#include "serve/guard.h"
#include "known_analysis.h"
#include "support/open.h"

//        0
//      1   2        weights: 1: 1, 2: 5, 3: 4, 4: 2, 5: 2
//     3 4   5
static const struct fm_node small_tree[] = {
	{ 0 }, { 0, 1, 0, 1, 0 }, { 0, 2, 0, 1, 0 }, { 1, 3, 0, 2, 0 }, { 1, 4, 0, 2, 0 }, { 2, 5, 0, 2, 0 }
};
static const double small_weights[] = { 0, 1, 5, 4, 2, 2 };

static void prune_small(struct fm_pruned *p, size_t max_nodes)
{
	struct fm_view view = { 0 };
	for (size_t i = 0; i < FM_ARRAY_LEN(small_tree); i++)
		fm_vec_push(&view.nodes, small_tree[i]);
	fm_prune(p, &view, small_weights, max_nodes);
	fm_vec_deinit(&view.nodes);
}

TEST(pruning_keeps_the_heaviest_and_folds_the_rest_into_their_parents)
{
	struct fm_pruned p;
	prune_small(&p, 4); // totals: 1: 7, 2: 7, 3: 4, 4: 2, 5: 2
	CHECK_EQ(p.nodes.n, 4);
	CHECK_EQ(p.n_left_out, 2);
	CHECK_EQ(p.nodes.items[p.kept[1]].function_id, 1);
	CHECK_EQ(p.nodes.items[p.kept[2]].function_id, 2);
	CHECK_EQ(p.nodes.items[p.kept[3]].function_id, 3);
	CHECK_EQ(p.kept[4], p.kept[1]);
	CHECK_EQ(p.kept[5], p.kept[2]);
	fm_pruned_deinit(&p);
	prune_small(&p, 100);
	CHECK_EQ(p.nodes.n, 6);
	CHECK_EQ(p.n_left_out, 0);
	fm_pruned_deinit(&p);
	prune_small(&p, 1);
	CHECK_EQ(p.nodes.n, 1);
	for (size_t i = 0; i < 6; i++)
		CHECK_EQ(p.kept[i], 0);
	fm_pruned_deinit(&p);
	prune_small(&p, 0);
	CHECK_EQ(p.nodes.n, 1);
	fm_pruned_deinit(&p);
}

TEST(pruning_any_tree_to_any_size_keeps_sums_and_order)
{
	srand(3);
	for (int round = 0; round < 300; round++) {
		size_t n = 1 + (size_t)rand() % 200, max_nodes = (size_t)rand() % 220;
		struct fm_view view = { 0 };
		double weight[200], sum = 0, kept_sum = 0;
		for (size_t i = 0; i < n; i++) {
			fm_vec_push(&view.nodes,
				    (struct fm_node){ i ? (uint32_t)((size_t)rand() % i) : 0, (uint32_t)i });
			weight[i] = rand() % 3 ? rand() % 4 : 0; // many equal, many zero
			sum += weight[i];
		}
		struct fm_pruned p;
		fm_prune(&p, &view, weight, max_nodes);
		CHECK(p.nodes.n >= 1 && p.nodes.n <= FM_MAX(max_nodes, (size_t)1));
		double *own = fm_alloc(p.nodes.n * sizeof(*own));
		for (size_t i = 0; i < n; i++) {
			CHECK(p.kept[i] < p.nodes.n);
			own[p.kept[i]] += weight[i];
			// it is itself, or where its parent went
			CHECK(i == 0 || p.nodes.items[p.kept[i]].function_id == i ||
			      p.kept[i] == p.kept[view.nodes.items[i].parent]);
		}
		for (size_t i = 0; i < p.nodes.n; i++)
			kept_sum += own[i];
		CHECK(kept_sum == sum);
		for (size_t i = 1; i < p.nodes.n; i++) {
			CHECK(p.nodes.items[i].parent < i);
			CHECK(i == 1 ||
			      p.nodes.items[i].parent >= p.nodes.items[i - 1].parent); // siblings side by side
		}
		free(own);
		fm_pruned_deinit(&p);
		fm_vec_deinit(&view.nodes);
	}
}

TEST(timeline_joins_equal_neighbours_and_shows_pauses)
{
	struct fm_timeline t = { 0 };
	for (uint64_t i = 1; i <= 5; i++)
		fm_timeline_add(&t, 0, i * 1000, 1000, 7, 0);
	fm_timeline_add(&t, 0, 6000, 1000, 7, 1);  // another class
	fm_timeline_add(&t, 0, 20000, 1000, 7, 1); // after a pause
	fm_timeline_add(&t, 0, 21000, 1000, 8, 1); // another node
	CHECK_EQ(t.n_runs, 4);
	const struct fm_timeline_run *runs = t.threads.items[0].runs.items;
	CHECK_EQ(runs[0].start_ns, 0);
	CHECK_EQ(runs[0].end_ns, 5000);
	CHECK_EQ(runs[0].weight_ns, 5000);
	CHECK_EQ(runs[2].start_ns, 19000);
	CHECK_EQ(runs[3].node, 8);
	fm_timeline_deinit(&t);
}

TEST(thinning_keeps_weights_and_the_name_of_the_longest)
{
	struct fm_timeline t = { 0 };
	uint64_t now = 0, weights[3] = { 0 };
	srand(5);
	for (int i = 0; i < 30000; i++) {
		uint32_t thread = (uint32_t)(i % 3);
		uint64_t weight = 500000 + (uint64_t)(rand() % 1000000);
		now += weight;
		fm_timeline_add(&t, thread, now, weight, i % 100 < 90 ? 1 : 2 + (uint32_t)(rand() % 5), 0);
		weights[thread] += weight;
	}
	fm_timeline_thin(&t, 500);
	CHECK(t.n_runs <= 500 && t.n_runs > 50);
	size_t n = 0;
	uint64_t named_one = 0;
	for (size_t i = 0; i < 3; i++) {
		uint64_t sum = 0, last = 0;
		for (size_t k = 0; k < t.threads.items[i].runs.n; k++, n++) {
			const struct fm_timeline_run *run = &t.threads.items[i].runs.items[k];
			CHECK(run->start_ns >= last && run->end_ns >= run->start_ns);
			last = run->end_ns;
			sum += run->weight_ns;
			named_one += run->node == 1 ? run->weight_ns : 0;
		}
		CHECK_EQ(sum, weights[i]);
	}
	CHECK_EQ(n, t.n_runs);
	CHECK(named_one > (weights[0] + weights[1] + weights[2]) / 100 * 88); // nine tenths are in node 1
	fm_timeline_thin(&t, 0); // cannot be: a thread has at least one run
	CHECK_EQ(t.n_runs, 3);
	fm_timeline_deinit(&t);
}

TEST(times_that_go_backwards_stay_in_order)
{
	struct fm_timeline t = { 0 };
	fm_timeline_add(&t, 1, 5000, 1000, 1, 0);
	fm_timeline_add(&t, 1, 100, 1000, 2, 0);
	fm_timeline_add(&t, 1, 0, UINT64_MAX, 3, 0);
	CHECK_EQ(t.threads.items[0].runs.n, 0);
	for (size_t k = 1; k < t.threads.items[1].runs.n; k++)
		CHECK(t.threads.items[1].runs.items[k].start_ns >= t.threads.items[1].runs.items[k - 1].end_ns);
	fm_timeline_deinit(&t);
}

TEST(a_call_that_recursion_repeats_counts_once)
{
	// f -> g -> f -> g, 3 in each
	const struct fm_node nodes[] = {
		{ 0 }, { 0, 1, 0, 1, 0 }, { 1, 2, 0, 2, 0 }, { 2, 1, 0, 3, 0 }, { 3, 2, 0, 4, 0 }
	};
	const double weight[] = { 0, 3, 3, 3, 3 };
	struct fm_edges e;
	fm_edges_build(&e, nodes, FM_ARRAY_LEN(nodes), weight);
	CHECK_EQ(e.items.n, 2);
	CHECK(e.items.items[0].caller == 1 && e.items.items[0].callee == 2 && e.items.items[0].weight == 9);
	CHECK(e.items.items[1].caller == 2 && e.items.items[1].callee == 1 && e.items.items[1].weight == 6);
	fm_edges_deinit(&e);
}

TEST(strings_are_whole_characters_and_no_longer_than_allowed)
{
	struct fm_string_table t;
	fm_string_table_init(&t, 5000);
	CHECK_EQ(fm_string_table_name(&t, FM_STR_LIT("")), 0);
	uint32_t a = fm_string_table_name(&t, FM_STR_LIT("name"));
	CHECK_EQ(fm_string_table_name(&t, FM_STR_LIT("name")), a);
	uint32_t bad = fm_string_table_name(&t, FM_STR_LIT("\xff x"));
	CHECK_STR(fm_intern_get(&t.ids, bad), "\xef\xbf\xbd x");
	char text[4000];
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "\xc3\xa9"[i % 2];
	struct fm_str cut = fm_intern_get(&t.ids, fm_string_table_name(&t, (struct fm_str){ text, sizeof(text) }));
	CHECK(cut.len <= FM_STRING_NAME_BYTES && cut.len > FM_STRING_NAME_BYTES - 8);
	CHECK(!memcmp(cut.p + cut.len - 3, "\xe2\x80\xa6", 3));
	CHECK_EQ((cut.len - 3) % 2, 0);
	CHECK_EQ(fm_string_table_whole(&t, (struct fm_str){ text, sizeof(text) }, 3999), 0); // longer than it may be
	CHECK_EQ(t.n_left_out, 0);
	CHECK_EQ(fm_string_table_whole(&t, (struct fm_str){ text, sizeof(text) }, 4000), 0); // no room is left for it
	CHECK_EQ(t.n_left_out, 1);
	fm_string_table_deinit(&t);
}

TEST(base64_and_gzip_come_back_as_they_were)
{
	static char data[300000];
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * i >> 7);
	for (size_t n = 0; n < sizeof(data); n = n < 5 ? n + 1 : n * 7) {
		char *text = NULL;
		size_t len = 0;
		FILE *memory = open_memstream(&text, &len), *base64 = fm_packed_base64(memory);
		CHECK_EQ(fwrite(data, 1, n, base64), n);
		CHECK_EQ(fclose(base64), 0);
		CHECK_EQ(fclose(memory), 0);
		CHECK_EQ(len, (n + 2) / 3 * 4);
		CHECK_EQ(len - strcspn(text, "="), n ? (3 - n % 3) % 3 : 0);
		free(text);
		memory = open_memstream(&text, &len);
		FILE *gzip = fm_packed_gzip(memory, 1);
		CHECK_EQ(fwrite(data, 1, n, gzip), n);
		CHECK_EQ(fclose(gzip), 0);
		CHECK_EQ(fclose(memory), 0);
		static char back[sizeof(data) + 1];
		z_stream z = { .next_in = (uint8_t *)text,
			       .avail_in = (uInt)len,
			       .next_out = (uint8_t *)back,
			       .avail_out = sizeof(back) };
		CHECK_EQ(inflateInit2(&z, 15 + 16), Z_OK);
		CHECK_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
		CHECK_EQ(z.total_out, n);
		CHECK(!memcmp(back, data, n));
		inflateEnd(&z);
		free(text);
	}
}

TEST(filters_count_what_passes)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_filter filter = { .from_ns = 1000000000 + 3000000000u, .to_ns = 1000000000 + 5000000000u };
	struct fm_analysis *part;
	struct fm_diag diag;
	CHECK_EQ(fm_filter_apply(&filter, a, &part, &diag), FM_OK);
	CHECK_EQ(part->tally.n_samples, 2000); // only the main thread runs that long
	fm_analysis_close(part);
	filter.from_ns = filter.to_ns = 0;
	CHECK(fm_filter_is_empty(&filter));
	fm_filter_mark(&filter, 0);
	CHECK_EQ(fm_filter_apply(&filter, a, &part, &diag), FM_OK);
	CHECK_EQ(part->tally.n_samples, 1500); // all but thread 0
	fm_analysis_close(part);
	filter.has_threads = true;
	CHECK_EQ(fm_filter_apply(&filter, a, &part, &diag), FM_OK);
	CHECK_EQ(part->tally.n_samples, 8800);
	fm_analysis_close(part);
	fm_filter_deinit(&filter);
	fm_analysis_close(a);
}

TEST(a_capture_compared_with_itself_has_not_changed)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_diff_tree c;
	fm_diff_tree_build(&c, a, a, 1000);
	uint64_t cpu_ns = 0;
	for (size_t i = 0; i < c.cells.n; i++) {
		CHECK_EQ(c.cells.items[i].ns[0], c.cells.items[i].ns[1]);
		cpu_ns += fm_class_is_cpu(c.cells.items[i].class) ? c.cells.items[i].ns[1] : 0;
	}
	CHECK_EQ(cpu_ns, 10000000000);
	for (size_t i = 1; i < c.nodes.n; i++)
		CHECK(c.nodes.items[i].parent < i && c.nodes.items[i].function_id < c.functions.n);
	fm_analysis_close(a);
	fm_diff_tree_deinit(&c);
}

// n blocks of 100 bytes by one function, none freed.
static struct fm_analysis *open_blocks(uint32_t n)
{
	const char *path = scratch_file();
	struct fm_writer *w;
	struct fm_diag diag;
	struct fm_analysis *a;
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	uint32_t process = fm_writer_process(w, &(struct fm_process_info){ .pid = 1 });
	uint32_t thread = fm_writer_thread(w, process, 1, 0);
	uint32_t stack = fm_writer_stack(w, FM_ROOT_STACK, fm_writer_frame(w, FM_FRAME_NATIVE, FM_NO_ID, 7));
	for (uint32_t i = 0; i < n; i++)
		fm_writer_alloc(w, &(struct fm_alloc){ thread, stack, i + 1, i + 1, 100, 100, FM_ALLOC_MALLOC });
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	CHECK_EQ(open_analysis(path, &FM_VIEW_OPTIONS_DEFAULT, FM_ANALYSIS_STACKS, &a, &diag), FM_OK);
	return a;
}

TEST(memory_of_two_captures_is_in_one_tree)
{
	struct fm_analysis *base = open_blocks(2), *new = open_blocks(5);
	struct fm_diff_tree c;
	fm_diff_tree_build(&c, base, new, 1000);
	CHECK_EQ(c.heap.n, 1);
	CHECK(c.heap.items[0].node > 0 && c.heap.items[0].node < c.nodes.n);
	CHECK_EQ(c.heap.items[0].bytes[0][FM_HEAP_ALLOC], 200);
	CHECK_EQ(c.heap.items[0].bytes[1][FM_HEAP_ALLOC], 500);
	CHECK_EQ(c.heap.items[0].bytes[1][FM_HEAP_AT_PEAK], 500);
	CHECK_EQ(c.heap.items[0].bytes[1][FM_HEAP_COPIED], 0);
	fm_diff_tree_deinit(&c);
	fm_analysis_close(base);
	fm_analysis_close(new);
}

TEST(blocks_of_any_time_end_in_one_slot)
{
	const char *path = scratch_file();
	struct fm_writer *w;
	struct fm_diag diag;
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	uint32_t process = fm_writer_process(w, &(struct fm_process_info){ .pid = 1 });
	uint32_t stack = fm_writer_stack(w, FM_ROOT_STACK, fm_writer_frame(w, FM_FRAME_NATIVE, FM_NO_ID, 7));
	for (uint32_t i = 0; i < 8; i++) { // more pairs of node and thread than rows are wanted, over all of time
		uint32_t thread = fm_writer_thread(w, process, i + 1, 0);
		fm_writer_alloc(w, &(struct fm_alloc){ thread, stack, UINT64_MAX / 8 * (i + 1), i + 1, 100, 100,
						       FM_ALLOC_MALLOC });
	}
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	struct fm_analysis *a;
	CHECK_EQ(open_analysis(path, &FM_VIEW_OPTIONS_DEFAULT, FM_ANALYSIS_STACKS, &a, &diag), FM_OK);
	struct fm_bundle_limits limits = fm_bundle_for_file;
	limits.max_blocks = 2;
	FILE *out = fopen("/dev/null", "w");
	CHECK(out);
	CHECK_EQ(fm_bundle_write(out, a, &(struct fm_bundle_options){ .limits = &limits }, &diag), FM_OK);
	fclose(out);
	fm_analysis_close(a);
}

TEST(only_the_right_token_and_host_pass)
{
	char token[FM_TOKEN_CHARS + 1], other[FM_TOKEN_CHARS + 1];
	CHECK(fm_guard_make_token(token) && fm_guard_make_token(other));
	CHECK(strlen(token) == FM_TOKEN_CHARS && strcmp(token, other) != 0);
	CHECK(fm_guard_token_is_right(token, token));
	CHECK(!fm_guard_token_is_right(other, token) && !fm_guard_token_is_right("", token) &&
	      !fm_guard_token_is_right(NULL, token));
	CHECK(fm_guard_host_is_ours("127.0.0.1:80", 80) && fm_guard_host_is_ours("LocalHost:80", 80));
	CHECK(!fm_guard_host_is_ours("127.0.0.1", 80) && !fm_guard_host_is_ours("127.0.0.1:8", 80) &&
	      !fm_guard_host_is_ours("localhost:80.evil.example", 80) && !fm_guard_host_is_ours(NULL, 80));
	CHECK(fm_guard_origin_is_ours(NULL, 80) && fm_guard_origin_is_ours("http://localhost:80", 80));
	CHECK(!fm_guard_origin_is_ours("null", 80) && !fm_guard_origin_is_ours("https://localhost:80", 80));
}

TEST_MAIN()
