// SPDX-License-Identifier: Apache-2.0
#include "collect/jit/parts.h"

#include <stdlib.h>

#include "base/clock.h"

// An object stays as long as its code does. What is beyond this has names only, and is counted.
#define MAX_BYTES (256ull << 20)
// A walk over a large object takes milliseconds, and rings are to be drained meanwhile: this many
// times what the last one took passes before the next.
#define REST 50u
// Writers take no longer chains; no compiler makes them.
#define MAX_LINKS 128u

static struct fm_jit_debug_object *find(struct fm_jit_debugs *d, uint32_t owner)
{
	for (size_t i = 0; i < d->objects.n; i++)
		if (d->objects.items[i].owner == owner)
			return &d->objects.items[i];
	return NULL;
}

void fm_jit_debugs_deinit(struct fm_jit_debugs *d)
{
	for (size_t i = 0; i < d->objects.n; i++)
		fm_jit_debug_close(d->objects.items[i].debug);
	fm_vec_deinit(&d->objects);
	fm_vec_deinit(&d->wanted);
}

void fm_jit_debugs_add(struct fm_jit_debugs *d, uint32_t owner, uint8_t *elf, size_t len)
{
	struct fm_jit_debug *debug = fm_jit_debug_open(elf, len);
	if (debug && len > MAX_BYTES - d->n_bytes) {
		d->n_left_out++;
		fm_jit_debug_close(debug);
	} else if (debug) {
		fm_vec_push(&d->objects, (struct fm_jit_debug_object){ owner, len, debug });
		d->n_bytes += len;
	}
}

bool fm_jit_debugs_want(struct fm_jit_debugs *d, uint32_t owner, uint64_t pc, uint32_t image_id, struct fm_str name)
{
	if (!find(d, owner))
		return false;
	fm_vec_push(&d->wanted, (struct fm_jit_wanted){ pc, owner, image_id, name });
	return true;
}

static int compare(const void *pa, const void *pb)
{
	const struct fm_jit_wanted *a = pa, *b = pb;
	if (a->owner != b->owner)
		return (a->owner > b->owner) - (a->owner < b->owner);
	return (a->pc > b->pc) - (a->pc < b->pc);
}

struct naming {
	struct fm_writer *writer;
	const struct fm_jit_wanted *wanted;
	bool *is_done;
};

static struct fm_str str_or_empty(const char *s)
{
	return s ? fm_str_of(s) : FM_STR_LIT("");
}

static void take_chain(void *ctx, size_t i, const struct fm_line_frame *frames, size_t n)
{
	struct naming *naming = ctx;
	const struct fm_jit_wanted *wanted = &naming->wanted[i];
	struct fm_symbol_link links[MAX_LINKS];
	n = FM_MIN(n, MAX_LINKS);
	for (size_t k = 0; k < n; k++)
		links[k] = (struct fm_symbol_link){ k ? str_or_empty(frames[k].name) : wanted->name,
						    str_or_empty(frames[k].file), frames[k].first_line, frames[k].line,
						    frames[k].is_inlined };
	fm_writer_symbol(naming->writer, wanted->image_id, wanted->pc, links, (uint32_t)n);
	naming->is_done[i] = true;
}

// Those of one object, by rising address.
static void name_run(struct fm_jit_debugs *d, const struct fm_jit_wanted *wanted, size_t n)
{
	struct fm_jit_debug_object *object = find(d, wanted->owner);
	struct naming naming = { d->writer, wanted, fm_alloc(n) };
	uint64_t *addrs = fm_alloc(n * sizeof(*addrs));
	for (size_t i = 0; i < n; i++)
		addrs[i] = wanted[i].pc;
	fm_jit_debug_resolve(object->debug, addrs, n, take_chain, &naming);
	for (size_t i = 0; i < n; i++)
		if (!naming.is_done[i])
			fm_writer_symbol(d->writer, wanted[i].image_id, wanted[i].pc,
					 &(struct fm_symbol_link){ .name = wanted[i].name }, 1);
	free(addrs);
	free(naming.is_done);
}

static void name_all(struct fm_jit_debugs *d)
{
	if (d->wanted.n)
		qsort(d->wanted.items, d->wanted.n, sizeof(*d->wanted.items), compare);
	for (size_t i = 0, k; i < d->wanted.n; i = k) {
		for (k = i + 1; k < d->wanted.n && d->wanted.items[k].owner == d->wanted.items[i].owner;)
			k++;
		name_run(d, &d->wanted.items[i], k - i);
	}
	d->wanted.n = 0;
}

void fm_jit_debugs_name(struct fm_jit_debugs *d, bool is_last)
{
	uint64_t start_ns = fm_now_ns();
	if (!d->wanted.n || (!is_last && start_ns < d->next_name_ns))
		return;
	name_all(d);
	uint64_t end_ns = fm_now_ns();
	d->next_name_ns = end_ns + (end_ns - start_ns) * REST;
}

void fm_jit_debugs_remove(struct fm_jit_debugs *d, uint32_t owner)
{
	struct fm_jit_debug_object *object = find(d, owner);
	if (!object)
		return;
	fm_jit_debugs_name(d, true);
	fm_jit_debug_close(object->debug);
	d->n_bytes -= object->n_bytes;
	*object = d->objects.items[--d->objects.n];
}
