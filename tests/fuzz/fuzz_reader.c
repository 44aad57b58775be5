// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to the reader in two ways. The first byte chooses:
//   even: the rest is a file as it is: header checks, cuts, resynchronisation;
//   odd:  the rest becomes the raw content of chunks with right checksums, so that records are reached: {u16 n,
//   bytes}..., where an n from 2^15 on stands for
//         {u16 times, n - 2^15 bytes}: the bytes are in the chunk so many times. So a short input makes a chunk that is
//         small in the file and large when it is unpacked.
// Whatever the bytes: no crash, every id that comes out is a valid index, and neither time nor
// memory grows out of proportion (limits.h; the fuzzer's own limits bound single allocations).
//
// Built with -DFM_FUZZ_BUNDLE, the file is also made into one of the viewer's bundles; with
// -DFM_FUZZ_FORMATS, written in one of the formats that there are:
// the upper bits of the first byte say which.
//
// With -fsanitize=fuzzer -DFM_LIBFUZZER this is a libFuzzer target, whose inputs vary_profile.c
// varies. Otherwise main() runs it over the files given; --seeds DIR writes a small corpus to start
// from (no binaries are stored), --mutate N runs that corpus cut off everywhere, and N fixed
// variations of it.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "limits.h"

#include "base/cursor.h"
#include "base/str.h"
#include "format/chunk.h"
#include "format/writer.h"
#include "format/zones.h"
#include "read/reader.h"
#include "../support/open.h"
#ifdef FM_FUZZ_BUNDLE
#include "render/bundle/bundle.h"
#endif
#ifdef FM_FUZZ_FORMATS
#include "render/render.h"
#endif

#define REPEATED 0x8000u
#ifdef FM_LIBFUZZER
#define MOST_RAW_BYTES ((size_t)32 << 10) // a search wants many inputs more than large ones
#else
#define MOST_RAW_BYTES ((size_t)8 << 20)
#endif

// The others do not do again what it does.
#if defined(FM_FUZZ_BUNDLE) || defined(FM_FUZZ_FORMATS)
#define IS_READER false
#else
#define IS_READER true
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_reader: not true: %s\n", what);
		abort();
	}
}
#define MUST(cond) must((cond), #cond)

static void check_profile(const struct fm_profile *p)
{
	for (size_t i = 0; i < p->threads.n; i++)
		MUST(p->threads.items[i].process_id < p->processes.n);
	for (size_t i = 0; i < p->mappings.n; i++) {
		MUST(p->mappings.items[i].process_id < p->processes.n);
		MUST(p->mappings.items[i].image_id < p->images.n);
	}
	for (size_t i = 0; i < p->frames.n; i++) {
		const struct fm_frame *f = &p->frames.items[i];
		MUST(f->kind <= FM_FRAME_ERROR);
		MUST(f->kind != FM_FRAME_NATIVE || f->ref == FM_NO_ID || f->ref < p->images.n);
		MUST(f->kind != FM_FRAME_PYTHON || f->ref == FM_NO_ID || f->ref < p->codes.n);
	}
	for (size_t i = 0; i < p->stacks.n; i++) {
		MUST(p->stacks.items[i].frame_id < p->frames.n);
		MUST(i == 0 || p->stacks.items[i].parent < i);
	}
	for (size_t i = 0; i < p->symbols.n; i++) {
		MUST(p->symbols.items[i].image_id < p->images.n);
		MUST(p->symbols.items[i].first_link + (uint64_t)p->symbols.items[i].n_links <= p->symbol_links.n);
	}
	for (size_t i = 0; i < p->sites.n; i++) {
		MUST(p->sites.items[i].process_id < p->processes.n);
		MUST(p->sites.items[i].stack_id < p->stacks.n);
		MUST(p->sites.items[i].domain < FM_N_ALLOC_DOMAINS);
	}
	for (size_t i = 0; i < p->memory_levels.n; i++)
		MUST(p->memory_levels.items[i].process_id < p->processes.n);
	size_t n_chars = 0; // every string is touched, so that a sanitizer sees a bad one
	for (size_t i = 0; i < p->codes.n; i++)
		n_chars += strnlen(p->codes.items[i].name.p, p->codes.items[i].name.len) +
			   strnlen(p->codes.items[i].line_table.p, p->codes.items[i].line_table.len);
	for (size_t i = 0; i < p->images.n; i++)
		n_chars += strnlen(p->images.items[i].path.p, p->images.items[i].path.len);
	for (size_t i = 0; i < p->sources.n; i++)
		n_chars += strnlen(p->sources.items[i].text.p, p->sources.items[i].text.len);
	for (size_t i = 0; i < p->alloc_touches.n; i++)
		MUST(p->alloc_touches.items[i].process_id < p->processes.n);
	for (size_t i = 0; i < p->alloc_types.n; i++) {
		MUST(p->alloc_types.items[i].process_id < p->processes.n);
		n_chars += strnlen(p->alloc_types.items[i].name.p, p->alloc_types.items[i].name.len);
	}
	MUST(n_chars < SIZE_MAX);
	MUST(memchr(p->damage, 0, sizeof(p->damage)));
}

