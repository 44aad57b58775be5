# SPDX-License-Identifier: Apache-2.0
"""record -p PID --memory and --inject: the agent goes into a program that runs, gives what a launched one gives, and goes out again."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator, List

import pytest
from capture import TARGETS, Capture, Python, standard_error_s

ALL_FROM_314 = [14, 15]


@pytest.fixture
def program() -> Iterator[Any]:
    started: List["subprocess.Popen[str]"] = []

    def start(python: Python, seconds: float, target: str = "injected.py") -> "subprocess.Popen[str]":
        command = [python.path, str(TARGETS / target), str(seconds)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        stdout = started[-1].stdout
        assert stdout and stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def what_it_shows(pid: int) -> List[str]:
    """Signals and descriptors: what a program could notice."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    signals = [line for line in status if line.startswith(("SigIgn", "SigCgt"))]
    return signals + sorted(os.listdir(f"/proc/{pid}/fd"))


def inject(fathom: Path, pid: int, out: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [str(fathom), "record", "-p", str(pid), "-o", str(out), *options]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


@pytest.mark.pythons(*ALL_FROM_314)
@pytest.mark.statistical
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_memory_and_time_of_a_running_program(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    process = program(python, 3)
    before = what_it_shows(process.pid)
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--memory", "--duration", "1.5")
    assert run.returncode == 0, run.stderr
    assert f"the agent is in process {process.pid}" in run.stderr
    assert what_it_shows(process.pid) == before
    capture = Capture(tmp_path / "p.fathom", run)
    one, two = capture.seconds("one"), capture.seconds("two")
    whole = one + two
    assert len(capture.samples) > 0.5 * 1000 * capture.report["cpu_s"], "a thousand a second of CPU time, not a hundred"
    assert one == pytest.approx(whole / 3, abs=4 * standard_error_s(whole / 3, capture.samples))
    lines = (TARGETS / "injected.py").read_text().splitlines()
    keep = next(n for n, line in enumerate(lines, 1) if line.endswith("# line: keep"))
    peaks = [
        r["peak_bytes"] for r in capture.report["lines"] if Path(r["file"]).name == "injected.py" and r["line"] == keep
    ]
    assert peaks and 0 < peaks[0] < 30e6
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "kept 20 signals 0\n", "")


@pytest.mark.pythons(*ALL_FROM_314)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_calls_of_a_running_program(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    process = program(python, 3)
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--trace", "--duration", "1")
    assert run.returncode == 0, run.stderr
    command = [str(fathom), "report", "--json", str(tmp_path / "p.fathom")]
    rows = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["calls"]["functions"]
    calls = {row["name"]: row["calls"] for row in rows}
    # They are called by turns; the first and the last may have begun before or ended after.
    assert calls["one"] >= 1 and abs(calls["one"] - calls["two"]) <= 2
    assert abs(calls["spin"] - calls["one"] - calls["two"]) <= 2
    assert set(calls) <= {"one", "two", "spin", "keep", "work", "<module>"}
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "kept 20 signals 0\n", "")


@pytest.mark.pythons(*ALL_FROM_314)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_in_and_out_again_and_again(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    process = program(python, 4)
    before = what_it_shows(process.pid)
    until, n = time.monotonic() + 3, 0
    while time.monotonic() < until:
        how = ["--memory=exact", "--inject", "--memory", "--trace"][n % 4]
        run = inject(fathom, process.pid, tmp_path / "p.fathom", how, "--duration", "0.05")
        assert run.returncode == 0, run.stderr
        process.send_signal(signal.SIGUSR1)
        n += 1
    assert what_it_shows(process.pid) == before
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("kept 20 signals ") and 1 <= int(out.split()[-1]) <= n


@pytest.mark.pythons(14)
def test_a_program_that_only_sleeps_is_left_alone(python: Python, fathom: Path, tmp_path: Path) -> None:
    """No Python code, no safe moment: Ctrl-C ends the wait, and nothing of ours is left behind."""
    process = subprocess.Popen(
        [python.path, "-c", "import time; time.sleep(4); print('woke')"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(0.7)
    before = what_it_shows(process.pid)
    folder = tmp_path / "tmp"
    folder.mkdir()
    recorder = subprocess.Popen(
        [str(fathom), "record", "-p", str(process.pid), "--inject", "-o", str(tmp_path / "p.fathom")],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert recorder.stderr and "waiting for process" in recorder.stderr.readline()
    recorder.send_signal(signal.SIGINT)
    _, err = recorder.communicate(timeout=30)
    assert recorder.returncode == 1 and "ran no Python code" in err
    assert what_it_shows(process.pid) == before
    assert not list(folder.iterdir()) and not (tmp_path / "p.fathom").exists()
    assert process.communicate(timeout=60) == (b"woke\n", b"") and process.returncode == 0


@pytest.mark.pythons(8, 13)
def test_older_pythons_are_refused_in_one_line(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    process = program(python, 2)
    for option in ("--memory", "--memory=exact", "--memory-log", "--trace", "--inject"):
        run = inject(fathom, process.pid, tmp_path / "p.fathom", option, "--duration", "1")
        assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1) and not list(tmp_path.iterdir())
        assert f"from Python 3.14 on, and process {process.pid} runs 3.{python.minor}" in run.stderr


@pytest.mark.pythons(14)
def test_a_program_that_forbids_it(python: Python, fathom: Path, tmp_path: Path) -> None:
    process = subprocess.Popen([python.path, "-X", "disable-remote-debug", "-c", "import time; time.sleep(60)"])
    time.sleep(0.5)
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--inject", "--duration", "1")
    process.kill()
    process.wait()
    assert run.returncode == 1 and "does not let others run code in it" in run.stderr


def test_what_does_not_go_together(fathom: Path, tmp_path: Path) -> None:
    for options, text in [
        (["--inject", "--", "true"], "--inject is for --pid"),
        (["-p", "1", "--memory", "--max-size", "2M"], "--max-size and --nonblocking are for a program"),
        (["-p", "1", "--inject", "--nonblocking"], "--max-size and --nonblocking are for a program"),
    ]:
        run = subprocess.run([str(fathom), "record", *options], stderr=subprocess.PIPE, text=True)
        assert run.returncode == 2 and text in run.stderr
    run = inject(fathom, 999999999, tmp_path / "p.fathom", "--inject")
    assert run.returncode == 1 and "there is no process" in run.stderr
