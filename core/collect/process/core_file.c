// SPDX-License-Identifier: Apache-2.0
#include "collect/process/core_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bisect.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/mem.h"

// A process may have 65,530 mappings unless its system was told otherwise, and a page of notes for
// each of its threads.
#define MAX_SEGMENTS (1u << 22)
#define MAX_NOTE_BYTES (256u << 20)
#define MAX_FILES 16384u
#define PAGE 4096u
#define COMMAND_BYTES 80u // pr_psargs

struct segment {
	uint64_t start, end;   // in memory
	uint64_t off, in_core; // where it is in the core, and how much of it
	bool is_executable;
};

struct mapped {
	uint64_t start, end, off;
	const char *path; // in the notes
	uint32_t file;    // of core->files
};

struct backing {
	const char *path;
	int fd; // -1: none
	bool is_looked_at, is_replaced;
};

struct fm_core {
	int fd;
	uint64_t size;
	FM_VEC(struct segment) segments; // by address
	FM_VEC(struct mapped) mapped;    // by address
	FM_VEC(struct backing) files;
	FM_VEC(struct fm_core_thread) threads;
	uint8_t *notes;
	uint32_t pid;
	int signal;
	bool is_cut;
	char command[COMMAND_BYTES + 1];
};

static bool read_at(int fd, uint64_t off, void *to, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, (char *)to + done, len - done, (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

// ---- notes ----

static void take_thread(struct fm_core *core, const uint8_t *note, size_t len)
{
	struct elf_prstatus status;
	if (len < sizeof(status))
		return;
	memcpy(&status, note, sizeof(status));
	struct fm_core_thread thread = { (uint32_t)status.pr_pid, note + offsetof(struct elf_prstatus, pr_reg),
					 sizeof(status.pr_reg) };
	if (!core->threads.n)
		core->signal = status.pr_cursig;
	fm_vec_push(&core->threads, thread);
}

static void take_process(struct fm_core *core, const uint8_t *note, size_t len)
{
	struct elf_prpsinfo info;
	if (len < sizeof(info))
		return;
	memcpy(&info, note, sizeof(info));
	core->pid = (uint32_t)info.pr_pid;
	memcpy(core->command, info.pr_psargs, sizeof(info.pr_psargs));
	for (size_t n = strlen(core->command); n && core->command[n - 1] == ' ';)
		core->command[--n] = 0;
}

static uint32_t file_of(struct fm_core *core, const char *path)
{
	for (size_t i = core->files.n; i-- > 0;) // mappings of one file stand together
		if (!strcmp(core->files.items[i].path, path))
			return (uint32_t)i;
	struct backing file = { .path = path, .fd = -1 };
	fm_vec_push(&core->files, file);
	return (uint32_t)(core->files.n - 1);
}

// NT_FILE: a count, the unit of offsets, start, end and offset of each mapping, then their paths.
static void take_files(struct fm_core *core, const uint8_t *note, size_t len)
{
	struct fm_cursor c = fm_cursor_over(note, len);
	uint64_t n = fm_cursor_u64(&c), unit = fm_cursor_u64(&c);
	if (c.err || n > fm_cursor_left(&c) / 24)
		return;
	const char *path = (const char *)c.pos + n * 24, *end = (const char *)c.end;
	for (uint64_t i = 0; i < n; i++) {
		struct mapped m = { .path = path };
		m.start = fm_cursor_u64(&c);
		m.end = fm_cursor_u64(&c);
		m.off = fm_cursor_u64(&c) * unit;
		const char *nul = memchr(path, 0, (size_t)(end - path));
		if (!nul)
			return;
		path = nul + 1;
		if (m.start >= m.end || core->files.n == MAX_FILES)
			continue;
		m.file = file_of(core, m.path);
		fm_vec_push(&core->mapped, m);
	}
}

// A note's name and bytes are padded to four each.
static const uint8_t *padded(struct fm_cursor *c, uint32_t len)
{
	const uint8_t *p = fm_cursor_bytes(c, len);
	fm_cursor_bytes(c, FM_MIN((size_t)(-len & 3u), fm_cursor_left(c)));
	return p;
}

static void take_notes(struct fm_core *core, const uint8_t *notes, size_t len)
{
	struct fm_cursor c = fm_cursor_over(notes, len);
	while (!c.err && fm_cursor_left(&c) >= 12) {
		uint32_t name_len = fm_cursor_u32(&c), note_len = fm_cursor_u32(&c), type = fm_cursor_u32(&c);
		const uint8_t *name = padded(&c, name_len), *note = padded(&c, note_len);
		if (c.err || name_len != 5 || memcmp(name, "CORE", 5) != 0)
			continue;
		if (type == NT_PRSTATUS)
			take_thread(core, note, note_len);
		else if (type == NT_PRPSINFO)
			take_process(core, note, note_len);
		else if (type == NT_FILE)
			take_files(core, note, note_len);
	}
}

static enum fm_err read_notes(struct fm_core *core, const Elf64_Phdr *h, struct fm_diag *diag)
{
	if (core->notes || h->p_filesz > MAX_NOTE_BYTES)
		return FM_OK; // a core has one of them
	core->notes = fm_alloc(h->p_filesz + 1);
	if (!read_at(core->fd, h->p_offset, core->notes, h->p_filesz))
		return fm_diag_set(diag, FM_E_TRUNCATED,
				   "the core file ends before its list of threads: raise 'ulimit -c'");
	take_notes(core, core->notes, h->p_filesz);
	return FM_OK;
}

// ---- segments ----

static void take_segment(struct fm_core *core, const Elf64_Phdr *h)
{
	struct segment s = { h->p_vaddr, h->p_vaddr + h->p_memsz, h->p_offset, h->p_filesz, h->p_flags & PF_X };
	if (s.end <= s.start)
		return;
	s.in_core = FM_MIN(s.in_core, h->p_memsz);
	uint64_t there = h->p_offset < core->size ? core->size - h->p_offset : 0;
	core->is_cut |= s.in_core > there;
	s.in_core = FM_MIN(s.in_core, there);
	fm_vec_push(&core->segments, s);
}

static int by_start(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b; // the first field of both
	return (x > y) - (x < y);
}

static enum fm_err read_header(struct fm_core *core, const char *path, Elf64_Ehdr *e, uint64_t *ret_n,
			       struct fm_diag *diag)
{
	if (!read_at(core->fd, 0, e, sizeof(*e)) || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 || e->e_type != ET_CORE)
		return fm_diag_set(diag, FM_E_BAD_MAGIC, "%s is not a core file", path);
#if defined(__x86_64__)
	bool is_ours = e->e_machine == EM_X86_64;
#else
	bool is_ours = false;
#endif
	if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_ident[EI_DATA] != ELFDATA2LSB || !is_ours ||
	    e->e_phentsize != sizeof(Elf64_Phdr))
		return fm_diag_set(diag, FM_E_UNSUPPORTED, "%s is of another architecture than this Fathom reads",
				   path);
	*ret_n = e->e_phnum;
	Elf64_Shdr first;
	if (e->e_phnum == PN_XNUM) { // more than fit there: the number is in the first section
		if (!e->e_shoff || !read_at(core->fd, e->e_shoff, &first, sizeof(first)))
			return fm_diag_set(diag, FM_E_TRUNCATED, "%s ends before its list of mappings", path);
		*ret_n = first.sh_info;
	}
	if (*ret_n > MAX_SEGMENTS)
		return fm_diag_set(diag, FM_E_CORRUPT, "%s is damaged: it claims to have %llu mappings", path,
				   (unsigned long long)*ret_n);
	return FM_OK;
}

static enum fm_err read_core(struct fm_core *core, const char *path, struct fm_diag *diag)
{
	Elf64_Ehdr e;
	uint64_t n = 0;
	enum fm_err err = read_header(core, path, &e, &n, diag);
	for (uint64_t i = 0; !err && i < n; i++) {
		Elf64_Phdr h;
		if (!read_at(core->fd, e.e_phoff + i * sizeof(h), &h, sizeof(h)))
			return fm_diag_set(diag, FM_E_TRUNCATED, "%s ends before its list of mappings", path);
		if (h.p_type == PT_NOTE)
			err = read_notes(core, &h, diag);
		else if (h.p_type == PT_LOAD)
			take_segment(core, &h);
	}
	if (!err && !core->threads.n)
		return fm_diag_set(diag, FM_E_CORRUPT,
				   "%s has no threads: it is damaged, or is not the core file of a process", path);
	if (core->segments.n)
		qsort(core->segments.items, core->segments.n, sizeof(*core->segments.items), by_start);
	if (core->mapped.n)
		qsort(core->mapped.items, core->mapped.n, sizeof(*core->mapped.items), by_start);
	return err;
}

enum fm_err fm_core_open(const char *path, struct fm_core **ret, struct fm_diag *diag)
{
	struct stat st;
	struct fm_core *core = fm_alloc(sizeof(*core));
	core->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	enum fm_err err = FM_OK;
	if (core->fd < 0 || fstat(core->fd, &st) != 0)
		err = fm_diag_set(diag, errno == ENOENT ? FM_E_NOT_FOUND : FM_E_IO, "cannot open %s: %s", path,
				  strerror(errno));
	else if (!S_ISREG(st.st_mode))
		err = fm_diag_set(diag, FM_E_BAD_MAGIC, "%s is not a core file", path);
	if (!err) {
		core->size = (uint64_t)st.st_size;
		err = read_core(core, path, diag);
	}
	if (err)
		fm_core_close(core);
	else
		*ret = core;
	return err;
}

void fm_core_close(struct fm_core *core)
{
	if (!core)
		return;
	for (size_t i = 0; i < core->files.n; i++)
		if (core->files.items[i].fd >= 0)
			close(core->files.items[i].fd);
	if (core->fd >= 0)
		close(core->fd);
	fm_vec_deinit(&core->segments);
	fm_vec_deinit(&core->mapped);
	fm_vec_deinit(&core->files);
	fm_vec_deinit(&core->threads);
	free(core->notes);
	free(core);
}

// ---- what is in it ----

uint32_t fm_core_pid(const struct fm_core *core)
{
	return core->pid ? core->pid : core->threads.items[0].tid;
}

int fm_core_signal(const struct fm_core *core)
{
	return core->signal;
}

struct fm_str fm_core_command(const struct fm_core *core)
{
	return fm_str_of(core->command);
}

size_t fm_core_n_threads(const struct fm_core *core)
{
	return core->threads.n;
}

const struct fm_core_thread *fm_core_thread_at(const struct fm_core *core, size_t i)
{
	return &core->threads.items[i];
}

bool fm_core_is_cut(const struct fm_core *core)
{
	return core->is_cut;
}

static const struct segment *segment_at(const struct fm_core *core, uint64_t addr)
{
	size_t at = fm_bisect(core->segments.n, i, core->segments.items[i].end <= addr);
	return at < core->segments.n && core->segments.items[at].start <= addr ? &core->segments.items[at] : NULL;
}

// From the core alone.
static size_t read_dumped(const struct fm_core *core, uint64_t addr, void *to, size_t len)
{
	const struct segment *s = segment_at(core, addr);
	if (!s || addr - s->start >= s->in_core)
		return 0;
	size_t n = FM_MIN(len, (size_t)(s->in_core - (addr - s->start)));
	return read_at(core->fd, s->off + (addr - s->start), to, n) ? n : 0;
}

// The kernel writes the first page of every mapped ELF file into the core, which has the build id
// in it: a file that begins otherwise is another one.
static bool is_replaced(const struct fm_core *core, uint32_t file, int fd)
{
	uint8_t then[PAGE], now[PAGE];
	for (size_t i = 0; i < core->mapped.n; i++) {
		const struct mapped *m = &core->mapped.items[i];
		if (m->file == file && m->off == 0 && read_dumped(core, m->start, then, sizeof(then)) == sizeof(then))
			return !read_at(fd, 0, now, sizeof(now)) || memcmp(then, now, sizeof(now)) != 0;
	}
	return false;
}

// What the threads ran. The core may come from a stranger, and other files that it names are not to
// be shown as its memory.
static bool is_elf(int fd)
{
	char magic[SELFMAG];
	return read_at(fd, 0, magic, sizeof(magic)) && !memcmp(magic, ELFMAG, SELFMAG);
}

static int file_at(struct fm_core *core, uint32_t file)
{
	struct backing *b = &core->files.items[file];
	struct stat st;
	if (b->is_looked_at)
		return b->fd;
	b->is_looked_at = true;
	int fd = b->path[0] == '/' ? open(b->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	bool is_file = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	b->is_replaced = is_file && is_replaced(core, file, fd);
	if (is_file && !b->is_replaced && is_elf(fd))
		return b->fd = fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static size_t read_mapped(struct fm_core *core, uint64_t addr, void *to, size_t len)
{
	size_t at = fm_bisect(core->mapped.n, i, core->mapped.items[i].end <= addr);
	if (at == core->mapped.n || core->mapped.items[at].start > addr)
		return 0;
	const struct mapped *m = &core->mapped.items[at];
	size_t n = FM_MIN(len, (size_t)(m->end - addr));
	int fd = file_at(core, m->file);
	return fd >= 0 && read_at(fd, m->off + (addr - m->start), to, n) ? n : 0;
}

size_t fm_core_read(struct fm_core *core, uint64_t addr, void *to, size_t len)
{
	size_t done = 0;
	while (done < len) {
		size_t n = read_dumped(core, addr + done, (char *)to + done, len - done);
		if (!n) // a page at a time: the next one may be in the core again
			n = read_mapped(core, addr + done, (char *)to + done,
					FM_MIN(len - done, (size_t)(PAGE - (addr + done) % PAGE)));
		if (!n)
			break;
		done += n;
	}
	return done;
}

void fm_core_maps(struct fm_core *core, fm_process_map_fn each, void *ctx)
{
	size_t next = 0;
	for (size_t i = 0; i < core->segments.n; i++) {
		const struct segment *s = &core->segments.items[i];
		while (next < core->mapped.n && core->mapped.items[next].end <= s->start)
			next++;
		const struct mapped *m = next < core->mapped.n && core->mapped.items[next].start <= s->start
						 ? &core->mapped.items[next]
						 : NULL;
		struct fm_process_map map = {
			.start = s->start,
			.end = s->end,
			.off = m ? m->off + (s->start - m->start) : 0,
			.inode = m ? m->file + 1 : 0,
			.is_executable = s->is_executable,
			.path = m ? m->path : "",
		};
		each(ctx, &map);
	}
}

int fm_core_open_file(struct fm_core *core, const char *path)
{
	for (size_t i = 0; i < core->files.n; i++)
		if (!strcmp(core->files.items[i].path, path)) {
			int fd = file_at(core, (uint32_t)i);
			return fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
		}
	return -1;
}

uint32_t fm_core_n_replaced(const struct fm_core *core, const char **ret_first)
{
	uint32_t n = 0;
	for (size_t i = 0; i < core->files.n; i++)
		if (core->files.items[i].is_replaced && n++ == 0)
			*ret_first = core->files.items[i].path;
	return n;
}
