// SPDX-License-Identifier: Apache-2.0
// Candidates live in a table with one place for each hash of a block's number. A place that is
// taken by a block whose type is not told yet stays taken until that block dies: so what survives
// gathers in the table by itself, and short-lived blocks pass through.
#include "collect/ingest/live_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "collect/process/memory.h"
#include "pyabi/type_object.h"

#define N_PLACES 4096
#define LOOK_NS 1000000000u
#define MIN_AGE_NS 2000000000u
// A read is some microseconds of ours.
#define READS_PER_LOOK 256

enum place_state {
	PLACE_FREE,
	PLACE_WAITS, // to grow old
	PLACE_READ,  // its type was read; told at the next look if no free has come meanwhile
	PLACE_TOLD,  // or not readable: may be given to another block
};

struct place {
	uint64_t id, addr, size, born_ns;
	uint8_t state;                 // enum place_state
	char name[FM_TYPE_NAME_BYTES]; // when READ
};

struct fm_survivors {
	uint32_t pid, process_id;
	struct fm_writer *writer;
	uint64_t next_ns;
	uint32_t next_place;
	bool is_refused;
	struct place *places; // NULL until the first block
};

struct fm_survivors *fm_survivors_create(uint32_t pid, uint32_t process_id, struct fm_writer *writer)
{
	struct fm_survivors *s = fm_alloc(sizeof(*s));
	*s = (struct fm_survivors){ .pid = pid, .process_id = process_id, .writer = writer };
	return s;
}

void fm_survivors_destroy(struct fm_survivors *s)
{
	if (s)
		free(s->places);
	free(s);
}

static struct place *place_of(struct fm_survivors *s, uint64_t id)
{
	return &s->places[fm_hash_u64(id) % N_PLACES];
}

void fm_survivors_born(struct fm_survivors *s, uint64_t id, uint64_t addr, uint64_t size, uint64_t time_ns)
{
	if (s->is_refused || !addr)
		return;
	if (!s->places)
		s->places = fm_alloc(N_PLACES * sizeof(*s->places));
	struct place *p = place_of(s, id);
	if (p->state == PLACE_WAITS || p->state == PLACE_READ)
		return;
	p->id = id;
	p->addr = addr;
	p->size = size;
	p->born_ns = time_ns;
	p->state = PLACE_WAITS;
}

void fm_survivors_died(struct fm_survivors *s, uint64_t id)
{
	struct place *p = s->places ? place_of(s, id) : NULL;
	if (p && p->id == id)
		p->state = PLACE_FREE;
}

static uint64_t word_at(const uint8_t *bytes, size_t offset)
{
	uint64_t v;
	memcpy(&v, bytes + offset, sizeof(v));
	return v;
}

static bool is_name(const char *text, size_t size)
{
	size_t len = strnlen(text, size);
	if (len == 0 || len == size)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
		bool is_inner = (c >= '0' && c <= '9') || c == '.' || c == '-' || c == ' ' || c == '<' || c == '>';
		if (!is_word && !(is_inner && (i > 0 || c == '<')))
			return false;
	}
	return true;
}

// A name ends within its page or goes on into the next, which may not be there.
static bool read_name(uint32_t pid, uint64_t addr, char ret[static FM_TYPE_NAME_BYTES])
{
	size_t room = FM_MIN((size_t)(4096 - addr % 4096), (size_t)FM_TYPE_NAME_BYTES);
	memset(ret, 0, FM_TYPE_NAME_BYTES);
	if (!fm_process_read(pid, addr, ret, room, NULL))
		return false;
	if (!memchr(ret, 0, room) && room < FM_TYPE_NAME_BYTES)
		fm_process_read(pid, addr + room, ret + room, FM_TYPE_NAME_BYTES - room, NULL);
	return is_name(ret, FM_TYPE_NAME_BYTES);
}

// The type of a type of a type ... is `type`, which is its own type. Random words lead nowhere like
// that.
static bool leads_to_type(uint32_t pid, const struct fm_py_type_layout *l, uint64_t type)
{
	for (unsigned step = 0; step < 4; step++) {
		uint64_t meta;
		if (!fm_process_read(pid, type + l->ob_type, &meta, sizeof(meta), NULL))
			return false;
		if (meta == type) {
			uint64_t name_addr;
			char name[FM_TYPE_NAME_BYTES];
			return fm_process_read(pid, type + l->tp_name, &name_addr, sizeof(name_addr), NULL) &&
			       read_name(pid, name_addr, name) && !strcmp(name, "type");
		}
		type = meta;
	}
	return false;
}

