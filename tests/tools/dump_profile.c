// SPDX-License-Identifier: Apache-2.0
// Prints a profile as canonical text: tests/reader/fathom_reader.py prints the same from its own
// decoder.
//   dump_profile FILE          every sample in file order, then every table
//   dump_profile --sums FILE   sums only, and how fast they were read
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "read/reader.h"

// Printable ASCII as it is; everything else, the backslash and the field separator '|' as \xNN.
static void print_str(struct fm_str s)
{
	for (uint32_t i = 0; i < s.len; i++) {
		unsigned char ch = (unsigned char)s.p[i];
		if (ch < 0x20 || ch > 0x7e || ch == '\\' || ch == '|')
			printf("\\x%02x", ch);
		else
			putchar(ch);
	}
}

static void print_field(struct fm_str s)
{
	putchar('|');
	print_str(s);
}

static int64_t id_or_none(uint32_t id)
{
	return id == FM_NO_ID ? -1 : (int64_t)id;
}

static void print_who(const struct fm_profile *p)
{
	for (size_t i = 0; i < p->processes.n; i++) {
		const struct fm_process *r = &p->processes.items[i];
		printf("process %zu pid=%u parent=%u start=%" PRIu64 " end=%" PRIu64 " code=%d signal=%d", i,
		       r->info.pid, r->info.parent_pid, r->info.start_ns, r->end_ns, r->exit_code, r->exit_signal);
		print_field(r->info.exe);
		print_field(r->info.command);
		print_field(r->info.python_version);
		print_field(r->info.engine);
		putchar('\n');
	}
	for (size_t i = 0; i < p->threads.n; i++) {
		const struct fm_thread *t = &p->threads.items[i];
		printf("thread %zu process=%u tid=%u start=%" PRIu64 " end=%" PRIu64 " cpu=%" PRIu64
		       " dropped=%" PRIu64,
		       i, t->process_id, t->tid, t->start_ns, t->end_ns, t->cpu_ns, t->n_dropped);
		print_field(t->name);
		putchar('\n');
	}
	for (size_t i = 0; i < p->images.n; i++) {
		printf("image %zu flags=%u", i, p->images.items[i].flags);
		print_field(p->images.items[i].path);
		print_field(p->images.items[i].build_id);
		putchar('\n');
	}
	for (size_t i = 0; i < p->mappings.n; i++) {
		const struct fm_mapping *m = &p->mappings.items[i];
		printf("mapping process=%u image=%u start=%" PRIu64 " end=%" PRIu64 " bias=%" PRIu64 "\n",
		       m->process_id, m->image_id, m->start, m->end, m->bias);
	}
}

static void print_where(const struct fm_profile *p)
{
	for (size_t i = 0; i < p->codes.n; i++) {
		const struct fm_code_info *c = &p->codes.items[i];
		printf("code %zu line=%u kind=%u", i, c->first_line, c->line_table_kind);
		print_field(c->name);
		print_field(c->qualname);
		print_field(c->filename);
		print_field(c->line_table);
		putchar('\n');
	}
	for (size_t i = 0; i < p->call_sums.n; i++) {
		const struct fm_call_sum *s = &p->call_sums.items[i];
		printf("callsum caller=%" PRIu64 " callee=%" PRIu64 " calls=%" PRIu64 " recursive=%" PRIu64
		       " own=%" PRIu64 " total=%" PRIu64 "\n",
		       s->is_pair ? s->caller + 1 : 0, s->callee, s->n_calls, s->n_recursive, s->own_ns, s->total_ns);
	}
	for (size_t i = 0; i < p->trace_names.n; i++) {
		printf("tracename %zu kind=%u line=%u", i, p->trace_names.items[i].kind, p->trace_names.items[i].line);
		print_field(p->trace_names.items[i].name);
		print_field(p->trace_names.items[i].file);
		putchar('\n');
	}
	for (size_t i = 0; i < p->frames.n; i++)
		printf("frame %zu kind=%u ref=%" PRId64 " value=%" PRIu64 "\n", i, p->frames.items[i].kind,
		       id_or_none(p->frames.items[i].ref), p->frames.items[i].value);
	for (size_t i = 0; i < p->stacks.n; i++)
		printf("stack %zu parent=%u frame=%u\n", i, p->stacks.items[i].parent, p->stacks.items[i].frame_id);
}

