// SPDX-License-Identifier: Apache-2.0
// Writes a profile in which everything that has a name has one that tries to break out of where it
// is shown: hostile_profile OUT. Samples, native names, calls, zones, marks, counters, memory,
// sources and facts about the run; names of 10 kB, too.
#include "support/known.h"

#include <stdio.h>

#include "base/mem.h"
#include "format/zones.h"

static const char *const parts[] = {
	"\x1b[31mred\x1b]0;title\a\x1b[2J", // drives a terminal
	"\xc2\x9b"
	"31m\xc2\x9d"
	"0;t\xc2\x9c", // the same in one character each
	"\x9b"
	"31m", // and in one byte
	"new\nline\r\vtab\there\f",
	"\xe2\x80\xae"
	"gnp.exe\xe2\x80\xac\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xad", // turns the writing direction
	"\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c",
	"\xe2\x80\xa8\xe2\x80\xa9\xc2\x85",                    // ends lines
	"\xff\xfe\xc3 \xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80", // no UTF-8
	"<script>alert(1)</script><img src=x onerror=alert(2)>",
	"]]> --> \" ' ` & ${x} {{x}} %s %n",
	"=HYPERLINK(\"http://x\")",
	"@SUM(1)",
	"(1) one",
	"semi;colon,comma\\ \\n \\\"",
	"| a | b |\n|---|---|\n# [x](javascript:alert(1))",
	"\x7f\x01\x02\x08\x08\x08",
};
#define N_PARTS (sizeof(parts) / sizeof(parts[0]))

static char long_name[10000];

static struct fm_str name_of(size_t i)
{
	return i < N_PARTS ? fm_str_of(parts[i]) : (struct fm_str){ long_name, sizeof(long_name) };
}

static uint32_t write_code(struct fm_writer *w, size_t i)
{
	return fm_writer_code(w, &(struct fm_code_info){ name_of(i),
							 name_of(i),
							 name_of((i + 1) % N_PARTS),
							 7,
							 FM_PY_LINES_LNOTAB,
							 { (const char *)known_lnotab, sizeof(known_lnotab) } });
}

static uint32_t write_stack(struct fm_writer *w, size_t i)
{
	uint32_t outer = fm_writer_frame(w, FM_FRAME_PYTHON, write_code(w, i), 1);
	uint32_t image = fm_writer_image(w, name_of(i), FM_STR_LIT("no build id"), 0);
	fm_writer_symbol(w, image, 16, &(struct fm_symbol_link){ name_of(i), name_of(i), 3, 4, false }, 1);
	uint32_t inner = fm_writer_frame(w, FM_FRAME_NATIVE, image, 16);
	return fm_writer_stack(w, fm_writer_stack(w, FM_ROOT_STACK, outer), inner);
}

static void write_trace(struct fm_writer *w, uint32_t thread, size_t i, uint64_t time_ns)
{
	struct fm_zone_encoder e = { 0 };
	struct fm_buf body = { 0 };
	fm_zone_encode(&e, FM_ZONE_NOTE, FM_ZONE_ON, time_ns, 0);
	fm_zone_encode(&e, FM_ZONE_ENTER, write_code(w, i), time_ns, 0);
	fm_zone_encode(&e, FM_ZONE_LINE, 7, time_ns, 0);
	fm_zone_encode(&e, FM_ZONE_BEGIN, fm_writer_trace_name(w, FM_NAME_FUNCTION, name_of(i)), time_ns + 1000, 0);
	fm_zone_encode(&e, FM_ZONE_LEAVE, 0, time_ns + 2000, 0);
	fm_zone_encode(&e, FM_ZONE_BEGIN, fm_writer_trace_name(w, FM_NAME_ZONE, name_of(i)), time_ns + 3000, 0);
	fm_zone_encode(&e, FM_ZONE_MARK, fm_writer_trace_name(w, FM_NAME_MARK, name_of(i)), time_ns + 4000, 0);
	fm_zone_encode(&e, FM_ZONE_COUNTER, fm_writer_trace_name(w, FM_NAME_COUNTER, name_of(i)), time_ns + 5000, 1.5);
	fm_zone_encode(&e, FM_ZONE_LEAVE, 0, time_ns + 900000, 0);
	fm_zone_encode(&e, FM_ZONE_LEAVE, 0, time_ns + 950000, 0);
	fm_zone_encode(&e, FM_ZONE_NOTE, FM_ZONE_OFF, time_ns + 950000, 0);
	if (fm_zone_encoder_take(&e, thread, &body))
		fm_writer_trace(w, thread, body.data, body.len);
	fm_buf_deinit(&body);
	fm_zone_encoder_deinit(&e);
}

static void write_facts(struct fm_writer *w)
{
	static const char *const keys[] = { "host",  "engine",    "fathom_version", "started",  "python",
					    "clock", "logs_path", "governor",       "sampling", "command" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		fm_writer_meta(w, keys[i], name_of(i % N_PARTS));
	fm_writer_meta(w, "logs_count_error", FM_STR_LIT("2"));
	fm_writer_meta(w, "rate_hz", FM_STR_LIT("1000"));
	for (size_t i = 0; i <= N_PARTS; i++)
		fm_writer_coverage(w, name_of(i), name_of((i + 3) % N_PARTS));
}

int main(int argc, char **argv)
{
	struct fm_writer *w;
	struct fm_diag diag;
	if (argc != 2)
		return fputs("usage: hostile_profile OUT\n", stderr), 2;
	for (size_t i = 0; i < sizeof(long_name); i++)
		long_name[i] = "long\x1b\xc2\x9b\xe2\x80\xae"[i % 10];
	if (fm_writer_open(argv[1], &w, &diag))
		return fprintf(stderr, "hostile_profile: %s\n", diag.text), 1;
	write_facts(w);
	uint64_t time_ns = 1000000000;
	for (size_t i = 0; i <= N_PARTS; i++) {
		uint32_t process = fm_writer_process(w, &(struct fm_process_info){ .pid = (uint32_t)(100 + i),
										   .start_ns = time_ns,
										   .exe = name_of(i),
										   .command = name_of(i),
										   .python_version = name_of(i),
										   .engine = name_of(i) });
		uint32_t thread = fm_writer_thread(w, process, (uint32_t)(100 + i), time_ns);
		fm_writer_thread_name(w, thread, name_of(i));
		uint32_t stack = write_stack(w, i);
		write_trace(w, thread, i, time_ns);
		fm_writer_alloc(w, &(struct fm_alloc){ thread, stack, time_ns, i + 1, 20u << 20, 20u << 20, 0 });
		fm_writer_alloc_type(w, process, i + 1, name_of(i));
		known_samples(w, &time_ns, thread, stack, (uint8_t)(i % FM_N_CLASSES), 3);
		fm_writer_source(w, name_of((i + 1) % N_PARTS), name_of(i));
		fm_writer_thread_end(w, thread, &(struct fm_thread_totals){ time_ns, 3000000, 0 });
		fm_writer_process_end(w, process, time_ns, 0, 0);
	}
	if (fm_writer_close(w, &diag))
		return fprintf(stderr, "hostile_profile: %s\n", diag.text), 1;
	return 0;
}
