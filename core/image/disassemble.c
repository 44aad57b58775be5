// SPDX-License-Identifier: Apache-2.0
#include "image/disassemble.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/owner.h"

// The public interface of Capstone 4 and 5 (capstone.h), as far as it is used.
typedef unsigned (*version_fn)(int *major, int *minor);
typedef int (*open_fn)(int arch, int mode, size_t *handle);
typedef int (*close_fn)(size_t *handle);
typedef void *(*malloc_fn)(size_t handle);
typedef void (*free_fn)(void *insn, size_t count);
typedef bool (*iter_fn)(size_t handle, const uint8_t **code, size_t *size, uint64_t *addr, void *insn);

#if defined(__x86_64__)
enum { CAPSTONE_ARCH = 3, CAPSTONE_MODE = 1 << 3, SMALLEST = 1 }; // CS_ARCH_X86, CS_MODE_64
#else
enum { CAPSTONE_ARCH = 1, CAPSTONE_MODE = 0, SMALLEST = 4 }; // CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN
#endif

// struct cs_insn of both: id, address and size stand where these do; bytes[] is longer in 5.
struct insn {
	unsigned id;
	uint64_t addr;
	uint16_t size;
	uint8_t bytes_and_text[24 + 32 + 160];
};
enum { MNEMONIC_BYTES = 32, BYTES_4 = 16, BYTES_5 = 24 };

struct capstone {
	open_fn open;
	close_fn close;
	malloc_fn alloc;
	free_fn release;
	iter_fn iter;
	size_t text_at; // in bytes_and_text
};

// `pip install capstone` leaves its library beside our package: .../fathom/_bin/fathom, .../capstone/lib/. It runs with
// our user's rights, so nobody else may have put it there: a program that lies elsewhere has any folder beside it.
static void *load_beside(void)
{
	static const char program[] = "/fathom/_bin/fathom", below[] = "/capstone/lib/libcapstone.so";
	char path[PATH_MAX + sizeof(below)];
	const char *why;
	ssize_t len = readlink("/proc/self/exe", path, PATH_MAX) - (ssize_t)(sizeof(program) - 1);
	if (len < 0 || memcmp(path + len, program, sizeof(program) - 1) != 0)
		return NULL;
	memcpy(path + len, below, sizeof(below));
	_cleanup_close_ int fd = fm_open_believed(path, geteuid(), &why);
	if (fd < 0)
		return NULL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *load(void)
{
	const char *named = getenv("FATHOM_CAPSTONE");
	if (named && *named)
		return dlopen(named, RTLD_NOW | RTLD_LOCAL);
	void *library = load_beside();
	for (unsigned i = 0; !library && i < 2; i++)
		library = dlopen(i ? "libcapstone.so.4" : "libcapstone.so.5", RTLD_NOW | RTLD_LOCAL);
	return library;
}

static bool find(struct capstone *ret)
{
	void *library = load();
	version_fn version = library ? (version_fn)dlsym(library, "cs_version") : NULL;
	if (!version)
		return false;
	int major = 0, minor = 0;
	version(&major, &minor);
	if (major != 4 && major != 5) // the layout of another is not known
		return false;
	*ret = (struct capstone){ (open_fn)dlsym(library, "cs_open"),        (close_fn)dlsym(library, "cs_close"),
				  (malloc_fn)dlsym(library, "cs_malloc"),    (free_fn)dlsym(library, "cs_free"),
				  (iter_fn)dlsym(library, "cs_disasm_iter"), major == 4 ? BYTES_4 : BYTES_5 };
	return ret->open && ret->close && ret->alloc && ret->release && ret->iter;
}

bool fm_disassembler_is_there(void)
{
	struct capstone unused;
	return find(&unused);
}

enum fm_err fm_disassemble(const uint8_t *code, size_t len, uint64_t addr, fm_instruction_fn each, void *ctx)
{
	struct capstone c;
	size_t handle;
	if (!find(&c) || c.open(CAPSTONE_ARCH, CAPSTONE_MODE, &handle))
		return FM_E_UNSUPPORTED;
	struct insn *insn = c.alloc(handle);
	while (insn && len) {
		uint64_t at = addr;
		if (c.iter(handle, &code, &len, &addr, insn)) {
			const char *text = (const char *)insn->bytes_and_text + c.text_at;
			each(ctx, at, insn->size, text, text + MNEMONIC_BYTES);
			continue;
		}
		char bytes[SMALLEST * 5 + 1] = "";
		size_t n = FM_MIN(len, (size_t)SMALLEST);
		for (size_t i = 0; i < n; i++)
			snprintf(bytes + strlen(bytes), sizeof(bytes) - strlen(bytes), "%s0x%02x", i ? " " : "",
				 code[i]);
		each(ctx, at, (unsigned)n, ".byte", bytes);
		code += n, len -= n, addr += n;
	}
	if (insn)
		c.release(insn, 1);
	c.close(&handle);
	return FM_OK;
}
