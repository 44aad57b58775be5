# SPDX-License-Identifier: Apache-2.0
"""The referee of totals. Every capture that a test makes is weighed against what others counted:

- The agent counts the samples that it takes: as many are in the file.
- A thread's CPU clock at its last sample is the sum of its samples' weights. Of a process's first thread, what its start cost before the agent was there is not in them.
- What the kernel says that the program used is the sum of these clocks, but for what each thread did after its last tick. What is missing beyond that (threads too short to be met,
  children that were not followed, a collector that got no CPU) is told in the report, in seconds.

What was dropped, and what nobody saw because the collector did not run, is in the file and counted here.

Nothing can be said of captures that were cut off, and of looks from outside (`-p`): there is no agent that counts, the process is not ours for the kernel to tell us about, and
the weights are made of the same clock that they would be compared with. Captures inside of a running process (`fathom.job()`, `python -m fathom`) have no account of the kernel's either, and their
threads' clocks are read at the end, however long the last sample is ago: there only samples are counted.

A test whose program cannot be accounted for says why: `@pytest.mark.unaccounted("why")`.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

from capture import BUILD

# What loading a program and the agent takes before the thread's clock is taken for its own: 1 to 4 ms.
START_NS = 10_000_000
# What a thread may do after its last sample. Ticks are up to one and a half periods apart, on a crowded machine by chance (exp(-12) is never), and one that met the thread without a
# CPU is left out. A collector that had no CPU itself was that much later, and says so.
TAIL_PERIODS = 12
# The kernel's two sums are cut to microseconds each.
ROUNDING_NS = 1_000_000

found: List[str] = []  # by the test that runs: what does not add up
known: Set[Tuple[str, int, int]] = set()  # captures that were weighed: path, size, time


class Thread(NamedTuple):
    pid: int
    tid: int
    cpu_ns: int  # its CPU clock at its last sample, as the agent read it
    n_dropped: int
    n_samples: int  # in the file
    weight_ns: int  # their sum

    @property
    def is_first(self) -> bool:
        return self.pid == self.tid


class Account:
    """What tests/tools/weigh_profile.c says of a capture."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.meta: Dict[str, str] = {}
        self.threads: List[Thread] = []
        self.pids: List[int] = []
        for line in lines:
            key, _, rest = line.partition(" ")
            if key == "thread":
                self.threads.append(Thread(*map(int, rest.split())))
            elif key == "process":
                self.pids.append(int(rest.split()[0]))
            else:
                self.meta[key] = rest

    def number(self, key: str) -> int:
        return int(self.meta.get(key, 0))

    @property
    def kernel_ns(self) -> int:
        """The program and the children that it waited for; 0 = nobody asked."""
        return self.number("target_user_ns") + self.number("target_system_ns")

    @property
    def clocks_ns(self) -> int:
        """The sum of all threads' clocks. exec leaves a thread its number and its clock, and gives it a second record."""
        clocks: Dict[Tuple[int, int], int] = {}
        for t in self.threads:
            clocks[t.pid, t.tid] = max(clocks.get((t.pid, t.tid), 0), t.cpu_ns)
        return sum(clocks.values())

    @property
    def ticks_ns(self) -> int:
        return TAIL_PERIODS * 1_000_000_000 // max(self.number("rate_hz"), 1)

    @property
    def tail_ns(self) -> int:
        return self.ticks_ns + 2 * self.number("waiting_gap_ns")


def judge_samples(a: Account) -> List[str]:
    n, n_taken = sum(t.n_samples for t in a.threads), a.number("n_taken")
    if n != n_taken:
        return [f"{n_taken} samples were taken, {n} are in the file"]
    n_dropped = sum(t.n_dropped for t in a.threads)
    if n_dropped > a.number("n_dropped"):
        return [f"threads dropped {n_dropped} samples, {a.number('n_dropped')} are told of"]
    return []


