// SPDX-License-Identifier: Apache-2.0
#include "collect/jit/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bisect.h"
#include "collect/process/file.h"
#include "collect/process/proc.h"
#include "image/jit.h"

// Read in pieces; a record or line longer than this is damage.
#define PIECE_BYTES (1u << 20)
#define MAX_PIECE_BYTES (65u << 20)
// What is behind this is left out and counted as damage.
#define MAX_FILE_BYTES (1ull << 30)

void fm_jit_files_init(struct fm_jit_files *f, uint32_t pid, uint32_t parent_pid)
{
	*f = (struct fm_jit_files){
		.pid = pid, .parent_pid = parent_pid, .own_pid = fm_process_own_pid(pid), .dump_fd = -1, .map_fd = -1
	};
}

void fm_jit_files_deinit(struct fm_jit_files *f)
{
	if (f->dump_fd >= 0)
		close(f->dump_fd);
	if (f->map_fd >= 0)
		close(f->map_fd);
	fm_jitdump_deinit(&f->dump);
}

// A file of the process's, by its name there; also by ours when its own root cannot be had any
// more. -1: none, or none to be believed.
static int open_believed(struct fm_jit_files *f, const char *path)
{
	const char *why;
	fm_rights_read(f->pid, &f->rights);
	int fd = fm_process_open_believed(&f->rights, f->pid, path, &why);
	if (why) {
		f->refused_why = why;
		snprintf(f->refused_path, sizeof(f->refused_path), "%s", path);
	}
	return fd;
}

bool fm_jit_files_take_map(struct fm_jit_files *f, const char *path)
{
	size_t len = strlen(path);
	static const char deleted[] = " (deleted)";
	if (len > sizeof(deleted) && !strcmp(path + len - sizeof(deleted) + 1, deleted))
		len -= sizeof(deleted) - 1;
	if (len < 5 || strncmp(path + len - 5, ".dump", 5) != 0)
		return false;
	if (f->dump_fd >= 0)
		return true;
	char *name = fm_strdup_n(path, len);
	int fd = open_believed(f, name);
	uint32_t magic = 0;
	free(name);
	if (fd >= 0 && pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && magic == FM_JITDUMP_MAGIC) {
		f->dump_fd = fd;
		return true;
	}
	if (fd >= 0)
		close(fd);
	return false;
}

// What the file holds from off on, up to want bytes.
static uint8_t *read_piece(int fd, uint64_t off, size_t want, size_t *ret_len)
{
	uint8_t *bytes = fm_alloc(want);
	size_t len = 0;
	for (ssize_t n; len < want && (n = pread(fd, bytes + len, want - len, (off_t)(off + len))) > 0;)
		len += (size_t)n;
	*ret_len = len;
	return bytes;
}

// True when something that was added from seq on lies over something older of another name.
static bool is_over_other_code(struct fm_code_ranges *ranges, uint32_t seq)
{
	FM_VEC(struct fm_code_range) added = { 0 };
	for (size_t i = 0; i < ranges->items.n; i++)
		if (ranges->items.items[i].seq >= seq)
			fm_vec_push(&added, ranges->items.items[i]);
	bool is_over = false;
	fm_code_ranges_find(ranges, 0); // sorted from here on
	for (size_t i = 0; i < added.n && !is_over; i++) {
		// The neighbours of each in the sorted list are enough: what it covers begins
		// inside it or right before.
		const struct fm_code_range *a = &added.items[i];
		size_t low = fm_bisect(ranges->items.n, k, ranges->items.items[k].start < a->start);
		for (size_t k = low ? low - 1 : 0;
		     k < ranges->items.n && ranges->items.items[k].start < a->end && k < low + 64; k++) {
			const struct fm_code_range *b = &ranges->items.items[k];
			is_over |= b->seq < seq && b->end > a->start && !fm_str_eq(a->name, b->name);
		}
	}
	fm_vec_deinit(&added);
	return is_over;
}

bool fm_jit_files_read_dump(struct fm_jit_files *f, uint32_t owner, struct fm_code_ranges *ranges,
			    fm_jitdump_unwind_fn unwind, void *ctx)
{
	uint32_t seq = ranges->next_seq;
	size_t want = PIECE_BYTES;
	while (f->dump_fd >= 0 && !f->is_dump_damaged && f->dump_off < MAX_FILE_BYTES) {
		size_t len, used;
		uint8_t *bytes = read_piece(f->dump_fd, f->dump_off, want, &len);
		uint32_t n_bad = f->dump.n_bad_records;
		f->is_dump_damaged = fm_jitdump_parse(&f->dump, bytes, len, owner, ranges, unwind, ctx, &used) != FM_OK;
		f->n_damaged += f->is_dump_damaged + f->dump.n_bad_records - n_bad;
		free(bytes);
		f->dump_off += used;
		if (len < want || want > MAX_PIECE_BYTES)
			break;
		want = used ? PIECE_BYTES : want * 4; // one record may be longer than a piece
	}
	return ranges->next_seq != seq && seq && is_over_other_code(ranges, seq);
}

static void open_map(struct fm_jit_files *f)
{
	char path[64];
	uint32_t pids[] = { f->own_pid, f->pid, f->parent_pid };
	for (size_t i = 0; i < FM_ARRAY_LEN(pids) && f->map_fd < 0; i++) {
		snprintf(path, sizeof(path), "/tmp/perf-%u.map", pids[i]);
		f->map_fd = open_believed(f, path);
		f->is_map_inherited = i == 2;
	}
}

bool fm_jit_files_read_map(struct fm_jit_files *f, uint32_t owner, struct fm_code_ranges *ranges)
{
	uint32_t seq = ranges->next_seq;
	// A child that has only its parent's map may get its own.
	if (f->is_map_inherited && f->map_fd >= 0) {
		char path[64];
		snprintf(path, sizeof(path), "/tmp/perf-%u.map", f->own_pid);
		int fd = open_believed(f, path);
		if (fd >= 0) {
			close(f->map_fd);
			f->map_fd = fd;
			f->map_off = 0;
			f->is_map_inherited = false;
		}
	}
	if (f->map_fd < 0)
		open_map(f);
	while (f->map_fd >= 0 && f->map_off < MAX_FILE_BYTES) {
		size_t len;
		uint8_t *bytes = read_piece(f->map_fd, f->map_off, PIECE_BYTES, &len);
		size_t used = fm_perf_map_parse((const char *)bytes, len, owner, ranges, &f->n_damaged);
		free(bytes);
		f->map_off += used;
		if (len < PIECE_BYTES)
			break;
		if (!used) { // no line is that long
			f->n_damaged++;
			f->map_off = MAX_FILE_BYTES;
		}
	}
	return ranges->next_seq != seq && seq && is_over_other_code(ranges, seq);
}
