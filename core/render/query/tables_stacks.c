// SPDX-License-Identifier: Apache-2.0
// Where in the call tree time was spent, and when: nodes, stacks, waits, samples.
#include "render/query/columns.h"

// ---- nodes ----

static const struct fm_column node_columns[] = {
	FM_INT("id", "number of the place in the call tree"),
	FM_INT_OR_NULL("parent_id", "nodes.id of the caller; NULL for the root"),
	FM_INT_OR_NULL("function_id", "functions.id; NULL for the root"),
	FM_TEXT("name", "of the function"),
	FM_TEXT("file", "source file; the library where that is not known"),
	FM_INT("line", "line that was running, or that called; 0: not known"),
	FM_INT("depth", "how many frames the stack has here; 0 for the root"),
	FM_INT("inlined", "1: the compiler put the call into its caller"),
	FM_REAL("self_s", "CPU time of the samples that end here"),
	FM_REAL("total_s", "the same with everything below"),
	FM_REAL("self_wait_s", "waiting, also for the GIL, that ends here"),
	FM_REAL("total_wait_s", "the same with everything below"),
	FM_INT("samples", "CPU samples that end here"),
};

static uint64_t count_nodes(struct fm_query_data *d)
{
	fm_query_need_nodes(d);
	return d->a->view.nodes.n;
}

static uint64_t wait_ns(const struct fm_weight *w)
{
	return w->ns[FM_CLASS_WAIT] + w->ns[FM_CLASS_GIL_WAIT];
}

static void node_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_node *node = &d->a->view.nodes.items[i];
	static const struct fm_function root = { .name = { "", 0 } };
	const struct fm_function *f = i ? fm_analysis_function(d->a, node->function_id) : &root;
	fm_row_id(r, (uint32_t)i);
	fm_row_id(r, i ? node->parent : FM_NO_ID);
	fm_row_id(r, i ? node->function_id : FM_NO_ID);
	fm_row_text(r, f->name);
	fm_row_text(r, f->file.len ? f->file : f->path);
	fm_row_u64(r, node->line);
	fm_row_u64(r, node->depth);
	fm_row_u64(r, node->is_inlined);
	fm_row_seconds(r, fm_weight_cpu_ns(&d->self[i]));
	fm_row_seconds(r, fm_weight_cpu_ns(&d->total[i]));
	fm_row_seconds(r, wait_ns(&d->self[i]));
	fm_row_seconds(r, wait_ns(&d->total[i]));
	fm_row_u64(r, d->self[i].n);
}

// ---- stacks ----

static const struct fm_column stack_columns[] = {
	FM_INT("id", "nodes.id of its innermost frame"),
	FM_TEXT("stack", "its frames, outermost first, separated by ';' (as export -f collapsed)"),
	FM_INT("depth", "how many frames it has"),
	FM_INT_OR_NULL("function_id", "functions.id of the innermost frame; NULL: the stack is empty"),
	FM_INT("samples", "CPU samples of exactly this stack"),
	FM_INT("wait_samples", "polls of threads that waited in it"),
	FM_REAL("total_s", "CPU time"),
	FM_CLASS_COLUMNS,
};

static uint64_t count_stacks(struct fm_query_data *d)
{
	fm_query_need_stacks(d);
	return d->stacks.n;
}

static void stack_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_query_stack *stack = &d->stacks.items[i];
	const struct fm_node *node = &d->a->view.nodes.items[stack->node];
	fm_row_id(r, stack->node);
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_STACK, .node = stack->node });
	fm_row_u64(r, node->depth);
	fm_row_id(r, stack->node ? node->function_id : FM_NO_ID);
	fm_row_u64(r, stack->n_cpu);
	fm_row_u64(r, stack->n_waits);
	fm_row_seconds(r, fm_weight_cpu_ns(&stack->weight));
	fm_row_classes(r, &stack->weight);
}

// ---- waits ----

static const char *const class_names[FM_N_CLASSES] = {
	[FM_CLASS_PYTHON] = "python", [FM_CLASS_NATIVE] = "native",     [FM_CLASS_SYSTEM] = "system",
	[FM_CLASS_GC] = "gc",         [FM_CLASS_GIL_WAIT] = "gil_wait", [FM_CLASS_WAIT] = "wait",
};

