// SPDX-License-Identifier: Apache-2.0
#include "import/sink.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hex.h"

// Beyond it are no times: 146 years.
#define MAX_TIME_NS ((uint64_t)1 << 62)
#define NAME_BYTES_PER_LOOK ((uint64_t)16 << 20)
#define LINES_DIRECT 4 // docs/format.md, codes: the value of a frame is its line

static enum fm_err bad(struct fm_import *in, const char *where, uint64_t at, const char *fmt, va_list args)
{
	char what[256];
	const char *early = in->input ? fm_input_error(in->input) : NULL;
	vsnprintf(what, sizeof(what), fmt, args);
	return fm_diag_set(in->diag, FM_E_CORRUPT, "%s: %s %" PRIu64 ": %s", in->path, where, at, early ? early : what);
}

enum fm_err fm_import_bad_line(struct fm_import *in, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	enum fm_err err = bad(in, "line", fm_input_line_number(in->input), fmt, args);
	va_end(args);
	return err;
}

enum fm_err fm_import_bad_byte(struct fm_import *in, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	enum fm_err err = bad(in, "byte", fm_input_offset(in->input), fmt, args);
	va_end(args);
	return err;
}

enum fm_err fm_import_end(struct fm_import *in)
{
	return fm_input_error(in->input) ? fm_import_bad_byte(in, "%s", "it ends early") : FM_OK;
}

struct fm_str fm_import_name(struct fm_import *in, struct fm_str name)
{
	if (name.len <= FM_IMPORT_MAX_NAME)
		return name;
	fm_import_missing(in, "the ends of some names", "they are longer than 4,096 bytes");
	name.len = FM_IMPORT_MAX_NAME;
	while (name.len && ((uint8_t)name.p[name.len] & 0xc0) == 0x80) // not inside of a character
		name.len--;
	return name;
}

// What is new is kept: from time to time somebody has to look how much that is.
static void count_name(struct fm_import *in, uint64_t n)
{
	in->name_bytes += n;
	if (in->name_bytes < NAME_BYTES_PER_LOOK)
		return;
	in->name_bytes = 0;
	fm_input_check_memory(in->input);
}

// The same again says nothing new, and would be written again.
static bool is_said(struct fm_import *in, char what, uint32_t id, struct fm_str text)
{
	struct fm_buf key = { 0 };
	bool is_new;
	fm_buf_u8(&key, (uint8_t)what);
	fm_buf_u32(&key, id);
	fm_buf_bytes(&key, text.p, text.len);
	fm_intern_id(&in->said, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new);
	count_name(in, is_new ? key.len : 0);
	fm_buf_deinit(&key);
	return !is_new;
}

void fm_import_missing(struct fm_import *in, const char *what, const char *why)
{
	struct fm_buf both = { 0 };
	fm_buf_printf(&both, "%s\n%s", what, why);
	if (!is_said(in, 'c', 0, (struct fm_str){ (const char *)both.data, (uint32_t)both.len }))
		fm_writer_coverage(in->w, fm_str_of(what), fm_str_of(why));
	fm_buf_deinit(&both);
}

void fm_import_number(struct fm_import *in, const char *key, uint64_t value)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRIu64, value);
	fm_writer_meta(in->w, key, fm_str_of(text));
}

