#include "collect/capture.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "collect/agent_path.h"
#include "collect/copies_unseen.h"
#include "collect/kernel_stacks.h"
#include "collect/launch.h"
#include "collect/process_memory.h"
#include "collect/punctual.h"
#include "collect/recorder.h"
#include "collect/shared.h"
#include "collect/ticker.h"
#include "collect/waiting.h"
#include "format/writer.h"

// The rings are read this often; a killed target loses nothing, but a killed collector loses what it had not read.
#define DRAIN_NS 10000000
// A chunk goes to disk this often: what a crash of the machine or of the collector can cost.
#define FLUSH_NS 100000000u
// A traced program may write 20 million events a second.
#define TRACE_DRAIN_NS 2000000
// A target that was asked to stop at the end of --duration gets so long before it is killed.
#define STOP_GRACE_NS 5000000000u
// How long children that outlive the program are waited for.
#define STRAGGLERS_NS 200000000u
// Samples shown at a system call that stand for the code before it: a larger share is worth a line in the report.
#define MANY_DISPLACED 0.03
// What a thread takes at most to get warm again after a tick that took its CPU (tests/e2e/test_crowded.py), and the share of its time worth telling.
#define COLD_S 40e-6
#define MANY_COLD 0.02
// Of processes in which the agent could not map what every process maps.
#define NO_ROOM "'ulimit -v' leaves no room for the 80 MiB of addresses that Fathom needs in a process; raise it"

static volatile sig_atomic_t caught_signal;

static void on_signal(int sig)
{
	caught_signal = sig;
}

struct capture {
	const struct fm_capture_options *options;
	struct fm_shared shared;
	struct fm_writer *writer;
	struct fm_recorder *recorder;
	struct fm_ticker *ticker;
	struct fm_kernel_stacks *kernel;
	struct fm_launch launch;
	uint64_t start_ns, end_ns; // of the target
	uint64_t start_cycles;
	struct rusage usage; // the target's
	int status;
	int beside_fd;             // of the process that joins by itself
	uint64_t beside_rss_bytes; // what it held before
	bool did_say_write_error;
	bool is_left; // the process beside us wanted no more, and goes on
};

static void meta_uint(struct fm_writer *w, const char *key, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	fm_writer_meta(w, key, fm_str_of(text));
}

static void write_opening(struct capture *c)
{
	struct fm_buf command = { 0 };
	for (char **arg = c->options->argv; *arg; arg++)
		fm_buf_bytes(&command, *arg, strlen(*arg) + (arg[1] != NULL)); // joined by NUL bytes
	if (command.len)
		fm_writer_meta(c->writer, "command", (struct fm_str){ (char *)command.data, (uint32_t)command.len });
	fm_buf_deinit(&command);
	char text[128];
	time_t now = time(NULL);
	struct tm utc;
	gmtime_r(&now, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	fm_writer_meta(c->writer, "started", fm_str_of(text));
	if (gethostname(text, sizeof(text)) == 0)
		fm_writer_meta(c->writer, "host", fm_str_of(text));
	fm_writer_meta(c->writer, "fathom_version", fm_str_of(FM_VERSION));
	fm_writer_meta(c->writer, "clock", FM_STR_LIT("monotonic"));
	fm_writer_meta(c->writer, "mode",
		       c->options->native ? FM_STR_LIT("cpu") : FM_STR_LIT("cpu, Python frames only"));
	fm_writer_meta(c->writer, "engine",
		       c->shared.header->engine == FM_ENGINE_PERF ? FM_STR_LIT("perf") : FM_STR_LIT("ticker"));
	meta_uint(c->writer, "rate_hz", c->options->rate_hz);
	fm_writer_meta(c->writer, "memory",
		       c->options->memory == FM_WIRE_MEMORY_EXACT     ? FM_STR_LIT("exact")
		       : c->options->memory == FM_WIRE_MEMORY_SAMPLED ? FM_STR_LIT("sampled")
								      : FM_STR_LIT("off"));
	snprintf(text, sizeof(text), "%d", c->options->precision);
	fm_writer_meta(c->writer, "precision", fm_str_of(text));
	meta_uint(c->writer, "alloc_mean_bytes", c->options->alloc_mean_bytes);
}

// Of the process beside us; 0 when it is gone. format: one line of its status.
static unsigned long read_status_kib(const struct capture *c, const char *format)
{
	char path[32], line[128];
	unsigned long kib = 0;
	snprintf(path, sizeof(path), "/proc/%u/status", c->options->beside_pid);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, format, &kib) != 1)
		;
	return kib;
}

