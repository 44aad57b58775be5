// SPDX-License-Identifier: Apache-2.0
// Calls that the loader bound past us. Preloading reaches every library that is bound in the usual
// way. It does not reach one that was opened with RTLD_DEEPBIND, and none at all when the agent
// itself was imported by a running program. There the slots through which a library calls (its
// global offset table) are pointed at our functions, and back again when a late capture ends.
//
// A slot is judged by what it holds: the address of the very function that ours would call, and no
// other, is replaced. So a library that is bound to an allocator of its own keeps it, and a block
// always goes back to where it came from.
//
// All of it happens inside dl_iterate_phdr, under the loader's own lock: no library is unloaded
// meanwhile, and no two threads bind at once. Nothing in here allocates, can be cancelled, or calls
// what the program may have replaced by a function that asks dlsym.
#include "agent/memory.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "agent/agent.h"
#include "base/compiler.h"
#include "sigsafe/memory/alloc.h"
#include "sigsafe/tick/handlers.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/state.h"

#if defined(__x86_64__)
#define TYPE_JUMP_SLOT R_X86_64_JUMP_SLOT
#define TYPE_GLOB_DAT R_X86_64_GLOB_DAT
#else
#define TYPE_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define TYPE_GLOB_DAT R_AARCH64_GLOB_DAT
#endif

#define MAX_BINDINGS 64u // names that we stand in front of: 49

static struct binding {
	const char *name;
	uintptr_t ours, theirs; // theirs: what ours calls
	enum what { OF_MEMORY, OF_PROGRAMS, OF_SIGNALS } what;
} bindings[MAX_BINDINGS];
static unsigned n_bindings;
static unsigned n_known; // so many of them; behind these, what libraries define themselves and may have more than one
			 // of (Arrow)
static uintptr_t libc_address, loader_start, page_bytes;

// Under the loader's lock: which libraries were looked at. New ones stand behind those that were
// there before.
static bool is_bound, is_memory_bound, is_signals_bound; // anything; and of it, these
static unsigned long long n_adds_seen, n_subs_seen;
static unsigned n_images_seen;

struct image {
	uintptr_t start, end, bias;
	uintptr_t sealed_start, sealed_end; // what the loader made read-only when it was done (RELRO)
	bool is_open, is_refused;           // that part, by us
	uintptr_t symbols, names;
	uintptr_t tables[2];
	size_t sizes[2]; // of the tables of relocations, in bytes
};

bool fm_agent_image_range(const struct dl_phdr_info *info, uintptr_t *ret_start, uintptr_t *ret_end)
{
	uintptr_t start = UINTPTR_MAX, end = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type != PT_LOAD)
			continue;
		start = FM_MIN(start, (info->dlpi_addr + ph->p_vaddr) & ~4095ul);
		end = FM_MAX(end, info->dlpi_addr + ph->p_vaddr + ph->p_memsz);
	}
	*ret_start = start;
	*ret_end = end;
	return start < end;
}

// ---- one library ----

