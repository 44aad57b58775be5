// SPDX-License-Identifier: Apache-2.0
// The border to signal time. Included last by every .c file of this room: what it poisons cannot be
// used after it.
//
// A function marked FM_SIGSAFE runs inside a signal handler or an allocator hook of the target:
// bounded work, no locks, no allocation, errno kept by the handler that calls it.
// docs/signal-safety.md has the rules and how each is checked.
#pragma once

// One section for all of it: the linker then gives the two symbols below, which answer "is this pc
// one of our own?".
#define FM_SIGSAFE __attribute__((section("fm_sigsafe")))

extern const char __start_fm_sigsafe[] __attribute__((visibility("hidden")));
extern const char __stop_fm_sigsafe[] __attribute__((visibility("hidden")));

// Each of these takes a lock, allocates, or may load a library. scripts/check_sigsafe.py catches
// what is called in other ways; this catches it with a file and a line.
#pragma GCC poison memcpy memset memmove
#pragma GCC poison malloc calloc realloc free aligned_alloc posix_memalign
#pragma GCC poison printf fprintf sprintf snprintf vsnprintf puts fputs fopen fclose
#pragma GCC poison dlopen dlsym dladdr dl_iterate_phdr getenv setenv
#pragma GCC poison pthread_mutex_lock pthread_create pthread_getspecific pthread_setspecific
#pragma GCC poison exit abort syslog strerror localtime
