// SPDX-License-Identifier: Apache-2.0
#include "cli/project/project.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/str.h"

// Open MPI's, MPICH's and its kin's, and Slurm's.
static const char *const rank_names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID" };

// Digits only: it comes from the environment, and becomes part of a path.
static const char *find_rank(void)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(rank_names); i++) {
		const char *rank = getenv(rank_names[i]);
		if (rank && *rank && strspn(rank, "0123456789") == strlen(rank))
			return rank;
	}
	return NULL;
}

static enum fm_err expand_one(struct fm_buf *to, char letter, uint32_t pid, struct fm_diag *diag)
{
	const char *rank = letter == 'r' ? find_rank() : NULL;
	char stamp[32];
	time_t now = time(NULL);
	struct tm utc;
	if (letter == 'p') {
		fm_buf_printf(to, "%u", pid);
	} else if (letter == 't') {
		strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", gmtime_r(&now, &utc));
		fm_buf_str(to, stamp);
	} else if (letter == '%') {
		fm_buf_u8(to, '%');
	} else if (rank) {
		fm_buf_str(to, rank);
	} else if (letter == 'r') {
		return fm_diag_set(
			diag, FM_E_USAGE,
			"%%r in a file's name is the rank, and there is none: OMPI_COMM_WORLD_RANK, PMI_RANK "
			"and SLURM_PROCID are not set; use %%p");
	} else {
		return fm_diag_set(diag, FM_E_USAGE,
				   "in a file's name, use %%p for the process id, %%t for the time, %%r for the rank, "
				   "and %%%% for a percent sign; nothing else may follow a percent sign");
	}
	return FM_OK;
}

enum fm_err fm_output_name_expand(const char *name, uint32_t pid, char *ret, size_t cap, struct fm_diag *diag)
{
	_cleanup_(fm_buf_deinit) struct fm_buf to = { 0 };
	for (const char *at = name; *at; at++) {
		enum fm_err err = FM_OK;
		if (*at == '%')
			err = expand_one(&to, *++at, pid, diag);
		else
			fm_buf_u8(&to, (uint8_t)*at);
		if (err)
			return err;
	}
	if (to.len >= cap)
		return fm_diag_set(diag, FM_E_USAGE, "the name of the output file is too long");
	memcpy(ret, to.data ? (const char *)to.data : "", to.len);
	ret[to.len] = 0;
	return FM_OK;
}

enum fm_err fm_temporary_folder(char *ret, size_t cap, struct fm_diag *diag)
{
	const char *tmp = getenv("TMPDIR");
	int n = snprintf(ret, cap, "%s/fathom-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (n < (int)cap && mkdtemp(ret))
		return FM_OK;
	ret[0] = 0;
	return fm_diag_set(diag, FM_E_IO, "cannot make a temporary folder: %m; set TMPDIR to one with room");
}
