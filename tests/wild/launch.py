"""Runs one program to its end, watches that it makes progress, and keeps what is needed to understand a bad end.

A program hangs when it has used no CPU for long, or far more than without Fathom: time on the clock says little on a busy machine.
"""

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import processes

PR_SET_CHILD_SUBREAPER = 36
CORE_BYTES = 4 << 30
LOOK_S = 0.25
PROGRESS_S = 0.05  # less CPU than this in a whole idle limit is none: a loop that polls uses less


class Limits(NamedTuple):
    idle_s: float = 60  # on the clock, with next to no CPU used
    cpu_s: float = 600
    wall_s: float = 3600  # the last resort: something polls for ever

    def beside(self, cpu_s: float, wall_s: float) -> "Limits":
        """For a program that took so much without Fathom."""
        return Limits(max(self.idle_s, 3 * wall_s), 10 * cpu_s + 120, 20 * wall_s + 900)


class Outcome(NamedTuple):
    status: int  # as a shell says it: 128 + N for signal N
    stdout: str
    stderr: str
    cpu_s: float
    wall_s: float
    hung: str  # why it was ended, or ""
    backtrace: str  # of cores and of what hung

    @property
    def crashed(self) -> bool:
        return self.status >= 128 and not self.hung


def become_subreaper() -> None:
    """Orphans of a program become our children, so that none outlives its case."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def prepare_child() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (CORE_BYTES if hard < 0 else min(hard, CORE_BYTES), hard))


def run(command: List[str], cwd: Path, env: Dict[str, str], limits: Limits, starter: bool = False) -> Outcome:
    """starter: the first process is not the program itself (but the collector), and its own CPU is no progress."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start, before = time.monotonic(), children_cpu_s()
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=prepare_child,
        )
        hung, backtrace = watch(child, limits, starter, start)
        wall_s = time.monotonic() - start
        processes.end_all(processes.descendants(os.getpid()))
        cpu_s = children_cpu_s() - before  # with that of orphans, which are ours to reap
        backtrace += cores(cwd)
        out.seek(0)
        err.seek(0)
        code = child.returncode
        texts = [f.read().decode(errors="replace") for f in (out, err)]
    return Outcome(128 - code if code < 0 else code, texts[0], texts[1], cpu_s, wall_s, hung, backtrace)


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def watch(child: "subprocess.Popen[bytes]", limits: Limits, starter: bool, start: float) -> Tuple[str, str]:
    """(why it was ended or "", backtraces if it was ended)"""
    seen, seen_at, cpu_s = 0.0, start, 0.0
    while True:
        try:
            child.wait(LOOK_S)
            return "", ""
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        cpu_s = max(cpu_s, processes.tree_cpu_s(child.pid, without_root=starter))
        if cpu_s > seen + PROGRESS_S:
            seen, seen_at = cpu_s, now
        hung = verdict(limits, cpu_s, now - seen_at, now - start)
        if hung:
            backtrace = "".join(processes.stacks(pid) for pid in processes.descendants(child.pid))
            processes.end_all([*processes.descendants(child.pid), child.pid])
            child.wait()
            return hung, backtrace


def verdict(limits: Limits, cpu_s: float, idle_s: float, wall_s: float) -> str:
    if idle_s > limits.idle_s:
        return f"no CPU used for {idle_s:.0f} s"
    if cpu_s > limits.cpu_s:
        return f"{cpu_s:.0f} s of CPU used, limit {limits.cpu_s:.0f}"
    if wall_s > limits.wall_s:
        return f"no end after {wall_s:.0f} s"
    return ""


def cores(folder: Path) -> str:
    """Backtraces of what dumped core in folder; the cores go, as they are large."""
    text = ""
    for core in [*folder.glob("core"), *folder.glob("core.[0-9]*")]:
        if core.is_file() and is_core(core):
            text += f"== {core.name}\n" + processes.core_backtrace(core)
            core.unlink()
    return text


def is_core(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and head[16:18] == b"\x04\x00"


def fresh_folder(parent: Optional[Path] = None) -> Path:
    return Path(tempfile.mkdtemp(prefix="wild-", dir=parent))


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
