// SPDX-License-Identifier: Apache-2.0
#include "symbolize/chains.h"

#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"

void fm_chains_init(struct fm_chains *c)
{
	*c = (struct fm_chains){ .facts.debug_path = FM_STR_LIT(""),
				 .facts.debug_link = FM_STR_LIT(""),
				 .facts.unread_path = FM_STR_LIT(""),
				 .facts.package_path = FM_STR_LIT("") };
	fm_intern_id(&c->strings, FM_STR_LIT(""), NULL);
}

void fm_chains_deinit(struct fm_chains *c)
{
	fm_vec_deinit(&c->items);
	fm_vec_deinit(&c->links);
	fm_intern_deinit(&c->strings);
}

void fm_chains_add(struct fm_chains *c, uint64_t addr, uint64_t start)
{
	fm_vec_push(&c->items, (struct fm_chain){ addr, start, (uint32_t)c->links.n, 0, 1, 0 });
}

void fm_chains_guess(struct fm_chains *c, struct fm_str name)
{
	c->items.items[c->items.n - 1].guess = fm_intern_id(&c->strings, name, NULL);
}

void fm_chains_link(struct fm_chains *c, struct fm_str name, struct fm_str file, uint32_t first_line, uint32_t line,
		    bool is_inlined)
{
	uint32_t name_id = fm_intern_id(&c->strings, name, NULL), file_id = fm_intern_id(&c->strings, file, NULL);
	fm_vec_push(&c->links, (struct fm_link){ name_id, file_id, first_line, line & INT32_MAX, is_inlined });
	c->items.items[c->items.n - 1].n++;
}

static bool means_same(const struct fm_chains *c, const struct fm_chain *a, const struct fm_chain *b)
{
	if (a->start != b->start || a->n != b->n || a->guess != b->guess)
		return false;
	for (uint32_t k = 0; k < a->n; k++) {
		const struct fm_link *x = &c->links.items[a->first_link + k], *y = &c->links.items[b->first_link + k];
		if (x->name != y->name || x->file != y->file || x->first_line != y->first_line || x->line != y->line ||
		    x->is_inlined != y->is_inlined)
			return false;
	}
	return true;
}

void fm_chains_extend(struct fm_chains *c, uint64_t end)
{
	struct fm_chain *last = &c->items.items[c->items.n - 1];
	last->len = (uint32_t)FM_MIN(end - last->addr, (uint64_t)UINT32_MAX);
	if (c->items.n < 2 || last[-1].addr + last[-1].len != last->addr || last[-1].len > UINT32_MAX - last->len ||
	    !means_same(c, &last[-1], last))
		return;
	last[-1].len += last->len;
	c->links.n = last->first_link;
	c->items.n--;
}

static int compare(const void *pa, const void *pb)
{
	const struct fm_chain *a = pa, *b = pb;
	return (a->addr > b->addr) - (a->addr < b->addr);
}

// What comes from the cache is: thousands of chains, most of which nobody asks for.
static bool is_sorted(const struct fm_chains *c)
{
	for (size_t i = 1; i < c->items.n; i++)
		if (c->items.items[i].addr <= c->items.items[i - 1].addr)
			return false;
	return true;
}

void fm_chains_sort(struct fm_chains *c)
{
	if (is_sorted(c))
		return;
	qsort(c->items.items, c->items.n, sizeof(*c->items.items), compare);
	size_t kept = 1;
	for (size_t i = 1; i < c->items.n; i++)
		if (c->items.items[i].addr != c->items.items[kept - 1].addr)
			c->items.items[kept++] = c->items.items[i];
	c->items.n = kept;
}

const struct fm_chain *fm_chains_find(const struct fm_chains *c, uint64_t addr)
{
	size_t n = fm_bisect(c->items.n, i, c->items.items[i].addr <= addr);
	return n && addr - c->items.items[n - 1].addr < c->items.items[n - 1].len ? &c->items.items[n - 1] : NULL;
}

// The first n_sorted items are in order, and many; those behind them are new, and few.
static void merge_runs(struct fm_chains *c, size_t n_sorted)
{
	size_t n_new = c->items.n - n_sorted, at = c->items.n;
	if (!n_new)
		return;
	struct fm_chain *fresh = fm_alloc(n_new * sizeof(*fresh));
	memcpy(fresh, c->items.items + n_sorted, n_new * sizeof(*fresh));
	qsort(fresh, n_new, sizeof(*fresh), compare);
	while (n_new)
		c->items.items[--at] = n_sorted && c->items.items[n_sorted - 1].addr > fresh[n_new - 1].addr
					       ? c->items.items[--n_sorted]
					       : fresh[--n_new];
	free(fresh);
	fm_chains_sort(c); // of the new ones, too, one stays of each address
}

void fm_chains_merge(struct fm_chains *to, const struct fm_chains *from)
{
	size_t n_sorted = to->items.n;
	for (size_t i = 0; i < from->items.n; i++) {
		const struct fm_chain *chain = &from->items.items[i];
		struct fm_chain key = { .addr = chain->addr };
		if (n_sorted && bsearch(&key, to->items.items, n_sorted, sizeof(key), compare))
			continue;
		fm_chains_add(to, chain->addr, chain->start);
		to->items.items[to->items.n - 1].len = chain->len;
		fm_chains_guess(to, fm_chains_str(from, chain->guess));
		for (uint32_t k = 0; k < chain->n; k++) {
			const struct fm_link *link = &from->links.items[chain->first_link + k];
			fm_chains_link(to, fm_chains_str(from, link->name), fm_chains_str(from, link->file),
				       link->first_line, link->line, link->is_inlined);
		}
	}
	merge_runs(to, n_sorted);
}

