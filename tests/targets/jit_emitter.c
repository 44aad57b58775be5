// A JIT compiler of one function, for tests: machine code made by hand in fresh memory, told of in one of the ways that
// real compilers use. The code calls back into what called it, so stacks go through it.
//
// jit_enter(how, name, callback, arg) makes code named `name`, and calls it; the code calls callback(arg) and adds to
// the result.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum how {
	BY_GDB = 0,            // an ELF object with .symtab, .eh_frame and .debug_line-free code, GDB's JIT interface
	BY_REGISTER_FRAME = 1, // __register_frame, and a line in the perf map
	BY_JITDUMP = 2,        // jitdump with DEBUG_INFO and UNWINDING_INFO
	BY_PERF_MAP = 3,       // the perf map alone: no unwind information
	BY_NOTHING = 4,
	BY_DAMAGE = 5, // every way at once, all of it broken but one line of the perf map
};

typedef uint64_t (*jit_fn)(uint64_t (*callback)(void *), void *arg);

// No frame pointer, and rbx and 48 bytes more on the stack: nothing but unwind information gets through.
//   0: push %rbx            1: mov %rdi, %rax (3 bytes)   4: mov %rsi, %rdi       7: sub $48, %rsp     11: xor %ebx,
//   %ebx
//  13: call *%rax          15: mov $SPIN, %ecx           20: inc %rbx            23: dec %ecx          25: jne 20
//  27: add %rbx, %rax      30: add $48, %rsp             34: pop %rbx            35: ret
static const uint8_t code[] = { 0x53, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x83, 0xec, 0x30, 0x31,
				0xdb, 0xff, 0xd0, 0xb9, 0x40, 0x0d, 0x03, 0x00, 0x48, 0xff, 0xc3, 0xff,
				0xc9, 0x75, 0xf9, 0x48, 0x01, 0xd8, 0x48, 0x83, 0xc4, 0x30, 0x5b, 0xc3 };

// ---- .eh_frame of the code, with 8-byte addresses relative to where they stand ----

static size_t put_eh_frame(uint8_t *to, uint64_t addr, uint64_t code_addr)
{
	static const uint8_t cie[] = { 20, 0,    0,  0, 0,    0,    0, 0, 1,    'z', 'R', 0,
				       1,  0x78, 16, 1, 0x1c, 0x0c, 7, 8, 0x90, 1,   0,   0 };
	// advance 1: cfa + 16, rbx at -16; advance 10: cfa + 64; advance 23: cfa + 16; advance 1: cfa + 8, rbx as it
	// was
	static const uint8_t rules[] = { 0x41,      0x0e, 16, 0x83, 2,    0x4a, 0x0e, 64,
					 0x40 + 23, 0x0e, 16, 0x41, 0x0e, 8,    0xc3, 0 };
	uint8_t *p = to;
	memcpy(p, cie, sizeof(cie));
	p += sizeof(cie);
	uint32_t len = 4 + 8 + 8 + 1 + sizeof(rules) + 3, cie_off = (uint32_t)sizeof(cie) + 4;
	int64_t start = (int64_t)(code_addr - (addr + sizeof(cie) + 8));
	uint64_t size = sizeof(code);
	memcpy(p, &len, 4);
	memcpy(p + 4, &cie_off, 4);
	memcpy(p + 8, &start, 8);
	memcpy(p + 16, &size, 8);
	p[24] = 0;
	memcpy(p + 25, rules, sizeof(rules));
	memset(p + 25 + sizeof(rules), 0, 3);
	p += 4 + len;
	memset(p, 0, 4); // the end
	return (size_t)(p - to);
}

// ---- GDB's JIT interface ----

struct jit_code_entry {
	struct jit_code_entry *next_entry, *prev_entry;
	const char *symfile_addr;
	uint64_t symfile_size;
};
struct jit_descriptor {
	uint32_t version, action_flag;
	struct jit_code_entry *relevant_entry, *first_entry;
};
EXPORT struct jit_descriptor __jit_debug_descriptor = { 1, 0, NULL, NULL };
EXPORT __attribute__((noinline)) void __jit_debug_register_code(void)
{
	__asm__ volatile("");
}

static void register_object(const uint8_t *file, size_t size)
{
	struct jit_code_entry *entry = calloc(1, sizeof(*entry));
	entry->symfile_addr = (const char *)file;
	entry->symfile_size = size;
	entry->next_entry = __jit_debug_descriptor.first_entry;
	if (entry->next_entry)
		entry->next_entry->prev_entry = entry;
	__jit_debug_descriptor.first_entry = __jit_debug_descriptor.relevant_entry = entry;
	__jit_debug_descriptor.action_flag = 1;
	__jit_debug_register_code();
}

