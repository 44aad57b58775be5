#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/checksum.h"
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
	fm_cache_trim(folder, bytes * 2);
	CHECK_EQ(fm_cache_load(&keys[1], &back), FM_E_NOT_FOUND);
	CHECK_EQ(fm_cache_load(&keys[0], &back), FM_OK);
	fm_chains_deinit(&back);
	CHECK_EQ(fm_cache_load(&keys[2], &back), FM_OK);
	fm_chains_deinit(&back);
	fm_chains_deinit(&c);
}

TEST(crc32_is_the_common_one)
{
	CHECK_EQ(fm_checksum_crc32("123456789", 9, 0), 0xcbf43926u);
	uint32_t crc = fm_checksum_crc32("The quick brown fox", 19, 0);
	CHECK_EQ(fm_checksum_crc32(" jumps over the lazy dog", 24, crc), 0x414fa339u);
	CHECK_EQ(fm_checksum_crc32("", 0, 0), 0);
}

TEST_MAIN()