static const struct fm_column wait_columns[] = {
	FM_INT("thread_id", "threads.id"),
	FM_INT("stack_id", "stacks.id: where it waited"),
	FM_TEXT("kind", "gil_wait: for the GIL; wait: for anything else"),
	FM_TEXT_OR_NULL("file", "of the line that is charged; NULL: no Python is on the stack"),
	FM_INT_OR_NULL("line", "the line that is charged"),
	FM_TEXT_OR_NULL("function", "its function"),
	FM_REAL("total_s", "how long it waited"),
	FM_INT("samples", "polls of the thread while it waited"),
};

static uint64_t count_waits(struct fm_query_data *d)
{
	fm_query_need_waits(d);
	return d->waits.n;
}

void fm_query_put_payer(struct fm_query_data *d, uint32_t node, struct fm_row *r)
{
	const struct fm_node *payer = fm_query_payer(d, node);
	if (!payer) {
		fm_row_null(r);
		fm_row_null(r);
		fm_row_null(r);
		return;
	}
	const struct fm_function *f = fm_analysis_function(d->a, payer->function_id);
	fm_row_text(r, f->file);
	fm_row_u64(r, payer->line);
	fm_row_text(r, f->name);
}

static void wait_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_query_wait *wait = &d->waits.items[i];
	fm_row_id(r, wait->thread_id);
	fm_row_id(r, wait->node);
	fm_row_text(r, fm_str_of(class_names[wait->class]));
	fm_query_put_payer(d, wait->node, r);
	fm_row_seconds(r, wait->ns);
	fm_row_u64(r, wait->n);
}

// ---- samples ----

static const struct fm_column sample_columns[] = {
	FM_REAL("t_s", "when, since the program's start"),
	FM_INT("thread_id", "threads.id"),
	FM_INT("stack_id", "stacks.id"),
	FM_TEXT("kind", "python, native, system, gc, gil_wait or wait"),
	FM_REAL("weight_s", "CPU time, or waiting, that it stands for"),
	FM_INT("cpu", "number of the CPU; 0 where that was not captured"),
};

static uint64_t count_samples(struct fm_query_data *d)
{
	return UINT64_MAX;
}

static enum fm_err begin_samples(struct fm_query_data *d, struct fm_reader **ret, struct fm_diag *diag)
{
	return fm_reader_open_again(d->a->reader, true, false, ret, diag);
}

static enum fm_err next_sample(struct fm_query_data *d, struct fm_reader *reader, struct fm_row *r)
{
	struct fm_event event;
	do {
		enum fm_err err = fm_reader_next(reader, &event);
		if (err)
			return err;
	} while (event.type != FM_EVENT_SAMPLE || !fm_analysis_knows(d->a, &event.sample));
	const struct fm_sample *s = &event.sample;
	fm_row_real(r, s->time_ns > d->start_ns ? fm_seconds(s->time_ns - d->start_ns) : 0);
	fm_row_id(r, s->thread_id);
	fm_row_id(r, fm_analysis_node(d->a, s));
	fm_row_text(r, fm_str_of(class_names[s->class]));
	fm_row_seconds(r, s->weight_ns);
	fm_row_u64(r, s->cpu);
	return FM_OK;
}

const struct fm_query_table fm_query_stack_tables[] = {
	{ "nodes", "the call tree: every place in it, parents first", FM_COLUMNS(node_columns), 20000,
	  FM_ANALYSIS_STACKS, count_nodes, node_row },
	{ "stacks", "distinct stacks that samples end in, over all threads; most CPU time first",
	  FM_COLUMNS(stack_columns), 5000, FM_ANALYSIS_STACKS, count_stacks, stack_row },
	{ "waits", "where threads waited, for the GIL and for anything else; longest first", FM_COLUMNS(wait_columns),
	  500, FM_ANALYSIS_STACKS, count_waits, wait_row },
	{ "samples", "every single sample, in order of time within each thread", FM_COLUMNS(sample_columns), 1e6,
	  FM_ANALYSIS_STACKS, count_samples, .begin = begin_samples, .next = next_sample },
	{ 0 },
};
