// SPDX-License-Identifier: Apache-2.0
// The machine code of hot native functions: around what was sampled, each instruction with its time
// and the source line it was made of.
#include <stdlib.h>

#include "aggregate/analysis/hot_code.h"
#include "render/bundle/part.h"

#define WHOLE 400u // instructions: a function that has no more of them is there as a whole
#define AROUND 24u // of a longer one so many before and after each that was sampled

static const struct fm_hot_code_limits hot = { .max_functions = 40, .min_share = 0.002 };

// Which of a function's instructions stay.
static size_t choose(const struct fm_hot_code *h, const struct fm_listing *l, bool *keep)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++) {
		if (l->n <= WHOLE)
			keep[l->first + i] = true;
		if (!h->n_samples[l->first + i])
			continue;
		for (size_t k = i - FM_MIN(i, (size_t)AROUND); k < FM_MIN(l->n, i + AROUND + 1); k++)
			keep[l->first + k] = true;
	}
	for (size_t i = 0; i < l->n; i++)
		n += keep[l->first + i];
	return n;
}

static void add_functions(struct fm_bundle *b, const struct fm_hot_code *h, const bool *keep, size_t n_functions)
{
	uint32_t *function = fm_columns_u32(&b->columns, "code.function", n_functions);
	uint32_t *image = fm_columns_u32(&b->columns, "code.image", n_functions);
	uint32_t *n = fm_columns_u32(&b->columns, "code.n", n_functions);
	double *start = fm_columns_f64(&b->columns, "code.start", n_functions);
	double *end = fm_columns_f64(&b->columns, "code.end", n_functions);
	double *self = fm_columns_f64(&b->columns, "code.self_s", n_functions);
	for (size_t i = 0; i < n_functions; i++) {
		const struct fm_hot_function *f = &h->functions.items[i];
		const struct fm_listing *l = f->listing;
		function[i] = fm_bundle_function(b, f->function_id);
		image[i] = fm_string_table_name(&b->text, b->a->profile->images.items[l->image_id].path);
		start[i] = (double)l->start;
		end[i] = (double)l->end;
		self[i] = fm_seconds(f->self_ns);
		for (size_t k = 0; k < l->n; k++)
			n[i] += keep[l->first + k];
	}
}

static void add_instructions(struct fm_bundle *b, const struct fm_hot_code *h, const bool *keep, size_t n_functions,
			     size_t n)
{
	double *at = fm_columns_f64(&b->columns, "instruction.at", n);
	double *self = fm_columns_f64(&b->columns, "instruction.self_s", n);
	uint32_t *samples = fm_columns_u32(&b->columns, "instruction.n", n);
	uint32_t *function = fm_columns_u32(&b->columns, "instruction.function", n);
	uint8_t *gap = fm_columns_u8(&b->columns, "instruction.gap", n);
	uint32_t *text = fm_columns_u32(&b->columns, "instruction.text", n);
	uint32_t *inlined = fm_columns_u32(&b->columns, "instruction.inlined", n);
	uint32_t *file = fm_columns_u32(&b->columns, "instruction.file", n);
	uint32_t *line = fm_columns_u32(&b->columns, "instruction.line", n);
	uint32_t *source = fm_columns_u32(&b->columns, "instruction.source", n);
	size_t row = 0;
	for (size_t i = 0; i < n_functions; i++) {
		const struct fm_listing *l = h->functions.items[i].listing;
		for (size_t k = l->first; k < l->first + l->n; k++) {
			if (!keep[k])
				continue;
			const struct fm_instruction *in = &h->code.items.items[k];
			at[row] = (double)in->addr;
			self[row] = fm_seconds(h->self_ns[k]);
			gap[row] = k > l->first && !keep[k - 1];
			samples[row] = (uint32_t)FM_MIN(h->n_samples[k], (uint64_t)UINT32_MAX);
			function[row] =
				h->self_function[k] == FM_NO_ID ? FM_NO_ID : fm_bundle_function(b, h->self_function[k]);
			text[row] = fm_string_table_name(&b->text, in->text);
			inlined[row] = fm_string_table_name(&b->text, in->inlined);
			file[row] = fm_string_table_name(&b->text, in->file);
			line[row] = in->line;
			source[row] = fm_string_table_name(&b->text, in->source);
			row++;
		}
	}
}

void fm_bundle_add_code(struct fm_bundle *b)
{
	struct fm_hot_code h;
	fm_hot_code_build(&h, b->a, &hot);
	b->lacks_disassembler = h.code.lacks_library;
	bool *keep = fm_alloc(h.code.items.n + 1);
	size_t n_functions = 0, n = 0;
	for (; n_functions < h.functions.n; n_functions++) {
		size_t more = choose(&h, h.functions.items[n_functions].listing, keep);
		if (n + more > b->limits->max_instructions)
			break;
		n += more;
	}
	if (n) {
		add_functions(b, &h, keep, n_functions);
		add_instructions(b, &h, keep, n_functions, n);
	}
	free(keep);
	fm_hot_code_deinit(&h);
}
