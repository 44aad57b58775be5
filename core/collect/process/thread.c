// SPDX-License-Identifier: Apache-2.0
#include "collect/process/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "collect/process/machine.h"
#include "collect/process/proc.h"

#define SCHEDSTAT_BYTES 64 // three numbers
#define CALL_BYTES 256     // nine
#define STAT_BYTES 512
#define STATUS_BYTES 4096
#define SCHED_BYTES 4096 // what is asked for stands in its first lines, but for a kernel that keeps statistics of more

// "" where it cannot be had. The descriptor is the caller's to close, unless there are too few to
// keep it.
static void read_file(const struct fm_proc_thread *t, const char *name, int *fd, char *text, size_t size)
{
	if (*fd < 0) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/%u/task/%u/%s", t->pid, t->tid, name);
		*fd = open(path, O_RDONLY | O_CLOEXEC);
		if (*fd < 0)
			fm_descriptors_note(errno);
	}
	ssize_t n = *fd >= 0 ? pread(*fd, text, size - 1, 0) : 0;
	text[n > 0 ? n : 0] = 0;
	if (*fd >= 0 && !fm_descriptors_may_keep(*fd)) {
		close(*fd);
		*fd = -1;
	}
}

void fm_proc_thread_open(struct fm_proc_thread *ret, uint32_t pid, uint32_t tid)
{
	*ret = (struct fm_proc_thread){
		.tid = tid, .pid = pid, .state_fd = -1, .schedstat_fd = -1, .sched_fd = -1, .stat_fd = -1
	};
	// "running" or what it waits for, in one microsecond; needs the right to trace, which a
	// parent has.
	char probe[8];
	errno = 0;
	read_file(ret, "syscall", &ret->state_fd, probe, sizeof(probe));
	if (probe[0])
		return;
	ret->is_call_refused = errno == EPERM || errno == EACCES;
	if (ret->state_fd >= 0)
		close(ret->state_fd);
	ret->state_fd = -1;
	ret->state_fd_is_stat = true;
	read_file(ret, "stat", &ret->state_fd, probe, sizeof(probe));
}

void fm_proc_thread_close(struct fm_proc_thread *t)
{
	if (t->state_fd >= 0)
		close(t->state_fd);
	if (t->schedstat_fd >= 0)
		close(t->schedstat_fd);
	if (t->sched_fd >= 0)
		close(t->sched_fd);
	if (t->stat_fd >= 0)
		close(t->stat_fd);
}

bool fm_proc_thread_is_running(struct fm_proc_thread *t)
{
	char text[STAT_BYTES];
	bool was_kept = t->state_fd >= 0;
	errno = 0;
	read_file(t, t->state_fd_is_stat ? "stat" : "syscall", &t->state_fd, text,
		  t->state_fd_is_stat ? sizeof(text) : 9);
	if (!text[0]) {
		t->is_gone = was_kept || (errno != EMFILE && errno != ENFILE && errno != EACCES && errno != EPERM);
		return false;
	}
	if (!t->state_fd_is_stat)
		return text[0] == 'r'; // "running"
	return *fm_stat_field(text, 3) == 'R';
}

bool fm_proc_thread_blocks(const struct fm_proc_thread *t, int signal)
{
	char text[STATUS_BYTES];
	_cleanup_close_ int fd = -1; // asked once of most threads, of which there may be many
	read_file(t, "status", &fd, text, sizeof(text));
	const char *mask = strstr(text, "\nSigBlk:");
	return mask && strtoull(mask + 8, NULL, 16) >> (signal - 1) & 1;
}

// "NR ARG0 ... ARG5 SP PC", "-1 SP PC" outside of a system call, or "running"; both without a pc
// of a thread that has ended.
enum fm_proc_state fm_proc_thread_call(struct fm_proc_thread *t, struct fm_proc_call *ret)
{
	char text[CALL_BYTES], *at = text;
	_cleanup_close_ int fd = -1; // where it could not be read at first
	errno = 0;
	read_file(t, "syscall", t->state_fd_is_stat ? &fd : &t->state_fd, text, sizeof(text));
	t->is_call_refused |= !text[0] && (errno == EPERM || errno == EACCES);
	if (!text[0] || text[0] == 'r')
		return FM_PROC_RUNS;
	int32_t nr = (int32_t)strtol(at, &at, 10);
	uint64_t words[8] = { 0 };
	unsigned n_words = 0;
	while (n_words < FM_ARRAY_LEN(words) && *at == ' ')
		words[n_words++] = strtoull(at, &at, 16);
	if (n_words < 2)
		return FM_PROC_RUNS;
	*ret = (struct fm_proc_call){ nr, n_words == 8 ? words[0] : 0, words[n_words - 2], words[n_words - 1] };
	return ret->pc ? FM_PROC_SLEEPS : FM_PROC_OVER;
}

