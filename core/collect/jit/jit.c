// SPDX-License-Identifier: Apache-2.0
#include "collect/jit/jit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "collect/jit/parts.h"
#include "collect/process/memory.h"
#include "image/symbols.h"
#include "image/unwind_rows.h"

// Names are looked for at once, and then this often while some are missing.
#define LOOK_NS 50000000u
// Maps are read again at most this often, when a pc turns up outside of what is known.
#define MAPS_NS 10000000u
#define MAX_AREAS 256u
#define MAX_TABLE_BYTES (16u << 20)
// Longer pieces of code without unwind information are not read.
#define MAX_GUESSED_BYTES 65536u
#define OWNER_JITDUMP 1u
#define OWNER_PERF_MAP 2u
#define FIRST_FREE_OWNER 16u

struct unnamed {
	uint64_t pc;
	uint32_t image_id;
};

struct fm_jit {
	uint32_t pid, process_idx, process_id;
	struct fm_shared *shared;
	struct fm_rows *rows;
	struct fm_writer *writer;

	uint32_t generation, image_id; // of the pseudo image; FM_NO_ID before the first pc
	FM_VEC(struct unnamed) unnamed;
	uint32_t n_named;
	size_t n_tried; // the first of unnamed that were looked for, when n_told ranges had been told
	uint64_t n_told;

	struct fm_jit_code code;
	struct fm_jit_debugs debugs; // of by_gdb
	struct fm_code_ranges by_gdb, by_jitdump, by_perf_map;
	FM_VEC(struct fm_jit_gdb) descriptors;
	struct fm_intern searched; // paths in which a descriptor was looked for
	struct fm_jit_files files;
	uint32_t next_owner;
	uint32_t frame_tables_generation;
	FM_VEC(uint64_t) frame_tables; // addresses read
	struct fm_map guessed;         // starts of ranges whose code was read
	uint64_t maps_ns, look_ns;
	uint32_t n_damaged;
	bool has_new; // addresses that nothing was looked up for yet: stacks through them may be broken until then
	bool is_gone, is_refused;
};

struct fm_jit *fm_jit_create(uint32_t pid, uint32_t parent_pid, uint32_t process_idx, uint32_t process_id,
			     struct fm_shared *shared, struct fm_rows *rows, struct fm_writer *writer)
{
	struct fm_jit *jit = fm_alloc(sizeof(*jit));
	jit->pid = pid;
	jit->process_idx = process_idx;
	jit->process_id = process_id;
	jit->shared = shared;
	jit->rows = rows;
	jit->writer = jit->debugs.writer = writer;
	jit->image_id = FM_NO_ID;
	jit->next_owner = FIRST_FREE_OWNER;
	fm_jit_files_init(&jit->files, pid, parent_pid);
	return jit;
}

// ---- maps ----

static void look_for_descriptor(struct fm_jit *jit, const struct fm_process_map *map)
{
	bool is_new;
	fm_intern_id(&jit->searched, fm_str_of(map->path), &is_new);
	uint64_t addr, delta;
	if (!is_new || fm_find_symbol(map->path, "__jit_debug_descriptor", map->off, &addr, &delta) != FM_OK)
		return;
	fm_vec_push(&jit->descriptors, (struct fm_jit_gdb){ .descriptor = map->start - delta + addr });
}

static void take_map(void *ctx, const struct fm_process_map *map)
{
	struct fm_jit *jit = ctx;
	if (!map->is_executable)
		return;
	bool is_file = map->path[0] == '/' && strncmp(map->path, "/memfd:", 7) != 0 &&
		       strncmp(map->path, "/dev/zero", 9) != 0 && strncmp(map->path, "/SYSV", 5) != 0;
	if (is_file && !fm_jit_files_take_map(&jit->files, map->path)) {
		look_for_descriptor(jit, map);
		return;
	}
	if (is_file || !strcmp(map->path, "[vdso]") || !strcmp(map->path, "[vsyscall]"))
		return;
	struct fm_jit_code *code = &jit->code;
	if (code->areas.n && code->areas.items[code->areas.n - 1].end == map->start)
		code->areas.items[code->areas.n - 1].end = map->end;
	else if (code->areas.n < MAX_AREAS)
		fm_vec_push(&code->areas, (struct fm_jit_area){ map->start, map->end });
}

