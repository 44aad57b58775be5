# SPDX-License-Identifier: Apache-2.0
"""Runs a program under the agent alone (tests/tools/watch_memory.c) and gives back every record of its memory."""

import math
import os
import re
import subprocess
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence

from capture import BUILD

OBJ, MEM, RAW, MALLOC, MMAP, COPY = range(6)
MEAN = 128 << 10  # bytes, as `fathom run` has it
NO_NATIVE = 1
HOOKS_MALLOC, HOOKS_PYTHON, HOOKS_COPY = 1, 2, 4


class Alloc(NamedTuple):
    pid: int
    tid: int
    time: int
    id: int
    addr: int
    size: int
    weight: int
    domain: int
    frames: List[str]  # innermost first; Python ones are name:line

    def is_from(self, function: str) -> bool:
        return any(f.startswith(function + ":") for f in self.frames)


class Watched:
    def __init__(self, text: str, output: str) -> None:
        self.output = output
        self.allocs: List[Alloc] = []
        self.copies: List[Alloc] = []
        self.freed: Dict[int, Dict[int, int]] = {}  # pid: id: time
        self.freed_by: Dict[int, Dict[int, int]] = {}
        self.threads: List[Dict[str, int]] = []
        self.processes: List[Dict[str, int]] = []
        self.bad: List[str] = []
        self.status: Optional[int] = None
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            numbers, _, stack = rest.partition("| ")
            value = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", numbers)}
            if kind == "alloc":
                a = Alloc(frames=stack.split(";"), **value)
                (self.copies if a.domain == COPY else self.allocs).append(a)
            elif kind == "free":
                self.freed.setdefault(value["pid"], {})[value["id"]] = value["time"]
                self.freed_by.setdefault(value["pid"], {})[value["id"]] = value["tid"]
            elif kind == "thread":
                self.threads.append(value)
            elif kind == "process":
                self.processes.append(value)
            elif kind == "end":
                self.status = value["status"]
            else:
                self.bad.append(line)

    def live_at(self, time_ns: int) -> List[Alloc]:
        def is_live(a: Alloc) -> bool:
            return a.time <= time_ns < self.freed.get(a.pid, {}).get(a.id, 1 << 62)

        return [a for a in self.allocs if is_live(a)]

    @property
    def dropped(self) -> int:
        return sum(t["dropped"] + t["free_dropped"] for t in self.threads)


def total(allocs: Iterable[Alloc]) -> int:
    return sum(a.weight for a in allocs)


def deviation(allocs: Iterable[Alloc]) -> float:
    """Of the sum of weights, from the samples themselves: w^2 (1 - p) with p = size / w."""
    return math.sqrt(sum(a.weight * (a.weight - a.size) for a in allocs))


def watch(
    command: Sequence[object],
    mean: int = MEAN,
    flags: int = 0,
    env: Optional[Dict[str, str]] = None,
    timeout: float = 120,
) -> Watched:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    clean.update(env or {})
    out_path = Path(os.environ.get("TMPDIR", "/tmp")) / f"watched-{os.getpid()}.txt"
    tool = [BUILD / "tests" / "watch_memory", BUILD / "_agent.abi3.so", mean, flags, "--", *command]
    with open(out_path, "w+", encoding="utf-8", errors="replace") as output:
        # stdout is the tool's own.
        shell = ["sh", "-c", 'out=$1; shift; exec "$@" >"$out" 2>&1', "sh", out_path]
        tool[5:5] = shell
        done = subprocess.run([str(a) for a in tool], stdout=subprocess.PIPE, env=clean, text=True, timeout=timeout)
        text = output.read()
    out_path.unlink()
    result = Watched(done.stdout, text)
    assert done.returncode == 0, done
    assert (result.status, result.bad) == (0, []), text
    return result
