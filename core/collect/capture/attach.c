// SPDX-License-Identifier: Apache-2.0
// Processes are entered by the collector itself (observed.c); everything else (threads, waiting,
// run-time code, their end) goes its usual way.
#include "collect/capture/attach.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "collect/process/machine.h"
#include "collect/process/proc.h"
#include "collect/capture/parts.h"
#include "collect/capture/observed.h"
#include "collect/ingest/recorder.h"
#include "collect/observe/waiting.h"
#include "format/writer.h"
#include "base/random.h"

#define FLUSH_NS 100000000u
// For one look at everything: how long threads are tried again that could not be read, and how
// soon.
#define MAX_ONCE_NS 2000000000u
#define AGAIN_NS 1000000u
#define MAX_COMMAND_BYTES 65536u
#define IDLE_SHARE 16u
#define IDLE_MOST_NS 100000000u

static volatile sig_atomic_t is_asked_to_stop;

static void on_signal(int sig)
{
	(void)sig;
	is_asked_to_stop = 1;
}

struct attach {
	const struct fm_attach_options *options;
	struct fm_shared shared;
	struct fm_registry *registry;
	struct fm_writer *writer;
	struct fm_recorder *recorder;
	struct fm_waiting *waiting;
	struct fm_observed observed;
	uint64_t start_ns;
};

// The first process's, as the kernel has it now.
static void write_command(struct attach *a)
{
	static char text[MAX_COMMAND_BYTES];
	size_t n = fm_process_read_proc(a->options->pids[0], "cmdline", text, sizeof(text));
	while (n && text[n - 1] == 0)
		n--;
	fm_writer_meta(a->writer, "command", (struct fm_str){ text, (uint32_t)n });
}

static void write_opening(struct attach *a)
{
	write_command(a);
	fm_meta_origin(a->writer);
	fm_writer_meta(a->writer, "mode", FM_STR_LIT("attached"));
	fm_writer_meta(a->writer, "engine", FM_STR_LIT("attach"));
	fm_meta_uint(a->writer, "rate_hz", a->options->rate_hz);
	if (a->options->children)
		fm_writer_coverage(a->writer,
				   FM_STR_LIT("the program before and after the observation, and processes that lived "
					      "for less than a quarter of a second"),
				   FM_STR_LIT("Fathom observed it from outside while it ran"));
	else
		fm_writer_coverage(a->writer,
				   FM_STR_LIT("the program before and after the observation, and its child processes"),
				   FM_STR_LIT("Fathom was attached to this one process while it ran"));
	if (!a->options->may_stop)
		fm_writer_coverage(
			a->writer, FM_STR_LIT("running threads"),
			FM_STR_LIT("--nonblocking: Fathom can read a running thread only while it is stopped"));
}

// What became of the family, for the report.
static void write_left_out(struct attach *a)
{
	char what[96];
	if (a->observed.refused.n) {
		snprintf(what, sizeof(what), "%zu child process%s", a->observed.refused.n,
			 a->observed.refused.n == 1 ? "" : "es");
		fm_writer_coverage(a->writer, fm_str_of(what),
				   FM_STR_LIT("this user has no permission to read them; attach as root"));
	}
	if (a->observed.is_full)
		fm_writer_coverage(a->writer, FM_STR_LIT("some child processes"),
				   FM_STR_LIT("more processes ran at one time than Fathom can follow"));
}

static enum fm_err check(const struct fm_attach_options *options, bool may_hold, struct fm_diag *diag)
{
	size_t n_good = 0;
	enum fm_err err = FM_OK;
	for (size_t i = 0; i < options->n_pids && (!err || options->skips_refused); i++) {
		err = fm_observed_check(options->pids[i], diag);
		if (!err && may_hold)
			err = fm_observed_check_hold(options->pids[i], diag);
		n_good += !err;
	}
	return options->skips_refused && n_good ? FM_OK : err;
}

static enum fm_err begin(struct attach *a, const struct fm_waiting_options *looks, struct fm_diag *diag)
{
	enum fm_err err;
	if ((err = fm_shared_init(&a->shared, diag)) ||
	    (err = fm_writer_open(a->options->output_path, &a->writer, diag)))
		return err;
	fm_writer_redact(a->writer, a->options->redact);
	a->shared.header->rate_hz = a->options->rate_hz;
	a->shared.header->flags = a->options->native ? 0 : FM_WIRE_NO_NATIVE;
	a->start_ns = fm_now_ns();
	write_opening(a);
	if (a->options->on_open) {
		fm_writer_flush(a->writer);
		a->options->on_open(a->options->output_path, a->options->on_open_arg);
	}
	a->registry = fm_registry_create(&a->shared);
	a->recorder = fm_recorder_create(a->registry, a->writer, &(struct fm_trace_limits){ 0 });
	a->waiting = fm_waiting_create(a->recorder, a->writer, a->registry);
	fm_waiting_set(a->waiting, looks);
	a->observed = (struct fm_observed){ .registry = a->registry, .recorder = a->recorder };
	for (size_t i = 0; i < a->options->n_pids; i++)
		if (!a->options->skips_refused || !fm_observed_check(a->options->pids[i], NULL))
			fm_observed_enter(&a->observed, a->options->pids[i], a->start_ns);
	if (a->options->children)
		fm_observed_follow(&a->observed, a->start_ns, true, true);
	fm_raise_sched_priority(0);
	fm_descriptors_raise();
	return FM_OK;
}

