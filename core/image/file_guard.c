// SPDX-License-Identifier: Apache-2.0
#include "image/elf_file.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static __thread int depth;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uintptr_t page_bytes;

// Only a thread that reads files is helped: a page that is gone from the shared memory must not be
// replaced by one that nobody else sees.
static void put_zeros(int signo, siginfo_t *info, void *context)
{
	(void)context;
	void *page = (void *)((uintptr_t)info->si_addr & ~(page_bytes - 1));
	if (depth > 0 && info->si_code == BUS_ADRERR &&
	    mmap(page, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page)
		return;
	signal(signo, SIG_DFL); // it comes again, and ends us as it should
}

static void install(void)
{
	page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct sigaction action = { .sa_sigaction = put_zeros, .sa_flags = SA_SIGINFO };
	sigaction(SIGBUS, &action, NULL);
}

int fm_file_guard_enter(void)
{
	pthread_once(&once, install);
	return depth++;
}

void fm_file_guard_leave(int *unused)
{
	(void)unused;
	depth--;
}
