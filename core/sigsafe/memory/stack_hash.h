// SPDX-License-Identifier: Apache-2.0
// One number for the Python stack of the calling thread, for hooks that ask for every allocation.
// Frames are not hashed each time but compared with how they last were: code, instruction and
// caller, from the innermost to the outermost. Only from the first that is not the same inwards are
// hashes made anew.
//
// What a block costs grows by what changed, not by how deep the stack is. Of a deep one the
// innermost FM_SIG_MIRROR_DEEP frames are compared for each block, the others by turns. A caller
// further out cannot have changed without all of these having returned and been called again, at
// the same places and instructions, and without any block in between; where it did all the same,
// which the next turn finds, blocks since the last one have the caller that was there before.
// Recursion further in than that counts once: each of its depths would be a stack of its own.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define FM_SIG_MIRROR_FRAMES 16384 // what is further in is told apart by its innermost frame alone
#define FM_SIG_MIRROR_PLACES 32768 // power of two; frames that share one are looked for in vain, which costs time only
#define FM_SIG_MIRROR_DEEP 64
// Frames of the outer part that are compared at a turn, and how many blocks pass between two.
#define FM_SIG_MIRROR_TURN 256
#define FM_SIG_MIRROR_BLOCKS_PER_TURN 64

#define FM_SIG_MIRROR_MEMOS 256 // power of two
#define FM_SIG_MIRROR_CODES 128 // power of two

struct fm_sig_mirror_frame {
	uint64_t frame;       // its address; 0 = none
	uint64_t code, lasti; // as last seen
	uint64_t print;       // of the code; 0 = it is none of the program's, but of the interpreter's own
	uint64_t own;         // hash of these; 0 = a frame of the interpreter's own, which does not count
	uint64_t hash;        // of it and its callers
};

// A code object that was looked at.
struct fm_sig_mirror_code {
	uint64_t code, print;
};

// What of the interpreter's row is needed for each block, side by side.
struct fm_sig_mirror_layout {
	uint64_t ts_thread_id, ts_cframe, current_frame; // of what ts_cframe points to, or of the thread state
	uint64_t frame_code, frame_lasti, frame_previous;
	uint64_t code_mask, lasti_mask;
	uint64_t image_start, image_bytes; // the interpreter's code
	bool has_cframe;
	bool is_lasti_pointer; // an instruction's address: it tells the code, too
};

// What exact.c has found for the stack that ends in a place: the next block there needs no search.
struct fm_sig_memo {
	uint64_t place;   // instruction and code of the innermost frame; 0 = none
	uint64_t callers; // hash
	struct fm_wire_site *site;
	uint64_t token; // of a block of no bytes
};

// By what stacks are told apart. Where there are too many of them to keep, recursion counts once (a
// call that is further out already, at the same instruction, is left out); then callers do not
// count.
enum fm_sig_hash_of { FM_SIG_HASH_WHOLE, FM_SIG_HASH_FOLDED, FM_SIG_HASH_INNERMOST };

struct fm_sig_frame_cache {
	uint64_t thread_state; // that was this thread's when it was last looked at; 0 = none, or no Python in it
	uint64_t thread;       // pthread_self() then
	uint64_t epoch;        // fm_sig_mirror_epoch then
	struct fm_sig_mirror_frame *last; // the innermost one that was last seen
	struct fm_sig_mirror_layout layout;
	enum fm_sig_hash_of of; // hashes are
	uint32_t n_hashed;      // hashes of frames [1, n_hashed] are those of the fields
	uint32_t n_used;        // frames [1, n_used] were ever filled since the last forgetting
	uint32_t turn; // the frame at which the outer part's next turn begins, inwards out; 0 = at the deep part's end
	uint32_t n_since_turn;  // blocks
	uint32_t n_until_check; // stacks until fm_sig_fault_check() is asked again: it takes as long as some of them
	uint32_t n_skip; // blocks for which no stack is walked: one before had more frames than there is room for
	struct fm_sig_memo memos[2][FM_SIG_MIRROR_MEMOS];     // FM_ALLOC_OBJ, FM_ALLOC_MEM; by place
	struct fm_sig_mirror_code codes[FM_SIG_MIRROR_CODES]; // by address
	uint16_t place[FM_SIG_MIRROR_PLACES];                 // by a frame's address: its index, when it was last seen
	struct fm_sig_mirror_frame frames[1 + FM_SIG_MIRROR_FRAMES]; // outermost first, from 1 on; 0 is nobody's
	uint64_t fresh[FM_SIG_MIRROR_FRAMES]; // addresses of those that are not there, innermost first
};

struct fm_sig_thread;
struct fm_wire_site;

// Grows when a code object that a frame_cache may know comes to its end, before its memory is
// anybody else's.
extern FM_HIDDEN _Atomic uint64_t fm_sig_mirror_epoch;

// FM_WIRE_N_SLOTS of them, one for each slot; mapped in exact mode only.
extern struct fm_sig_frame_cache *fm_sig_mirrors;

// 1 = no Python here. Between fm_sig_alloc_enter() and _leave() only.
uint64_t fm_sig_python_hash(struct fm_sig_thread *t, enum fm_sig_hash_of of);
// The next three are for a thread of which it was asked before, between fm_sig_exact_enter() and
// _leave(). What was found for this stack and a domain of Python's, when its callers are those of
// the last one (sigsafe/memory/stack_compare.h has this); after some of them have moved; NULL =
// nothing was, or all is new. ts: what current_thread_state() says.
const struct fm_sig_memo *fm_sig_mirror_follow(struct fm_sig_thread *t, uint64_t ts, unsigned domain);
// Keeps what was found for the stack that was last asked for.
void fm_sig_mirror_learn(struct fm_sig_frame_cache *m, unsigned domain, struct fm_wire_site *site, uint64_t token);