#ifdef FM_FUZZ_BUNDLE
// With limits so small that pruning and thinning have work to do. Of everything, of a part, or
// compared with itself.
static void make_bundle(const char *path, unsigned which)
{
	static const struct fm_bundle_limits limits = { 5, 4, 3, 2, 2, 2, 4096, 512 };
	struct fm_filter filter = { .from_ns = 4000, .to_ns = 9000 };
	struct fm_bundle_options options = { .limits = &limits, .filter = which % 3 == 1 ? &filter : NULL };
	struct fm_analysis *a;
	struct fm_diag diag;
	char *bytes = NULL;
	size_t len = 0;
	MUST(open_analysis(path, &FM_VIEW_OPTIONS_DEFAULT, FM_ANALYSIS_STACKS, &a, &diag) == FM_OK);
	FILE *out = open_memstream(&bytes, &len);
	if (which % 3 == 2)
		MUST(fm_bundle_write_diff(out, a, a, &limits, &diag) == FM_OK);
	else
		MUST(fm_bundle_write(out, a, &options, &diag) == FM_OK);
	fclose(out);
	MUST(len > 16 && !memcmp(bytes, "FMVIEW1\n", 8));
	free(bytes);
	fm_analysis_close(a);
}
#endif

#ifdef FM_FUZZ_FORMATS
// One function or line, of names that the seeds have and of one that none has.
static enum fm_err write_focus(const char *path, unsigned which, struct fm_diag *diag)
{
	static const char *const words[] = { "f", "C.f", "m.py:1", "f.py:3", "c.c:3", "nobody" };
	enum fm_err err = FM_OK;
	for (size_t i = 0; i < FM_ARRAY_LEN(words); i++) {
		struct fm_buf found = { 0 };
		enum fm_err this_err = fm_render_focus(path, words[i], which % (FM_FOCUS_MARKDOWN + 1), "/dev/null",
						       &FM_VIEW_OPTIONS_DEFAULT, &found, diag);
		err = this_err ? this_err : err;
		fm_buf_deinit(&found);
	}
	return err;
}

static void write_one(const char *path, unsigned which)
{
	struct fm_diag diag;
	unsigned n = 0;
	while (fm_formats[n].name)
		n++;
	which %= n + FM_FOCUS_MARKDOWN + 1;
	if (which < n ? fm_render_write(fm_formats[which].name, path, "/dev/null", &FM_VIEW_OPTIONS_DEFAULT, &diag)
		      : write_focus(path, which - n, &diag))
		MUST(diag.text[0] && !strchr(diag.text, '\n'));
}
#endif

// What the linker puts in the place of functions that take longer than an input does (--wrap in
// meson.build).
//
// A report reads libraries in a child of its own. There are none to read here; what was for the
// child happens in place. What is done by several threads at once is done by one after the other,
// as where no thread can be had.
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
	return -1;
}

int __wrap_pthread_create(void *thread, const void *attr, void *(*run)(void *), void *ctx);
int __wrap_pthread_create(void *thread, const void *attr, void *(*run)(void *), void *ctx)
{
	return EAGAIN;
}

// 150 KiB each: made once, and put back.
static ZSTD_DCtx *idle_contexts[4];

ZSTD_DCtx *__real_ZSTD_createDCtx(void);
ZSTD_DCtx *__wrap_ZSTD_createDCtx(void);
ZSTD_DCtx *__wrap_ZSTD_createDCtx(void)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(idle_contexts); i++)
		if (idle_contexts[i]) {
			ZSTD_DCtx *context = idle_contexts[i];
			idle_contexts[i] = NULL;
			ZSTD_DCtx_reset(context, ZSTD_reset_session_and_parameters);
			return context;
		}
	return __real_ZSTD_createDCtx();
}

