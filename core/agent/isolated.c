// SPDX-License-Identifier: Apache-2.0
// Pythons that are told not to look at their environment, or to skip `site` (-I, -E, -S): they do
// not find our start-up files there, so the agent runs them, where it is preloaded.
//
// The moment is the one at which `site` is done and the program is about to begin. Python tells it
// itself, by an audit event (PEP 578). A hook for these cannot be taken away again, and costs some
// nanoseconds for each event from then on: it is set in such Pythons only.
#include <stdatomic.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/py_api.h"
#include "sigsafe/python/thread_state.h"
#include "sigsafe/base/state.h"

#define STARTS_PROGRAM "cpython.run_" // _file, _module, _command, _stdin

typedef int (*audit_function)(const char *event, struct py_object *args, void *data);
FM_PY_WEAK int PySys_AddAuditHook(audit_function hook, void *data);
FM_PY_WEAK struct py_object *PyUnicode_DecodeFSDefault(const char *text);
FM_PY_WEAK struct py_object *PyImport_ImportModule(const char *name);

// As CPython's own getopt reads them: short ones may stand together, and an argument may be
// attached.
bool fm_agent_is_isolated(char *const argv[])
{
	if (!argv || !argv[0])
		return false;
	for (char *const *arg = argv + 1; *arg && (*arg)[0] == '-' && (*arg)[1]; arg++) {
		if (!strcmp(*arg, "--"))
			return false;
		if (!strcmp(*arg, "--check-hash-based-pycs") && arg[1])
			arg++;
		if ((*arg)[1] == '-')
			continue;
		for (const char *option = *arg + 1; *option; option++) {
			if (strchr("IES", *option))
				return true;
			if (strchr("cm", *option))
				return false; // the rest is the program's
			if (strchr("WX", *option)) {
				if (!option[1] && arg[1])
					arg++;
				break;
			}
		}
	}
	return false;
}

// The start-up code takes the folder out of the path itself.
static void run_startup(const char *folder)
{
	struct py_object *path = PySys_GetObject("path"), *entry = PyUnicode_DecodeFSDefault(folder);
	if (!path || !entry) {
		py_succeeds(entry);
		return;
	}
	py_succeeds(PyObject_CallMethod(path, "insert", "iO", 0, entry));
	struct py_object *module = PyImport_ImportModule("_fathom_start");
	if (module)
		py_succeeds(PyObject_CallMethod(module, "start", NULL));
	else
		py_succeeds(PyObject_CallMethod(path, "remove", "O", entry));
	py_succeeds(module);
	py_succeeds(entry);
	PyErr_Clear();
}

static int on_event(const char *event, struct py_object *args, void *data)
{
	static _Atomic bool is_done;
	(void)args;
	// What we do raises events of its own.
	if (!atomic_load_explicit(&is_done, memory_order_relaxed) &&
	    !strncmp(event, STARTS_PROGRAM, sizeof(STARTS_PROGRAM) - 1) && !atomic_exchange(&is_done, true))
		run_startup(data);
	return 0;
}

static char folder[FM_AGENT_PATH_BYTES];
static _Atomic bool is_due;

void fm_agent_isolated_start(char *const argv[])
{
	atomic_store(&is_due, fm_sig.has_python && PySys_AddAuditHook && PyUnicode_DecodeFSDefault &&
				      PyImport_ImportModule && fm_agent_is_isolated(argv) &&
				      fm_agent_find_startup(folder));
}

// Not before Python has chosen its allocators: it gives the hook's memory back by those that it has
// at its end, and PYTHONMALLOC=debug and -X dev end a program that gives back what they have not
// given.
void fm_agent_isolated_check(void)
{
	if (FM_LIKELY(!atomic_load_explicit(&is_due, memory_order_relaxed)) || !fm_sig_is_python_up() ||
	    !atomic_exchange(&is_due, false))
		return;
	if (PySys_AddAuditHook(on_event, folder) != 0)
		PyErr_Clear(); // the program has one of its own, which forbids it
}
