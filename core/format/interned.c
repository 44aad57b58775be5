// SPDX-License-Identifier: Apache-2.0
#include "format/interned.h"
#include "format/facts.h"

#include <stdlib.h>

void fm_interned_init(struct fm_interned *in)
{
	*in = (struct fm_interned){ 0 };
	fm_intern_id(&in->string_ids, (struct fm_str){ "", 0 }, NULL);
	in->strings.n = FM_FIRST_STRING;
	in->frames.n = FM_FIRST_FRAME;
	fm_vec_push(&in->frame_items, (struct fm_record_frame){ FM_FRAME_ERROR, 0, FM_STACK_LOST });
	in->stacks.n = FM_FIRST_STACK;
}

void fm_interned_deinit(struct fm_interned *in)
{
	struct fm_interned_table *tables[] = { &in->strings, &in->images, &in->codes,
					       &in->frames,  &in->stacks, &in->trace_names };
	for (size_t i = 0; i < FM_ARRAY_LEN(tables); i++)
		fm_buf_deinit(&tables[i]->body);
	fm_intern_deinit(&in->string_ids);
	fm_intern_deinit(&in->image_keys);
	fm_intern_deinit(&in->code_keys);
	fm_intern_deinit(&in->trace_name_keys);
	fm_map_deinit(&in->frame_ids);
	fm_map_deinit(&in->stack_ids);
	fm_vec_deinit(&in->image_flags);
	fm_vec_deinit(&in->frame_items);
	fm_buf_deinit(&in->scratch);
}

static void put_table(struct fm_interned *in, enum fm_record_type type, struct fm_interned_table *t, struct fm_buf *raw)
{
	if (!t->n_pending)
		return;
	in->scratch.len = 0;
	fm_record_put_batch(&in->scratch, (struct fm_record_batch){ t->n - t->n_pending, t->n_pending });
	fm_record_put(raw, type, &in->scratch, t->body.data, t->body.len);
	t->n_pending = 0;
	t->body.len = 0;
}

void fm_interned_put(struct fm_interned *in, struct fm_buf *raw)
{
	put_table(in, FM_RECORD_STRINGS, &in->strings, raw);
	put_table(in, FM_RECORD_IMAGES, &in->images, raw);
	put_table(in, FM_RECORD_CODES, &in->codes, raw);
	put_table(in, FM_RECORD_FRAMES, &in->frames, raw);
	put_table(in, FM_RECORD_STACKS, &in->stacks, raw);
	put_table(in, FM_RECORD_TRACE_NAMES, &in->trace_names, raw);
	in->pending_bytes = 0;
}

// The new entry stands at its table's end, from byte `before` on. Gives its id.
static uint32_t end_entry(struct fm_interned *in, struct fm_interned_table *t, size_t before)
{
	t->n_pending++;
	in->pending_bytes += t->body.len - before;
	return t->n++;
}

// An entry whose encoding, in scratch, is its key.
static uint32_t entry_id(struct fm_interned *in, struct fm_intern *keys, struct fm_interned_table *t)
{
	bool is_new;
	uint32_t id =
		fm_intern_id(keys, (struct fm_str){ (char *)in->scratch.data, (uint32_t)in->scratch.len }, &is_new);
	if (is_new) {
		size_t before = t->body.len;
		fm_buf_bytes(&t->body, in->scratch.data, in->scratch.len);
		end_entry(in, t, before);
	}
	return id;
}

uint32_t fm_interned_string(struct fm_interned *in, struct fm_str s)
{
	bool is_new;
	uint32_t id = fm_intern_id(&in->string_ids, s, &is_new);
	if (is_new) {
		size_t before = in->strings.body.len;
		fm_record_put_str(&in->strings.body, s);
		end_entry(in, &in->strings, before);
	}
	return id;
}

uint32_t fm_interned_image(struct fm_interned *in, const struct fm_record_image *image)
{
	struct fm_buf *key = &in->scratch;
	key->len = 0;
	fm_buf_u32(key, image->path);
	fm_buf_bytes(key, image->build_id.p, image->build_id.len);
	bool is_new;
	uint32_t id = fm_intern_id(&in->image_keys, (struct fm_str){ (char *)key->data, (uint32_t)key->len }, &is_new);
	if (is_new) {
		size_t before = in->images.body.len;
		fm_record_put_image(&in->images.body, image);
		fm_vec_push(&in->image_flags, image->flags);
		end_entry(in, &in->images, before);
	}
	return id;
}

uint32_t fm_interned_code(struct fm_interned *in, const struct fm_record_code *code)
{
	in->scratch.len = 0;
	fm_record_put_code(&in->scratch, code);
	return entry_id(in, &in->code_keys, &in->codes);
}

uint32_t fm_interned_frame(struct fm_interned *in, const struct fm_record_frame *frame)
{
	uint64_t hash = fm_hash_u64(frame->value ^ ((uint64_t)frame->ref << 32 | frame->kind) * 0x9e3779b97f4a7c15u);
	for (;; hash++) {
		bool is_new;
		uint64_t *id = fm_map_at(&in->frame_ids, hash, &is_new);
		if (is_new) {
			*id = in->frames.n;
			fm_vec_push(&in->frame_items, *frame);
			size_t before = in->frames.body.len;
			fm_record_put_frame(&in->frames.body, frame);
			return end_entry(in, &in->frames, before);
		}
		const struct fm_record_frame *f = &in->frame_items.items[*id];
		if (f->value == frame->value && f->ref == frame->ref && f->kind == frame->kind)
			return (uint32_t)*id;
	}
}

uint32_t fm_interned_stack(struct fm_interned *in, const struct fm_record_stack *stack)
{
	bool is_new;
	uint64_t *id = fm_map_at(&in->stack_ids, (uint64_t)stack->parent << 32 | stack->frame_id, &is_new);
	if (!is_new)
		return (uint32_t)*id;
	*id = in->stacks.n;
	size_t before = in->stacks.body.len;
	// Distances start afresh in every batch, so that each can be read alone.
	uint32_t previous_frame = in->stacks.n_pending ? in->last_stack_frame : 0;
	fm_record_put_stack(&in->stacks.body, in->stacks.n, previous_frame, stack);
	in->last_stack_frame = stack->frame_id;
	return end_entry(in, &in->stacks, before);
}

uint32_t fm_interned_trace_name(struct fm_interned *in, const struct fm_fact_trace_name *name)
{
	in->scratch.len = 0;
	fm_fact_put_trace_name(&in->scratch, name);
	return entry_id(in, &in->trace_name_keys, &in->trace_names);
}
