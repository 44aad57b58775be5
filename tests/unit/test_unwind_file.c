// SPDX-License-Identifier: Apache-2.0
// One ELF file as the walker of other processes sees it: a small library, assembled here, against
// what the assembler was told.
#include "image/unwind_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "test.h"

#if defined(__x86_64__)

enum { RBX = 3, RBP = 6, RSP = 7 };

static const char source[] =
	"	.text\n"
	"	.globl f\n	.type f, @function\n"
	"f:	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset %rbp, 0\n"
	"	mov %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	push %rbx\n"
	"	.cfi_offset %rbx, -24\n"
	"	nop\n	pop %rbx\n	pop %rbp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n	.cfi_endproc\n	.size f, . - f\n"
	"	.balign 64\n"
	"	.globl g\n	.type g, @function\n"
	"g:	.cfi_startproc\n	.cfi_undefined %rip\n	hlt\n	.cfi_endproc\n	.size g, . - g\n"
	"	.balign 64\n"
	"	.globl aligned\n	.type aligned, @function\n" // CFA = *(rbp - 8), rbp at rbp
	"aligned: .cfi_startproc\n	.cfi_escape 0x0f, 3, 0x76, 0x78, 6\n	.cfi_escape 0x10, 6, 2, 0x76, 0\n"
	"	nop\n	nop\n	.cfi_endproc\n	.size aligned, . - aligned\n"
	"	.balign 64\n"
	"	.globl detour\n	.type detour, @function\n" // CFA = *(rsp + 16), return address at rsp + 8
	"detour: .cfi_startproc\n	.cfi_escape 0x0f, 3, 0x77, 16, 6\n	.cfi_escape 0x10, 16, 2, 0x77, 8\n"
	"	nop\n	nop\n	.cfi_endproc\n	.size detour, . - detour\n"
	"	.balign 64\n"
	"	.globl bare\n	.type bare, @function\n"
	"bare:	push %rbp\n	mov %rsp, %rbp\n	nop\n	pop %rbp\n	ret\n	.size bare, . - bare\n";

