// SPDX-License-Identifier: Apache-2.0
// Writes the profile of tests/support/known.h: known_profile OUT [--other-build | --hostile |
// --monstrous] Its native frames lie in this very program, so that their names can be looked up;
// --other-build records another build id. --hostile writes another one, whose names try to break
// out of every output; --monstrous one with a stack of 100,000 frames, a name of a megabyte and a
// source text that is no text.
#include "support/known.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "image/symbols.h"

__attribute__((noinline, used)) void known_kernel(void);
__attribute__((noinline, used)) void known_start(void);

void known_kernel(void)
{
	__asm__ volatile("nop; nop; nop; nop");
}

void known_start(void)
{
	known_kernel();
	__asm__ volatile("nop");
}

static int take_bias(struct dl_phdr_info *info, size_t size, void *ctx)
{
	*(uint64_t *)ctx = info->dlpi_addr; // the program itself comes first
	return 1;
}

static enum fm_err write_hostile(const char *path, struct fm_diag *diag)
{
	static const char *const names[] = {
		"<script>alert(1)</script>",
		"]]><script>alert(2)</script>",
		"\"quoted' & <b>",
		"semi;colon 12",
		"new\nline\r",
		"\x1b[31mred\x1b]0;title\a",
		"\xff\xfe bytes",
		"\xe2\x80\xae right to left",
		"\\u0041 \\",
		"caf\xc3\xa9 \xe5\x90\x8d \xf0\x9f\x90\x8d",
		"\xc2\x9b"
		"31m",
		"${jndi}",
		" ",
		"",
	};
	struct fm_writer *w;
	enum fm_err err = fm_writer_open(path, &w, diag);
	if (err)
		return err;
	fm_writer_meta(w, "command", fm_str_of(names[1]));
	fm_writer_meta(w, "rate_hz", fm_str_of("99999999999999999999999"));
	fm_writer_coverage(w, fm_str_of(names[5]), fm_str_of(names[0]));
	uint32_t process = fm_writer_process(
		w, &(struct fm_process_info){ .pid = 7, .parent_pid = 7, .command = fm_str_of(names[2]) });
	uint64_t time_ns = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t thread = fm_writer_thread(w, process, (uint32_t)i, 0);
		fm_writer_thread_name(w, thread, fm_str_of(names[i]));
		uint32_t outer = fm_writer_frame(w, FM_FRAME_PYTHON,
						 known_code(w, names[i], names[i], names[(i + 1) % 14], UINT32_MAX), 1);
		uint32_t image = fm_writer_image(w, fm_str_of(names[i]), fm_str_of(names[i]), 0);
		uint32_t inner = fm_writer_frame(w, FM_FRAME_NATIVE, image, UINT64_MAX),
			 lost = fm_writer_frame(w, FM_FRAME_ERROR, 0, 4711 + i);
		uint32_t stack =
			fm_writer_stack(w, fm_writer_stack(w, fm_writer_stack(w, FM_ROOT_STACK, lost), outer), inner);
		known_samples(w, &time_ns, thread, stack, (uint8_t)(i % FM_N_CLASSES), 3);
		known_samples(w, &time_ns, thread, FM_ROOT_STACK, FM_CLASS_PYTHON, 1);
	}
	return fm_writer_close(w, diag);
}

static enum fm_err write_monstrous(const char *path, struct fm_diag *diag)
{
	struct fm_writer *w;
	enum fm_err err = fm_writer_open(path, &w, diag);
	if (err)
		return err;
	static char long_name[1 << 20];
	for (size_t i = 0; i < sizeof(long_name); i++)
		long_name[i] = "<script>\xc3\xa9\xff"[i % 11];
	struct fm_str monster = { long_name, sizeof(long_name) };
	uint32_t process = fm_writer_process(w, &(struct fm_process_info){ .pid = 7, .command = monster });
	uint32_t thread = fm_writer_thread(w, process, 7, 0);
	fm_writer_thread_name(w, thread, monster);
	uint32_t frames[1000], stack = FM_ROOT_STACK;
	for (uint32_t i = 0; i < 1000; i++) {
		char name[32];
		snprintf(name, sizeof(name), "level_%u", i);
		frames[i] =
			fm_writer_frame(w, FM_FRAME_PYTHON, known_code(w, name, name, "/home/user/deep.py", i + 1), 0);
	}
	uint32_t odd = fm_writer_frame(w, FM_FRAME_PYTHON,
				       fm_writer_code(w, &(struct fm_code_info){ monster, monster, monster, 1,
										 FM_PY_LINES_LNOTAB, FM_STR_LIT("") }),
				       0);
	uint64_t time_ns = 0;
	for (uint32_t depth = 0; depth < 100000; depth++) {
		stack = fm_writer_stack(w, stack, depth == 50 ? odd : frames[depth % 1000]);
		if (depth % 1000 == 999)
			known_samples(w, &time_ns, thread, stack, FM_CLASS_PYTHON, 2);
	}
	fm_writer_source(w, FM_STR_LIT("/home/user/deep.py"), FM_STR_LIT("\xff\xfe\0</script>\n"));
	return fm_writer_close(w, diag);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return fputs("usage: known_profile OUT [--other-build | --hostile | --monstrous]\n", stderr), 2;
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return perror("known_profile"), 1;
	self[n] = 0;
	uint64_t bias = 0;
	dl_iterate_phdr(take_bias, &bias);
	struct fm_diag diag = { "" };
	struct fm_symbols *symbols;
	if (fm_symbols_open(self, &symbols, &diag))
		return fprintf(stderr, "known_profile: %s\n", diag.text), 1;
	struct known_images images = {
		.native_path = self,
		.native_build_id = argc > 2 ? FM_STR_LIT("no such build id") : fm_symbols_build_id(symbols),
		.kernel_addr = (uint64_t)(uintptr_t)known_kernel - bias,
		.start_addr = (uint64_t)(uintptr_t)known_start - bias,
	};
	bool is_hostile = argc > 2 && !strcmp(argv[2], "--hostile");
	bool is_monstrous = argc > 2 && !strcmp(argv[2], "--monstrous");
	enum fm_err err = is_hostile     ? write_hostile(argv[1], &diag)
			  : is_monstrous ? write_monstrous(argv[1], &diag)
					 : known_write(argv[1], &images, &diag);
	if (err)
		fprintf(stderr, "known_profile: %s\n", diag.text);
	fm_symbols_close(symbols);
	return err != FM_OK;
}
