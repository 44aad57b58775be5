// SPDX-License-Identifier: Apache-2.0
#include "collect/shared/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "collect/process/file.h"
#include "image/unwind_rows.h"

// Rows of a file, published once however many processes map it.
struct file_rows {
	uint32_t first_row, n_rows;
};

// Rows of run-time code come and go. A handler may be reading them at the very moment when they go,
// so they rest for a while.
#define REST_NS 2000000000u
struct retired {
	uint32_t first_row, n_rows;
	uint64_t at_ns;
};

struct fm_rows {
	struct fm_shared *shared;
	struct fm_wire_row_image *images;
	struct fm_unwind_row *table;
	uint32_t n_rows; // used
	FM_VEC(struct retired) retired;
	struct fm_intern paths;
	FM_VEC(struct file_rows) files; // by id of its path
	uint32_t n_left_out;
};

struct fm_rows *fm_rows_create(struct fm_shared *shared)
{
	struct fm_rows *rows = fm_alloc(sizeof(*rows));
	rows->shared = shared;
	rows->images = (void *)(shared->published + FM_WIRE_ROW_IMAGES_OFFSET);
	rows->table = (void *)(shared->published + FM_WIRE_ROWS_OFFSET);
	return rows;
}

void fm_rows_destroy(struct fm_rows *rows)
{
	fm_intern_deinit(&rows->paths);
	fm_vec_deinit(&rows->files);
	fm_vec_deinit(&rows->retired);
	free(rows);
}

uint32_t fm_rows_n_left_out(const struct fm_rows *rows)
{
	return rows->n_left_out;
}

static struct file_rows rows_of_file(struct fm_rows *rows, uint32_t pid, struct fm_str path)
{
	bool is_new;
	uint32_t id = fm_intern_id(&rows->paths, path, &is_new);
	fm_vec_grow_to(&rows->files, (size_t)id + 1);
	if (!is_new)
		return rows->files.items[id];
	struct fm_unwind_rows made = { 0 };
	_cleanup_free_ char *name = fm_strdup_n(path.p, path.len);
	_cleanup_close_ int fd = fm_process_open(pid, name);
	char opened[32];
	struct fm_diag diag;
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	// A file that is gone or no ELF file has no rows; its frames then say so themselves.
	if (fd >= 0 && fm_unwind_rows_read(opened, &made, &diag) == FM_OK && made.n) {
		if (made.n > FM_WIRE_ROWS_BYTES / sizeof(*made.items) - rows->n_rows) {
			rows->n_left_out++;
		} else {
			memcpy(rows->table + rows->n_rows, made.items, made.n * sizeof(*made.items));
			rows->files.items[id] = (struct file_rows){ rows->n_rows, (uint32_t)made.n };
			rows->n_rows += (uint32_t)made.n;
		}
	}
	fm_vec_deinit(&made);
	return rows->files.items[id];
}

void fm_rows_publish(struct fm_rows *rows, uint32_t process_idx, uint32_t pid, const struct fm_wire_image *image,
		     struct fm_str path)
{
	struct file_rows file = rows_of_file(rows, pid, path);
	struct fm_wire_header *header = rows->shared->header;
	uint32_t n = atomic_load(&header->n_row_images), free_idx = n;
	bool is_changed = false;
	for (uint32_t i = 0; i < n; i++) {
		struct fm_wire_row_image *e = &rows->images[i];
		uint32_t owner = atomic_load(&e->process_idx1);
		if (owner == process_idx + 1 && !e->flags && e->start < image->end && image->start < e->end) {
			if (e->start == image->start && e->first_row == file.first_row && e->n_rows == file.n_rows)
				return; // told again
			atomic_store_explicit(&e->process_idx1, 0, memory_order_release);
			is_changed = true;
			owner = 0;
		}
		if (owner == 0 && free_idx == n)
			free_idx = i;
	}
	if (file.n_rows && free_idx == FM_WIRE_N_ROW_IMAGES)
		rows->n_left_out++;
	if (file.n_rows && free_idx < FM_WIRE_N_ROW_IMAGES) {
		struct fm_wire_row_image *e = &rows->images[free_idx];
		e->path_hash = fm_wire_path_hash(path.p, path.len);
		e->start = image->start;
		e->end = image->end;
		e->bias = image->bias;
		e->first_row = file.first_row;
		e->n_rows = file.n_rows;
		e->flags = 0;
		atomic_store_explicit(&e->process_idx1, process_idx + 1, memory_order_release);
		if (free_idx == n)
			atomic_store_explicit(&header->n_row_images, n + 1, memory_order_release);
		is_changed = true;
	}
	// Release: an agent that sees the new number finds the entry.
	if (is_changed)
		atomic_fetch_add_explicit(&header->rows_generation, 1, memory_order_release);
}

