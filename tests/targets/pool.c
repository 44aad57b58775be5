// A library with worker threads of its own: how much CPU time each call costs is measured by those who work.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define MAX_WORKERS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned n_workers, n_open, round_nr;
static double wanted_s;
static _Atomic uint64_t used_ns;

static uint64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) uint64_t pool_spin(double seconds)
{
	uint64_t start = cpu_ns(), end = start + (uint64_t)(seconds * 1e9), now;
	volatile uint64_t sum = 0;
	do {
		for (unsigned i = 0; i < 20000; i++)
			sum += i;
		now = cpu_ns();
	} while (now < end);
	return now - start;
}

static void *work(void *arg)
{
	unsigned seen = 0;
	(void)arg;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (seen == round_nr)
			pthread_cond_wait(&changed, &lock);
		seen = round_nr;
		pthread_mutex_unlock(&lock);
		atomic_fetch_add(&used_ns, pool_spin(wanted_s));
		pthread_mutex_lock(&lock);
		n_open--;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

void pool_start(unsigned n)
{
	for (; n_workers < n && n_workers < MAX_WORKERS; n_workers++) {
		pthread_t thread;
		pthread_create(&thread, NULL, work, NULL);
	}
}

// All workers spin; the caller waits for them, or spins as long as they do first. The CPU seconds that it all took.
double pool_run(double seconds, bool takes_part)
{
	atomic_store(&used_ns, 0);
	pthread_mutex_lock(&lock);
	wanted_s = seconds;
	n_open = n_workers;
	round_nr++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (takes_part)
		atomic_fetch_add(&used_ns, pool_spin(seconds));
	pthread_mutex_lock(&lock);
	while (n_open)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return (double)atomic_load(&used_ns) * 1e-9;
}

static double detached_s;

static void *detached(void *arg)
{
	(void)arg;
	pool_spin(detached_s);
	return NULL;
}

// A thread that nobody waits for.
void pool_detach(double seconds)
{
	pthread_t thread;
	detached_s = seconds;
	pthread_create(&thread, NULL, detached, NULL);
	pthread_detach(thread);
}
