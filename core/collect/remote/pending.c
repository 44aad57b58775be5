// SPDX-License-Identifier: Apache-2.0
#include "collect/remote/pending.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/process/file.h"
#include "collect/process/machine.h"
#include "collect/process/memory.h"
#include "collect/process/proc.h"
#include "collect/remote/parts.h"
#include "collect/remote/ring.h"
#include "collect/remote/room.h"

// Where glibc's struct pthread keeps the kernel's thread id (collect/remote/python.c).
#define PTHREAD_TID_OFFSET 720u
// A line with a path of some length; a longer one does not fit everywhere.
#define MIN_ROOM_BYTES 500u
#define MAX_LINE_BYTES 3000u

// An interpreter that ends makes no call any more, or too late.
static bool is_ending(struct fm_remote *r, const struct fm_remote_pending *p)
{
	uint64_t thread = 0;
	uint32_t finishing = 0;
	return !fm_remote_u64(r->memory, r->python.runtime + p->at.runtime_finalizing, &thread) || thread ||
	       (p->at.finishing &&
		(!fm_remote_u32(r->memory, r->python.runtime + p->at.finishing, &finishing) || finishing));
}

// ---- room for a line ----

// A library's data ends somewhere in its last page, and the rest of the page is nobody's. Of
// libraries that the program was linked with, which are never unloaded; not of the program itself,
// behind whose data the heap may begin, nor of the loader, which uses its own rest.
static bool is_for_good(const char *path)
{
	static const char *const names[] = { "libc.so.", "libc-2.", "libm.so.", "libm-2.", "libpthread", "libpython" };
	const char *name = strrchr(path, '/');
	for (size_t i = 0; name && i < FM_ARRAY_LEN(names); i++)
		if (strncmp(name + 1, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

// The mapping that ends with a library's last page.
struct last_page {
	uint64_t end;
	uint64_t start, off, inode;
	bool is_writable;
};

static void note_mapping(void *ctx, const struct fm_process_map *map)
{
	struct last_page *page = ctx;
	if (map->start < page->end && page->end <= map->end) {
		page->start = map->start;
		page->off = map->off;
		page->inode = map->inode;
		page->is_writable = map->is_writable;
	}
}

// What stands at the beginning of each line that goes there.
#define LINE_START                                                                              \
	"try:(__builtins__ if __builtins__.__class__=={}.__class__ else __builtins__.__dict__)" \
	"['exec'](r\"\"\"\n"

// Of a line that a Fathom has left behind which was killed, with the 0 at its end; 0 = there is none.
static uint32_t length_left_over(const uint8_t *bytes, uint32_t len)
{
	const uint8_t *end = memchr(bytes, 0, len);
	uint32_t n = end ? (uint32_t)(end - bytes) + 1 : 0;
	return n > strlen(LINE_START) && memcmp(bytes, LINE_START, strlen(LINE_START)) == 0 ? n : 0;
}

// True: nobody but us has written there since the library was loaded. Behind the data of a page that
// has no zeroed part stands what is in the file. ret_was: what is there without us.
static bool is_untouched(struct fm_remote *r, const char *path, const struct last_page *page, uint64_t addr,
			 uint32_t len, uint8_t *ret_was, uint32_t *ret_left_over)
{
	static const uint8_t zeros[FM_REMOTE_PAGE_BYTES];
	uint8_t expected[FM_REMOTE_PAGE_BYTES] = { 0 }, bytes[FM_REMOTE_PAGE_BYTES];
	if (page->inode) {
		_cleanup_close_ int fd = fm_process_open(r->pid, path);
		if (fd < 0 || pread(fd, expected, len, (off_t)(page->off + (addr - page->start))) < 0)
			return false;
	}
	if (!fm_remote_read(r->memory, addr, bytes, len))
		return false;
	uint32_t n = *ret_left_over = length_left_over(bytes, len);
	bool is_of_file = memcmp(bytes + n, expected + n, len - n) == 0;
	memcpy(ret_was, is_of_file ? expected : zeros, len);
	return is_of_file || memcmp(bytes + n, zeros, len - n) == 0;
}

static void find_room(struct fm_remote *r, bool is_sole, struct fm_remote_pending *p)
{
	const struct fm_remote_image *at, *image;
	for (size_t i = 0; (at = fm_remote_images_at(r->images, i)); i++)
		if (strstr(at->path, "/ld-musl")) // gives such rests to its malloc, and the agent is for glibc
			return;
	for (size_t i = 0; (at = fm_remote_images_at(r->images, i)); i++) {
		if (!is_for_good(at->path) || !(image = fm_remote_images_find(r->images, at->map_start)) ||
		    !image->file)
			continue;
		// A byte stays between: whoever reads a text at the end of the data meets its end.
		uint64_t start = (image->end + 16) / 16 * 16;
		struct last_page page = { .end = (image->end + FM_REMOTE_PAGE_BYTES - 1) / FM_REMOTE_PAGE_BYTES *
						 FM_REMOTE_PAGE_BYTES };
		if (page.end < start + MIN_ROOM_BYTES || page.end - start <= p->room_bytes)
			continue;
		fm_process_maps(r->pid, note_mapping, &page);
		uint32_t len = (uint32_t)(page.end - start), n_left_over;
		uint8_t was[FM_REMOTE_PAGE_BYTES];
		if (page.is_writable && is_untouched(r, image->path, &page, start, len, was, &n_left_over) &&
		    (is_sole || !n_left_over)) {
			memcpy(p->room_was, was, len);
			p->is_left_over = p->is_written = n_left_over > 0;
			p->room = start;
			p->room_bytes = len;
		}
	}
}

// ---- finding ----

static uint64_t symbol(struct fm_remote *r, const char *name, uint64_t *ret_size)
{
	const struct fm_remote_image *image = fm_remote_images_find(r->images, r->python.addr);
	uint64_t addr;
	return image && image->file && fm_unwind_file_symbol(image->file, name, &addr, ret_size) == FM_OK
		       ? image->bias + addr
		       : 0;
}

static bool read_code(struct fm_remote *r, const char *name, uint8_t *to, uint64_t *ret_len)
{
	uint64_t addr = symbol(r, name, ret_len);
	if (*ret_len > FM_PY_PENDING_CODE_BYTES)
		*ret_len = FM_PY_PENDING_CODE_BYTES;
	return addr && *ret_len && fm_remote_read(r->memory, addr, to, *ret_len);
}

enum fm_err fm_remote_pending_find(struct fm_remote *r, uint32_t hexversion, bool is_sole, struct fm_remote_pending *p,
				   struct fm_diag *diag)
{
	unsigned minor = hexversion >> 16 & 0xff;
	uint8_t code[FM_PY_PENDING_CODE_BYTES], caller[FM_PY_PENDING_CODE_BYTES];
	uint64_t len = 0, caller_len = 0, wait_len = 0;
	struct fm_remote_ring ring;
	*p = (struct fm_remote_pending){ 0 };
	if (fm_pyabi_pending(minor, r->python.row.is_free_threaded, &p->at))
		return fm_diag_set(diag, FM_E_UNSUPPORTED,
				   "Fathom cannot load the agent into a running Python 3.%u%s; to observe process %u "
				   "from outside, leave out --memory, --trace and --inject",
				   minor, r->python.row.is_free_threaded ? " without a GIL" : "", r->pid);
	p->function = symbol(r, "PyRun_SimpleString", NULL);
	p->lock_wait = symbol(r, "PyThread_acquire_lock_timed", &wait_len);
	p->lock_wait_end = p->lock_wait + wait_len;
	bool is_known = p->function && read_code(r, "_PyEval_AddPendingCall", code, &len) &&
			read_code(r, "Py_AddPendingCall", caller, &caller_len) &&
			fm_pyabi_pending_is_in_code(&p->at, code, len, caller, caller_len);
	// It runs meanwhile: one look may meet it in the middle of a change.
	bool is_ring = false;
	for (int i = 0; is_known && !is_ring && i < 5; i++) {
		fm_remote_memory_begin(r->memory, r->pid);
		is_ring = fm_remote_ring_read(r, p, &ring);
	}
	if (!is_ring)
		return fm_diag_set(
			diag, FM_E_UNSUPPORTED,
			"cannot load the agent: the Python 3.%u of process %u is built in a way that Fathom does not "
			"know; to observe it from outside, leave out --memory, --trace and --inject",
			minor, r->pid);
	p->list_type = symbol(r, "PyList_Type", NULL);
	if (fm_remote_has_audit_hooks(r, p))
		return fm_diag_set(
			diag, FM_E_UNSUPPORTED,
			"cannot load the agent: process %u has audit hooks, which could forbid the script that loads "
			"it and then break the program; set FATHOM_AUDIT_HOOKS=1 if they forbid nothing, or leave out "
			"--memory, --trace and --inject to observe the process from outside",
			r->pid);
	find_room(r, is_sole, p);
	if (!p->room)
		return fm_diag_set(diag, FM_E_UNSUPPORTED,
				   "cannot load the agent: process %u has no C library that Fathom knows; to observe "
				   "it from outside, leave out --memory, --trace and --inject",
				   r->pid);
	return FM_OK;
}

// ---- writing ----

uint32_t fm_remote_pending_lines(const char *path, char *to, uint32_t cap)
{
	char quoted[MAX_LINE_BYTES];
	size_t n = 0;
	for (; *path && n + 5 < sizeof(quoted); path++)
		n += (size_t)snprintf(quoted + n, sizeof(quoted) - n,
				      isalnum((unsigned char)*path) || strchr("/._-", *path) ? "%c" : "\\x%02x",
				      (unsigned char)*path);
	int len = snprintf(to, cap,
			   "e=0\n"
			   "for i in 1,2,3:\n"
			   " try:\n"
			   "  with open(b'%s','rb',0)as f:s=f.read()\n"
			   "  exec(s,{'e':e})\n"
			   "  break\n"
			   " except BaseException as x:e=x\n"
			   "e=0\n",
			   quoted);
	return *path || len < 0 || (uint32_t)len >= cap ? 0 : (uint32_t)len + 1;
}

// Of the program's own main module, in which it is run, the line uses no name but the one that every
// module has, and it leaves none there. What is raised in it ends there.
static uint32_t write_line(const char *path, char *to, uint32_t cap)
{
	char lines[MAX_LINE_BYTES];
	if (!fm_remote_pending_lines(path, lines, sizeof(lines)))
		return 0;
	int len = snprintf(to, cap,
			   LINE_START "%s"
				      "\"\"\",{})\n"
				      "except:0\n",
			   lines);
	return len < 0 || (uint32_t)len >= cap ? 0 : (uint32_t)len + 1;
}

// 3.13 tells the thread that has the GIL; who takes it later sees how many calls wait. A holder
// that is in no list has ended meanwhile.
static bool tell_holder(struct fm_remote *r, const struct fm_remote_pending *p, uint64_t interp)
{
	uint64_t gil, holder, breaker;
	uint32_t is_locked;
	if (!fm_remote_u64(r->memory, interp + r->python.row.interp_gil, &gil) ||
	    !fm_remote_u32(r->memory, gil + FM_PY_GIL_LOCKED, &is_locked) || is_locked != 1 ||
	    !fm_remote_u64(r->memory, gil + FM_PY_GIL_LAST_HOLDER, &holder) || !fm_remote_has_state(r, holder) ||
	    !fm_remote_u64(r->memory, holder + p->at.eval_breaker, &breaker))
		return true;
	breaker |= FM_PY_CALLS_TO_DO;
	return fm_process_write(r->pid, holder + p->at.eval_breaker, &breaker, sizeof(breaker));
}

static bool signal_it(struct fm_remote *r, const struct fm_remote_pending *p, const struct fm_remote_ring *ring)
{
	uint32_t one = 1;
	return p->at.is_breaker_per_thread ? tell_holder(r, p, ring->at)
					   : fm_process_write(r->pid, ring->at + p->at.eval_breaker, &one, sizeof(one));
}

static bool is_as_it_was(struct fm_remote *r, const struct fm_remote_pending *p, uint32_t len)
{
	uint8_t bytes[MAX_LINE_BYTES];
	return fm_remote_read(r->memory, p->room, bytes, len) && memcmp(bytes, p->room_was, len) == 0;
}

bool fm_remote_pending_push(struct fm_remote *r, struct fm_remote_pending *p, const char *path)
{
	char line[MAX_LINE_BYTES];
	struct fm_remote_ring ring;
	uint32_t len = write_line(path, line, FM_MIN(p->room_bytes, (uint32_t)sizeof(line)));
	fm_remote_memory_begin(r->memory, r->pid);
	if (!len || !fm_remote_ring_read(r, p, &ring) || !fm_remote_ring_is_free(r, p, &ring) || is_ending(r, p) ||
	    fm_remote_has_audit_hooks(r, p) || (!p->is_written && !is_as_it_was(r, p, len)))
		return false;
	p->is_written = true;
	// The call that a killed one has left waiting would run the new line a second time.
	if (p->is_left_over && fm_remote_ring_take_out(r, p, &ring)) {
		fm_remote_memory_begin(r->memory, r->pid);
		if (!fm_remote_ring_read(r, p, &ring))
			return false;
	}
	p->is_left_over = false;
	return fm_process_write(r->pid, p->room, line, len) && fm_remote_ring_add(r, p, &ring) &&
	       signal_it(r, p, &ring);
}

bool fm_remote_pending_take_back(struct fm_remote *r, struct fm_remote_pending *p)
{
	struct fm_remote_ring ring;
	fm_remote_memory_begin(r->memory, r->pid);
	return fm_remote_ring_read(r, p, &ring) && fm_remote_ring_is_free(r, p, &ring) &&
	       fm_remote_ring_take_out(r, p, &ring);
}

void fm_remote_pending_clear(struct fm_remote *r, struct fm_remote_pending *p)
{
	if (p->is_written && fm_process_write(r->pid, p->room, p->room_was, p->room_bytes))
		p->is_written = false;
}

// ---- a main thread that waits ----

static uint32_t main_thread(struct fm_remote *r, const struct fm_remote_pending *p)
{
	uint64_t ident;
	uint32_t tid;
	return fm_remote_u64(r->memory, r->python.runtime + p->at.runtime_main_thread, &ident) && ident &&
			       fm_remote_u32(r->memory, ident + PTHREAD_TID_OFFSET, &tid)
		       ? tid
		       : 0;
}

uint32_t fm_remote_pending_thread(struct fm_remote *r, const struct fm_remote_pending *p)
{
	return p->at.is_for_main_thread ? main_thread(r, p) : 0;
}

// Frames from a semaphore's wait to PyThread_acquire_lock_timed().
#define LOCK_WAIT_FRAMES 8u

// Out of the C library, whose semaphores say that they were interrupted, right into Python's lock.
static bool waits_for_lock(struct fm_remote *r, const struct fm_remote_pending *p, const struct fm_remote_regs *regs,
			   const struct fm_remote_call *call)
{
	uint32_t max_frames = r->max_frames;
	if (!p->lock_wait || call->nr != SYS_futex)
		return false;
	r->native.n = r->frames.n = r->frame_addrs.n = r->runs.n = 0;
	r->max_frames = LOCK_WAIT_FRAMES;
	fm_remote_unwind(r, regs);
	r->max_frames = max_frames;
	for (size_t i = 0; i < r->native.n; i++) {
		uint64_t pc = r->native.items[i].pc;
		const struct fm_remote_image *image = fm_remote_images_find(r->images, pc);
		if (pc >= p->lock_wait && pc < p->lock_wait_end)
			return i > 0;
		if (!image || !is_for_good(image->path) || fm_remote_is_python(r, image))
			return false;
	}
	return false;
}

void fm_remote_pending_prepare(struct fm_remote *r, const struct fm_remote_pending *p)
{
	struct fm_remote_regs regs;
	struct fm_remote_call call;
	struct fm_urgent urgent;
	bool is_refused;
	fm_remote_memory_begin(r->memory, r->pid);
	uint32_t tid = main_thread(r, p);
	if (!tid || fm_process_state(r->pid, tid) != 'S')
		return;
	fm_urgent_begin(&urgent);
	bool is_stopped = fm_remote_stop(r->pid, tid, &regs, &call, &is_refused);
	if (is_stopped)
		fm_remote_go(tid);
	fm_urgent_end(&urgent);
	if (!is_stopped)
		return;
	fm_remote_memory_begin(r->memory, r->pid);
	(void)waits_for_lock(r, p, &regs, &call);
}

bool fm_remote_pending_wake_main_thread(struct fm_remote *r, const struct fm_remote_pending *p)
{
	struct fm_remote_regs regs;
	struct fm_remote_call call;
	fm_remote_memory_begin(r->memory, r->pid);
	uint32_t tid = main_thread(r, p);
	return tid && fm_remote_registers(tid, &regs, &call) && waits_for_lock(r, p, &regs, &call) &&
	       fm_remote_interrupt_call(tid);
}
