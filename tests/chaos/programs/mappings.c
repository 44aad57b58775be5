/* Maps and takes away memory beside a Python program, by libc and by the kernel alone. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int running;
static pthread_t thread;

static void *churn(void *arg)
{
	(void)arg;
	unsigned seed = 1;
	while (atomic_load(&running)) {
		size_t size = (size_t)(1 + rand_r(&seed) % 8) * 4096;
		char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			continue;
		memset(at, 1, size);
		switch (rand_r(&seed) % 4) {
		case 0:
			munmap(at, size);
			break;
		case 1:
			syscall(SYS_munmap, at, size);
			break;
		case 2:
			mprotect(at, size, PROT_NONE), munmap(at, size);
			break;
		default:
			madvise(at, size, MADV_DONTNEED), munmap(at, size);
			break;
		}
	}
	return NULL;
}

void begin(void)
{
	atomic_store(&running, 1);
	pthread_create(&thread, NULL, churn, NULL);
}

void end(void)
{
	atomic_store(&running, 0);
	pthread_join(thread, NULL);
}
