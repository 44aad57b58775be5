# SPDX-License-Identifier: Apache-2.0
"""--memory-log: every event of exact mode. Replayed one by one they give the sums, to the byte."""

from pathlib import Path
from typing import Dict, List, Tuple

import pytest
from capture import TARGETS, Capture, Python, fields
from exact import MIB, coverage, exact
from guest import clean_env, compile_target, pick_python, run, some_pythons, under

each_python = True  # conftest: chosen here
NEWEST = pick_python()
assert NEWEST

Key = Tuple[int, int, int]  # process, stack, domain


def logged(tmp_path: Path, command: List[object], option: str = "--memory-log") -> Capture:
    return exact(tmp_path, command, option)


Event = Tuple[int, int, int, int, int, Key]  # time, 0 = born or 1 = freed, process, id, size, where


def all_events(capture: Capture) -> List[Event]:
    process_of = [fields(line)["process"] for line in capture.raw["thread"]]
    births: Dict[Tuple[int, int], Event] = {}
    for e in map(fields, capture.raw["alloc"]):
        process = process_of[e["thread"]]
        if e["domain"] != 5:
            key = (process, e["stack"], e["domain"])
            births[process, e["id"]] = (e["time"], 0, process, e["id"], e["size"], key)
    events = list(births.values())
    for e in map(fields, capture.raw["free"]):
        process = process_of[e["thread"]]
        events.append((e["time"], 1, process, e["id"], *births[process, e["id"]][4:]))
    return sorted(events)


def highest_moments(events: List[Event]) -> Dict[int, int]:
    """By process: how many events had been when it held most. A peak ends when something is freed."""
    live: Dict[int, int] = {}
    highest: Dict[int, Tuple[int, int]] = {}
    for i, (_, is_end, process, _, size, _) in enumerate(events):
        now = live.get(process, 0)
        if is_end and now > highest.get(process, (0, 0))[0]:
            highest[process] = (now, i)
        live[process] = now - size if is_end else now + size
    for process, now in live.items():
        if now > highest.get(process, (0, 0))[0]:
            highest[process] = (now, len(events))
    return {process: at for process, (_, at) in highest.items()}


def replay(capture: Capture) -> Dict[Key, Dict[str, int]]:
    """What the events come to: the same figures as the agent's sums."""
    events = all_events(capture)
    moments = highest_moments(events)
    sums: Dict[Key, Dict[str, int]] = {}
    for i, (_, is_end, process, _, size, key) in enumerate(events):
        s = sums.setdefault(key, dict.fromkeys(("alloc", "allocs", "frees", "live", "peak", "at_peak"), 0))
        s["live"] += -size if is_end else size
        if is_end:
            s["frees"] += 1
        else:
            s["alloc"] += size
            s["allocs"] += 1
            s["peak"] = max(s["peak"], s["live"])
        if i < moments[process]:
            s["at_peak"] = s["live"]
    return sums


def told(capture: Capture) -> Dict[Key, Dict[str, int]]:
    rows = [fields(line) for line in capture.raw["site"]]
    names = ("alloc", "allocs", "frees", "live", "peak", "at_peak")
    return {(r["process"], r["stack"], r["domain"]): {n: r[n] for n in names} for r in rows}


def check_agreement(capture: Capture) -> None:
    replayed, summed = replay(capture), told(capture)
    assert not any("memory log" in what or "allocations or frees" in what for what in coverage(capture))
    assert replayed.keys() == summed.keys()
    for key, figures in summed.items():
        # Two sites of the agent may be one stack here; their peaks were at different times.
        peak = replayed[key].pop("peak")
        assert peak <= figures.pop("peak")
        assert replayed[key] == figures, key


