// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "symbolize/cache.h"
#include "symbolize/chains.h"

static struct fm_chains sample(void)
{
	struct fm_chains c;
	fm_chains_init(&c);
	c.facts.origin = 2;
	fm_chains_add(&c, 0x2000, 0x1f00);
	fm_chains_link(&c, FM_STR_LIT("outer"), FM_STR_LIT("/src/a.c"), 10, 15, false);
	fm_chains_link(&c, FM_STR_LIT("inner"), FM_STR_LIT("/src/b.h"), 3, 4, true);
	fm_chains_add(&c, 0x1000, 0);
	fm_chains_sort(&c);
	return c;
}

static void check_sample(const struct fm_chains *c)
{
	CHECK_EQ(c->facts.origin, 2);
	const struct fm_chain *chain = fm_chains_find(c, 0x2000);
	CHECK(chain && chain->n == 2 && chain->start == 0x1f00);
	const struct fm_link *inner = &c->links.items[chain->first_link + 1];
	CHECK_STR(fm_chains_str(c, inner->name), "inner");
	CHECK_STR(fm_chains_str(c, inner->file), "/src/b.h");
	CHECK(inner->first_line == 3 && inner->line == 4 && inner->is_inlined);
	chain = fm_chains_find(c, 0x1000);
	CHECK(chain && chain->n == 0);
	CHECK(!fm_chains_find(c, 0x1500));
}

TEST(chains_survive_packing)
{
	struct fm_chains c = sample(), back;
	struct fm_buf packed = { 0 };
	fm_chains_pack(&c, &packed);
	struct fm_cursor in = fm_cursor_over(packed.data, packed.len);
	CHECK_EQ(fm_chains_unpack(&back, &in), FM_OK);
	check_sample(&back);
	fm_chains_deinit(&back);
	fm_chains_deinit(&c);
	fm_buf_deinit(&packed);
}

TEST(any_bytes_unpack_or_fail)
{
	struct fm_chains c = sample();
	struct fm_buf packed = { 0 };
	fm_chains_pack(&c, &packed);
	for (size_t i = 0; i < packed.len; i++)
		for (unsigned v = 0; v < 256; v += 3) {
			uint8_t before = packed.data[i];
			packed.data[i] = (uint8_t)v;
			struct fm_cursor in = fm_cursor_over(packed.data, packed.len - (v % 5 == 0 ? i % 7 : 0));
			struct fm_chains back;
			if (!fm_chains_unpack(&back, &in)) {
				for (size_t k = 0; k < back.items.n; k++)
					for (uint32_t n = 0; n < back.items.items[k].n; n++)
						CHECK(back.items.items[k].first_link + n < back.links.n);
				fm_chains_deinit(&back);
			}
			packed.data[i] = before;
		}
	fm_chains_deinit(&c);
	fm_buf_deinit(&packed);
}

TEST(merging_keeps_what_was_there)
{
	struct fm_chains a = sample(), b;
	fm_chains_init(&b);
	fm_chains_add(&b, 0x2000, 0);
	fm_chains_link(&b, FM_STR_LIT("wrong"), FM_STR_LIT(""), 0, 0, false);
	fm_chains_add(&b, 0x3000, 0);
	fm_chains_link(&b, FM_STR_LIT("new"), FM_STR_LIT(""), 0, 0, false);
	fm_chains_sort(&b);
	fm_chains_merge(&a, &b);
	check_sample(&a);
	const struct fm_chain *chain = fm_chains_find(&a, 0x3000);
	CHECK(chain && chain->n == 1);
	CHECK_STR(fm_chains_str(&a, a.links.items[chain->first_link].name), "new");
	fm_chains_deinit(&a);
	fm_chains_deinit(&b);
}

