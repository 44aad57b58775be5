// SPDX-License-Identifier: Apache-2.0
#include "symbolize/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bisect.h"
#include "base/clock.h"
#include "image/debug_file.h"
#include "image/lines.h"
#include "image/object.h"
#include "image/symbols.h"
#include "symbolize/cache.h"
#include "symbolize/child.h"

struct collect {
	struct fm_chains *chains;
	const uint64_t *addrs;
	size_t n;
	struct fm_symbols *symbols;
	bool *is_done;
};

static struct fm_str str_or_empty(const char *s)
{
	return s ? fm_str_of(s) : FM_STR_LIT("");
}

// The linker's name before the debug information's: it is the one people know (malloc, not
// __libc_malloc), and the same one whether or not lines are found.
static void begin_chain(struct fm_chains *c, struct fm_symbols *symbols, uint64_t addr, struct fm_symbol *ret)
{
	uint64_t start = 0;
	*ret = (struct fm_symbol){ 0 };
	if (!fm_symbols_find(symbols, addr, ret) || !fm_symbols_find_stub(symbols, addr, ret))
		start = ret->addr;
	else if (fm_symbols_function_start(symbols, addr, &start))
		start = 0;
	fm_chains_add(c, addr, start);
	struct fm_symbol before;
	if (!ret->name && !fm_symbols_find_before(symbols, start ? start : addr, &before))
		fm_chains_guess(c, fm_str_of(before.name));
}

static void take_chain(struct collect *c, uint64_t start, uint64_t end, const struct fm_line_frame *frames, size_t n)
{
	struct fm_symbol symbol;
	begin_chain(c->chains, c->symbols, start, &symbol);
	for (size_t k = 0; k < n; k++) {
		const char *name = k == 0 && symbol.name ? symbol.name : frames[k].name;
		fm_chains_link(c->chains, str_or_empty(name), str_or_empty(frames[k].file), frames[k].first_line,
			       frames[k].line, frames[k].is_inlined);
	}
	fm_chains_extend(c->chains, end);
}

// True when the linker's names are the same all over the piece.
static bool is_one_symbol(struct fm_symbols *symbols, uint64_t start, uint64_t end)
{
	struct fm_symbol first = { 0 }, last = { 0 };
	bool has_first = !fm_symbols_find(symbols, start, &first), has_last = !fm_symbols_find(symbols, end - 1, &last);
	return has_first && has_last && first.addr == last.addr;
}

// All of a function, and not just the addresses that were asked for: the next capture has others of
// it, and to look for one costs as much as for all.
static void take_piece(void *ctx, uint64_t start, uint64_t end, const struct fm_line_frame *frames, size_t n)
{
	struct collect *c = ctx;
	bool is_whole = is_one_symbol(c->symbols, start, end);
	if (is_whole)
		take_chain(c, start, end, frames, n);
	for (size_t i = fm_bisect(c->n, k, c->addrs[k] < start); i < c->n && c->addrs[i] < end; i++) {
		if (!is_whole)
			take_chain(c, c->addrs[i], c->addrs[i] + 1, frames, n);
		c->is_done[i] = true;
	}
}

static struct fm_str keep(struct fm_chains *c, struct fm_str s)
{
	return fm_chains_str(c, fm_intern_id(&c->strings, s, NULL));
}

// gdb's and libdw's rule: the package lies beside the file that has the rest.
static bool package_path(const char *file, char *ret, size_t cap)
{
	int n = snprintf(ret, cap, "%s.dwp", file);
	return n > 0 && (size_t)n < cap && access(ret, R_OK) == 0;
}

