"""A capture of the running process: a collector beside it, and the agent inside it.

The collector is `fathom collect-for`. It is no child of this process (a program that waits for its children must not meet it),
and it finishes the file by itself however the process ends.
"""

import atexit
import os
import subprocess
import sys
import threading
from typing import IO, Any, List, Optional

from fathom import program_path
from fathom._agent_module import load_agent

C_CALLS = 1
LINES = 2


class Session:
    """One capture into one file. Use start()."""

    def __init__(self, agent: Any, output: str, collector: "subprocess.Popen[bytes]") -> None:
        self.output = output
        self._agent = agent
        self._pid = os.getpid()
        self._to_collector: IO[bytes] = collector.stdin  # type: ignore[assignment]
        self._from_collector: IO[bytes] = collector.stdout  # type: ignore[assignment]

    def finish(self) -> None:
        """Ends the capture and waits until its file is whole."""
        if os.getpid() != self._pid:
            return  # a forked child: the capture is its parent's to end
        self._agent.stop()
        try:
            self._to_collector.write(b"stop\n")
            self._to_collector.flush()
        except OSError:
            pass  # it is gone already; what it wrote is there
        # Until the end of its output: then it has written everything.
        while self._from_collector.read(4096):
            pass
        self._to_collector.close()
        self._from_collector.close()


def start(output: str, options: Optional[List[str]] = None, command: Optional[List[str]] = None) -> Session:
    """Starts a collector that writes to `output`, and joins it. RuntimeError says why not."""
    agent = load_agent()
    arguments = [program_path(), "collect-for", "-o", output] + (options or [])
    arguments += [str(os.getpid())] + (sys.argv if command is None else command)
    try:
        collector = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise RuntimeError("cannot start %s: %s" % (arguments[0], error)) from error
    assert collector.stdout is not None
    answer = collector.stdout.readline().decode("utf-8", "replace").strip()
    collector.wait()  # it has left its first process behind
    word, _, rest = answer.partition(" ")
    if word != "ring":
        raise RuntimeError(rest or "the collector ended without a word")
    session = Session(agent, output, collector)
    try:
        agent.start(rest)
    except RuntimeError:
        session.finish()
        raise
    return session


_has_filter = False


def set_filter(include: List[str], exclude: List[str]) -> None:
    """Which files' functions are traced: those that match, never our own."""
    global _has_filter
    _has_filter = True
    ours = os.path.join(os.path.dirname(os.path.abspath(__file__)), "*")
    load_agent().trace_filter("-" + ours, *["+" + p for p in include], *["-" + p for p in exclude])


_lock = threading.RLock()
_session: Optional[Session] = None
_depth = 0  # how many profilers are enabled


def current() -> Optional[Session]:
    """The capture that this package started, if one runs."""
    return _session


def open_session(output: str, options: Optional[List[str]] = None, command: Optional[List[str]] = None) -> bool:
    """Makes sure that there is a capture: one of our own until close_session(), or (False) the one that runs already."""
    global _session
    with _lock:
        if _session is None and not load_agent().is_active():
            _session = start(output, options, command)
            atexit.register(close_session)
        return _session is not None


def close_session() -> Optional[str]:
    """Ends our own capture; its file, or None when there was none."""
    global _session, _depth
    with _lock:
        session, _session = _session, None
        _depth = 0
        if session is None:
            return None
        atexit.unregister(close_session)
        session.finish()
        return session.output


def begin_calls(flags: int) -> None:
    """Calls are traced until as many end_calls()."""
    global _depth
    with _lock:
        if _depth == 0:
            if not _has_filter:
                set_filter([], [])
            load_agent().trace_start(flags)
        _depth += 1


def end_calls() -> None:
    global _depth
    with _lock:
        if _depth == 0:
            return  # the capture was closed in between
        _depth -= 1
        if _depth == 0:
            load_agent().trace_stop()
