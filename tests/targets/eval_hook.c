// A tool that evaluates frames itself, as compilers of Python functions do (PEP 523): its hook is put in front of what
// is there and calls it, is taken away only where it is on top, and is put back when it is wanted again. Loaded by
// ctypes, from 3.9 on.
#include <stddef.h>

typedef void *(*eval_fn)(void *tstate, void *frame, int is_throw);

extern void *PyInterpreterState_Get(void);
extern eval_fn _PyInterpreterState_GetEvalFrameFunc(void *interp);
extern void _PyInterpreterState_SetEvalFrameFunc(void *interp, eval_fn fn);
extern void *_PyEval_EvalFrameDefault(void *tstate, void *frame, int is_throw);

static eval_fn previous;
long n_frames;

static void *shim(void *tstate, void *frame, int is_throw)
{
	n_frames++;
	return previous ? previous(tstate, frame, is_throw) : _PyEval_EvalFrameDefault(tstate, frame, is_throw);
}

void shim_on(void)
{
	void *interp = PyInterpreterState_Get();
	eval_fn have = _PyInterpreterState_GetEvalFrameFunc(interp);
	if (have == shim)
		return;
	previous = have;
	_PyInterpreterState_SetEvalFrameFunc(interp, shim);
}

void shim_off(void)
{
	void *interp = PyInterpreterState_Get();
	if (_PyInterpreterState_GetEvalFrameFunc(interp) != shim)
		return;
	_PyInterpreterState_SetEvalFrameFunc(interp, previous);
	previous = NULL;
}