static bool read_dynamic(struct image *m, uintptr_t pos, uintptr_t end)
{
	size_t n_relative = 0;
	bool has_addends = true;
	for (; pos + sizeof(ElfW(Dyn)) <= end; pos += sizeof(ElfW(Dyn))) {
		const ElfW(Dyn) *dyn = (const void *)pos;
		if (dyn->d_tag == DT_NULL)
			break;
		uintptr_t ptr = dyn->d_un.d_ptr;
		if (ptr < m->start) // the loader relocates these in place, but not for every image
			ptr += m->bias;
		switch (dyn->d_tag) {
		case DT_SYMTAB:
			m->symbols = ptr;
			break;
		case DT_STRTAB:
			m->names = ptr;
			break;
		case DT_JMPREL:
			m->tables[0] = ptr;
			break;
		case DT_PLTRELSZ:
			m->sizes[0] = dyn->d_un.d_val;
			break;
		case DT_PLTREL:
			has_addends = dyn->d_un.d_val == DT_RELA;
			break;
		case DT_RELA:
			m->tables[1] = ptr;
			break;
		case DT_RELASZ:
			m->sizes[1] = dyn->d_un.d_val;
			break;
		case DT_RELACOUNT:
			n_relative = dyn->d_un.d_val;
			break;
		}
	}
	// Those that name no symbol stand first, and are most of them.
	size_t skipped = FM_MIN(n_relative * sizeof(ElfW(Rela)), m->sizes[1]);
	m->tables[1] += skipped;
	m->sizes[1] -= skipped;
	for (unsigned i = 0; i < 2; i++)
		if (m->tables[i] < m->start || m->tables[i] + m->sizes[i] > m->end)
			m->sizes[i] = 0;
	return has_addends && m->symbols >= m->start && m->symbols < m->end && m->names >= m->start &&
	       m->names < m->end;
}

static bool describe(struct dl_phdr_info *info, struct image *ret)
{
	*ret = (struct image){ .bias = info->dlpi_addr };
	uintptr_t dynamic = 0, dynamic_end = 0;
	if (!fm_agent_image_range(info, &ret->start, &ret->end))
		return false;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + ph->p_vaddr;
		if (ph->p_type == PT_DYNAMIC) {
			dynamic = at;
			dynamic_end = at + ph->p_memsz;
		} else if (ph->p_type == PT_GNU_RELRO) { // whole pages only, as the loader has it
			ret->sealed_start = at & ~(page_bytes - 1);
			ret->sealed_end = (at + ph->p_memsz) & ~(page_bytes - 1);
		}
	}
	return dynamic >= ret->start && dynamic_end <= ret->end && read_dynamic(ret, dynamic, dynamic_end);
}

static bool is_within(const struct image *m, uintptr_t address)
{
	return address >= m->start && address < m->end;
}

// Whether the kernel has this page as read-only, by /proc/self/maps ("start-end perms ...", in
// order). By bare system calls: libc's could be cancelled, and the loader's lock is held.
static bool is_read_only(uintptr_t address)
{
	char bytes[2048];
	uintptr_t number = 0, start = 0;
	enum { IN_START, IN_END, IN_PERMS, IN_REST } part = IN_START;
	long fd = fm_system_call(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0), n = 0;
	bool is_found = false, is_it = false;
	unsigned n_perms = 0;
	while (fd >= 0 && !is_found && (n = fm_system_call(SYS_read, fd, (long)bytes, sizeof(bytes), 0)) > 0)
		for (long i = 0; i < n && !is_found; i++) {
			// NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): the kernel has filled it
			char c = bytes[i];
			if (c == '\n') {
				part = IN_START;
				number = 0;
			} else if (part == IN_START && c == '-') {
				start = number;
				number = 0;
				part = IN_END;
			} else if (part == IN_END && c == ' ') {
				part = address >= start && address < number ? IN_PERMS : IN_REST;
				n_perms = 0;
			} else if (part <= IN_END) {
				number = number << 4 | (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10);
			} else if (part == IN_PERMS && ++n_perms == 2) {
				is_found = true;
				is_it = c == '-';
			}
		}
	if (fd >= 0)
		fm_system_call(SYS_close, fd, 0, 0, 0);
	return is_it;
}

// To make it read-only is the loader's last step with a library. One that can still be written is
// on its way in another thread: it waits for the next look.
static bool protect_sealed(const struct image *m, int protection)
{
	return fm_system_call(SYS_mprotect, (long)m->sealed_start, (long)(m->sealed_end - m->sealed_start), protection,
			      0) == 0;
}

static bool open_sealed(struct image *m)
{
	if (!m->is_open && !m->is_refused) {
		m->is_open = is_read_only(m->sealed_start) && protect_sealed(m, PROT_READ | PROT_WRITE);
		m->is_refused = !m->is_open;
	}
	return m->is_open;
}

