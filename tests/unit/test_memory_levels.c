// SPDX-License-Identifier: Apache-2.0
// What the kernel says of a process, of which this one is an example, and which cgroup limits it.
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "collect/process/memory.h"
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
	fm_levels_poll(l, now_ns, 1, NULL);
	fm_levels_poll(l, now_ns + 1, 1, NULL); // too early
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	fm_levels_poll(l, now_ns + step_ns, 1, NULL); // mapped, but not touched
	memset(p, 1, size);
	fm_levels_poll(l, now_ns + 2 * step_ns, 1, NULL);
	munmap(p, size);
	fm_levels_poll(l, now_ns + 3 * step_ns, 1, NULL);
	fm_levels_poll(l, now_ns + 4 * step_ns, 1, NULL);
	fm_levels_poll(l, now_ns + 4 * step_ns + 2000000000u, 1, NULL); // quiet, but a while ago
	fm_levels_end(l, SIGKILL);                                      // killed, but not for want of memory
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
	CHECK(full->rss_bytes >= before->rss_bytes + size);
#ifndef __SANITIZE_THREAD__ // it keeps several bytes of its own for each of ours
	CHECK(full->rss_bytes < before->rss_bytes + size * 5 / 4);
#endif
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

// ---- machines that are not at hand: their files, below a folder of ours ----

static char root[64];

static void remove_root(void)
{
	char command[96];
	snprintf(command, sizeof(command), "rm -rf %s", root);
	CHECK_EQ(system(command), 0);
}

static void put(const char *name, const char *text)
{
	char full[512];
	snprintf(full, sizeof(full), "%s/%s", root, name);
	for (char *slash = full + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = 0;
		mkdir(full, 0700);
	}
	FILE *f = fopen(full, "w");
	CHECK(f != NULL);
	fputs(text, f);
	fclose(f);
}

// One look at process 77 of the machine below root; what the profile says of it.
static struct fm_memory_level look_once(int exit_signal, const char *events_name, const char *events_at_end,
					char *ret_oom, size_t oom_size)
{
	struct fm_writer *w;
	struct fm_diag diag;
	snprintf(path, sizeof(path), "/tmp/fathom-levels-%d.fathom", (int)getpid());
	put("proc/77/status", "Name:\tx\nVmRSS:\t   1000 kB\nRssAnon:\t 600 kB\nRssFile:\t 300 kB\nRssShmem:\t 100 "
			      "kB\nVmSwap:\t 50 kB\n");
	put("proc/77/smaps_rollup", "0-1 ---p 0 00:00 0 [rollup]\nRss: 1000 kB\nPss: 700 kB\n");
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	uint32_t process = fm_writer_process(w, &(struct fm_process_info){ .pid = 77 });
	struct fm_levels *l = fm_levels_create_below(root, 77, process, w);
	fm_levels_poll(l, 1000, 1, NULL);
	if (events_name)
		put(events_name, events_at_end);
	fm_levels_end(l, exit_signal);
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	struct fm_reader *r;
	struct fm_event ev;
	CHECK_EQ(fm_reader_open(path, &r, &diag), FM_OK);
	CHECK_EQ(fm_reader_next(r, &ev), FM_E_END);
	const struct fm_profile *profile = fm_reader_profile(r);
	CHECK_EQ(profile->memory_levels.n, 1);
	struct fm_memory_level level = profile->memory_levels.items[0];
	struct fm_str oom = fm_profile_meta(profile, "out_of_memory", FM_STR_LIT(""));
	snprintf(ret_oom, oom_size, "%.*s", (int)oom.len, oom.p);
	fm_reader_close(r);
	CHECK_EQ(level.rss_bytes, 1000 << 10);
	CHECK_EQ(level.pss_bytes, 700 << 10);
	CHECK_EQ(level.swap_bytes, 50 << 10);
	return level;
}

static void make_root(void)
{
	snprintf(root, sizeof(root), "/tmp/fathom-root-%d", (int)getpid());
	atexit(remove_root);
	atexit(remove_path);
}

TEST(a_unified_hierarchy_limits_by_the_group_that_leaves_least_room)
{
	char oom[200];
	make_root();
	put("proc/77/cgroup", "0::/slice/job\n");
	put("sys/fs/cgroup/slice/memory.max", "209715200\n");
	put("sys/fs/cgroup/slice/memory.current", "180000000\n");
	put("sys/fs/cgroup/slice/job/memory.max", "max\n");
	put("sys/fs/cgroup/slice/job/memory.current", "150000000\n");
	put("sys/fs/cgroup/slice/job/memory.events", "low 0\nhigh 0\nmax 4\noom 0\noom_kill 3\n");
	struct fm_memory_level level = look_once(SIGKILL, NULL, NULL, oom, sizeof(oom));
	CHECK_EQ(level.cgroup_bytes, 180000000); // of the group around it: others are in there, too
	CHECK_EQ(level.cgroup_limit_bytes, 209715200);
	CHECK(!oom[0]); // earlier kills are not this process's

	level = look_once(SIGKILL, "sys/fs/cgroup/slice/job/memory.events", "oom 1\noom_kill 4\n", oom, sizeof(oom));
	CHECK(strstr(oom, "process 77") && strstr(oom, "200.0 MiB"));
	put("sys/fs/cgroup/slice/job/memory.max", "160000000\n");
	level = look_once(0, NULL, NULL, oom, sizeof(oom));
	CHECK_EQ(level.cgroup_bytes, 150000000);
	CHECK_EQ(level.cgroup_limit_bytes, 160000000);
}

TEST(a_container_sees_its_own_root_of_a_unified_hierarchy)
{
	char oom[200];
	make_root();
	put("proc/77/cgroup", "0::/../outside\n");
	put("sys/fs/cgroup/memory.max", "1000000\n");
	put("sys/fs/cgroup/memory.current", "900000\n");
	struct fm_memory_level level = look_once(0, NULL, NULL, oom, sizeof(oom));
	CHECK_EQ(level.cgroup_bytes, 900000);
	CHECK_EQ(level.cgroup_limit_bytes, 1000000);
}

TEST(no_limit_is_none)
{
	char oom[200];
	make_root();
	put("proc/77/cgroup", "0::/free\n");
	put("sys/fs/cgroup/free/memory.max", "max\n");
	put("sys/fs/cgroup/free/memory.current", "900000\n");
	struct fm_memory_level level = look_once(0, NULL, NULL, oom, sizeof(oom));
	CHECK_EQ(level.cgroup_bytes, 900000);
	CHECK_EQ(level.cgroup_limit_bytes, 0);
}

TEST(an_old_hierarchy_is_read_where_memory_is_in_it)
{
	char oom[200];
	make_root();
	put("proc/77/cgroup", "4:memory:/job\n0::/\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "52428800\n");
	put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "40000000\n");
	put("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
	struct fm_memory_level level =
		look_once(SIGKILL, "sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill 1\n", oom, sizeof(oom));
	CHECK_EQ(level.cgroup_bytes, 40000000);
	CHECK_EQ(level.cgroup_limit_bytes, 52428800);
	CHECK(strstr(oom, "50.0 MiB"));
}

TEST_MAIN()
