// SPDX-License-Identifier: Apache-2.0
// Names of code that was made at run time: /tmp/perf-PID.map and jitdumps, which lie outside of
// perf.data. Somebody else may have put a file of that name there, so only our own are believed.
#include "import/perf_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/owner.h"
#include "image/jit.h"

// What is behind this is left out.
#define MAX_FILE_BYTES ((size_t)256 << 20)
#define PIECE_BYTES ((size_t)1 << 20)

struct fm_perf_jit {
	struct fm_code_ranges ranges;
	struct fm_map dumps; // paths that were read, by their address, which an image keeps
};

static bool read_all(const char *path, struct fm_buf *ret)
{
	const char *why;
	_cleanup_close_ int fd = fm_open_believed(path, getuid(), &why);
	while (fd >= 0 && ret->len < MAX_FILE_BYTES) {
		fm_buf_reserve(ret, PIECE_BYTES);
		ssize_t n = read(fd, ret->data + ret->len, PIECE_BYTES);
		if (n <= 0)
			break;
		ret->len += (size_t)n;
	}
	return ret->len > 0;
}

static bool read_map(struct fm_perf_jit *jit, uint32_t pid)
{
	char path[64];
	struct fm_buf text = { 0 };
	uint32_t n_bad = 0;
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
	bool is_there = read_all(path, &text);
	if (is_there)
		fm_perf_map_parse((const char *)text.data, text.len, 0, &jit->ranges, &n_bad);
	fm_buf_deinit(&text);
	return is_there;
}

void fm_perf_jit_close(struct fm_perf_jit *jit)
{
	if (jit) {
		fm_code_ranges_deinit(&jit->ranges);
		fm_map_deinit(&jit->dumps);
	}
	free(jit);
}

static struct fm_perf_jit *jit_of(struct fm_perf_process *p)
{
	if (p->jit)
		return p->jit;
	p->jit = fm_alloc(sizeof(*p->jit));
	if (!p->is_elsewhere && !read_map(p->jit, p->pid) && p->map_pid)
		read_map(p->jit, p->map_pid);
	return p->jit;
}

void fm_perf_jit_add_dump(struct fm_perf_process *p, const char *path)
{
	struct fm_buf bytes = { 0 };
	struct fm_jitdump dump = { 0 };
	size_t used;
	bool is_new;
	fm_map_at(&jit_of(p)->dumps, (uintptr_t)path, &is_new);
	if (!is_new) // it may be large, and the file may name it often
		return;
	// What comes after a damaged record is not to be had; what came before is named.
	if (!p->is_elsewhere && read_all(path, &bytes) &&
	    fm_jitdump_parse(&dump, bytes.data, bytes.len, 1, &jit_of(p)->ranges, NULL, NULL, &used) == FM_OK)
		fm_map_deinit(&p->frames);
	fm_jitdump_deinit(&dump);
	fm_buf_deinit(&bytes);
}

struct fm_str fm_perf_jit_name(struct fm_perf_process *p, uint64_t pc, uint64_t *ret_start)
{
	const struct fm_code_range *range = fm_code_ranges_find(&jit_of(p)->ranges, pc);
	if (!range)
		return FM_STR_LIT("");
	*ret_start = range->start;
	return range->name;
}