// Two pieces that mean the same are one; what lies between pieces belongs to none.
TEST(pieces_hold_for_all_their_addresses)
{
	struct fm_chains c;
	fm_chains_init(&c);
	static const struct {
		uint64_t start, end;
		uint32_t line;
	} pieces[] = { { 0x100, 0x108, 5 }, { 0x108, 0x110, 5 }, { 0x110, 0x118, 6 }, { 0x120, 0x128, 6 } };
	for (size_t i = 0; i < FM_ARRAY_LEN(pieces); i++) {
		fm_chains_add(&c, pieces[i].start, 0x100);
		fm_chains_link(&c, FM_STR_LIT("f"), FM_STR_LIT("/src/f.c"), 1, pieces[i].line, false);
		fm_chains_extend(&c, pieces[i].end);
	}
	CHECK_EQ(c.items.n, 3);
	CHECK_EQ(c.links.n, 3);
	for (uint64_t addr = 0xf8; addr < 0x130; addr++) {
		const struct fm_chain *chain = fm_chains_find(&c, addr);
		bool is_in = (addr >= 0x100 && addr < 0x118) || (addr >= 0x120 && addr < 0x128);
		CHECK_EQ(chain != NULL, is_in);
		if (chain)
			CHECK_EQ(c.links.items[chain->first_link].line, addr < 0x110 ? 5 : 6);
	}
	fm_chains_deinit(&c);
}

static char folder[4096];

static void use_empty_cache(void)
{
	char base[] = "/tmp/fathom-cache-XXXXXX";
	CHECK(mkdtemp(base));
	setenv("XDG_CACHE_HOME", base, 1);
	CHECK(fm_cache_folder(folder, sizeof(folder)));
}

TEST(the_cache_gives_back_what_it_was_given)
{
	use_empty_cache();
	struct fm_cache_key key = fm_cache_key_of("/x", FM_STR_LIT("\x12\x34\xab\xcd"));
	CHECK(!strcmp(key.name, "1234abcd"));
	struct fm_chains c = sample(), back;
	CHECK_EQ(fm_cache_load(&key, &back), FM_E_NOT_FOUND);
	fm_cache_save(&key, &c);
	CHECK_EQ(fm_cache_load(&key, &back), FM_OK);
	check_sample(&back);
	fm_chains_deinit(&back);
	fm_chains_deinit(&c);
}

TEST(a_damaged_cache_file_is_as_good_as_none)
{
	use_empty_cache();
	struct fm_cache_key key = fm_cache_key_of("/x", FM_STR_LIT("\x12\x34\xab\xcd"));
	struct fm_chains c = sample(), back;
	fm_cache_save(&key, &c);
	char path[4400];
	snprintf(path, sizeof(path), "%s/%s", folder, key.name);
	struct stat st;
	CHECK(!stat(path, &st));
	for (off_t at = 0; at < st.st_size; at++) {
		int fd = open(path, O_RDWR);
		uint8_t byte;
		CHECK(pread(fd, &byte, 1, at) == 1);
		byte ^= 0x40;
		CHECK(pwrite(fd, &byte, 1, at) == 1);
		CHECK(fm_cache_load(&key, &back) != FM_OK);
		byte ^= 0x40;
		CHECK(pwrite(fd, &byte, 1, at) == 1);
		close(fd);
	}
	CHECK(!truncate(path, st.st_size - 1));
	CHECK(fm_cache_load(&key, &back) != FM_OK);
	fm_cache_save(&key, &c); // and is written anew
	CHECK_EQ(fm_cache_load(&key, &back), FM_OK);
	fm_chains_deinit(&back);
	fm_chains_deinit(&c);
}

TEST(a_cache_that_cannot_be_written_is_left_alone)
{
	setenv("XDG_CACHE_HOME", "/proc/self/nothing", 1);
	struct fm_cache_key key = fm_cache_key_of("/x", FM_STR_LIT("\x12\x34\xab\xcd"));
	struct fm_chains c = sample(), back;
	fm_cache_save(&key, &c);
	CHECK(fm_cache_load(&key, &back) != FM_OK);
	fm_chains_deinit(&c);
	CHECK(!fm_cache_key_of("/nonexistent", FM_STR_LIT("")).name[0]);
	CHECK(fm_cache_key_of("/proc/self/exe", FM_STR_LIT("")).name[0]);
}

