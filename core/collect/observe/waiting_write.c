// SPDX-License-Identifier: Apache-2.0
// What was seen of a thread that waits, in the words of the file.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collect/observe/waiting_parts.h"

void fm_wait_write_share(struct fm_waiting *w, struct wait_thread *t, uint64_t time_ns)
{
	if (t->owed_ns && t->has_stack) {
		struct fm_sample sample = {
			.thread_id = t->thread_id,
			.stack_id = t->stack_id,
			.time_ns = time_ns,
			.weight_ns = t->owed_ns,
			.class = t->class,
		};
		fm_recorder_wait(w->recorder, &sample);
	}
	t->owed_ns = 0;
}

void fm_wait_write_ready(struct fm_waiting *w, const struct wait_thread *t)
{
	if (t->thread_id != FM_NO_ID)
		fm_recorder_thread_ready(w->recorder, t->thread_id, t->ready_ns - t->first_ready_ns);
}

void fm_wait_write_gil(struct fm_writer *w, uint32_t tid, bool has_gil)
{
	char key[32];
	snprintf(key, sizeof(key), "has_gil_%u", tid);
	fm_writer_meta(w, key, has_gil ? FM_STR_LIT("1") : FM_STR_LIT("0"));
}

static void tell_image(struct fm_waiting *w, struct wait_process *p, uint64_t pc, uint64_t now_ns)
{
	if (fm_recorder_has_image(w->recorder, p->process_idx, pc))
		return;
	const struct fm_remote_image *image = fm_remote_find_image(p->remote, pc);
	if (!image || !image->file)
		return;
	char exe[64], target[4096];
	snprintf(exe, sizeof(exe), "/proc/%u/exe", p->pid);
	ssize_t n = readlink(exe, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = 0;
	struct fm_unwind_file_info info;
	fm_unwind_file_get(image->file, &info);
	struct fm_wire_image rec = { .time_ns = now_ns, .start = image->start, .end = image->end, .bias = image->bias };
	rec.flags = (!strcmp(target, image->path) ? FM_IMAGE_IS_MAIN : 0) |
		    (fm_remote_is_python(p->remote, image) ? FM_IMAGE_IS_PYTHON : 0);
	fm_recorder_image(w->recorder, p->process_idx, &rec, fm_str_of(image->path),
			  (struct fm_str){ (const char *)info.build_id, info.build_id_len });
}

static uint32_t python_frame(struct fm_waiting *w, struct wait_process *p, uint64_t frame)
{
	uint32_t id = frame >> 32 & ((1u << FM_WIRE_CODE_BITS) - 1);
	if (p->code_generation != fm_remote_code_generation(p->remote)) {
		p->code_generation = fm_remote_code_generation(p->remote);
		fm_map_deinit(&p->python_frames);
	}
	const uint64_t *known = fm_map_find(&p->python_frames, frame);
	if (known)
		return (uint32_t)*known;
	const struct fm_remote_code *code = fm_remote_code(p->remote, id);
	if (!code)
		return fm_writer_frame(w->writer, FM_FRAME_PYTHON, FM_NO_ID, 0);
	struct fm_code_info info = { code->name,       code->qualname,        code->filename,
				     code->first_line, code->line_table_kind, code->line_table };
	uint32_t written = fm_recorder_python_frame(w->recorder, p->process_idx, &info, (uint32_t)frame);
	*fm_map_at(&p->python_frames, frame, NULL) = written;
	return written;
}

uint32_t fm_wait_write_stack(struct fm_waiting *w, struct wait_process *p, uint64_t now_ns)
{
	uint32_t stack = FM_ROOT_STACK;
	for (size_t i = w->stack.frames.n; i-- > 0;) { // outermost first
		uint64_t frame = w->stack.frames.items[i];
		uint32_t id;
		switch (frame >> FM_WIRE_FRAME_SHIFT) {
		case FM_WIRE_FRAME_NATIVE:
			frame -= i != w->stack.leaf_idx && i != w->stack.precise_idx;
			tell_image(w, p, frame, now_ns);
			id = fm_recorder_native_frame(w->recorder, p->process_idx, frame, now_ns);
			break;
		case FM_WIRE_FRAME_PYTHON:
			id = python_frame(w, p, frame);
			break;
		case FM_WIRE_FRAME_SYSCALL:
			id = fm_recorder_syscall_frame(w->recorder, frame & (FM_WIRE_N_SYSCALLS - 1));
			break;
		default:
			id = fm_writer_frame(w->writer, FM_FRAME_ERROR, 0, frame & 0xffff);
		}
		stack = fm_writer_stack(w->writer, stack, id);
	}
	return stack;
}

void fm_wait_name_thread(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t)
{
	if (fm_wait_thread_name(p, t->listed.tid, t->own_tid, t->since_ns, t->name))
		fm_writer_thread_name(w->writer, t->thread_id, fm_str_of(t->name));
}

void fm_wait_name_sometimes(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t)
{
	if ((t->n_pieces & (t->n_pieces + 1)) == 0)
		fm_wait_name_thread(w, p, t);
	t->n_pieces++;
}
