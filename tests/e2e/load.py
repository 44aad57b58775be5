# SPDX-License-Identifier: Apache-2.0
"""How busy the machine is while a test runs: tasks that run or want to, for each CPU, on average.

Tests marked `statistical` or `alone` judge samples, or how punctual something is. They rest on that: a program that wants a CPU has one at least half of the time. The collector, too,
is a program: where it gets no CPU there are few samples, and each stands for long. A failure of theirs on a machine that is busier says nothing about Fathom: conftest makes it a skip
that tells the figure and what failed. Crashes, programs that do not end, and totals that do not add up (referee.py) are failures on every machine.

A quiet `make test` has two workers more than there are CPUs, some of which sleep: less than 2 tasks for each of 2 CPUs. Four busy loops beside one test are 2.5.
"""

import os
import threading
import time
from pathlib import Path
from typing import List, Optional, Tuple

LIMIT = 2.0
EVERY_S = 0.05
# A test shorter than this is judged by the time before it, too: one look tells of nothing.
LEAST_S = 1.0
MOST_PATIENCE = 20.0

LOADAVG = Path("/proc/loadavg")
N_CPUS = len(os.sched_getaffinity(0))
looks: List[Tuple[float, int]] = []  # when, how many tasks; of the test that runs and of LEAST_S before it
watching: Optional[threading.Thread] = None


def wanting() -> int:
    """Tasks of the whole machine that run or want to, but for the one that looks."""
    return int(LOADAVG.read_text().split()[3].partition("/")[0]) - 1


def watch() -> None:
    """Looks from now on. Where the kernel does not tell, no machine is too busy."""
    global watching

    def look() -> None:
        while True:
            looks.append((time.monotonic(), wanting()))
            time.sleep(EVERY_S)

    if watching is None and LOADAVG.exists():
        watching = threading.Thread(target=look, daemon=True, name="load")
        watching.start()


def begin() -> None:
    """A test begins."""
    since = time.monotonic() - LEAST_S
    looks[:] = [entry for entry in looks if entry[0] >= since]


def per_cpu() -> float:
    seen = looks[:]
    return sum(n for _, n in seen) / len(seen) / N_CPUS if seen else 0.0


def too_busy(limit: float = LIMIT) -> str:
    """Why nothing can be said; empty on a machine where something can."""
    figure = per_cpu()
    return f"machine too busy: {figure:.1f} tasks for each CPU (at most {limit:g})" if figure > limit else ""


def longer(timeout: Optional[float]) -> Optional[float]:
    """A time within which a program ends on a machine that is its own, on this one. Below 5 s somebody wants to see that it is over."""
    if timeout is None or timeout < 5:
        return timeout
    return timeout * min(max(per_cpu(), 1.0), MOST_PATIENCE)
