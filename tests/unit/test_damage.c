// SPDX-License-Identifier: Apache-2.0
// The reader against everything that can be wrong with a file.
#include "scratch_profile.h"

#include "base/hash.h"
#include "base/mem.h"
#include "format/record.h"

TEST(file_cut_at_every_byte_keeps_its_whole_chunks)
{
	write_small_profile();
	static uint8_t bytes[1 << 16];
	size_t len = read_file(bytes, sizeof(bytes));
	// Where each chunk ends, and how many samples the file holds up to there.
	size_t ends[8], n_chunks = 0;
	for (size_t pos = FM_FILE_HEADER_BYTES; pos < len; n_chunks++) {
		struct fm_chunk_header h;
		CHECK(fm_chunk_header_get(bytes + pos, &h));
		CHECK_EQ(h.seq, n_chunks);
		pos += FM_CHUNK_HEADER_BYTES + h.stored_len;
		ends[n_chunks] = pos;
	}
	CHECK_EQ(n_chunks, 4);
	for (size_t cut = 0; cut < len; cut++) {
		write_file(bytes, cut);
		size_t n = 0, expected = 0;
		struct fm_reader *r = read_all(NULL, 0, &n);
		CHECK_EQ(r != NULL, cut >= FM_FILE_HEADER_BYTES);
		if (!r)
			continue;
		for (size_t i = 0; i < 3; i++)
			expected += cut >= ends[i] ? 4 : 0;
		CHECK_EQ(n, expected);
		CHECK(fm_reader_profile(r)->is_truncated);
		CHECK_EQ(fm_reader_profile(r)->n_damaged_chunks, 0);
		CHECK(fm_reader_profile(r)->damage[0]);
		fm_reader_close(r);
	}
}

TEST(each_flipped_byte_costs_one_chunk_at_most)
{
	write_small_profile();
	static uint8_t bytes[1 << 16];
	size_t len = read_file(bytes, sizeof(bytes));
	static const uint8_t flips[] = { 0x01, 0x80, 0xff };
	for (size_t at = 0; at < len; at++)
		for (size_t k = 0; k < FM_ARRAY_LEN(flips); k++) {
			bytes[at] ^= flips[k];
			write_file(bytes, len);
			bytes[at] ^= flips[k];
			size_t n = 0;
			struct fm_reader *r = read_all(NULL, 0, &n);
			CHECK_EQ(r != NULL, at >= 10); // magic and major number
			if (!r)
				continue;
			const struct fm_profile *p = fm_reader_profile(r);
			if (at < FM_FILE_HEADER_BYTES) {
				CHECK(n == 12 && !p->damage[0]); // minor number and reserved bytes
			} else {
				CHECK(n >= 8);
				CHECK(p->n_damaged_chunks == 1 || p->is_truncated);
				CHECK(p->damage[0]);
				CHECK(p->is_truncated || p->n_lost_samples + n == 12);
			}
			fm_reader_close(r);
		}
}

TEST(lost_chunk_leaves_a_hole_and_shifts_nothing)
{
	write_small_profile();
	static uint8_t bytes[1 << 16];
	size_t len = read_file(bytes, sizeof(bytes));
	struct fm_chunk_header first;
	CHECK(fm_chunk_header_get(bytes + FM_FILE_HEADER_BYTES, &first));
	size_t skip = FM_CHUNK_HEADER_BYTES + first.stored_len;
	memmove(bytes + FM_FILE_HEADER_BYTES, bytes + FM_FILE_HEADER_BYTES + skip, len - FM_FILE_HEADER_BYTES - skip);
	write_file(bytes, len - skip);
	struct fm_sample got[12];
	size_t n;
	struct fm_reader *r = read_all(got, 12, &n);
	const struct fm_profile *p = fm_reader_profile(r);
	CHECK_EQ(n, 8);
	CHECK_EQ(p->n_damaged_chunks, 1);
	CHECK_EQ(p->n_lost_samples, 4);
	CHECK(p->n_undefined_refs > 0);
	CHECK(!p->is_truncated);
	// Threads, process, code, image and the first four stacks and frames are gone; all later
	// ones have their own ids.
	CHECK(p->threads.n == 2 && p->threads.items[1].tid == 0);
	CHECK_EQ(p->stacks.n, 13);
	for (uint32_t i = 1; i <= 12; i++) {
		CHECK_EQ(p->stacks.items[i].frame_id, i <= 4 ? FM_FRAME_LOST : i);
		CHECK_EQ(p->frames.items[i].kind, i <= 4 ? FM_FRAME_ERROR : i % 2 ? FM_FRAME_NATIVE : FM_FRAME_PYTHON);
		CHECK_EQ(p->frames.items[i].value, i <= 4 ? FM_STACK_LOST : i - 1);
	}
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(got[i].time_ns, 1000 + 100 * (got[i].stack_id - 1));
	fm_reader_close(r);
}

