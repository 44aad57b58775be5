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

static const struct fm_memory_level *level_at(const struct fm_profile *p, uint64_t time_ns)
{
	for (size_t i = 0; i < p->memory_levels.n; i++)
		if (p->memory_levels.items[i].time_ns == time_ns)
			return &p->memory_levels.items[i];
	return NULL;
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
	fm_levels_look(l, now_ns, 1, NULL);
	fm_levels_look(l, now_ns + 1, 1, NULL); // too early
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	fm_levels_look(l, now_ns + step_ns, 1, NULL); // mapped, but not touched
	memset(p, 1, size);
	fm_levels_look(l, now_ns + 2 * step_ns, 1, NULL);
	munmap(p, size);
	fm_levels_look(l, now_ns + 3 * step_ns, 1, NULL);
	fm_levels_look(l, now_ns + 4 * step_ns, 1, NULL);
	fm_levels_look(l, now_ns + 4 * step_ns + 2000000000u, 1, NULL); // quiet, but a while ago
	fm_levels_end(l, SIGKILL);                                // killed, but not for want of memory
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	struct fm_reader *r;
	CHECK_EQ(fm_reader_open(path, &r, &diag), FM_OK);
	struct fm_event ev;
	CHECK_EQ(fm_reader_next(r, &ev), FM_E_END);
	const struct fm_profile *profile = fm_reader_profile(r);
	CHECK(!level_at(profile, now_ns + 1));
	const struct fm_memory_level *before = level_at(profile, now_ns),
				     *full = level_at(profile, now_ns + 2 * step_ns),
				     *after = level_at(profile, now_ns + 3 * step_ns);
	CHECK(before && full && after && level_at(profile, now_ns + 4 * step_ns + 2000000000u));
	CHECK(full->rss_bytes >= before->rss_bytes + size && full->rss_bytes < before->rss_bytes + size * 5 / 4);
	CHECK(full->rss_anon_bytes >= size);
	CHECK(after->rss_bytes < full->rss_bytes - size * 3 / 4);
	CHECK(before->pss_bytes > 0 && before->pss_bytes <= before->rss_bytes * 3 / 2);
	CHECK_EQ(full->pss_bytes, 0); // asked for less often
	for (size_t i = 0; i < profile->memory_levels.n; i++) {
		const struct fm_memory_level *level = &profile->memory_levels.items[i];
		CHECK_EQ(level->rss_bytes, level->rss_anon_bytes + level->rss_file_bytes + level->rss_shmem_bytes);
	}
	CHECK_STR(fm_profile_meta(profile, "out_of_memory", FM_STR_LIT("no")), "no");
	fm_reader_close(r);
}

TEST_MAIN()
