// SPDX-License-Identifier: Apache-2.0
// Collapsed stacks: "outermost;...;innermost COUNT", a line each.
//
// Bound: one line and what is distinct. Most lines share their outer frames with the line before,
// and are looked at from where they differ.
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"
#include "import/frame_text.h"
#include "import/sink.h"

#define NO_FRAMES "[no frames]" // fathom export, of an empty stack
#define MAX_COUNT ((uint64_t)1 << 53)

struct step {
	uint32_t end; // of this frame in the line before
	uint32_t stack_id, frame_id;
};

struct collapsed {
	struct fm_import *in;
	enum fm_import_unit unit;
	struct fm_intern texts;  // of frames
	FM_VEC(uint32_t) frames; // by these
	struct fm_buf last;
	FM_VEC(struct step) steps;
	uint32_t process_id, thread_id;
	uint32_t n_heads; // frames of the line that name its process and thread
};

// Cuts the count off the line. False: there is none.
static bool take_count(struct fm_str *line, uint64_t *ret_whole, uint64_t *ret_billionths)
{
	const char *space = line->len ? memrchr(line->p, ' ', line->len) : NULL;
	if (!space || space == line->p || space + 1 == line->p + line->len)
		return false;
	uint64_t whole = 0, billionths = 0, digit = 1000000000;
	bool is_fraction = false;
	for (const char *p = space + 1; p < line->p + line->len; p++) {
		if (*p == '.' && !is_fraction && p > space + 1)
			is_fraction = true;
		else if (*p < '0' || *p > '9' || whole > MAX_COUNT)
			return false;
		else if (is_fraction)
			billionths += (digit /= 10) * (uint64_t)(*p - '0');
		else
			whole = whole * 10 + (uint64_t)(*p - '0');
	}
	line->len = (uint32_t)(space - line->p);
	*ret_whole = whole;
	*ret_billionths = billionths;
	return whole <= MAX_COUNT;
}

static bool is_passed_over(struct fm_str line)
{
	return !line.len || fm_str_starts_with(line, "# ");
}

// JSON on one line may end like a stack.
static bool is_json(const char *p, size_t n)
{
	return n >= 2 && ((p[0] == '{' && strchr("\" \t\r\n}", p[1])) || (p[0] == '[' && strchr("\" \t\r\n{[", p[1])));
}

