// SPDX-License-Identifier: Apache-2.0
#include "render/export/gecko_tables.h"

#include <stdlib.h>

#include "render/shared/label.h"

uint32_t fm_gecko_string(struct fm_gecko_tables *t, struct fm_str text)
{
	return fm_intern_id(&t->strings, text, NULL);
}

static uint32_t resource_of(struct fm_gecko_tables *t, const struct fm_function *f)
{
	bool is_new;
	uint64_t *resource = fm_map_at(&t->resource_of_library, f->library_id, &is_new);
	if (!is_new)
		return (uint32_t)*resource;
	*resource = t->resources.n;
	uint32_t image = 0;
	const struct fm_profile *p = t->a->profile;
	while (image < p->images.n && !fm_str_eq(p->images.items[image].path, f->path))
		image++;
	fm_vec_push(&t->resources, (struct fm_gecko_resource){ fm_gecko_string(t, fm_label_last_part(f->path)),
							       image < p->images.n ? image : FM_NO_ID });
	return (uint32_t)*resource;
}

static uint32_t source_of(struct fm_gecko_tables *t, const struct fm_function *f)
{
	bool is_new;
	uint64_t *source = fm_map_at(&t->source_of_file, f->file_id, &is_new);
	if (is_new) {
		*source = t->sources.n;
		fm_vec_push(&t->sources, fm_gecko_string(t, f->file));
	}
	return (uint32_t)*source;
}

static uint32_t func_of(struct fm_gecko_tables *t, uint32_t function_id)
{
	const struct fm_function *f = fm_analysis_function(t->a, function_id);
	bool is_new;
	uint64_t *func = fm_map_at(&t->func_of_function, function_id, &is_new);
	if (!is_new)
		return (uint32_t)*func;
	*func = t->funcs.n;
	struct fm_gecko_func entry = { fm_gecko_string(t, fm_label_function(f)), 0, 0, f->line };
	if (f->library_id != FM_NO_ID && f->path.len)
		entry.resource1 = resource_of(t, f) + 1;
	if (f->file.len)
		entry.source1 = source_of(t, f) + 1;
	fm_vec_push(&t->funcs, entry);
	return (uint32_t)t->funcs.n - 1;
}

static uint8_t category_of_class(uint8_t class)
{
	static const uint8_t categories[FM_N_CLASSES] = { FM_GECKO_PYTHON, FM_GECKO_NATIVE, FM_GECKO_SYSTEM,
							  FM_GECKO_GC,     FM_GECKO_GIL,    FM_GECKO_IDLE };
	return categories[class];
}

static uint8_t category_of_code(const struct fm_function *f)
{
	if (f->kind == FM_FRAME_PYTHON)
		return FM_GECKO_PYTHON;
	if (f->kind != FM_FRAME_NATIVE)
		return FM_GECKO_OTHER;
	return fm_str_starts_with(f->path, "[kernel") ? FM_GECKO_SYSTEM : FM_GECKO_NATIVE;
}

static uint32_t frame_at(struct fm_gecko_tables *t, uint32_t node_id, uint8_t category, uint8_t inline_depth)
{
	const struct fm_node *node = &t->a->view.nodes.items[node_id];
	// How deep a line of a function is inlined may differ: the first one seen decides, on which no
	// total depends.
	uint64_t key = fm_place_key(node->function_id, node->line, node->is_inlined);
	bool is_new;
	uint64_t *frame = fm_map_at(&t->frame_of_place[category], key, &is_new);
	if (is_new) {
		*frame = t->frames.n;
		fm_vec_push(&t->frames, (struct fm_gecko_frame){ func_of(t, node->function_id), node->line, category,
								 inline_depth });
	}
	return (uint32_t)*frame;
}