TEST(the_files_unused_for_longest_go_first)
{
	use_empty_cache();
	struct fm_chains c = sample();
	struct fm_cache_key keys[3];
	char path[4400];
	uint64_t bytes = 0;
	for (unsigned i = 0; i < 3; i++) {
		char id[4] = { 1, 2, 3, (char)i };
		keys[i] = fm_cache_key_of("/x", (struct fm_str){ id, 4 });
		fm_cache_save(&keys[i], &c);
		CHECK(snprintf(path, sizeof(path), "%s/%.100s", folder, keys[i].name) > 0);
		struct stat st;
		CHECK(!stat(path, &st));
		bytes = (uint64_t)st.st_size;
		struct timespec times[2] = { { 1000 + i, 0 }, { 1000 + i, 0 } };
		CHECK(!utimensat(AT_FDCWD, path, times, 0));
	}
	struct fm_chains back;
	CHECK_EQ(fm_cache_load(&keys[0], &back), FM_OK); // used: now the youngest
	fm_chains_deinit(&back);
	fm_cache_trim(bytes * 2);
	CHECK_EQ(fm_cache_load(&keys[1], &back), FM_E_NOT_FOUND);
	CHECK_EQ(fm_cache_load(&keys[0], &back), FM_OK);
	fm_chains_deinit(&back);
	CHECK_EQ(fm_cache_load(&keys[2], &back), FM_OK);
	fm_chains_deinit(&back);
	fm_chains_deinit(&c);
}

