// SPDX-License-Identifier: Apache-2.0
// Compilers split the evaluator: its unlikely branches go to a second part,
// `_PyEval_EvalFrameDefault.cold`. On 3.8 and 3.9 the merge pairs evaluator frames with Python
// frames, so both parts must be known. The part's name is in .symtab only, which is not mapped; it
// is read from the file once at start. In a stripped interpreter a frame stopped in the cold part
// is not recognised, and its Python frame then stands one place off among the interpreter's own
// frames.
//
// What a call of a Python function goes through (leaf.c) is in part not exported either.
//
// In free-threaded builds the flag of the cycle collector says that some thread collects, not which
// one: the one with the collector's function on its stack. In a stripped interpreter the
// collector's time is the interpreter's.
#include "agent/agent.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "sigsafe/base/state.h"

static const char cold_name[] = "_PyEval_EvalFrameDefault.cold";
static const char *const entry_names[] = { "function_code_fastcall", "_PyEval_Vector", "_PyEval_MakeFrameVector",
					   "_PyEvalFramePushAndInit", "_PyFunction_Vectorcall" };
static const char collector_name[] = "gc_collect_main"; // or this and what the compiler appends: .cold, .isra.0

// What a call of a Python function goes through, when it is not exported.
static void note_entry(const char *name, size_t room, uintptr_t start, uintptr_t end)
{
	struct fm_sig_python *py = &fm_sig.python;
	bool is_one = false;
	for (unsigned i = 0; i < FM_ARRAY_LEN(entry_names); i++)
		is_one |= room > strlen(entry_names[i]) && !strcmp(name, entry_names[i]);
	for (unsigned i = 0; is_one && i < FM_SIG_N_ENTRIES; i++)
		if (!py->entries[i].end) {
			py->entries[i].start = start;
			py->entries[i].end = end;
			break;
		}
}

static void note_part(const char *name, size_t room, uintptr_t start, uintptr_t end)
{
	struct fm_sig_python *py = &fm_sig.python;
	if (name[0] == '_' || name[0] == 'f')
		note_entry(name, room, start, end);
	if (room >= sizeof(cold_name) && !memcmp(name, cold_name, sizeof(cold_name) - 1)) {
		py->evaluator.part[1].start = start;
		py->evaluator.part[1].end = end;
	} else if (room >= sizeof(collector_name) && !memcmp(name, collector_name, sizeof(collector_name) - 1) &&
		   strchr(".", name[sizeof(collector_name) - 1])) {
		for (unsigned i = 0; i < FM_ARRAY_LEN(py->collector); i++)
			if (!py->collector[i].end) {
				py->collector[i].start = start;
				py->collector[i].end = end;
				break;
			}
	}
}

static void look_at_symbols(const uint8_t *file, size_t size, uintptr_t bias)
{
	const ElfW(Ehdr) *ehdr = (const void *)file;
	if (size < sizeof(*ehdr) || memcmp(ehdr->e_ident, ELFMAG, SELFMAG) || ehdr->e_shentsize != sizeof(ElfW(Shdr)) ||
	    ehdr->e_shoff > size || ehdr->e_shnum > (size - ehdr->e_shoff) / sizeof(ElfW(Shdr)))
		return;
	const ElfW(Shdr) *sections = (const void *)(file + ehdr->e_shoff);
	for (unsigned i = 0; i < ehdr->e_shnum; i++) {
		const ElfW(Shdr) *symtab = &sections[i];
		if (symtab->sh_type != SHT_SYMTAB || symtab->sh_link >= ehdr->e_shnum)
			continue;
		const ElfW(Shdr) *strtab = &sections[symtab->sh_link];
		if (symtab->sh_offset > size || symtab->sh_size > size - symtab->sh_offset ||
		    strtab->sh_offset > size || strtab->sh_size > size - strtab->sh_offset)
			return;
		const ElfW(Sym) *symbols = (const void *)(file + symtab->sh_offset);
		const char *names = (const char *)file + strtab->sh_offset;
		for (size_t n = 0; n < symtab->sh_size / sizeof(*symbols); n++)
			if (symbols[n].st_name < strtab->sh_size)
				note_part(names + symbols[n].st_name, strtab->sh_size - symbols[n].st_name,
					  bias + symbols[n].st_value, bias + symbols[n].st_value + symbols[n].st_size);
	}
}

void fm_agent_find_eval_parts(const char *path, uintptr_t bias)
{
	int fd = open(path[0] ? path : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (file != MAP_FAILED) {
			look_at_symbols(file, (size_t)st.st_size, bias);
			munmap(file, (size_t)st.st_size);
		}
	}
	close(fd);
}
