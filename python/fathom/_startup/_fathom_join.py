# SPDX-License-Identifier: Apache-2.0
"""Joins the trace of the program that started this one: what FATHOM_STARTUP_JOIN says, as fathom/_follow.py writes it."""

import os
import sys


def _load_agent(path):
    """As fathom/_agent_module.py does, whether or not this Python has the package."""
    import importlib.machinery
    import importlib.util

    name = "fathom._agent"
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def prepare(text):
    """Joins the capture. The function that is returned begins the trace; None when there is nothing to begin."""
    fields = text.split("\x1f")
    version, path, ring, flags = fields[:4]
    if version != "1" or sys.implementation.name != "cpython":
        return None
    agent = _load_agent(path)
    if not agent.is_active():  # under `fathom run` it is
        agent.set_outside(int(flags == "-"))  # -p: samples of what it asks for itself, too
        agent.start(ring)
    agent.follow(os.path.dirname(os.path.abspath(__file__)))
    if flags == "-" or not agent.can_trace() or agent.is_tracing():
        return None
    agent.trace_filter(*fields[5:])
    import atexit

    atexit.register(
        agent.trace_stop
    )  # the first to be registered is the last to run; what comes then is the interpreter's end
    number = int(flags)

    def begin():
        agent.trace_start(number)

    return begin