bool fm_proc_thread_schedule(struct fm_proc_thread *t, struct fm_proc_schedule *ret)
{
	char text[SCHEDSTAT_BYTES], *end;
	read_file(t, "schedstat", &t->schedstat_fd, text, sizeof(text));
	ret->cpu_ns = strtoull(text, &end, 10);
	ret->ready_ns = strtoull(end, &end, 10);
	ret->n_sched_in = strtoull(end, NULL, 10);
	return text[0] != 0;
}

uint16_t fm_proc_thread_last_cpu(struct fm_proc_thread *t)
{
	char text[STAT_BYTES];
	read_file(t, "stat", &t->stat_fd, text, sizeof(text));
	return (uint16_t)strtoul(fm_stat_field(text, FM_STAT_CPU), NULL, 10);
}

// The value of a line "NAME : VALUE" without its decimal point; UINT64_MAX when it is not there.
static uint64_t find_value(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	at = at ? strchr(at, ':') : NULL;
	if (!at)
		return UINT64_MAX;
	uint64_t value = 0;
	for (at++; *at && *at != '\n'; at++)
		if (*at >= '0' && *at <= '9')
			value = value * 10 + (uint64_t)(*at - '0');
	return value;
}

// When the scheduler last brought the thread's CPU time up to date, by a clock that its CPU has:
// for a thread on no CPU, when it lost the last one.
static uint64_t read_accounted_ns(struct fm_proc_thread *t, uint64_t *ret_n_taken)
{
	char text[SCHED_BYTES];
	read_file(t, "sched", &t->sched_fd, text, sizeof(text));
	*ret_n_taken = find_value(text, "\nnr_switches");
	return find_value(text, "\nse.exec_start"); // in milliseconds with six decimals
}

// A thread on a CPU has been given one once more often than it was taken one. But the former is not
// always counted, which shows: as a thread that was taken more than it got, or as one that uses a
// CPU without having got one.
static bool has_cpu(struct fm_proc_thread *t, const struct fm_proc_schedule *schedule, uint64_t n_taken)
{
	int64_t n_more = (int64_t)(schedule->n_sched_in - n_taken) + t->n_missed;
	bool has_used = n_more == 0 && t->n_taken == n_taken && t->cpu_ns && t->cpu_ns < schedule->cpu_ns;
	if (n_more < 0)
		t->n_missed -= n_more;
	else if (n_more > 1)
		t->n_missed -= n_more - 1;
	else if (has_used)
		t->n_missed++;
	t->n_taken = n_taken;
	t->cpu_ns = schedule->cpu_ns;
	return n_more > 0 || has_used;
}

enum fm_proc_cpu fm_proc_thread_cpu(struct fm_proc_thread *t, struct fm_proc_thread *self,
				    struct fm_proc_schedule *ret_schedule, uint64_t *ret_lost_ns)
{
	uint64_t n_taken, n_own, lost = read_accounted_ns(t, &n_taken);
	if (lost == UINT64_MAX || n_taken == UINT64_MAX)
		return FM_PROC_CPU_UNKNOWN;
	fm_proc_thread_schedule(t, ret_schedule); // after it: who comes in between seems to run, and does
	if (has_cpu(t, ret_schedule, n_taken))
		return FM_PROC_CPU_HAS;
	fm_clock_ns(CLOCK_THREAD_CPUTIME_ID); // asking for our own CPU time brings it up to date
	uint64_t now_ns = fm_now_ns();
	*ret_lost_ns = now_ns - (read_accounted_ns(self, &n_own) - lost);
	return FM_PROC_CPU_HAS_NOT;
}
