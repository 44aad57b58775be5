// SPDX-License-Identifier: Apache-2.0
// Threads are read as those that wait are (collect/remote/remote.h), out of the file in place of the
// process. There is no agent, and nobody to register: what is found goes right to the writer.
#include "collect/capture/post_mortem.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "collect/capture/parts.h"
#include "collect/observe/waiting.h"
#include "collect/process/core_file.h"
#include "collect/process/proc.h"
#include "collect/remote/remote.h"
#include "format/writer.h"
#include "pyabi/lines.h"
#include "pyabi/row.h"
#include "wire/wire.h"

struct post_mortem {
	const struct fm_post_mortem_options *options;
	struct fm_core *core;
	struct fm_remote_files *files;
	struct fm_remote *remote;
	struct fm_writer *writer;
	struct fm_remote_stack stack;
	struct fm_map image_ids; // start of a mapping -> the writer's id
	uint32_t process_id;
	uint64_t time_ns;
};

// ---- frames ----

static uint32_t image_id_of(struct post_mortem *p, const struct fm_remote_image *image)
{
	bool is_new;
	uint64_t *id = fm_map_at(&p->image_ids, image->map_start, &is_new);
	if (!is_new)
		return (uint32_t)*id;
	struct fm_unwind_file_info info;
	fm_unwind_file_get(image->file, &info);
	struct fm_str build_id = { (const char *)info.build_id, info.build_id_len };
	uint32_t flags = fm_remote_is_python(p->remote, image) ? FM_IMAGE_IS_PYTHON : 0;
	*id = fm_writer_image(p->writer, fm_str_of(image->path), build_id, flags);
	fm_writer_mapping(p->writer, p->process_id, (uint32_t)*id, image->start, image->end, image->bias);
	return (uint32_t)*id;
}

static uint32_t native_frame(struct post_mortem *p, uint64_t pc)
{
	const struct fm_remote_image *image = fm_remote_find_image(p->remote, pc);
	if (!image || !image->file)
		return fm_writer_frame(p->writer, FM_FRAME_NATIVE, FM_NO_ID, pc);
	return fm_writer_frame(p->writer, FM_FRAME_NATIVE, image_id_of(p, image), pc - image->bias);
}

static uint32_t python_frame(struct post_mortem *p, uint64_t frame)
{
	const struct fm_remote_code *code = fm_remote_code(p->remote, frame >> 32 & ((1u << FM_WIRE_CODE_BITS) - 1));
	uint32_t place = (uint32_t)frame;
	if (!code)
		return fm_writer_frame(p->writer, FM_FRAME_PYTHON, FM_NO_ID, 0);
	struct fm_code_info info = { .name = code->name,
				     .qualname = code->qualname,
				     .filename = code->filename,
				     .first_line = code->first_line,
				     .line_table_kind = FM_PY_LINES_DIRECT };
	uint32_t line = place ? fm_pyabi_line(code->line_table_kind, (const uint8_t *)code->line_table.p,
					      code->line_table.len, code->first_line, place - 1)
			      : 0;
	return fm_writer_frame(p->writer, FM_FRAME_PYTHON, fm_writer_code(p->writer, &info), line);
}

static uint32_t frame_id(struct post_mortem *p, size_t i)
{
	uint64_t frame = p->stack.frames.items[i];
	switch (frame >> FM_WIRE_FRAME_SHIFT) {
	case FM_WIRE_FRAME_NATIVE:
		return native_frame(p, frame - (i != p->stack.leaf_idx && i != p->stack.precise_idx));
	case FM_WIRE_FRAME_PYTHON:
		return python_frame(p, frame);
	case FM_WIRE_FRAME_SYSCALL: {
		uint32_t kernel =
			fm_writer_image(p->writer, FM_STR_LIT("[kernel]"), FM_STR_LIT(""), FM_IMAGE_IS_KERNEL);
		return fm_writer_frame(p->writer, FM_FRAME_NATIVE, kernel, frame & (FM_WIRE_N_SYSCALLS - 1));
	}
	default:
		return fm_writer_frame(p->writer, FM_FRAME_ERROR, 0, frame & 0xffff);
	}
}

// ---- threads ----

