// SPDX-License-Identifier: Apache-2.0
// A thread has one slot, whoever asks for it first: a tick, or a hook that a tick interrupts.
#include "sigsafe/base/claim.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "sigsafe/base/places.h"
#include "sigsafe/tick/region.h"
#include "test.h"

#define N_SLOTS 4u
#define N_TICKS 200

static struct fm_wire_header header;
static struct fm_wire_counts counts;
static struct fm_wire_owner *owners;
static _Atomic int n_ticks;

static void begin(void)
{
	size_t size = FM_WIRE_SLOTS_OFFSET + N_SLOTS * FM_WIRE_SLOT_BYTES;
	int fd = memfd_create("slots", 0);
	CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	fm_sig.shared = mmap(NULL, FM_WIRE_COMMON_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(fm_sig.shared != MAP_FAILED);
	owners = (void *)(fm_sig.shared + FM_WIRE_SLOT_TABLE_OFFSET);
	header.n_slots = N_SLOTS;
	fm_sig.counts = &counts;
	fm_sig.pid = fm_sig.outside_pid = (uint32_t)getpid();
	fm_sig.header = &header;
}

// As fm_sig_tick() does.
static void on_tick(int sig)
{
	(void)sig;
	fm_sig_thread_get();
	n_ticks++;
}

static unsigned end_thread(void)
{
	unsigned n_live = 0;
	for (unsigned i = 0; i < N_SLOTS; i++) {
		struct fm_sig_place *place = &fm_sig.places[i];
		n_live += atomic_exchange(&owners[i].state, FM_WIRE_FREE) != FM_WIRE_FREE;
		if (place->slot)
			munmap(place->slot, FM_WIRE_SLOT_BYTES);
		if (place->thread)
			munmap(place->thread, sizeof(*place->thread));
		place->slot = NULL; // the next one maps its place anew, which takes long
		place->thread = NULL;
	}
	fm_sig_self = NULL;
	return n_live;
}

// The ticks come from a timer, and most of what is done between two of them is claiming.
TEST(a_tick_that_meets_a_region_claims_no_second_slot)
{
	begin();
	struct sigaction act = { .sa_handler = on_tick };
	struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { 0 };
	sigset_t tick;
	sigemptyset(&tick);
	sigaddset(&tick, SIGALRM);
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (n_ticks < N_TICKS) {
		fm_sig_region_set(false);
		sigprocmask(SIG_BLOCK, &tick, NULL);
		CHECK_EQ(end_thread(), 1);
		sigprocmask(SIG_UNBLOCK, &tick, NULL);
	}
	setitimer(ITIMER_REAL, &never, NULL);
}

TEST_MAIN()
