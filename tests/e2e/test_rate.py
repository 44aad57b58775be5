# SPDX-License-Identifier: Apache-2.0
"""The rate asked for is the rate got: samples per second of the thread's own CPU time, native frames included, none dropped."""

import subprocess
from pathlib import Path
from typing import Any, List

import pytest
from capture import Capture, Python
from guest import LONG, engines, pick_python, report, run, under

# The ticker lives in the collector and must get a CPU of its own, which other programs may hold: the best of five stretches counts.
pytestmark = [pytest.mark.alone, pytest.mark.statistical]
N_STRETCHES = 5


def samples_per_cpu_s(capture: Capture) -> List[float]:
    """Of each stretch of one run."""
    report = capture.report
    assert report["dropped"] == 0
    assert len(report["threads"]) == 1
    # The first sample's weight reaches back to the start; counted from there on to the last one.
    weights = [sample.weight_ns * 1e-9 for sample in capture.samples[1:]]
    size = len(weights) // N_STRETCHES
    stretches = [weights[i * size : (i + 1) * size] for i in range(N_STRETCHES)]
    return [len(stretch) / sum(stretch) for stretch in stretches if stretch]


@pytest.mark.pythons(8, 15)
@pytest.mark.parametrize("engine", ["ticker", "perf"])
@pytest.mark.parametrize("rate_hz, at_least", [(1000, 970), (10000, 9000)])
def test_rate(profile: Any, python: Python, engine: str, rate_hz: int, at_least: int, record_property: Any) -> None:
    if python.minor == 8 and rate_hz < 10000 and not LONG:
        pytest.skip("who keeps up with 10 kHz keeps up with this")
    options = ["--rate", str(rate_hz), "--engine", engine, "--max-overhead", "0"]
    capture = profile("rate_busy.py", ["2"], options, python)
    if capture.report["engine"] != engine:
        pytest.skip("perf_event_open is refused here")
    assert capture.report["failed_unwinds"] == 0
    got = samples_per_cpu_s(capture)
    print(
        f"rate {python} {engine} {rate_hz}: {max(got):.0f} samples per CPU second in the best of {len(got)} stretches"
    )
    record_property("samples_per_cpu_s", round(max(got)))
    assert max(got) >= at_least, got


def test_engine_is_named(fathom: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.fathom"
    subprocess.run([fathom, "record", "--engine", "ticker", "-o", out, "--", "true"], check=True)
    text = subprocess.run([fathom, "report", out], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert "ticker" in text


INHERITED = """if True:
    import os, threading, time
    def burn(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end: sum(range(20000))
    end = time.monotonic() + 0.4
    while time.monotonic() < end: os.getppid(), os.stat("/")  # ticks in the kernel are lost, and made up for
    threads = []
    for i in range(5):
        threads.append(threading.Thread(target=burn, args=(0.3,)))
        threads[-1].start()
        os.stat("/")
    for t in threads: t.join()
"""


@pytest.mark.skipif("perf" not in engines(), reason="perf events are refused here")
def test_threads_inherit_no_short_period(tmp_path: Path) -> None:
    """A thread keeps the period that its event had when it was made; the first thread's is another one each time."""
    profile = tmp_path / "p.fathom"
    python = pick_python()
    assert python
    done = run([*under(profile, "--engine", "perf"), python.path, "-c", INHERITED])
    assert done.returncode == 0, done.stderr
    busy = [t for t in report(profile)["threads"] if t["cpu_s"] > 0.2]
    rates = [t["samples"] / t["cpu_s"] for t in busy]
    assert len(rates) >= 5 and max(rates) < 2200, rates
