// SPDX-License-Identifier: Apache-2.0
#include "cli/options/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool fm_pid_parse(const char *text, uint32_t *ret)
{
	char *end;
	errno = 0;
	unsigned long pid = strtoul(text, &end, 0);
	if (errno || *end || end == text || text[0] == '-' || pid == 0 || pid > INT32_MAX)
		return false;
	*ret = (uint32_t)pid;
	return true;
}

void fm_pids_add(struct fm_pids *pids, uint32_t pid)
{
	for (size_t i = 0; i < pids->n; i++)
		if (pids->v[i] == pid)
			return;
	if (pids->n < FM_MAX_PIDS)
		pids->v[pids->n++] = pid;
}

enum fm_err fm_pids_parse(const struct fm_option_texts *texts, struct fm_pids *ret, struct fm_diag *diag)
{
	ret->n = 0;
	for (unsigned i = 0; i < texts->n; i++) {
		const char *at = texts->v[i];
		do {
			size_t len = strcspn(at, ",");
			char one[32];
			uint32_t pid = 0;
			snprintf(one, sizeof(one), "%.*s", (int)(len < sizeof(one) ? len : sizeof(one)), at);
			if (!fm_pid_parse(one, &pid))
				return fm_diag_set(diag, FM_E_USAGE, "--pid wants a process id, not '%.*s'", (int)len,
						   at);
			fm_pids_add(ret, pid);
			at += len;
		} while (*at++ == ',');
	}
	return FM_OK;
}
