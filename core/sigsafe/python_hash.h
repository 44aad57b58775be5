// One number for the Python stack of the calling thread, for hooks that ask for every allocation. Frames are not hashed each time
// but compared with how they last were: code, instruction and caller, from the innermost to the outermost. Only from the first
// that is not the same inwards are hashes made anew.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FM_SIG_MIRROR_FRAMES 4096 // deeper stacks are told apart by their inner part
#define FM_SIG_MIRROR_PLACES \
	1024 // power of two; more frames than these may be looked for in vain, which costs time only

struct fm_sig_mirror_frame {
	uint64_t frame;                   // its address; 0 = none
	uint64_t code, lasti, line_table; // as last seen
	uint64_t own;                     // hash of these; 0 = a frame of the interpreter's own, which does not count
	uint64_t hash;                    // of it and its callers
};

// What of the interpreter's row is needed for each block, side by side.
struct fm_sig_mirror_layout {
	uint64_t ts_thread_id, ts_cframe, current_frame; // of what ts_cframe points to, or of the thread state
	uint64_t frame_code, frame_lasti, frame_previous, line_table;
	uint64_t code_mask, lasti_mask;
	bool has_cframe;
	bool is_lasti_pointer; // an instruction's address: it tells the code, too
};

// By what stacks are told apart. Where there are too many of them to keep, recursion counts once (a call that is further out already, at the
// same instruction, is left out); then callers do not count.
enum fm_sig_hash_of { FM_SIG_HASH_WHOLE, FM_SIG_HASH_FOLDED, FM_SIG_HASH_INNERMOST };

struct fm_sig_mirror {
	uint64_t thread_state, thread; // that was this thread's when it was last looked at; pthread_self() then
	struct fm_sig_mirror_layout layout;
	uint32_t n_last;                      // frames of the stack that was last seen
	enum fm_sig_hash_of of;               // hashes are
	uint32_t n_hashed;                    // hashes of frames [1, n_hashed] are those of the fields
	uint16_t place[FM_SIG_MIRROR_PLACES]; // by a frame's address: its index, when it was last seen
	struct fm_sig_mirror_frame frames[1 + FM_SIG_MIRROR_FRAMES]; // outermost first, from 1 on; 0 is nobody's
	uint64_t fresh[FM_SIG_MIRROR_FRAMES]; // addresses of those that are not there, innermost first
};

struct fm_sig_thread;

// FM_WIRE_N_SLOTS of them, one for each slot; mapped in exact mode only.
extern struct fm_sig_mirror *fm_sig_mirrors;

// 1 = no Python here. Between fm_sig_alloc_enter() and _leave() only.
uint64_t fm_sig_python_hash(struct fm_sig_thread *t, enum fm_sig_hash_of of);
