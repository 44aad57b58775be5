// SPDX-License-Identifier: Apache-2.0
// The program changes the list while it is read here. A walk counts only when every entry names the
// one before as its predecessor and the descriptor is the same afterwards; otherwise the next look
// tries again.
#include "collect/jit/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "collect/process/memory.h"

#define MAX_OBJECTS 16384u
#define NS_PER_OBJECT 100000u
#define MAX_OBJECT_BYTES (64u << 20)
// Entry and object may be freed and made again at the same addresses; the first bytes tell, as far
// as they do.
#define HASHED_BYTES 4096u
// An unchanged descriptor is believed so many times, a tenth of a second in all: the allocator may
// have put new things in old places.
#define MAX_SKIPPED 10u

struct entry {
	uint64_t next, prev, addr, size;
};

struct descriptor {
	uint32_t version, action;
	uint64_t relevant, first;
};

void fm_jit_gdb_deinit(struct fm_jit_gdb *g)
{
	fm_vec_deinit(&g->objects);
}

static uint64_t key_of(uint32_t owner)
{
	return 1ull << 63 | owner; // no address of a registered table
}

// True when the object was read; it may be damaged, which counts as read.
static bool read_object(uint32_t pid, struct fm_jit_object *o, struct fm_code_ranges *ranges,
			struct fm_jit_debugs *debugs, struct fm_jit_code *code, uint32_t *n_damaged)
{
	uint8_t *bytes = malloc(o->size);
	bool is_read = bytes && fm_process_read(pid, o->addr, bytes, o->size, NULL);
	struct fm_jit_rows rows = { 0 };
	if (!is_read) {
		free(bytes);
		return false;
	}
	if (fm_jit_elf_read(bytes, o->size, o->owner, ranges, &rows) == FM_OK) {
		fm_jit_debugs_add(debugs, o->owner, bytes, o->size);
	} else {
		++*n_damaged;
		free(bytes);
	}
	fm_jit_code_add(code, key_of(o->owner), &rows);
	return true;
}

static struct fm_jit_object *find(struct fm_jit_gdb *g, uint64_t entry, uint64_t addr, uint64_t size, uint64_t hash)
{
	for (size_t i = 0; i < g->objects.n; i++) {
		struct fm_jit_object *o = &g->objects.items[i];
		if (o->entry == entry && o->addr == addr && o->size == size && o->hash == hash)
			return o;
	}
	return NULL;
}

struct seen {
	uint64_t entry, addr, size, hash;
};

void fm_jit_gdb_look(struct fm_jit_gdb *g, uint32_t pid, uint32_t *next_owner, struct fm_code_ranges *ranges,
		     struct fm_jit_debugs *debugs, struct fm_jit_code *code, struct fm_jit_gdb_result *ret)
{
	struct descriptor before, after;
	// A walk reads every entry: with thousands of them not every few milliseconds.
	uint64_t now_ns = fm_now_ns();
	if (now_ns - g->look_ns < g->objects.n * NS_PER_OBJECT)
		return;
	g->look_ns = now_ns;
	if (!fm_process_read(pid, g->descriptor, &before, sizeof(before), NULL) || before.version != 1)
		return;
	static_assert(sizeof(before) == sizeof(g->last), "as GDB defines it");
	if (!memcmp(&before, g->last, sizeof(before)) && g->n_skipped++ < MAX_SKIPPED)
		return;
	FM_VEC(struct seen) seen = { 0 };
	bool is_whole = true;
	uint64_t previous = 0;
	for (uint64_t at = before.first; at && is_whole;) {
		struct entry e;
		uint8_t head[HASHED_BYTES];
		is_whole = seen.n < MAX_OBJECTS && fm_process_read(pid, at, &e, sizeof(e), NULL) && e.prev == previous;
		if (!is_whole)
			break;
		size_t n = FM_MIN(e.size, (uint64_t)sizeof(head));
		if (e.size >= 64 && e.size <= MAX_OBJECT_BYTES && fm_process_read(pid, e.addr, head, n, NULL))
			fm_vec_push(&seen, (struct seen){ at, e.addr, e.size, fm_hash_bytes(head, n) });
		previous = at;
		at = e.next;
	}
	is_whole = is_whole && fm_process_read(pid, g->descriptor, &after, sizeof(after), NULL) &&
		   !memcmp(&before, &after, sizeof(before));
	for (size_t i = 0; i < g->objects.n; i++)
		g->objects.items[i].is_there = false;
	// What was found is true also when the walk was cut short; only what is missing proves
	// nothing then.
	for (size_t i = 0; i < seen.n; i++) {
		const struct seen *s = &seen.items[i];
		struct fm_jit_object *known = find(g, s->entry, s->addr, s->size, s->hash);
		if (known) {
			known->is_there = true;
			continue;
		}
		struct fm_jit_object o = { s->entry, s->addr, s->size, s->hash, ++*next_owner, true };
		if (read_object(pid, &o, ranges, debugs, code, &ret->n_damaged))
			fm_vec_push(&g->objects, o);
		else
			is_whole = false;
	}
	for (size_t i = g->objects.n; is_whole && i-- > 0;) {
		if (g->objects.items[i].is_there)
			continue;
		fm_code_ranges_remove(ranges, g->objects.items[i].owner);
		fm_jit_debugs_remove(debugs, g->objects.items[i].owner);
		fm_jit_code_remove(code, key_of(g->objects.items[i].owner));
		g->objects.items[i] = g->objects.items[--g->objects.n];
		ret->is_removed = true;
	}
	if (is_whole) {
		memcpy(g->last, &before, sizeof(before));
		g->n_skipped = 0;
	}
	fm_vec_deinit(&seen);
}
