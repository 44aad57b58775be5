// SPDX-License-Identifier: Apache-2.0
#include "cli/captures/dump_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/utf8.h"
#include "collect/process/proc.h"
#include "render/shared/facts.h"
#include "render/shared/label.h"
#include "render/shared/style.h"

#define MAX_SHOWN 1000u // of a name; some are made to be long
#define INDENT 4u
#define LEAST_PATH 16u // a path that is shorter than this tells nothing

// Stopped threads look as if they waited. The profile does not say; the kernel still does.
static bool is_stopped(uint32_t pid, uint32_t tid)
{
	char state = fm_process_state(pid, tid);
	return state == 'T' || state == 't';
}

static const char *state_of(const struct fm_dump *d, uint32_t thread_id, const struct fm_cell *cell)
{
	const struct fm_thread *t = &d->analysis->profile->threads.items[thread_id];
	const struct fm_process *p = &d->analysis->profile->processes.items[t->process_id];
	if (!cell)
		return "not read";                             // it runs and may not be held, or began a moment ago
	if (d->is_of_core && thread_id == 0 && p->exit_signal) // the first thread of a core
		return "ended the process";
	if (!d->is_of_core && cell->class == FM_CLASS_WAIT && is_stopped(p->info.pid, t->tid))
		return "stopped";
	return cell->class == FM_CLASS_WAIT       ? "waiting"
	       : cell->class == FM_CLASS_GIL_WAIT ? "waiting for the GIL"
						  : "running";
}

static bool has_gil(const struct fm_analysis *a, uint32_t tid)
{
	char key[32];
	snprintf(key, sizeof(key), "has_gil_%u", tid);
	return fm_facts_meta_u64(a->profile, key) == 1;
}

static const struct fm_cell *cell_of(const struct fm_analysis *a, uint32_t thread_id)
{
	for (size_t i = 0; i < a->tally.cells.n; i++)
		if (a->tally.cells.items[i].thread_id == thread_id)
			return &a->tally.cells.items[i];
	return NULL;
}

// The frames of a stack, innermost first.
struct shown {
	uint32_t node;
	uint32_t python; // which of the thread's Python frames it is; UINT32_MAX = none
};
struct nodes {
	struct shown *items;
	size_t n, cap;
};
static void list_nodes(const struct fm_analysis *a, const struct fm_cell *cell, struct nodes *ret)
{
	uint32_t n_python = 0;
	for (uint32_t node = cell ? fm_view_node(&a->view, cell->stack_id) : 0; node;
	     node = a->view.nodes.items[node].parent) {
		const struct fm_function *f = fm_analysis_function(a, a->view.nodes.items[node].function_id);
		bool is_python = f->kind == FM_FRAME_PYTHON;
		struct shown shown = { node, is_python && !f->is_library ? n_python : UINT32_MAX };
		n_python += is_python;
		fm_vec_push(ret, shown);
	}
}

// The next local variable of a frame, from *at on: "name=value" with secrets masked. False: there
// are no more.
static bool next_local(const struct fm_dump *d, uint32_t tid, uint32_t frame, size_t *at, struct fm_buf *text,
		       const char **ret_type)
{
	for (; d->locals && frame != UINT32_MAX && *at < d->locals->items.n; (*at)++) {
		const struct fm_local *l = &d->locals->items.items[*at];
		if (l->tid != tid || l->frame != frame)
			continue;
		text->len = 0;
		fm_redact_command(d->redact, fm_str_of(l->text), text);
		*ret_type = l->type;
		(*at)++;
		return true;
	}
	return false;
}

// ---- for people ----

static void print_str(FILE *out, struct fm_str s)
{
	fm_utf8_print(out, (struct fm_str){ s.p, FM_MIN(s.len, MAX_SHOWN) });
	if (s.len > MAX_SHOWN)
		fputs("...", out);
}

