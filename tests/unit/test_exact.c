// SPDX-License-Identifier: Apache-2.0
// Peaks by lazy rebasing are those of brute force: a copy of every site's bytes at each new highest
// moment.
#include "wire/exact.h"

#include "test.h"

#define N_SITES 12
#define N_BLOCKS 64

static union {
	struct fm_wire_exact exact;
	uint8_t bytes[FM_WIRE_EXACT_HEADER + N_SITES * sizeof(struct fm_wire_site)];
} memory;

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % below;
}

struct truth {
	uint64_t live[N_SITES], peak[N_SITES], at_peak[N_SITES], alloc[N_SITES];
	uint64_t all, highest;
};

static void look(struct truth *t, unsigned site)
{
	if (t->live[site] > t->peak[site])
		t->peak[site] = t->live[site];
	if (t->all > t->highest) {
		t->highest = t->all;
		memcpy(t->at_peak, t->live, sizeof(t->live));
	}
}

static void check(const struct truth *t)
{
	struct fm_wire_exact *e = &memory.exact;
	uint64_t sum = 0;
	CHECK_EQ(fm_wire_exact_peak(e), t->highest);
	CHECK_EQ(e->live_bytes, t->all);
	for (unsigned i = 0; i < N_SITES; i++) {
		const struct fm_wire_site *s = &fm_wire_exact_sites(e)[i];
		CHECK_EQ(s->live_bytes, t->live[i]);
		CHECK_EQ(s->peak_bytes, t->peak[i]);
		CHECK_EQ(s->alloc_bytes, t->alloc[i]);
		CHECK_EQ(fm_wire_site_at_peak(e, s), t->at_peak[i]);
		sum += fm_wire_site_at_peak(e, s);
	}
	CHECK_EQ(sum, t->highest); // the sites make up the peak
}

TEST(lazy_rebasing_is_brute_force_on_100000_traces)
{
	for (uint64_t seed = 1; seed <= 100000; seed++) {
		struct truth t = { 0 };
		struct {
			uint64_t size;
			unsigned site;
		} blocks[N_BLOCKS] = { 0 };
		memset(&memory, 0, sizeof(memory));
		random_state = seed;
		unsigned n_events = (unsigned)draw(80), n_sites = 1 + (unsigned)draw(N_SITES);
		for (unsigned n = 0; n < n_events; n++) {
			unsigned b = (unsigned)draw(N_BLOCKS / 2), site;
			if (blocks[b].size) {
				site = blocks[b].site;
				fm_wire_exact_remove(&memory.exact, &fm_wire_exact_sites(&memory.exact)[site],
						     blocks[b].size);
				t.live[site] -= blocks[b].size;
				t.all -= blocks[b].size;
				blocks[b].size = 0;
			} else {
				site = blocks[b].site = (unsigned)draw(n_sites);
				blocks[b].size = 1 + draw(1u << draw(20));
				fm_wire_exact_add(&memory.exact, &fm_wire_exact_sites(&memory.exact)[site],
						  blocks[b].size);
				t.live[site] += blocks[b].size;
				t.alloc[site] += blocks[b].size;
				t.all += blocks[b].size;
			}
			look(&t, site);
			if (n % 16 == 0)
				check(&t); // a reader may come at any time
		}
		check(&t);
	}
}

TEST_MAIN()