static void pack_str(struct fm_buf *out, struct fm_str s)
{
	fm_buf_varint(out, s.len);
	fm_buf_bytes(out, s.p, s.len);
}

void fm_chains_pack(const struct fm_chains *c, struct fm_buf *out)
{
	fm_buf_u8(out, c->facts.state);
	fm_buf_u8(out, c->facts.origin);
	fm_buf_u8(out, c->facts.is_damaged);
	fm_buf_u8(out, c->facts.did_ask_server);
	fm_buf_u8(out, c->facts.is_server_silent);
	fm_buf_u8(out, c->facts.unread);
	pack_str(out, c->facts.debug_path);
	pack_str(out, c->facts.debug_link);
	pack_str(out, c->facts.unread_path);
	pack_str(out, c->facts.package_path);
	fm_buf_varint(out, c->strings.strings.n);
	for (uint32_t i = 1; i < c->strings.strings.n; i++)
		pack_str(out, fm_chains_str(c, i));
	fm_buf_varint(out, c->items.n);
	fm_buf_varint(out, c->links.n);
	fm_buf_bytes(out, c->items.items, c->items.n * sizeof(*c->items.items));
	fm_buf_bytes(out, c->links.items, c->links.n * sizeof(*c->links.items));
}

static uint32_t unpack_u32(struct fm_cursor *in, uint64_t limit)
{
	uint64_t v = fm_cursor_varint(in);
	if (v > limit)
		fm_cursor_fail(in, FM_E_CORRUPT);
	return in->err ? 0 : (uint32_t)v;
}

static struct fm_str keep(struct fm_chains *c, struct fm_str s)
{
	return fm_chains_str(c, fm_intern_id(&c->strings, s, NULL));
}

static void unpack_arrays(struct fm_chains *c, struct fm_cursor *in, uint64_t n, uint64_t n_links, uint32_t n_strings)
{
	size_t item = sizeof(*c->items.items), link = sizeof(*c->links.items), left = fm_cursor_left(in);
	if (in->err || n > left / item || n_links > (left - n * item) / link) {
		fm_cursor_fail(in, FM_E_CORRUPT);
		return;
	}
	fm_vec_reserve(&c->items, n);
	fm_vec_reserve(&c->links, n_links);
	if (n)
		memcpy(c->items.items, fm_cursor_bytes(in, n * item), n * item);
	if (n_links)
		memcpy(c->links.items, fm_cursor_bytes(in, n_links * link), n_links * link);
	c->items.n = n;
	c->links.n = n_links;
	bool is_bad = false;
	for (size_t i = 0; i < n; i++) {
		const struct fm_chain *chain = &c->items.items[i];
		is_bad |= !chain->len || chain->addr + (chain->len - 1) < chain->addr || chain->n > n_links ||
			  chain->first_link > n_links - chain->n || (chain->guess && chain->guess >= n_strings);
	}
	for (size_t i = 0; i < n_links; i++) {
		const struct fm_link *l = &c->links.items[i];
		is_bad |= (l->name && l->name >= n_strings) || (l->file && l->file >= n_strings) ||
			  l->first_line > INT32_MAX;
	}
	if (is_bad)
		fm_cursor_fail(in, FM_E_CORRUPT);
}

static void unpack(struct fm_chains *c, struct fm_cursor *in)
{
	c->facts.state = fm_cursor_u8(in);
	c->facts.origin = fm_cursor_u8(in);
	c->facts.is_damaged = fm_cursor_u8(in);
	c->facts.did_ask_server = fm_cursor_u8(in);
	c->facts.is_server_silent = fm_cursor_u8(in);
	c->facts.unread = fm_cursor_u8(in);
	struct fm_str path = fm_cursor_str(in), link_name = fm_cursor_str(in);
	struct fm_str unread_path = fm_cursor_str(in), package_path = fm_cursor_str(in);
	uint32_t n_strings = unpack_u32(in, UINT32_MAX);
	// A string that comes twice would shift the numbers of all that follow: no packer writes
	// one.
	for (uint32_t i = 1; i < n_strings && !in->err; i++)
		if (fm_intern_id(&c->strings, fm_cursor_str(in), NULL) != i)
			fm_cursor_fail(in, FM_E_CORRUPT);
	uint64_t n = fm_cursor_varint(in), n_links = fm_cursor_varint(in);
	unpack_arrays(c, in, n, n_links, n_strings);
	c->facts.debug_path = keep(c, path);
	c->facts.debug_link = keep(c, link_name);
	c->facts.unread_path = keep(c, unread_path);
	c->facts.package_path = keep(c, package_path);
}

enum fm_err fm_chains_unpack(struct fm_chains *c, struct fm_cursor *in)
{
	struct fm_chains fresh;
	fm_chains_init(&fresh);
	unpack(&fresh, in);
	if (in->err) {
		fm_chains_deinit(&fresh);
		return in->err;
	}
	fm_chains_sort(&fresh);
	*c = fresh;
	return FM_OK;
}
