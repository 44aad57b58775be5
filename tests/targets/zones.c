// Zones of C code: as many as it is told, in a nesting that is known. Built by tests/e2e/test_zones.py as C and, in
// zones.cpp, as C++.
#include <fathom.h>
#include <poll.h>
#include <pthread.h>

int zones_leaf(int i);
int zones_leaf(int i)
{
	FATHOM_ZONE("leaf");
	if (i % 2)
		return i; // a block that is left early ends its zone
	FATHOM_MARK("even");
	return i + 1;
}

void zones_work(int n);
void zones_work(int n)
{
	FATHOM_FUNCTION_ZONE;
	for (int i = 0; i < n; i++) {
		fathom_zone step = fathom_begin("step");
		zones_leaf(i);
		FATHOM_PLOT("i", i);
		fathom_end(step);
	}
}

void zones_texts(int n);
void zones_texts(int n)
{
	char name[16] = "text 0";
	for (int i = 0; i < n; i++) {
		name[5] = (char)('0' + i % 3);
		fathom_zone zone = fathom_begin_text(name);
		fathom_mark_text(name, 6);
		fathom_plot_text(name, i);
		fathom_end(zone);
	}
}

static void *thread_main(void *n)
{
	zones_work(*(int *)n);
	return NULL;
}

// Threads that Python knows nothing of.
void zones_threads(int n_threads, int n);
void zones_threads(int n_threads, int n)
{
	pthread_t threads[16];
	for (int i = 0; i < n_threads; i++)
		pthread_create(&threads[i], NULL, thread_main, &n);
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
}

static volatile int is_over, n_endless;
static pthread_t endless;

static void *endless_main(void *unused)
{
	fathom_name_thread("zone-maker");
	for (; !is_over; n_endless++) {
		zones_leaf(1);
		if (n_endless % 256 == 0)
			poll(NULL, 0, 1); // a test's trace should stay small
	}
	return unused;
}

int zones_count(void);
int zones_count(void)
{
	return n_endless;
}

// A thread that writes zones, captures or not, until the second call.
void zones_endless(void);
void zones_endless(void)
{
	is_over = endless != 0;
	if (!endless)
		pthread_create(&endless, NULL, endless_main, NULL);
	else
		pthread_join(endless, NULL);
}