static void note_split(const char *image_path, const struct fm_object *object, const struct fm_lines *lines,
		       struct fm_chains *ret)
{
	const char *missing = fm_lines_missing_split(lines);
	char package[4200];
	if (!missing)
		return;
	bool is_packed = !fm_lines_reads_packages() &&
			 (package_path(image_path, package, sizeof(package)) ||
			  (object->place.path[0] && package_path(object->place.path, package, sizeof(package))));
	ret->facts.unread = is_packed ? FM_UNREAD_PACKED : FM_UNREAD_SPLIT;
	ret->facts.unread_path = keep(ret, fm_str_of(missing));
	ret->facts.package_path = keep(ret, fm_str_of(is_packed ? package : ""));
}

void fm_resolve_here(const struct fm_resolve_request *request, const uint64_t *addrs, size_t n, struct fm_chains *ret)
{
	fm_chains_init(ret);
	struct fm_object_request wanted = { request->path, request->build_id, request->is_vdso, !request->symbols_only,
					    !request->symbols_only };
	struct fm_object *object;
	if (fm_object_open(&wanted, &object, NULL)) {
		ret->facts.state = (uint8_t)fm_object_look(&wanted);
		return;
	}
	ret->facts.state = (uint8_t)object->state;
	struct fm_symbols *symbols = fm_symbols_create(object);
	struct collect c = { ret, addrs, n, symbols, fm_alloc(n + 1) };
	struct fm_lines *lines = NULL;
	if (!request->symbols_only) {
		ret->facts.is_server_silent = object->place.is_server_silent;
		ret->facts.did_ask_server = fm_debuginfod_is_wanted() && !object->place.is_server_silent;
		enum fm_err err = fm_lines_open(object, &lines);
		ret->facts.is_damaged = err == FM_E_CORRUPT;
		if (err == FM_E_UNSUPPORTED)
			ret->facts.unread = FM_UNREAD_COMPRESSED;
		if (!err) {
			ret->facts.origin = (uint8_t)object->place.origin;
			fm_lines_resolve_functions(lines, addrs, n, take_piece, &c);
			note_split(request->path, object, lines, ret);
		}
	}
	for (size_t i = 0; i < n; i++) {
		struct fm_symbol symbol;
		if (c.is_done[i])
			continue;
		begin_chain(ret, symbols, addrs[i], &symbol);
		if (symbol.name)
			fm_chains_link(ret, fm_str_of(symbol.name), FM_STR_LIT(""), 0, 0, false);
	}
	ret->facts.debug_path = keep(ret, fm_str_of(object->place.path));
	ret->facts.debug_link = keep(ret, fm_str_of(object->place.link));
	free(c.is_done);
	fm_lines_close(lines);
	fm_symbols_close(symbols);
	fm_object_close(object);
	fm_chains_sort(ret);
}

struct work {
	const struct fm_resolve_request *request;
	const uint64_t *addrs;
	size_t n;
};

static void resolve_and_pack(const void *ctx, struct fm_buf *out)
{
	const struct work *w = ctx;
	struct fm_chains chains;
	fm_resolve_here(w->request, w->addrs, w->n, &chains);
	fm_chains_pack(&chains, out);
	fm_chains_deinit(&chains);
}

static enum fm_resolve_failure resolve_in_child(const struct fm_resolve_request *request, const uint64_t *addrs,
						size_t n, struct fm_chains *ret)
{
	const struct work work = { request, addrs, n };
	uint64_t deadline_ns =
		request->deadline_ns ? request->deadline_ns : fm_now_ns() + (uint64_t)FM_RESOLVE_SECONDS * 1000000000u;
	struct fm_buf packed = { 0 };
	bool is_in_time = fm_child_run(resolve_and_pack, &work, deadline_ns, &packed);
	struct fm_cursor c = fm_cursor_over(packed.data ? packed.data : (uint8_t *)"", packed.len);
	enum fm_resolve_failure failure = FM_RESOLVE_OK;
	if (!is_in_time || fm_chains_unpack(ret, &c)) {
		failure = is_in_time ? FM_RESOLVE_CRASHED : FM_RESOLVE_LATE;
		fm_chains_init(ret);
		ret->facts.is_damaged = true;
	}
	fm_buf_deinit(&packed);
	return failure;
}