static void print_memory(const struct fm_profile *p)
{
	for (size_t i = 0; i < p->sites.n; i++) {
		const struct fm_site *s = &p->sites.items[i];
		printf("site process=%u stack=%u domain=%u alloc=%" PRIu64 " allocs=%" PRIu64 " frees=%" PRIu64
		       " live=%" PRIu64 " peak=%" PRIu64 " at_peak=%" PRIu64 " held=%u\n",
		       s->process_id, s->stack_id, s->domain, s->alloc_bytes, s->n_allocs, s->n_frees, s->live_bytes,
		       s->peak_bytes, s->at_peak_bytes, s->held);
	}
	for (size_t i = 0; i < p->histories.n; i++) {
		const struct fm_site_history *c = &p->histories.items[i];
		printf("course process=%u stack=%u domain=%u n=%u", c->process_id, c->stack_id, c->domain, c->n);
		for (uint32_t k = 0; k < c->n; k++)
			printf(" %" PRIu64 "/%" PRIu64, p->history_points.items[c->first + k].live_bytes,
			       p->history_points.items[c->first + k].alloc_bytes);
		printf("\n");
	}
	for (size_t i = 0; i < p->memory_levels.n; i++) {
		const struct fm_memory_level *l = &p->memory_levels.items[i];
		printf("level process=%u time=%" PRIu64 " heap=%" PRIu64 " high=%" PRIu64 " rss=%" PRIu64
		       " anon=%" PRIu64 " file=%" PRIu64 " shmem=%" PRIu64 " pss=%" PRIu64 " swap=%" PRIu64
		       " cgroup=%" PRIu64 " limit=%" PRIu64 "\n",
		       l->process_id, l->time_ns, l->heap_bytes, l->heap_high_bytes, l->rss_bytes, l->rss_anon_bytes,
		       l->rss_file_bytes, l->rss_shmem_bytes, l->pss_bytes, l->swap_bytes, l->cgroup_bytes,
		       l->cgroup_limit_bytes);
	}
	for (size_t i = 0; i < p->alloc_types.n; i++) {
		printf("alloc_type process=%u id=%" PRIu64, p->alloc_types.items[i].process_id,
		       p->alloc_types.items[i].alloc_id);
		print_field(p->alloc_types.items[i].name);
		putchar('\n');
	}
	for (size_t i = 0; i < p->alloc_touches.n; i++)
		printf("alloc_touched process=%u id=%" PRIu64 " bytes=%" PRIu64 "\n",
		       p->alloc_touches.items[i].process_id, p->alloc_touches.items[i].alloc_id,
		       p->alloc_touches.items[i].bytes);
}

static void print_memory_event(const struct fm_event *ev)
{
	const struct fm_alloc *a = &ev->alloc;
	if (ev->type == FM_EVENT_ALLOC)
		printf("alloc thread=%u stack=%u time=%" PRIu64 " id=%" PRIu64 " size=%" PRIu64 " weight=%" PRIu64
		       " domain=%u\n",
		       a->thread_id, a->stack_id, a->time_ns, a->id, a->size, a->weight, a->domain);
	else
		printf("free thread=%u time=%" PRIu64 " id=%" PRIu64 "\n", ev->free.thread_id, ev->free.time_ns,
		       ev->free.id);
}

