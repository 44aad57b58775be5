/* A tracer of C that notes which one was there before, in the thread state, and puts it back when it is done, as
 * line_profiler does; it may pass events on to it. It counts what it is told, and each time with its own object. */
#include <stdint.h>
#include <stdlib.h>

typedef int (*trace_function)(void *self, void *frame, int what, void *arg);
void PyEval_SetTrace(trace_function function, void *object);
void PyEval_SetProfile(trace_function function, void *object);
void *PyThreadState_Get(void);

/* In a thread state up to 3.11. */
struct functions {
	trace_function functions[2];
	void *objects[2];
};

#define DEEPEST 8
static __thread struct one {
	trace_function before;
	void *before_object, *object;
	int is_trace, passes_on;
} all[DEEPEST];
static __thread int depth;
static __thread long counts[8];

static int on_event(void *self, void *frame, int what, void *arg)
{
	for (int i = depth; i-- > 0;)
		if (all[i].object == self) {
			counts[what & 7]++;
			return all[i].passes_on && all[i].before ? all[i].before(all[i].before_object, frame, what, arg)
								 : 0;
		}
	abort(); /* somebody else's object, or nobody's */
}

static void set(int is_trace, trace_function function, void *object)
{
	(is_trace ? PyEval_SetTrace : PyEval_SetProfile)(function, object);
}

/* head: bytes before the functions in a thread state; 0 = where they are is not known, nothing is put back. */
void tracer_start(void *object, int is_trace, int passes_on, long head)
{
	struct functions *state = (void *)((uint8_t *)PyThreadState_Get() + head);
	struct one *one = &all[depth];
	*one = (struct one){ .object = object, .is_trace = is_trace, .passes_on = passes_on };
	if (head) {
		one->before = state->functions[is_trace];
		one->before_object = state->objects[is_trace];
	}
	depth++;
	set(is_trace, on_event, object);
}

void tracer_stop(void)
{
	struct one *one = &all[depth - 1];
	set(one->is_trace, one->before, one->before_object);
	depth--;
}

long tracer_count(int what)
{
	return counts[what];
}