def judge_thread(a: Account, t: Thread, before_ns: int) -> List[str]:
    """before_ns: of its clock, when it was another program's (exec). A clock that was not read at a sample was read by others, whenever they looked."""
    if not t.n_samples or not a.kernel_ns:
        return []
    missing_ns = t.cpu_ns - before_ns - t.weight_ns
    may_miss_ns = a.number("gap_cpu_ns") + t.n_dropped * a.ticks_ns + (START_NS if t.is_first else 0)
    if 0 <= missing_ns <= may_miss_ns:
        return []
    return [f"thread {t.tid} used {t.cpu_ns - before_ns} ns, its {t.n_samples} samples weigh {t.weight_ns}"]


def judge_threads(a: Account) -> List[str]:
    wrong: List[str] = []
    before: Dict[Tuple[int, int], int] = {}
    for t in a.threads:
        before_ns = before.get((t.pid, t.tid), 0)
        wrong += judge_thread(a, t, before_ns if t.cpu_ns >= before_ns else 0)
        before[t.pid, t.tid] = max(before_ns, t.cpu_ns)
    return wrong


def told_unseen_ns(path: Path) -> int:
    """What the report says that nobody saw."""
    done = subprocess.run([BUILD / "fathom", "report", "--json", path], stdout=subprocess.PIPE, text=True)
    told = [re.match(r"([0-9.]+) of [0-9.]+ s of CPU time$", c["what"]) for c in json.loads(done.stdout)["coverage"]]
    return sum(round(float(match[1]) * 1e9) for match in told if match)


def judge_kernel(a: Account, path: Path) -> List[str]:
    unseen_ns = a.kernel_ns - a.clocks_ns
    may_ns = START_NS * len(a.pids) + a.tail_ns * len(a.threads)
    if a.kernel_ns and unseen_ns > may_ns and unseen_ns > told_unseen_ns(path) + may_ns:
        return [f"the kernel counted {a.kernel_ns} ns, all threads {a.clocks_ns}, and the report does not tell"]
    if a.kernel_ns and len(a.pids) == 1 and unseen_ns < -ROUNDING_NS:  # of more, some may not have been waited for
        return [f"all threads used {a.clocks_ns} ns, the kernel counted {a.kernel_ns}"]
    return []


def judge(a: Account, path: Path) -> List[str]:
    if a.meta.get("whole") != "1" or "n_taken" not in a.meta or a.meta.get("engine") == "attach":
        return []
    return judge_samples(a) + judge_threads(a) + judge_kernel(a, path)


def weigh(path: Path) -> Account:
    command = [BUILD / "tests" / "weigh_profile", path]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return Account(done.stdout.splitlines())


def look(path: Path) -> None:
    """Weighs a capture, unless it was weighed before."""
    try:
        status = path.stat()
    except OSError:
        return
    key = (str(path), status.st_size, status.st_mtime_ns)
    if path.is_file() and key not in known:
        known.add(key)
        found.extend(f"{path.name}: {line}" for line in judge(weigh(path), path))


def outputs(args: Sequence[str], where: Path, since: float) -> List[Path]:
    """The captures that such a `fathom` leaves: what it was told to write, or what is new below its results. Or reads: programs that profile themselves write some, too."""
    if args[1:2] == ["record"]:
        return [where / args[i + 1] for i in range(2, len(args) - 1) if args[i] in ("-o", "--output")][:1]
    if args[1:2] != ["run"]:
        return [where / a for a in args[2:] if a.endswith(".fathom")]
    folders = [args[i + 1] for i in range(2, len(args) - 1) if args[i] == "--output-dir"]
    results = (where / (folders[0] if folders else ".fathom")).glob("*/*/*.fathom")
    return [path for path in results if path.stat().st_mtime >= since]


def saw_end(process: Any) -> None:
    """For hurt.py, of every process that ended."""
    args = [str(a) for a in process.args] if isinstance(process.args, (list, tuple)) else []
    if args and Path(args[0]) == BUILD / "fathom":
        for path in outputs(args, Path(process.folder or "."), process.since):
            look(path)