static void tell_gdb(const uint8_t *at, const char *name, const uint8_t *eh_frame, size_t eh_len)
{
	// An object as a compiler leaves it: ET_REL, with the addresses filled into the section headers.
	static const char sections[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab";
	enum { TEXT = 1, EH_FRAME, SYMTAB, STRTAB, SHSTRTAB, N };
	size_t names_len = strlen(name) + 2, off = sizeof(Elf64_Ehdr);
	uint8_t *file = calloc(1, 4096 + names_len + eh_len);
	Elf64_Shdr s[N] = { { 0 } };
	Elf64_Sym symbols[2] = { { 0 },
				 { .st_name = 1,
				   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				   .st_shndx = TEXT,
				   .st_size = sizeof(code) } };
	s[TEXT] = (Elf64_Shdr){ .sh_name = 1,
				.sh_type = SHT_PROGBITS,
				.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				.sh_addr = (uintptr_t)at,
				.sh_offset = off,
				.sh_size = sizeof(code) };
	memcpy(file + off, code, sizeof(code));
	off += (sizeof(code) + 7) & ~7ul;
	s[EH_FRAME] = (Elf64_Shdr){ .sh_name = 7,
				    .sh_type = 0x70000001,
				    .sh_flags = SHF_ALLOC,
				    .sh_addr = (uintptr_t)eh_frame,
				    .sh_offset = off,
				    .sh_size = eh_len };
	memcpy(file + off, eh_frame, eh_len);
	off += (eh_len + 7) & ~7ul;
	s[SYMTAB] = (Elf64_Shdr){ .sh_name = 17,
				  .sh_type = SHT_SYMTAB,
				  .sh_offset = off,
				  .sh_size = sizeof(symbols),
				  .sh_entsize = sizeof(Elf64_Sym),
				  .sh_link = STRTAB,
				  .sh_info = 1 };
	memcpy(file + off, symbols, sizeof(symbols));
	off += sizeof(symbols);
	s[STRTAB] = (Elf64_Shdr){ .sh_name = 25, .sh_type = SHT_STRTAB, .sh_offset = off, .sh_size = names_len };
	memcpy(file + off + 1, name, names_len - 1);
	off += names_len;
	s[SHSTRTAB] =
		(Elf64_Shdr){ .sh_name = 33, .sh_type = SHT_STRTAB, .sh_offset = off, .sh_size = sizeof(sections) };
	memcpy(file + off, sections, sizeof(sections));
	off = (off + sizeof(sections) + 7) & ~7ul;
	memcpy(file + off, s, sizeof(s));
	Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			      .e_type = ET_REL,
			      .e_machine = EM_X86_64,
			      .e_version = 1,
			      .e_shoff = off,
			      .e_ehsize = sizeof(header),
			      .e_shentsize = sizeof(*s),
			      .e_shnum = N,
			      .e_shstrndx = SHSTRTAB };
	memcpy(file, &header, sizeof(header));
	register_object(file, off + sizeof(s));
}

static void untell_gdb(void)
{
	struct jit_code_entry *entry = __jit_debug_descriptor.first_entry;
	if (!entry)
		return;
	__jit_debug_descriptor.first_entry = entry->next_entry;
	if (entry->next_entry)
		entry->next_entry->prev_entry = NULL;
	__jit_debug_descriptor.relevant_entry = entry;
	__jit_debug_descriptor.action_flag = 2;
	__jit_debug_register_code();
	free((void *)entry->symfile_addr);
	free(entry);
}

// ---- files ----

static char perf_map[64], dump[64];

static void write_perf_map(const uint8_t *at, const char *name)
{
	snprintf(perf_map, sizeof(perf_map), "/tmp/perf-%d.map", getpid());
	FILE *f = fopen(perf_map, "a");
	fprintf(f, "%lx %lx %s\n", (unsigned long)(uintptr_t)at, sizeof(code), name);
	fclose(f);
}

static FILE *open_dump(void)
{
	static FILE *f;
	if (f)
		return f;
	snprintf(dump, sizeof(dump), "/tmp/jit-%d.dump", getpid());
	f = fopen(dump, "w+");
	struct {
		uint32_t magic, version, size, machine, pad, pid;
		uint64_t time, flags;
	} header = { 0x4a695444, 1, 40, EM_X86_64, 0, (uint32_t)getpid(), 0, 0 };
	fwrite(&header, sizeof(header), 1, f);
	fflush(f);
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0); // the mark by which the file is found
	return f;
}

static void write_record(FILE *f, uint32_t id, uint32_t body_size)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	uint32_t head[2] = { id, 16 + body_size };
	fwrite(head, sizeof(head), 1, f);
	fwrite(&time, 8, 1, f);
}