// Room for n rows; UINT32_MAX when there is none.
static uint32_t take_room(struct fm_rows *rows, uint32_t n)
{
	uint64_t now_ns = fm_now_ns();
	for (size_t i = 0; i < rows->retired.n; i++) {
		struct retired *r = &rows->retired.items[i];
		if (r->n_rows < n || now_ns - r->at_ns < REST_NS)
			continue;
		uint32_t first = r->first_row;
		r->first_row += n;
		r->n_rows -= n;
		if (!r->n_rows)
			*r = rows->retired.items[--rows->retired.n];
		return first;
	}
	if (n > FM_WIRE_ROWS_BYTES / sizeof(*rows->table) - rows->n_rows)
		return UINT32_MAX;
	rows->n_rows += n;
	return rows->n_rows - n;
}

bool fm_rows_publish_code(struct fm_rows *rows, uint32_t process_idx, uint64_t start, uint64_t end, uint64_t base,
			  const struct fm_unwind_row *items, size_t n, uint32_t epoch)
{
	struct fm_wire_header *header = rows->shared->header;
	uint32_t n_images = atomic_load(&header->n_row_images), idx = 0;
	while (idx < n_images && atomic_load(&rows->images[idx].process_idx1))
		idx++;
	uint32_t first = 0;
	if (idx == FM_WIRE_N_ROW_IMAGES || n > UINT32_MAX ||
	    (n && (first = take_room(rows, (uint32_t)n)) == UINT32_MAX)) {
		rows->n_left_out++;
		return false;
	}
	if (n)
		memcpy(rows->table + first, items, n * sizeof(*items));
	struct fm_wire_row_image *e = &rows->images[idx];
	e->path_hash = 0;
	e->start = start;
	e->end = end;
	e->bias = base;
	e->first_row = first;
	e->n_rows = (uint32_t)n;
	e->epoch = epoch;
	e->flags = n ? FM_WIRE_ROWS_OF_CODE : FM_WIRE_ROWS_NONE;
	atomic_store_explicit(&e->process_idx1, process_idx + 1, memory_order_release);
	if (idx == n_images)
		atomic_store_explicit(&header->n_row_images, n_images + 1, memory_order_release);
	atomic_fetch_add_explicit(&header->rows_generation, 1, memory_order_release);
	return true;
}

void fm_rows_retract_code(struct fm_rows *rows, uint32_t process_idx, uint32_t epoch)
{
	uint32_t n = atomic_load(&rows->shared->header->n_row_images);
	bool is_changed = false;
	for (uint32_t i = 0; i < n; i++) {
		struct fm_wire_row_image *e = &rows->images[i];
		if (atomic_load(&e->process_idx1) != process_idx + 1 || !e->flags || (epoch && e->epoch == epoch))
			continue;
		atomic_store_explicit(&e->process_idx1, 0, memory_order_release);
		if (e->n_rows)
			fm_vec_push(&rows->retired, (struct retired){ e->first_row, e->n_rows, fm_now_ns() });
		is_changed = true;
	}
	if (is_changed)
		atomic_fetch_add_explicit(&rows->shared->header->rows_generation, 1, memory_order_release);
}

void fm_rows_forget_process(struct fm_rows *rows, uint32_t process_idx)
{
	fm_rows_retract_code(rows, process_idx, 0);
	uint32_t n = atomic_load(&rows->shared->header->n_row_images);
	for (uint32_t i = 0; i < n; i++)
		if (atomic_load(&rows->images[i].process_idx1) == process_idx + 1)
			atomic_store_explicit(&rows->images[i].process_idx1, 0, memory_order_release);
}
