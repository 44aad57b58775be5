// SPDX-License-Identifier: Apache-2.0
// Writes a profile of what standard input says happened, one event a line; times in seconds since
// the start:
//   memory_profile OUT < SCRIPT
//   run LENGTH                                  how long the program ran; first of all
//   alloc THREAD LINE TIME ID SIZE WEIGHT DOMAIN    LINE is of app.py, in a function of its own; 0 = no Python
//   free THREAD TIME ID
//   level PROCESS TIME RSS ANON FILE SHMEM PSS SWAP CGROUP LIMIT
//   site PROCESS LINE DOMAIN ALLOC N_ALLOCS N_FREES LIVE PEAK AT_PEAK
//   type PROCESS ID NAME
//   meta KEY VALUE
//   sample THREAD LINE TIME
// There are two processes: threads 0 and 1 are of process 0, thread 2 is of process 1.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/known.h"

#define BEGIN_NS 1000000000u
#define MAX_LINE 1000

static uint32_t stacks[MAX_LINE + 1]; // + 1; 0 = not made yet

static uint32_t stack_of(struct fm_writer *w, uint64_t line)
{
	if (line > MAX_LINE)
		return FM_ROOT_STACK;
	if (stacks[line])
		return stacks[line] - 1;
	uint32_t frame;
	if (line == 0) {
		uint32_t image = fm_writer_image(w, FM_STR_LIT("/nonexistent/libnative.so"), FM_STR_LIT("x"), 0);
		frame = fm_writer_frame(w, FM_FRAME_NATIVE, image, 0x40);
	} else {
		char name[32];
		snprintf(name, sizeof(name), "at_%" PRIu64, line);
		frame = fm_writer_frame(w, FM_FRAME_PYTHON,
					known_code(w, name, name, "/home/user/app.py", (uint32_t)line), 1);
	}
	uint32_t stack = fm_writer_stack(w, FM_ROOT_STACK, frame);
	stacks[line] = stack + 1;
	return stack;
}

static uint64_t at(double seconds)
{
	return BEGIN_NS + (uint64_t)(seconds * 1e9 + 0.5);
}

static bool take(struct fm_writer *w, const char *line)
{
	uint64_t n[12];
	uint32_t thread, process;
	double time_s;
	char word[64], value[256];
#define U " %" SCNu64
	if (sscanf(line, "run %lf", &time_s) == 1) {
		fm_writer_process_end(w, 0, at(time_s), 0, 0);
	} else if (sscanf(line, "alloc %u" U " %lf" U U U U, &thread, &n[0], &time_s, &n[1], &n[2], &n[3], &n[4]) ==
		   7) {
		fm_writer_alloc(w, &(struct fm_alloc){ thread, stack_of(w, n[0]), at(time_s), n[1], n[2], n[3],
						       (uint8_t)n[4] });
	} else if (sscanf(line, "free %u %lf" U, &thread, &time_s, &n[0]) == 3) {
		fm_writer_free(w, &(struct fm_free){ thread, at(time_s), n[0] });
	} else if (sscanf(line, "level %u %lf" U U U U U U U U, &process, &time_s, &n[0], &n[1], &n[2], &n[3], &n[4],
			  &n[5], &n[6], &n[7]) == 10) {
		fm_writer_memory_level(w, &(struct fm_memory_level){ process, at(time_s), 0, 0, n[0], n[1], n[2], n[3],
								     n[4], n[5], n[6], n[7] });
	} else if (sscanf(line, "site %u" U U U U U U U U, &process, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6],
			  &n[7]) == 9) {
		fm_writer_site(w, &(struct fm_site){ process, stack_of(w, n[0]), (uint8_t)n[1], n[2], n[3], n[4], n[5],
						     n[6], n[7], 0 });
	} else if (sscanf(line, "type %u" U " %63s", &process, &n[0], word) == 3) {
		fm_writer_alloc_type(w, process, n[0], fm_str_of(word));
	} else if (sscanf(line, "meta %63s %255[^\n]", word, value) == 2) {
		fm_writer_meta(w, word, fm_str_of(value));
	} else if (sscanf(line, "sample %u" U " %lf", &thread, &n[0], &time_s) == 3) {
		fm_writer_sample(
			w, &(struct fm_sample){ thread, stack_of(w, n[0]), at(time_s), 1000000, 0, FM_CLASS_PYTHON });
	} else {
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct fm_writer *w;
	struct fm_diag diag;
	if (argc != 2)
		return fputs("usage: memory_profile OUT < SCRIPT\n", stderr), 2;
	if (fm_writer_open(argv[1], &w, &diag))
		return fprintf(stderr, "memory_profile: %s\n", diag.text), 1;
	for (uint32_t i = 0; i < 2; i++)
		fm_writer_process(
			w, &(struct fm_process_info){ .pid = 100 + i, .parent_pid = 99 + i, .start_ns = BEGIN_NS });
	for (uint32_t i = 0; i < 3; i++)
		fm_writer_thread(w, i / 2, 100 + i, BEGIN_NS);
	char line[512];
	for (unsigned n = 1; fgets(line, sizeof(line), stdin); n++) {
		if (!take(w, line))
			return fprintf(stderr, "memory_profile: line %u is nothing: %s", n, line), 1;
		if (n % 100 == 0)
			fm_writer_flush(w);
	}
	if (fm_writer_close(w, &diag))
		return fprintf(stderr, "memory_profile: %s\n", diag.text), 1;
	return 0;
}