static void print_process(FILE *out, const struct fm_process *process)
{
	const struct fm_process_info *info = &process->info;
	struct fm_buf b = { 0 };
	fm_label_worker(&b, info);
	fprintf(out, "Process %u: ", info->pid);
	print_str(out, (struct fm_str){ (char *)b.data, (uint32_t)b.len });
	if (info->python_version.len) {
		fputs("\nPython ", out);
		print_str(out, info->python_version);
		if (info->exe.len) {
			fputs(" (", out);
			print_str(out, info->exe);
			fputs(")", out);
		}
	}
	fprintf(out, "\n");
	if (process->exit_signal)
		fprintf(out, "Ended by signal %d: %s\n", process->exit_signal, strsignal(process->exit_signal));
	fm_buf_deinit(&b);
}

// On a terminal a frame is a line: of a path that is too long the end is kept, which says most.
static void print_frame(const struct fm_style *s, const struct fm_analysis *a, const struct fm_node *node)
{
	struct fm_buf name = { 0 };
	struct fm_str file = fm_label_file(a, node->function_id);
	char line[16] = "";
	fm_label_name(&name, a, node);
	struct fm_str called = { (const char *)name.data, FM_MIN((uint32_t)name.len, MAX_SHOWN) };
	if (node->line)
		snprintf(line, sizeof(line), ":%u", node->line);
	unsigned rest = file.len ? 3 + (unsigned)strlen(line) : 0, width = s->width - INDENT;
	unsigned path =
		FM_MIN(fm_style_cells(file), FM_MAX(LEAST_PATH, width - FM_MIN(width, fm_style_cells(called) + rest)));
	fprintf(s->out, "%*s", (int)INDENT, "");
	fm_style_fit(s, called, width - FM_MIN(width, file.len ? path + rest : 0), false);
	if (file.len) {
		fputs(" (", s->out);
		fm_style_fit_end(s, file, path);
		fprintf(s->out, "%s)", line);
	}
	putc('\n', s->out);
	fm_buf_deinit(&name);
}

static void print_locals(const struct fm_style *s, const struct fm_dump *d, uint32_t tid, uint32_t frame)
{
	struct fm_buf text = { 0 };
	const char *type;
	for (size_t at = 0; next_local(d, tid, frame, &at, &text, &type);) {
		fprintf(s->out, "%*s", (int)INDENT * 2, "");
		fm_style_fit(s, (struct fm_str){ (const char *)text.data, (uint32_t)text.len }, s->width - 2 * INDENT,
			     false);
		putc('\n', s->out);
	}
	fm_buf_deinit(&text);
}

static void print_thread(const struct fm_style *s, const struct fm_dump *d, uint32_t id)
{
	const struct fm_analysis *a = d->analysis;
	const struct fm_thread *t = &a->profile->threads.items[id];
	const struct fm_cell *cell = cell_of(a, id);
	struct nodes nodes = { 0 };
	fprintf(s->out, "\nThread %u (", t->tid);
	print_str(s->out, t->name);
	fprintf(s->out, "): %s%s\n", state_of(d, id, cell), has_gil(a, t->tid) ? ", has the GIL" : "");
	list_nodes(a, cell, &nodes);
	for (size_t i = 0; i < nodes.n; i++) {
		const struct shown *shown = &nodes.items[d->is_outermost_first ? nodes.n - 1 - i : i];
		print_frame(s, a, &a->view.nodes.items[shown->node]);
		print_locals(s, d, t->tid, shown->python);
	}
	fm_vec_deinit(&nodes);
}

void fm_dump_print_text(const struct fm_dump *d, FILE *out)
{
	const struct fm_analysis *a = d->analysis;
	struct fm_style style;
	fm_style_init(&style, out, &a->options);
	if (!isatty(fileno(out)))
		style.width = UINT16_MAX;
	for (uint32_t process = 0; process < a->profile->processes.n; process++) {
		if (process)
			fprintf(out, "\n\n");
		print_process(out, &a->profile->processes.items[process]);
		for (uint32_t id = 0; id < a->profile->threads.n; id++)
			if (a->profile->threads.items[id].process_id == process)
				print_thread(&style, d, id);
	}
}

// ---- for machines ----