static void close_sealed(struct image *m)
{
	if (m->is_open)
		protect_sealed(m, PROT_READ);
}

// ---- all of them ----

struct look {
	bool is_undone;      // slots get back what they held,
	bool is_of_signals;  // of these and no others; else of all but these
	bool is_malloc_sole; // nobody but libc defines malloc: what a slot will be bound to is known
	unsigned n_images, n_mallocs;
};

static bool is_memory_wanted(void)
{
	return atomic_load_explicit(&fm_sig_alloc_is_on, memory_order_acquire);
}

// A late capture: the program's own handler of the tick's signal goes through us, or it would get
// ticks.
static bool is_signal_wanted(void)
{
	return fm_sig.is_late && fm_sig_is_held(FM_TICK_SIGNAL) && fm_sig.header &&
	       !atomic_load(&fm_sig.counts->is_over);
}

static bool is_binding_wanted(const struct binding *b)
{
	return b->what == OF_PROGRAMS || (b->what == OF_MEMORY ? is_memory_wanted() : is_signal_wanted());
}

static const struct binding *find_binding(const char *name)
{
	for (unsigned i = 0; i < n_known; i++)
		if (!strcmp(bindings[i].name, name))
			return is_binding_wanted(&bindings[i]) ? &bindings[i] : NULL;
	return NULL;
}

// The function that a slot should hold; 0 = what it holds.
static uintptr_t choose(const struct look *look, const struct image *m, const ElfW(Rela) * r, uintptr_t now)
{
	if (!now) // a weak symbol that nobody defines, as the library can tell; so is the function of a hook that there
		  // is not
		return 0;
	for (unsigned i = 0; i < n_bindings; i++)
		if (look->is_undone ? now == bindings[i].ours && (bindings[i].what == OF_SIGNALS) == look->is_of_signals
				    : now == bindings[i].theirs && is_binding_wanted(&bindings[i]))
			return look->is_undone ? bindings[i].theirs : bindings[i].ours;
	// Not bound yet: it leads back into the library, to the code that will ask the loader.
	const ElfW(Sym) *symbol = (const ElfW(Sym) *)m->symbols + ELF64_R_SYM(r->r_info);
	if (look->is_undone || ELF64_R_TYPE(r->r_info) != TYPE_JUMP_SLOT || !is_within(m, now) ||
	    symbol->st_shndx != SHN_UNDEF)
		return 0;
	const struct binding *b = find_binding((const char *)m->names + symbol->st_name);
	return b && (look->is_malloc_sole || b->what != OF_MEMORY) ? b->ours : 0;
}

static void bind_slot(struct look *look, struct image *m, const ElfW(Rela) * r)
{
	uintptr_t at = m->bias + r->r_offset;
	if ((ELF64_R_TYPE(r->r_info) != TYPE_JUMP_SLOT && ELF64_R_TYPE(r->r_info) != TYPE_GLOB_DAT) || at & 7 ||
	    !is_within(m, at))
		return;
	_Atomic uintptr_t *slot = (void *)at;
	uintptr_t now = atomic_load_explicit(slot, memory_order_relaxed), wanted = choose(look, m, r, now);
	if (!wanted || (at >= m->sealed_start && at < m->sealed_end && !open_sealed(m)))
		return;
	// The library's threads may be calling through it.
	if (atomic_compare_exchange_strong(slot, &now, wanted) && wanted == bindings[0].ours)
		look->n_mallocs++;
}

// We ourselves, libc and the loader (which the kernel does not name when it was started as a
// program; then by a function of its).
static bool is_left_alone(const struct image *m)
{
	return is_within(m, fm_sig.own_start) || is_within(m, libc_address) || m->start == loader_start ||
	       (fm_sig.tls_helper_start && is_within(m, fm_sig.tls_helper_start));
}

