# SPDX-License-Identifier: Apache-2.0
"""fathom dump -p and fathom record -p: a process that runs is observed from outside and does not notice."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
from capture import TARGETS, Capture, Python


class Attached:
    def __init__(self, python: str, seconds: float) -> None:
        command = [python, str(TARGETS / "attached.py"), str(seconds)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout and self.process.stdout.readline() == "ready\n"

    def end(self) -> None:
        out, _ = self.process.communicate(timeout=60)
        assert (self.process.returncode, out) == (0, "early 0\n")


@pytest.fixture
def attached() -> Iterator[Any]:
    started: List[Attached] = []

    def start(python: str, seconds: float) -> Attached:
        started.append(Attached(python, seconds))
        return started[-1]

    yield start
    for a in started:
        a.process.kill()
        a.process.wait()


def names(thread: Dict[str, Any]) -> List[str]:
    return [f["name"].split(".")[-1] for f in thread["frames"]]


@pytest.mark.pythons(8, 14)
@pytest.mark.statistical
def test_dump_shows_where_every_thread_is(python: Python, fathom: Path, attached: Any) -> None:
    target = attached(python.path, 2)
    seen, until = set(), time.monotonic() + 1
    for _ in range(10):
        if time.monotonic() > until:  # a busy machine: the last look must not meet its end
            break
        command = [fathom, "dump", "-p", str(target.process.pid), "--json"]
        dump = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        assert dump["schema"] == "fathom.dump/1" and dump["pid"] == target.process.pid
        assert dump["python"].startswith("3.%d" % python.minor)
        assert len(dump["threads"]) == 3
        for thread in dump["threads"]:
            assert not any(f["kind"] == "error" for f in thread["frames"]), thread
            called = names(thread)
            if "sleeper" in called and thread["state"] == "waiting":
                seen.add("sleeper")
                frame = next(f for f in thread["frames"] if f["name"].endswith("sleeper"))
                assert Path(frame["file"]).name == "attached.py"
                assert thread["frames"][0]["kind"] == "native", "the system call is the innermost frame"
            elif "work" in called:
                seen.add("work")
                assert {"one", "two", "monotonic", "work"} & set(called)
            elif "main" in called:
                seen.add("main")
                assert thread["tid"] == target.process.pid and "join" in called
    assert seen == {"sleeper", "work", "main"}
    target.end()


@pytest.mark.parametrize("command", ["dump", "record"])
def test_a_process_that_has_ended_is_one_line(fathom: Path, command: str, tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays as it is: nobody has asked how it ended
        done = subprocess.run(
            [fathom, command, "-p", str(process.pid)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stdout) == (1, b"")
    assert (
        done.stderr.decode()
        == f"fathom: process {process.pid} is a zombie: it has exited and its parent has not waited for it\n"
    )


def test_dump_for_people(fathom: Path, attached: Any) -> None:
    target = attached(sys.executable, 0.5)
    text = subprocess.run(
        [fathom, "dump", "-p", str(target.process.pid)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert text.startswith("Process %d: " % target.process.pid)
    assert "attached.py" in text and "main (" in text and "waiting" in text
    target.end()


@pytest.mark.pythons(9, 13)
@pytest.mark.statistical
def test_record_of_a_running_process(python: Python, fathom: Path, attached: Any, tmp_path: Path) -> None:
    target = attached(python.path, 2.5)
    out = tmp_path / "p.fathom"
    start = time.monotonic()
    command = [fathom, "record", "-p", str(target.process.pid), "-r", "250", "-d", "2", "-o", out]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (run.returncode, run.stdout) == (0, "")
    wall_s = time.monotonic() - start
    target.end()
    capture = Capture(out, run)
    report = capture.report
    one, two = capture.seconds("one"), capture.seconds("two")
    n = len(capture.samples)
    assert n >= 8  # on a busy machine a hold takes long, and holds have a budget
    p = two / (one + two)
    # 2/3 by construction, within three standard errors of n looks.
    assert abs(p - 2 / 3) < 3 * math.sqrt(2 / 9 / n) + 0.02, (one, two, n)
    assert report["failed_unwinds"] <= 0.01 * n
    # What a thread uses and waits for is what passed, less the time for which it had no CPU or was held.
    assert one + two < 1.05 * wall_s
    waits = {line["function"].split(".")[-1]: line["wait_s"] for line in report["lines"]}
    for name in ("sleeper", "main"):
        assert 0.6 * report["wall_s"] < waits[name] < 1.02 * report["wall_s"], waits
    assert report["overhead_s"] < 0.15 * wall_s


BURSTS = """if True:
    import sys, threading, time
    def work():
        for _ in range(40000): pass
    def live(end):
        while time.monotonic() < end:
            work()
            time.sleep(0.03)
    end = time.monotonic() + 60
    for _ in range(20): threading.Thread(target=live, args=(end,), daemon=True).start()
    print("ready", flush=True)
    time.sleep(60)