size_t __real_ZSTD_freeDCtx(ZSTD_DCtx *context);
size_t __wrap_ZSTD_freeDCtx(ZSTD_DCtx *context);
size_t __wrap_ZSTD_freeDCtx(ZSTD_DCtx *context)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(idle_contexts) && context; i++)
		if (!idle_contexts[i]) {
			idle_contexts[i] = context;
			return 0;
		}
	return __real_ZSTD_freeDCtx(context);
}

static void check_trace(const struct fm_profile *p, struct fm_zone_batch *batch)
{
	struct fm_zone_event ev;
	MUST(batch->thread_id < p->threads.n);
	uint64_t last_ns = 0;
	while (fm_trace_next(p, batch, &ev) == FM_OK) {
		MUST(ev.op > FM_ZONE_RESUME || ev.ref == FM_NO_ID || ev.ref < p->codes.n);
		MUST(ev.op != FM_ZONE_BEGIN || ev.ref == FM_NO_ID || ev.ref < p->trace_names.n);
		last_ns ^= ev.time_ns;
	}
	MUST(last_ns <= UINT64_MAX);
}

static void read_events(struct fm_reader *r)
{
	const struct fm_profile *p = fm_reader_profile(r);
	struct fm_event ev;
	while (fm_reader_next(r, &ev) == FM_OK) {
		if (ev.type == FM_EVENT_FREE) {
			MUST(ev.free.thread_id < p->threads.n);
			continue;
		}
		if (ev.type == FM_EVENT_ALLOC) {
			MUST(ev.alloc.thread_id < p->threads.n);
			MUST(ev.alloc.stack_id < p->stacks.n);
			MUST(ev.alloc.domain < FM_N_ALLOC_DOMAINS);
			continue;
		}
		if (ev.type == FM_EVENT_TRACE) {
			check_trace(p, ev.trace);
			continue;
		}
		MUST(ev.sample.thread_id < p->threads.n);
		MUST(ev.sample.stack_id < p->stacks.n);
		MUST(ev.sample.class < FM_N_CLASSES);
	}
	MUST(fm_reader_next(r, &ev) == FM_E_END);
	check_profile(p);
}

static void read_trace(const char *path)
{
	struct fm_analysis *a;
	struct fm_diag diag;
	MUST(open_analysis(path, &FM_VIEW_OPTIONS_DEFAULT, FM_ANALYSIS_CALLS, &a, &diag) == FM_OK);
	const struct fm_trace_stats *stats = a->calls;
	for (size_t i = 0; i < stats->functions.n; i++)
		MUST(fm_durations_percentile_ns(&stats->functions.items[i].spans, 0.5) <=
		     stats->functions.items[i].spans.max_ns);
	fm_analysis_close(a);
}

static void read_file(int fd, unsigned which)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct fm_reader *r;
	struct fm_diag diag;
	if (fm_reader_open(path, &r, &diag)) {
		MUST(diag.text[0] && !strchr(diag.text, '\n'));
		return;
	}
	if (IS_READER)
		read_events(r);
	fm_reader_close(r);
	if (IS_READER)
		read_trace(path);
#ifdef FM_FUZZ_BUNDLE
	make_bundle(path, which);
#endif
#ifdef FM_FUZZ_FORMATS
	write_one(path, which);
#endif
}

