// SPDX-License-Identifier: Apache-2.0
#include "collect/capture/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "collect/ingest/recorder.h"
#include "collect/process/machine.h"
#include "format/writer.h"

// Samples shown at a system call that stand for the code before it: a larger share is worth a line
// in the report.
#define MANY_DISPLACED 0.03
// The share of its time that a thread takes to get warm again after ticks that took its CPU, from
// which on it is worth telling.
#define MANY_COLD 0.02
#define COLD_RATE_HZ 1000 // the rate that no caches make lower (collect/observe/ticker_rate.c)
// The share of the CPU time for which samples stand that came ten periods late.
#define MUCH_HEAVY 0.05
// Of processes in which the agent could not map what every process maps.
#define NO_ROOM "'ulimit -v' leaves no room for the 80 MiB of addresses that Fathom needs in a process; raise it"

void fm_capture_lacks(const struct capture *c, const char *why, const char *what, ...)
{
	char text[256];
	va_list args;
	va_start(args, what);
	vsnprintf(text, sizeof(text), what, args);
	va_end(args);
	fm_writer_coverage(c->writer, fm_str_of(text), fm_str_of(why));
}

// Of "process".
static const char *plural(uint32_t n)
{
	return n == 1 ? "" : "es";
}

void fm_capture_write_opening(const struct capture *c, int perf_errno)
{
	const struct fm_capture_options *options = c->options;
	struct fm_buf command = { 0 };
	for (char **arg = options->argv; *arg; arg++)
		fm_buf_bytes(&command, *arg, strlen(*arg) + (arg[1] != NULL)); // joined by NUL bytes
	if (command.len)
		fm_writer_meta(c->writer, "command", (struct fm_str){ (char *)command.data, (uint32_t)command.len });
	fm_buf_deinit(&command);
	fm_meta_origin(c->writer);
	fm_writer_meta(c->writer, "mode", options->native ? FM_STR_LIT("cpu") : FM_STR_LIT("cpu, Python frames only"));
	fm_writer_meta(c->writer, "engine",
		       c->shared.header->engine == FM_ENGINE_PERF ? FM_STR_LIT("perf") : FM_STR_LIT("ticker"));
	fm_meta_uint(c->writer, "rate_hz", options->rate_hz);
	fm_writer_meta(c->writer, "memory",
		       options->memory == FM_WIRE_MEMORY_EXACT     ? FM_STR_LIT("exact")
		       : options->memory == FM_WIRE_MEMORY_SAMPLED ? FM_STR_LIT("sampled")
								   : FM_STR_LIT("off"));
	char text[160];
	snprintf(text, sizeof(text), "%d", options->precision);
	fm_writer_meta(c->writer, "precision", fm_str_of(text));
	fm_meta_uint(c->writer, "alloc_mean_bytes", options->alloc_mean_bytes);
	if (perf_errno) {
		snprintf(text, sizeof(text),
			 "perf events were refused (%s), so the ticker was used; run 'fathom doctor' for details",
			 strerror(perf_errno));
		fm_capture_lacks(c, text, "the perf engine, which was requested");
	}
}

static uint64_t timeval_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

// What ticks cost the program beside their handlers. Which code paid for it no sample tells.
static double disturbed_ns(const struct fm_recorder_totals *totals, const struct fm_ticker_stats *ticks)
{
	return (double)totals->n_samples * FM_TICKER_DELIVERY_NS + (double)ticks->n_crowded * FM_TICKER_COLD_NS;
}

// Of the CPU time, that may have been spent in what ran before.
static double cold_share(const struct capture *c, const struct fm_ticker_stats *ticks)
{
	double cpu_ns = (double)(timeval_ns(&c->usage.ru_utime) + timeval_ns(&c->usage.ru_stime));
	if (cpu_ns > 0)
		return FM_TICKER_COLD_NS * (double)ticks->n_crowded / cpu_ns;
	return ticks->n_signals ? FM_TICKER_COLD_NS * 1e-9 * c->options->rate_hz * (double)ticks->n_crowded /
					  (double)ticks->n_signals
				: 0;
}