void fm_gecko_tables_init(struct fm_gecko_tables *t, const struct fm_analysis *a)
{
	*t = (struct fm_gecko_tables){ .a = a, .frame_of_node = fm_alloc(a->view.nodes.n * sizeof(uint32_t)) };
	for (uint32_t i = 1; i < a->view.nodes.n; i++) {
		const struct fm_node *node = &a->view.nodes.items[i];
		uint8_t depth = 0;
		if (node->is_inlined && node->parent)
			depth = (uint8_t)FM_MIN(t->frames.items[t->frame_of_node[node->parent]].inline_depth + 1, 255);
		t->frame_of_node[i] =
			frame_at(t, i, category_of_code(fm_analysis_function(a, node->function_id)), depth);
	}
}

void fm_gecko_tables_deinit(struct fm_gecko_tables *t)
{
	fm_intern_deinit(&t->strings);
	fm_vec_deinit(&t->funcs);
	fm_vec_deinit(&t->frames);
	fm_vec_deinit(&t->resources);
	fm_vec_deinit(&t->sources);
	fm_vec_deinit(&t->leaf_parents);
	fm_vec_deinit(&t->leaf_frames);
	fm_map_deinit(&t->func_of_function);
	for (unsigned i = 0; i < FM_N_GECKO_CATEGORIES; i++)
		fm_map_deinit(&t->frame_of_place[i]);
	fm_map_deinit(&t->resource_of_library);
	fm_map_deinit(&t->source_of_file);
	fm_map_deinit(&t->leaf_of_sample);
	free(t->frame_of_node);
}

// A sample without a stack is left out of all sums there: it gets one of one frame.
static uint32_t frame_of_nothing(struct fm_gecko_tables *t, uint8_t category)
{
	if (!t->func_of_nothing1) {
		fm_vec_push(&t->funcs,
			    (struct fm_gecko_func){ fm_gecko_string(t, FM_STR_LIT("[no frames]")), 0, 0, 0 });
		t->func_of_nothing1 = (uint32_t)t->funcs.n;
	}
	fm_vec_push(&t->frames, (struct fm_gecko_frame){ t->func_of_nothing1 - 1, 0, category, 0 });
	return (uint32_t)t->frames.n - 1;
}

// Stacks are the view's nodes but the empty one, then those of samples in another class.
uint32_t fm_gecko_stack(struct fm_gecko_tables *t, uint32_t node, uint8_t class)
{
	uint8_t category = category_of_class(class), depth = 0;
	if (node) {
		const struct fm_gecko_frame *plain = &t->frames.items[t->frame_of_node[node]];
		if (plain->category == category)
			return node - 1;
		depth = plain->inline_depth;
	}
	bool is_new;
	uint64_t *leaf = fm_map_at(&t->leaf_of_sample, (uint64_t)node << 8 | category, &is_new);
	if (is_new) {
		*leaf = t->leaf_frames.n;
		fm_vec_push(&t->leaf_parents, t->a->view.nodes.items[node].parent);
		fm_vec_push(&t->leaf_frames, node ? frame_at(t, node, category, depth) : frame_of_nothing(t, category));
	}
	return (uint32_t)(t->a->view.nodes.n - 1 + *leaf);
}

// The name that symbol servers have for a build-id: its first 16 bytes as a GUID, and an age of 0.
static void put_breakpad_id(struct fm_buf *b, struct fm_str build_id)
{
	static const uint8_t order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	for (unsigned i = 0; i < 16; i++)
		fm_buf_printf(b, "%02X", order[i] < build_id.len ? (uint8_t)build_id.p[order[i]] : 0);
	fm_buf_u8(b, '0');
}

static void write_hex(struct fm_json *j, const char *key, const struct fm_buf *b)
{
	fm_json_str(j, key, (struct fm_str){ (const char *)b->data, (uint32_t)b->len });
}

