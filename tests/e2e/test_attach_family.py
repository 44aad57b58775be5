# SPDX-License-Identifier: Apache-2.0
"""Looking from outside at more than one process: a master's workers, several that are named, every Python; and what cannot be done is said."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Tuple

import pytest
import sandbox
from capture import TARGETS, Capture, Python


class Master:
    """tests/targets/master.py, with its workers."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, str(TARGETS / "master.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.workers = self.read()

    def read(self) -> List[int]:
        assert self.process.stdout
        return [int(word) for word in self.process.stdout.readline().split()[1:]]

    def start_more(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("more\n")
        self.process.stdin.flush()
        self.workers += self.read()

    def end(self) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


@pytest.fixture
def master() -> Iterator[Any]:
    started: List[Master] = []

    def start(python: str) -> Master:
        started.append(Master(python))
        return started[-1]

    yield start
    for m in started:
        if m.process.poll() is None:
            m.end()


def busy(report: Dict[str, Any]) -> Set[str]:
    return {f["name"] for f in report["functions"] if f["kind"] == "python" and f["total_s"] > 0}


def dump(fathom: Path, *options: str) -> Dict[str, Any]:
    done = subprocess.run([str(fathom), "dump", "--json", *options], stdout=subprocess.PIPE, check=True)
    found: Dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_masters_workers_are_followed_present_and_future(
    python: Python, fathom: Path, master: Any, tmp_path: Path
) -> None:
    target = master(python.path)
    out = tmp_path / "p.fathom"
    command = [str(fathom), "record", "-p", str(target.process.pid), "-o", str(out), "-d", "3"]
    recording = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(0.5)
    target.start_more()
    said, _ = recording.communicate(timeout=60)
    assert (recording.returncode, said) == (0, "")
    target.end()
    report = Capture(out, None).report  # type: ignore[arg-type]
    assert {"first", "second", "late", "other"} <= busy(report)
    assert {p["pid"] for p in report["processes"]} == {target.process.pid, *target.workers}
    assert report["failed_unwinds"] <= 0.02 * report["samples"]


def test_children_are_left_alone_if_asked(fathom: Path, master: Any, tmp_path: Path) -> None:
    target = master(sys.executable)
    out = tmp_path / "p.fathom"
    command = [str(fathom), "record", "--no-children", "-p", str(target.process.pid), "-o", str(out), "-d", "0.3"]
    subprocess.run(command, check=True)
    assert [p["pid"] for p in Capture(out, None).report["processes"]] == [target.process.pid]  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["twice", "commas"])
def test_several_processes_are_recorded_together(fathom: Path, master: Any, tmp_path: Path, form: str) -> None:
    target = master(sys.executable)
    a, b = map(str, target.workers)
    out = tmp_path / "p.fathom"
    pids = ["-p", a, "-p", b] if form == "twice" else ["-p", a + "," + b]
    subprocess.run([str(fathom), "record", *pids, "-o", str(out), "-d", "1.5"], check=True)
    report = Capture(out, None).report  # type: ignore[arg-type]
    assert {"first", "second"} <= busy(report)
    assert sorted(p["pid"] for p in report["processes"]) == sorted(target.workers)


def test_a_capture_lasts_as_long_as_a_named_process(fathom: Path, master: Any, tmp_path: Path) -> None:
    target = master(sys.executable)
    command = [str(fathom), "record", "-p", str(target.process.pid), "-o", str(tmp_path / "p.fathom")]
    with subprocess.Popen(command) as recording:
        time.sleep(0.3)
        target.end()
        assert recording.wait(timeout=20) == 0


def test_dump_of_a_family(python: Python, fathom: Path, master: Any) -> None:
    target = master(python.path)
    found = dump(fathom, "-p", str(target.process.pid), "--children")
    assert [p["pid"] for p in found["processes"]][0] == target.process.pid == found["pid"]
    assert {p["pid"] for p in found["processes"]} == {target.process.pid, *target.workers}
    by_pid = {t["pid"]: [f["name"] for f in t["frames"]] for t in found["threads"]}
    assert "main" in by_pid[target.process.pid]
    for pid, name in zip(target.workers, ("first", "second")):
        assert name in by_pid[pid], by_pid
    alone = dump(fathom, "-p", str(target.process.pid))
    assert {t["pid"] for t in alone["threads"]} == {target.process.pid}


def test_dump_of_every_python(fathom: Path, tmp_path: Path) -> None:
    """In a pid namespace of its own, where there are no others."""
    code = "import time, sys\ndef nap(): time.sleep(30)\nnap()"
    script = tmp_path / "all.sh"
    script.write_text(
        f'"{sys.executable}" -c "{code}" & a=$!\n"{sys.executable}" -c "{code}" & b=$!\nsleep 30 & c=$!\nsleep 2\n'
        f'"{fathom}" dump --all --json; status=$?\nkill $a $b $c\nexit $status\n'
    )
    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this user may not make namespaces")
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "sh", str(script)], stdout=subprocess.PIPE, check=True
    )
    found = json.loads(done.stdout)
    assert len(found["processes"]) == 2
    assert all("nap" in [f["name"] for f in t["frames"]] for t in found["threads"])


