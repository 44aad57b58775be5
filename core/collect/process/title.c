// SPDX-License-Identifier: Apache-2.0
#include "collect/process/proc.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/str.h"

#define FIRST_REST_NS 50000000u
#define MAX_REST_NS 2000000000u

static void find_rank(struct fm_process_title *t, uint32_t pid)
{
	// Open MPI's, MPICH's and its kin's, and Slurm's.
	static const char *const names[] = { "OMPI_COMM_WORLD_RANK=", "PMI_RANK=", "SLURM_PROCID=" };
	static char text[65536];
	size_t len = fm_process_read_proc(pid, "environ", text, sizeof(text));
	for (const char *at = text; at < text + len; at += strlen(at) + 1)
		for (size_t i = 0; i < FM_ARRAY_LEN(names); i++) {
			const char *value = at + strlen(names[i]);
			if (!strncmp(at, names[i], strlen(names[i])) && *value && strlen(value) < 10 &&
			    strspn(value, "0123456789") == strlen(value)) {
				snprintf(t->rank, sizeof(t->rank), "rank %.10s", value);
				return;
			}
		}
}

static size_t read_arguments(uint32_t pid, char *to, size_t cap)
{
	size_t n = fm_process_read_proc(pid, "cmdline", to, cap);
	while (n && (to[n - 1] == 0 || to[n - 1] == ' '))
		n--;
	return n;
}

void fm_title_init(struct fm_process_title *t, uint32_t pid)
{
	char text[4096];
	*t = (struct fm_process_title){ .rest_ns = FIRST_REST_NS };
	t->arguments = fm_hash_bytes(text, read_arguments(pid, text, sizeof(text)));
	find_rank(t, pid);
}

bool fm_title_is_due(struct fm_process_title *t, uint64_t now_ns)
{
	if (now_ns < t->due_ns)
		return false;
	t->due_ns = now_ns + t->rest_ns;
	t->rest_ns = FM_MIN(2 * t->rest_ns, (uint64_t)MAX_REST_NS);
	return true;
}

bool fm_title_look(struct fm_process_title *t, uint32_t pid, const char *python)
{
	char arguments[4096], now[FM_TITLE_BYTES];
	size_t len = read_arguments(pid, arguments, sizeof(arguments));
	snprintf(now, sizeof(now), "%s", t->rank);
	if (python && *python && strcmp(python, "MainProcess")) {
		snprintf(now, sizeof(now), "%s", python);
	} else if (len && fm_hash_bytes(arguments, len) != t->arguments) {
		for (size_t i = 0; i < len; i++)
			arguments[i] = (uint8_t)arguments[i] < ' ' || arguments[i] == 0x7f ? ' ' : arguments[i];
		snprintf(now, sizeof(now), "%.*s", (int)FM_MIN(len, sizeof(now) - 1), arguments);
	}
	if (!len || !strcmp(now, t->text)) // it has ended: it keeps its name
		return false;
	memcpy(t->text, now, sizeof(now));
	return true;
}
