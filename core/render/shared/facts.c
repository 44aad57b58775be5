// SPDX-License-Identifier: Apache-2.0
#include "render/shared/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// CPU time of the whole tree of processes that none of its threads accounts for, and that is worth
// a word: a third of a short program is as much as a third of a long one.
#define MIN_UNSEEN_S 0.02 // less is the start of an interpreter
#define MIN_UNSEEN_SHARE 0.02
#define MIN_UNSEEN_END_S 0.01
#define MIN_UNSEEN_END_SHARE 0.1
// CPU time of native threads that is charged to no line, and is worth a word.
#define MIN_UNTIED_S 0.05
#define MIN_UNTIED_SHARE 0.02
#define MOST_AFTER_LAST 3.0  // periods of sampling, on average over threads
#define PROCESS_START_S 0.01 // what starting a process takes before it is seen

uint64_t fm_facts_meta_u64(const struct fm_profile *p, const char *key)
{
	return fm_profile_meta_u64(p, key);
}

static uint64_t span_ns(uint64_t start, uint64_t end)
{
	return end > start ? end - start : 0;
}

double fm_facts_thread_wall_s(const struct fm_analysis *a, uint32_t id)
{
	const struct fm_thread_span *span = id < a->tally.threads.n ? &a->tally.threads.items[id] : NULL;
	const struct fm_thread *t = id < a->profile->threads.n ? &a->profile->threads.items[id] : NULL;
	uint64_t start = t && t->start_ns ? t->start_ns : span ? span->first_ns : 0;
	uint64_t end = t && t->end_ns ? t->end_ns : span ? span->last_ns : 0;
	return fm_seconds(span_ns(start, end));
}

double fm_facts_thread_cpu_s(const struct fm_analysis *a, uint32_t id, const struct fm_weight *sampled)
{
	uint64_t known = id < a->profile->threads.n ? a->profile->threads.items[id].cpu_ns : 0;
	return fm_seconds(known ? known : fm_weight_cpu_ns(sampled));
}

// The part of the thread's life in which it neither ran nor was seen waiting; 0 where that is not
// known.
static double rest_s(const struct fm_analysis *a, uint32_t id)
{
	const struct fm_profile *p = a->profile;
	// Outside of regions nobody looked whether a thread ran or waited.
	bool is_waiting_known =
		fm_profile_meta(p, "waiting_cpu_ns", FM_STR_LIT("")).len > 0 && !fm_facts_meta_u64(p, "regions");
	if (!is_waiting_known || id >= p->threads.n || !p->threads.items[id].cpu_ns)
		return 0;
	uint64_t waited_ns = id < a->tally.threads.n ? a->tally.threads.items[id].wait_ns : 0;
	double seen_s = fm_seconds(p->threads.items[id].cpu_ns + waited_ns);
	return FM_MAX(0.0, fm_facts_thread_wall_s(a, id) - seen_s);
}

double fm_facts_thread_no_cpu_s(const struct fm_analysis *a, uint32_t id)
{
	uint64_t ready_ns1 = id < a->profile->threads.n ? a->profile->threads.items[id].ready_ns1 : 0;
	return ready_ns1 ? FM_MIN(fm_seconds(ready_ns1 - 1), rest_s(a, id)) : 0;
}

double fm_facts_thread_unseen_s(const struct fm_analysis *a, uint32_t id)
{
	return rest_s(a, id) - fm_facts_thread_no_cpu_s(a, id);
}

struct fm_str fm_facts_command(const struct fm_profile *p)
{
	return fm_profile_meta(p, "command", p->processes.n ? p->processes.items[0].info.command : FM_STR_LIT(""));
}

struct fm_str fm_facts_own_command(const struct fm_profile *p)
{
	bool is_notebook = fm_profile_meta(p, "notebook_cells", FM_STR_LIT("")).len > 0;
	return is_notebook ? FM_STR_LIT("") : fm_facts_command(p);
}

static struct fm_facts_mean meta_mean(const struct fm_profile *p, const char *key)
{
	struct fm_str s = fm_profile_meta(p, key, FM_STR_LIT(""));
	struct fm_facts_mean m = { 0 };
	char text[128];
	snprintf(text, sizeof(text), "%.*s", (int)s.len, s.p);
	char *end = text;
	m.mean = strtod(end, &end);
	m.spread = strtod(end, &end);
	m.plus_minus = strtod(end, &end);
	return m;
}