def test_dump_is_readable_in_80_columns(fathom: Path, tmp_path: Path) -> None:
    folder = tmp_path / ("a_long_name_" * 4) / ("another_long_one_" * 4)
    folder.mkdir(parents=True)
    program = folder / "program.py"
    program.write_text("import time\ndef nap():\n    print('ready', flush=True)\n    time.sleep(60)\nnap()\n")
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout and target.stdout.readline() == "ready\n"
        command = f"stty cols 80; exec {fathom} dump -p {target.pid}"
        text = subprocess.run(["script", "-qec", command, "/dev/null"], stdout=subprocess.PIPE, text=True).stdout
        plain = subprocess.run(
            [str(fathom), "dump", "--reverse", "-p", str(target.pid)], stdout=subprocess.PIPE, text=True
        ).stdout
        target.kill()
    frames = [line for line in text.splitlines() if line.startswith("    ")]
    assert any(line.startswith("    nap (") and line.endswith("program.py:4)") for line in frames), text
    assert all(len(line) <= 80 for line in frames), text
    order = [line.split()[0] for line in plain.splitlines() if line.startswith("    ")]
    assert order.index("<module>") < order.index("nap") and f"nap ({program}:4)" in plain


def test_a_thread_that_runs_is_never_said_to_wait(fathom: Path) -> None:
    """It wants to run all the time; while nobody gives it a CPU, it does not wait for anything else."""
    command = [sys.executable, str(TARGETS / "starved.py"), "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout and target.stdout.readline() == "ready\n"
        try:
            until = time.monotonic() + 20
            states: List[Tuple[str, bool]] = []
            while len(states) < 12 and time.monotonic() < until:
                (thread,) = dump(fathom, "-p", str(target.pid))["threads"]
                states.append((thread["state"], bool(thread["frames"])))
        finally:
            target.kill()
    assert len(states) >= 3 and set(states) == {("running", True)}, states


def test_every_one_of_many_threads_is_read(fathom: Path) -> None:
    code = (
        "import threading, time\n"
        "def nap(): time.sleep(60)\n"
        "for _ in range(200): threading.Thread(target=nap, daemon=True).start()\n"
        "time.sleep(0.5); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout and target.stdout.readline() == "ready\n"
        try:
            threads = dump(fathom, "--locals", "-p", str(target.pid))["threads"]
        finally:
            target.kill()
    assert len(threads) == 201
    assert sum("nap" in [f["name"] for f in t["frames"]] for t in threads) == 200
    assert {t["state"] for t in threads} == {"waiting"}


def test_a_stopped_process_is_read(fathom: Path, master: Any) -> None:
    target = master(sys.executable)
    pid = target.workers[0]
    until = time.monotonic() + 20
    while int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]) < 10:  # it works by now
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(pid, 19)
    try:
        time.sleep(0.2)
        (thread,) = dump(fathom, "-p", str(pid))["threads"]
    finally:
        os.kill(pid, 18)
    assert thread["state"] == "stopped" and "first" in [f["name"] for f in thread["frames"]]


@pytest.mark.parametrize(
    "options",
    [["--kernel"], ["--engine", "perf"]],  # of --memory and --trace: test_inject.py
    ids=" ".join,
)
def test_what_needs_a_launch_is_refused(fathom: Path, tmp_path: Path, options: List[str]) -> None:
    out = tmp_path / "p.fathom"
    command = [str(fathom), "record", *options, "-p", str(os.getpid()), "-o", str(out), "-d", "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "a program that Fathom starts" in done.stderr and not out.exists()


def test_without_ptrace_nothing_is_left_out_silently(fathom: Path, master: Any, tmp_path: Path) -> None:
    """As in a container with Docker's rules of old."""
    target = master(sys.executable)
    worker, out = str(target.workers[0]), tmp_path / "p.fathom"

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(fathom), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=sandbox.forbid("ptrace"),
        )

    recorded = run("record", "-p", worker, "-o", str(out), "-d", "0.3")
    assert recorded.returncode == 1 and recorded.stderr.count("\n") == 1 and not out.exists()
    assert "seccomp" in recorded.stderr and "SYS_PTRACE" in recorded.stderr and "--nonblocking" in recorded.stderr
    # A dump shows what can be read, and says what could not.
    dumped = run("dump", "-p", worker)
    assert dumped.returncode == 1 and "not read" in dumped.stdout
    assert dumped.stderr.startswith("fathom: 1 thread was not read: ") and dumped.stderr.count("\n") == 1
    waiting = run("dump", "-p", str(target.process.pid))
    assert (waiting.returncode, waiting.stderr) == (0, "") and "main (" in waiting.stdout
    assert run("record", "--nonblocking", "-p", worker, "-o", str(out), "-d", "0.3").returncode == 0


def test_a_long_capture_stays_small(fathom: Path, tmp_path: Path) -> None:
    out, older = tmp_path / "long.fathom", tmp_path / "long.older.fathom"
    with subprocess.Popen([sys.executable, str(TARGETS / "new_names.py")], stdout=subprocess.PIPE, text=True) as target:
        try:
            assert target.stdout and target.stdout.readline() == "ready\n"
            command = [str(fathom), "record", "-p", str(target.pid), "-o", str(out), "--max-size", "1M", "-r", "10k"]
            recording = subprocess.Popen([*command, "--max-overhead", "0"])
            until = time.monotonic() + 60
            while not older.exists() and time.monotonic() < until:
                time.sleep(0.1)
            time.sleep(1)
            recording.terminate()
            assert recording.wait(timeout=20) == 0
        finally:
            target.kill()
    for part in (older, out):
        assert any(len(name) > 900 for name in busy(Capture(part, None).report))  # type: ignore[arg-type]
        # Half of it, what a tenth of a second adds, and the names that are written at its end.
        assert part.stat().st_size < 900_000
    for wrong in ("0", "x", "100k"):
        refused = subprocess.run([*command[:-3], wrong], stderr=subprocess.PIPE, text=True)
        assert refused.returncode == 2 and "--max-size" in refused.stderr
