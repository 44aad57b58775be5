"""What /proc and gdb tell of a tree of processes."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Tuple

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
GDB_S = 120


def stat_fields(pid: int) -> List[str]:
    """Those after the name: state, parent, ..."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def parents() -> Dict[int, int]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields:
                found[int(name)] = int(fields[1])
    return found


def descendants(pid: int) -> List[int]:
    """Innermost last."""
    parent = parents()
    found, level = [], {pid}
    while level:
        level = {child for child, its in parent.items() if its in level}
        found += sorted(level)
    return found


def cpu_s(pid: int) -> Tuple[float, float]:
    """(its own, that of its children which ended)"""
    fields = stat_fields(pid)
    if not fields:
        return 0.0, 0.0
    return (int(fields[11]) + int(fields[12])) * TICK_S, (int(fields[13]) + int(fields[14])) * TICK_S


def tree_cpu_s(root: int, without_root: bool) -> float:
    own, ended = cpu_s(root)
    return (0.0 if without_root else own) + ended + sum(sum(cpu_s(pid)) for pid in descendants(root))


def end_all(pids: List[int]) -> None:
    """Ends processes that we started, and reaps those that have become our children."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
    for pid in pids:
        for _ in range(40):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    break
            except OSError:
                break
            time.sleep(0.05)


def gdb(arguments: List[str]) -> str:
    command = ["gdb", "-nx", "-q", "-batch", "-iex", "set auto-load off", "-ex", "set pagination off", *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=GDB_S
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"no backtrace: {problem}\n"
    return re.sub(r"^(\[New LWP|warning:).*\n", "", done.stdout.decode(errors="replace"), flags=re.M)


def stacks(pid: int) -> str:
    """Of a process that lives."""
    command = (
        Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace") if alive(pid) else "?"
    )
    return f"== process {pid}: {command[:300]}\n" + gdb(["-p", str(pid), "-ex", "thread apply all bt 60"])


def alive(pid: int) -> bool:
    return bool(stat_fields(pid))


def core_backtrace(core: Path) -> str:
    program = re.search(r"execfn: '([^']+)'", file_of(core))
    arguments = [program[1]] if program else []
    extra = ["-ex", "thread apply all bt 60", "-ex", "info registers", "-ex", "x/8i $pc-16"]
    return gdb([*arguments, "-c", str(core), *extra])


def file_of(path: Path) -> str:
    try:
        return subprocess.run(["file", str(path)], stdout=subprocess.PIPE).stdout.decode(errors="replace")
    except OSError:
        return ""