void fm_facts_runs(struct fm_facts_runs *ret, const struct fm_profile *p)
{
	*ret = (struct fm_facts_runs){ .n = fm_facts_meta_u64(p, "runs") };
	if (!ret->n)
		return;
	ret->cpu_s = meta_mean(p, "runs_cpu_s");
	ret->wall_s = meta_mean(p, "runs_wall_s");
	ret->max_rss_bytes = meta_mean(p, "runs_max_rss_bytes");
}

uint32_t fm_facts_main_thread(const struct fm_analysis *a)
{
	const struct fm_profile *p = a->profile;
	uint32_t best = UINT32_MAX;
	for (uint32_t id = 0; p->processes.n && id < p->threads.n; id++)
		if (p->threads.items[id].tid == p->processes.items[0].info.pid &&
		    (best == UINT32_MAX || fm_facts_thread_wall_s(a, id) > fm_facts_thread_wall_s(a, best)))
			best = id;
	return best;
}

// What samples and threads add up to: one walk over the cells, of which a large capture has
// millions.
static void sum_threads(struct fm_facts *f, const struct fm_analysis *a)
{
	const struct fm_profile *p = a->profile;
	uint64_t cpu_ns = 0, sampled_ns = 0;
	// Threads that were never sampled have CPU time, too; sampled ones may not have been told
	// theirs.
	for (size_t i = 0; i < FM_MAX(a->tally.threads.n, p->threads.n); i++) {
		static const struct fm_thread_span never_sampled;
		const struct fm_thread_span *span =
			i < a->tally.threads.n ? &a->tally.threads.items[i] : &never_sampled;
		uint64_t known = i < p->threads.n ? p->threads.items[i].cpu_ns : 0;
		cpu_ns += known ? known : span->cpu_ns;
		sampled_ns += span->cpu_ns;
		f->n_waits += span->n_waits;
		f->n_dropped += i < p->threads.n ? p->threads.items[i].n_dropped : 0;
	}
	f->cpu_s = fm_seconds(cpu_ns);
	f->sampled_s = fm_seconds(sampled_ns);
	f->no_cpu_s = fm_facts_thread_no_cpu_s(a, fm_facts_main_thread(a));
}

static int compare_pids(const void *a, const void *b)
{
	uint32_t pa = *(const uint32_t *)a, pb = *(const uint32_t *)b;
	return (pa > pb) - (pa < pb);
}

unsigned fm_facts_n_processes(const struct fm_profile *p)
{
	unsigned n = 0;
	uint32_t *pids = fm_alloc((p->processes.n + 1) * sizeof(*pids));
	for (size_t i = 0; i < p->processes.n; i++)
		pids[i] = p->processes.items[i].info.pid;
	qsort(pids, p->processes.n, sizeof(*pids), compare_pids);
	for (size_t i = 0; i < p->processes.n; i++)
		n += !i || pids[i] != pids[i - 1];
	free(pids);
	return n;
}