SMALL = """
import threading
class Node:
    def __init__(self, i):
        self.value = str(i) * 3
def make(n):
    return [Node(i) for i in range(n)]
def grow():
    out = []
    for i in range(3000):
        out.append(i * 1000)
    return out
def work():
    kept = [make(300) for _ in range(10)]
    grow()
    del kept[::2]
    return kept
first = work()
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
big = bytearray(5 << 20)
del first, big
"""


@pytest.mark.parametrize("python", some_pythons(), ids=str)
def test_the_log_comes_to_the_sums(python: Python, tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    capture = logged(tmp_path, [python.path, script])
    check_agreement(capture)
    assert len(capture.raw["alloc"]) > 30000


def test_native_blocks_and_mappings(tmp_path: Path) -> None:
    assert NEWEST
    calls = compile_target(tmp_path, "memory_calls.so", ["memory_calls.c"], ["-shared"])
    capture = logged(tmp_path, [NEWEST.path, TARGETS / "memory_calls.py", calls])
    check_agreement(capture)


def test_children_have_logs_of_their_own(tmp_path: Path) -> None:
    assert NEWEST
    script = tmp_path / "children.py"
    script.write_text(
        "import os\n"
        "kept = [bytearray(1000) for _ in range(100)]\n"
        "for i in range(5):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        own = [bytearray(3000) for _ in range(200)]\n"
        "        kept = None\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
    )
    capture = logged(tmp_path, [NEWEST.path, script])
    check_agreement(capture)
    assert len({key[0] for key in told(capture)}) == 6


def test_a_line_over_time(tmp_path: Path) -> None:
    """What sums alone cannot say: a line's bytes averaged over the run, and their course."""
    assert NEWEST
    script = tmp_path / "course.py"
    script.write_text(
        "import time\ntime.sleep(0.4)\nheld = [bytes(100) for _ in range(100000)]\ntime.sleep(0.4)\ndel held\ntime.sleep(0.4)\n"
    )
    capture = logged(tmp_path, [NEWEST.path, script])
    line = next(x for x in capture.report["lines"] if x["file"].endswith("course.py") and x["line"] == 3)
    assert 100000 * 100 <= line["peak_bytes"] <= 100000 * 160
    assert line["timeline_bytes"][0] == 0
    assert line["timeline_bytes"][-1] < 0.05 * line["peak_bytes"]
    assert max(line["timeline_bytes"]) >= 100000 * 100
    assert 0.1 * line["peak_bytes"] < line["avg_bytes"] < 0.8 * line["peak_bytes"]


def test_the_limit(tmp_path: Path) -> None:
    """A log that has grown to its limit ends; the sums do not."""
    assert NEWEST
    script = tmp_path / "long.py"
    script.write_text(
        "import os, sys, time\n"
        "def churn():\n"
        "    n = rest = 0\n"
        "    while rest < 200:\n"
        "        for _ in range(500): bytearray(1234); n += 1\n"
        "        time.sleep(0.005)\n"
        "        rest += os.path.getsize(sys.argv[1]) >= 300 << 10\n"
        "    return n\n"
        "print(churn())\n"
    )
    capture = logged(tmp_path, [NEWEST.path, script, tmp_path / "exact.fathom"], "--memory-log=300k")
    n = int(capture.run.stdout.splitlines()[0])
    assert any(what.startswith("memory over time after the first") for what in coverage(capture))
    assert capture.path.stat().st_size < 3 * MIB
    buffers = sum(f["alloc"] for f in told(capture).values() if f["alloc"] >= n * 1234)
    assert buffers >= n * 1234
    assert 0 < sum(1234 <= fields(event)["size"] < 1300 for event in capture.raw["alloc"]) < n
    assert not capture.report["leaks"]


def test_wrong_sizes_are_said(tmp_path: Path) -> None:
    for options, word in ((["--memory-log=much"], "512M"), (["--memory", "--memory-log"], "--memory=exact")):
        done = run([*under(tmp_path / "x.fathom", *options), "true"], env=clean_env())
        assert done.returncode == 2
        assert word in done.stderr
