// What the kernel says of a process, of which this one is an example, and which cgroup limits it.
#include "test.h"

#include <signal.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "collect/memory_levels.h"
#include "read/reader.h"

static void check_cgroup(const char *text, enum fm_cgroup_version version, const char *folder)
{
	char copy[512];
	const char *found;
	snprintf(copy, sizeof(copy), "%s", text);
	CHECK_EQ(fm_cgroup_of(copy, &found), version);
	if (strcmp(found, folder))
		printf("%s is not %s\n", found, folder);
	CHECK(!strcmp(found, folder));
}

TEST(the_cgroup_that_limits_memory_is_found)
{
	check_cgroup("0::/user.slice/a b\n", FM_CGROUP_V2, "/user.slice/a b");
	check_cgroup("0::/\n", FM_CGROUP_V2, "/");
	check_cgroup("0::/../../outside", FM_CGROUP_V2, "/../../outside");
	check_cgroup("9:name=systemd:/\n4:memory:/job/1\n0::/\n", FM_CGROUP_V1, "/job/1");
	check_cgroup("0::/unified\n5:cpu,memory:/old\n", FM_CGROUP_V1, "/old");
	check_cgroup("5:hugememory,memoryless:/no\n0::/yes\n", FM_CGROUP_V2, "/yes");
	check_cgroup("7:pids:/a:b\n", FM_CGROUP_NONE, "");
	check_cgroup("damaged\n\n::\n", FM_CGROUP_V2, "");
	check_cgroup("", FM_CGROUP_NONE, "");
}

static char path[64];

static void remove_path(void)
{
	unlink(path);
}

TEST(levels_follow_the_memory_of_a_process)
{
	struct fm_writer *w;
	struct fm_diag diag;
	snprintf(path, sizeof(path), "/tmp/fathom-levels-%d.fathom", (int)getpid());
	atexit(remove_path);
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	uint32_t process = fm_writer_process(w, &(struct fm_process_info){ .pid = (uint32_t)getpid() });
	struct fm_levels *l = fm_levels_create((uint32_t)getpid(), process, w);
	uint64_t now_ns = fm_now_ns(), step_ns = FM_LEVELS_PERIOD_NS;
	const size_t size = 64 << 20;
	fm_levels_look(l, now_ns, 1);
	fm_levels_look(l, now_ns + 1, 1); // too early
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	fm_levels_look(l, now_ns + step_ns, 1); // nothing has moved: not worth a record
	memset(p, 1, size);
	fm_levels_look(l, now_ns + 2 * step_ns, 1);
	munmap(p, size);
	fm_levels_look(l, now_ns + 3 * step_ns, 1);
	fm_levels_look(l, now_ns + 4 * step_ns, 1);
	fm_levels_look(l, now_ns + 4 * step_ns + 2000000000u, 1); // quiet, but a while ago
	fm_levels_end(l, SIGKILL);                                // killed, but not for want of memory
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	struct fm_reader *r;
	CHECK_EQ(fm_reader_open(path, &r, &diag), FM_OK);
	struct fm_event ev;
	CHECK_EQ(fm_reader_next(r, &ev), FM_E_END);
	const struct fm_profile *profile = fm_reader_profile(r);
	CHECK_EQ(profile->memory_levels.n, 4);
	const struct fm_memory_level *levels = profile->memory_levels.items;
	CHECK_EQ(levels[1].time_ns, now_ns + 2 * step_ns);
	CHECK(levels[1].rss_bytes >= levels[0].rss_bytes + size &&
	      levels[1].rss_bytes < levels[0].rss_bytes + size * 5 / 4);
	CHECK(levels[1].rss_anon_bytes >= size);
	CHECK(levels[2].rss_bytes < levels[1].rss_bytes - size * 3 / 4);
	CHECK(levels[0].pss_bytes > 0 && levels[0].pss_bytes <= levels[0].rss_bytes * 3 / 2);
	CHECK_EQ(levels[1].pss_bytes, 0); // asked for less often
	for (int i = 0; i < 4; i++)
		CHECK_EQ(levels[i].rss_bytes,
			 levels[i].rss_anon_bytes + levels[i].rss_file_bytes + levels[i].rss_shmem_bytes);
	CHECK_STR(fm_profile_meta(profile, "out_of_memory", FM_STR_LIT("no")), "no");
	fm_reader_close(r);
}

TEST_MAIN()