void fm_facts_gather(struct fm_facts *f, const struct fm_analysis *a)
{
	const struct fm_profile *p = a->profile;
	const struct fm_process *root = p->processes.n ? &p->processes.items[0] : NULL;
	const struct fm_str none = FM_STR_LIT("");
	*f = (struct fm_facts){ .exit_code = -1 };
	f->command = fm_facts_command(p);
	f->started = fm_profile_meta(p, "started", none);
	f->python = none;
	for (size_t i = 0; i < p->processes.n && !f->python.len; i++)
		f->python = p->processes.items[i].info.python_version;
	f->engine = fm_profile_meta(p, "engine", root ? root->info.engine : none);
	f->rate_hz = fm_facts_meta_u64(p, "rate_hz");
	f->max_rss_bytes = fm_facts_meta_u64(p, "max_rss_bytes");
	f->overhead_s = fm_seconds(fm_facts_meta_u64(p, "overhead_ns"));
	f->n_samples = a->tally.n_samples;
	// exec gives a process a new record under the same pid; the last one met the end. A
	// stranger who is given the pid later has another parent.
	const struct fm_process *last_exec = root;
	for (size_t i = 1; i < p->processes.n; i++) {
		const struct fm_process *next = &p->processes.items[i];
		if (next->info.pid == root->info.pid && next->info.parent_pid == root->info.parent_pid)
			last_exec = next;
	}
	uint64_t end_ns = 0;
	if (root) {
		f->exit_code = last_exec->exit_code;
		f->exit_signal = last_exec->exit_signal;
		end_ns = last_exec->end_ns;
	}
	if (f->exit_code < 0 &&
	    !f->exit_signal) { // a program without the agent has no record: the collector's note then
		f->exit_signal = (int)fm_facts_meta_u64(p, "exit_signal");
		f->exit_code = fm_profile_meta(p, "exit_code", none).len ? (int)fm_facts_meta_u64(p, "exit_code") : -1;
	}

	uint64_t first = UINT64_MAX, last = 0;
	for (size_t i = 0; i < a->tally.threads.n; i++)
		if (a->tally.threads.items[i].n) {
			first = FM_MIN(first, a->tally.threads.items[i].first_ns);
			last = FM_MAX(last, a->tally.threads.items[i].last_ns);
		}
	uint64_t start = root && root->info.start_ns ? root->info.start_ns : first;
	uint64_t wall_ns = fm_facts_meta_u64(p, "wall_ns");
	if (!wall_ns)
		wall_ns = span_ns(start, end_ns ? end_ns : last);
	f->wall_s = fm_seconds(wall_ns);

	sum_threads(f, a);
}

// What threads use at their ends: a thread's CPU time is known as of its last sample, a process's
// from when the agent is loaded.
static double at_ends_s(const struct fm_profile *p, const struct fm_facts *f)
{
	double after_last_s = f->rate_hz ? MOST_AFTER_LAST / (double)f->rate_hz : 0;
	return PROCESS_START_S * (double)p->processes.n + after_last_s * (double)p->threads.n;
}

// The kernel tells it in whole ticks of 10 ms, user and system apart.
#define CHILDREN_TICKS_S 0.02

// False: the program's children together used less.
static bool may_be_childrens(const struct fm_profile *p, double unseen_s)
{
	return !fm_profile_meta(p, "children_ns", FM_STR_LIT("")).len ||
	       fm_seconds(fm_facts_meta_u64(p, "children_ns")) + CHILDREN_TICKS_S > unseen_s;
}

// The kernel counts with a process what its children used, once it has waited for them.
bool fm_facts_unseen(struct fm_facts_unseen *ret, const struct fm_analysis *a, const struct fm_facts *f)
{
	const struct fm_profile *p = a->profile;
	double used_s = fm_seconds(fm_facts_meta_u64(p, "target_user_ns") + fm_facts_meta_u64(p, "target_system_ns"));
	uint64_t gap_ns = fm_facts_meta_u64(p, "gap_cpu_ns"), told_ns = gap_ns >= FM_GAP_TOLD_NS ? gap_ns : 0;
	// A thread's own clock may know of more than its samples show.
	double unseen_s = used_s - f->sampled_s - fm_seconds(told_ns);
	*ret = (struct fm_facts_unseen){ unseen_s, used_s, "", "" };
	if (used_s == 0) {
		*ret = (struct fm_facts_unseen){
			f->cpu_s - f->sampled_s, f->cpu_s, "after the last sample",
			"used after the last sample: the block was short, or other programs had the CPUs"
		};
		return ret->s >= MIN_UNSEEN_END_S && ret->s >= MIN_UNSEEN_END_SHARE * ret->of_s;
	}
	if (unseen_s < MIN_UNSEEN_S || unseen_s < MIN_UNSEEN_SHARE * used_s)
		return false;
	if (unseen_s < at_ends_s(p, f)) {
		ret->where = "before first samples and after last ones";
		ret->why = "used by threads and processes before their first sample and after their last; a higher "
			   "--rate covers more of it";
	} else if (fm_facts_meta_u64(p, "n_no_descriptor") || fm_facts_meta_u64(p, "n_unkept_descriptors")) {
		ret->where = "in threads not polled for lack of file descriptors";
		ret->why = "Fathom had too few file descriptors to poll all threads often; raise 'ulimit -n'. The "
			   "figure includes processes that were not followed";
	} else if (fm_facts_meta_u64(p, "n_sandboxed")) {
		ret->where = "after a seccomp filter or in processes not followed";
		ret->why = "used after a seccomp filter was installed, or by processes that were not followed";
	} else if (!may_be_childrens(p, unseen_s - at_ends_s(p, f))) {
		ret->where = "in the program itself, outside its samples";
		ret->why = "used by the program itself before its first samples and after its last, because Fathom got "
			   "no CPU in time, or after it became (exec) a program that Fathom cannot follow: statically "
			   "linked, or set-user-id";
	} else if (unseen_s < at_ends_s(p, f) + fm_seconds(fm_facts_meta_u64(p, "waiting_gap_ns"))) {
		ret->where = "at threads' ends or in processes not followed";
		ret->why = "used by threads before their first sample and after their last, because Fathom got no CPU "
			   "in time, or by child processes that were not followed";
	} else {
		ret->where = "in processes not followed";
		ret->why = "used by child processes that were not followed (--no-children; without LD_PRELOAD and "
			   "FATHOM_RING in their environment; statically linked; set-user-id)";
	}
	return true;
}

