# SPDX-License-Identifier: Apache-2.0
"""Whoever is left alone stops: the collector is killed, stopped, or cannot write any more, and the program goes on as if nobody had ever watched it.

Judged by counters in the memory that agent and collector share (look_at_wire), never by the clock: a busy machine has no say in it."""

import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import pytest
from capture import BUILD
from guest import FATHOM, LONG, clean_env, cpu_s, default_signals, engines, pick_python, report

PYTHON = pick_python(11) or pick_python()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Python to run")

# Works until a file is there. Calls for traces, blocks for memory, two threads for what events inherit.
PROGRAM = """
import os, sys, threading
def add(n): return n + 1
def work(stop):
    n = 0
    while not os.path.exists(stop):
        for _ in range(20):
            for i in range(100): n = add(n)
            kept = [str(i) for i in range(200)] + [bytes(1000)]
        assert n % 2000 == 0 and kept[7] == "7"
    results.append(n)
results = []
thread = threading.Thread(target=work, args=(sys.argv[2],))
thread.start()
with open(sys.argv[1] + ".new", "w") as file: file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
work(sys.argv[2])
thread.join()
print("done", len(results), sum(results) > 0) # a thread may never be given the GIL, bare as well
sys.exit(7)
"""
OUTPUT = "done 2 True\nstatus 7\n"

MODES = {"time": [], "memory": ["--memory"], "exact": ["--memory=exact"], "log": ["--memory-log"], "trace": ["--trace"]}
ENGINES = engines() if PYTHON else ["ticker"]
ALL = [(engine, mode) for engine in ENGINES for mode in MODES]
FEW = [(ENGINES[-1], "time"), ("ticker", "time"), (ENGINES[-1], "memory"), ("ticker", "exact"), ("ticker", "trace")]
# What an agent writes, in any mode.
ACTIVITY = ("n_ticks", "n_samples", "n_allocs", "n_exact", "n_traced")


def cases(wanted: List[Tuple[str, str]]) -> Any:
    wanted = ALL if LONG else list(dict.fromkeys(wanted))
    return pytest.mark.parametrize("engine,mode", wanted, ids=["-".join(case) for case in wanted])


class Capture:
    """A program under Fathom, which tells its own status: a collector that is gone passes nothing on."""

    def __init__(self, folder: Path, options: List[str], before: Callable[[], None] = lambda: None) -> None:
        assert PYTHON
        self.folder = folder
        self.profile = folder / "p.fathom"
        self.stop = folder / "stop"
        (folder / "alone.py").write_text(PROGRAM)
        shell = '"$@"; echo status $?'
        program = [PYTHON.path, str(folder / "alone.py"), str(folder / "pid"), str(self.stop)]

        def prepare() -> None:
            default_signals()
            before()

        self.out = folder / "out"
        self.errors = folder / "errors"  # no pipe: the program has it open for as long as it runs
        with self.out.open("w") as out, self.errors.open("w") as errors:
            self.fathom = subprocess.Popen(
                [str(FATHOM), "record", "-o", str(self.profile), *options, "--", "sh", "-c", shell, "sh", *program],
                stdout=out,
                stderr=errors,
                env=clean_env(),
                preexec_fn=prepare,
            )
        self.wait(lambda: (folder / "pid").exists())
        self.pid = int((folder / "pid").read_text())

    @staticmethod
    def wait(is_it: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not is_it():
            assert time.monotonic() < end
            time.sleep(0.002)

    def look(self) -> Dict[str, int]:
        done = subprocess.run([BUILD / "tests" / "look_at_wire", str(self.pid)], stdout=subprocess.PIPE, check=True)
        result: Dict[str, int] = json.loads(done.stdout)
        return result

    def cpu_s(self) -> float:
        return cpu_s(self.pid)

    def work(self, cpu_s: float) -> None:
        end = self.cpu_s() + cpu_s
        self.wait(lambda: self.cpu_s() >= end)

    def is_alive(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def finish(self) -> str:
        """The program ends; what it and its shell wrote."""
        self.stop.touch()
        self.wait(lambda: not self.is_alive())
        self.wait(lambda: "status" in self.out.read_text())
        return self.out.read_text()

    def close(self) -> None:
        self.stop.touch()
        for number in (signal.SIGCONT, signal.SIGKILL):
            self.fathom.send_signal(number)
        self.fathom.wait()
        self.wait(lambda: not self.is_alive())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Capture]]:
    started: List[Capture] = []

    def begin(engine: str, mode: str, **more: Any) -> Capture:
        started.append(Capture(tmp_path, ["--engine", engine, *MODES[mode]], **more))
        return started[-1]

    yield begin
    for capture in started:
        capture.close()


def check_is_quiet(capture: Capture, was_open: bool) -> Dict[str, int]:
    """By now nothing is written, and nothing is from here on."""
    first = capture.look()
    capture.work(0.2)
    last = capture.look()
    assert {k: first[k] for k in ACTIVITY} == {k: last[k] for k in ACTIVITY}
    assert last["perf_events"] == (1 if was_open else 0)
    return last


@cases(ALL)
def test_collector_killed(engine: str, mode: str, start: Callable[..., Capture]) -> None:
    capture = start(engine, mode)
    capture.work(0.3)
    assert capture.look()["perf_events"] == (engine == "perf")
    capture.fathom.kill()
    capture.fathom.wait()
    if engine == "perf" or mode != "time":  # else nothing is there that could notice, and nothing has to
        begin_s, unaware_s = capture.cpu_s(), 0.0
        while True:
            now_s = capture.cpu_s()  # before the look: what that takes does not count
            if capture.look()["n_quiet"]:
                break
            unaware_s = now_s - begin_s
            assert unaware_s < 5
        # Two threads, of which one runs at a time: 80 ms of its own for each, and some until the next look.
        assert unaware_s < 0.2
    capture.work(0.1)  # what was under way
    after = check_is_quiet(capture, was_open=False)
    if after["n_quiet"]:
        assert not after["n_waiting"]  # it is known that nobody will come back
        assert after["ring_kib"] <= 200, after
    assert capture.finish() == OUTPUT


