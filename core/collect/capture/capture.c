// SPDX-License-Identifier: Apache-2.0
#include "collect/capture/parts.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "collect/capture/agent_path.h"
#include "collect/process/machine.h"
#include "collect/process/kernel_stacks.h"
#include "collect/process/proc.h"
#include "collect/observe/waiting.h"
#include "format/writer.h"

// The rings are read and threads that wait are looked at this often, on average: two threads that
// take turns every 5 ms would show each look the same one. A killed target loses nothing, but a
// killed collector loses what it had not read.
#define DRAIN_NS 10000000
// A chunk goes to disk this often: what a crash of the machine or of the collector can cost.
#define FLUSH_NS 100000000u
// While the program does nothing, less often, in proportion to how long that is: the end of a wait is
// known to half of such a time. New samples then wait in rings that hold more than that.
#define IDLE_SHARE 16u
#define IDLE_DRAIN_NS 100000000
// A traced program may write 20 million events a second.
#define TRACE_DRAIN_NS 2000000
// A target that was asked to stop at the end of --duration gets so long before it is killed.
#define STOP_GRACE_NS 5000000000u
// How long children that outlive the program are waited for.
#define STRAGGLERS_NS 200000000u

static volatile sig_atomic_t caught_signal;

static void on_signal(int sig)
{
	caught_signal = sig;
}

// Of the process beside us; 0 when it is gone. name: what a line of its status begins with.
static unsigned long read_status_kib(const struct capture *c, const char *name)
{
	char text[4096];
	unsigned long kib;
	fm_process_read_proc(c->options->beside_pid, "status", text, sizeof(text));
	const char *line = strstr(text, name);
	return line && sscanf(line + strlen(name), "%lu", &kib) == 1 ? kib : 0;
}

static void say_write_error_once(struct capture *c)
{
	enum fm_err err = fm_writer_error(c->writer);
	if (!err || c->did_say_write_error)
		return;
	c->did_say_write_error = true;
	struct fm_diag diag;
	fm_writer_describe_error(c->writer, &diag);
	fm_say("%s; the program continues without Fathom", diag.text);
}

static void say_where_it_is(const struct capture *c)
{
	char path[4096];
	if (fm_writer_has_moved(c->writer, path, sizeof(path)))
		fm_say("%s was renamed while Fathom wrote it; the profile is complete, as %s", c->options->output_path,
		       path);
}

// Helpers that a program leaves behind (multiprocessing's servers) end a moment after it.
static void wait_for_stragglers(struct capture *c)
{
	for (uint64_t end_ns = fm_now_ns() + STRAGGLERS_NS; fm_now_ns() < end_ns && fm_recorder_n_alive(c->recorder);) {
		struct timespec nap = { .tv_nsec = DRAIN_NS };
		nanosleep(&nap, NULL);
		fm_recorder_drain(c->recorder);
	}
}

static void watch_kernel(struct capture *c)
{
	struct fm_diag diag;
	if (fm_kernel_stacks_open((uint32_t)c->launch.pid, c->options->rate_hz, c->writer, &c->kernel, &diag))
		fm_capture_lacks(c, diag.text, "functions of the kernel");
	else
		fm_recorder_add_kernel(c->recorder, c->kernel);
}

// Nothing more can be written: the agent is told to stop, and the program goes on by itself.
static void give_up(struct capture *c)
{
	say_write_error_once(c);
	c->has_given_up = true;
	atomic_store(&c->shared.counts->is_over, 1);
}

// Takes over what the target wrote, and puts it on disk now and then. Returns the time.
static uint64_t drain(struct capture *c)
{
	fm_shared_beat(&c->shared, fm_now_ns());
	if (!c->has_given_up)
		fm_recorder_drain(c->recorder);
	uint64_t now_ns = fm_now_ns();
	if (now_ns >= c->flush_ns && !c->has_given_up) {
		c->flush_ns = now_ns + FLUSH_NS;
		if (fm_writer_flush(c->writer))
			give_up(c);
	}
	return now_ns;
}

void fm_capture_keep_up(struct capture *running)
{
	(void)drain(running);
}

