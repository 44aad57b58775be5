// SPDX-License-Identifier: Apache-2.0
// What a process is called among its like. Workers of one program all have its command line: what
// tells them apart is the name that Python's multiprocessing gave, the title that they gave
// themselves (setproctitle writes it over the arguments), or their rank among the processes of
// mpirun or srun.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FM_TITLE_BYTES 96 // longer ones are cut

struct fm_process_title {
	char text[FM_TITLE_BYTES]; // "" = none
	char rank[24];             // "rank 3"
	uint64_t arguments;        // a hash of those it began with
	uint64_t due_ns, rest_ns;  // names come early, and then stay
};

void fm_title_init(struct fm_process_title *t, uint32_t pid);
bool fm_title_is_due(struct fm_process_title *t, uint64_t now_ns);
// python: as multiprocessing calls it, NULL = it does not. True when the text has changed.
bool fm_title_look(struct fm_process_title *t, uint32_t pid, const char *python);