static void read_maps(struct fm_jit *jit)
{
	struct fm_jit_code *code = &jit->code;
	jit->maps_ns = fm_now_ns();
	size_t n_before = code->areas.n;
	struct fm_jit_area *before = n_before ? fm_alloc(n_before * sizeof(*before)) : NULL;
	if (n_before)
		memcpy(before, code->areas.items, n_before * sizeof(*before));
	code->areas.n = 0;
	if (!fm_process_maps(jit->pid, take_map, jit)) {
		// It has just gone: what was there before is what its last samples mean.
		fm_vec_reserve(&code->areas, n_before);
		if (n_before)
			memcpy(code->areas.items, before, n_before * sizeof(*before));
		code->areas.n = n_before;
		jit->is_gone = true;
	} else if (code->areas.n != n_before ||
		   (n_before && memcmp(before, code->areas.items, n_before * sizeof(*before)) != 0)) {
		code->is_changed = true;
	}
	free(before);
}

static bool is_in_area(const struct fm_jit *jit, uint64_t pc)
{
	for (size_t i = 0; i < jit->code.areas.n; i++)
		if (pc >= jit->code.areas.items[i].start && pc < jit->code.areas.items[i].end)
			return true;
	return false;
}

// ---- frames ----

static void open_generation(struct fm_jit *jit)
{
	char path[32];
	struct fm_buf id = { 0 };
	snprintf(path, sizeof(path), "[jit %u]", jit->pid);
	fm_buf_u32(&id, jit->process_id);
	fm_buf_u32(&id, ++jit->generation);
	jit->image_id = fm_writer_image(jit->writer, fm_str_of(path),
					(struct fm_str){ (const char *)id.data, (uint32_t)id.len }, FM_IMAGE_IS_JIT);
	fm_buf_deinit(&id);
}

uint32_t fm_jit_image(struct fm_jit *jit, uint64_t pc)
{
	if (!is_in_area(jit, pc) && !jit->is_gone && fm_now_ns() - jit->maps_ns >= MAPS_NS)
		read_maps(jit);
	if (!is_in_area(jit, pc))
		return FM_NO_ID;
	if (jit->image_id == FM_NO_ID)
		open_generation(jit);
	fm_vec_push(&jit->unnamed, (struct unnamed){ pc, jit->image_id });
	jit->has_new = true;
	return jit->image_id;
}

// ---- tables given to __register_frame ----

static void read_table(struct fm_jit *jit, uint64_t addr)
{
	// Its length is known only when its end is found.
	uint8_t *bytes = NULL;
	size_t have = 0, len = 0;
	bool is_bad = false;
	while (!len && !is_bad && have < MAX_TABLE_BYTES) {
		// Up to the end of the page: the next one may not be there.
		size_t more = (have < 65536 ? 4096 : 65536) - (addr + have) % 4096;
		bytes = fm_realloc_array(bytes, have + more, 1);
		if (!fm_process_read(jit->pid, addr + have, bytes + have, more, &jit->is_refused))
			break;
		have += more;
		len = fm_jit_eh_frame_length(bytes, have, &is_bad);
	}
	struct fm_jit_rows rows = { 0 };
	if (len)
		fm_jit_eh_frame_read(bytes, len, addr, &rows);
	jit->n_damaged += is_bad;
	fm_jit_code_add(&jit->code, addr, &rows);
	free(bytes);
}

static void read_frame_tables(struct fm_jit *jit)
{
	const struct fm_wire_counts *counts = jit->shared->counts;
	uint32_t generation = atomic_load_explicit(&counts->frame_tables_generation, memory_order_acquire);
	if (generation == jit->frame_tables_generation)
		return;
	jit->frame_tables_generation = generation;
	struct fm_wire_frame_table *table = (void *)(jit->shared->base + FM_WIRE_FRAME_TABLES_OFFSET);
	uint32_t n = FM_MIN(atomic_load(&counts->n_frame_tables), (uint32_t)FM_WIRE_N_FRAME_TABLES);
	uint64_t mine = (uint64_t)(jit->process_idx + 1) << 2;
	struct fm_map live = { 0 }, known = { 0 };
	for (size_t i = 0; i < jit->frame_tables.n; i++)
		fm_map_at(&known, jit->frame_tables.items[i], NULL);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t owner = atomic_load_explicit(&table[i].owner, memory_order_acquire);
		if (owner == (mine | FM_WIRE_FRAME_GONE))
			atomic_store_explicit(&table[i].owner, 0, memory_order_release);
		if (owner == (mine | FM_WIRE_FRAME_LIVE))
			fm_map_at(&live, table[i].addr, NULL);
	}
	for (size_t i = jit->frame_tables.n; i-- > 0;) {
		if (fm_map_find(&live, jit->frame_tables.items[i]))
			continue;
		fm_jit_code_remove(&jit->code, jit->frame_tables.items[i]);
		jit->frame_tables.items[i] = jit->frame_tables.items[--jit->frame_tables.n];
	}
	for (size_t i = 0; i < live.cap; i++) {
		if (!live.entries[i].used || fm_map_find(&known, live.entries[i].key))
			continue;
		read_table(jit, live.entries[i].key);
		fm_vec_push(&jit->frame_tables, live.entries[i].key);
	}
	fm_map_deinit(&live);
	fm_map_deinit(&known);
}

