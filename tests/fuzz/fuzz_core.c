// SPDX-License-Identifier: Apache-2.0
// Core files, as anybody may hand them to `fathom dump --core`.
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "collect/process/core_file.h"

static void count(void *ctx, const struct fm_process_map *map)
{
	FUZZ_CHECK(map->start < map->end && map->path);
	++*(unsigned *)ctx;
}

static void touch(struct fm_core *core, uint64_t addr)
{
	uint8_t bytes[300];
	FUZZ_CHECK(fm_core_read(core, addr, bytes, sizeof(bytes)) <= sizeof(bytes));
}

static void touch_map(void *ctx, const struct fm_process_map *map)
{
	struct fm_core *core = ctx;
	touch(core, map->start);
	touch(core, map->end - 1);
	int fd = fm_core_open_file(core, map->path);
	if (fd >= 0)
		close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	char path[64];
	struct fm_core *core;
	if (fd < 0)
		fd = memfd_create("core", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fm_core_open(path, &core, NULL))
		return 0;
	unsigned n = 0;
	const char *first = "";
	FUZZ_CHECK(fm_core_n_threads(core) > 0);
	for (size_t i = 0; i < fm_core_n_threads(core); i++)
		FUZZ_CHECK(fm_core_thread_at(core, i)->registers_bytes > 0);
	fm_core_maps(core, count, &n);
	fm_core_maps(core, touch_map, core);
	touch(core, 0);
	touch(core, UINT64_MAX - 10);
	fm_core_n_replaced(core, &first);
	fm_core_close(core);
	return 0;
}
