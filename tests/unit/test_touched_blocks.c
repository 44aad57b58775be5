// SPDX-License-Identifier: Apache-2.0
// How much of its large blocks a process has used, of which this one is an example.
#include "test.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "collect/ingest/live_blocks.h"
#include "read/reader.h"

#define MIB ((uint64_t)1 << 20)
#define STEP_NS 1000000000u // later than any look is put off

static char path[64];

static void remove_path(void)
{
	unlink(path);
}

struct capture {
	struct fm_writer *w;
	struct fm_touched *t;
	uint64_t now_ns;
};

static struct capture begin(void)
{
	struct capture c;
	struct fm_diag diag;
	snprintf(path, sizeof(path), "/tmp/fathom-touched-%d.fathom", (int)getpid());
	atexit(remove_path);
	CHECK_EQ(fm_writer_open(path, &c.w, &diag), FM_OK);
	uint32_t process = fm_writer_process(c.w, &(struct fm_process_info){ .pid = (uint32_t)getpid() });
	c.t = fm_touched_create((uint32_t)getpid(), process, NULL, 0, c.w);
	c.now_ns = fm_now_ns();
	return c;
}

static void look(struct capture *c)
{
	c->now_ns += STEP_NS;
	fm_touched_look(c->t, c->now_ns);
}

static struct fm_reader *finish(struct capture *c)
{
	struct fm_diag diag;
	struct fm_reader *r;
	struct fm_event ev;
	fm_touched_end(c->t, c->now_ns);
	CHECK_EQ(fm_writer_close(c->w, &diag), FM_OK);
	CHECK_EQ(fm_reader_open(path, &r, &diag), FM_OK);
	CHECK_EQ(fm_reader_next(r, &ev), FM_E_END);
	return r;
}

// UINT64_MAX: nothing was told, so it counts in full.
static uint64_t last_told(struct fm_reader *r, uint64_t id)
{
	const struct fm_profile *p = fm_reader_profile(r);
	uint64_t bytes = UINT64_MAX;
	for (size_t i = 0; i < p->alloc_touches.n; i++)
		if (p->alloc_touches.items[i].alloc_id == id)
			bytes = p->alloc_touches.items[i].bytes;
	return bytes;
}

static char *map(uint64_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(p != MAP_FAILED);
	madvise(p, size, MADV_NOHUGEPAGE); // one byte may be two megabytes otherwise
	return p;
}

static char *born(struct capture *c, uint64_t id, uint64_t size, uint64_t used)
{
	char *p = map(size);
	memset(p, 1, used);
	fm_touched_born(c->t, id, (uintptr_t)p, size, c->now_ns);
	return p;
}

TEST(what_was_never_used_is_told)
{
	struct capture c = begin();
	born(&c, 1, 64 * MIB, 0);
	born(&c, 2, 64 * MIB, 4 * MIB);
	born(&c, 3, 64 * MIB, 64 * MIB);
	born(&c, 4, MIB / 2, 0);            // too small to be looked at
	born(&c, 5, 2048 * MIB, 256 * MIB); // only some of its pages are looked at
	for (int i = 0; i < 3; i++)
		look(&c);
	struct fm_reader *r = finish(&c);
	CHECK_EQ(last_told(r, 1), 0);
	CHECK_EQ(last_told(r, 2), 4 * MIB);
	CHECK_EQ(last_told(r, 3), UINT64_MAX);
	CHECK_EQ(last_told(r, 4), UINT64_MAX);
	CHECK_EQ(last_told(r, 5), 256 * MIB);
	fm_reader_close(r);
}

TEST(a_block_that_is_filled_later_counts_in_full)
{
	struct capture c = begin();
	char *p = born(&c, 1, 16 * MIB, MIB);
	for (int i = 0; i < 3; i++)
		look(&c);
	memset(p, 1, 16 * MIB);
	look(&c);
	madvise(p, 16 * MIB, MADV_DONTNEED); // given back: it has been used all the same
	look(&c);
	look(&c);
	struct fm_reader *r = finish(&c);
	CHECK_EQ(last_told(r, 1), 16 * MIB);
	fm_reader_close(r);
}

TEST(a_block_that_is_filled_after_the_last_look_counts_in_full)
{
	struct capture c = begin();
	char *p = born(&c, 1, 16 * MIB, 0);
	look(&c);
	look(&c);
	memset(p, 1, 16 * MIB);
	struct fm_reader *r = finish(&c);
	CHECK(last_told(r, 1) == 16 * MIB || last_told(r, 1) == UINT64_MAX);
	fm_reader_close(r);
}

TEST(a_look_at_a_block_that_is_gone_is_not_believed)
{
	struct capture c = begin();
	char *p = born(&c, 1, 16 * MIB, 16 * MIB);
	munmap(p, 16 * MIB); // its end comes to us later
	look(&c);
	fm_touched_died(c.t, 1, fm_now_ns());
	born(&c, 2, 16 * MIB, 0);
	fm_touched_died(c.t, 2, fm_now_ns()); // never looked at
	look(&c);
	struct fm_reader *r = finish(&c);
	CHECK_EQ(last_told(r, 1), UINT64_MAX);
	CHECK_EQ(last_told(r, 2), UINT64_MAX);
	fm_reader_close(r);
}

TEST(what_is_being_filled_is_filled_on)
{
	CHECK_EQ(fm_touched_by(10, 1000, 0.1, 0), 10);
	CHECK_EQ(fm_touched_by(10, 1000, 0.1, 50), 20); // twice the pace
	CHECK_EQ(fm_touched_by(10, 1000, 0, 900), 10);
	CHECK_EQ(fm_touched_by(10, 1000, 0.1, 1000000), 1000);
	CHECK_EQ(fm_touched_by(2000, 1000, 0.1, 1), 1000);
}

TEST_MAIN()