bool fm_collapsed_recognise(const uint8_t *head, size_t n)
{
	const char *p = (const char *)head, *end = n ? memrchr(p, '\n', n) : NULL;
	end = end ? end + 1 : p + n;
	unsigned n_lines = 0;
	if (is_json(p, n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (head[i] < ' ' && head[i] != '\n' && head[i] != '\r' && head[i] != '\t')
			return false;
	for (const char *next; p < end; p = next) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		uint64_t whole, billionths;
		next = newline ? newline + 1 : end;
		struct fm_str line = { p, (uint32_t)((newline ? newline : end) - p) };
		line.len -= line.len && line.p[line.len - 1] == '\r';
		if (is_passed_over(line))
			continue;
		if (!take_count(&line, &whole, &billionths))
			return false;
		n_lines++;
	}
	return n_lines > 0;
}

// Lines that do not name a process have one without a number.
static uint32_t process_of(struct collapsed *c)
{
	if (c->process_id == FM_NO_ID)
		c->process_id = fm_import_process(c->in, 0);
	return c->process_id;
}

static bool is_number(struct fm_str s)
{
	uint32_t i = 0;
	while (i < s.len && s.p[i] >= '0' && s.p[i] <= '9')
		i++;
	return i && i == s.len;
}

static uint32_t number_of(struct fm_str s)
{
	uint32_t value = 0;
	for (uint32_t i = 0; i < s.len; i++)
		value = value * 10 + (uint32_t)(s.p[i] - '0');
	return value;
}

// "P12;T0:34": the process, the interpreter and the thread, as austin writes them.
static bool take_austin_head(struct collapsed *c, struct fm_str line, struct fm_str text)
{
	struct fm_str rest = { text.p + 1, text.len ? text.len - 1 : 0 };
	const char *behind = text.p + text.len, *end = line.p + line.len;
	if (!c->n_heads && is_number(rest) && text.p[0] == 'P' && end - behind > 2 && !memcmp(behind, ";T", 2)) {
		c->process_id = fm_import_process(c->in, number_of(rest));
		c->thread_id = FM_NO_ID;
		return true;
	}
	if (c->n_heads != 1 || line.p[0] != 'P' || !rest.len || text.p[0] != 'T')
		return false;
	const char *colon = memchr(rest.p, ':', rest.len);
	if (colon)
		rest = (struct fm_str){ colon + 1, (uint32_t)(rest.p + rest.len - colon - 1) };
	if (is_number(rest))
		c->thread_id = fm_import_thread(c->in, process_of(c), number_of(rest), (struct fm_str){ "", 0 });
	return is_number(rest);
}

// The frames before the first one of code may name the process and the thread.
static bool take_head(struct collapsed *c, struct fm_str line, struct fm_str text)
{
	if (take_austin_head(c, line, text))
		return true;
	bool is_process = fm_process_of_text(c->in, text, &c->process_id);
	if (is_process)
		c->thread_id = FM_NO_ID;
	return is_process ||
	       (fm_str_starts_with(text, "thread (") && fm_thread_of_text(c->in, process_of(c), text, &c->thread_id));
}

static uint32_t frame_of(struct collapsed *c, struct fm_str text)
{
	bool is_new;
	uint32_t id = fm_intern_id(&c->texts, text, &is_new);
	if (is_new)
		fm_vec_push(&c->frames, fm_frame_of_text(c->in, text));
	return c->frames.items[id];
}

// How many frames the line has in common with the one before; *ret is where the others begin.
static size_t shared_steps(const struct collapsed *c, struct fm_str line, uint32_t *ret)
{
	size_t n = 0, limit = FM_MIN(c->last.len, (size_t)line.len), same = 0;
	while (same < limit && c->last.data[same] == (uint8_t)line.p[same])
		same++;
	while (n < c->steps.n && c->steps.items[n].end <= same &&
	       (c->steps.items[n].end == line.len || line.p[c->steps.items[n].end] == ';'))
		n++;
	*ret = n ? c->steps.items[n - 1].end + 1 : 0;
	return n;
}

// The stack of the line's frames; its thread is c->thread_id then.
static struct step walk(struct collapsed *c, struct fm_str line)
{
	uint32_t at, end;
	c->steps.n = shared_steps(c, line, &at);
	if (c->steps.n < c->n_heads) { // its process or thread may be another
		c->steps.n = at = 0;
		c->n_heads = 0;
		c->process_id = FM_NO_ID;
		c->thread_id = FM_NO_ID;
	}
	struct step last = c->steps.n ? c->steps.items[c->steps.n - 1] : (struct step){ 0 };
	for (; at < line.len; at = end + 1) {
		const char *semicolon = memchr(line.p + at, ';', line.len - at);
		end = semicolon ? (uint32_t)(semicolon - line.p) : line.len;
		struct fm_str text = { line.p + at, end - at };
		last.end = end;
		if (c->n_heads == c->steps.n && take_head(c, line, text)) {
			c->n_heads++;
		} else if (text.len && !(c->n_heads == c->steps.n && fm_str_eq(text, FM_STR_LIT(NO_FRAMES)))) {
			last.frame_id = frame_of(c, text);
			last.stack_id = fm_writer_stack(c->in->w, last.stack_id, last.frame_id);
		}
		fm_vec_push(&c->steps, last);
	}
	if (c->thread_id == FM_NO_ID)
		c->thread_id = fm_import_thread(c->in, process_of(c), 0, (struct fm_str){ "", 0 });
	c->last.len = 0;
	fm_buf_bytes(&c->last, line.p, line.len);
	return last;
}

static const uint64_t unit_ns[] = {
	[FM_UNIT_SAMPLES] = FM_IMPORT_SAMPLE_NS,
	[FM_UNIT_NS] = 1,
	[FM_UNIT_US] = 1000,
	[FM_UNIT_MS] = 1000000,
};

static void add(struct collapsed *c, struct step at, uint64_t whole, uint64_t billionths)
{
	enum fm_import_unit unit = c->unit;
	uint32_t process_id = c->in->threads.n ? c->in->threads.items[c->thread_id].process_id : 0;
	if (unit == FM_UNIT_BYTES) {
		fm_import_add_site(c->in, &(struct fm_import_site){ .process_id = process_id,
								    .stack_id = at.stack_id,
								    .domain = FM_ALLOC_MALLOC,
								    .alloc_bytes = whole });
		return;
	}
	uint64_t weight_ns = whole <= UINT64_MAX / 2 / unit_ns[unit]
				     ? whole * unit_ns[unit] + billionths * unit_ns[unit] / 1000000000
				     : UINT64_MAX; // which the sink says is none
	uint8_t class = at.stack_id ? fm_import_class_of(c->in, at.frame_id) : FM_CLASS_NATIVE;
	fm_import_sample(c->in, c->thread_id, at.stack_id, class, unit == FM_UNIT_SAMPLES ? FM_MAX(whole, 1u) : 1,
			 weight_ns);
}

// austin says in a comment what it counts; what the command line says is believed before it.
static void take_mode(struct collapsed *c, struct fm_str line)
{
	if (line.len < 2 || line.p[0] != '#' || c->unit != FM_UNIT_SAMPLES)
		return;
	bool is_wall = fm_str_eq(line, FM_STR_LIT("# mode: wall"));
	if (is_wall || fm_str_eq(line, FM_STR_LIT("# mode: cpu")))
		c->unit = FM_UNIT_US;
	if (is_wall)
		fm_import_missing(c->in, "whether threads ran or waited", "the file counts elapsed time only");
}

enum fm_err fm_collapsed_import(struct fm_import *in)
{
	struct collapsed c = { .in = in, .unit = in->options->unit, .process_id = FM_NO_ID, .thread_id = FM_NO_ID };
	struct fm_str line;
	enum fm_err err = FM_OK;
	fm_import_missing(in, "when samples were taken", "collapsed stacks are sums over the run");
	while (!err && fm_input_line(in->input, &line)) {
		uint64_t whole, billionths;
		take_mode(&c, line);
		if (is_passed_over(line))
			continue;
		if (!take_count(&line, &whole, &billionths))
			err = fm_import_bad_line(in, "a stack should end in a count, as in 'main;work 12'");
		else if (whole || billionths)
			add(&c, walk(&c, line), whole, billionths);
	}
	if (!err)
		err = fm_import_end(in);
	if (c.unit == FM_UNIT_SAMPLES)
		fm_import_missing(in, "how much time a sample stands for",
				  "collapsed stacks count samples; each is shown as 1 ms");
	fm_intern_deinit(&c.texts);
	fm_vec_deinit(&c.frames);
	fm_buf_deinit(&c.last);
	fm_vec_deinit(&c.steps);
	return err;
}