// The content of one chunk. Returns how many bytes of the input it took.
static size_t take_chunk(const uint8_t *data, size_t size, struct fm_buf *ret)
{
	size_t len = (size_t)(data[0] | data[1] << 8), head = 2, times = 1;
	if (len >= REPEATED && size >= 4) {
		len -= REPEATED;
		times = (size_t)(data[2] | data[3] << 8);
		head = 4;
	}
	len = FM_MIN(len, size - head);
	ret->len = 0;
	fm_buf_reserve(ret, 1);
	for (; times && ret->len + len <= FM_MAX(MOST_RAW_BYTES, len); times--)
		fm_buf_bytes(ret, data + head, len);
	return head + len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	static int fd = -1;
	static struct fm_buf file, chunk, raw;
	size_t n_raw = 0;
	if (fd < 0) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		setenv("XDG_CACHE_HOME", "/dev/null", 1); // nothing is remembered from input to input
		unsetenv("DEBUGINFOD_URLS");
	}
	MUST(fd >= 0);
	file.len = 0;
	if (data[0] % 2 == 0) {
		fm_buf_bytes(&file, data + 1, size - 1);
	} else {
		static ZSTD_CCtx *zstd;
		if (!zstd)
			zstd = ZSTD_createCCtx();
		uint8_t header[FM_FILE_HEADER_BYTES];
		fm_file_header_put(header);
		fm_buf_bytes(&file, header, sizeof(header));
		uint32_t seq = 0;
		for (size_t pos = 1; pos + 2 <= size;) {
			pos += take_chunk(data + pos, size - pos, &raw);
			n_raw += raw.len;
			fm_chunk_seal(zstd, FM_CHUNK_RECORDS, seq++, raw.data, raw.len, &chunk);
			fm_buf_bytes(&file, chunk.data, chunk.len);
		}
	}
	MUST(ftruncate(fd, 0) == 0 && pwrite(fd, file.data, file.len, 0) == (ssize_t)file.len);
	struct limits limits = limits_begin();
	read_file(fd, data[0] / 2);
	limits_end(&limits, file.len + n_raw);
	return 0;
}

#ifndef FM_LIBFUZZER
static struct fm_buf seeds[3];
static const char *const seed_names[] = { "whole", "cut", "records" };

static void save_seeds(const char *dir)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(seeds); i++) {
		char path[4096];
		snprintf(path, sizeof(path), "%s/%s", dir, seed_names[i]);
		FILE *f = fopen(path, "wb");
		if (!f || fwrite(seeds[i].data, 1, seeds[i].len, f) != seeds[i].len || fclose(f) != 0) {
			perror(path);
			exit(1);
		}
	}
}

// The whole file and the records, cut off after every byte. Each of the formats in turn.
static void cut_everywhere(void)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(seeds); i += 2) // one of them is cut already
		for (size_t len = 1; len < seeds[i].len; len++) {
			uint8_t *copy = malloc(len); // so that a sanitizer sees a read one byte past it
			memcpy(copy, seeds[i].data, len);
			copy[0] |= (uint8_t)(len << 1);
			LLVMFuzzerTestOneInput(copy, len);
			free(copy);
		}
}

// Without coverage feedback, but the same bytes on every machine: a regression test that needs no
// libFuzzer.
static void mutate(unsigned long n_rounds)
{
	uint64_t state = 1;
	struct fm_buf b = { 0 };
	for (unsigned long round = 0; round < n_rounds; round++) {
		const struct fm_buf *seed = &seeds[round % FM_ARRAY_LEN(seeds)];
		b.len = 0;
		fm_buf_bytes(&b, seed->data, seed->len);
		b.data[0] |= (uint8_t)(round / FM_ARRAY_LEN(seeds) << 1); // each of the formats in turn
		for (unsigned i = 0; i <= round % 5; i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			size_t at = 1 + (size_t)(state >> 33) % (b.len - 1);
			uint8_t byte = (uint8_t)(state >> 25);
			if (state >> 62 == 0)
				b.data[at] = byte;
			else if (state >> 62 == 1)
				b.data[at] ^= (uint8_t)(1 << byte % 8);
			else if (state >> 62 == 2)
				memmove(b.data + at, b.data + 1 + byte % at,
					b.len - at < at ? b.len - at : at - byte % at);
			else
				b.data[at] = byte % 2 ? 0xff : 0;
		}
		LLVMFuzzerTestOneInput(b.data, b.len);
	}
	fm_buf_deinit(&b);
}

// Each record of the profile ten thousand times over, behind the profile itself: what a file of
// some kilobytes may unpack to. Nothing of it may take long (limits.h).
static void repeat_each(void)
{
	const struct fm_buf *seed = &seeds[2];
	struct fm_buf b = { 0 };
	for (size_t pos = 1; pos + 2 <= seed->len;) {
		size_t n_chunk = (size_t)(seed->data[pos] | seed->data[pos + 1] << 8);
		struct fm_cursor c = fm_cursor_over(seed->data + pos + 2, n_chunk);
		pos += 2 + n_chunk;
		while (fm_cursor_left(&c)) {
			const uint8_t *record = c.pos;
			fm_cursor_varint(&c);
			fm_cursor_bytes(&c, fm_cursor_varint(&c));
			if (c.err)
				break; // the end mark has no records
			size_t len = (size_t)(c.pos - record);
			uint32_t head[] = { (uint32_t)len + REPEATED, IS_READER ? 10000 : 1000 };
			b.len = 0;
			fm_buf_bytes(&b, seed->data, seed->len);
			for (size_t i = 0; i < FM_ARRAY_LEN(head); i++) {
				fm_buf_u8(&b, (uint8_t)head[i]);
				fm_buf_u8(&b, (uint8_t)(head[i] >> 8));
			}
			fm_buf_bytes(&b, record, len);
			LLVMFuzzerTestOneInput(b.data, b.len);
		}
	}
	fm_buf_deinit(&b);
}

