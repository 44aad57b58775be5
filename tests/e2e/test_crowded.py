# SPDX-License-Identifier: Apache-2.0
"""Programs with known answers where more threads want to run than there are CPUs (docs/sampling-math.md, "A crowded machine").

The worst case is one CPU for the program, the collector with its ticker, and somebody else: each tick takes the CPU from whom it asks about. The truth is
the program's own CPU clock, as in test_truth.py. Who else uses the machine meanwhile only makes it more crowded.
"""

import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Iterator

import pytest
from capture import Python, find_pythons
from test_truth import PERIOD_S, SECONDS, Comparison, line_row, run

pytestmark = pytest.mark.statistical

TICKER = ("--engine", "ticker")
# A tick takes caches along with the CPU. Filling them again is time of the code that was interrupted, but comes after the tick, and is shown where the next one falls.
COLD_S = 40e-6


@contextmanager
def crowd(where: str) -> Iterator[None]:
    """together: everything shares one CPU with one other process; apart: one process more than there are CPUs."""
    all_cpus = os.sched_getaffinity(0)
    busy = []
    try:
        if where == "together":
            os.sched_setaffinity(0, {sorted(all_cpus)[os.getpid() % len(all_cpus)]})
        for _ in range(1 if where == "together" else len(all_cpus) + 1):
            busy.append(subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"]))
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
        os.sched_setaffinity(0, all_cpus)


def newest() -> Python:
    return find_pythons()[-1]  # it is the ticker that is judged


@pytest.mark.parametrize("where", ["together", "apart"])
def test_calls(profile: Any, where: str, tmp_path: Path, record_property: Any) -> None:
    """Calls as long as a period against Python, in slices between which the program reads its CPU clock: there the scheduler likes to take the CPU away."""
    with crowd(where):
        capture, truth = run(
            profile, newest(), tmp_path, "truth_system.py", "4096", options=TICKER, seconds=2 * SECONDS
        )
    c = Comparison(f"crowded, {where}", capture.samples)
    c.add("the calling line", truth["system"], line_row(capture, "truth_system.py", "system")["total_s"])
    c.add("the Python line", truth["python"], line_row(capture, "truth_system.py", "python")["total_s"])
    c.judge(record_property, PERIOD_S + COLD_S * len(capture.samples))
    if where == "together":
        assert any("every CPU was busy" in gap["why"] for gap in capture.report["coverage"])


def test_why_the_rate_fell(profile: Any, tmp_path: Path) -> None:
    """One thread, and three calls deep: it is neither deep stacks nor new threads."""
    with crowd("together"):
        capture, _ = run(
            profile,
            newest(),
            tmp_path,
            "truth_naps.py",
            options=(*TICKER, "--rate", "10000", "--max-overhead", "10"),
            seconds=1,
        )
    why = [gap["why"] for gap in capture.report["coverage"] if "the rate went down to" in gap["what"]]
    assert why and "every CPU was busy" in why[0], capture.report["coverage"]


def test_naps(profile: Any, tmp_path: Path, record_property: Any) -> None:
    """A thread that is ready to run uses no CPU time, and gets no sample."""
    with crowd("together"):
        capture, truth = run(profile, newest(), tmp_path, "truth_naps.py", options=TICKER, seconds=SECONDS / 2)
    c = Comparison("crowded naps", capture.samples)
    for name in ("work", "nap"):
        c.add(name, truth[name], line_row(capture, "truth_naps.py", name)["total_s"])
    c.judge(record_property, PERIOD_S + COLD_S * len(capture.samples))


@pytest.mark.parametrize("where", ["alone", "together"])
def test_long_calls(profile: Any, where: str, tmp_path: Path, record_property: Any) -> None:
    """Calls of several periods: one signal, but all the ticks that came due before it was let through."""
    args = ("16384", "3", "10")
    with nullcontext() if where == "alone" else crowd(where):
        capture, truth = run(profile, newest(), tmp_path, "truth_system.py", *args, options=TICKER, seconds=2 * SECONDS)
    c = Comparison(f"long calls, {where}", capture.samples)
    c.add("the calling line", truth["system"], line_row(capture, "truth_system.py", "system")["total_s"])
    c.add("the Python line", truth["python"], line_row(capture, "truth_system.py", "python")["total_s"])
    c.judge(record_property, PERIOD_S + COLD_S * len(capture.samples))


STARVED = """
import os, signal, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
def after(): burn(0.4)
burn(0.1)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG})
burn(0.0015)  # takes tenths of a second, as somebody else has the CPU
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGURG})
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
after()
"""


def test_starved_with_signals_blocked(profile: Any, tmp_path: Path) -> None:
    """So begins every thread, as libc has all signals blocked there. Two looks that find one so were taken for a proof that it always does, and it got no sample for a second: all its life, mostly."""
    program = tmp_path / "starved.py"
    program.write_text(STARVED)
    with crowd("together"):
        capture = profile(str(program), [], [*TICKER, "--max-overhead", "0"], newest())
    rows = {f["name"]: f for f in capture.report["functions"]}
    assert rows["after"]["total_s"] == pytest.approx(0.4, abs=0.03), rows
    assert sum(line["samples"] for line in capture.report["lines"] if line["function"] == "burn") > 200
    assert not any("block" in gap["why"] for gap in capture.report["coverage"]), capture.report["coverage"]
