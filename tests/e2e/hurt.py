# SPDX-License-Identifier: Apache-2.0
"""What a test saw of processes that crashed or hung. Such a failure is final: nothing of it is a matter of chance to us.

Every process that a test starts is looked at (`watch()`, by conftest), whatever the test itself asks about it.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, List, Optional

import load

# Ends that nobody asks for. A program that is told to end (SIGTERM, SIGKILL, ...) may well have been told so by its test.
CRASHES = (
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGABRT,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGTRAP,
    signal.SIGSYS,
)


class GuestHurt(AssertionError):
    """A program under Fathom ended by a signal, or did not end."""


seen: List[str] = []  # during the test that runs
started: List["Watched"] = []  # by the test's own code, not by its fixtures
at_end: List[Callable[[Any], None]] = []  # who else wants to know of each process that ended


def crash_of(status: Optional[int]) -> str:
    """The signal's name, also if `fathom` ended as a shell does; empty for any other end."""
    found = [sig.name for sig in CRASHES if status in (-sig, 128 + sig)]
    return found[0] if found else ""


def check_end(run: "subprocess.CompletedProcess[str]") -> None:
    crash = crash_of(run.returncode)
    if crash:
        raise GuestHurt(f"{crash} of {run.args}\n{run.stdout or ''}{run.stderr or ''}")


class Watched(subprocess.Popen):  # type: ignore[type-arg]
    """Notes how each process ends, and each wait that takes too long."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.folder, self.since = kwargs.get("cwd"), time.time()
        super().__init__(*args, **kwargs)
        started.append(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "returncode" and crash_of(value):
            seen.append(f"{crash_of(value)} of {self.args}")
        super().__setattr__(name, value)
        if name == "returncode" and value is not None:
            for tell in at_end:
                tell(self)

    def communicate(self, input: Any = None, timeout: Optional[float] = None) -> Any:
        try:
            return super().communicate(input, load.longer(timeout))
        except subprocess.TimeoutExpired:
            seen.append(f"no end of {self.args}")
            raise

    def wait(self, timeout: Optional[float] = None) -> int:
        try:
            return super().wait(load.longer(timeout))
        except subprocess.TimeoutExpired:
            seen.append(f"no end of {self.args}")
            raise


def descendants(pid: int) -> List[int]:
    found: List[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def end_what_is_left() -> None:
    """What a test that failed half-way did not come to end itself would take its CPU from all that follow."""
    for process in started:
        if process.poll() is None:
            for pid in [process.pid, *descendants(process.pid)]:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def watch() -> None:
    subprocess.Popen = Watched  # type: ignore[misc]


def why_final(error: Optional[BaseException]) -> str:
    """Why a failure is no matter of chance; empty if it may be. A fixture's error is shown to each of its tests, what it noted to the first."""
    while error is not None:
        if isinstance(error, (GuestHurt, subprocess.TimeoutExpired)):
            return str(error).splitlines()[0]
        if isinstance(error, subprocess.CalledProcessError) and crash_of(error.returncode):
            return f"{crash_of(error.returncode)} of {error.cmd}"
        error = error.__cause__ or error.__context__
    return seen[0] if seen else ""