static bool has_references(const uint8_t *object, bool is_free_threaded)
{
	if (!is_free_threaded)
		return word_at(object, FM_PY_OB_REFCNT) != 0;
	uint32_t local;
	memcpy(&local, object + FM_PY_OB_REF_LOCAL, sizeof(local));
	return local || word_at(object, FM_PY_OB_REF_SHARED) >> FM_PY_REF_SHARED_SHIFT;
}

// An object's own type says how many words lie before it: only the place that agrees with it is the
// object.
static bool type_at(uint32_t pid, bool is_free_threaded, const uint8_t *head, size_t before, uint64_t size,
		    char ret_name[static FM_TYPE_NAME_BYTES])
{
	const struct fm_py_type_layout *l = &fm_py_type_layouts[is_free_threaded];
	uint64_t type = word_at(head, before + l->ob_type);
	uint8_t t[FM_PY_TYPE_MAX_BYTES];
	if (!has_references(head + before, is_free_threaded) || !type || type % 8 ||
	    !fm_process_read(pid, type, t, l->type_bytes, NULL))
		return false;
	uint64_t flags = word_at(t, l->tp_flags), basic = word_at(t, l->tp_basicsize);
	size_t expected = (flags & FM_PY_TPFLAGS_HAVE_GC ? l->gc_head_bytes : 0) +
			  (flags & FM_PY_TPFLAGS_PREHEADER ? FM_PY_PREHEADER_BYTES : 0);
	if (!(flags & FM_PY_TPFLAGS_READY) || before != expected || basic < l->head_bytes || basic > size ||
	    before + basic > size)
		return false;
	return leads_to_type(pid, l, type) && read_name(pid, word_at(t, l->tp_name), ret_name);
}

bool fm_survivor_type(uint32_t pid, bool is_free_threaded, uint64_t addr, uint64_t size,
		      char ret_name[static FM_TYPE_NAME_BYTES], bool *ret_is_refused)
{
	const struct fm_py_type_layout *l = &fm_py_type_layouts[is_free_threaded];
	uint8_t head[FM_PY_PREHEADER_BYTES + 16 + FM_PY_HEAD_MAX_BYTES] = { 0 };
	size_t len = FM_MIN((size_t)size, sizeof(head));
	if (len < l->head_bytes || !fm_process_read(pid, addr, head, len, ret_is_refused))
		return false;
	const size_t befores[] = { 0, l->gc_head_bytes, l->gc_head_bytes + FM_PY_PREHEADER_BYTES };
	for (size_t i = 0; i < FM_ARRAY_LEN(befores); i++)
		if (befores[i] + l->head_bytes <= len &&
		    type_at(pid, is_free_threaded, head, befores[i], size, ret_name))
			return true;
	return false;
}

static void look_at(struct fm_survivors *s, bool is_free_threaded, struct place *p)
{
	if (p->state == PLACE_READ) {
		fm_writer_alloc_type(s->writer, s->process_id, p->id, fm_str_of(p->name));
		p->state = PLACE_TOLD;
		return;
	}
	bool is_refused = false;
	p->state = fm_survivor_type(s->pid, is_free_threaded, p->addr, p->size, p->name, &is_refused) ? PLACE_READ
												      : PLACE_TOLD;
	s->is_refused |= is_refused;
}

void fm_survivors_poll(struct fm_survivors *s, bool is_free_threaded, uint64_t now_ns)
{
	if (!s->places || s->is_refused || now_ns < s->next_ns)
		return;
	s->next_ns = now_ns + LOOK_NS;
	unsigned n_reads = 0;
	for (unsigned i = 0; i < N_PLACES && n_reads < READS_PER_LOOK; i++) {
		struct place *p = &s->places[s->next_place++ % N_PLACES];
		if (p->state == PLACE_READ || (p->state == PLACE_WAITS && now_ns > p->born_ns + MIN_AGE_NS)) {
			look_at(s, is_free_threaded, p);
			n_reads++;
		}
	}
}
