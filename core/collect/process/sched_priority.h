// SPDX-License-Identifier: Apache-2.0
// On a machine whose CPUs are all busy our threads share them with those that they watch, and when
// they get to run must not depend on what those do: some system calls are where the scheduler looks
// around. A short slice lets them in at once (Linux 6.12, no privilege asked); so does a better
// priority, where that is permitted.
#pragma once

// For the calling thread. nice: 0 = as it is.
void fm_raise_sched_priority(int nice);