static void write_dump(const uint8_t *at, const char *name, const uint8_t *eh_frame, size_t eh_len)
{
	static uint64_t index;
	FILE *f = open_dump();
	uint64_t addr = (uintptr_t)at;
	const char source[] = "emitted.src";
	write_record(f, 2, 16 + 16 + sizeof(source)); // DEBUG_INFO: one line for all of it
	uint64_t debug[3] = { addr, 1, addr };
	uint32_t line[2] = { 42, 0 };
	fwrite(debug, sizeof(debug), 1, f);
	fwrite(line, sizeof(line), 1, f);
	fwrite(source, sizeof(source), 1, f);
	write_record(f, 4, 24 + (uint32_t)eh_len); // UNWINDING_INFO, without an index
	uint64_t sizes[3] = { eh_len, 0, eh_len };
	fwrite(sizes, sizeof(sizes), 1, f);
	fwrite(eh_frame, eh_len, 1, f);
	uint32_t name_len = (uint32_t)strlen(name) + 1;
	write_record(f, 0, 40 + name_len + (uint32_t)sizeof(code)); // CODE_LOAD
	uint32_t ids[2] = { (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid) };
	uint64_t load[4] = { addr, addr, sizeof(code), index++ };
	fwrite(ids, sizeof(ids), 1, f);
	fwrite(load, sizeof(load), 1, f);
	fwrite(name, name_len, 1, f);
	fwrite(code, sizeof(code), 1, f);
	fflush(f);
}

// What a crash, a full disk or a bug leaves behind.
static void tell_damage(const uint8_t *at, const char *name)
{
	static struct jit_code_entry entry;
	static char object[256] = "\177ELF\2\1\1 and no more";
	entry.symfile_addr = object;
	entry.symfile_size = sizeof(object);
	__jit_debug_descriptor.first_entry = __jit_debug_descriptor.relevant_entry = &entry;
	FILE *f = open_dump();
	uint32_t record[4] = { 0, 3, 0, 0 }; // shorter than its own head
	fwrite(record, sizeof(record), 1, f);
	fflush(f);
	write_perf_map(at, name);
	f = fopen(perf_map, "a");
	fprintf(f, "this is no line\n12345 nor this\n%lx", (unsigned long)(uintptr_t)at);
	fclose(f);
}

// ---- the compiler ----

void __register_frame(void *) __attribute__((weak));
void __deregister_frame(void *) __attribute__((weak));

static uint8_t *page;

EXPORT jit_fn jit_make(int how, const char *name)
{
	if (!page)
		page = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *at = page, *eh_frame = page + ((sizeof(code) + 7) & ~7ul);
	page += 256;
	memcpy(at, code, sizeof(code));
	size_t eh_len = put_eh_frame(eh_frame, (uintptr_t)eh_frame, (uintptr_t)at);
	if (how == BY_GDB)
		tell_gdb(at, name, eh_frame, eh_len);
	if (how == BY_REGISTER_FRAME && __register_frame)
		__register_frame(eh_frame);
	if (how == BY_REGISTER_FRAME || how == BY_PERF_MAP)
		write_perf_map(at, name);
	if (how == BY_DAMAGE)
		tell_damage(at, name);
	if (how == BY_JITDUMP)
		write_dump(at, name, eh_frame, eh_len);
	return (jit_fn)at;
}

// A compiled object (ET_REL without relocations in its code) as a JIT compiler has it: its sections in fresh memory,
// their addresses in the section headers of the copy that debuggers see.
EXPORT jit_fn jit_load(const char *path, const char *symbol)
{
	FILE *f = fopen(path, "rb");
	uint8_t *file = calloc(1, 1 << 20);
	size_t size = f ? fread(file, 1, 1 << 20, f) : 0;
	if (f)
		fclose(f);
	uint8_t *to = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	Elf64_Ehdr *header = (Elf64_Ehdr *)file;
	Elf64_Shdr *s = (Elf64_Shdr *)(file + header->e_shoff);
	for (unsigned i = 0; i < header->e_shnum; i++) {
		if (!(s[i].sh_flags & SHF_ALLOC) || s[i].sh_type == SHT_NOBITS)
			continue;
		memcpy(to, file + s[i].sh_offset, s[i].sh_size);
		s[i].sh_addr = (uintptr_t)to;
		to += (s[i].sh_size + 63) & ~63ul;
	}
	jit_fn found = NULL;
	for (unsigned i = 0; i < header->e_shnum; i++) {
		if (s[i].sh_type != SHT_SYMTAB)
			continue;
		const Elf64_Sym *symbols = (const Elf64_Sym *)(file + s[i].sh_offset);
		const char *names = (const char *)file + s[s[i].sh_link].sh_offset;
		for (size_t k = 0; k < s[i].sh_size / sizeof(*symbols); k++)
			if (!strcmp(names + symbols[k].st_name, symbol))
				found = (jit_fn)(s[symbols[k].st_shndx].sh_addr + symbols[k].st_value);
	}
	register_object(file, size);
	return found;
}

// Code at the same address under another name: the first is taken back.
EXPORT jit_fn jit_remake(jit_fn old, const char *name)
{
	untell_gdb();
	page = (uint8_t *)old;
	return jit_make(BY_GDB, name);
}

EXPORT void jit_clean(void)
{
	if (perf_map[0])
		unlink(perf_map);
	if (dump[0])
		unlink(dump);
}