// A copy that was resumed at the wrong place, say. Of chunks that define something, later checks
// see it; one that has samples only would simply count again.
TEST(a_chunk_that_comes_twice_counts_once)
{
	struct fm_writer *w = open_writer();
	uint32_t process = fm_writer_process(w, &some_process), thread = fm_writer_thread(w, process, 40, 124);
	uint32_t stack = fm_writer_stack(w, FM_ROOT_STACK, fm_writer_frame(w, FM_FRAME_NATIVE, FM_NO_ID, 5));
	for (uint32_t i = 0; i < 12; i++) {
		struct fm_sample s = { thread, stack, 1000 + i * 100, 90, 3, FM_CLASS_NATIVE };
		fm_writer_sample(w, &s);
		if (i % 4 == 3)
			CHECK_EQ(fm_writer_flush(w), FM_OK);
	}
	close_writer(w);
	static uint8_t bytes[1 << 16];
	size_t len = read_file(bytes, sizeof(bytes)), pos = FM_FILE_HEADER_BYTES;
	for (size_t i = 0; i < 3; i++) {
		struct fm_chunk_header h;
		CHECK(fm_chunk_header_get(bytes + pos, &h));
		size_t n_chunk = FM_CHUNK_HEADER_BYTES + h.stored_len;
		uint8_t *next = bytes + pos + n_chunk;
		CHECK(len + n_chunk <= sizeof(bytes));
		memmove(next + n_chunk, next, len - pos - n_chunk);
		memcpy(next, bytes + pos, n_chunk);
		write_file(bytes, len + n_chunk);
		size_t n;
		struct fm_reader *r = read_all(NULL, 0, &n);
		CHECK_EQ(n, 12);
		CHECK_EQ(fm_reader_profile(r)->n_damaged_chunks, 1);
		CHECK_EQ(fm_reader_profile(r)->stacks.n, 2);
		fm_reader_close(r);
		memmove(next, next + n_chunk, len - pos - n_chunk);
		pos += n_chunk;
	}
}

TEST(what_is_no_profile_is_one_clear_line)
{
	struct fm_reader *r;
	struct fm_diag diag = { "" };
	CHECK_EQ(fm_reader_open("/nonexistent.fathom", &r, &diag), FM_E_NOT_FOUND);
	CHECK(!strcmp(diag.text, "cannot open /nonexistent.fathom: No such file or directory"));
	CHECK_EQ(fm_reader_open("/tmp", &r, &diag), FM_E_BAD_MAGIC);
	CHECK(!strcmp(diag.text, "/tmp is a directory, not a Fathom profile"));
	char expected[128];
	write_file("", 0);
	CHECK_EQ(fm_reader_open(scratch_path(), &r, &diag), FM_E_BAD_MAGIC);
	snprintf(expected, sizeof(expected), "%s is empty, not a Fathom profile", scratch_path());
	CHECK(!strcmp(diag.text, expected));
	snprintf(expected, sizeof(expected), "%s is not a Fathom profile", scratch_path());
	for (int i = 0; i < 2; i++) {
		write_file("{ \"traceEvents\": [] }", i ? 20 : 3);
		CHECK_EQ(fm_reader_open(scratch_path(), &r, &diag), FM_E_BAD_MAGIC);
		CHECK(!strcmp(diag.text, expected));
	}
	uint8_t header[FM_FILE_HEADER_BYTES];
	fm_file_header_put(header);
	write_file(header, 9);
	CHECK_EQ(fm_reader_open(scratch_path(), &r, &diag), FM_E_TRUNCATED);
	header[8] = 2;
	write_file(header, sizeof(header));
	CHECK_EQ(fm_reader_open(scratch_path(), &r, &diag), FM_E_BAD_VERSION);
	CHECK(strstr(diag.text, "format 2.0"));
}

// Files of chunks with right checksums and content of our choice.
static struct fm_buf built;
static uint32_t built_seq;