static int count_malloc(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct look *look = arg;
	struct image m;
	(void)size;
	if (describe(info, &m) && !is_left_alone(&m) && fm_agent_symbol(m.start, m.end, m.bias, "malloc", NULL))
		look->is_malloc_sole = false;
	return 0;
}

static void find_own(const struct image *m)
{
	for (unsigned i = n_known; i < n_bindings; i++)
		bindings[i].theirs = fm_agent_symbol(m->start, m->end, m->bias, bindings[i].name, NULL);
}

static int bind_image(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct look *look = arg;
	struct image m;
	(void)size;
	if (look->n_images++ < n_images_seen || !describe(info, &m) || is_left_alone(&m))
		return 0;
	find_own(&m);
	for (unsigned i = 0; i < 2; i++)
		for (size_t at = 0; at + sizeof(ElfW(Rela)) <= m.sizes[i]; at += sizeof(ElfW(Rela)))
			bind_slot(look, &m, (const void *)(m.tables[i] + at));
	close_sealed(&m);
	return 0;
}

static bool is_wanted(void)
{
	return n_bindings && (is_memory_wanted() || fm_agent_exec_is_followed() || is_signal_wanted());
}

// Called for the first image and no other; the lock lets one thread in again.
static int look_at_all(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct look *look = arg;
	(void)size;
	bool *is_any_bound = look->is_of_signals ? &is_signals_bound : &is_bound;
	if (look->is_undone && !*is_any_bound)
		return 1;
	if (look->is_undone) {
		*is_any_bound = false;
		is_memory_bound &= look->is_of_signals;
		n_images_seen = 0;
		dl_iterate_phdr(bind_image, look);
		return 1;
	}
	bool has_new_kind = (is_signal_wanted() && !is_signals_bound) || (is_memory_wanted() && !is_memory_bound);
	if (!is_wanted() || (is_bound && !has_new_kind && info->dlpi_adds == n_adds_seen))
		return 1;
	if (!is_bound || has_new_kind || info->dlpi_subs != n_subs_seen)
		n_images_seen = 0; // one was unloaded: the others may have moved up
	look->is_malloc_sole = true;
	dl_iterate_phdr(count_malloc, look);
	dl_iterate_phdr(bind_image, look);
	is_bound = true;
	is_memory_bound |= is_memory_wanted();
	is_signals_bound |= is_signal_wanted();
	n_images_seen = look->n_images;
	n_adds_seen = info->dlpi_adds;
	n_subs_seen = info->dlpi_subs;
	return 1;
}

static void add(const struct fm_agent_hook *hooks, enum what what)
{
	for (; hooks->name && n_bindings < MAX_BINDINGS; hooks++) {
		uintptr_t theirs = (uintptr_t)(hooks->theirs ? hooks->theirs : fm_agent_next_symbol(hooks->name));
		if (theirs) // a libc may be older than a name
			bindings[n_bindings++] = (struct binding){ hooks->name, (uintptr_t)hooks->ours, theirs, what };
	}
}

void fm_agent_bind_prepare(void)
{
	if (n_bindings)
		return;
	libc_address = (uintptr_t)fm_agent_next_symbol("gnu_get_libc_version");
	loader_start = getauxval(AT_BASE);
	page_bytes = getauxval(AT_PAGESZ);
	if (!libc_address || !page_bytes)
		return;
	add(fm_agent_malloc_hooks, OF_MEMORY); // malloc first
	add(fm_agent_map_hooks, OF_MEMORY);
	add(fm_agent_copy_hooks, OF_MEMORY);
	add(fm_agent_library_hooks, OF_PROGRAMS);
	add(fm_agent_exec_hooks, OF_PROGRAMS);
	add(fm_agent_signal_hooks, OF_SIGNALS);
	add(fm_agent_signal_wait_hooks, OF_SIGNALS);
	add(fm_agent_sandbox_hooks, OF_SIGNALS);
	add(fm_agent_answer_hooks, OF_MEMORY);
	n_known = n_bindings;
	for (const struct fm_agent_hook *hook = fm_agent_arrow_hooks; hook->name && n_bindings < MAX_BINDINGS; hook++)
		bindings[n_bindings++] = (struct binding){ hook->name, (uintptr_t)hook->ours, 0, OF_MEMORY };
}

