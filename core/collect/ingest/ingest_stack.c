// SPDX-License-Identifier: Apache-2.0
// From a ring's frames to a stack of the profile. A stack repeats only what differs from the one
// before in its ring, whichever kind of record that was in.
#include <stdlib.h>
#include <string.h>

#include "collect/ingest/recorder_parts.h"

// Bit 63 of a wire frame is free: kinds are few.
#define RAW_IS_EXACT (1ull << 63)

void fm_recorded_process_forget_frames(struct recorded_process *p)
{
	fm_map_deinit(&p->frames);
	p->frames_epoch++;
}

// Makes p->frames good for samples of this time: libraries may come and go at one address while
// rings wait to be read.
static void select_frames(struct recorded_process *p, uint64_t time_ns)
{
	if (FM_LIKELY(p->replaced_ns.n == 0) || (time_ns >= p->frames_from_ns && time_ns < p->frames_until_ns))
		return;
	p->frames_from_ns = 0;
	p->frames_until_ns = UINT64_MAX;
	for (size_t i = 0; i < p->replaced_ns.n; i++) {
		uint64_t at = p->replaced_ns.items[i];
		if (at <= time_ns)
			p->frames_from_ns = FM_MAX(p->frames_from_ns, at);
		else
			p->frames_until_ns = FM_MIN(p->frames_until_ns, at);
	}
	fm_recorded_process_forget_frames(p);
}

static uint32_t native_frame(struct fm_recorder *r, struct recorded_process *p, uint64_t lookup_pc, uint64_t time_ns)
{
	uint64_t *known = fm_map_find(&p->frames, lookup_pc);
	if (known)
		return (uint32_t)*known;
	const struct image_range *image = NULL;
	for (size_t i = p->images.n; i-- > 0;) {
		const struct image_range *range = &p->images.items[i];
		if (lookup_pc < range->start || lookup_pc >= range->end)
			continue;
		image = range; // the first one there ever was, unless:
		if (range->from_ns <= time_ns)
			break;
	}
	uint32_t image_id = image ? image->image_id : fm_jit_image(p->jit, lookup_pc);
	uint32_t id =
		fm_writer_frame(r->writer, FM_FRAME_NATIVE, image_id, image ? lookup_pc - image->bias : lookup_pc);
	if (image_id != FM_NO_ID) // else its memory may be too new to be known
		*fm_map_at(&p->frames, lookup_pc, NULL) = id;
	return id;
}

bool fm_recorder_has_image(const struct fm_recorder *r, uint32_t process_idx, uint64_t pc)
{
	const struct recorded_process *p = &r->processes[process_idx];
	for (size_t i = p->images.n; i-- > 0;)
		if (pc >= p->images.items[i].start && pc < p->images.items[i].end)
			return true;
	return false;
}

uint32_t fm_recorder_native_frame(struct fm_recorder *r, uint32_t process_idx, uint64_t lookup_pc, uint64_t time_ns)
{
	select_frames(&r->processes[process_idx], time_ns);
	return native_frame(r, &r->processes[process_idx], lookup_pc, time_ns);
}

uint32_t fm_recorder_syscall_frame(struct fm_recorder *r, uint32_t nr)
{
	uint32_t kernel =
		fm_writer_image(r->writer, FM_STR_LIT("[kernel]"), (struct fm_str){ "", 0 }, FM_IMAGE_IS_KERNEL);
	return fm_writer_frame(r->writer, FM_FRAME_NATIVE, kernel, nr);
}

// No clash with addresses: these have no kind in their high bits.
static uint32_t python_frame(struct fm_recorder *r, struct recorded_process *p, uint64_t frame)
{
	uint64_t *known = fm_map_find(&p->frames, frame);
	if (known)
		return (uint32_t)*known;
	uint32_t code = frame >> 32 & ((1u << FM_WIRE_CODE_BITS) - 1);
	uint32_t id = fm_recorded_python_frame(r, p, code, (uint32_t)frame);
	if (!id)
		return fm_writer_frame(r->writer, FM_FRAME_PYTHON, FM_NO_ID, 0);
	*fm_map_at(&p->frames, frame, NULL) = id;
	return id;
}

static uint32_t resolve_frame(struct fm_recorder *r, struct recorded_process *p, uint64_t frame, bool is_exact,
			      uint64_t time_ns)
{
	uint64_t kind = frame >> FM_WIRE_FRAME_SHIFT;
	if (kind == FM_WIRE_FRAME_NATIVE)
		return native_frame(r, p, frame - (is_exact ? 0 : 1), time_ns);
	if (kind == FM_WIRE_FRAME_PYTHON)
		return python_frame(r, p, frame);
	if (kind == FM_WIRE_FRAME_SYSCALL)
		return fm_recorder_syscall_frame(r, frame & (FM_WIRE_N_SYSCALLS - 1));
	return fm_writer_frame(r->writer, FM_FRAME_ERROR, 0, frame & 0xffff);
}

uint32_t fm_ingest_frame(struct fm_recorder *r, struct recorded_process *p, uint64_t frame, uint64_t time_ns)
{
	select_frames(p, time_ns);
	return resolve_frame(r, p, frame & ~RAW_IS_EXACT, (frame & RAW_IS_EXACT) != 0, time_ns);
}

bool fm_ingest_wire_stack(struct recorded_slot *s, const struct wire_stack *from)
{
	uint64_t n_new = (uint64_t)from->n_frames - from->n_shared;
	if (from->n_shared > from->n_frames || from->n_shared > s->wire.n || n_new > from->n_room)
		return false;
	s->wire.n = from->n_shared;
	s->stacks.n = FM_MIN(s->stacks.n, (size_t)from->n_shared);
	for (uint64_t i = n_new; i-- > 0;) // outermost first
		fm_vec_push(&s->wire,
			    from->frames[i] | (i == from->leaf_idx || i == from->precise_idx ? RAW_IS_EXACT : 0));
	return true;
}

bool fm_ingest_stack(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
		     const struct wire_stack *from, uint32_t *ret_stack)
{
	if (!fm_ingest_wire_stack(s, from))
		return false;
	select_frames(p, from->time_ns);
	// What is shared with the last stack has its ids already, unless its addresses have changed
	// their meaning since.
	if (s->epoch != p->frames_epoch)
		s->stacks.n = 0;
	s->epoch = p->frames_epoch;
	uint32_t stack = s->stacks.n ? s->stacks.items[s->stacks.n - 1] : FM_ROOT_STACK;
	while (s->stacks.n < s->wire.n) {
		uint64_t wire = s->wire.items[s->stacks.n];
		uint32_t frame = resolve_frame(r, p, wire & ~RAW_IS_EXACT, (wire & RAW_IS_EXACT) != 0, from->time_ns);
		stack = fm_writer_stack(r->writer, stack, frame);
		fm_vec_push(&s->stacks, stack);
	}
	*ret_stack = stack;
	return true;
}

bool fm_ingest_memory_stack(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			    const struct fm_wire_record *rec, size_t head_size, uint64_t time_ns, uint32_t n_frames,
			    uint32_t n_shared, uint32_t *ret_stack)
{
	struct wire_stack from = { .time_ns = time_ns,
				   .n_frames = n_frames,
				   .n_shared = n_shared,
				   .leaf_idx = UINT32_MAX,
				   .precise_idx = UINT32_MAX,
				   .frames = (const void *)((const uint8_t *)rec + head_size),
				   .n_room = (rec->size - head_size) / sizeof(uint64_t) };
	bool is_whole = fm_ingest_stack(r, p, s, &from, ret_stack);
	r->totals.n_bad_records += !is_whole;
	return is_whole;
}
