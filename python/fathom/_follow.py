# SPDX-License-Identifier: Apache-2.0
"""Python programs that a traced program starts are traced, too: by multiprocessing (spawn, forkserver), subprocess, os.exec...

Two variables lead them to _startup/_fathom_join.py: PYTHONPATH with its folder in front, and FATHOM_STARTUP_JOIN with what to join. Only the real
environment has them, which children inherit; os.environ stays as the program knows it. For children that are given an environment of their
own the agent adds them (core/agent/exec.c). In one that ignores its environment (-I, -E) or skips site (-S) the agent, preloaded, does what
_startup/ does (core/agent/isolated.c), if it is started by the name of python: not by a script's first line.
"""

import os
from typing import Callable, Optional

from fathom import _session, agent_path
from fathom._agent_module import load_agent

VARIABLE = "FATHOM_STARTUP_JOIN"
SEPARATOR = "\x1f"  # between fields: paths and patterns may hold anything else


def start(flags: Optional[int]) -> Callable[[], None]:
    """From now on children join this process's capture. flags: what they trace; None: nothing but what they ask for themselves.

    Call what is returned to end it."""
    session = _session.current()
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_startup")
    if session is None or os.pathsep in folder or not os.path.isdir(folder):
        return lambda: None  # whoever profiles this process follows its children
    theirs = os.environ.get("PYTHONPATH")
    fields = ["1", agent_path(), session.ring, "-" if flags is None else str(flags), "e" if theirs == "" else "-"]
    os.putenv(VARIABLE, SEPARATOR.join(fields + _session.filter_patterns()))
    os.putenv("PYTHONPATH", folder + os.pathsep + theirs if theirs else folder)
    load_agent().follow(folder)

    def stop() -> None:
        load_agent().follow("")
        os.unsetenv(VARIABLE)
        now = os.environ.get("PYTHONPATH")  # the program may have changed it
        if now is None:
            os.unsetenv("PYTHONPATH")
        else:
            os.putenv("PYTHONPATH", now)

    return stop
