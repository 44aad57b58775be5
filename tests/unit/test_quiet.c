// SPDX-License-Identifier: Apache-2.0
// Whether a collector counts as gone, and what follows.
#include "sigsafe/base/quiet.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

#define MS 1000000u

static struct fm_wire_header header;
static struct fm_wire_counts counts;
static struct fm_wire_process process;
static struct fm_sig_thread thread;

// A capture whose collector is this very program: path leads to a file that it has open, or not.
static void begin(const char *path)
{
	struct stat st = { 0 };
	if (stat("/proc/self/exe", &st) != 0)
		CHECK(false);
	memset(&header, 0, sizeof(header));
	memset(&counts, 0, sizeof(counts));
	memset(&process, 0, sizeof(process));
	thread.patience = (struct fm_sig_patience){ 0 };
	fm_sig.header = &header;
	fm_sig.counts = &counts;
	fm_sig.process = &process;
	snprintf(fm_sig.ring_path, sizeof(fm_sig.ring_path), "%s", path);
	fm_sig_quiet_start(st.st_dev, st.st_ino);
	header.beat_ns = fm_now_ns();
}

// As a thread that computes and looks now and then, until it has used so much CPU time.
static bool work(uint64_t cpu_ns)
{
	bool is_quiet = false;
	uint64_t end_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) + cpu_ns;
	while (!is_quiet && fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
		is_quiet = fm_sig_quiet_poll(&thread, fm_now_ns());
	return is_quiet;
}

TEST(late_beat_is_stale_and_none_never)
{
	CHECK(!fm_sig_is_stale(1000 * MS, 1000 * MS));
	CHECK(!fm_sig_is_stale(1000 * MS, 1000 * MS + FM_SIG_STALE_NS));
	CHECK(fm_sig_is_stale(1000 * MS, 1000 * MS + FM_SIG_STALE_NS + 1));
	CHECK(!fm_sig_is_stale(1000 * MS, 999 * MS)); // another CPU's clock
	CHECK(!fm_sig_is_stale(0, 1000 * MS));
}

TEST(own_cpu_time_decides)
{
	struct fm_sig_patience p = { 0 };
	CHECK(!fm_sig_is_alone(&p, 1000 * MS, 500 * MS)); // seen first
	CHECK(!fm_sig_is_alone(&p, 1000 * MS, 500 * MS + FM_SIG_ALONE_CPU_NS - 1));
	CHECK(fm_sig_is_alone(&p, 1000 * MS, 500 * MS + FM_SIG_ALONE_CPU_NS));
}

TEST(each_beat_begins_anew)
{
	struct fm_sig_patience p = { 0 };
	for (uint64_t i = 1; i < 100; i++) {
		CHECK(!fm_sig_is_alone(&p, i * MS, 1000 * MS + i * FM_SIG_ALONE_CPU_NS));
		CHECK(!fm_sig_is_alone(&p, i * MS, 1000 * MS + i * FM_SIG_ALONE_CPU_NS + FM_SIG_ALONE_CPU_NS - 1));
	}
}

TEST(memory_of_an_earlier_thread_says_nothing)
{
	struct fm_sig_patience p = { 1000 * MS, 5000 * MS };
	CHECK(!fm_sig_is_alone(&p, 1000 * MS, 2 * MS));
	CHECK(!fm_sig_is_alone(&p, 1000 * MS, 20 * MS));
	CHECK(fm_sig_is_alone(&p, 1000 * MS, 2 * MS + FM_SIG_ALONE_CPU_NS));
}

TEST(stopped_collector_is_noticed_within_100_ms_of_cpu_time_and_comes_back)
{
	begin("/proc/self/exe");
	CHECK(work(100 * MS));
	CHECK_EQ(fm_sig_quiet.state, FM_SIG_QUIET);
	CHECK_EQ(counts.n_quiet, 1);
	CHECK_EQ(process.is_quiet, 1);
	CHECK(!fm_sig_quiet_may_sample());
	header.beat_ns = fm_now_ns();
	CHECK(fm_sig_is_quiet()); // hooks do not ask; a tick does
	CHECK(fm_sig_quiet_may_sample());
	CHECK(!fm_sig_is_quiet());
	CHECK_EQ(process.is_quiet, 0);
	CHECK(counts.quiet_ns > 0);
}

TEST(dead_collector_does_not_come_back)
{
	begin("/proc/self/fd/1023"); // there is none
	CHECK(work(100 * MS));
	CHECK_EQ(fm_sig_quiet.state, FM_SIG_GONE);
	header.beat_ns = fm_now_ns();
	CHECK(!fm_sig_quiet_may_sample());
}

TEST(another_process_with_its_number_is_not_the_collector)
{
	begin("/dev/null");
	CHECK(work(100 * MS));
	CHECK_EQ(fm_sig_quiet.state, FM_SIG_GONE);
}

TEST(who_naps_knows_a_dead_one_soon_and_a_stopped_one_after_a_second)
{
	begin("/dev/null");
	uint64_t now_ns = header.beat_ns;
	CHECK(!fm_sig_quiet_poll_waiting(now_ns + FM_SIG_STALE_NS));
	CHECK(fm_sig_quiet_poll_waiting(now_ns + FM_SIG_STALE_NS + 1));
	begin("/proc/self/exe");
	now_ns = header.beat_ns;
	CHECK(!fm_sig_quiet_poll_waiting(now_ns + FM_SIG_ALONE_WAIT_NS - 1));
	CHECK(fm_sig_quiet_poll_waiting(now_ns + FM_SIG_ALONE_WAIT_NS));
	CHECK_EQ(fm_sig_quiet.state, FM_SIG_QUIET);
}

TEST(capture_that_is_over_is_over)
{
	begin("/proc/self/exe");
	counts.is_over = 1;
	CHECK(!fm_sig_quiet_may_sample());
	CHECK_EQ(fm_sig_quiet.state, FM_SIG_GONE);
	CHECK_EQ(counts.n_quiet, 0);
}

TEST_MAIN()