bool fm_agent_bind_all(void)
{
	struct look look = { 0 };
	dl_iterate_phdr(look_at_all, &look);
	return look.n_mallocs > 0;
}

void fm_agent_unbind_all(void)
{
	struct look look = { .is_undone = true };
	dl_iterate_phdr(look_at_all, &look);
}

void fm_agent_unbind_signals(void)
{
	struct look look = { .is_undone = true, .is_of_signals = true };
	dl_iterate_phdr(look_at_all, &look);
}

// ---- libraries that are loaded later ----

// A program that has opened a library asks for one of its functions next, and that is where we
// look. The question itself must come from the program: libc goes by who asks. So ours is no call
// but a jump, after a look.

static int find_dlsym(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t start, end, *ret = arg;
	(void)size;
	if (!fm_agent_image_range(info, &start, &end) || (start <= fm_sig.own_start && fm_sig.own_start < end))
		return 0;
	*ret = fm_agent_symbol(start, end, info->dlpi_addr, "dlsym", NULL);
	return *ret != 0;
}

static void *no_dlsym(void *handle, const char *name)
{
	(void)handle;
	(void)name;
	return NULL;
}

void *fm_agent_before_dlsym(void);
__attribute__((used)) void *fm_agent_before_dlsym(void)
{
	static _Atomic uintptr_t real;
	uintptr_t fn = atomic_load_explicit(&real, memory_order_relaxed);
	if (FM_UNLIKELY(!fn)) {
		fm_agent_find_self();
		dl_iterate_phdr(find_dlsym, &fn); // not by dlsym, which is the question
		atomic_store_explicit(&real, fn, memory_order_relaxed);
	}
	if (is_wanted()) {
		int saved_errno = errno;
		fm_agent_bind_all();
		errno = saved_errno;
	}
	return fn ? (void *)fn : (void *)no_dlsym;
}

extern void *fm_agent_dlsym(void *handle, const char *name);

// The address sanitizer's runtime asks for all functions that it stands in front of before there is
// any of the memory in which code that it instruments looks first. So a sanitized agent does not
// stand in its way.
#ifdef __SANITIZE_ADDRESS__
#define DLSYM_LABEL ""
#define DLSYM_SIZE ""
#else
#define DLSYM_SIZE ".size dlsym, . - dlsym\n"
#define DLSYM_LABEL ".globl dlsym\n.type dlsym, @function\ndlsym:\n"
#endif

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".globl fm_agent_dlsym\n"
	".hidden fm_agent_dlsym\n"
	".type fm_agent_dlsym, @function\n" DLSYM_LABEL "fm_agent_dlsym:\n"
	".cfi_startproc\n"
	"	pushq %rdi\n"
	".cfi_adjust_cfa_offset 8\n"
	"	pushq %rsi\n"
	".cfi_adjust_cfa_offset 8\n"
	"	subq $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"	call fm_agent_before_dlsym\n"
	"	addq $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	".cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	".cfi_adjust_cfa_offset -8\n"
	"	jmp *%rax\n"
	".cfi_endproc\n"
	".size fm_agent_dlsym, . - fm_agent_dlsym\n" DLSYM_SIZE ".popsection\n");
#else
// A tail call, in any build that optimises.
__attribute__((visibility("hidden"))) void *fm_agent_dlsym(void *handle, const char *name)
{
	return ((void *(*)(void *, const char *))fm_agent_before_dlsym())(handle, name);
}
__attribute__((visibility("default"))) void *dlsym(void *restrict handle, const char *restrict name)
	__attribute__((alias("fm_agent_dlsym")));
#endif