static void put_trace(struct fm_writer *w, uint32_t thread)
{
	struct fm_code_info info = { .name = FM_STR_LIT("f"),
				     .qualname = FM_STR_LIT("f"),
				     .filename = FM_STR_LIT("f.py") };
	uint32_t code = fm_writer_code(w, &info), zone = fm_writer_trace_name(w, FM_NAME_ZONE, FM_STR_LIT("z"));
	struct fm_zone_encoder e = { 0 };
	struct fm_buf body = { 0 };
	for (unsigned i = 0; i < 3; i++) {
		body.len = 0;
		fm_zone_encode(&e, FM_ZONE_NOTE, FM_ZONE_ON, 100, 0);
		fm_zone_encode(&e, FM_ZONE_ENTER, code, 1000 * i, 0);
		fm_zone_encode(&e, FM_ZONE_LINE, 3, 1001 * i, 0);
		fm_zone_encode(&e, FM_ZONE_BEGIN, zone, 1002 * i, 0);
		fm_zone_encode(&e, FM_ZONE_COUNTER, zone, 1002 * i, 2.5);
		fm_zone_encode(&e, FM_ZONE_RESUME, FM_NO_ID, 1003 * i, 0);
		fm_zone_encode(&e, FM_ZONE_LEAVE, 0, 1003 * i, 0);
		fm_zone_encode(&e, FM_ZONE_MARK, zone, 1003 * i, 0);
		fm_zone_encode(&e, FM_ZONE_NOTE, i == 2 ? FM_ZONE_OFF : FM_ZONE_LOST, 1004 * i, 5);
		fm_zone_encoder_take(&e, thread, &body);
		fm_writer_trace(w, thread, body.data, body.len);
	}
	fm_buf_deinit(&body);
	fm_zone_encoder_deinit(&e);
}