static bool is_there(const char *name)
{
	char path[4400];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

static void put(const char *name)
{
	char path[4400];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	CHECK(f && fputs("something", f) >= 0);
	CHECK(!fclose(f));
}

TEST(only_files_with_names_of_ours_are_trimmed)
{
	use_empty_cache();
	struct fm_chains c = sample();
	struct fm_cache_key key = fm_cache_key_of("/x", FM_STR_LIT("\x12\x34\xab\xcd"));
	fm_cache_save(&key, &c);
	static const char *const theirs[] = { "thesis.tex",       "cafe",    "1234abc",
					      "1234ABCD",         "file-12", "1234abcd.x",
					      "1234abcd.1234567", ".hidden", "1234abcd~" },
				 *const ours[] = { "1234abcd.12ab34", "file-0123456789abcdef", "deadbeef" };
	for (size_t i = 0; i < FM_ARRAY_LEN(theirs); i++)
		put(theirs[i]);
	for (size_t i = 0; i < FM_ARRAY_LEN(ours); i++)
		put(ours[i]);
	fm_cache_trim(0);
	for (size_t i = 0; i < FM_ARRAY_LEN(theirs); i++)
		CHECK(is_there(theirs[i]));
	for (size_t i = 0; i < FM_ARRAY_LEN(ours); i++)
		CHECK(!is_there(ours[i]));
	CHECK(!is_there(key.name));
	fm_chains_deinit(&c);
}

TEST(a_cache_behind_a_link_is_left_alone)
{
	for (int is_inner = 0; is_inner < 2; is_inner++) {
		use_empty_cache();
		struct fm_chains c = sample(), back;
		struct fm_cache_key key = fm_cache_key_of("/x", FM_STR_LIT("\x12\x34\xab\xcd"));
		fm_cache_save(&key, &c);
		CHECK_EQ(fm_cache_load(&key, &back), FM_OK);
		fm_chains_deinit(&back);
		char link[4400], away[4500];
		snprintf(link, sizeof(link), "%s%s", folder, is_inner ? "" : "/..");
		if (!is_inner)
			*strrchr(link, '/') = 0, *strrchr(link, '/') = 0; // .../fathom
		snprintf(away, sizeof(away), "%s-away", link);
		CHECK(!rename(link, away));
		CHECK(!symlink(away, link));
		const char *why = NULL;
		CHECK_EQ(fm_cache_folder_open(true, &why), -1);
		CHECK(why);
		CHECK_EQ(fm_cache_load(&key, &back), FM_E_NOT_FOUND);
		fm_cache_trim(0);
		CHECK(is_there(key.name)); // seen through the link
		fm_chains_deinit(&c);
	}
}

static void check_no_cache(const char *path, const struct fm_cache_key *key, const char *reason)
{
	struct fm_chains back;
	const char *why = NULL;
	CHECK_EQ(fm_cache_folder_open(true, &why), -1);
	CHECK(why && !strcmp(why, reason));
	CHECK_EQ(fm_cache_load(key, &back), FM_E_NOT_FOUND);
	fm_cache_trim(0);
	CHECK(access(path, F_OK) == 0);
}

TEST(what_others_can_change_is_not_believed)
{
	use_empty_cache();
	struct fm_chains c = sample(), back;
	struct fm_cache_key key = fm_cache_key_of("/x", FM_STR_LIT("\x12\x34\xab\xcd"));
	char path[4400], base[4400];
	fm_cache_save(&key, &c);
	snprintf(path, sizeof(path), "%s/%s", folder, key.name);
	snprintf(base, sizeof(base), "%s", getenv("XDG_CACHE_HOME"));
	struct stat st;
	CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0600);
	CHECK(!stat(folder, &st) && (st.st_mode & 0777) == 0700);
	CHECK(!chmod(folder, 0777));
	check_no_cache(path, &key, "can be written by others");
	CHECK(!chmod(folder, 0700) && !chmod(base, 01777));
	check_no_cache(path, &key, "can be written by others");
	CHECK(!chmod(base, 0700) && !chmod(path, 0606));
	CHECK_EQ(fm_cache_load(&key, &back), FM_E_NOT_FOUND);
	CHECK(!chmod(path, 0600));
	CHECK_EQ(fm_cache_load(&key, &back), FM_OK);
	fm_chains_deinit(&back);
	if (geteuid() == 0) {
		CHECK(!chown(path, 65534, 65534));
		CHECK_EQ(fm_cache_load(&key, &back), FM_E_NOT_FOUND);
		fm_cache_trim(0);
		CHECK(is_there(key.name));
		CHECK(!chown(path, 0, 0) && !chown(folder, 65534, 65534));
		check_no_cache(path, &key, "belongs to another user");
		CHECK(!chown(folder, 0, 0) && !chown(base, 65534, 65534));
		check_no_cache(path, &key, "belongs to another user");
	} else {
		printf("not root: files of another user were not tried\n");
	}
	fm_chains_deinit(&c);
}

TEST(somebody_elses_home_has_no_cache_of_ours)
{
	char home[] = "/tmp/fathom-home-XXXXXX";
	CHECK(mkdtemp(home));
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", home, 1);
	int fd = fm_cache_folder_open(true, NULL);
	CHECK(fd >= 0);
	close(fd);
	CHECK(fm_cache_folder(folder, sizeof(folder)) && access(folder, F_OK) == 0);
	CHECK(strstr(folder, "/.cache/fathom/symbols"));
	CHECK(!chmod(home, 0707));
	CHECK_EQ(fm_cache_folder_open(false, NULL), -1);
}

TEST(crc32_is_the_common_one)
{
	CHECK_EQ(fm_checksum_crc32("123456789", 9, 0), 0xcbf43926u);
	uint32_t crc = fm_checksum_crc32("The quick brown fox", 19, 0);
	CHECK_EQ(fm_checksum_crc32(" jumps over the lazy dog", 24, crc), 0x414fa339u);
	CHECK_EQ(fm_checksum_crc32("", 0, 0), 0);
}

TEST_MAIN()