// The value without its name.
static void write_locals(struct fm_json *j, const struct fm_dump *d, uint32_t tid, uint32_t frame)
{
	struct fm_buf text = { 0 };
	const char *type;
	fm_json_array(j, "locals");
	for (size_t at = 0; next_local(d, tid, frame, &at, &text, &type);) {
		const char *line = (const char *)text.data, *value = memchr(line, '=', text.len);
		uint32_t name_len = value ? (uint32_t)(value - line) : (uint32_t)text.len;
		fm_json_object(j, NULL);
		fm_json_str(j, "name", (struct fm_str){ line, name_len });
		fm_json_str(j, "type", fm_str_of(type));
		fm_json_str(j, "value",
			    value ? (struct fm_str){ value + 1, (uint32_t)text.len - name_len - 1 } : FM_STR_LIT(""));
		fm_json_end(j);
	}
	fm_json_end(j);
	fm_buf_deinit(&text);
}

static void write_frame(struct fm_json *j, const struct fm_dump *d, const struct shown *shown, uint32_t tid)
{
	const struct fm_analysis *a = d->analysis;
	const struct fm_node *node = &a->view.nodes.items[shown->node];
	const struct fm_function *f = fm_analysis_function(a, node->function_id);
	fm_json_newline(j);
	fm_json_object(j, NULL);
	fm_json_str(j, "name", f->name);
	fm_json_str(j, "module", f->module);
	fm_json_str(j, "file", f->file.len ? f->file : f->path);
	fm_json_u64(j, "line", node->line);
	fm_json_str(j, "kind", fm_label_kind(f));
	fm_json_bool(j, "inlined", node->is_inlined);
	if (d->locals && shown->python != UINT32_MAX)
		write_locals(j, d, tid, shown->python);
	fm_json_end(j);
}

static void write_thread(struct fm_json *j, const struct fm_dump *d, uint32_t id)
{
	const struct fm_analysis *a = d->analysis;
	const struct fm_thread *t = &a->profile->threads.items[id];
	const struct fm_cell *cell = cell_of(a, id);
	uint32_t pid = a->profile->processes.items[t->process_id].info.pid;
	struct nodes nodes = { 0 };
	fm_json_newline(j);
	fm_json_object(j, NULL);
	fm_json_u64(j, "pid", pid);
	fm_json_u64(j, "tid", t->tid);
	fm_json_str(j, "name", t->name);
	fm_json_str(j, "state", fm_str_of(state_of(d, id, cell)));
	fm_json_bool(j, "has_gil", has_gil(a, t->tid));
	fm_json_array(j, "frames"); // innermost first
	list_nodes(a, cell, &nodes);
	for (size_t i = 0; i < nodes.n; i++)
		write_frame(j, d, &nodes.items[i], t->tid);
	fm_json_end(j);
	fm_json_end(j);
	fm_vec_deinit(&nodes);
}

static void write_process(struct fm_json *j, const struct fm_process_info *info)
{
	struct fm_buf command = { 0 };
	fm_label_command(&command, info->command);
	fm_json_newline(j);
	fm_json_object(j, NULL);
	fm_json_u64(j, "pid", info->pid);
	fm_json_u64(j, "parent_pid", info->parent_pid);
	fm_json_str(j, "name", info->name);
	fm_json_str(j, "command", (struct fm_str){ (const char *)command.data, (uint32_t)command.len });
	fm_json_str(j, "python", info->python_version);
	fm_json_end(j);
	fm_buf_deinit(&command);
}

void fm_dump_print_json(const struct fm_dump *d)
{
	const struct fm_analysis *a = d->analysis;
	const struct fm_process_info *first = &a->profile->processes.items[0].info;
	struct fm_json j;
	fm_json_init(&j, stdout);
	fm_json_object(&j, NULL);
	fm_json_str(&j, "schema", FM_STR_LIT("fathom.dump/1"));
	fm_json_u64(&j, "pid", first->pid);
	fm_json_str(&j, "python", first->python_version);
	if (d->is_of_core)
		fm_json_i64(&j, "signal", a->profile->processes.items[0].exit_signal);
	fm_json_array(&j, "processes");
	for (uint32_t id = 0; id < a->profile->processes.n; id++)
		write_process(&j, &a->profile->processes.items[id].info);
	fm_json_end(&j);
	fm_json_array(&j, "threads");
	for (uint32_t id = 0; id < a->profile->threads.n; id++)
		write_thread(&j, d, id);
	fm_json_end(&j);
	fm_json_end(&j);
	fm_json_newline(&j);
	printf("\n");
}
