// SPDX-License-Identifier: Apache-2.0
#include "cli/run/watchdog.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregate/analysis/analysis.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/captures/name_frames.h"
#include "cli/captures/dump_print.h"
#include "collect/capture/attach.h"
#include "collect/process/proc.h"
#include "render/render.h"

#define LOOK_NS 100000000u
#define MAX_DUMPS 20u // of a program that hangs again and again
// A program that waits in a loop uses a little; one that works uses more than this share of a CPU.
#define IDLE_SHARE 0.01

struct use {
	uint64_t cpu_ticks, io_bytes;
	unsigned depth;
};

static uint64_t value_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

// What a process and its descendants have used so far.
static void add_use(void *ctx, uint32_t pid)
{
	struct use *use = ctx;
	char text[1024];
	unsigned long long user = 0, system = 0;
	if (use->depth > 64)
		return;
	fm_process_read_proc(pid, "stat", text, sizeof(text));
	const char *after_name = strrchr(text, ')');
	if (after_name &&
	    sscanf(after_name + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &user, &system) == 2)
		use->cpu_ticks += user + system;
	fm_process_read_proc(pid, "io", text, sizeof(text));
	use->io_bytes += value_after(text, "rchar: ") + value_after(text, "wchar: ");
	use->depth++;
	fm_process_children(pid, add_use, use);
	use->depth--;
}

// A thread that has no CPU on a busy machine wants one, and waits for nothing else. Processes whose
// threads come and go are looked at again.
static void find_runnable(void *ctx, uint32_t pid)
{
	bool *is_any = ctx;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && !*is_any && (e = readdir(dir));) {
		uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);
		char state = tid ? fm_process_state(pid, tid) : 0;
		*is_any = state == 'R' || state == 'D';
	}
	if (dir)
		closedir(dir);
	if (!*is_any)
		fm_process_children(pid, find_runnable, ctx);
}

static void print_to(FILE *out, const struct fm_dump *dump, const char *why)
{
	if (!out)
		return;
	fprintf(out, "fathom: %s\n", why);
	fm_dump_print_text(dump, out);
	fprintf(out, "\n");
	fflush(out);
}

static void dump_all(struct fm_watchdog *w, uint32_t pid, const char *why)
{
	char profile[4200], path[4200];
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	struct fm_locals locals;
	struct fm_redact *redact = NULL;
	struct fm_analysis *a = NULL;
	struct fm_diag diag, unread_why;
	size_t n_unread;
	view.full_filenames = true;
	snprintf(profile, sizeof(profile), "%s/stacks.tmp", w->dir);
	snprintf(path, sizeof(path), "%s/stacks_%u.txt", w->dir, ++w->n_dumps);
	fm_locals_init(&locals);
	struct fm_attach_options attach = { .pids = &pid,
					    .n_pids = 1,
					    .children = true,
					    .output_path = profile,
					    .native = true,
					    .may_stop = true,
					    .locals = &locals,
					    .at_end = fm_name_frames_elsewhere };
	enum fm_err err = fm_redact_create(NULL, &redact, &diag);
	err = err ? err : fm_attach_once(&attach, &n_unread, &unread_why, &diag);
	err = err ? err : fm_render_open(profile, &view, FM_ANALYSIS_STACKS, &a, &diag);
	unlink(profile);
	if (err) {
		fm_say("%s, but the stacks could not be read: %s", why, diag.text);
	} else {
		struct fm_dump dump = { a, &locals, redact, false };
		_cleanup_fclose_ FILE *file = fopen(path, "we");
		print_to(stderr, &dump, why);
		print_to(file, &dump, why);
		fm_analysis_close(a);
	}
	fm_redact_destroy(redact);
	fm_locals_deinit(&locals);
}

// True when nothing has moved for as long as was asked for.
static bool is_hung(struct fm_watchdog *w, uint32_t pid, uint64_t elapsed_ns)
{
	struct use use = { 0 };
	double idle_ticks = IDLE_SHARE * w->hang_s * (double)sysconf(_SC_CLK_TCK);
	add_use(&use, pid);
	if (use.io_bytes != w->io_bytes || (double)use.cpu_ticks > (double)w->cpu_ticks + idle_ticks ||
	    use.cpu_ticks < w->cpu_ticks) {
		w->io_bytes = use.io_bytes;
		w->cpu_ticks = use.cpu_ticks;
		w->moved_ns = elapsed_ns;
		w->did_hang = false;
	}
	bool is_runnable = false, is_late = (double)(elapsed_ns - w->moved_ns) * 1e-9 >= w->hang_s;
	if (is_late && !w->did_hang)
		find_runnable(&is_runnable, pid);
	if (is_runnable)
		w->moved_ns = elapsed_ns;
	return is_late && !is_runnable;
}

bool fm_watchdog_poll(uint32_t pid, uint64_t elapsed_ns, void *watchdog)
{
	struct fm_watchdog *w = watchdog;
	char why[96];
	if (elapsed_ns - w->looked_ns < LOOK_NS || w->n_dumps >= MAX_DUMPS)
		return false;
	w->looked_ns = elapsed_ns;
	if (w->after_s > 0 && !w->did_after && (double)elapsed_ns * 1e-9 >= w->after_s) {
		w->did_after = true;
		snprintf(why, sizeof(why), "the program after %.1f s (--dump-after)", (double)elapsed_ns * 1e-9);
		dump_all(w, pid, why);
		return w->ends;
	}
	if (w->hang_s > 0 && is_hung(w, pid, elapsed_ns) && !w->did_hang) {
		w->did_hang = true;
		snprintf(why, sizeof(why),
			 "nothing moved for %.1f s (--dump-on-hang): no CPU time, no input, no output",
			 (double)(elapsed_ns - w->moved_ns) * 1e-9);
		dump_all(w, pid, why);
		return w->ends;
	}
	return false;
}