static void forget_frame_tables(struct fm_jit *jit)
{
	struct fm_wire_frame_table *table = (void *)(jit->shared->base + FM_WIRE_FRAME_TABLES_OFFSET);
	uint32_t n = FM_MIN(atomic_load(&jit->shared->counts->n_frame_tables), (uint32_t)FM_WIRE_N_FRAME_TABLES);
	for (uint32_t i = 0; i < n; i++)
		if (atomic_load(&table[i].owner) >> 2 == jit->process_idx + 1)
			atomic_store_explicit(&table[i].owner, 0, memory_order_release);
}

// ---- names ----

// Code that has a name but no unwind information: its first instructions tell mostly. LLVM writes
// none for functions that cannot throw, which numba's compiled functions are as a rule, into
// objects that have some for others.
static void guess_rows(struct fm_jit *jit, const struct fm_code_range *range)
{
	bool is_new;
	uint64_t size = range->end - range->start;
	fm_map_at(&jit->guessed, range->start ^ (uint64_t)range->seq << 48, &is_new);
	if (!is_new || jit->is_gone || size > MAX_GUESSED_BYTES || fm_jit_code_has(&jit->code, range->start))
		return;
	uint8_t *bytes = fm_alloc(size);
	struct fm_jit_rows rows = { .base = range->start, .end = range->end };
	if (fm_process_read(jit->pid, range->start, bytes, size, NULL))
		fm_x86_prologue_rows(bytes, size, 0, &rows.rows);
	fm_jit_code_add(&jit->code, 1ull << 62 | range->start, &rows);
	free(bytes);
}

static bool name_one(struct fm_jit *jit, const struct unnamed *u)
{
	struct fm_code_ranges *sources[] = { &jit->by_gdb, &jit->by_jitdump, &jit->by_perf_map };
	for (size_t i = 0; i < FM_ARRAY_LEN(sources); i++) {
		const struct fm_code_range *range = fm_code_ranges_find(sources[i], u->pc);
		if (!range)
			continue;
		guess_rows(jit, range);
		if (sources[i] == &jit->by_gdb &&
		    fm_jit_debugs_want(&jit->debugs, range->owner, u->pc, u->image_id, range->name))
			return true;
		struct fm_symbol_link link = { .name = range->name };
		link.line = fm_code_ranges_line(sources[i], range, u->pc, &link.file);
		fm_writer_symbol(jit->writer, u->image_id, u->pc, &link, 1);
		return true;
	}
	return false;
}

static void name_all(struct fm_jit *jit)
{
	// Those that were looked for in vain are looked for again only when something was told
	// since.
	uint64_t n_told = (uint64_t)jit->by_gdb.next_seq + jit->by_jitdump.next_seq + jit->by_perf_map.next_seq;
	size_t kept = n_told == jit->n_told ? jit->n_tried : 0;
	jit->n_told = n_told;
	for (size_t i = kept; i < jit->unnamed.n; i++)
		if (name_one(jit, &jit->unnamed.items[i]))
			jit->n_named++;
		else
			jit->unnamed.items[kept++] = jit->unnamed.items[i];
	jit->unnamed.n = jit->n_tried = kept;
}

static void take_unwinding(void *ctx, uint64_t start, uint64_t size, const uint8_t *eh_frame, size_t len, uint64_t addr)
{
	struct fm_jit *jit = ctx;
	struct fm_jit_rows rows = { 0 };
	fm_jit_eh_frame_read(eh_frame, len, addr, &rows);
	// A table for code elsewhere would do harm there.
	if (rows.base < start || rows.end > start + size)
		rows.rows.n = 0;
	fm_jit_code_add(&jit->code, 3ull << 62 | start, &rows);
}