// The process beside us has ended, or wants no more.
static bool is_beside_over(const struct capture *c)
{
	return atomic_load(&c->shared.counts->is_over) || fm_process_is_over(c->beside_fd, c->options->beside_pid);
}

static bool has_left(const struct capture *c, uint32_t pid)
{
	struct fm_registered now;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (fm_registry_read(c->registry, i, &now) && now.pid == pid)
			return now.said.engine == FM_ENGINE_NONE;
	return false;
}

// The agent was not there from the beginning, and does not see every way to put up a filter of
// system calls (agent/sandbox.c): ctypes asks libc itself. What came between is too late to be
// helped, and nothing more is to be asked of the process.
static bool is_beside_sandboxed(struct capture *c)
{
	uint32_t pid = c->options->beside_pid;
	if (!fm_sandbox_watch_look(&c->beside_filter, pid))
		return false;
	if (!has_left(c, pid))
		atomic_fetch_add(&c->shared.counts->n_sandboxed, 1);
	return true;
}

static void follow_beside(struct capture *c)
{
	for (bool is_over = false; !is_over;) {
		struct timespec nap = { .tv_nsec = (long)fm_random_around(&c->random, TRACE_DRAIN_NS) };
		nanosleep(&nap, NULL);
		is_over = is_beside_over(c); // before draining: what it wrote last is then in the rings
		const struct fm_capture_options *o = c->options;
		if ((!is_over && is_beside_sandboxed(c)) ||
		    (o->on_poll && o->on_poll(o->beside_pid, fm_now_ns() - c->start_ns, o->on_poll_arg)))
			atomic_store(&c->shared.counts->is_over, 1);
		c->is_left = atomic_load(&c->shared.counts->is_over) != 0;
		c->end_ns = drain(c);
	}
}

static void nap(struct capture *c)
{
	bool may_rest = c->ticker && c->shared.header->engine == FM_ENGINE_TICKER && !c->options->memory;
	uint64_t idle_ns = may_rest ? fm_ticker_idle_ns(c->ticker, fm_now_ns()) : 0;
	int64_t rest_ns = (int64_t)FM_MIN(idle_ns / IDLE_SHARE, (uint64_t)IDLE_DRAIN_NS);
	int64_t ns = (int64_t)fm_random_around(&c->random, c->options->has_calls ? TRACE_DRAIN_NS : DRAIN_NS);
	if (!c->options->has_calls)
		ns = FM_MAX(ns, rest_ns);
	struct pollfd end = { .fd = c->target_fd, .events = POLLIN };
	ppoll(&end, 1, &(struct timespec){ .tv_nsec = ns }, NULL);
}

// Of one that has ended and was not waited for: the last moment at which the kernel tells its children's
// share apart.
static void note_children(struct capture *c)
{
	siginfo_t info = { 0 };
	uint32_t pid = (uint32_t)c->launch.pid;
	if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
		c->children_ns = fm_process_ticks_ns(fm_process_stat(pid, FM_STAT_CHILDREN_USER_TICKS) +
						     fm_process_stat(pid, FM_STAT_CHILDREN_SYSTEM_TICKS));
}

// Until the target has ended. The terminal sends Ctrl-C to both of us: the target decides what it
// means.
static void follow(struct capture *c)
{
	uint64_t stop_ns = UINT64_MAX, kill_ns = UINT64_MAX;
	if (c->options->duration_s > 0)
		stop_ns = c->start_ns + (uint64_t)(c->options->duration_s * 1e9);
	for (;;) {
		nap(c);
		if (caught_signal) {
			kill(c->launch.pid, caught_signal);
			caught_signal = 0;
		}
		note_children(c);
		// Reaping comes before draining: what the target wrote last is then in the rings.
		pid_t reaped = wait4(c->launch.pid, &c->status, WNOHANG, &c->usage);
		if (reaped == c->launch.pid)
			fm_recorder_set_exit(c->recorder, (uint32_t)reaped,
					     WIFEXITED(c->status) ? WEXITSTATUS(c->status) : -1,
					     WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0);
		uint64_t now_ns = drain(c);
		if (reaped != 0) {
			c->end_ns = now_ns;
			return;
		}
		const struct fm_capture_options *o = c->options;
		if (o->on_poll && o->on_poll((uint32_t)c->launch.pid, now_ns - c->start_ns, o->on_poll_arg))
			stop_ns = now_ns;
		if (now_ns >= stop_ns) {
			stop_ns = UINT64_MAX;
			kill_ns = now_ns + STOP_GRACE_NS;
			kill(c->launch.pid, SIGTERM);
		}
		if (now_ns >= kill_ns) {
			kill_ns = UINT64_MAX;
			kill(c->launch.pid, SIGKILL);
		}
	}
}

