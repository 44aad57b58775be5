// SPDX-License-Identifier: Apache-2.0
#include "cli/run/pairs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/random.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/owner.h"
#include "base/random.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/captures/name_frames.h"
#include "cli/run/apart.h"
#include "cli/run/instructions.h"
#include "format/writer.h"

static const char *const side_names[] = { [FM_BASE] = "base", [FM_HEAD] = "head" };

// One run, in the process that is its own.
struct turn {
	const struct fm_pairs_side *side;
	char output[4300]; // what the command prints
	int counter;       // of instructions; -1 = none
};

static enum fm_err settle(void *arg, struct fm_diag *diag)
{
	struct turn *t = arg;
	if (t->side->folder && chdir(t->side->folder) != 0)
		return fm_diag_set(diag, FM_E_IO, "cannot enter %s: %s", t->side->folder, strerror(errno));
	_cleanup_close_ int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = open(t->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FM_PRIVATE_FILE);
	if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		return fm_diag_set(diag, FM_E_IO, "cannot write %s: %s", t->output, strerror(errno));
	struct fm_diag unused;
	if (fm_instructions_open(&fm_counted_instructions, &t->counter, &unused))
		t->counter = -1;
	return FM_OK;
}

static void tell_instructions(struct fm_writer *w, void *arg)
{
	struct turn *t = arg;
	uint64_t n = fm_instructions_read(t->counter);
	char text[24];
	snprintf(text, sizeof(text), "%" PRIu64, n);
	if (n)
		fm_writer_meta(w, "instructions", fm_str_of(text));
	fm_name_frames(w, NULL);
}

// The last line that is not empty of what a command printed: mostly what went wrong.
static void read_last_line(const char *path, struct fm_buf *ret)
{
	char tail[2000];
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	if (!f || fseek(f, 0, SEEK_END))
		return;
	long end = ftell(f);
	fseek(f, end > (long)sizeof(tail) ? end - (long)sizeof(tail) : 0, SEEK_SET);
	size_t n = fread(tail, 1, sizeof(tail), f);
	while (n && strchr(" \t\r\n", tail[n - 1]))
		n--;
	const char *newline = n ? memrchr(tail, '\n', n) : NULL;
	const char *line = newline ? newline + 1 : tail;
	fm_utf8_clean(ret, (struct fm_str){ line, (uint32_t)FM_MIN(tail + n - line, 250) });
}

static enum fm_err refuse(const struct turn *t, enum fm_side side, unsigned pair, int exit_code, struct fm_diag *diag)
{
	char how[40], where[40] = "";
	_cleanup_(fm_buf_deinit) struct fm_buf last = { 0 };
	read_last_line(t->output, &last);
	if (exit_code > 128)
		snprintf(how, sizeof(how), "signal %d", exit_code - 128);
	else
		snprintf(how, sizeof(how), "exit code %d", exit_code);
	if (pair)
		snprintf(where, sizeof(where), " in pair %u", pair);
	return fm_diag_set(diag, FM_E_REFUSED, "the %s command failed%s (%s), so nothing is compared%s%s",
			   side_names[side], where, how, last.len ? ": " : "", last.len ? (const char *)last.data : "");
}

// pair: from 1; 0 = the one that warms up, which leaves nothing.
static enum fm_err run_one(const struct fm_pairs *p, enum fm_side side, unsigned pair, struct fm_diag *diag)
{
	struct turn t = { .side = &p->sides[side], .counter = -1 };
	struct fm_capture_options one = *p->capture;
	char path[4300];
	snprintf(path, sizeof(path), "%s/profile_%u.fathom", t.side->dir, pair);
	snprintf(t.output, sizeof(t.output), "%s/output.txt", t.side->dir);
	one.argv = t.side->argv;
	one.output_path = path;
	one.at_end = tell_instructions;
	one.at_end_arg = &t;
	int exit_code = 0;
	struct fm_diag why;
	enum fm_err err = fm_apart_run(&(struct fm_apart){ &one, settle, &t }, &exit_code, &why);
	if (!pair)
		unlink(path);
	if (fm_apart_signal())
		return fm_diag_set(diag, FM_E_REFUSED, "interrupted, so nothing is compared");
	if (err)
		return fm_diag_set(diag, err, "%s: %s", side_names[side], why.text);
	return exit_code ? refuse(&t, side, pair, exit_code, diag) : FM_OK;
}

static uint64_t draw_seed(void)
{
	uint64_t seed;
	// The call and not libc's function, which is younger than the oldest libc that is served.
	if (syscall(SYS_getrandom, &seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = fm_now_ns();
	return seed | 1;
}

enum fm_err fm_pairs_run(struct fm_pairs *p, struct fm_diag *diag)
{
	uint64_t random = draw_seed();
	int counter;
	p->no_instructions.text[0] = 0;
	if (fm_instructions_open(&fm_counted_instructions, &counter, &p->no_instructions) == FM_OK)
		close(counter);
	enum fm_err err = FM_OK;
	for (unsigned pair = 0; pair <= p->n && !err; pair++) {
		if (isatty(STDERR_FILENO) && pair)
			fm_say("pair %u of %u", pair, p->n);
		bool is_head_first = fm_random_next(&random) >> 63;
		if (pair)
			p->is_head_first[pair - 1] = is_head_first;
		err = run_one(p, is_head_first ? FM_HEAD : FM_BASE, pair, diag);
		if (!err)
			err = run_one(p, is_head_first ? FM_BASE : FM_HEAD, pair, diag);
	}
	return err;
}
