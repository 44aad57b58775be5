// SPDX-License-Identifier: Apache-2.0
// Writes a trace whose every zone is known by its number, for tests and measurements of scale.
//   gen_trace OUT N_ZONES [--threads N]
// Each thread handles requests one after the other, each in a zone "serve" that stands open for the
// whole run. A request takes 110 us (times in ns since the thread's start, request r):
//   handle  r * 110000                      for 109000
//   step    r * 110000 + s * 10900          for  10000, s = 0..9
//   leaf    ... + 100 + k * 1100            for   1000 + (r * 73856093 ^ s * 19349663 ^ k * 83492791) % 97, k = 0..8
// Every 1,000th request is followed by a pause of 1 ms. So a request is 101 zones. Times begin at 1
// s.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/writer.h"
#include "format/zones.h"

#define START_NS 1000000000u
#define REQUEST_NS 110000u
#define PAUSE_NS 1000000u
#define STEPS 10
#define LEAVES 9
#define ZONES_IN_REQUEST (1 + STEPS + STEPS * LEAVES)
#define REQUESTS_IN_BATCH 64
#define N_LEAF_NAMES 50

static uint32_t code(struct fm_writer *w, const char *name, uint32_t line)
{
	struct fm_code_info info = { .name = fm_str_of(name),
				     .qualname = fm_str_of(name),
				     .filename = FM_STR_LIT("/home/user/project/service.py"),
				     .first_line = line };
	return fm_writer_code(w, &info);
}

static void give(struct fm_writer *w, struct fm_zone_encoder *e, uint32_t thread)
{
	struct fm_buf body = { 0 };
	if (fm_zone_encoder_take(e, thread, &body))
		fm_writer_trace(w, thread, body.data, body.len);
	fm_buf_deinit(&body);
}

int main(int argc, char **argv)
{
	if (argc != 3 && !(argc == 5 && !strcmp(argv[3], "--threads"))) {
		fputs("usage: gen_trace OUT N_ZONES [--threads N]\n", stderr);
		return 2;
	}
	uint64_t n_zones = strtoull(argv[2], NULL, 0);
	uint32_t n_threads = argc == 5 ? (uint32_t)FM_MAX(strtoull(argv[4], NULL, 0), 1ull) : 1;
	uint64_t n_requests = n_zones / ZONES_IN_REQUEST / n_threads;
	struct fm_writer *w;
	struct fm_diag diag;
	if (fm_writer_open(argv[1], &w, &diag)) {
		fprintf(stderr, "gen_trace: %s\n", diag.text);
		return 1;
	}
	fm_writer_meta(w, "command", FM_STR_LIT("python3 service.py"));
	struct fm_process_info process = { .pid = 1000,
					   .start_ns = START_NS,
					   .command = FM_STR_LIT("python3\0service.py") };
	uint32_t process_id = fm_writer_process(w, &process);
	uint32_t serve = fm_writer_trace_name(w, FM_NAME_ZONE, FM_STR_LIT("serve"));
	uint32_t handle = code(w, "handle", 10), step = code(w, "step", 20), leaves[N_LEAF_NAMES];
	for (uint32_t i = 0; i < N_LEAF_NAMES; i++) {
		char name[32];
		snprintf(name, sizeof(name), "leaf_%u", i);
		leaves[i] = code(w, name, 100 + 10 * i);
	}
	struct fm_zone_encoder *encoders = fm_alloc(n_threads * sizeof(*encoders));
	for (uint32_t t = 0; t < n_threads; t++) {
		fm_writer_thread(w, process_id, 1000 + t, START_NS);
		fm_zone_encode(&encoders[t], FM_ZONE_NOTE, FM_ZONE_ON, START_NS, 0);
		fm_zone_encode(&encoders[t], FM_ZONE_BEGIN, serve, START_NS, 0);
	}
	uint64_t pause_ns = 0, end_ns = START_NS;
	for (uint64_t r = 0; r < n_requests; r++) {
		uint64_t at = START_NS + r * REQUEST_NS + pause_ns;
		for (uint32_t t = 0; t < n_threads; t++) {
			struct fm_zone_encoder *e = &encoders[t];
			fm_zone_encode(e, FM_ZONE_ENTER, handle, at, 0);
			for (uint64_t s = 0; s < STEPS; s++) {
				uint64_t step_ns = at + s * 10900;
				fm_zone_encode(e, FM_ZONE_ENTER, step, step_ns, 0);
				for (uint64_t k = 0; k < LEAVES; k++) {
					uint64_t leaf_ns = step_ns + 100 + k * 1100;
					fm_zone_encode(e, FM_ZONE_ENTER, leaves[(r + s * LEAVES + k) % N_LEAF_NAMES],
						       leaf_ns, 0);
					uint64_t jitter = (r * 73856093 ^ s * 19349663 ^ k * 83492791) % 97;
					fm_zone_encode(e, FM_ZONE_LEAVE, 0, leaf_ns + 1000 + jitter, 0);
				}
				fm_zone_encode(e, FM_ZONE_LEAVE, 0, step_ns + 10000, 0);
			}
			fm_zone_encode(e, FM_ZONE_LEAVE, 0, at + 109000, 0);
			if (r % REQUESTS_IN_BATCH == REQUESTS_IN_BATCH - 1)
				give(w, e, t);
		}
		end_ns = at + REQUEST_NS;
		if (r % 1000 == 999)
			pause_ns += PAUSE_NS;
	}
	for (uint32_t t = 0; t < n_threads; t++) {
		fm_zone_encode(&encoders[t], FM_ZONE_LEAVE, 0, end_ns, 0);
		fm_zone_encode(&encoders[t], FM_ZONE_NOTE, FM_ZONE_OFF, end_ns, 0);
		give(w, &encoders[t], t);
		fm_zone_encoder_deinit(&encoders[t]);
		fm_writer_thread_end(w, t, &(struct fm_thread_totals){ end_ns, end_ns - START_NS, 0 });
	}
	free(encoders);
	char text[32];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)(2 * n_requests * n_threads * ZONES_IN_REQUEST));
	fm_writer_meta(w, "trace_events", fm_str_of(text));
	fm_writer_process_end(w, process_id, end_ns, 0, 0);
	if (fm_writer_close(w, &diag)) {
		fprintf(stderr, "gen_trace: %s\n", diag.text);
		return 1;
	}
	printf("%llu zones\n", (unsigned long long)(n_threads * (1 + n_requests * ZONES_IN_REQUEST)));
	return 0;
}
