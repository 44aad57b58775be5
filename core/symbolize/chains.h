// SPDX-License-Identifier: Apache-2.0
// What the addresses of one image mean: each a chain of functions, the inlined ones inside. Plain
// data that can be packed into bytes: for the cache on disk, and for the pipe from the process that
// reads debug information.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

struct fm_link {
	uint32_t name, file;     // of fm_chains.strings; "" = unknown. The name is as the linker knows it
	uint32_t first_line;     // of the function; 0 = unknown
	uint32_t line : 31;      // of the address, or of the call of the next; 0 = unknown
	uint32_t is_inlined : 1; // into the one before
};

// Both lie in the cache as they lie in memory: it has tens of thousands, of which a capture asks for
// a few.
struct fm_chain {
	uint64_t addr;
	uint64_t start;         // of the function, told by symbols or unwind tables; 0 = unknown
	uint32_t first_link, n; // outermost first; n = 0: no name is known
	uint32_t len;           // what is said holds for so many addresses
	uint32_t guess; // of fm_chains.strings: without a name, the symbol before it, which may mean another function
};

// Debug information that is known to be somewhere and was not read.
enum fm_unread {
	FM_UNREAD_NOTHING = 0,
	FM_UNREAD_SPLIT =
		1, // functions and inlined calls were split off into a file that is not where the compiler put it
	FM_UNREAD_PACKED = 2,     // they are in a package, which this libdw cannot read
	FM_UNREAD_COMPRESSED = 3, // all of it is compressed in a way that this libdw cannot undo
};

// What was found about the image as a whole.
struct fm_image_facts {
	uint8_t state;                        // enum fm_object_state
	uint8_t origin;                       // enum fm_debug_origin: where lines came from
	bool is_damaged;                      // debug information is there but could not be read
	bool did_ask_server;                  // and it answered
	bool is_server_silent;                // it did not: worth asking again
	uint8_t unread;                       // enum fm_unread
	struct fm_str debug_path, debug_link; // "" = none. Live as long as the chains
	struct fm_str unread_path;            // the split-off file that is gone
	struct fm_str package_path;           // and the package that has it
};

struct fm_chains {
	struct fm_image_facts facts;
	FM_VEC(struct fm_chain) items; // by rising address once fm_chains_sort() was called
	FM_VEC(struct fm_link) links;
	struct fm_intern strings; // 0 is ""
};

void fm_chains_init(struct fm_chains *c);
void fm_chains_deinit(struct fm_chains *c);
// Adds an address; links are added by pushing to c->links right afterwards, with n counted up by
// fm_chains_link().
void fm_chains_add(struct fm_chains *c, uint64_t addr, uint64_t start);
// Of the address that was added last, when it has no name.
void fm_chains_guess(struct fm_chains *c, struct fm_str name);
void fm_chains_link(struct fm_chains *c, struct fm_str name, struct fm_str file, uint32_t first_line, uint32_t line,
		    bool is_inlined);
// The address that was added last is the first of those up to `end` that all mean the same. Becomes
// part of the one before it where that ends here and means the same, too.
void fm_chains_extend(struct fm_chains *c, uint64_t end);
void fm_chains_sort(struct fm_chains *c); // of an address that is there twice, one stays
// The chain that holds for the address; NULL = none does.
const struct fm_chain *fm_chains_find(const struct fm_chains *c, uint64_t addr);
// Copies every address of `from` that is not among the sorted ones of `to`; sorts.
void fm_chains_merge(struct fm_chains *to, const struct fm_chains *from);
static inline struct fm_str fm_chains_str(const struct fm_chains *c, uint32_t id)
{
	return fm_intern_get(&c->strings, id);
}

void fm_chains_pack(const struct fm_chains *c, struct fm_buf *out);
// c is initialised and sorted on success, untouched on failure. Any bytes will do.
FM_MUST_CHECK enum fm_err fm_chains_unpack(struct fm_chains *c, struct fm_cursor *in);