static void coverage(struct capture *c, const char *what, const char *why)
{
	fm_writer_coverage(c->writer, fm_str_of(what), fm_str_of(why));
}

// What the memory figures leave out.
static void write_memory_coverage(struct capture *c, const struct fm_recorder_totals *totals)
{
	const struct fm_wire_header *header = c->shared.header;
	char what[256];
	if (c->options->memory == FM_WIRE_MEMORY_OFF)
		return;
	if (c->options->beside_pid) {
		snprintf(what, sizeof(what), "memory asked for before the capture began (%.1f MiB were resident)",
			 (double)c->beside_rss_bytes / (1 << 20));
		coverage(c, what,
			 "inside a running process only what comes later is seen, and when it is freed; "
			 "'fathom run' sees all of it");
	}
	if (atomic_load(&header->n_without_malloc))
		coverage(c, "memory that native code asks of malloc",
			 c->options->beside_pid
				 ? "the program's malloc is not libc's, and is bound already; 'fathom run' "
				   "stands before it"
				 : "another allocator is preloaded before Fathom's hooks; start the "
				   "program without LD_PRELOAD");
	if (atomic_load(&header->n_without_python))
		coverage(c, "Python's memory by object",
			 "the interpreter was loaded after the program's start; its blocks are seen as malloc's or "
			 "mmap's");
	if (atomic_load(&header->own_allocator_state) == FM_WIRE_LIVE) {
		snprintf(what, sizeof(what), "single blocks of %.*s", (int)sizeof(header->own_allocator),
			 header->own_allocator);
		coverage(c, what, "it brings an allocator of its own; what that maps is seen as a whole");
	}
	fm_copies_unseen_tell(c->writer);
	if (totals->n_alloc_dropped) {
		snprintf(what, sizeof(what), "%llu sampled allocations", (unsigned long long)totals->n_alloc_dropped);
		coverage(c, what,
			 "the program allocated faster than the collector could read; --precision -2 samples less");
	}
	if (atomic_load(&header->n_no_tables)) {
		snprintf(what, sizeof(what), "memory of %u processes", atomic_load(&header->n_no_tables));
		coverage(c, what, "'ulimit -v' leaves no room for the 10 MiB of tables that it takes; raise it");
	}
	if (atomic_load(&header->n_no_exact)) {
		snprintf(what, sizeof(what), "memory of %u processes", atomic_load(&header->n_no_exact));
		coverage(c, what,
			 "more than 64 ran at one time, or 'ulimit -v' leaves no room for tables; --memory without "
			 "=exact "
			 "needs neither");
	}
	if (totals->n_exact_lost) {
		snprintf(what, sizeof(what), "%llu allocations or frees", (unsigned long long)totals->n_exact_lost);
		coverage(c, what, "made inside a signal handler, or while other threads allocated without pause");
	}
	if (totals->n_unlogged) {
		snprintf(what, sizeof(what), "%llu events of the memory log", (unsigned long long)totals->n_unlogged);
		coverage(c, what, "the collector got too little CPU to keep up; the sums have them");
	}
	if (totals->log_end_ns) {
		snprintf(what, sizeof(what), "memory over time after the first %.1f s",
			 (double)(totals->log_end_ns - c->start_ns) * 1e-9);
		coverage(c, what,
			 "--memory-log had grown to its limit; a larger one is given as --memory-log=4G. Sums are "
			 "whole");
		meta_uint(c->writer, "memory_log_end_ns", totals->log_end_ns);
	}
	if (totals->n_exact_beyond) {
		snprintf(what, sizeof(what), "the place of %llu allocations",
			 (unsigned long long)totals->n_exact_beyond);
		coverage(c, what, "a process allocated from more than 262,143 different stacks");
	}
	if (totals->n_free_dropped) {
		snprintf(what, sizeof(what), "the end of %llu sampled blocks",
			 (unsigned long long)totals->n_free_dropped);
		coverage(c, what, "freed faster than the collector could read; they count as still there");
	}
}

