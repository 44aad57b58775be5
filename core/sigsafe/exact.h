// Exact mode: every block counted. What sampling draws by chance is looked at here for each, so the stack has to be cheap: it is not
// walked but hashed, frame by frame, and only a hash that was never seen is walked and told of.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sigsafe/state.h"

// Blocks that live: address to token (site and size). Open addressing; grows by moving to a table of twice the size.
struct fm_sig_exact_block {
	uint64_t addr; // 0 = empty
	uint64_t token;
};

#define FM_SIG_EXACT_MIN_LOG2 16
#define FM_SIG_EXACT_MAX_LOG2 26 // 2^26 entries, of which 3/4 may be in use: 50 million blocks
#define FM_SIG_EXACT_INDEX (4 * FM_WIRE_N_SITES)

struct fm_sig_exact {
	_Atomic uint32_t is_locked;
	uint32_t log2; // of the table in use; 0 = none yet
	uint64_t n_blocks;
	uint32_t index[FM_SIG_EXACT_INDEX]; // by key: site, 0 = empty
	uint8_t is_told[FM_WIRE_N_SITES];   // its stack is in a ring
};

// NULL unless the mode is exact. Private, and wiped in a forked child; blocks is room for tables of all sizes behind each other.
extern struct fm_sig_exact *fm_sig_exact;
extern struct fm_sig_exact_block *fm_sig_exact_blocks;
extern uint32_t fm_sig_exact_max_log2;
// This process's place in shared memory; NULL when all are taken.
extern struct fm_wire_exact *fm_sig_exact_sums;

// Counts a block. With is_kept its address is remembered, too. Returns its token, 0 when it was lost.
uint64_t fm_sig_exact_alloc(const void *p, uint64_t size, unsigned domain, bool is_kept);
// The end of a block by its address, or by its token alone.
void fm_sig_exact_free(const void *p);
void fm_sig_exact_token_freed(uint64_t token);
// Takes a block out of the table without counting its end, and puts it back. 0 = not there.
uint64_t fm_sig_exact_take(const void *p);
void fm_sig_exact_give_back(const void *p, uint64_t token);
