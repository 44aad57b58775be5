# SPDX-License-Identifier: Apache-2.0
"""A capture of the running process: a collector beside it, and the agent inside it.

The collector is `fathom collect-for`. It is no child of this process (a program that waits for its children must not meet it),
and it finishes the file by itself however the process ends.
"""

import atexit
import os
import subprocess
import sys
import threading
import time
from typing import Any, List, Optional, Sequence

from fathom import program_path
from fathom._agent_module import load_agent

C_CALLS = 1
LINES = 2


# Writing out the tables of a very long trace takes seconds. Nothing should take this long.
_LONGEST_WAIT_S = 120.0
# A collector that somebody stopped writes nothing.
_LONGEST_STOP_S = 1.0


class Session:
    """One capture into one file. Use start()."""

    def __init__(self, agent: Any, output: str, ring: str, is_watchable: bool) -> None:
        self.output = output
        self.is_watchable = is_watchable
        self.ring = ring  # where others join
        self._agent = agent
        self._pid = os.getpid()
        self._collector_pid = int(ring.split("/")[2])

    def finish(self) -> bool:
        """Ends the capture and waits until its file is whole; False when that went wrong, which the collector has said."""
        if os.getpid() != self._pid:
            return True  # a forked child: the capture is its parent's to end
        self._agent.stop()  # the collector sees it in the memory they share
        # No pipe is kept open between the two: a program may close descriptors that it did not open, or wait for any child.
        now = time.monotonic()
        until, ran = now + _LONGEST_WAIT_S, now
        while _is_running(self._collector_pid) and now < until and now < ran + _LONGEST_STOP_S:
            time.sleep(0.002)
            now = time.monotonic()
            if _state(self._collector_pid) not in (b"T", b"t"):
                ran = now
        self._agent.leave()
        return os.path.exists(self.output) and not _is_running(self._collector_pid)


def _is_running(pid: int) -> bool:
    """False for a zombie, too: where the first process of a container reaps late or never, an ended orphan stays one."""
    return _state(pid) not in (b"", b"Z", b"X")


def _state(pid: int) -> bytes:
    """The letter that the kernel has for it; b"" when it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b""


def start(output: str, options: Optional[List[str]] = None, command: Optional[List[str]] = None) -> Session:
    """Starts a collector that writes to `output`, and joins it. RuntimeError says why not."""
    agent = load_agent()
    arguments = [program_path(), "collect-for", "-o", output] + (options or [])
    arguments += [str(os.getpid())] + (sys.argv if command is None else command)
    try:
        # Its first process is over as soon as the collector itself runs.
        answer = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False).stdout
    except OSError as error:
        raise RuntimeError("cannot start %s: %s" % (arguments[0], error)) from error
    word, _, rest = answer.decode("utf-8", "replace").strip().partition(" ")
    if word != "ring":
        raise RuntimeError(rest or "the collector ended without a message")
    agent.start(rest)
    return Session(agent, output, rest, "--listen" in arguments)


_filter: Optional[List[str]] = None
_applied: List[str] = []  # what the agent was told last: being told anew it looks at every function again


def set_filter(include: List[str], exclude: List[str], lines: Sequence[str] = ()) -> None:
    """Which files' functions are traced: those that match, never our own. lines: of which functions (_lines.patterns())."""
    global _filter
    ours = os.path.join(os.path.dirname(os.path.abspath(__file__)), "*")
    _filter = ["-" + ours] + ["+" + p for p in include] + ["-" + p for p in exclude] + list(lines)


def exclude_always(exclude: List[str]) -> None:
    """Adds to the filter, whatever was set before. Not while calls are traced: then what runs has the filter it began with."""
    global _filter
    with _lock:
        if _depth or load_agent().is_tracing():
            return
        known = filter_patterns()
        _filter = known + ["-" + p for p in exclude if "-" + p not in known]


def filter_patterns() -> List[str]:
    """For trace_filter() of the agent."""
    if _filter is None:
        set_filter([], [])
    assert _filter is not None
    return _filter


def apply_filter(lines: Sequence[str] = ()) -> None:
    """Tells the agent. RuntimeError says what is wrong with a pattern."""
    global _applied
    wanted = filter_patterns() + list(lines)
    # By `fathom run --trace`, or by a profiler that is enabled: what runs keeps the filter it began with.
    if wanted != _applied and not load_agent().is_tracing():
        load_agent().trace_filter(*wanted)
        _applied = wanted


_lock = threading.RLock()
# A thread that holds it is not there in the child of another one's fork.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_session: Optional[Session] = None
_depth = 0  # how many profilers are enabled
_is_region = False  # the capture, ours or one that was joined, has samples only while a profiler is enabled
_is_ours = False  # the trace that runs was begun by one of them; else by `fathom run --trace`, and is not ours to end


def current() -> Optional[Session]:
    """The capture that this package started, if one runs."""
    return _session


def is_watchable() -> bool:
    """Whether the capture that this package started was asked to let others watch."""
    return _session is not None and _session.is_watchable


def open_session(
    output: str, options: Optional[List[str]] = None, command: Optional[List[str]] = None, *, of_regions: bool = False
) -> bool:
    """Makes sure that there is a capture: one of our own until close_session(), or (False) the one that runs already.

    of_regions: what runs while no profiler is enabled is no part of it.
    """
    global _session
    with _lock:
        agent = load_agent()
        if _session is None and not agent.is_active():
            agent.set_outside(int(of_regions))
            try:
                _session = start(output, options, command)
            except BaseException:
                agent.set_outside(0)
                raise
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


def begin_calls(flags: int, lines: Sequence[str] = ()) -> None:
    """Calls are traced until as many end_calls(). lines: of these functions, too, and no others (_lines.patterns())."""
    global _depth, _is_ours, _is_region
    with _lock:
        if _depth == 0:
            agent = load_agent()
            _is_ours = not agent.is_tracing()
            if _is_ours:
                apply_filter(lines)
                agent.trace_start(flags)
            _is_region = agent.set_outside(0)
        _depth += 1


def end_calls() -> None:
    global _depth
    with _lock:
        if _depth == 0:
            return  # the capture was closed in between
        _depth -= 1
        if _depth == 0 and _is_region:
            load_agent().set_outside(1)
        if _depth == 0 and _is_ours:
            load_agent().trace_stop()
