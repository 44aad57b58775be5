// One sample: what the engines' signal handlers call.
#pragma once

#include <ucontext.h>

// Samples the calling thread as it was when the signal came. Async-signal-safe; bounded work; uses about 2 KiB of stack;
// leaves errno alone. May change uc: a system call that our signal interrupted is put back.
void fm_sig_tick(ucontext_t *uc);