static enum fm_err end(struct attach *a, enum fm_err err, struct fm_diag *diag)
{
	if (a->recorder && !err) {
		struct fm_recorder_totals totals;
		fm_recorder_finish(a->recorder, &totals);
		struct fm_waiting_cost cost;
		fm_waiting_cost(a->waiting, &cost);
		write_left_out(a);
		fm_meta_uint(a->writer, "wall_ns", fm_now_ns() - a->start_ns);
		fm_meta_uint(a->writer, "overhead_ns", cost.held_ns);
		fm_meta_uint(a->writer, "collector_cpu_ns", fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
		fm_meta_uint(a->writer, "waiting_cpu_ns", cost.cpu_ns);
		fm_meta_uint(a->writer, "waiting_gap_ns", cost.longest_gap_ns);
		fm_writer_flush(a->writer);
		if (a->options->at_end)
			a->options->at_end(a->writer, a->options->at_end_arg);
	}
	if (a->writer) {
		char path[4096];
		if (!err && fm_writer_has_moved(a->writer, path, sizeof(path)))
			fm_say("%s was renamed while Fathom wrote it; the profile is complete, as %s",
			       a->options->output_path, path);
		enum fm_err close_err = fm_writer_close(a->writer, err ? NULL : diag);
		err = err ? err : close_err;
	}
	if (a->recorder) {
		fm_recorder_destroy(a->recorder);
		fm_waiting_destroy(a->waiting);
	}
	fm_observed_deinit(&a->observed);
	fm_registry_destroy(a->registry);
	fm_shared_deinit(&a->shared);
	return err;
}

// While the process does nothing looks are drawn out, in proportion to how long that is.
static uint64_t idle_period_ns(const struct attach *a)
{
	uint64_t idle_ns = fm_waiting_idle_ns(a->waiting, fm_now_ns());
	return FM_MIN(idle_ns / IDLE_SHARE, (uint64_t)IDLE_MOST_NS);
}

// Until something ends it; true: the file has its size, and another one is to follow.
static bool observe(struct attach *a, uint64_t end_ns)
{
	const struct fm_attach_options *o = a->options;
	uint64_t period_ns = 1000000000u / FM_MAX(o->rate_hz, 1u), random = a->start_ns | 1;
	uint64_t next_ns = a->start_ns, flush_ns = a->start_ns + FLUSH_NS;
	while (!is_asked_to_stop && fm_now_ns() < end_ns) {
		uint64_t span_ns = FM_MAX(period_ns, idle_period_ns(a));
		next_ns = FM_MAX(next_ns + fm_random_around(&random, span_ns), fm_now_ns());
		fm_sleep_until_ns(FM_MIN(next_ns, end_ns));
		fm_observed_follow(&a->observed, fm_now_ns(), o->children, false);
		fm_recorder_drain(a->recorder);
		if (fm_now_ns() >= flush_ns) {
			flush_ns = fm_now_ns() + FLUSH_NS;
			if (fm_writer_flush(a->writer))
				return false; // looking on would be for nothing
			if (o->max_bytes && fm_writer_bytes(a->writer) > o->max_bytes / 2)
				return true;
		}
		if (!fm_observed_n_alive(&a->observed))
			return false;
	}
	return false;
}

enum fm_err fm_attach_run(const struct fm_attach_options *options, struct fm_diag *diag)
{
	struct fm_waiting_options looks = { .samples_running = options->may_stop, .cpu_percent = options->cpu_percent };
	enum fm_err err = check(options, options->may_stop, diag);
	uint64_t end_ns = UINT64_MAX;
	if (options->duration_s > 0)
		end_ns = fm_now_ns() + (uint64_t)(options->duration_s * 1e9);
	struct sigaction act = { .sa_handler = on_signal };
	for (bool goes_on = !err; goes_on;) {
		struct attach a = { .options = options, .shared = { .published_fd = -1, .fd = -1 } };
		err = begin(&a, &looks, diag);
		if (!err) {
			sigaction(SIGINT, &act, NULL);
			sigaction(SIGTERM, &act, NULL);
			sigaction(SIGHUP, &act, NULL);
		}
		goes_on = !err && observe(&a, end_ns);
		err = end(&a, err, diag);
		if (goes_on && !err && rename(options->output_path, options->older_path))
			err = fm_diag_set(diag, FM_E_IO, "cannot rename %s to %s: %m", options->output_path,
					  options->older_path);
		goes_on = goes_on && !err;
	}
	return err;
}

enum fm_err fm_attach_once(const struct fm_attach_options *options, size_t *ret_n_unread, struct fm_diag *ret_why,
			   struct fm_diag *diag)
{
	struct attach a = { .options = options, .shared = { .published_fd = -1, .fd = -1 } };
	struct fm_waiting_options looks = {
		.samples_running = options->may_stop, .tells_all = true, .locals = options->locals, .cpu_percent = 100
	};
	enum fm_err err = check(options, false, diag);
	if (err)
		return err;
	*ret_n_unread = 0;
	ret_why->text[0] = 0;
	if ((err = begin(&a, &looks, diag)))
		return end(&a, err, diag);
	// A thread that was between running and sleeping is caught at the next look.
	uint64_t until_ns = fm_now_ns() + MAX_ONCE_NS;
	for (;;) {
		fm_recorder_drain(a.recorder);
		*ret_n_unread = fm_waiting_n_untold(a.waiting);
		if (!*ret_n_unread || !options->may_stop || fm_waiting_is_hold_refused(a.waiting) ||
		    fm_now_ns() > until_ns || is_asked_to_stop)
			break;
		fm_sleep_until_ns(fm_now_ns() + AGAIN_NS);
	}
	for (size_t i = 0; *ret_n_unread && options->may_stop && i < options->n_pids && !ret_why->text[0]; i++)
		(void)!fm_observed_check_hold(options->pids[i], ret_why);
	return end(&a, FM_OK, diag);
}