static void write_thread(struct post_mortem *p, const struct fm_core_thread *thread)
{
	struct fm_remote_regs regs = { 0 };
	struct fm_remote_call call = { .nr = -1 };
	uint32_t id = fm_writer_thread(p->writer, p->process_id, thread->tid, p->time_ns);
	if (!fm_remote_registers_of(thread->registers, thread->registers_bytes, &regs, &call))
		return;
	unsigned want = FM_REMOTE_PYTHON | FM_REMOTE_GIL | (p->options->native ? FM_REMOTE_NATIVE : 0);
	fm_remote_read_stack(p->remote, thread->tid, &regs, &call, want, &p->stack);
	fm_wait_write_gil(p->writer, thread->tid, p->stack.has_gil);
	if (p->options->locals)
		fm_remote_read_locals(p->remote, thread->tid, p->options->locals);
	uint32_t stack = FM_ROOT_STACK;
	for (size_t i = p->stack.frames.n; i-- > 0;) // outermost first
		stack = fm_writer_stack(p->writer, stack, frame_id(p, i));
	struct fm_sample sample = {
		.thread_id = id,
		.stack_id = stack,
		.time_ns = p->time_ns,
		.weight_ns = 1,
		.class = p->stack.waits_for_gil ? FM_CLASS_GIL_WAIT
			 : call.nr >= 0         ? FM_CLASS_WAIT
						: FM_CLASS_NATIVE,
	};
	fm_writer_sample(p->writer, &sample);
	const char *name = fm_remote_thread_name(p->remote, thread->tid, 0);
	if (name)
		fm_writer_thread_name(p->writer, id, fm_str_of(name));
}

static void write_process(struct post_mortem *p)
{
	char version[FM_PYTHON_VERSION_BYTES] = "";
	uint64_t pc;
	uint32_t hexversion;
	if (fm_remote_find_python(p->remote, &pc, &hexversion))
		fm_process_python_version(hexversion, fm_remote_is_free_threaded(p->remote), version);
	struct fm_process_info info = { .pid = fm_core_pid(p->core),
					.start_ns = p->time_ns,
					.command = fm_core_command(p->core),
					.python_version = fm_str_of(version),
					.engine = FM_STR_LIT("core") };
	fm_writer_meta(p->writer, "command", info.command);
	fm_writer_meta(p->writer, "mode", FM_STR_LIT("core"));
	fm_meta_origin(p->writer);
	p->process_id = fm_writer_process(p->writer, &info);
	fm_writer_process_end(p->writer, p->process_id, p->time_ns, -1, fm_core_signal(p->core));
}

// What could not be read, for the report.
static void write_lacks(struct post_mortem *p)
{
	const char *first = "";
	char what[128], why[512];
	uint32_t n = fm_core_n_replaced(p->core, &first);
	snprintf(what, sizeof(what), "functions of %u mapped file%s", n, n == 1 ? "" : "s");
	snprintf(why, sizeof(why), "%s is not the file that the process had mapped: restore that one", first);
	if (n)
		fm_writer_coverage(p->writer, fm_str_of(what), fm_str_of(why));
	if (fm_core_is_cut(p->core))
		fm_writer_coverage(
			p->writer, FM_STR_LIT("memory at the end of the core file"),
			FM_STR_LIT("the core file is cut short: raise 'ulimit -c', and check that the disk has room"));
}

enum fm_err fm_post_mortem(const struct fm_post_mortem_options *options, struct fm_diag *diag)
{
	struct post_mortem p = { .options = options, .time_ns = fm_now_ns() };
	enum fm_err err = fm_core_open(options->core_path, &p.core, diag);
	if (err)
		return err;
	err = fm_writer_open(options->output_path, &p.writer, diag);
	if (!err) {
		p.files = fm_remote_files_create_for_core(p.core);
		p.remote = fm_remote_create(fm_core_pid(p.core), p.files, NULL, 0);
		write_process(&p);
		for (size_t i = 0; i < fm_core_n_threads(p.core); i++)
			write_thread(&p, fm_core_thread_at(p.core, i));
		write_lacks(&p);
		fm_writer_flush(p.writer);
		if (options->at_end)
			options->at_end(p.writer, options->at_end_arg);
		err = fm_writer_close(p.writer, diag);
		fm_remote_destroy(p.remote);
		fm_remote_files_destroy(p.files);
	}
	fm_remote_stack_deinit(&p.stack);
	fm_map_deinit(&p.image_ids);
	fm_core_close(p.core);
	return err;
}
