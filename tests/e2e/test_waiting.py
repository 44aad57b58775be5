# SPDX-License-Identifier: Apache-2.0
"""Waiting is reported where and as long as it was, by what the waiting thread itself measured (tests/targets/waiting.py).

The sum of a thread's waiting is counted by the kernel and is exact but for the ends. Where it belongs is seen by looking, so a single wait
may be off by a look at either end: 10 ms, more on a machine where the collector itself has to wait for a CPU. The profile says how much more.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import FRAME_ERROR, TARGETS, Capture, Python, find_pythons, record
from native import NO_TABLES

pytestmark = [pytest.mark.alone, pytest.mark.statistical]
LONG = bool(os.environ.get("FATHOM_TEST_LONG"))
SECONDS = 0.5 if LONG else 0.25


def line_of(name: str) -> int:
    lines = (TARGETS / "waiting.py").read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith("# line: " + name))


def waiting_at(capture: Capture, name: str, of: str = "wait_s") -> float:
    rows = [r for r in capture.report["lines"] if Path(r["file"]).name == "waiting.py" and r["line"] == line_of(name)]
    return sum(float(r[of]) for r in rows)


def truth_of(capture: Capture) -> Dict[str, float]:
    truth: Dict[str, float] = json.loads(capture.run.stdout.splitlines()[-1])
    return truth


def thread_waits(capture: Capture, tid: int) -> float:
    return sum(s.weight_ns for s in capture.waits if capture.thread_tids[s.thread] == tid) * 1e-9


@pytest.mark.pythons(8, 11, 15)
def test_every_wait_is_in_its_place(python: Python, profile: Any) -> None:
    capture = profile("waiting.py", ["everything", SECONDS], python=python)
    truth = truth_of(capture)
    whole = truth.pop("all")
    wrong = []
    for name, true_s in truth.items():
        got_s = waiting_at(capture, name)
        if abs(got_s - true_s) > capture.wait_ends_s() + 0.03 * true_s:
            wrong.append(f"{name}: waited {true_s:.3f} s, reported {got_s:.3f} s")
    assert not wrong
    main = next(t["tid"] for t in capture.report["threads"] if t["tid"] == t["pid"])
    assert thread_waits(capture, main) == pytest.approx(whole, abs=capture.wait_ends_s(), rel=0.02)
    assert capture.report["time"]["gil_wait_s"] < capture.wait_ends_s()
    assert (
        capture.report["failed_unwinds"] <= 3
    )  # the first of a thread, whose 0.2 ms are soon used up: nothing of it is in a cache


@pytest.mark.pythons(13)
def test_waiting_is_in_no_sum_of_cpu_time(python: Python, profile: Any) -> None:
    capture = profile("waiting.py", ["alone", SECONDS], python=python)
    report = capture.report
    assert report["time"]["wait_s"] > SECONDS - capture.wait_ends_s()
    assert report["cpu_s"] < SECONDS
    of_cpu = sum(report["time"][k] for k in ("python_s", "native_s", "system_s", "gc_s"))
    assert of_cpu == pytest.approx(sum(s.weight_ns for s in capture.samples) * 1e-9)
    row = next(f for f in report["functions"] if f["name"] == "sleep_short")
    assert row["self_s"] <= row["total_s"] < 0.05 and row["wait_s"] > SECONDS - capture.wait_ends_s()

    def shown_s(*options: str) -> float:
        stacks = capture.collapsed("--unit", "us", *options)
        return sum(us for frames, us in stacks if any("sleep_short" in f for f in frames)) * 1e-6

    assert shown_s() < 0.05 and shown_s("--idle") > SECONDS - capture.wait_ends_s()


@pytest.mark.pythons(8, 12, 15)
def test_waiting_for_the_gil_is_told_apart(python: Python, profile: Any) -> None:
    if python.kind == "freethreaded":
        pytest.skip("no GIL")
    capture = profile("waiting.py", ["contend", 4 * SECONDS], python=python)
    truth = truth_of(capture)
    gil_s, true_s = capture.report["time"]["gil_wait_s"], truth["gil0"] + truth["gil1"]
    # Of two threads one waits at any time, for the GIL or (on a busy machine) for a CPU; what they wait for besides is next to nothing.
    assert gil_s == pytest.approx(true_s, abs=capture.wait_ends_s(2), rel=0.05)
    assert 0.15 * 4 * SECONDS < true_s < 1.1 * 4 * SECONDS
    in_functions = sum(f["gil_wait_s"] for f in capture.report["functions"] if f["name"] in ("spin", "until_end"))
    assert in_functions > 0.7 * gil_s
    assert waiting_at(capture, "join") == pytest.approx(4 * SECONDS, abs=capture.wait_ends_s(2))


@pytest.mark.pythons(10)
def test_children_and_their_threads(python: Python, profile: Any) -> None:
    capture = profile("waiting.py", ["fork", SECONDS], python=python)
    # In the fork's child and in the new Python, both by the same line; in a thread of the child.
    assert waiting_at(capture, "sleep_short") == pytest.approx(2 * SECONDS, abs=capture.wait_ends_s(2))
    assert waiting_at(capture, "sleep_long") == pytest.approx(2 * SECONDS, abs=capture.wait_ends_s())
    assert waiting_at(capture, "waitpid") == pytest.approx(2 * SECONDS, abs=capture.wait_ends_s(2))
    assert len(capture.report["processes"]) >= 3


@pytest.mark.pythons(12)
def test_samples_of_a_thread_are_in_order_of_time(python: Python, profile: Any) -> None:
    capture = profile("waiting.py", ["everything", 0.1], python=python)
    last: Dict[int, int] = {}
    for s in capture.all_samples:
        assert s.time_ns >= last.get(s.thread, 0)
        last[s.thread] = s.time_ns


@pytest.mark.pythons(13)
def test_idle_threads_are_known_and_cost_little(python: Python, profile: Any) -> None:
    capture = profile("waiting.py", ["idle_threads", 160], python=python)
    threads = capture.report["threads"]
    assert len(threads) == 161
    waits: List[float] = [thread_waits(capture, t["tid"]) for t in threads]
    assert min(waits) > 2.5
    assert all(t["name"] for t in threads)
    meta = dict(line.split("|")[1:3] for line in capture.raw["meta"])
    # 30 ms once, and 0.1 for the first stack of each.
    assert int(meta["waiting_cpu_ns"]) * 1e-9 < 0.02 * capture.report["wall_s"] + 0.03 + 0.0001 * len(threads)


@pytest.mark.pythons(8)
def test_many_threads_that_sleep_and_wake(python: Python, profile: Any) -> None:
    """Their waiting is counted whole, though not every sleep is seen."""
    capture = profile("waiting.py", ["restless_threads", 500], python=python)
    threads = [t for t in capture.report["threads"] if t["tid"] != t["pid"]]
    assert len(threads) > 450  # on a busy machine some end before anybody has seen them
    waited = sum(t["wait_s"] + t["gil_wait_s"] for t in threads)
    # Of so many each is polled every half second or so, within the 2 % of a CPU that this may take (waiting_gap_ns says so). What it waited since
    # it was last asked is taken to be as before; that it came and went is known to half of the 200 ms between two listings.
    truth = truth_of(capture)
    assert waited == pytest.approx(truth["restless"], rel=0.12)
    whole = sum(t["wall_s"] for t in threads)
    assert waited < 1.05 * whole
    # What nobody saw is not called time without a CPU: that is the kernel's to say.
    assert sum(t["no_cpu_s"] for t in threads) <= truth["ready"] + 0.001 * len(threads)
    for t in threads:
        seen = t["cpu_s"] + t["wait_s"] + t["gil_wait_s"] + t["no_cpu_s"] + t["unseen_s"]
        assert seen >= t["wall_s"] - 1e-6


@pytest.mark.pythons(9, 14)
def test_stacks_are_whole(python: Python, profile: Any) -> None:
    capture = profile("waiting.py", ["everything", 0.1], python=python)
    broken = 0
    for s in capture.waits:
        stack = s.stack
        while stack:
            parent, frame = capture.stacks[stack]
            broken += capture.frames[frame].kind == FRAME_ERROR
            stack = parent
    assert broken == 0


WAYS_TO_COMPILE: Dict[str, List[str]] = {
    "tables": ["-O2"],
    "framepointer": ["-O2", "-fno-omit-frame-pointer"],
    "framepointer_only": ["-O2", "-fno-omit-frame-pointer", *NO_TABLES],
}
if LONG:
    WAYS_TO_COMPILE["noplt"] = ["-O2", "-fno-omit-frame-pointer", "-fno-plt"]
    WAYS_TO_COMPILE["framepointer_only_O0"] = ["-O0", *NO_TABLES]


@pytest.mark.parametrize("flags", list(WAYS_TO_COMPILE.values()), ids=list(WAYS_TO_COMPILE))
def test_native_frames_of_a_thread_that_sleeps(flags: List[str], tmp_path: Path) -> None:
    """Its frame pointer is not known from outside: stacks are whole all the same."""
    library = tmp_path / "waiting_native.so"
    subprocess.run(["cc", *flags, "-shared", "-fPIC", "-o", library, TARGETS / "waiting_native.c"], check=True)
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes\n"
        f"lib = ctypes.CDLL({str(library)!r})\n"
        "def calling(): lib.wn_outer(200)\n"
        "def raising(): lib.wn_raise(1)\n"
        "calling()\n"
        "raising()\n"
    )
    capture = record(tmp_path / "p.fathom", program, python=find_pythons()[0])
    waits = capture.collapsed("--idle", "--unit", "us", "--nolineno")
    for chain in (["calling", "wn_outer", "wn_middle", "wn_inner"], ["raising", "wn_raise", "wn_handler"]):
        found_s = 0.0
        for frames, us in waits:
            names = [f.split(" ")[0] for f in frames]
            if [n for n in names if n in ("calling", "raising") or n.startswith("wn_")] == chain:
                found_s += us * 1e-6
        assert found_s == pytest.approx(0.2, abs=capture.wait_ends_s()), waits
    assert (
        capture.report["failed_unwinds"] <= 3
    )  # the first of a thread, whose 0.2 ms are soon used up: nothing of it is in a cache


@pytest.mark.pythons(12, 13)
def test_sleep_below_pythons_own_run_time_code(python: Python, fathom: Path, tmp_path: Path) -> None:
    """Trampolines have no unwind information; what is left of them to be executed tells how to get out."""
    if python.minor < 12:
        pytest.skip("no trampolines")
    program = tmp_path / "program.py"
    program.write_text("import time\ndef f(n):\n    return f(n - 1) if n else time.sleep(0.2)\nlist(map(f, [20]))\n")
    out = tmp_path / "p.fathom"
    command = [fathom, "record", "-o", out, "--", python.path, "-X", "perf", program]
    capture = Capture(out, subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True))
    for path in Path("/tmp").glob("perf-%d.map" % capture.report["processes"][0]["pid"]):
        path.unlink()
    deepest = max(capture.collapsed("--idle", "--unit", "us"), key=lambda stack: stack[1])
    assert sum(frame.startswith("f (") for frame in deepest[0]) == 21
    assert (
        capture.report["failed_unwinds"] <= 3
    )  # the first of a thread, whose 0.2 ms are soon used up: nothing of it is in a cache