// A profile with one of everything, small enough to mutate well; then the same as the raw content
// of its chunks.
static int build_seeds(void)
{
	char path[] = "/tmp/fathom-seed-XXXXXX";
	int fd = mkstemp(path);
	struct fm_writer *w;
	struct fm_diag diag;
	if (fd < 0 || fm_writer_open(path, &w, &diag)) {
		perror(path);
		return 1;
	}
	struct fm_process_info info = {
		7, 1, 2, FM_STR_LIT("/bin/p"), FM_STR_LIT("p\0x"), FM_STR_LIT("3.11.7"), FM_STR_LIT("perf")
	};
	uint32_t process = fm_writer_process(w, &info), thread = fm_writer_thread(w, process, 7, 3);
	fm_writer_thread_name(w, thread, FM_STR_LIT("main"));
	fm_writer_meta(w, "rate_hz", FM_STR_LIT("1000"));
	fm_writer_coverage(w, FM_STR_LIT("a"), FM_STR_LIT("b"));
	put_trace(w, thread);
	uint32_t image = fm_writer_image(w, FM_STR_LIT("/lib/c.so"), FM_STR_LIT("\1\2\3"), 0);
	fm_writer_mapping(w, process, image, 0x1000, 0x2000, 0x1000);
	struct fm_code_info code = { FM_STR_LIT("f"),       FM_STR_LIT("C.f"), FM_STR_LIT("m.py"), 1, 3,
				     FM_STR_LIT("\x80\0\1") };
	uint32_t frames[] = { fm_writer_frame(w, FM_FRAME_PYTHON, fm_writer_code(w, &code), 5),
			      fm_writer_frame(w, FM_FRAME_NATIVE, image, 0x40),
			      fm_writer_frame(w, FM_FRAME_ERROR, 0, 1),
			      fm_writer_frame(w, FM_FRAME_NATIVE, FM_NO_ID, 0x123456) };
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t stack = FM_ROOT_STACK;
		for (uint32_t k = 0; k < 4; k++) {
			stack = fm_writer_stack(w, stack, frames[(i + k) % 4]);
			struct fm_sample sample = { thread, stack,       1000 * (i * 4 + k + 1),
						    900,    (uint16_t)i, (uint8_t)(k + i) % FM_N_CLASSES };
			fm_writer_sample(w, &sample);
			fm_writer_alloc(w, &(struct fm_alloc){ thread, stack, 1000 * (i * 4 + k + 1), i * 4 + k + 1, 64,
							       130000, (uint8_t)((i + k) % FM_N_ALLOC_DOMAINS) });
			if (k)
				fm_writer_free(w, &(struct fm_free){ thread, 1000 * (i * 4 + k + 1), i * 4 + k });
			fm_writer_site(w, &(struct fm_site){ process, stack, FM_ALLOC_MEM, 5, 4, 3, 2, 1, 1, 9 });
		}
		fm_writer_alloc_type(w, process, i + 1, FM_STR_LIT("dict"));
		fm_writer_memory_level(w,
				       &(struct fm_memory_level){ process, 1000 * i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 });
		fm_writer_flush(w);
	}
	struct fm_symbol_link links[] = { { FM_STR_LIT("f"), FM_STR_LIT("c.c"), 1, 2, false },
					  { FM_STR_LIT("g"), FM_STR_LIT(""), 0, 0, true } };
	fm_writer_symbol(w, image, 0x40, links, 2);
	fm_writer_source(w, FM_STR_LIT("m.py"), FM_STR_LIT("def f(): pass\n"));
	fm_writer_thread_end(w, thread, &(struct fm_thread_totals){ 99, 88, 1 });
	fm_writer_process_end(w, process, 100, 0, 0);
	if (fm_writer_close(w, &diag)) {
		fprintf(stderr, "fuzz_reader: %s\n", diag.text);
		return 1;
	}
	uint8_t bytes[8192];
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
	unlink(path);
	MUST(n > FM_FILE_HEADER_BYTES && n < (ssize_t)sizeof(bytes));
	for (size_t i = 0; i < FM_ARRAY_LEN(seeds); i++)
		fm_buf_u8(&seeds[i], i == 2);
	fm_buf_bytes(&seeds[0], bytes, (size_t)n);
	fm_buf_bytes(&seeds[1], bytes, (size_t)n / 2);
	ZSTD_DCtx *zstd = ZSTD_createDCtx();
	for (size_t pos = FM_FILE_HEADER_BYTES; pos + FM_CHUNK_HEADER_BYTES <= (size_t)n;) {
		struct fm_chunk_header h;
		uint8_t raw[8192];
		MUST(fm_chunk_header_get(bytes + pos, &h) && h.raw_len <= sizeof(raw));
		MUST(fm_chunk_unpack(zstd, &h, bytes + pos + FM_CHUNK_HEADER_BYTES, raw) == FM_OK);
		fm_buf_u8(&seeds[2], (uint8_t)h.raw_len);
		fm_buf_u8(&seeds[2], (uint8_t)(h.raw_len >> 8));
		fm_buf_bytes(&seeds[2], raw, h.raw_len);
		pos += FM_CHUNK_HEADER_BYTES + h.stored_len;
	}
	ZSTD_freeDCtx(zstd);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && (!strcmp(argv[1], "--seeds") || !strcmp(argv[1], "--mutate"))) {
		if (build_seeds())
			return 1;
		if (!strcmp(argv[1], "--seeds")) {
			save_seeds(argv[2]);
		} else {
			cut_everywhere();
			repeat_each();
			mutate(strtoul(argv[2], NULL, 10));
		}
		for (size_t i = 0; i < FM_ARRAY_LEN(seeds); i++)
			fm_buf_deinit(&seeds[i]);
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		if (!f) {
			perror(argv[i]);
			return 1;
		}
		struct fm_buf b = { 0 };
		for (int ch; (ch = fgetc(f)) != EOF;)
			fm_buf_u8(&b, (uint8_t)ch);
		fclose(f);
		LLVMFuzzerTestOneInput(b.data, b.len);
		fm_buf_deinit(&b);
	}
	printf("%d inputs, no failure\n", argc - 1);
	return 0;
}
#endif
