// SPDX-License-Identifier: Apache-2.0
#include "symbolize/chains.h"

#include <stdlib.h>

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
	fm_vec_push(&c->items, (struct fm_chain){ addr, start, (uint32_t)c->links.n, 0, 0 });
}

void fm_chains_guess(struct fm_chains *c, struct fm_str name)
{
	c->items.items[c->items.n - 1].guess = fm_intern_id(&c->strings, name, NULL);
}

void fm_chains_link(struct fm_chains *c, struct fm_str name, struct fm_str file, uint32_t first_line, uint32_t line,
		    bool is_inlined)
{
	uint32_t name_id = fm_intern_id(&c->strings, name, NULL), file_id = fm_intern_id(&c->strings, file, NULL);
	fm_vec_push(&c->links, (struct fm_link){ name_id, file_id, first_line, line, is_inlined });
	c->items.items[c->items.n - 1].n++;
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
	struct fm_chain key = { .addr = addr };
	return c->items.n ? bsearch(&key, c->items.items, c->items.n, sizeof(key), compare) : NULL;
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
		fm_chains_guess(to, fm_chains_str(from, chain->guess));
		for (uint32_t k = 0; k < chain->n; k++) {
			const struct fm_link *link = &from->links.items[chain->first_link + k];
			fm_chains_link(to, fm_chains_str(from, link->name), fm_chains_str(from, link->file),
				       link->first_line, link->line, link->is_inlined);
		}
	}
	fm_chains_sort(to);
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
	for (size_t i = 0; i < c->items.n; i++) {
		const struct fm_chain *chain = &c->items.items[i];
		fm_buf_varint(out, chain->addr);
		fm_buf_varint(out, chain->start);
		fm_buf_varint(out, chain->guess);
		fm_buf_varint(out, chain->n);
		for (uint32_t k = 0; k < chain->n; k++) {
			const struct fm_link *link = &c->links.items[chain->first_link + k];
			fm_buf_varint(out, link->name);
			fm_buf_varint(out, link->file);
			fm_buf_varint(out, link->first_line);
			fm_buf_varint(out, (uint64_t)link->line << 1 | link->is_inlined);
		}
	}
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
	uint32_t n = unpack_u32(in, UINT32_MAX);
	for (uint32_t i = 0; i < n && !in->err; i++) {
		uint64_t addr = fm_cursor_varint(in), start = fm_cursor_varint(in);
		uint32_t guess = unpack_u32(in, n_strings ? n_strings - 1 : 0);
		uint32_t n_links = unpack_u32(in, fm_cursor_left(in));
		if (in->err)
			break;
		fm_chains_add(c, addr, start);
		c->items.items[c->items.n - 1].guess = guess;
		c->items.items[c->items.n - 1].n = n_links;
		for (uint32_t k = 0; k < n_links && !in->err; k++) {
			struct fm_link link;
			link.name = unpack_u32(in, n_strings);
			link.file = unpack_u32(in, n_strings);
			link.first_line = unpack_u32(in, INT32_MAX);
			uint64_t line = fm_cursor_varint(in);
			link.line = (uint32_t)FM_MIN(line >> 1, (uint64_t)INT32_MAX);
			link.is_inlined = line & 1;
			fm_vec_push(&c->links, link);
		}
	}
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
