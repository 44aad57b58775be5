// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/str.h"
#include "collect/capture/agent_path.h"

static char root[64];

// A fresh directory per test; each test is its own process.
static const char *in_root(const char *rest)
{
	static char path[8][PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 8];
	if (!*root) {
		strcpy(root, "/tmp/fathom-agent-path-XXXXXX");
		CHECK(mkdtemp(root) != NULL);
	}
	snprintf(p, PATH_MAX, "%s/%s", root, rest);
	return p;
}

static void make_dir(const char *rest)
{
	CHECK_EQ(mkdir(in_root(rest), 0700), 0);
}

static void make_file(const char *rest)
{
	int fd = open(in_root(rest), O_CREAT | O_WRONLY, 0600);
	CHECK(fd >= 0);
	close(fd);
}

static void remove_root(void)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", root);
	CHECK_EQ(system(command), 0);
}

TEST(agent_is_found_in_each_layout)
{
	static const struct {
		const char *program_dir, *agent;
	} layouts[] = {
		{ "build", "build/_agent.abi3.so" },
		{ "fathom/_bin", "fathom/_agent.abi3.so" },
		{ "usr/bin", "usr/lib/fathom/_agent.abi3.so" },
	};
	static const char *const dirs[] = { "build",   "fathom",  "fathom/_bin",   "usr",
					    "usr/bin", "usr/lib", "usr/lib/fathom" };
	for (size_t i = 0; i < FM_ARRAY_LEN(dirs); i++)
		make_dir(dirs[i]);
	for (size_t i = 0; i < FM_ARRAY_LEN(layouts); i++) {
		char path[PATH_MAX];
		struct fm_diag diag = { "" };
		make_file(layouts[i].agent);
		CHECK_EQ(fm_agent_path_find_from(in_root(layouts[i].program_dir), path, sizeof(path), &diag), FM_OK);
		CHECK_STR(fm_str_of(path), in_root(layouts[i].agent));
	}
	remove_root();
}

TEST(missing_agent_is_one_line_that_names_the_place)
{
	char path[PATH_MAX] = "untouched";
	struct fm_diag diag = { "" };
	make_dir("bin");
	CHECK_EQ(fm_agent_path_find_from(in_root("bin"), path, sizeof(path), &diag), FM_E_NOT_FOUND);
	CHECK_STR(fm_str_of(path), "untouched");
	CHECK(strstr(diag.text, in_root("bin")) && strstr(diag.text, "FATHOM_AGENT_PATH") && !strchr(diag.text, '\n'));
	remove_root();
}

TEST(too_small_a_buffer_is_refused)
{
	char path[8];
	make_file("_agent.abi3.so");
	CHECK_EQ(fm_agent_path_find_from(in_root("."), path, sizeof(path), NULL), FM_E_UNSUPPORTED);
	remove_root();
}

TEST(variable_wins_and_is_made_absolute)
{
	char path[PATH_MAX];
	make_dir("here");
	make_file("here/other.so");
	CHECK_EQ(chdir(in_root("here")), 0);
	CHECK_EQ(setenv("FATHOM_AGENT_PATH", "../here/other.so", 1), 0);
	CHECK_EQ(fm_agent_path_find(path, sizeof(path), NULL), FM_OK);
	CHECK_STR(fm_str_of(path), in_root("here/other.so"));
	CHECK_EQ(chdir("/"), 0);
	remove_root();
}

TEST(variable_that_names_nothing_does_not_fall_back)
{
	char path[PATH_MAX];
	struct fm_diag diag = { "" };
	CHECK_EQ(setenv("FATHOM_AGENT_PATH", "/no/such/agent.so", 1), 0);
	CHECK_EQ(fm_agent_path_find(path, sizeof(path), &diag), FM_E_NOT_FOUND);
	CHECK(strstr(diag.text, "FATHOM_AGENT_PATH names /no/such/agent.so"));
}

TEST_MAIN()