static void write_figures(const struct capture *c, const struct fm_recorder_totals *totals,
			  const struct fm_ticker_stats *ticks)
{
	struct fm_writer *w = c->writer;
	double cycles_per_ns = (double)(fm_cycles() - c->start_cycles) / (double)(fm_now_ns() - c->start_ns);
	double cycles = (double)fm_cost_total_cycles(&totals->cost) + (double)totals->alloc_cycles;
	fm_meta_uint(w, "wall_ns", c->end_ns - c->start_ns);
	if (!c->options->beside_pid) { // how such a one ends, only its parent knows
		if (WIFEXITED(c->status))
			fm_meta_uint(w, "exit_code", (uint64_t)WEXITSTATUS(c->status));
		else
			fm_meta_uint(w, "exit_signal", (uint64_t)WTERMSIG(c->status));
	}
	fm_meta_uint(w, "overhead_ns", (uint64_t)(cycles / cycles_per_ns));
	fm_meta_uint(w, "handler_median_ns", (uint64_t)((double)fm_cost_median_cycles(&totals->cost) / cycles_per_ns));
	fm_meta_uint(w, "collector_cpu_ns", fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	struct fm_waiting_cost waiting;
	fm_waiting_cost(c->waiting, &waiting);
	fm_meta_uint(w, "waiting_cpu_ns", waiting.cpu_ns);
	fm_meta_uint(w, "waiting_gap_ns", waiting.longest_gap_ns);
	fm_meta_uint(w, "max_rss_bytes", (uint64_t)c->usage.ru_maxrss * 1024);
	if (waiting.has_regions || atomic_load(&c->shared.counts->is_outside)) {
		fm_meta_uint(w, "regions", 1); // the kernel's account is of all the rest, too
	} else {
		fm_meta_uint(w, "target_user_ns", timeval_ns(&c->usage.ru_utime));
		fm_meta_uint(w, "target_system_ns", timeval_ns(&c->usage.ru_stime));
		fm_meta_uint(w, "children_ns", c->children_ns);
	}
	fm_meta_uint(w, "n_dropped", totals->n_dropped + atomic_load(&c->shared.counts->n_no_slot));
	fm_meta_uint(w, "n_taken", totals->n_taken);
	fm_meta_uint(w, "n_displaced", totals->n_displaced);
	fm_meta_uint(w, "disturbed_ns", (uint64_t)disturbed_ns(totals, ticks));
	fm_meta_uint(w, "gap_cpu_ns", atomic_load(&c->shared.counts->gap_cpu_ns));
	fm_meta_uint(w, "n_failed_unwinds", totals->n_failed);
	fm_meta_uint(w, "n_restarted_calls", totals->n_restarted);
	fm_meta_uint(w, "n_signals", ticks->n_signals);
	if (c->options->beside_pid && c->is_left)
		fm_writer_meta(w, "goes_on", FM_STR_LIT("yes"));
	if (totals->trace.n_events) {
		fm_meta_uint(w, "trace_events", totals->trace.n_events);
		fm_meta_uint(w, "trace_lost", totals->trace.n_lost);
	}
	if (totals->log_end_ns)
		fm_meta_uint(w, "memory_log_end_ns", totals->log_end_ns);
}

static void tell_of_trace(const struct capture *c, const struct fm_ingest_trace_totals *trace)
{
	if (trace->n_short)
		fm_capture_lacks(c, "--min-duration leaves them out; their time counts for their callers",
				 "%llu short calls", (unsigned long long)trace->n_short);
	if (trace->n_lost)
		fm_capture_lacks(
			c, "the collector got too little CPU to keep up, and the program did not wait for it longer",
			"%llu events of the trace", (unsigned long long)trace->n_lost);
	if (trace->n_unseen)
		fm_capture_lacks(c,
				 "Python 3.11 needs C stack for each traced call; close to its end, calls are not "
				 "traced. Raise 'ulimit -s'",
				 "calls at the deepest points of the recursion");
}

// Times in which the collector did not run, by the agents' clocks.
static void tell_of_silence(const struct capture *c, const struct fm_recorder_totals *totals)
{
	const struct fm_wire_counts *counts = c->shared.counts;
	double silent_s = (double)atomic_load(&c->shared.silent_ns) / 1e9;
	uint64_t cpu_ns = atomic_load(&counts->gap_cpu_ns);
	char why[192];
	snprintf(why, sizeof(why), "Fathom itself did not run for %.1f s: it was stopped, or got no CPU", silent_s);
	if (totals->n_other_clock) // by its clock our last word is long ago
		snprintf(why, sizeof(why),
			 "%u process%s ran in another time namespace, whose clock is not Fathom's: start Fathom inside "
			 "it; also, Fathom did not run for %.1f s",
			 totals->n_other_clock, plural(totals->n_other_clock), silent_s);
	if (atomic_load(&counts->n_quiet) || cpu_ns >= FM_GAP_TOLD_NS)
		fm_capture_lacks(c, why, "%.1f s of CPU time, and what was allocated and freed meanwhile",
				 (double)cpu_ns / 1e9);
	if (atomic_load(&counts->n_freed_unseen))
		fm_capture_lacks(c, why, "the end of %llu sampled blocks, which count as live",
				 (unsigned long long)atomic_load(&counts->n_freed_unseen));
	if (atomic_load(&counts->n_traces_ended) && !c->has_given_up)
		fm_capture_lacks(c, why, "the rest of the trace");
}

// The sampling was too seldom for some of the time. The intervals have it; this says why they are
// wide.
static void tell_of_heavy(const struct capture *c, const struct fm_recorder_totals *totals)
{
	double cpu_ns = (double)(timeval_ns(&c->usage.ru_utime) + timeval_ns(&c->usage.ru_stime));
	if (totals->n_heavy && (double)totals->heavy_ns > MUCH_HEAVY * cpu_ns)
		fm_capture_lacks(c,
				 "each shows one moment of more than ten periods, because Fathom got no CPU in time; "
				 "the intervals there are wide. Leave one CPU free for Fathom",
				 "most of %.2f s of CPU time, for which %llu sample%s stand%s",
				 (double)totals->heavy_ns * 1e-9, (unsigned long long)totals->n_heavy,
				 totals->n_heavy == 1 ? "" : "s", totals->n_heavy == 1 ? "s" : "");
}

// What a preempted program's caches cost counts against --max-overhead, down to the rate below.
static const char *why_rate_fell(const struct fm_ticker_stats *ticks, double cold)
{
	if (cold <= MANY_COLD)
		return "for a time samples cost more than --max-overhead allows: stacks were deep, or threads were new";
	if (ticks->lowest_rate_hz >= COLD_RATE_HZ)
		return "every CPU was busy, so each sample also cost the program its caches, which is more than "
		       "--max-overhead allows";
	return "for a time samples cost more than --max-overhead allows: every CPU was busy, stacks were deep, or "
	       "threads were new";
}

static void tell_of_samples(const struct capture *c, const struct fm_recorder_totals *totals,
			    const struct fm_ticker_stats *ticks)
{
	const struct fm_wire_header *header = c->shared.header;
	const struct fm_wire_counts *counts = c->shared.counts;
	if (header->engine == FM_ENGINE_PERF)
		fm_capture_lacks(c,
				 "engine perf samples user code only: time in the kernel counts where the thread next "
				 "runs its own code; --engine ticker separates the two",
				 "system time as such");
	if (totals->n_displaced > MANY_DISPLACED * (double)totals->n_samples)
		fm_capture_lacks(c,
				 "they ran a few microseconds before the system call that the report attributes them "
				 "to; docs/sampling-math.md explains why",
				 "the exact line of %.0f%% of the samples",
				 100.0 * (double)totals->n_displaced / (double)totals->n_samples);
	tell_of_silence(c, totals);
	tell_of_heavy(c, totals);
	double cold = cold_share(c, ticks);
	if (cold > MANY_COLD)
		fm_capture_lacks(c,
				 "every CPU was busy, so each sample preempted the program, and the time to refill its "
				 "caches counts for the code that ran next; leave one CPU free for Fathom",
				 "the exact line of up to %.0f%% of the CPU time", 100 * FM_MIN(cold, 1));
	if (ticks->n_perf_lost)
		fm_capture_lacks(c,
				 "the program closed descriptors that it had not opened, including that of the perf "
				 "event; the ticker continued",
				 "about 20 ms of %u process%s", ticks->n_perf_lost, plural(ticks->n_perf_lost));
	if (ticks->n_blocked_threads)
		fm_capture_lacks(c,
				 "blocked the sampling signal (SIGURG) for some time; their CPU time counts where they "
				 "next allowed it",
				 "%u thread%s", ticks->n_blocked_threads, ticks->n_blocked_threads == 1 ? "" : "s");
	if (totals->n_cut)
		fm_capture_lacks(c, "Fathom walks a stack for at most 0.2 ms; deeper ones end in a frame that says so",
				 "the outer part of %llu stack%s", (unsigned long long)totals->n_cut,
				 totals->n_cut == 1 ? "" : "s");
	if (totals->n_unafforded)
		fm_capture_lacks(c,
				 "stacks were deep, and samples may use only the CPU time that --max-overhead allows; "
				 "the next samples stand for their time",
				 "%llu samples", (unsigned long long)totals->n_unafforded);
	if (totals->n_no_stack)
		fm_capture_lacks(
			c, "the program's signal stack has no room for a sample; the next samples stand for their time",
			"%llu samples", (unsigned long long)totals->n_no_stack);
	if (ticks->lowest_rate_hz && ticks->lowest_rate_hz + 1 < c->options->rate_hz)
		fm_capture_lacks(c, why_rate_fell(ticks, cold), "some samples: the rate went down to %u Hz",
				 ticks->lowest_rate_hz);
	uint64_t n_no_slot = atomic_load(&counts->n_no_slot), n_no_place = atomic_load(&counts->n_no_place);
	if (n_no_slot) {
		char why[96];
		snprintf(why, sizeof(why), "more than %u threads ran at one time%s", c->shared.n_slots,
			 c->shared.n_slots < FM_WIRE_N_SLOTS ? ", and 'ulimit -v' leaves no room for more" : "");
		fm_capture_lacks(c, why, "%llu samples", (unsigned long long)n_no_slot);
	}
	if (n_no_place)
		fm_capture_lacks(c, "'ulimit -v' left no address space for their threads, 3 MiB each; raise it",
				 "%llu samples", (unsigned long long)n_no_place);
}

// Where descriptors are few, files of /proc are opened each time; where there are none at all,
// threads and processes are not seen.
static void tell_of_descriptors(const struct capture *c)
{
	struct fm_descriptors_counts counts = fm_descriptors_count();
	if (counts.n_unkept)
		fm_meta_uint(c->writer, "n_unkept_descriptors", counts.n_unkept);
	if (!counts.n_refused)
		return;
	fm_meta_uint(c->writer, "n_no_descriptor", counts.n_refused);
	fm_capture_lacks(c, "Fathom had too few file descriptors for the threads and processes; raise 'ulimit -n'",
			 "%llu polls of threads and processes", (unsigned long long)counts.n_refused);
}

static void tell_of_processes(const struct capture *c, const struct fm_recorder_totals *totals)
{
	const struct fm_wire_counts *counts = c->shared.counts;
	uint32_t n_no_room = atomic_load(&counts->n_no_room), n_sandboxed = atomic_load(&counts->n_sandboxed);
	uint32_t n_refused = fm_registry_n_refused(c->registry);
	uint64_t n_no_process = atomic_load(&counts->n_no_process);
	if (c->options->beside_pid && c->options->children_join)
		fm_capture_lacks(
			c, "only Pythons that inherit the environment join a trace; 'fathom run' follows everything",
			"programs that this one started that are not Python, or that got another environment");
	else if (c->options->beside_pid)
		fm_capture_lacks(
			c, "a capture inside a running process follows forks only; 'fathom run' follows everything",
			"programs that this one started meanwhile");
	if (totals->n_processes == 0)
		fm_capture_lacks(c,
				 n_no_room ? NO_ROOM
					   : "the agent was not loaded into it: it is statically linked, set-user-id, "
					     "or clears its environment",
				 "the whole program");
	else if (n_no_room)
		fm_capture_lacks(c, NO_ROOM, "%u process%s", n_no_room, plural(n_no_room));
	if (n_sandboxed) {
		fm_meta_uint(c->writer, "n_sandboxed", n_sandboxed);
		fm_capture_lacks(c,
				 "a filter may kill a program for a system call that it does not list, and samples "
				 "make some; Fathom took no samples there from then on",
				 "%u process%s after installing a seccomp filter", n_sandboxed, plural(n_sandboxed));
	}
	if (totals->n_processes_alive && !c->options->beside_pid) // beside us, it goes on as it should
		fm_capture_lacks(c, "still running when the program ended", "the rest of %u child process%s",
				 totals->n_processes_alive, plural(totals->n_processes_alive));
	if (n_refused)
		fm_capture_lacks(
			c,
			"the program gave process numbers that are not its own; Fathom does not read those processes",
			"%u process%s", n_refused, plural(n_refused));
	if (n_no_process)
		fm_capture_lacks(c, "more than 1024 processes ran at one time", "%llu processes",
				 (unsigned long long)n_no_process);
}

// What some process's hooks do not see.
static void tell_of_hooks(const struct capture *c)
{
	const struct fm_wire_counts *counts = c->shared.counts;
	if (c->options->beside_pid)
		fm_capture_lacks(c,
				 "inside a running process, Fathom sees only later allocations and when they are "
				 "freed; 'fathom run' sees all",
				 "memory allocated before the capture began (%.1f MiB were resident)",
				 (double)c->beside_rss_bytes / (1 << 20));
	if (atomic_load(&counts->n_without_malloc))
		fm_capture_lacks(c,
				 c->options->beside_pid
					 ? "the program's malloc is not libc's, and is already bound; start the "
					   "program with 'fathom run'"
					 : "another allocator is preloaded before Fathom's hooks; start the program "
					   "without LD_PRELOAD",
				 "memory that native code allocates with malloc");
	if (atomic_load(&counts->n_without_python))
		fm_capture_lacks(
			c,
			"the interpreter was loaded after the program's start; its blocks count as malloc's or mmap's",
			"Python's memory by object");
	if (atomic_load(&counts->own_allocator_state) == FM_WIRE_LIVE)
		fm_capture_lacks(c, "it has its own allocator; Fathom sees what that maps as a whole",
				 "single blocks of %.*s", (int)sizeof(counts->own_allocator), counts->own_allocator);
	fm_copies_unseen_tell(c->writer);
}

static void tell_of_memory(const struct capture *c, const struct fm_recorder_totals *totals)
{
	const struct fm_wire_counts *counts = c->shared.counts;
	uint32_t n_no_tables = atomic_load(&counts->n_no_tables), n_no_exact = atomic_load(&counts->n_no_exact);
	if (totals->n_alloc_dropped)
		fm_capture_lacks(
			c, "the program allocated faster than the collector could read; --precision -2 samples less",
			"%llu sampled allocations", (unsigned long long)totals->n_alloc_dropped);
	if (n_no_tables)
		fm_capture_lacks(c, "'ulimit -v' leaves no room for 10 MiB of tables; raise it",
				 "memory of %u processes", n_no_tables);
	if (n_no_exact)
		fm_capture_lacks(c,
				 "more than 64 ran at one time, or 'ulimit -v' leaves no room for tables; use --memory "
				 "without =exact",
				 "memory of %u processes", n_no_exact);
	if (totals->n_exact_lost)
		fm_capture_lacks(c, "made inside a signal handler, or while other threads allocated without pause",
				 "%llu allocations or frees", (unsigned long long)totals->n_exact_lost);
	if (totals->n_unlogged)
		fm_capture_lacks(c, "the collector got too little CPU to keep up; the sums include them",
				 "%llu events of the memory log", (unsigned long long)totals->n_unlogged);
	if (totals->log_end_ns)
		fm_capture_lacks(
			c,
			"--memory-log reached its limit; set a larger one, such as --memory-log=4G. Sums are complete",
			"memory over time after the first %.1f s", (double)(totals->log_end_ns - c->start_ns) * 1e-9);
	if (totals->max_sites >= FM_WIRE_NEARLY_ALL_SITES)
		fm_capture_lacks(c,
				 "a process allocated from more than 229,376 different stacks; after that, Fathom kept "
				 "only the line itself",
				 "the callers of some allocations");
	else if (totals->max_sites >= FM_WIRE_MANY_SITES)
		fm_capture_lacks(c,
				 "a process allocated from more than 32,768 different stacks; after that, Fathom left "
				 "out a call that is already further out on the stack",
				 "recursion in some stacks of allocations");
	if (totals->n_exact_beyond)
		fm_capture_lacks(c, "a process allocated from more than 262,143 different stacks",
				 "the stack of %llu allocations", (unsigned long long)totals->n_exact_beyond);
	if (totals->n_exact_untold)
		fm_capture_lacks(c,
				 "the collector got too little CPU to read where they were made; they count as native, "
				 "for no line",
				 "the stack of %llu allocations", (unsigned long long)totals->n_exact_untold);
	if (totals->n_free_dropped)
		fm_capture_lacks(c, "freed faster than the collector could read; they count as live",
				 "the end of %llu sampled blocks", (unsigned long long)totals->n_free_dropped);
}

void fm_capture_write_closing(const struct capture *c, const struct fm_recorder_totals *totals,
			      const struct fm_ticker_stats *ticks)
{
	write_figures(c, totals, ticks);
	tell_of_trace(c, &totals->trace);
	tell_of_processes(c, totals);
	tell_of_descriptors(c);
	tell_of_samples(c, totals, ticks);
	if (c->options->memory != FM_WIRE_MEMORY_OFF) {
		tell_of_hooks(c);
		tell_of_memory(c, totals);
	}
	if (totals->n_bad_records || fm_shared_is_damaged(&c->shared))
		fm_capture_lacks(c,
				 "the program overwrote the memory that it shares with Fathom: do not trust figures "
				 "from that time on",
				 "%llu records, and others that cannot be counted",
				 (unsigned long long)totals->n_bad_records);
}

void fm_meta_uint(struct fm_writer *w, const char *key, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	fm_writer_meta(w, key, fm_str_of(text));
}

void fm_meta_origin(struct fm_writer *w)
{
	char text[256];
	time_t now = time(NULL);
	struct tm utc;
	gmtime_r(&now, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	fm_writer_meta(w, "started", fm_str_of(text));
	if (gethostname(text, sizeof(text)) == 0)
		fm_writer_meta(w, "host", fm_str_of(text));
	fm_writer_meta(w, "fathom_version", fm_str_of(FM_VERSION));
	fm_writer_meta(w, "clock", FM_STR_LIT("monotonic"));
}
