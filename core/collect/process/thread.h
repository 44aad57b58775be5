// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of one thread of another process: whether it runs, and how it stands with
// the scheduler. The files in /proc are kept open, because they are asked a thousand times a
// second; where descriptors are few, they are opened each time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fm_proc_thread {
	uint32_t tid, pid;
	int state_fd; // of .../syscall or .../stat; -1: cannot be opened, or not be kept open
	bool state_fd_is_stat;
	bool is_call_refused;                // the system does not let us read its .../syscall
	int schedstat_fd, sched_fd, stat_fd; // -1: not opened yet, cannot be, or not be kept open
	bool is_gone;                        // it has ended, as far as its file tells
	uint64_t n_taken, cpu_ns; // at the last question for its CPU: how often it had been taken one, CPU time used
	int64_t n_missed;         // some kernels forget to count now and then that they gave it a CPU
};

void fm_proc_thread_open(struct fm_proc_thread *ret, uint32_t pid, uint32_t tid);
void fm_proc_thread_close(struct fm_proc_thread *t);

// Also true of one that waits for a CPU.
bool fm_proc_thread_is_running(struct fm_proc_thread *t);
bool fm_proc_thread_blocks(const struct fm_proc_thread *t, int signal);

// Where a thread is that does not run.
struct fm_proc_call {
	int32_t nr;    // the system call that it is in; -1 = none
	uint64_t arg0; // its first argument
	uint64_t sp, pc;
};
enum fm_proc_state {
	FM_PROC_RUNS, // or cannot be told
	FM_PROC_SLEEPS,
	FM_PROC_OVER, // it has ended, and its parent or its process's other threads have not
};
enum fm_proc_state fm_proc_thread_call(struct fm_proc_thread *t, struct fm_proc_call *ret);

// All zero where the kernel does not count, or the thread is gone.
struct fm_proc_schedule {
	uint64_t cpu_ns;     // CPU time used; exact for a thread on no CPU, some milliseconds old for one that runs
	uint64_t ready_ns;   // for a CPU, until it was last given one
	uint64_t n_sched_in; // how often it was given a CPU
};
bool fm_proc_thread_schedule(struct fm_proc_thread *t, struct fm_proc_schedule *ret); // false: it cannot be read

// The number of the CPU that it runs on, or ran on last; 0 when it is gone.
uint16_t fm_proc_thread_last_cpu(struct fm_proc_thread *t);

enum fm_proc_cpu {
	FM_PROC_CPU_UNKNOWN, // the kernel does not tell
	FM_PROC_CPU_HAS,
	FM_PROC_CPU_HAS_NOT,
};
// Whether a thread is on a CPU, and if not, when it lost the last one, by the clock of the calling
// thread's own CPU (self): what another CPU took it may be off by anything. The schedule is that of
// the same moment.
enum fm_proc_cpu fm_proc_thread_cpu(struct fm_proc_thread *t, struct fm_proc_thread *self,
				    struct fm_proc_schedule *ret_schedule, uint64_t *ret_lost_ns);