static bool read_files(struct fm_jit *jit)
{
	bool is_replaced = fm_jit_files_read_dump(&jit->files, OWNER_JITDUMP, &jit->by_jitdump, take_unwinding, jit);
	return fm_jit_files_read_map(&jit->files, OWNER_PERF_MAP, &jit->by_perf_map) || is_replaced;
}

bool fm_jit_poll(struct fm_jit *jit)
{
	uint64_t now_ns = fm_now_ns();
	bool is_replaced = false;
	if (jit->is_gone)
		return false;
	read_frame_tables(jit);
	if (jit->frame_tables.n && !jit->maps_ns)
		read_maps(jit);
	name_all(jit); // before what they are named by goes
	struct fm_jit_gdb_result result = { 0 };
	for (size_t i = 0; i < jit->descriptors.n; i++)
		fm_jit_gdb_look(&jit->descriptors.items[i], jit->pid, &jit->next_owner, &jit->by_gdb, &jit->debugs,
				&jit->code, &result);
	jit->n_damaged += result.n_damaged;
	is_replaced = result.is_removed;
	name_all(jit);
	if (jit->unnamed.n && (jit->has_new || now_ns - jit->look_ns >= LOOK_NS)) {
		jit->look_ns = now_ns;
		jit->has_new = false;
		if (now_ns - jit->maps_ns >= LOOK_NS)
			read_maps(jit);
		is_replaced |= read_files(jit);
		name_all(jit);
	}
	fm_jit_debugs_name(&jit->debugs, false);
	if (is_replaced && jit->image_id != FM_NO_ID)
		open_generation(jit);
	fm_jit_code_publish(&jit->code, jit->rows, jit->process_idx);
	return is_replaced;
}

static void say_coverage(const struct fm_jit *jit)
{
	char what[96], why[256];
	if (jit->files.refused_why) {
		snprintf(what, sizeof(what), "run-time code that %s names", jit->files.refused_path);
		snprintf(why, sizeof(why), "the file %s, so it is ignored", jit->files.refused_why);
		fm_writer_coverage(jit->writer, fm_str_of(what), fm_str_of(why));
	}
	if (jit->unnamed.n) {
		snprintf(what, sizeof(what), "names of %zu of %zu sampled addresses of run-time code in process %u",
			 jit->unnamed.n, jit->unnamed.n + jit->n_named, jit->pid);
		snprintf(why, sizeof(why),
			 "its compiler published no names (%s); many can write a perf map or a jitdump, for example "
			 "python -X perf",
			 jit->is_refused ? "and reading its memory was refused"
					 : "GDB's JIT interface, jitdump, perf map");
		fm_writer_coverage(jit->writer, fm_str_of(what), fm_str_of(why));
	}
	uint32_t n_damaged = jit->n_damaged + jit->files.n_damaged + jit->debugs.n_left_out;
	if (n_damaged || jit->by_perf_map.n_left_out) {
		snprintf(what, sizeof(what), "parts of what process %u published of its run-time code", jit->pid);
		snprintf(why, sizeof(why), "damaged or too large: %u of its objects, records or lines",
			 n_damaged + jit->by_perf_map.n_left_out);
		fm_writer_coverage(jit->writer, fm_str_of(what), fm_str_of(why));
	}
}

void fm_jit_end(struct fm_jit *jit)
{
	if (!jit)
		return;
	jit->is_gone = true;
	name_all(jit);
	if (jit->unnamed.n) {
		read_files(jit);
		name_all(jit);
	}
	fm_jit_debugs_name(&jit->debugs, true);
	say_coverage(jit);
	forget_frame_tables(jit);
	fm_jit_code_deinit(&jit->code);
	fm_jit_debugs_deinit(&jit->debugs);
	fm_code_ranges_deinit(&jit->by_gdb);
	fm_code_ranges_deinit(&jit->by_jitdump);
	fm_code_ranges_deinit(&jit->by_perf_map);
	for (size_t i = 0; i < jit->descriptors.n; i++)
		fm_jit_gdb_deinit(&jit->descriptors.items[i]);
	fm_vec_deinit(&jit->descriptors);
	fm_vec_deinit(&jit->unnamed);
	fm_vec_deinit(&jit->frame_tables);
	fm_map_deinit(&jit->guessed);
	fm_intern_deinit(&jit->searched);
	fm_jit_files_deinit(&jit->files);
	free(jit);
}