@cases(FEW)
def test_collector_stopped_for_ever(engine: str, mode: str, start: Callable[..., Capture]) -> None:
    capture = start(engine, mode)
    capture.work(0.3)
    capture.fathom.send_signal(signal.SIGSTOP)
    capture.work(0.4)
    if mode == "trace":  # events that are lost are counted for five seconds: a trace can go on where it was
        capture.wait(lambda: bool(capture.look()["n_quiet"]))
        time.sleep(5.5)
    check_is_quiet(capture, was_open=engine == "perf")
    assert capture.finish() == OUTPUT


@cases(FEW)
def test_collector_stopped_for_a_while(engine: str, mode: str, start: Callable[..., Capture]) -> None:
    capture = start(engine, mode)
    capture.work(0.3)
    capture.fathom.send_signal(signal.SIGSTOP)
    stopped_s = time.monotonic()
    capture.work(0.4)
    during = capture.look()
    time.sleep(max(0.0, stopped_s + (3 if LONG else 1.5) - time.monotonic()))
    stopped_s = time.monotonic() - stopped_s
    capture.fathom.send_signal(signal.SIGCONT)
    capture.wait(lambda: capture.look()["n_samples"] > during["n_samples"] + 20)
    capture.work(0.1)
    after = capture.look()
    if mode in ("memory", "exact", "trace"):
        key = {"memory": "n_allocs", "exact": "n_exact", "trace": "n_traced"}[mode]
        assert after[key] > during[key]
    assert capture.finish() == OUTPUT
    assert capture.fathom.wait() == 0  # of the shell
    gaps = [c for c in report(capture.profile)["coverage"] if "Fathom itself did not run" in c["why"]]
    assert gaps
    told_s = float(gaps[0]["why"].split(" for ")[1].split()[0])
    assert stopped_s - 0.2 < told_s < report(capture.profile)["wall_s"]
    # No sample stands for what nobody saw.
    dumped = subprocess.run(
        [BUILD / "tests" / "dump_profile", capture.profile], stdout=subprocess.PIPE, text=True
    ).stdout
    samples = [s for s in dumped.splitlines() if s.startswith("sample") and int(s.split("class=")[1]) < 4]  # on a CPU
    weights = [int(s.split("weight=")[1].split()[0]) for s in samples]
    assert len(weights) > 100 and max(weights) < 300e6


# Few calls, so that the ring has room for all of them and the trace itself is who finds that nobody is there.
SLOW_CALLS = """
import os, sys, time
def slow():
    end = time.thread_time() + 20e-6
    while time.thread_time() < end: pass
def late(): pass
open(sys.argv[1] + "/begun", "w").close()
while not os.path.exists(sys.argv[1] + "/stop"):
    for _ in range(100): slow()
for _ in range(100): late()
"""


def test_a_trace_goes_on_after_its_collector_was_stopped(tmp_path: Path) -> None:
    assert PYTHON
    (tmp_path / "slow.py").write_text(SLOW_CALLS)
    profile = tmp_path / "p.fathom"
    program = [PYTHON.path, str(tmp_path / "slow.py"), str(tmp_path)]
    fathom = subprocess.Popen(
        [str(FATHOM), "record", "-o", str(profile), "--trace", "--", *program],
        env=clean_env(),
        preexec_fn=default_signals,
    )
    Capture.wait((tmp_path / "begun").exists)
    (pid,) = Path(f"/proc/{fathom.pid}/task/{fathom.pid}/children").read_text().split()
    fathom.send_signal(signal.SIGSTOP)
    end = cpu_s(int(pid)) + 1
    Capture.wait(lambda: cpu_s(int(pid)) >= end)
    fathom.send_signal(signal.SIGCONT)
    (tmp_path / "stop").touch()
    assert fathom.wait() == 0
    functions = {row["name"]: row["calls"] for row in report(profile)["calls"]["functions"]}
    assert functions["late"] == 100 and functions["slow"] > 1000


@cases([(ENGINES[-1], "trace"), ("ticker", "log"), ("ticker", "exact")])
def test_disk_full(engine: str, mode: str, start: Callable[..., Capture]) -> None:
    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (25_000, resource.RLIM_INFINITY))

    capture = start(engine, mode, before=limit_files)
    capture.wait(lambda: bool(capture.look()["is_over"]))
    capture.work(0.2)
    check_is_quiet(capture, was_open=False)
    assert capture.finish() == OUTPUT
    assert capture.fathom.wait() == 0
    errors = capture.errors.read_text()
    assert errors.count("fathom: cannot write more to") == 1 and "the program continues" in errors
    report(capture.profile)  # what was written before can be read


def test_collector_out_of_memory(start: Callable[..., Capture]) -> None:
    capture = start("ticker", "trace")
    capture.work(0.2)
    status = Path(f"/proc/{capture.fathom.pid}/statm").read_text()
    used = int(status.split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.prlimit(capture.fathom.pid, resource.RLIMIT_AS, (used, used))
    capture.work(0.5)
    if capture.fathom.poll() is None:  # it got along with what it had
        assert capture.finish() == OUTPUT
        return
    assert "out of memory" in capture.errors.read_text()
    capture.work(0.4)
    check_is_quiet(capture, was_open=False)
    assert capture.finish() == OUTPUT