void fm_gecko_write_libs(struct fm_gecko_tables *t, struct fm_json *j)
{
	fm_json_array(j, "libs");
	for (size_t i = 0; i < t->resources.n; i++) {
		static const struct fm_image unknown = { .path = { "", 0 }, .build_id = { "", 0 } };
		uint32_t image_id = t->resources.items[i].image_id;
		const struct fm_image *image = image_id != FM_NO_ID ? &t->a->profile->images.items[image_id] : &unknown;
		struct fm_str name = fm_intern_get(&t->strings, t->resources.items[i].name);
		struct fm_buf hex = { 0 };
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_str(j, "arch", FM_STR_LIT("x86_64"));
		fm_json_str(j, "name", name);
		fm_json_str(j, "path", image->path);
		fm_json_str(j, "debugName", name);
		fm_json_str(j, "debugPath", image->path);
		put_breakpad_id(&hex, image->build_id);
		write_hex(j, "breakpadId", &hex);
		hex.len = 0;
		fm_buf_hex(&hex, image->build_id.p, image->build_id.len);
		if (image->build_id.len)
			write_hex(j, "codeId", &hex);
		else
			fm_json_null(j, "codeId");
		fm_json_end(j);
		fm_buf_deinit(&hex);
	}
	fm_json_end(j);
}

// A column whose rows `value` gives: below 0 is null.
typedef int64_t column(const struct fm_gecko_tables *t, size_t row);

static void write_column(const struct fm_gecko_tables *t, struct fm_json *j, const char *key, size_t n, column *value)
{
	fm_json_newline(j);
	fm_json_array(j, key);
	for (size_t i = 0; i < n; i++) {
		int64_t v = value(t, i);
		if (v < 0)
			fm_json_null(j, NULL);
		else
			fm_json_i64(j, NULL, v);
	}
	fm_json_end(j);
}

// A column whose rows are all the same; NULL: null.
static void write_same(struct fm_json *j, const char *key, size_t n, const int64_t *value)
{
	fm_json_newline(j);
	fm_json_array(j, key);
	for (size_t i = 0; i < n; i++)
		if (value)
			fm_json_i64(j, NULL, *value);
		else
			fm_json_null(j, NULL);
	fm_json_end(j);
}

static void write_false(struct fm_json *j, const char *key, size_t n)
{
	fm_json_newline(j);
	fm_json_array(j, key);
	for (size_t i = 0; i < n; i++)
		fm_json_bool(j, NULL, false);
	fm_json_end(j);
}

static const int64_t zero = 0, one = 1, minus_one = -1;

static int64_t stack_frame(const struct fm_gecko_tables *t, size_t i)
{
	size_t n_nodes = t->a->view.nodes.n - 1;
	return i < n_nodes ? t->frame_of_node[i + 1] : t->leaf_frames.items[i - n_nodes];
}

static int64_t stack_prefix(const struct fm_gecko_tables *t, size_t i)
{
	size_t n_nodes = t->a->view.nodes.n - 1;
	uint32_t node = i < n_nodes ? t->a->view.nodes.items[i + 1].parent : t->leaf_parents.items[i - n_nodes];
	return (int64_t)node - 1;
}

static int64_t frame_inline_depth(const struct fm_gecko_tables *t, size_t i)
{
	return t->frames.items[i].inline_depth;
}

static int64_t frame_category(const struct fm_gecko_tables *t, size_t i)
{
	return t->frames.items[i].category;
}

static int64_t frame_func(const struct fm_gecko_tables *t, size_t i)
{
	return t->frames.items[i].func;
}

static int64_t frame_line(const struct fm_gecko_tables *t, size_t i)
{
	return t->frames.items[i].line ? (int64_t)t->frames.items[i].line : -1;
}

static int64_t func_name(const struct fm_gecko_tables *t, size_t i)
{
	return t->funcs.items[i].name;
}

static int64_t func_source(const struct fm_gecko_tables *t, size_t i)
{
	return (int64_t)t->funcs.items[i].source1 - 1;
}

static int64_t func_line(const struct fm_gecko_tables *t, size_t i)
{
	return t->funcs.items[i].line ? (int64_t)t->funcs.items[i].line : -1;
}

static int64_t resource_name(const struct fm_gecko_tables *t, size_t i)
{
	return t->resources.items[i].name;
}

