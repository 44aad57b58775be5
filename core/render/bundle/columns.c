// SPDX-License-Identifier: Apache-2.0
#include "render/bundle/columns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
	const char *name;
	size_t bytes;
} types[] = {
	[FM_COLUMN_U8] = { "u8", 1 },   [FM_COLUMN_U16] = { "u16", 2 }, [FM_COLUMN_U32] = { "u32", 4 },
	[FM_COLUMN_I32] = { "i32", 4 }, [FM_COLUMN_F32] = { "f32", 4 }, [FM_COLUMN_F64] = { "f64", 8 },
};

static const char padding[8] = "        ";

void fm_columns_deinit(struct fm_columns *c)
{
	for (size_t i = 0; i < c->items.n; i++)
		free(c->items.items[i].data);
	fm_vec_deinit(&c->items);
}

static void *add(struct fm_columns *c, const char *name, enum fm_column_type type, size_t n)
{
	void *data = fm_alloc((n + 1) * types[type].bytes);
	fm_vec_push(&c->items, (struct fm_column){ name, type, n, data });
	return data;
}

uint8_t *fm_columns_u8(struct fm_columns *c, const char *name, size_t n)
{
	return add(c, name, FM_COLUMN_U8, n);
}

uint16_t *fm_columns_u16(struct fm_columns *c, const char *name, size_t n)
{
	return add(c, name, FM_COLUMN_U16, n);
}

uint32_t *fm_columns_u32(struct fm_columns *c, const char *name, size_t n)
{
	return add(c, name, FM_COLUMN_U32, n);
}

int32_t *fm_columns_i32(struct fm_columns *c, const char *name, size_t n)
{
	return add(c, name, FM_COLUMN_I32, n);
}

float *fm_columns_f32(struct fm_columns *c, const char *name, size_t n)
{
	return add(c, name, FM_COLUMN_F32, n);
}

double *fm_columns_f64(struct fm_columns *c, const char *name, size_t n)
{
	return add(c, name, FM_COLUMN_F64, n);
}

static void write_head(const struct fm_columns *c, FILE *out, void (*add_head)(struct fm_json *j, void *ctx), void *ctx)
{
	struct fm_json j;
	fm_json_init(&j, out);
	fm_json_object(&j, NULL);
	fm_json_str(&j, "schema", FM_STR_LIT("fathom.view/1"));
	if (add_head)
		add_head(&j, ctx);
	fm_json_newline(&j);
	fm_json_array(&j, "columns");
	for (size_t i = 0; i < c->items.n; i++) {
		fm_json_object(&j, NULL);
		fm_json_str(&j, "name", fm_str_of(c->items.items[i].name));
		fm_json_str(&j, "type", fm_str_of(types[c->items.items[i].type].name));
		fm_json_u64(&j, "n", c->items.items[i].n);
		fm_json_end(&j);
	}
	fm_json_end(&j);
	fm_json_end(&j);
}

void fm_columns_write(const struct fm_columns *c, FILE *out, void (*add_head)(struct fm_json *j, void *ctx), void *ctx)
{
	static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "columns go out as they lie in memory");
	_cleanup_free_ char *head = NULL;
	size_t len = 0;
	FILE *memory = open_memstream(&head, &len);
	if (!memory)
		return; // out of memory; fm_alloc() says so next
	write_head(c, memory, add_head, ctx);
	fwrite(padding, 1, -(size_t)ftell(memory) % 8, memory);
	fclose(memory);
	const uint32_t sizes[2] = { (uint32_t)len, 0 };
	fwrite("FMVIEW1\n", 1, 8, out);
	fwrite(sizes, 1, sizeof(sizes), out);
	fwrite(head, 1, len, out);
	for (size_t i = 0; i < c->items.n; i++) {
		size_t bytes = c->items.items[i].n * types[c->items.items[i].type].bytes;
		fwrite(c->items.items[i].data, 1, bytes, out);
		fwrite("\0\0\0\0\0\0\0", 1, -bytes % 8, out);
	}
}