static void hold_signals(bool passes_on)
{
	struct sigaction act = { .sa_handler = SIG_IGN };
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGQUIT, &act, NULL);
	sigaction(SIGPIPE, &act, NULL);
	sigaction(SIGXFSZ, &act, NULL);
	if (passes_on)
		act.sa_handler = on_signal;
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
}

// The cycle counter's rate, to one in a thousand: deadlines are counted in it.
static uint32_t measure_cycles(void)
{
	uint64_t start_ns = fm_now_ns(), start = fm_cycles(), now_ns;
	do
		now_ns = fm_now_ns();
	while (now_ns - start_ns < 200000);
	return (uint32_t)((fm_cycles() - start) * 1024 / (now_ns - start_ns));
}

// The file and the shared memory, as the options want them. Nothing runs yet.
static enum fm_err prepare(struct capture *c, struct fm_diag *diag)
{
	const struct fm_capture_options *options = c->options;
	enum fm_err err = fm_shared_init(&c->shared, diag);
	if (err)
		return err;
	struct fm_wire_header *header = c->shared.header;
	int perf_errno = 0;
	header->rate_hz = options->rate_hz;
	header->engine = options->engine ? options->engine : FM_ENGINE_TICKER;
	if (options->engine == FM_ENGINE_PERF && !fm_engine_perf_is_permitted(&perf_errno))
		header->engine = FM_ENGINE_TICKER;
	header->flags = (options->native ? 0 : FM_WIRE_NO_NATIVE) | (options->children ? 0 : FM_WIRE_NO_CHILDREN);
	header->memory = options->memory;
	if (options->memory == FM_WIRE_MEMORY_EXACT && (err = fm_shared_map_sums(&c->shared, diag)))
		return err;
	atomic_store(&header->memory_log, options->log_bytes != 0);
	header->alloc_mean_bytes = options->alloc_mean_bytes;
	header->cycles_per_1024ns = measure_cycles();
	header->max_overhead_1024 = (uint32_t)(options->max_overhead * 1024);
	if ((err = fm_writer_open(options->output_path, &c->writer, diag)))
		return err;
	fm_writer_redact(c->writer, options->redact);
	fm_capture_write_opening(c, perf_errno);
	if ((err = fm_writer_flush(c->writer))) {
		fm_writer_describe_error(c->writer, diag);
		return err;
	}
	if (options->on_open)
		options->on_open(options->output_path, options->on_open_arg);
	c->registry = fm_registry_create(&c->shared);
	c->recorder = fm_recorder_create(c->registry, c->writer, &options->trace);
	fm_recorder_set_sources(c->recorder, options->sources_dir);
	fm_recorder_limit_log(c->recorder, options->log_bytes);
	c->waiting = fm_waiting_create(c->recorder, c->writer, c->registry);
	if (options->beside_pid)
		fm_waiting_set(c->waiting, &(struct fm_waiting_options){ .came_late = true });
	return FM_OK;
}

static void start_clock(struct capture *c)
{
	c->start_ns = fm_now_ns();
	c->start_cycles = fm_cycles();
	c->flush_ns = c->start_ns + FLUSH_NS;
	c->random = c->start_ns | 1;
}

