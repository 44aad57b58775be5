// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "cli/run/results.h"

static const char *write_log(const char *text)
{
	static char path[] = "/tmp/fathom-test-logs-XXXXXX";
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	return path;
}

TEST(records_are_counted_by_level)
{
	struct fm_log_counts counts;
	const char *path = write_log("2026-01-01T00:00:00.000Z WARNING root a.py:1: one\n"
				     "    WARNING of a second line\n"
				     "2026-01-01T00:00:00.001Z ERROR root a.py:1: WARNING in a message\n"
				     "2026-01-01T00:00:00.002Z WARNING x a b.py:1: two");
	CHECK(fm_logs_count(path, &counts));
	unlink(path);
	CHECK_EQ(counts.n[FM_LOG_WARNING], 2);
	CHECK_EQ(counts.n[FM_LOG_ERROR], 1);
	CHECK_EQ(counts.n[FM_LOG_DEBUG] + counts.n[FM_LOG_INFO] + counts.n[FM_LOG_CRITICAL], 0);
}

TEST(odd_lines_count_for_nothing)
{
	struct fm_log_counts counts;
	const char *path = write_log("\n \nx\nx WARNINGS y\nWARNING\nx warning y\n");
	CHECK(fm_logs_count(path, &counts));
	unlink(path);
	CHECK_EQ(counts.n[FM_LOG_WARNING], 0);
}

TEST(no_file_is_said)
{
	struct fm_log_counts counts;
	CHECK(!fm_logs_count("/nowhere/logs.log", &counts));
}

TEST_MAIN()