"""
SERVER = """if True:
    import socket, threading
    def answer(n):
        total = 0
        for i in range(n): total += i
        return b"%d" % total
    def serve(s):
        while s.recv(100): s.sendall(answer(20000))
    def ask(s):
        while True:
            s.sendall(b"?")
            s.recv(100)
    ours, theirs = socket.socketpair()
    threading.Thread(target=ask, args=(theirs,), daemon=True).start()
    print("ready", flush=True)
    serve(ours)
"""


def kernel_account_s(pid: int) -> List[float]:
    """User and system time, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(n) / os.sysconf("SC_CLK_TCK") for n in fields[11:13]]


@pytest.mark.pythons(13)
@pytest.mark.statistical
@pytest.mark.parametrize("program, name", [(BURSTS, "work"), (SERVER, "answer")], ids=["bursts", "server"])
def test_system_time_is_what_the_kernel_says(
    python: Python, fathom: Path, program: str, name: str, tmp_path: Path
) -> None:
    """Threads that are asked to stop are often in their next sleep by then. What they did before is not the sleep's."""
    target = subprocess.Popen([python.path, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert target.stdout and target.stdout.readline() == "ready\n"
        before = kernel_account_s(target.pid)
        out = tmp_path / "p.fathom"
        command = [fathom, "record", "-p", str(target.pid), "-r", "500", "-d", "3", "-o", out]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
        user_s, system_s = (b - a for a, b in zip(before, kernel_account_s(target.pid)))
    finally:
        target.kill()
        target.wait()
    capture = Capture(out, run)
    report = capture.report
    got = report["time"]["system_s"] / report["cpu_s"]
    true = system_s / (user_s + system_s)
    # The account is kept by a tick of 4 ms and told in 10 ms; the record may lag behind it by 18 ms.
    whole_s = user_s + system_s
    allowed = 3 * math.sqrt(max(true, 0.02) / (250 * whole_s)) + 0.03 / whole_s
    assert got <= true + allowed, (got, true, allowed, report["time"])
    # All that these programs do on purpose is in one function; the rest is switching between threads.
    assert capture.seconds(name) > 0.6 * (report["cpu_s"] - report["time"]["system_s"]), report["time"]


def test_record_ends_with_the_process(fathom: Path, attached: Any, tmp_path: Path) -> None:
    target = attached(sys.executable, 0.5)
    out = tmp_path / "p.fathom"
    # The process is ours: it stays a zombie, which is an end, too.
    subprocess.run([fathom, "record", "-p", str(target.process.pid), "-o", out], check=True, timeout=20)
    target.end()
    assert Capture(out, None).report["samples"] > 0  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["dump", "record"])
def test_what_cannot_be_attached_to(fathom: Path, command: str, tmp_path: Path) -> None:
    def say(pid: str) -> "subprocess.CompletedProcess[str]":
        options = ["-o", str(tmp_path / "x")] if command == "record" else []
        return subprocess.run([fathom, command, "-p", pid, *options], stderr=subprocess.PIPE, text=True)

    gone = say("4194303")
    assert gone.returncode == 1 and gone.stderr == "fathom: there is no process 4194303\n"
    for wrong in ("abc", "-1", "0", "12x"):
        assert say(wrong).returncode == 2
