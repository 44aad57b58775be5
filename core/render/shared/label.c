// SPDX-License-Identifier: Apache-2.0
#include "render/shared/label.h"

#include <string.h>

#include "base/utf8.h"

struct fm_str fm_label_last_part(struct fm_str path)
{
	if (!path.p || !path.len)
		return path;
	const char *end = path.p + path.len, *slash = memrchr(path.p, '/', path.len);
	// Every package has an __init__.py: its folder says which.
	if (slash && slash > path.p &&
	    fm_str_eq((struct fm_str){ slash + 1, (uint32_t)(end - slash - 1) }, FM_STR_LIT("__init__.py")))
		slash = memrchr(path.p, '/', (size_t)(slash - path.p));
	if (!slash || slash + 1 == end)
		return path;
	return (struct fm_str){ slash + 1, (uint32_t)(end - slash - 1) };
}

struct fm_str fm_label_file(const struct fm_analysis *a, uint32_t function_id)
{
	const struct fm_function *f = fm_analysis_function(a, function_id);
	struct fm_str file = f->file.len ? f->file : f->path;
	return a->options.full_filenames ? file : fm_label_last_part(file);
}

struct fm_str fm_label_function(const struct fm_function *f)
{
	// A cell's file is called "NOTEBOOK.ipynb [cell 17]".
	const char *bracket = f->file.len ? memrchr(f->file.p, '[', f->file.len) : NULL;
	const char *end = bracket ? f->file.p + f->file.len - 1 : NULL;
	if (bracket && *end == ']' && end - bracket > 6 && !memcmp(bracket, "[cell ", 6) &&
	    fm_str_eq(f->name, FM_STR_LIT("<module>")))
		return (struct fm_str){ bracket + 1, (uint32_t)(end - bracket - 1) };
	return f->name;
}

void fm_label_name(struct fm_buf *b, const struct fm_analysis *a, const struct fm_node *node)
{
	const struct fm_function *f = fm_analysis_function(a, node->function_id);
	fm_buf_bytes(b, f->name.p, f->name.len);
	if (node->is_inlined)
		fm_buf_str(b, " (inlined)");
}

void fm_label_frame(struct fm_buf *b, const struct fm_analysis *a, const struct fm_node *node)
{
	struct fm_str file = fm_label_file(a, node->function_id);
	fm_label_name(b, a, node);
	if (!file.len)
		return;
	fm_buf_str(b, " (");
	fm_buf_bytes(b, file.p, file.len);
	if (node->line)
		fm_buf_printf(b, ":%u", node->line);
	fm_buf_u8(b, ')');
}

void fm_label_thread(struct fm_buf *b, const struct fm_analysis *a, uint32_t thread_id)
{
	if (thread_id >= a->profile->threads.n) {
		fm_buf_str(b, "thread (unknown)");
		return;
	}
	const struct fm_thread *t = &a->profile->threads.items[thread_id];
	fm_buf_printf(b, "thread (%u)", t->tid);
	if (t->name.len) {
		fm_buf_str(b, ": ");
		fm_buf_bytes(b, t->name.p, t->name.len);
	}
}

void fm_label_collapsed(struct fm_buf *line, struct fm_str label)
{
	if (line->len)
		fm_buf_u8(line, ';');
	size_t start = line->len;
	fm_utf8_clean(line, label);
	// A semicolon inside a name would make two frames of it.
	for (size_t i = start; i < line->len; i++)
		if (line->data[i] == ';')
			line->data[i] = ':';
}

static bool is_plain_word(struct fm_str s)
{
	for (uint32_t i = 0; i < s.len; i++) {
		char c = s.p[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      strchr("_-+=./:,@%^", c) || (uint8_t)c >= 0x80) ||
		    !c)
			return false;
	}
	return s.len > 0;
}

void fm_label_word(struct fm_buf *b, struct fm_str word)
{
	if (is_plain_word(word)) {
		fm_buf_bytes(b, word.p, word.len);
		return;
	}
	fm_buf_u8(b, '\'');
	for (uint32_t i = 0; i < word.len; i++) {
		if (word.p[i] == '\'')
			fm_buf_str(b, "'\\''");
		else
			fm_buf_u8(b, (uint8_t)word.p[i]);
	}
	fm_buf_u8(b, '\'');
}

void fm_label_command(struct fm_buf *b, struct fm_str joined)
{
	const char *p = joined.p, *end = joined.p + joined.len;
	if (joined.len && !memchr(p, 0, joined.len)) { // one word, or a line that was joined already
		fm_buf_bytes(b, p, joined.len);
		return;
	}
	for (bool is_first = true; p < end; is_first = false) {
		const char *nul = memchr(p, 0, (size_t)(end - p));
		if (!is_first)
			fm_buf_u8(b, ' ');
		fm_label_word(b, (struct fm_str){ p, (uint32_t)((nul ? nul : end) - p) });
		p = nul ? nul + 1 : end;
	}
}

void fm_label_worker(struct fm_buf *b, const struct fm_process_info *info)
{
	if (info->name.len) {
		fm_buf_bytes(b, info->name.p, info->name.len);
		fm_buf_str(b, ": ");
	}
	fm_label_command(b, info->command);
}

void fm_label_process(struct fm_buf *b, const struct fm_analysis *a, uint32_t process_id)
{
	const struct fm_process_info *info = &a->profile->processes.items[process_id].info;
	fm_buf_printf(b, "process %u:\"", info->pid);
	fm_label_worker(b, info);
	fm_buf_u8(b, '"');
}

uint32_t fm_label_process_of(const struct fm_analysis *a, uint32_t thread_id)
{
	uint32_t id = thread_id < a->profile->threads.n ? a->profile->threads.items[thread_id].process_id : FM_NO_ID;
	return id < a->profile->processes.n ? id : FM_NO_ID;
}

// The process with the pid of its parent that began before it, or FM_NO_ID.
static uint32_t parent_of(const struct fm_analysis *a, uint32_t process_id)
{
	const struct fm_process_info *info = &a->profile->processes.items[process_id].info;
	uint32_t best = FM_NO_ID;
	// Pids are reused: the parent is the latest process of that pid that came before. A lower
	// id also rules out cycles.
	for (uint32_t i = 0; i < process_id; i++)
		if (a->profile->processes.items[i].info.pid == info->parent_pid)
			best = i;
	return best;
}

unsigned fm_label_process_chain(const struct fm_analysis *a, uint32_t process_id,
				uint32_t ret[static FM_LABEL_MAX_PROCESSES])
{
	unsigned n = 0;
	for (; process_id != FM_NO_ID && n < FM_LABEL_MAX_PROCESSES; process_id = parent_of(a, process_id))
		ret[n++] = process_id;
	return n;
}

struct fm_str fm_label_kind(const struct fm_function *f)
{
	if (f->kind == FM_FRAME_PYTHON)
		return FM_STR_LIT("python");
	if (f->kind != FM_FRAME_NATIVE)
		return FM_STR_LIT("error");
	bool is_jit = f->path.len >= 4 && !memcmp(f->path.p, "[jit", 4);
	return is_jit ? FM_STR_LIT("jit") : FM_STR_LIT("native");
}