static void print_tables(const struct fm_profile *p)
{
	for (size_t i = 0; i < p->metas.n; i++) {
		printf("meta");
		print_field(p->metas.items[i].key);
		print_field(p->metas.items[i].value);
		putchar('\n');
	}
	for (size_t i = 0; i < p->coverages.n; i++) {
		printf("coverage");
		print_field(p->coverages.items[i].what);
		print_field(p->coverages.items[i].why);
		putchar('\n');
	}
	print_who(p);
	print_where(p);
	for (size_t i = 0; i < p->symbols.n; i++) {
		const struct fm_symbol_info *s = &p->symbols.items[i];
		printf("symbol image=%u addr=%" PRIu64 "\n", s->image_id, s->addr);
		for (uint32_t k = 0; k < s->n_links; k++) {
			const struct fm_symbol_link *l = &p->symbol_links.items[s->first_link + k];
			printf("link first=%u line=%u inlined=%d", l->first_line, l->line, l->is_inlined);
			print_field(l->name);
			print_field(l->file);
			putchar('\n');
		}
	}
	for (size_t i = 0; i < p->sources.n; i++) {
		printf("source");
		print_field(p->sources.items[i].filename);
		print_field(p->sources.items[i].text);
		putchar('\n');
	}
	print_memory(p);
	printf("truncated=%d damaged=%" PRIu64 " undefined=%" PRIu64 " lost_samples=%" PRIu64 " lost_memory=%" PRIu64
	       "\n",
	       p->is_truncated, p->n_damaged_chunks, p->n_undefined_refs, p->n_lost_samples, p->n_lost_memory_events);
}

static void print_trace(const struct fm_profile *p, struct fm_zone_batch *batch)
{
	struct fm_zone_event ev;
	printf("trace thread=%u n=%u depth=%" PRIu64 "\n", batch->thread_id, batch->n, batch->depth);
	while (fm_trace_next(p, batch, &ev) == FM_OK)
		printf("zone thread=%u op=%u ref=%d time=%" PRIu64 " value=%g\n", ev.thread_id, ev.op, (int)ev.ref,
		       ev.time_ns, ev.value);
}

int main(int argc, char **argv)
{
	bool sums = argc == 3 && !strcmp(argv[1], "--sums");
	if (argc != 2 && !sums) {
		fputs("usage: dump_profile [--sums] FILE\n", stderr);
		return 2;
	}
	struct fm_reader *r;
	struct fm_diag diag;
	uint64_t start_ns = fm_now_ns();
	if (fm_reader_open(argv[argc - 1], &r, &diag)) {
		fprintf(stderr, "dump_profile: %s\n", diag.text);
		return 1;
	}
	uint64_t n = 0, weight_ns = 0, mix = 0, n_memory = 0;
	struct fm_event ev;
	while (fm_reader_next(r, &ev) == FM_OK) {
		const struct fm_sample *s = &ev.sample;
		if (ev.type != FM_EVENT_SAMPLE) {
			if (ev.type == FM_EVENT_TRACE) {
				if (!sums)
					print_trace(fm_reader_profile(r), ev.trace);
				continue;
			}
			n_memory++;
			if (!sums)
				print_memory_event(&ev);
			continue;
		}
		n++;
		weight_ns += s->weight_ns;
		mix = (mix ^ s->time_ns ^ (uint64_t)s->stack_id << 20) * 0x9e3779b97f4a7c15u + s->class + s->cpu +
		      s->thread_id;
		if (!sums)
			printf("sample thread=%u stack=%u time=%" PRIu64 " weight=%" PRIu64 " cpu=%u class=%u\n",
			       s->thread_id, s->stack_id, s->time_ns, s->weight_ns, s->cpu, s->class);
	}
	uint64_t took_ns = FM_MAX(fm_now_ns() - start_ns, 1u);
	uint64_t cpu_ns = FM_MAX(fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID), 1u);
	const struct fm_profile *p = fm_reader_profile(r);
	if (sums) {
		struct rusage usage;
		getrusage(RUSAGE_SELF, &usage);
		printf("%" PRIu64 " samples, weight %" PRIu64 " ns, mix %016" PRIx64 ", %zu stacks, %zu frames\n", n,
		       weight_ns, mix, p->stacks.n, p->frames.n);
		if (n_memory)
			printf("%" PRIu64 " memory events\n", n_memory);
		printf("%.1f M samples/s read (%.1f per CPU second), peak RSS %.1f MiB%s%s\n",
		       (double)n * 1e3 / (double)took_ns, (double)n * 1e3 / (double)cpu_ns,
		       (double)usage.ru_maxrss / 1024.0, p->damage[0] ? "; " : "", p->damage);
	} else {
		print_tables(p);
	}
	fm_reader_close(r);
	return 0;
}
