# SPDX-License-Identifier: Apache-2.0
"""--trace: every call of the program is recorded, from its start-up files on until its exit functions have run.

The agent is in the process already, preloaded; here it is told to begin. How that went is left in the results folder, a line for each Python of the
program: an empty one, or why its calls are not traced (read by core/cli/run/traced.c).
"""

import _imp
import atexit
import os
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader


def _load(path):
    name = "fathom._agent"
    # Not in sys.modules: a program that imports fathom gets a module object of its own for the same library.
    module = _imp.create_dynamic(ModuleSpec(name, ExtensionFileLoader(name, path), origin=path))
    _imp.exec_dynamic(module)
    return module


def prepare(agent_path, results):
    """What there is to do before the first traced call is done here; the function that is returned begins the trace."""
    note_path = os.path.join(results, "traced")

    def note(text):
        fd = os.open(note_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(fd, (" ".join(text.split()) + "\n").encode("utf-8", "replace"))
        os.close(fd)

    try:
        agent = _load(agent_path)
        if agent.is_tracing():
            raise RuntimeError("sub-interpreters are not traced")
        agent.trace_filter("-" + os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "*"))
        # The first to be registered is the last to run. What destructors do after it is the interpreter's end, not the program.
        atexit.register(agent.trace_stop)
    except Exception as error:
        note(str(error))
        return None

    def begin():
        # No call of a Python function here: it would be the trace's first.
        try:
            agent.trace_start(0)
        except Exception as error:
            note(str(error))
        else:
            note("")

    return begin
