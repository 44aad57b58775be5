// SPDX-License-Identifier: Apache-2.0
// Python tells which allocators it uses by comparing them with its own. Where ours stand in front,
// it would tell of none: the two functions that ask so are answered as they would be without us.
// `sys._debugmallocstats` keeps its object; its definition leads here.
#include "agent/agent.h"
#include "agent/memory.h"
#include "agent/py_api.h"

FM_PY_WEAK const char *_PyMem_GetCurrentAllocatorName(void);

static py_function real_stats;

struct question {
	struct py_object *self, *arg, *ret;
	const char *name;
};

static void ask_stats(void *arg)
{
	struct question *q = arg;
	q->ret = real_stats(q->self, q->arg);
}

static struct py_object *debug_malloc_stats(struct py_object *self, struct py_object *arg)
{
	struct question q = { .self = self, .arg = arg };
	fm_agent_python_without_hooks(ask_stats, &q);
	return q.ret;
}

static void ask_name(void *arg)
{
	((struct question *)arg)->name = _PyMem_GetCurrentAllocatorName();
}

static const char *current_allocator_name(void)
{
	struct question q = { 0 };
	fm_agent_python_without_hooks(ask_name, &q);
	return q.name;
}

const struct fm_agent_hook fm_agent_answer_hooks[] = {
	{ "_PyMem_GetCurrentAllocatorName", (void *)current_allocator_name, (void *)_PyMem_GetCurrentAllocatorName },
	{ 0 },
};

void fm_agent_answer_stats(void)
{
	struct py_object *f = PySys_GetObject ? PySys_GetObject("_debugmallocstats") : NULL;
	if (!f || py_type(f) != &PyCFunction_Type)
		return;
	struct py_method_def *def = ((const struct py_c_function *)py_body(f))->def;
	if (def->flags != METH_NOARGS || def->call == debug_malloc_stats)
		return;
	real_stats = def->call;
	def->call = debug_malloc_stats;
}
