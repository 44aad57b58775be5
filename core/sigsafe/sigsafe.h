// Include this LAST in every file of this room. What runs in a signal handler may not allocate, lock or print, and these
// names stop the compiler when someone tries. scripts/check_sigsafe.sh looks at the objects for what eyes miss.
#pragma once

// Puts a function into its own section: "is this pc one of our own frames?" is then a range check.
#define FM_SIGSAFE __attribute__((section("fm_sigsafe")))

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf dlsym dlopen pthread_mutex_lock getenv memcpy memset
