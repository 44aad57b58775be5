// SPDX-License-Identifier: Apache-2.0
// One sample: what the engines' signal handlers call.
#pragma once

#include <stdbool.h>
#include <ucontext.h>

// What a sample without walking (FM_SIG_WALK_BYTES) takes of a signal stack. Where there is less,
// the tick is counted and no more.
#define FM_SIG_ANSWER_BYTES 1280u

// Samples the calling thread as it was when the signal came. Async-signal-safe; bounded work
// (budget.h); uses about 2.5 KiB of stack, less where there is less; leaves errno alone. With
// may_interrupt (the signal came from outside, not from the thread's own user code) uc may change:
// a system call that our signal interrupted is put back.
void fm_sig_tick(ucontext_t *uc, bool may_interrupt);
// For a signal that is not ours and that the program ignores: puts back what it interrupted, as if
// it had never come.
void fm_sig_ignore(ucontext_t *uc);
// After a handler of the program: a system call that its signal ended stays ended, whatever signal
// of ours comes next.
void fm_sig_mark_interrupted(ucontext_t *uc);
