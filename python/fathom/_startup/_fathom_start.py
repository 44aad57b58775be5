# SPDX-License-Identifier: Apache-2.0
"""What is set up in a Python before its program begins: called by sitecustomize.py, or by the agent in a Python that does not read that (-I, -E, -S;
core/agent/isolated.c)."""

import os
import sys


def _leave(here, flags):
    """sys.path and os.environ as the program would have them without us.

    Only Python's view of the environment changes: children inherit the real one, and with it this file.
    """
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    for name in ("_fathom_hooks", "_fathom_join", "_fathom_plots", "_fathom_start", "_fathom_trace"):
        sys.modules.pop(name, None)
    if not flags:
        return
    view = getattr(os.environ, "_data", os.environ) if "c" in flags else os.environ
    key = str if view is os.environ else os.environ.encodekey
    value = str if view is os.environ else os.environ.encodevalue
    theirs = os.pathsep.join(part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part != here)
    if theirs or "e" in flags:
        view[key("PYTHONPATH")] = value(theirs)
    else:
        view.pop(key("PYTHONPATH"), None)
    for name in ("FATHOM_STARTUP", "FATHOM_STARTUP_TRACE", "FATHOM_STARTUP_JOIN"):
        view.pop(key(name), None)


def start():
    settings = os.environ.get("FATHOM_STARTUP")
    agent_path = os.environ.get("FATHOM_STARTUP_TRACE")
    join = os.environ.get("FATHOM_STARTUP_JOIN")
    flags = settings.split(" ", 3)[2] if settings else "c" + join.split("\x1f", 5)[4] if join else ""
    begin_trace = None
    try:
        if settings and agent_path:
            import _fathom_trace

            begin_trace = _fathom_trace.prepare(agent_path, settings.split(" ", 3)[3])
        if settings:
            import _fathom_hooks

            _fathom_hooks.install(settings)
        if join and not begin_trace:
            import _fathom_join

            begin_trace = _fathom_join.prepare(join)
    finally:
        _leave(os.path.dirname(os.path.abspath(__file__)), flags)
        if begin_trace:
            begin_trace()  # the last thing: nothing of the above is the program's
