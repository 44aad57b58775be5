// SPDX-License-Identifier: Apache-2.0
// What a capture accounts for, for the referee of the end-to-end tests (tests/e2e/referee.py): what
// the kernel said of each thread and of the whole program, beside the sum of the samples that the
// file holds.
//   weigh_profile FILE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "read/reader.h"

struct sum {
	uint64_t n, weight_ns;
};

static void print_meta(const struct fm_profile *p, const char *key)
{
	struct fm_str value = fm_profile_meta(p, key, FM_STR_LIT(""));
	if (value.len)
		printf("%s %.*s\n", key, (int)value.len, value.p);
}

static void print(const struct fm_profile *p, const struct sum *sums, size_t n_sums)
{
	static const char *const metas[] = { "rate_hz",          "wall_ns",        "target_user_ns",
					     "target_system_ns", "n_dropped",      "n_taken",
					     "gap_cpu_ns",       "waiting_gap_ns", "engine" };
	for (size_t i = 0; i < sizeof(metas) / sizeof(*metas); i++)
		print_meta(p, metas[i]);
	for (size_t i = 0; i < p->processes.n; i++)
		printf("process %u %d\n", p->processes.items[i].info.pid, p->processes.items[i].end_ns != 0);
	for (size_t i = 0; i < p->threads.n; i++) {
		const struct fm_thread *t = &p->threads.items[i];
		struct sum none = { 0 }, sum = i < n_sums ? sums[i] : none;
		printf("thread %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		       p->processes.items[t->process_id].info.pid, t->tid, t->cpu_ns, t->n_dropped, sum.n,
		       sum.weight_ns);
	}
	printf("whole %d\n", !p->is_truncated && !p->n_damaged_chunks);
}

int main(int argc, char **argv)
{
	struct fm_reader *r;
	struct fm_diag diag;
	if (argc != 2) {
		fputs("usage: weigh_profile FILE\n", stderr);
		return 2;
	}
	if (fm_reader_open(argv[1], &r, &diag)) {
		fprintf(stderr, "weigh_profile: %s\n", diag.text);
		return 1;
	}
	FM_VEC(struct sum) sums = { 0 };
	struct fm_event ev;
	while (fm_reader_next(r, &ev) == FM_OK)
		if (ev.type == FM_EVENT_SAMPLE && ev.sample.class < FM_CLASS_GIL_WAIT) {
			fm_vec_grow_to(&sums, (size_t)ev.sample.thread_id + 1);
			sums.items[ev.sample.thread_id].n++;
			sums.items[ev.sample.thread_id].weight_ns += ev.sample.weight_ns;
		}
	print(fm_reader_profile(r), sums.items, sums.n);
	fm_vec_deinit(&sums);
	fm_reader_close(r);
	return 0;
}