static void begin_file(void)
{
	uint8_t header[FM_FILE_HEADER_BYTES];
	fm_file_header_put(header);
	built.len = 0;
	built_seq = 0;
	fm_buf_bytes(&built, header, sizeof(header));
}

static void add_chunk(enum fm_chunk_type type, const struct fm_buf *raw)
{
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	struct fm_buf chunk = { 0 };
	fm_chunk_seal(zstd, type, built_seq++, raw->data, raw->len, &chunk);
	fm_buf_bytes(&built, chunk.data, chunk.len);
	fm_buf_deinit(&chunk);
	ZSTD_freeCCtx(zstd);
}

static void add_record(struct fm_buf *raw, unsigned type, size_t n, const uint64_t *varints)
{
	struct fm_buf body = { 0 };
	for (size_t i = 0; i < n; i++)
		fm_buf_varint(&body, varints[i]);
	fm_record_put(raw, (enum fm_record_type)type, &body, NULL, 0);
	fm_buf_deinit(&body);
}
#define ADD_RECORD(raw, type, ...) \
	add_record(raw, type, sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (uint64_t[]){ __VA_ARGS__ })

static struct fm_reader *read_built(size_t *ret_n)
{
	write_file(built.data, built.len);
	struct fm_reader *r = read_all(NULL, 0, ret_n);
	CHECK(r);
	return r;
}

TEST(unknown_chunks_and_records_are_passed_over)
{
	struct fm_buf raw = { 0 };
	begin_file();
	ADD_RECORD(&raw, 99, 1, 2, 3);
	ADD_RECORD(&raw, FM_RECORD_THREAD, 0, 0, 5, 6, /* a field of tomorrow */ 7);
	add_chunk((enum fm_chunk_type)77, &raw);
	add_chunk(FM_CHUNK_RECORDS, &raw);
	struct fm_buf end = { 0 };
	fm_buf_varint(&end, 0);
	add_chunk(FM_CHUNK_END, &end);
	struct fm_reader *r = read_built(NULL);
	const struct fm_profile *p = fm_reader_profile(r);
	CHECK_EQ(p->n_damaged_chunks, 0);
	CHECK(p->threads.n == 1 && p->threads.items[0].tid == 5);
	CHECK(!p->is_truncated);
	fm_reader_close(r);
	fm_buf_deinit(&raw);
	fm_buf_deinit(&end);
	fm_buf_deinit(&built);
}