void fm_import_started(struct fm_import *in, uint64_t unix_ns)
{
	char text[64];
	struct tm tm;
	time_t seconds = (time_t)(unix_ns / 1000000000);
	if (seconds && gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		fm_writer_meta(in->w, "started", fm_str_of(text));
}

static struct fm_process_info process_info(uint32_t pid, struct fm_str command)
{
	const struct fm_str none = FM_STR_LIT("");
	return (struct fm_process_info){
		.pid = pid,
		.start_ns = FM_IMPORT_START_NS,
		.exe = none,
		.command = command,
		.python_version = none,
		.engine = FM_STR_LIT("import"),
		.name = none,
	};
}

uint32_t fm_import_process(struct fm_import *in, uint32_t pid)
{
	bool is_new;
	uint64_t *id = fm_map_at(&in->processes, pid, &is_new);
	if (is_new) {
		struct fm_process_info info = process_info(pid, FM_STR_LIT(""));
		*id = fm_writer_process(in->w, &info);
		fm_vec_push(&in->pids, pid);
	}
	return (uint32_t)*id;
}

void fm_import_process_command(struct fm_import *in, uint32_t process_id, struct fm_str command)
{
	command = fm_import_name(in, command);
	if (process_id >= in->pids.n || is_said(in, 'p', process_id, command))
		return;
	struct fm_process_info info = process_info(in->pids.items[process_id], command);
	fm_writer_process_update(in->w, process_id, &info);
}

uint32_t fm_import_thread(struct fm_import *in, uint32_t process_id, uint32_t tid, struct fm_str name)
{
	bool is_new;
	uint64_t *id = fm_map_at(&in->thread_ids, (uint64_t)process_id << 32 | tid, &is_new);
	if (is_new) {
		*id = fm_writer_thread(in->w, process_id, tid, FM_IMPORT_START_NS);
		fm_vec_grow_to(&in->threads, (size_t)*id + 1);
		in->threads.items[*id] =
			(struct fm_import_thread){ .process_id = process_id, .now_ns = FM_IMPORT_START_NS };
	}
	name = fm_import_name(in, name);
	if (name.len && *id < in->threads.n && !is_said(in, 't', (uint32_t)*id, name))
		fm_writer_thread_name(in->w, (uint32_t)*id, name);
	return (uint32_t)*id;
}

// ---- Frames ----

bool fm_import_is_python_file(struct fm_str file)
{
	static const char *const ends[] = { ".py", ".pyx", ".pyw", ".ipynb" };
	static const char *const begins[] = { "<string>",  "<stdin>",           "<frozen ",           "<ipython-input-",
					      "<doctest ", "<attrs generated ", "<__array_function__" };
	for (size_t i = 0; i < FM_ARRAY_LEN(ends); i++) {
		size_t n = strlen(ends[i]);
		if (file.len > n && !memcmp(file.p + file.len - n, ends[i], n))
			return true;
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(begins); i++)
		if (fm_str_starts_with(file, begins[i]))
			return true;
	return false;
}

uint32_t fm_import_hex(struct fm_str hex, uint8_t ret[static FM_IMPORT_MAX_BUILD_ID])
{
	uint32_t n = hex.len / 2;
	if (hex.len % 2 || n > FM_IMPORT_MAX_BUILD_ID)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		unsigned high = fm_hex_digit(hex.p[2 * i]), low = fm_hex_digit(hex.p[2 * i + 1]);
		if (high > 15 || low > 15)
			return 0;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return n;
}

uint32_t fm_import_python_frame(struct fm_import *in, struct fm_str function, struct fm_str file, uint32_t first_line,
				uint32_t line)
{
	function = fm_import_name(in, function);
	file = fm_import_name(in, file);
	uint32_t code = fm_writer_code(
		in->w, &(struct fm_code_info){ function, function, file, first_line, LINES_DIRECT, { "", 0 } });
	return fm_writer_frame(in->w, FM_FRAME_PYTHON, code, line);
}

static bool is_kernel(struct fm_str library)
{
	return fm_str_starts_with(library, "[kernel") || fm_str_starts_with(library, "[guest.kernel");
}

static uint32_t image_of(struct fm_import *in, struct fm_str library)
{
	if (is_kernel(library))
		return fm_writer_image(in->w, FM_STR_LIT("[kernel]"), FM_STR_LIT(""), FM_IMAGE_IS_KERNEL_CODE);
	return fm_writer_image(in->w, library, FM_STR_LIT(""), FM_IMAGE_IS_NAMED);
}

uint32_t fm_import_native_frames(struct fm_import *in, struct fm_str library, const struct fm_symbol_link *links,
				 uint32_t n)
{
	struct fm_symbol_link cut[FM_SYMBOL_MAX_LINKS];
	struct fm_buf key = { 0 };
	bool is_new;
	library = fm_import_name(in, library);
	n = FM_MIN(n, (uint32_t)FM_SYMBOL_MAX_LINKS);
	fm_buf_bytes(&key, library.p, library.len);
	for (uint32_t i = 0; i < n; i++) {
		cut[i] = links[i];
		cut[i].name = fm_import_name(in, links[i].name);
		cut[i].file = fm_import_name(in, links[i].file);
		fm_buf_u8(&key, 0);
		fm_buf_bytes(&key, cut[i].name.p, cut[i].name.len);
		fm_buf_u8(&key, 0);
		fm_buf_bytes(&key, cut[i].file.p, cut[i].file.len);
		fm_buf_u32(&key, links[i].first_line);
		fm_buf_u32(&key, links[i].line);
		fm_buf_u8(&key, links[i].is_inlined);
	}
	uint32_t id = fm_intern_id(&in->names, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new);
	count_name(in, is_new ? key.len : 0);
	fm_buf_deinit(&key);
	if (is_new) {
		uint32_t image = image_of(in, library);
		fm_writer_symbol(in->w, image, id + 1, cut, n);
		fm_vec_push(&in->named_frames, fm_writer_frame(in->w, FM_FRAME_NATIVE, image, id + 1));
	}
	return in->named_frames.items[id];
}

uint32_t fm_import_native_frame(struct fm_import *in, struct fm_str library, struct fm_str symbol, struct fm_str file,
				uint32_t line)
{
	return fm_import_native_frames(in, library, &(struct fm_symbol_link){ symbol, file, 0, line, false }, 1);
}

uint32_t fm_import_frame(struct fm_import *in, struct fm_str function, struct fm_str file, uint32_t line)
{
	if (fm_import_is_python_file(file))
		return fm_import_python_frame(in, function, file, 0, line);
	return fm_import_native_frame(in, FM_STR_LIT(""), function, file, line);
}

// ---- Samples and allocations ----

static bool is_cpu(uint8_t class)
{
	return class != FM_CLASS_WAIT && class != FM_CLASS_GIL_WAIT;
}

void fm_import_sample_at(struct fm_import *in, const struct fm_sample *sample)
{
	if (sample->thread_id >= in->threads.n)
		return;
	struct fm_import_thread *t = &in->threads.items[sample->thread_id];
	if (sample->weight_ns > MAX_TIME_NS - in->total_ns || sample->time_ns > MAX_TIME_NS) {
		fm_import_missing(in, "some samples", "their times add up to more than 146 years");
		return;
	}
	in->total_ns += sample->weight_ns;
	if (!t->first_ns)
		t->first_ns = sample->time_ns > sample->weight_ns ? sample->time_ns - sample->weight_ns : 1;
	t->now_ns = FM_MAX(t->now_ns, sample->time_ns);
	t->cpu_ns += is_cpu(sample->class) ? sample->weight_ns : 0;
	fm_writer_sample(in->w, sample);
	in->n_samples++;
	in->n_events++;
}

// No more are written than a capture of hours has: beyond, an entry is one sample of its whole weight.
static uint64_t affordable(struct fm_import *in, uint64_t count)
{
	if (count <= 1 || in->n_samples + count <= FM_IMPORT_MAX_SAMPLES)
		return FM_MAX(count, 1u);
	in->has_merged_samples = true;
	return 1;
}

void fm_import_sample(struct fm_import *in, uint32_t thread_id, uint32_t stack_id, uint8_t class, uint64_t count,
		      uint64_t weight_ns)
{
	if (thread_id >= in->threads.n || !count)
		return;
	uint64_t n = affordable(in, count), each = weight_ns / n, left = weight_ns % n;
	uint64_t left_ns = MAX_TIME_NS - FM_MAX(FM_MIN(MAX_TIME_NS, in->threads.items[thread_id].now_ns), in->total_ns);
	if (weight_ns > left_ns) {
		fm_import_missing(in, "some samples", "their times add up to more than 146 years");
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t weight = each + (i < left);
		fm_import_sample_at(in, &(struct fm_sample){ thread_id, stack_id,
							     in->threads.items[thread_id].now_ns + weight, weight, 0,
							     class });
	}
}

void fm_import_pass_time(struct fm_import *in, uint32_t thread_id, uint64_t ns)
{
	if (thread_id < in->threads.n && ns <= MAX_TIME_NS - FM_MIN(MAX_TIME_NS, in->threads.items[thread_id].now_ns))
		in->threads.items[thread_id].now_ns += ns;
}

uint8_t fm_import_class_of(const struct fm_import *in, uint32_t frame_id)
{
	uint8_t kind;
	uint32_t ref;
	uint64_t value;
	struct fm_written_image image;
	if (fm_writer_get_frame(in->w, frame_id, &kind, &ref, &value))
		return FM_CLASS_NATIVE;
	if (kind == FM_FRAME_PYTHON)
		return FM_CLASS_PYTHON;
	bool is_system = kind == FM_FRAME_NATIVE && !fm_writer_get_image(in->w, ref, &image) &&
			 image.flags & (FM_IMAGE_IS_KERNEL | FM_IMAGE_IS_KERNEL_CODE);
	return is_system ? FM_CLASS_SYSTEM : FM_CLASS_NATIVE;
}

// More than 8 EiB is as much as that.
static void add(uint64_t *sum, uint64_t n)
{
	*sum = n < (uint64_t)INT64_MAX - *sum ? *sum + n : (uint64_t)INT64_MAX;
}

void fm_import_add_site(struct fm_import *in, const struct fm_import_site *site)
{
	bool is_new;
	uint64_t key =
		fm_hash_u64((uint64_t)site->process_id << 32 | site->stack_id) * FM_N_ALLOC_DOMAINS + site->domain;
	uint64_t *id;
	for (;; key++) { // a taken hash moves on by one
		id = fm_map_at(&in->sites, key, &is_new);
		const struct fm_site *there = is_new ? NULL : &in->site_items.items[*id];
		if (is_new || (there->stack_id == site->stack_id && there->process_id == site->process_id &&
			       there->domain == site->domain))
			break;
	}
	if (is_new) {
		*id = in->site_items.n;
		fm_vec_push(&in->site_items, (struct fm_site){ .process_id = site->process_id,
							       .stack_id = site->stack_id,
							       .domain = site->domain });
	}
	struct fm_site *sum = &in->site_items.items[*id];
	uint64_t peak = site->peak_bytes ? site->peak_bytes : site->live_bytes;
	add(&sum->alloc_bytes, FM_MAX(site->alloc_bytes, site->live_bytes));
	add(&sum->n_allocs, FM_MAX(site->n_allocs, site->n_live));
	add(&sum->n_frees, FM_MAX(site->n_allocs, site->n_live) - site->n_live);
	add(&sum->live_bytes, site->live_bytes);
	add(&sum->peak_bytes, peak);
	add(&sum->at_peak_bytes, peak);
	in->n_events++;
}
