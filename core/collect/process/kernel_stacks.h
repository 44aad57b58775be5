// SPDX-License-Identifier: Apache-2.0
// What the kernel was doing on behalf of a sampled thread (--kernel): its own call chains, read by
// perf events that fire in the kernel only. The agent's sample tells which system call a thread is
// in; a chain of the same thread from the same time tells where inside it. Both are random instants
// of one interval, so that joining them is fair over many; where calls follow each other within one
// interval, a chain may be another call's. An interval without a chain keeps the system call's name
// alone.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct fm_writer;
struct fm_kernel_stacks;

// Watches the process and what it starts. When the system does not permit it, diag says what would.
FM_MUST_CHECK enum fm_err fm_kernel_stacks_open(uint32_t pid, uint32_t rate_hz, struct fm_writer *writer,
						struct fm_kernel_stacks **ret, struct fm_diag *diag);
// Takes what the kernel has written. To be called after the rings' ends were noted and before their
// samples are read: a chain then is there before the sample that it belongs to.
void fm_kernel_stacks_read(struct fm_kernel_stacks *k);
// The stack with the kernel's functions inside it, for a sample of the thread that stands for
// (from_ns, to_ns].
uint32_t fm_kernel_stacks_extend(struct fm_kernel_stacks *k, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
				 uint32_t stack_id);
// Writes the functions' names and frees. NULL is fine.
void fm_kernel_stacks_close(struct fm_kernel_stacks *k);
