// SPDX-License-Identifier: Apache-2.0
// What /proc tells of a process in a few words: its state, who descends from whom, what it is called.
// It may have ended meanwhile: then it tells nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The file of that name below /proc/PID, ended by a 0 and cut at cap. Returns the bytes; 0 when it
// cannot be read.
size_t fm_process_read_proc(uint32_t pid, const char *name, char *to, size_t cap);
// Our own, also where /proc is that of an outer container, which calls us by another number.
size_t fm_process_read_own_status(char *to, size_t cap);

// The state of a thread, or of the process (tid 0): a letter of proc(5), R S D T t Z X. 0 = it is gone.
char fm_process_state(uint32_t pid, uint32_t tid);
// A number of /proc/PID/stat, by its place there as proc(5) counts; 0 = not known.
enum fm_process_stat {
	FM_STAT_PARENT = 4,
	FM_STAT_SYSTEM_TICKS = 15,
	FM_STAT_CHILDREN_USER_TICKS = 16, // of children that it has waited for, and theirs
	FM_STAT_CHILDREN_SYSTEM_TICKS = 17,
	FM_STAT_STACK_START = 28,
	FM_STAT_CPU = 39,         // that it runs on, or ran on last
	FM_STAT_EXIT_STATUS = 52, // as waitpid() has it, of one that has ended
};
uint64_t fm_process_stat(uint32_t pid, enum fm_process_stat field);
// Ticks of such a number as nanoseconds.
uint64_t fm_process_ticks_ns(uint64_t ticks);
// The text of such a file from a field on, the third or later: the second is a name, which may hold
// anything, also brackets. "" when there is none.
const char *fm_stat_field(const char *text, unsigned field);
uint32_t fm_process_parent(uint32_t pid);

// Whether it has ended, reaped or not. pidfd may be -1: sandboxes forbid pidfd_open, and Linux
// before 5.3 has none.
bool fm_process_is_over(int pidfd, uint32_t pid);
// Whether it runs as we do.
bool fm_process_is_same_user(uint32_t pid);
// The pid by which the process knows itself, which differs in a container.
uint32_t fm_process_own_pid(uint32_t pid);

#define FM_PYTHON_VERSION_BYTES 48
// What a Python is called by its hexversion; "3.8" where only that much is known.
void fm_process_python_version(uint32_t hexversion, bool is_free_threaded, char ret[FM_PYTHON_VERSION_BYTES]);

// Who descends from whom, as the kernel tells it now.

// Calls each() for the processes that this one started and that have not ended, as far as they are
// still its own.
void fm_process_children(uint32_t pid, void (*each)(void *ctx, uint32_t child), void *ctx);
// Calls each() for all processes that are visible here.
void fm_process_all(void (*each)(void *ctx, uint32_t pid), void *ctx);

// What a process is called among its like. Workers of one program all have its command line: what
// tells them apart is the name that Python's multiprocessing gave, the title that they gave
// themselves (setproctitle writes it over the arguments), or their rank among the processes of
// mpirun or srun.
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