static void tell_unseen_cpu(const struct fm_analysis *a, const struct fm_facts *f,
			    void (*each)(void *ctx, struct fm_str what, struct fm_str why), void *ctx)
{
	char what[96];
	struct fm_facts_unseen unseen;
	if (!fm_facts_unseen(&unseen, a, f))
		return;
	snprintf(what, sizeof(what), "%.3f of %.3f s of CPU time", unseen.s, unseen.of_s);
	each(ctx, fm_str_of(what), fm_str_of(unseen.why));
}

// Spinning between two calls, and threads of which two lines may be meant.
static void tell_untied(const struct fm_summary *t, void (*each)(void *ctx, struct fm_str what, struct fm_str why),
			void *ctx)
{
	char what[128];
	double untied_s = fm_seconds(fm_weight_cpu_ns(&t->untied)), all_s = fm_seconds(fm_weight_cpu_ns(&t->total));
	if (untied_s < MIN_UNTIED_S || untied_s < MIN_UNTIED_SHARE * all_s)
		return;
	snprintf(what, sizeof(what), "the line behind %.3f s (%.0f %%) of native threads' CPU time", untied_s,
		 100 * untied_s / all_s);
	each(ctx, fm_str_of(what),
	     FM_STR_LIT("no Python thread, or more than one, was inside a call of their library at the time; "
			"--native-all and the list of threads show what they did"));
}

void fm_facts_coverage(const struct fm_analysis *a, const struct fm_facts *f, const struct fm_summary *t,
		       void (*each)(void *ctx, struct fm_str what, struct fm_str why), void *ctx)
{
	char what[160];
	for (size_t i = 0; i < a->profile->coverages.n; i++)
		each(ctx, a->profile->coverages.items[i].what, a->profile->coverages.items[i].why);
	if (a->profile->damage[0])
		each(ctx, FM_STR_LIT("part of the profile"), fm_str_of(a->profile->damage));
	if (a->tally.n_invalid) {
		snprintf(what, sizeof(what), "%" PRIu64 " samples", a->tally.n_invalid);
		each(ctx, fm_str_of(what), FM_STR_LIT("their records hold impossible values"));
	}
	if (f->n_dropped) {
		snprintf(what, sizeof(what), "%" PRIu64 " samples were dropped", f->n_dropped);
		each(ctx, fm_str_of(what), FM_STR_LIT("the collector could not keep up; lower the rate (--rate)"));
	}
	tell_unseen_cpu(a, f, each, ctx);
	tell_untied(t, each, ctx);
	if (t->n_failed_unwinds) {
		snprintf(what, sizeof(what), "the whole stack of %" PRIu64 " of %" PRIu64 " samples",
			 t->n_failed_unwinds, f->n_samples);
		each(ctx, fm_str_of(what),
		     FM_STR_LIT("unwinding stopped early; each of these stacks holds a frame in [brackets] with the "
				"reason"));
	}
	size_t n;
	const struct fm_coverage *names = fm_symbolizer_coverage(a->symbolizer, &n);
	for (size_t i = 0; i < n; i++)
		each(ctx, names[i].what, names[i].why);
}
