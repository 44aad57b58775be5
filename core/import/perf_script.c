// SPDX-License-Identifier: Apache-2.0
// The text of perf script: a line for each sample, then a line for each frame, innermost first, and
// an empty line. Without call chains a sample is one line with its address in it.
//
//	prog  1830/1855 [001]  1771.620246:    1001001 cpu-clock:
//		            1244 leaf_a+0x14 (/usr/bin/prog)
//
// Bound: one stack, and what is distinct. The text is read twice: the first time tells which events
// there are (perf_event.h).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"
#include "import/perf_event.h"
#include "import/perf_frames.h"
#include "import/sink.h"

// More events than any command line names.
#define MAX_EVENTS 1024u
#define MAX_FRAMES 32768u
#define NS 1000000000u
#define MAX_HEX 16u // digits of an address

struct head {
	struct fm_str comm, event, rest; // rest: the only frame, or what a trace point tells
	uint32_t pid, tid, cpu;          // pid 0 = not written
	uint64_t time_ns, period;
};

struct script {
	struct fm_import *in;
	FM_VEC(struct fm_perf_event *) events;
	struct fm_intern event_names;
	struct fm_intern frame_texts; // a line, and those of what is inlined there
	FM_VEC(uint32_t) frames;      // by these

	struct head head; // of the sample at hand; its texts are copies
	struct fm_buf comm;
	struct fm_perf_event *event;
	bool is_open;
	FM_VEC(uint32_t) stack; // innermost first
	struct fm_buf inlined;  // lines of functions inlined into the one that comes next
	uint64_t first_ns;
	uint64_t n_bad_lines;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static struct fm_str trim(struct fm_str s)
{
	while (s.len && is_space(s.p[0]))
		s = (struct fm_str){ s.p + 1, s.len - 1 };
	while (s.len && is_space(s.p[s.len - 1]))
		s.len--;
	return s;
}

static struct fm_str take_word(struct fm_str *s)
{
	*s = trim(*s);
	struct fm_str word = { s->p, 0 };
	while (word.len < s->len && !is_space(s->p[word.len]))
		word.len++;
	*s = trim((struct fm_str){ s->p + word.len, s->len - word.len });
	return word;
}

static struct fm_str take_last_word(struct fm_str *s)
{
	*s = trim(*s);
	uint32_t at = s->len;
	while (at && !is_space(s->p[at - 1]))
		at--;
	struct fm_str word = { s->p + at, s->len - at };
	*s = trim((struct fm_str){ s->p, at });
	return word;
}

static bool number_of(struct fm_str s, uint64_t *ret)
{
	uint64_t v = 0;
	for (uint32_t i = 0; i < s.len; i++) {
		if (s.p[i] < '0' || s.p[i] > '9' || v > UINT64_MAX / 10 - 1)
			return false;
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	}
	*ret = v;
	return s.len > 0;
}

// "1771.620246:" of seconds, as nanoseconds.
static bool time_of(struct fm_str word, uint64_t *ret)
{
	const char *point = word.len ? memchr(word.p, '.', word.len) : NULL;
	if (!point || word.p[word.len - 1] != ':')
		return false;
	struct fm_str whole = { word.p, (uint32_t)(point - word.p) };
	struct fm_str part = { point + 1, (uint32_t)(word.p + word.len - 1 - (point + 1)) };
	uint64_t seconds, fraction;
	if (!number_of(whole, &seconds) || !number_of(part, &fraction) || part.len > 9 || seconds > UINT32_MAX)
		return false;
	for (uint32_t i = part.len; i < 9; i++)
		fraction *= 10;
	*ret = seconds * NS + fraction;
	return true;
}

// "1855", "1830/1855", and before them the name, which may have blanks in it.
static bool take_who(struct fm_str before, struct head *h)
{
	uint64_t pid = 0, tid, cpu = 0;
	struct fm_str word = take_last_word(&before);
	if (word.len > 2 && word.p[0] == '[' && word.p[word.len - 1] == ']') {
		if (!number_of((struct fm_str){ word.p + 1, word.len - 2 }, &cpu))
			return false;
		word = take_last_word(&before);
	}
	const char *slash = word.len ? memchr(word.p, '/', word.len) : NULL;
	if (slash && !number_of((struct fm_str){ word.p, (uint32_t)(slash - word.p) }, &pid))
		return false;
	if (slash)
		word = (struct fm_str){ slash + 1, (uint32_t)(word.p + word.len - slash - 1) };
	if (!number_of(word, &tid))
		return false;
	h->comm = before;
	h->pid = (uint32_t)pid;
	h->tid = (uint32_t)tid;
	h->cpu = (uint32_t)cpu;
	return true;
}

static bool head_of(struct fm_str line, struct head *ret)
{
	line = trim(line); // once, and not again before each word
	struct fm_str left = line;
	*ret = (struct head){ 0 };
	while (left.len) {
		struct fm_str word = take_word(&left);
		if (!time_of(word, &ret->time_ns) ||
		    !take_who((struct fm_str){ line.p, (uint32_t)(word.p - line.p) }, ret))
			continue;
		struct fm_str after = left;
		if (number_of(take_word(&after), &ret->period))
			left = after;
		ret->event = take_word(&left);
		if (ret->event.len < 2 || ret->event.p[ret->event.len - 1] != ':')
			return false;
		ret->event.len--;
		ret->rest = left;
		return true;
	}
	return false;
}

static bool is_hex(struct fm_str s)
{
	for (uint32_t i = 0; i < s.len && s.len <= MAX_HEX; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return s.len > 0 && s.len <= MAX_HEX;
}

// Where the bracket of the library opens: right behind the offset in the function; where there is
// none, the last one behind a blank, as names of C++ have some.
static const char *find_library(struct fm_str s)
{
	const char *open = NULL, *plus = NULL; // the last + before: looking for it anew is dear in a long line
	for (uint32_t i = 0; i + 1 < s.len; i++) {
		plus = s.p[i] == '+' ? s.p + i : plus;
		if (!i || s.p[i] != '(' || !is_space(s.p[i - 1]))
			continue;
		open = s.p + i;
		uint32_t n = plus ? trim((struct fm_str){ plus, (uint32_t)(open - plus) }).len : 0;
		if (n > 3 && plus[1] == '0' && plus[2] == 'x' && is_hex((struct fm_str){ plus + 3, n - 3 }))
			break;
	}
	return open ? open : s.p[0] == '(' ? s.p : NULL;
}

// "1244 leaf_a+0x14 (/usr/bin/prog)". *ret_symbol "" = it has no name.
static bool frame_of(struct fm_str line, struct fm_str *ret_symbol, struct fm_str *ret_library)
{
	struct fm_str left = line;
	if (!is_hex(take_word(&left)) || left.len < 2 || left.p[left.len - 1] != ')')
		return false;
	const char *open = find_library(left);
	if (!open)
		return false;
	*ret_library = (struct fm_str){ open + 1, (uint32_t)(left.p + left.len - 1 - (open + 1)) };
	struct fm_str symbol = trim((struct fm_str){ left.p, (uint32_t)(open - left.p) });
	const char *plus = symbol.len ? memrchr(symbol.p, '+', symbol.len) : NULL;
	if (plus && symbol.p + symbol.len - plus > 3 && plus[1] == '0' && plus[2] == 'x')
		symbol.len = (uint32_t)(plus - symbol.p);
	*ret_symbol = symbol;
	return true;
}

bool fm_perf_script_recognise(const uint8_t *head, size_t n)
{
	const char *p = (const char *)head, *end = p + n;
	struct head h = { 0 };
	bool has_head = false;
	for (const char *next; p < end; p = next) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		struct fm_str line = { p, (uint32_t)((newline ? newline : end) - p) }, symbol, library;
		next = newline ? newline + 1 : end;
		if (!line.len || line.p[0] == '#')
			continue;
		if (has_head)
			return h.rest.len || frame_of(line, &symbol, &library);
		has_head = head_of(line, &h);
		if (!has_head || (h.rest.len && !frame_of(h.rest, &symbol, &library)))
			return false;
	}
	return has_head && h.rest.len;
}

// ---- Frames ----

static bool is_unknown(struct fm_str library)
{
	return fm_str_eq(library, FM_STR_LIT("[unknown]"));
}

static bool is_inlined(struct fm_str library)
{
	return fm_str_eq(library, FM_STR_LIT("inlined"));
}

// A function with those that were inlined into it, which perf writes before it.
static uint32_t make_frame(struct script *s, struct fm_str symbol, struct fm_str library)
{
	struct fm_symbol_link links[FM_SYMBOL_MAX_LINKS];
	uint32_t n = 1;
	uint32_t python;
	if (fm_perf_python_frame(s->in, symbol, &python))
		return python;
	links[0] = (struct fm_symbol_link){ .name = symbol, .file = FM_STR_LIT("") };
	for (size_t end = s->inlined.len; end && n < FM_SYMBOL_MAX_LINKS;
	     n++) { // the last one written is the outermost
		size_t start = end - 1;
		while (start && s->inlined.data[start - 1] != '\n')
			start--;
		links[n] = (struct fm_symbol_link){
			.name = { (const char *)s->inlined.data + start, (uint32_t)(end - 1 - start) },
			.file = FM_STR_LIT(""),
			.is_inlined = true,
		};
		end = start;
	}
	return fm_import_native_frames(s->in, is_unknown(library) ? FM_STR_LIT("") : library, links, n);
}

static void take_frame(struct script *s, struct fm_str symbol, struct fm_str library)
{
	if (is_inlined(library)) {
		fm_buf_bytes(&s->inlined, symbol.p, symbol.len);
		fm_buf_u8(&s->inlined, '\n');
		return;
	}
	bool is_new;
	struct fm_buf key = { 0 };
	fm_buf_bytes(&key, symbol.p, symbol.len);
	fm_buf_u8(&key, '\n');
	fm_buf_bytes(&key, library.p, library.len);
	fm_buf_u8(&key, '\n');
	fm_buf_bytes(&key, s->inlined.data, s->inlined.len);
	uint32_t id = fm_intern_id(&s->frame_texts, (struct fm_str){ (char *)key.data, (uint32_t)key.len }, &is_new);
	fm_buf_deinit(&key);
	if (is_new)
		fm_vec_push(&s->frames, make_frame(s, symbol, library));
	if (s->stack.n < MAX_FRAMES)
		fm_vec_push(&s->stack, s->frames.items[id]);
	s->inlined.len = 0;
}

// ---- Samples ----

static struct fm_perf_event *event_of(struct script *s, struct fm_str name)
{
	bool is_new;
	if (s->events.n == MAX_EVENTS && fm_intern_find(&s->event_names, name) == UINT32_MAX)
		return NULL;
	uint32_t id = fm_intern_id(&s->event_names, name, &is_new);
	if (is_new) {
		struct fm_perf_event *e = fm_alloc(sizeof(*e));
		e->name = fm_intern_get(&s->event_names, id);
		e->kind = fm_perf_kind_of(e->name);
		fm_vec_push(&s->events, e);
	}
	return s->events.items[id];
}

static void end_sample(struct script *s)
{
	const struct head *h = &s->head;
	bool is_shown = s->is_open && s->event && s->event->ns_per_period > 0;
	s->is_open = false;
	if (!is_shown)
		return;
	uint32_t stack = FM_ROOT_STACK;
	for (size_t i = s->stack.n; i-- > 0;)
		stack = fm_writer_stack(s->in->w, stack, s->stack.items[i]);
	uint32_t process = fm_import_process(s->in, h->pid);
	uint32_t thread = fm_import_thread(s->in, process, h->tid, h->comm);
	if (thread >= s->in->threads.n)
		return;
	uint64_t time_ns = (h->time_ns > s->first_ns ? h->time_ns - s->first_ns : 0) + FM_IMPORT_START_NS;
	fm_import_sample_at(s->in, &(struct fm_sample){ .thread_id = thread,
							.stack_id = stack,
							.time_ns = FM_MAX(time_ns, s->in->threads.items[thread].now_ns),
							.weight_ns = fm_perf_event_weight(s->event, h->period),
							.cpu = (uint16_t)h->cpu,
							.class = fm_perf_class_of(s->in, s->stack.items, s->stack.n) });
}

static void begin_sample(struct script *s, const struct head *h)
{
	struct fm_str symbol, library;
	end_sample(s);
	if (fm_str_starts_with(h->event, "PERF_RECORD_"))
		return; // perf script --show-mmap-events and the like
	s->head = *h;
	s->comm.len = 0;
	fm_buf_bytes(&s->comm, h->comm.p, h->comm.len); // the line goes before the stack ends
	s->head.comm = (struct fm_str){ (const char *)s->comm.data, (uint32_t)s->comm.len };
	s->event = event_of(s, h->event);
	s->stack.n = s->inlined.len = 0;
	s->is_open = true;
	if (frame_of(h->rest, &symbol, &library))
		take_frame(s, symbol, library);
}

static void take_line(struct script *s, struct fm_str line)
{
	struct head h;
	struct fm_str symbol, library;
	if (!trim(line).len)
		end_sample(s);
	else if (s->is_open && frame_of(line, &symbol, &library))
		take_frame(s, symbol, library);
	else if (head_of(line, &h))
		begin_sample(s, &h);
	else if (line.p[0] != '#' && !(s->is_open && is_space(line.p[0]))) // below a frame stands its source line
		s->n_bad_lines++;
}

static void count_lines(struct script *s)
{
	struct fm_str line, symbol, library;
	struct head h;
	while (fm_input_line(s->in->input, &line)) {
		if (frame_of(line, &symbol, &library) || !head_of(line, &h) ||
		    fm_str_starts_with(h.event, "PERF_RECORD_"))
			continue;
		struct fm_perf_event *e = event_of(s, h.event);
		if (e)
			fm_perf_event_count(e, h.tid, h.time_ns, h.period);
		s->first_ns = s->first_ns ? FM_MIN(s->first_ns, h.time_ns) : h.time_ns;
	}
}

enum fm_err fm_perf_script_import(struct fm_import *in)
{
	struct script s = { .in = in };
	struct fm_str line;
	count_lines(&s);
	fm_perf_events_weigh(in, s.events.items, s.events.n);
	fm_input_rewind(in->input);
	while (fm_input_line(in->input, &line) && !fm_writer_error(in->w))
		take_line(&s, line);
	end_sample(&s);
	if (s.n_bad_lines) {
		char what[64];
		snprintf(what, sizeof(what), "%llu lines of the text", (unsigned long long)s.n_bad_lines);
		fm_import_missing(in, what, "they are neither a sample's head nor a frame as perf script writes them");
	}
	for (size_t i = 0; i < s.events.n; i++) {
		fm_perf_event_deinit(s.events.items[i]);
		free(s.events.items[i]);
	}
	fm_vec_deinit(&s.events);
	fm_intern_deinit(&s.event_names);
	fm_intern_deinit(&s.frame_texts);
	fm_vec_deinit(&s.frames);
	fm_buf_deinit(&s.comm);
	fm_vec_deinit(&s.stack);
	fm_buf_deinit(&s.inlined);
	return fm_import_end(in);
}