// From the start of the target, or the word to the process beside us, to its end.
static void watch(struct capture *c)
{
	const struct fm_capture_options *options = c->options;
	struct fm_diag diag;
	struct fm_ticker_options ticker_options = { .rate_hz = options->rate_hz,
						    .max_overhead = options->max_overhead };
	if (fm_ticker_start(c->registry, &ticker_options, &c->ticker, &diag) &&
	    c->shared.header->engine == FM_ENGINE_TICKER)
		fm_capture_lacks(c,
				 "cannot start the sampling thread: a limit on processes was reached ('ulimit -u', or "
				 "the container's); raise it, or use --engine perf",
				 "the whole program");
	if (options->beside_pid) {
		c->beside_rss_bytes = read_status_kib(c, "VmRSS:") * 1024ull;
		options->on_ready(c->shared.env_value, c,
				  options->on_ready_arg); // all is ready: not a millisecond of a short block is missed
		start_clock(c);
		follow_beside(c);
		c->usage.ru_maxrss = (long)read_status_kib(c, "VmHWM:");
	} else {
		if (options->kernel)
			watch_kernel(c);
		follow(c);
		wait_for_stragglers(c);
	}
}

static void finish(struct capture *c)
{
	struct fm_ticker_stats ticks = { 0 };
	struct fm_recorder_totals totals = { 0 };
	atomic_store(&c->shared.counts->is_over, 1);
	if (c->ticker)
		fm_ticker_stop(c->ticker, &ticks);
	fm_recorder_finish(c->recorder, &totals);
	fm_kernel_stacks_close(c->kernel);
	fm_capture_write_closing(c, &totals, &ticks);
	fm_writer_flush(c->writer); // whatever happens in the next step, this is on disk
	if (c->options->at_end)
		c->options->at_end(c->writer, c->options->at_end_arg);
}

// How the file fared, which was said.
static enum fm_err release(struct capture *c, bool did_run)
{
	enum fm_err err = FM_OK;
	if (c->writer) {
		struct fm_diag diag;
		fm_writer_flush(c->writer);
		if (did_run) {
			say_write_error_once(c);
			say_where_it_is(c);
		}
		err = fm_writer_close(c->writer, &diag);
		if (err && did_run && !c->did_say_write_error)
			fm_say("%s", diag.text);
	}
	if (c->recorder) {
		fm_recorder_destroy(c->recorder);
		fm_waiting_destroy(c->waiting);
	}
	fm_registry_destroy(c->registry);
	fm_launch_deinit(&c->launch);
	if (c->beside_fd >= 0)
		close(c->beside_fd);
	if (c->target_fd >= 0)
		close(c->target_fd);
	fm_shared_deinit(&c->shared);
	return err;
}

enum fm_err fm_capture_run(const struct fm_capture_options *options, int *ret_exit_code, struct fm_diag *diag)
{
	struct capture c = { .options = options,
			     .shared = { .published_fd = -1, .fd = -1 },
			     .launch = { .pid = -1 },
			     .beside_fd = -1,
			     .target_fd = -1 };
	char agent_path[4096];
	*ret_exit_code = 1;
	enum fm_err err = fm_agent_path_find(agent_path, sizeof(agent_path), diag);
	if (err)
		return err;
	// A file-size limit is an error of write(), not the end of us; the program gets the signal
	// back as it was.
	struct sigaction ignore = { .sa_handler = SIG_IGN }, xfsz_before;
	sigaction(SIGXFSZ, &ignore, &xfsz_before);
	if ((err = prepare(&c, diag))) {
		release(&c, false);
		return err;
	}
	start_clock(&c);
	sigaction(SIGXFSZ, &xfsz_before, NULL);
	if (options->beside_pid) {
		c.beside_fd = (int)syscall(SYS_pidfd_open, options->beside_pid, 0);
	} else if ((err = fm_launch_start(&c.launch, options->argv, options->env, agent_path, c.shared.env_value,
					  ret_exit_code, diag))) {
		if (c.launch.pid > 0)
			waitpid(c.launch.pid, NULL, 0);
		release(&c, false);
		return err;
	}
	if (!options->beside_pid)
		c.target_fd = (int)syscall(SYS_pidfd_open, c.launch.pid, 0);
	fm_raise_sched_priority(0); // not before the target is on its way: it would inherit it
	hold_signals(!options->beside_pid);
	fm_descriptors_raise();
	watch(&c);
	finish(&c);
	*ret_exit_code = WIFSIGNALED(c.status) ? 128 + WTERMSIG(c.status) : WEXITSTATUS(c.status);
	if (release(&c, true) == FM_E_NOT_FOUND && !*ret_exit_code)
		*ret_exit_code = 1; // the program was well; what was asked of us is lost
	return FM_OK;
}
