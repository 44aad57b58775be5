// SPDX-License-Identifier: Apache-2.0
// Threads that libc knows nothing of: made by a bare clone(), or with the thread pointer set to something else.
#pragma once

#include <stdbool.h>

// False where the calling thread's pointer does not lead to what libc keeps for a thread: there is no errno, and no
// thread-local variable of ours. For handlers, before they touch either; what they may do in such a thread is to
// return.
bool fm_sig_has_thread_block(void);

// The kernel lets programs read their thread pointer themselves; otherwise it is asked.
extern bool fm_sig_may_read_fsbase;
