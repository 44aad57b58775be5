// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "cli/project/project.h"

static const char *const ranks[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID" };

static const char *expand(const char *name)
{
	static char out[64];
	struct fm_diag diag;
	return fm_output_name_expand(name, 4711, out, sizeof(out), &diag) ? NULL : out;
}

TEST(letters_become_what_they_stand_for)
{
	setenv("PMI_RANK", "12", 1);
	CHECK(!strcmp(expand("a-%p.fathom"), "a-4711.fathom"));
	CHECK(!strcmp(expand("%r/%p%p"), "12/47114711"));
	CHECK(!strcmp(expand("100%%"), "100%"));
	CHECK(!strcmp(expand("%%p"), "%p"));
	CHECK(!strcmp(expand("plain"), "plain"));
	CHECK(!strcmp(expand(""), ""));
	const char *stamp = expand("%t");
	CHECK_EQ(strlen(stamp), 15);
	CHECK_EQ(strspn(stamp, "0123456789"), 8);
	CHECK_EQ(stamp[8], '_');
}

TEST(ranks_of_every_launcher_are_known)
{
	for (size_t i = 0; i < 3; i++) {
		for (size_t j = 0; j < 3; j++)
			unsetenv(ranks[j]);
		setenv(ranks[i], "7", 1);
		CHECK(!strcmp(expand("%r"), "7"));
	}
}

TEST(what_means_nothing_is_refused)
{
	for (size_t i = 0; i < 3; i++)
		unsetenv(ranks[i]);
	CHECK(!expand("%r"));
	setenv("SLURM_PROCID", "../../etc", 1);
	CHECK(!expand("%r"));
	setenv("SLURM_PROCID", "", 1);
	CHECK(!expand("%r"));
	CHECK(!expand("50%"));
	CHECK(!expand("a%20b"));
	CHECK(!expand("%s"));
	CHECK(!expand("0123456789012345678901234567890123456789012345678901234567890123456789"));
}

TEST_MAIN()