static int64_t itself(const struct fm_gecko_tables *t, size_t i)
{
	(void)t;
	return (int64_t)i;
}

static int64_t source_name(const struct fm_gecko_tables *t, size_t i)
{
	return t->sources.items[i];
}

static void begin_table(struct fm_json *j, const char *key, size_t n)
{
	fm_json_newline(j);
	fm_json_object(j, key);
	fm_json_u64(j, "length", n);
}

static void write_stacks(const struct fm_gecko_tables *t, struct fm_json *j)
{
	size_t n = t->a->view.nodes.n - 1 + t->leaf_frames.n;
	begin_table(j, "stackTable", n);
	write_column(t, j, "frame", n, stack_frame);
	write_column(t, j, "prefix", n, stack_prefix);
	fm_json_end(j);
}

static void write_frames(const struct fm_gecko_tables *t, struct fm_json *j)
{
	size_t n = t->frames.n;
	begin_table(j, "frameTable", n);
	write_same(j, "address", n, &minus_one); // a line is many addresses
	write_column(t, j, "inlineDepth", n, frame_inline_depth);
	write_column(t, j, "category", n, frame_category);
	write_same(j, "subcategory", n, &zero);
	write_column(t, j, "func", n, frame_func);
	write_same(j, "nativeSymbol", n, NULL);
	write_same(j, "innerWindowID", n, &zero);
	write_column(t, j, "line", n, frame_line);
	write_same(j, "column", n, NULL);
	fm_json_end(j);
}

static void write_funcs(const struct fm_gecko_tables *t, struct fm_json *j)
{
	size_t n = t->funcs.n;
	begin_table(j, "funcTable", n);
	write_column(t, j, "name", n, func_name);
	write_false(j, "isJS", n);
	write_false(j, "relevantForJS", n);
	fm_json_array(j, "resource"); // -1 here, where all others have null
	for (size_t i = 0; i < n; i++)
		fm_json_i64(j, NULL, (int64_t)t->funcs.items[i].resource1 - 1);
	fm_json_end(j);
	write_column(t, j, "source", n, func_source);
	write_column(t, j, "lineNumber", n, func_line);
	write_same(j, "columnNumber", n, NULL);
	fm_json_end(j);
}

static void write_resources(const struct fm_gecko_tables *t, struct fm_json *j)
{
	size_t n = t->resources.n;
	begin_table(j, "resourceTable", n);
	write_column(t, j, "lib", n, itself);
	write_column(t, j, "name", n, resource_name);
	write_same(j, "host", n, NULL);
	write_same(j, "type", n, &one); // a library
	fm_json_end(j);
	begin_table(j, "nativeSymbols", 0);
	static const char *const columns[] = { "libIndex", "address", "name", "functionSize" };
	for (size_t i = 0; i < FM_ARRAY_LEN(columns); i++)
		write_same(j, columns[i], 0, NULL);
	fm_json_end(j);
}

static void write_sources(const struct fm_gecko_tables *t, struct fm_json *j)
{
	size_t n = t->sources.n;
	begin_table(j, "sources", n);
	write_same(j, "id", n, NULL);
	write_column(t, j, "filename", n, source_name);
	write_same(j, "startLine", n, &one);
	write_same(j, "startColumn", n, &one);
	write_same(j, "sourceMapURL", n, NULL);
	fm_json_end(j);
}

void fm_gecko_write_shared(struct fm_gecko_tables *t, struct fm_json *j)
{
	fm_json_newline(j);
	fm_json_object(j, "shared");
	write_stacks(t, j);
	write_frames(t, j);
	write_funcs(t, j);
	write_resources(t, j);
	write_sources(t, j);
	fm_json_newline(j);
	fm_json_array(j, "stringArray");
	for (uint32_t i = 0; i < t->strings.strings.n; i++) {
		fm_json_newline(j);
		fm_json_str(j, NULL, fm_intern_get(&t->strings, i));
	}
	fm_json_end(j);
	fm_json_end(j);
}