// What was not read may have come, or the libdw that can read it.
static bool is_unread_as_before(const struct fm_resolve_request *request, const struct fm_image_facts *facts)
{
	char path[4200];
	if (facts->unread == FM_UNREAD_NOTHING)
		return true;
	if (facts->unread == FM_UNREAD_COMPRESSED)
		return false;
	snprintf(path, sizeof(path), "%.*s", (int)facts->unread_path.len, facts->unread_path.p);
	bool has_package = facts->unread == FM_UNREAD_PACKED;
	return access(path, R_OK) != 0 && !(has_package && fm_lines_reads_packages()) &&
	       package_path(request->path, path, sizeof(path)) == has_package;
}

// A cache that knows of no lines is out of date once debug information may have come.
static bool is_still_right(const struct fm_resolve_request *request, const struct fm_chains *cached)
{
	const struct fm_image_facts *facts = &cached->facts;
	if (!is_unread_as_before(request, facts))
		return false;
	if (facts->origin != FM_DEBUG_NONE)
		return true;
	if (fm_debuginfod_is_wanted() && !facts->did_ask_server)
		return false;
	char link[256] = "";
	memcpy(link, facts->debug_link.p, FM_MIN(facts->debug_link.len, (uint32_t)sizeof(link) - 1));
	return !fm_debug_file_may_exist(request->path, request->build_id, link);
}

enum fm_resolve_failure fm_resolve(const struct fm_resolve_request *request, const uint64_t *addrs, size_t n,
				   struct fm_chains *ret)
{
	struct fm_chains cached, fresh;
	struct fm_cache_key key = { "" };
	if (!request->is_vdso)
		key = fm_cache_key_of(request->path, request->build_id);
	bool has_cache = !fm_cache_load(&key, &cached);
	if (has_cache && !request->symbols_only && !is_still_right(request, &cached)) {
		fm_chains_deinit(&cached);
		has_cache = false;
	}
	if (!has_cache)
		fm_chains_init(&cached);
	FM_VEC(uint64_t) missing = { 0 };
	for (size_t i = 0; i < n; i++)
		if (!fm_chains_find(&cached, addrs[i]))
			fm_vec_push(&missing, addrs[i]);
	enum fm_resolve_failure failure = FM_RESOLVE_OK;
	*ret = cached;
	if (missing.n) {
		failure = resolve_in_child(request, missing.items, missing.n, &fresh);
		if (failure == FM_RESOLVE_CRASHED &&
		    !request->symbols_only) { // perhaps only its debug information is bad
			struct fm_resolve_request plain = *request;
			plain.symbols_only = true;
			struct fm_chains again;
			if (!resolve_in_child(&plain, missing.items, missing.n, &again)) {
				fm_chains_deinit(&fresh);
				fresh = again;
				fresh.facts.is_damaged = true;
			}
		}
		// Less than the cache had (the debug file is away just now) must not become what it
		// knows.
		bool is_worth = fresh.items.n > 0 && (!has_cache || ret->facts.origin == FM_DEBUG_NONE ||
						      fresh.facts.origin != FM_DEBUG_NONE);
		if (has_cache) {
			fm_chains_merge(ret, &fresh);
			ret->facts.state = fresh.facts.state;
			if (fresh.facts.unread != FM_UNREAD_NOTHING) {
				ret->facts.unread = fresh.facts.unread;
				ret->facts.unread_path = keep(ret, fresh.facts.unread_path);
				ret->facts.package_path = keep(ret, fresh.facts.package_path);
			}
			fm_chains_deinit(&fresh);
		} else {
			fm_chains_deinit(ret);
			*ret = fresh;
		}
		if (!request->symbols_only && !failure && is_worth)
			fm_cache_save(&key, ret);
	}
	fm_vec_deinit(&missing);
	return failure;
}
