// One sample: what the engines' signal handlers call.
#pragma once

#include <stdbool.h>
#include <ucontext.h>

// Samples the calling thread as it was when the signal came. Async-signal-safe; bounded work; uses about 2 KiB of stack;
// leaves errno alone. With may_interrupt (the signal came from outside, not from the thread's own user code) uc may change: a
// system call that our signal interrupted is put back.
void fm_sig_tick(ucontext_t *uc, bool may_interrupt);
// For a signal that is not ours and that the program ignores: puts back what it interrupted, as if it had never come.
void fm_sig_ignore(ucontext_t *uc);
// After a handler of the program: a system call that its signal ended stays ended, whatever signal of ours comes next.
void fm_sig_mark_interrupted(ucontext_t *uc);