TEST(impossible_content_is_counted_and_what_came_before_stays)
{
	static const struct {
		unsigned type;
		uint64_t varints[24];
		size_t n;
	} cases[] = {
		{ FM_RECORD_STACKS, { 0, 1, 1, 0 }, 4 },                              // stack 0 again
		{ FM_RECORD_STACKS, { 1, 1, 0, 0 }, 4 },                              // its own parent
		{ FM_RECORD_STACKS, { 1, 1, 2, 0 }, 4 },                              // a parent below 0
		{ FM_RECORD_STACKS, { 1, 1, 1, 1 }, 4 },                              // a frame below 0
		{ FM_RECORD_STACKS, { 1, 1000000000 }, 2 },                           // more entries than bytes
		{ FM_RECORD_FRAMES, { 1, 1, 3, 0, 0 }, 5 },                           // no such kind
		{ FM_RECORD_STRINGS, { 1, 1, 500, 0 }, 4 },                           // longer than its record
		{ FM_RECORD_STRINGS, { 4000000000, 1, 0 }, 3 },                       // a hole of billions
		{ FM_RECORD_THREAD, { 4000000000, 0, 1, 1 }, 4 },                     // likewise
		{ FM_RECORD_PROCESS_END, { UINT64_MAX, 1, 1, 1 }, 4 },                // no 32-bit id
		{ FM_RECORD_SAMPLES, { 0, 1000000, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 11 }, // a million samples in no bytes
		{ FM_RECORD_SAMPLES, { 0, 1, 0, 0, 9, 0, 0, 0, 0, 0, 1, 0 }, 12 },    // a nine-byte number
		{ FM_RECORD_SAMPLES, { 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 6 }, 12 },    // class 6
		{ FM_RECORD_SITE_HISTORY, { 0, 0, 0, 9, 1, 1, 1 }, 7 },               // nine points in the bytes of one
		{ FM_RECORD_SITE_HISTORY, { 0, 0, 6, 0 }, 4 },                        // domain 6
		{ FM_RECORD_SITE_HISTORY, { 0, 0, 0, UINT64_MAX }, 4 },               // more than can be counted
		{ FM_RECORD_SITES,
		  { 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 },
		  20 }, // nine sites in no bytes
		{ FM_RECORD_SITES, { 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 6 }, 21 }, // domain 6
		{ FM_RECORD_SITES,
		  { 0, 1, 1ull << 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0 },
		  21 }, // no 32-bit stack
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(cases); i++) {
		struct fm_buf raw = { 0 };
		begin_file();
		ADD_RECORD(&raw, FM_RECORD_THREAD, 0, 0, 5, 6);
		add_record(&raw, cases[i].type, cases[i].n, cases[i].varints);
		ADD_RECORD(&raw, FM_RECORD_THREAD, 1, 0, 7, 6);
		add_chunk(FM_CHUNK_RECORDS, &raw);
		raw.len = 0;
		ADD_RECORD(&raw, FM_RECORD_THREAD, 1, 0, 8, 6);
		add_chunk(FM_CHUNK_RECORDS, &raw);
		size_t n;
		struct fm_reader *r = read_built(&n);
		const struct fm_profile *p = fm_reader_profile(r);
		CHECK_EQ(n, 0);
		CHECK_EQ(p->n_damaged_chunks, 1);
		CHECK(p->threads.n == 2 && p->threads.items[0].tid == 5 && p->threads.items[1].tid == 8);
		fm_reader_close(r);
		fm_buf_deinit(&raw);
	}
	fm_buf_deinit(&built);
}

// Gives the last chunk of the file another unpacked length, and the checks that go with it.
static void lie_about_length(size_t chunk_at, uint32_t raw_len)
{
	uint8_t *header = built.data + chunk_at;
	struct fm_chunk_header h;
	CHECK(fm_chunk_header_get(header, &h));
	memcpy(header + 12, &raw_len, 4); // docs/format.md has the layout
	uint64_t seed = fm_checksum_xxh64(header, 20, 0);
	uint64_t sum = fm_checksum_xxh64(header + FM_CHUNK_HEADER_BYTES, h.stored_len, seed);
	memcpy(header + 20, &seed, 4);
	memcpy(header + 24, &sum, 8);
	CHECK(fm_chunk_header_get(header, &h) && h.raw_len == raw_len);
}

// With right checksums all over: what a writer that errs, or means harm, may well give.
TEST(a_chunk_that_unpacks_to_another_length_is_damaged)
{
	static const int differences[] = { 1, 64, 4096, -1 };
	for (size_t i = 0; i < FM_ARRAY_LEN(differences); i++) {
		struct fm_buf raw = { 0 };
		begin_file();
		ADD_RECORD(&raw, FM_RECORD_THREAD, 0, 0, 5, 6);
		add_chunk(FM_CHUNK_RECORDS, &raw);
		raw.len = 0;
		for (unsigned k = 0; k < 100; k++) // packs well
			ADD_RECORD(&raw, FM_RECORD_THREAD, 1, 0, 7, 6);
		size_t at = built.len;
		add_chunk(FM_CHUNK_RECORDS, &raw);
		lie_about_length(at, (uint32_t)((int)raw.len + differences[i]));
		struct fm_reader *r = read_built(NULL);
		const struct fm_profile *p = fm_reader_profile(r);
		CHECK_EQ(p->n_damaged_chunks, 1);
		CHECK(p->threads.n == 1 && p->threads.items[0].tid == 5);
		fm_reader_close(r);
		fm_buf_deinit(&raw);
	}
	fm_buf_deinit(&built);
}

TEST(random_bytes_never_crash_the_reader)
{
	uint64_t state = 42;
	static uint8_t bytes[4096];
	for (int round = 0; round < 300; round++) {
		for (size_t i = 0; i < sizeof(bytes); i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			bytes[i] = (uint8_t)(state >> 56);
		}
		if (round % 3)
			fm_file_header_put(bytes);
		for (int i = 0; round % 3 == 2 && i < 60; i++)
			memcpy(bytes + 16 + i * 64, FM_CHUNK_MARK, FM_CHUNK_MARK_BYTES);
		write_file(bytes, sizeof(bytes));
		size_t n = 0;
		struct fm_reader *r = read_all(NULL, 0, &n);
		CHECK_EQ(r != NULL, round % 3 != 0);
		CHECK_EQ(n, 0);
		if (r)
			CHECK(fm_reader_profile(r)->is_truncated && fm_reader_profile(r)->n_damaged_chunks == 1);
		fm_reader_close(r);
	}
}

TEST_MAIN()