static int build_library(const char *more, const char *options)
{
	char folder[] = "/tmp/fathom-unwind-XXXXXX", command[512], path[64];
	CHECK(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/f.s", folder);
	FILE *f = fopen(path, "w");
	CHECK(f && fputs(source, f) >= 0 && fputs(more, f) >= 0 && fclose(f) == 0);
	snprintf(command, sizeof(command), "cc -shared -nostdlib %s -o %s/f.so %s/f.s", options, folder, folder);
	CHECK(system(command) == 0);
	snprintf(path, sizeof(path), "%s/f.so", folder);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK(system(command) == 0); // what is open stays
	return fd;
}

static struct fm_unwind_file *open_with(const char *more)
{
	struct fm_unwind_file *file;
	CHECK(fm_unwind_file_open(build_library(more, ""), &file) == FM_OK);
	return file;
}

static struct fm_unwind_file *open_library(const char *options)
{
	struct fm_unwind_file *file;
	CHECK(fm_unwind_file_open(build_library("", options), &file) == FM_OK);
	return file;
}

static uint64_t symbol(struct fm_unwind_file *file, const char *name)
{
	uint64_t addr, size;
	CHECK(fm_unwind_file_symbol(file, name, &addr, &size) == FM_OK);
	CHECK(size > 0);
	return addr;
}

TEST(rules_follow_the_instructions)
{
	struct fm_unwind_file *file = open_library("");
	struct fm_unwind_rule rule;
	uint64_t f = symbol(file, "f");
	fm_unwind_file_rule(file, f, &rule);
	CHECK_EQ(rule.kind, FM_RULE_REG);
	CHECK_EQ(rule.cfa_reg, RSP);
	CHECK_EQ(rule.cfa_off, 8);
	CHECK_EQ(rule.saved[RBP], FM_RULE_SAME);
	fm_unwind_file_rule(file, f + 5, &rule); // the nop
	CHECK_EQ(rule.cfa_reg, RBP);
	CHECK_EQ(rule.cfa_off, 16);
	CHECK_EQ(rule.saved[RBP], -16);
	CHECK_EQ(rule.saved[RBX], -24);
	CHECK_EQ(rule.saved[0], FM_RULE_LOST); // rax: a call does not give it back
	fm_unwind_file_rule(file, symbol(file, "g"), &rule);
	CHECK_EQ(rule.kind, FM_RULE_END);
	fm_unwind_file_close(file);
}

TEST(expressions_of_realigned_stacks_and_detours)
{
	struct fm_unwind_file *file = open_library("");
	struct fm_unwind_rule rule;
	fm_unwind_file_rule(file, symbol(file, "aligned") + 1, &rule);
	CHECK_EQ(rule.kind, FM_RULE_DEREF);
	CHECK_EQ(rule.cfa_reg, RBP);
	CHECK_EQ(rule.cfa_off, -8);
	CHECK_EQ(rule.saved[RBP], FM_RULE_AT_RBP);
	fm_unwind_file_rule(file, symbol(file, "detour") + 1, &rule);
	CHECK_EQ(rule.kind, FM_RULE_DEREF);
	CHECK_EQ(rule.cfa_reg, RSP);
	CHECK_EQ(rule.cfa_off, 16);
	CHECK_EQ(rule.ra_at_sp, 8);
	fm_unwind_file_close(file);
}

// A program may do that to its own library while we look into it: reads of what is gone must not
// end us.
TEST(a_file_that_is_cut_while_it_is_open_ends_nobody)
{
	for (unsigned did_read = 0; did_read < 2; did_read++) {
		char path[32];
		int fd = build_library("", "");
		int other = dup(fd);
		struct fm_unwind_file *file;
		struct fm_unwind_rule rule;
		uint64_t addr;
		CHECK(other >= 0 && fm_unwind_file_open(fd, &file) == FM_OK);
		if (did_read)
			fm_unwind_file_rule(file, symbol(file, "f") + 5, &rule);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", other);
		CHECK(truncate(path, 0) == 0);
		for (uint64_t at = 0; at < 0x4000; at += 0x10) {
			fm_unwind_file_rule(file, at, &rule);
			CHECK(rule.kind <= FM_RULE_SIGNAL);
			if (fm_unwind_file_function(file, at, &addr) == FM_OK)
				CHECK(addr <= at);
		}
		CHECK(fm_unwind_file_symbol(file, "nothing", &addr, NULL) != FM_OK);
		fm_unwind_file_close(file);
		close(other);
	}
}

TEST(functions_begin_where_the_tables_say)
{
	struct fm_unwind_file *file = open_library("");
	uint64_t f = symbol(file, "f"), start;
	CHECK(fm_unwind_file_function(file, f + 5, &start) == FM_OK);
	CHECK_EQ(start, f);
	CHECK(fm_unwind_file_function(file, symbol(file, "g"), &start) == FM_OK);
	CHECK_EQ(start, symbol(file, "g"));
	fm_unwind_file_close(file);
}

TEST(code_without_tables_is_guessed_from_its_beginning)
{
	struct fm_unwind_file *file = open_library("");
	struct fm_unwind_rule rule;
	uint64_t bare = symbol(file, "bare"), start;
	fm_unwind_file_rule(file, bare + 4, &rule);
	CHECK_EQ(rule.kind, FM_RULE_REG);
	CHECK(rule.is_guessed);
	CHECK_EQ(rule.cfa_off, 16);
	CHECK(fm_unwind_file_function(file, bare + 4, &start) == FM_OK);
	CHECK_EQ(start, bare);
	fm_unwind_file_close(file);
}

TEST(a_mapping_gives_the_bias)
{
	struct fm_unwind_file *file = open_library("");
	struct fm_unwind_file_info info;
	uint64_t f = symbol(file, "f"), vaddr;
	fm_unwind_file_get(file, &info);
	CHECK(info.start <= f && f < info.end);
	CHECK(fm_unwind_file_map(file, 1ull << 40, &vaddr) == FM_E_NOT_FOUND);
	// Linkers put code at the same place in the file and in memory, but for whole pages.
	CHECK(fm_unwind_file_map(file, f & ~4095ull, &vaddr) == FM_OK);
	CHECK_EQ(vaddr % 4096, 0);
	CHECK(fm_unwind_file_symbol(file, "no_such_symbol", &vaddr, NULL) == FM_E_NOT_FOUND);
	fm_unwind_file_close(file);
}

TEST(where_the_dynamic_linker_begins_a_stack_ends)
{
	struct fm_unwind_file *file;
	struct fm_unwind_rule rule;
	Elf64_Ehdr head, in_memory;
	int fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && pread(fd, &head, sizeof(head), 0) == sizeof(head));
	CHECK(fm_unwind_file_open(fd, &file) == FM_OK);
	fm_unwind_file_rule(file, head.e_entry + 3, &rule);
	CHECK_EQ(rule.kind, FM_RULE_END);
	// Its first segment begins with the file.
	CHECK(fm_unwind_file_read(file, 0, &in_memory, sizeof(in_memory)));
	CHECK(!memcmp(&head, &in_memory, sizeof(head)));
	CHECK(!fm_unwind_file_read(file, 1ull << 40, &in_memory, 1));
	fm_unwind_file_close(file);
}

