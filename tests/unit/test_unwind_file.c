// One ELF file as the walker of other processes sees it: a small library, assembled here, against what the assembler was told.
#include "image/unwind_file.h"

#include <fcntl.h>

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

static struct fm_unwind_file *open_library(const char *options)
{
	char folder[] = "/tmp/fathom-unwind-XXXXXX", command[512], path[64];
	CHECK(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/f.s", folder);
	FILE *f = fopen(path, "w");
	CHECK(f && fputs(source, f) >= 0 && fclose(f) == 0);
	snprintf(command, sizeof(command), "cc -shared -nostdlib %s -o %s/f.so %s/f.s", options, folder, folder);
	CHECK(system(command) == 0);
	snprintf(path, sizeof(path), "%s/f.so", folder);
	struct fm_unwind_file *file;
	CHECK(fm_unwind_file_open(open(path, O_RDONLY | O_CLOEXEC), &file) == FM_OK);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK(system(command) == 0); // what is open stays
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

#endif

TEST(what_is_no_elf_file_is_refused)
{
	struct fm_unwind_file *file;
	CHECK(fm_unwind_file_open(open("/proc/self/status", O_RDONLY | O_CLOEXEC), &file) == FM_E_CORRUPT);
	CHECK(fm_unwind_file_open(open("/etc/passwd", O_RDONLY | O_CLOEXEC), &file) == FM_E_CORRUPT);
}

TEST_MAIN()