static void write_closing(struct capture *c, const struct fm_recorder_totals *totals,
			  const struct fm_ticker_stats *ticks, uint64_t wall_ns)
{
	double cycles_per_ns = (double)(fm_cycles() - c->start_cycles) / (double)(fm_now_ns() - c->start_ns);
	char what[160];
	meta_uint(c->writer, "wall_ns", wall_ns);
	if (c->options->beside_pid)
		c->usage.ru_maxrss = (long)read_status_kib(c, "VmHWM: %lu"); // how it ends, only its parent knows
	else if (WIFEXITED(c->status))
		meta_uint(c->writer, "exit_code", (uint64_t)WEXITSTATUS(c->status));
	else
		meta_uint(c->writer, "exit_signal", (uint64_t)WTERMSIG(c->status));
	double cycles = (double)fm_cost_total_cycles(&totals->cost) + (double)totals->alloc_cycles;
	meta_uint(c->writer, "overhead_ns", (uint64_t)(cycles / cycles_per_ns));
	meta_uint(c->writer, "handler_median_ns",
		  (uint64_t)((double)fm_cost_median_cycles(&totals->cost) / cycles_per_ns));
	meta_uint(c->writer, "collector_cpu_ns", fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	meta_uint(c->writer, "waiting_cpu_ns", totals->waiting_cpu_ns);
	meta_uint(c->writer, "waiting_gap_ns", totals->waiting_gap_ns);
	meta_uint(c->writer, "max_rss_bytes", (uint64_t)c->usage.ru_maxrss * 1024);
	meta_uint(c->writer, "target_user_ns",
		  (uint64_t)c->usage.ru_utime.tv_sec * 1000000000u + (uint64_t)c->usage.ru_utime.tv_usec * 1000u);
	meta_uint(c->writer, "target_system_ns",
		  (uint64_t)c->usage.ru_stime.tv_sec * 1000000000u + (uint64_t)c->usage.ru_stime.tv_usec * 1000u);
	meta_uint(c->writer, "n_dropped", totals->n_dropped + atomic_load(&c->shared.header->n_no_slot));
	meta_uint(c->writer, "n_failed_unwinds", totals->n_failed);
	meta_uint(c->writer, "n_restarted_calls", totals->n_restarted);
	meta_uint(c->writer, "n_signals", ticks->n_signals);
	if (c->options->beside_pid && c->is_left)
		fm_writer_meta(c->writer, "goes_on", FM_STR_LIT("yes"));
	if (c->options->beside_pid && c->options->children_join)
		coverage(c,
			 "programs that this one started and that are not Python, or got an environment of their own",
			 "a trace is joined by Pythons that inherit the environment; 'fathom run' follows everything");
	else if (c->options->beside_pid)
		coverage(c, "programs that this one started meanwhile",
			 "a capture inside a running process follows forks only; 'fathom run' follows everything");
	if (totals->trace.n_events) {
		meta_uint(c->writer, "trace_events", totals->trace.n_events);
		meta_uint(c->writer, "trace_lost", totals->trace.n_lost);
	}
	if (totals->trace.n_short) {
		snprintf(what, sizeof(what), "%llu short calls", (unsigned long long)totals->trace.n_short);
		coverage(c, what, "--min-duration leaves them out; their time is their callers'");
	}
	if (totals->trace.n_lost) {
		snprintf(what, sizeof(what), "%llu events of the trace", (unsigned long long)totals->trace.n_lost);
		coverage(c, what,
			 "the collector got too little CPU to keep up, and the program was not made to wait longer");
	}
	if (totals->trace.n_unseen)
		coverage(c, "calls at the deepest points of the recursion",
			 "Python 3.11 needs C stack for each traced call; near its end calls go untraced. A larger "
			 "'ulimit "
			 "-s' helps");
	if (totals->n_processes == 0)
		coverage(c, "the whole program",
			 atomic_load(&c->shared.header->n_no_room) ? NO_ROOM
								   : "the agent was not loaded into it: it is "
								     "statically linked, set-user-id, or clears its "
								     "environment");
	if (c->shared.header->engine == FM_ENGINE_PERF)
		coverage(c, "system time as such",
			 "engine perf samples user code only: time in the kernel is counted where the thread next runs "
			 "its own code; "
			 "--engine ticker tells it apart");
	if (totals->n_displaced > MANY_DISPLACED * (double)totals->n_samples) {
		snprintf(what, sizeof(what), "the very place of %.0f%% of the samples",
			 100.0 * (double)totals->n_displaced / (double)totals->n_samples);
		coverage(c, what,
			 "they stand for code that ran some microseconds before the system call at which they are "
			 "shown; "
			 "docs/sampling-math.md says why");
	}
	double cold = ticks->n_signals
			      ? COLD_S * c->options->rate_hz * (double)ticks->n_crowded / (double)ticks->n_signals
			      : 0;
	if (cold > MANY_COLD) {
		snprintf(what, sizeof(what), "the very place of up to %.0f%% of the CPU time", 100 * FM_MIN(cold, 1));
		coverage(c, what,
			 "the machine was crowded, and each look took the program its CPU: what it then takes to "
			 "fill the caches again is shown at what ran at the next look; a CPU left free for Fathom "
			 "avoids it");
	}
	if (ticks->n_perf_lost) {
		snprintf(what, sizeof(what), "some 20 ms of %u process%s", ticks->n_perf_lost,
			 ticks->n_perf_lost == 1 ? "" : "es");
		coverage(c, what, "descriptors of others were closed, the perf event's among them; the ticker went on");
	}
	if (ticks->n_blocked_threads) {
		snprintf(what, sizeof(what), "%u thread%s", ticks->n_blocked_threads,
			 ticks->n_blocked_threads == 1 ? "" : "s");
		coverage(c, what,
			 "blocked the sampling signal (SIGURG) for some time; their CPU time is counted where they "
			 "next allowed it");
	}
	if (ticks->lowest_rate_hz && ticks->lowest_rate_hz + 1 < c->options->rate_hz) {
		snprintf(what, sizeof(what), "some samples: the rate went down to %u Hz", ticks->lowest_rate_hz);
		coverage(c, what, "deep stacks cost more than --max-overhead allows");
	}
	if (totals->n_processes_alive && !c->options->beside_pid) { // beside us, it goes on as it should
		snprintf(what, sizeof(what), "the rest of %u child process%s", totals->n_processes_alive,
			 totals->n_processes_alive == 1 ? "" : "es");
		coverage(c, what, "still running when the program ended");
	}
	if (atomic_load(&c->shared.header->n_no_process)) {
		snprintf(what, sizeof(what), "%llu processes",
			 (unsigned long long)atomic_load(&c->shared.header->n_no_process));
		coverage(c, what, "more than 1024 processes ran at one time");
	}
	if (atomic_load(&c->shared.header->n_no_slot)) {
		char why[96];
		snprintf(what, sizeof(what), "%llu samples",
			 (unsigned long long)atomic_load(&c->shared.header->n_no_slot));
		snprintf(why, sizeof(why), "more than %u threads ran at one time%s", c->shared.n_slots,
			 c->shared.n_slots < FM_WIRE_N_SLOTS ? ", and 'ulimit -v' leaves no room for more" : "");
		coverage(c, what, why);
	}
	if (atomic_load(&c->shared.header->n_no_place)) {
		snprintf(what, sizeof(what), "%llu samples",
			 (unsigned long long)atomic_load(&c->shared.header->n_no_place));
		coverage(c, what, "'ulimit -v' left no address space for their threads, 3 MiB each; raise it");
	}
	uint32_t n_no_room = atomic_load(&c->shared.header->n_no_room);
	if (n_no_room && totals->n_processes) {
		snprintf(what, sizeof(what), "%u process%s", n_no_room, n_no_room == 1 ? "" : "es");
		coverage(c, what, NO_ROOM);
	}
	write_memory_coverage(c, totals);
	if (totals->n_bad_records) {
		snprintf(what, sizeof(what), "%llu records", (unsigned long long)totals->n_bad_records);
		coverage(c, what, "the target wrote over the memory it shares with Fathom");
	}
}

static void tell_no_perf(struct capture *c, int perf_errno)
{
	char why[160];
	snprintf(why, sizeof(why), "perf events were refused (%s), so the ticker was used; 'fathom doctor' says more",
		 strerror(perf_errno));
	coverage(c, "engine perf, which was asked for", why);
}

static void say_write_error_once(struct capture *c)
{
	enum fm_err err = fm_writer_error(c->writer);
	if (!err || c->did_say_write_error)
		return;
	c->did_say_write_error = true;
	fm_say("cannot write more to %s: %s; the program goes on, the profile ends here", c->options->output_path,
	       strerror(errno));
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
		coverage(c, "functions of the kernel", diag.text);
	else
		fm_recorder_add_kernel(c->recorder, c->kernel);
}

// Takes over what the target wrote, and puts it on disk now and then. Returns the time.
static uint64_t drain(struct capture *c, uint64_t *flush_ns)
{
	fm_recorder_drain(c->recorder);
	uint64_t now_ns = fm_now_ns();
	if (now_ns >= *flush_ns) {
		*flush_ns = now_ns + FLUSH_NS;
		if (fm_writer_flush(c->writer))
			say_write_error_once(c);
	}
	return now_ns;
}

// The process beside us has ended, or wants no more.
static bool is_beside_over(const struct capture *c)
{
	return atomic_load(&c->shared.header->is_over) || fm_process_is_over(c->beside_fd, c->options->beside_pid);
}

static void follow_beside(struct capture *c)
{
	uint64_t flush_ns = c->start_ns + FLUSH_NS;
	for (bool is_over = false; !is_over;) {
		struct timespec nap = { .tv_nsec = TRACE_DRAIN_NS };
		nanosleep(&nap, NULL);
		is_over = is_beside_over(c); // before draining: what it wrote last is then in the rings
		c->is_left = atomic_load(&c->shared.header->is_over) != 0;
		c->end_ns = drain(c, &flush_ns);
	}
}

// Until the target has ended. The terminal sends Ctrl-C to both of us: the target decides what it means.
static void follow(struct capture *c)
{
	uint64_t flush_ns = c->start_ns + FLUSH_NS, stop_ns = UINT64_MAX, kill_ns = UINT64_MAX;
	if (c->options->duration_s > 0)
		stop_ns = c->start_ns + (uint64_t)(c->options->duration_s * 1e9);
	for (;;) {
		struct timespec nap = { .tv_nsec = c->options->has_calls ? TRACE_DRAIN_NS : DRAIN_NS };
		nanosleep(&nap, NULL);
		if (caught_signal) {
			kill(c->launch.pid, caught_signal);
			caught_signal = 0;
		}
		// Reaping comes before draining: what the target wrote last is then in the rings.
		pid_t reaped = wait4(c->launch.pid, &c->status, WNOHANG, &c->usage);
		if (reaped == c->launch.pid)
			fm_recorder_set_exit(c->recorder, (uint32_t)reaped,
					     WIFEXITED(c->status) ? WEXITSTATUS(c->status) : -1,
					     WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0);
		uint64_t now_ns = drain(c, &flush_ns);
		if (reaped != 0) {
			c->end_ns = now_ns;
			return;
		}
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

static void raise_descriptor_limit(void)
{
	// One descriptor per thread of the target is held open.
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

enum fm_err fm_capture_run(const struct fm_capture_options *options, struct fm_capture_result *ret,
			   struct fm_diag *diag)
{
	struct capture c = { .options = options, .shared = { .fd = -1 }, .launch = { .pid = -1 }, .beside_fd = -1 };
	struct fm_ticker_stats ticks = { 0 };
	struct fm_recorder_totals totals = { 0 };
	char agent_path[4096];
	int perf_errno = 0;
	*ret = (struct fm_capture_result){ .exit_code = 1 };
	enum fm_err err = fm_agent_path_find(agent_path, sizeof(agent_path), diag);
	if (err)
		return err;
	// A file-size limit is an error of write(), not the end of us; the program gets the signal back as it was.
	struct sigaction ignore = { .sa_handler = SIG_IGN }, xfsz_before;
	sigaction(SIGXFSZ, &ignore, &xfsz_before);
	if ((err = fm_shared_init(&c.shared, diag)))
		goto out;
	c.shared.header->rate_hz = options->rate_hz;
	c.shared.header->engine = options->engine ? options->engine : fm_engine_choose();
	if (options->engine == FM_ENGINE_PERF && !fm_engine_perf_is_permitted(&perf_errno))
		c.shared.header->engine = FM_ENGINE_TICKER;
	c.shared.header->flags =
		(options->native ? 0 : FM_WIRE_NO_NATIVE) | (options->children ? 0 : FM_WIRE_NO_CHILDREN);
	c.shared.header->memory = options->memory;
	if (options->memory == FM_WIRE_MEMORY_EXACT && (err = fm_shared_map_sums(&c.shared, diag)))
		goto out;
	atomic_store(&c.shared.header->memory_log, options->log_bytes != 0);
	c.shared.header->alloc_mean_bytes = options->alloc_mean_bytes;
	if ((err = fm_writer_open(options->output_path, &c.writer, diag)))
		goto out;
	write_opening(&c);
	if (perf_errno)
		tell_no_perf(&c, perf_errno);
	if ((err = fm_writer_flush(c.writer))) {
		fm_diag_set(diag, err, "cannot write to %s: %s", options->output_path, strerror(errno));
		goto out;
	}
	if (options->on_open)
		options->on_open(options->output_path, options->on_open_arg);
	c.recorder = fm_recorder_create(&c.shared, c.writer, &options->trace);
	fm_recorder_set_sources(c.recorder, options->sources_dir);
	fm_recorder_limit_log(c.recorder, options->log_bytes);
	if (options->beside_pid)
		fm_waiting_set(fm_recorder_waiting(c.recorder), &(struct fm_waiting_options){ .came_late = true });
	c.start_ns = fm_now_ns();
	c.start_cycles = fm_cycles();
	sigaction(SIGXFSZ, &xfsz_before, NULL);
	if (options->beside_pid) {
		c.beside_fd = (int)syscall(SYS_pidfd_open, options->beside_pid, 0);
	} else if ((err = fm_launch_start(&c.launch, options->argv, options->env, agent_path, c.shared.env_value,
					  &ret->exit_code, diag))) {
		if (c.launch.pid > 0)
			waitpid(c.launch.pid, NULL, 0);
		goto out;
	}
	fm_ask_for_punctuality(0); // not before the target is on its way: it would inherit it
	hold_signals(!options->beside_pid);
	raise_descriptor_limit();
	struct fm_ticker_options ticker_options = { .rate_hz = options->rate_hz,
						    .max_overhead = options->max_overhead };
	if (fm_ticker_start(&c.shared, &ticker_options, &c.ticker, diag) && c.shared.header->engine == FM_ENGINE_TICKER)
		coverage(&c, "the whole program",
			 "the thread that samples could not be started: a limit on processes ('ulimit -u', or the "
			 "container's) was reached; raise it, or use --engine perf");
	if (options->kernel && !options->beside_pid)
		watch_kernel(&c);
	if (options->beside_pid) {
		c.beside_rss_bytes = read_status_kib(&c, "VmRSS: %lu") * 1024ull;
		options->on_ready(c.shared.env_value); // all is ready: not a millisecond of a short block is missed
		c.start_ns = fm_now_ns();
		c.start_cycles = fm_cycles();
		follow_beside(&c);
	} else {
		follow(&c);
		wait_for_stragglers(&c);
	}
	atomic_store(&c.shared.header->is_over, 1);
	if (c.ticker)
		fm_ticker_stop(c.ticker, &ticks);
	fm_recorder_finish(c.recorder, &totals);
	fm_kernel_stacks_close(c.kernel);
	ret->wall_ns = c.end_ns - c.start_ns;
	write_closing(&c, &totals, &ticks, ret->wall_ns);
	fm_writer_flush(c.writer); // whatever happens in the next step, this is on disk
	if (options->at_end)
		options->at_end(c.writer, options->at_end_arg);
	ret->n_samples = totals.n_samples;
	ret->exit_signal = WIFSIGNALED(c.status) ? WTERMSIG(c.status) : 0;
	ret->exit_code = ret->exit_signal ? 128 + ret->exit_signal : WEXITSTATUS(c.status);
out:
	if (c.writer) {
		say_write_error_once(&c);
		enum fm_err close_err = fm_writer_close(c.writer, NULL);
		if (close_err && !err && !c.did_say_write_error)
			fm_say("cannot write all of %s; it is readable up to its last whole part",
			       options->output_path);
	}
	if (c.recorder)
		fm_recorder_destroy(c.recorder);
	fm_launch_deinit(&c.launch);
	if (c.beside_fd >= 0)
		close(c.beside_fd);
	fm_shared_deinit(&c.shared);
	return err;
}