TEST(the_vdso_has_rules)
{
	struct fm_unwind_file *file;
	struct fm_unwind_rule rule;
	uint64_t at;
	CHECK(fm_unwind_file_open_vdso(&file) == FM_OK);
	CHECK(fm_unwind_file_symbol(file, "__vdso_clock_gettime", &at, NULL) == FM_OK);
	fm_unwind_file_rule(file, at, &rule);
	CHECK(rule.kind == FM_RULE_REG && rule.cfa_reg == RSP && rule.cfa_off == 8);
	fm_unwind_file_close(file);
}

// What its tables say of `f` is not taken; what its code shows is.
static bool is_refused(struct fm_unwind_file *file)
{
	struct fm_unwind_rule rule;
	fm_unwind_file_rule(file, symbol(file, "f") + 5, &rule);
	fm_unwind_file_close(file);
	return rule.kind == FM_RULE_NONE || rule.is_guessed;
}

TEST(programs_that_no_compiler_writes_are_not_run)
{
	CHECK(!is_refused(open_with("")));
	// Register 2^27, of which libdw would make room for all below.
	CHECK(is_refused(open_with("h:	.cfi_startproc\n	nop\n	.cfi_escape 0x07, 0x80, 0x80, 0x80, 0x40\n"
				   "	nop\n	.cfi_endproc\n")));
	// A hundred states, remembered at a time; and a hundred times one.
	CHECK(is_refused(open_with("h:	.cfi_startproc\n	.rept 100\n	nop\n	.cfi_remember_state\n	.endr\n"
				   "	nop\n	.cfi_endproc\n")));
	CHECK(!is_refused(open_with("h:	.cfi_startproc\n	.rept 100\n	nop\n	.cfi_remember_state\n	nop\n"
				    "	.cfi_restore_state\n	.endr\n	nop\n	.cfi_endproc\n")));
}

// As LLVM's linker marks it.
TEST(an_eh_frame_of_the_other_type_is_one_as_well)
{
	static uint8_t bytes[65536];
	int fd = build_library("", ""), copy = memfd_create("library", MFD_CLOEXEC);
	ssize_t len = read(fd, bytes, sizeof(bytes));
	CHECK(len > 0 && len < (ssize_t)sizeof(bytes) && copy >= 0);
	Elf64_Ehdr *header = (void *)bytes;
	Elf64_Shdr *sections = (void *)(bytes + header->e_shoff);
	const char *names = (char *)bytes + sections[header->e_shstrndx].sh_offset;
	unsigned n_marked = 0;
	for (unsigned i = 0; i < header->e_shnum; i++)
		if (!strcmp(names + sections[i].sh_name, ".eh_frame")) {
			sections[i].sh_type = 0x70000001; // SHT_X86_64_UNWIND
			n_marked++;
		}
	CHECK_EQ(n_marked, 1);
	CHECK(write(copy, bytes, (size_t)len) == len);
	struct fm_unwind_file *file;
	CHECK(fm_unwind_file_open(copy, &file) == FM_OK);
	CHECK(!is_refused(file));
	close(fd);
}

TEST(an_index_that_leads_astray_is_not_followed)
{
	for (uint32_t off = 0; off <= 4; off += 4) {
		static const uint8_t head[] = { 1, 0x1b, 3, 0x3b };
		uint8_t bytes[65536];
		int fd = build_library("", ""), copy = memfd_create("library", MFD_CLOEXEC);
		ssize_t len = read(fd, bytes, sizeof(bytes));
		CHECK(len > 0 && len < (ssize_t)sizeof(bytes) && copy >= 0);
		uint8_t *index = memmem(bytes, (size_t)len, head, sizeof(head));
		CHECK(index && index[8] > 1); // entries: {start, place of the FDE}
		index[12 + 8 + 4] = (uint8_t)(index[12 + 8 + 4] + off);
		CHECK(write(copy, bytes, (size_t)len) == len);
		struct fm_unwind_file *file;
		CHECK(fm_unwind_file_open(copy, &file) == FM_OK);
		CHECK_EQ(is_refused(file), off != 0);
		close(fd);
	}
}

#endif

TEST(what_is_no_elf_file_is_refused)
{
	struct fm_unwind_file *file;
	CHECK(fm_unwind_file_open(open("/proc/self/status", O_RDONLY | O_CLOEXEC), &file) == FM_E_CORRUPT);
	CHECK(fm_unwind_file_open(open("/etc/passwd", O_RDONLY | O_CLOEXEC), &file) == FM_E_CORRUPT);
}

TEST_MAIN()
