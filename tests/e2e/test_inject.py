# SPDX-License-Identifier: Apache-2.0
"""record -p PID --memory and --inject: the agent goes into a program that runs, gives what a launched one gives, and goes out again."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import sandbox
from capture import TARGETS, Capture, Python, find_pythons, standard_error_s

ALL = list(range(8, 16))


@pytest.fixture
def program() -> Iterator[Any]:
    started: List["subprocess.Popen[str]"] = []

    def start(python: Python, seconds: float, target: str = "injected.py", *more: str) -> "subprocess.Popen[str]":
        command = [python.path, str(TARGETS / target), str(seconds), *more]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
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


@pytest.mark.pythons(*ALL)
@pytest.mark.statistical
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_memory_and_time_of_a_running_program(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    process = program(python, 60)
    before = what_it_shows(process.pid)
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--memory", "--duration", "1.5")
    assert run.returncode == 0, run.stderr
    assert f"the agent is in process {process.pid}" in run.stderr
    assert f"hooks are removed from process {process.pid}; its library stays mapped there" in run.stderr
    report = subprocess.run([str(fathom), "report", str(tmp_path / "p.fathom")], stdout=subprocess.PIPE, text=True)
    way = "by a pending call" if python.minor < 14 else "through its interpreter's remote execution"
    assert f"The agent was loaded into the running program {way}" in " ".join(report.stdout.split())
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


@pytest.mark.pythons(*ALL)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_calls_of_a_running_program(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    process = program(python, 60)
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


@pytest.mark.pythons(*ALL)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_in_and_out_again_and_again(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    process = program(python, 60)
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


@pytest.mark.pythons(*ALL)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_traced_program_is_not_held_up_while_it_is_asked(
    python: Python, fathom: Path, tmp_path: Path, program: Any
) -> None:
    """Threads that keep the GIL for long and do nothing but call: their rings are full before the script has answered."""
    process = program(python, 60, "injected_calls.py")
    before = what_it_shows(process.pid)
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--trace", "--duration", "0.3")
    assert run.returncode == 0, run.stderr
    assert "hooks are removed" in run.stderr
    assert what_it_shows(process.pid) == before
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert float(out.split()[-1]) < 5, out  # it was 20


def last_pages(pid: int, size: int = 400) -> Dict[str, bytes]:
    """What is behind the data of the C library and of Python's: where a request is left before 3.14."""
    pages = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        parts = line.split()
        if "w" in parts[1] and len(parts) > 5 and re.search(r"/lib(c|m|python)[.0-9]", parts[5]):
            end = int(parts[0].split("-")[1], 16)
            with open(f"/proc/{pid}/mem", "rb") as memory:
                memory.seek(end - size)
                pages[line] = memory.read(size)
    return pages


def has_request(pid: int) -> bool:
    return any(b"['exec']" in page for page in last_pages(pid, 4096).values())


@pytest.mark.pythons(*ALL)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_busy_program_is_as_it_was(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    """Threads, files, forks; its own checks, its names, modules and memory that is nobody's."""
    bare = program(python, 0, "injected_busy.py")
    time.sleep(1)
    expected = bare.communicate(timeout=60)
    process = program(python, 0, "injected_busy.py")
    before, pages = what_it_shows(process.pid)[:2], last_pages(process.pid)
    for how in ["--inject", "--memory", "--memory=exact", "--trace"] * 2:
        run = inject(fathom, process.pid, tmp_path / "p.fathom", how, "--duration", "0.05")
        assert run.returncode == 0, run.stderr
    assert what_it_shows(process.pid)[:2] == before
    if python.minor < 14:
        assert pages and last_pages(process.pid) == pages
    assert process.communicate(timeout=60) == expected and process.returncode == 0
    assert expected[0].startswith("wrong [] busy True")


def lines_of(fathom: Path, file: Path, target: str) -> Dict[str, Dict[str, Any]]:
    """By what the line's comment calls it."""
    run = subprocess.run([str(fathom), "report", "--json", str(file)], stdout=subprocess.PIPE, check=True)
    rows = {r["line"]: r for r in json.loads(run.stdout)["lines"] if Path(r["file"]).name == target}
    source = enumerate((TARGETS / target).read_text().splitlines(), 1)
    return {line.split("# line: ")[1]: rows[n] for n, line in source if "# line: " in line and n in rows}


@pytest.mark.pythons(*ALL)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_bytes_by_construction(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    """What is allocated once the agent is in is counted as in a launched program: each byte of it."""
    process = program(python, 0.5, "injected_memory.py")
    recorder = subprocess.Popen(
        [str(fathom), "record", "-p", str(process.pid), "--memory=exact", "-o", str(tmp_path / "p.fathom")],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert recorder.stderr and "the agent is in process" in recorder.stderr.readline()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "done\n"
    recorder.send_signal(signal.SIGINT)
    _, err = recorder.communicate(timeout=30)
    assert recorder.returncode == 0, err
    lines = lines_of(fathom, tmp_path / "p.fathom", "injected_memory.py")
    # A bytearray has a byte more than was asked for, and its object; the list of those that are kept grows.
    assert 0 <= lines["kept"]["alloc_bytes"] - 40 * 500_001 < 40 * 100 + 2_000
    assert 0 <= lines["kept"]["peak_bytes"] - 40 * 500_001 < 40 * 100 + 2_000
    assert 0 <= lines["dropped"]["alloc_bytes"] - 3_000 * 20_001 < 3_000 * 100
    assert process.communicate(timeout=60) == ("", "") and process.returncode == 0


@pytest.mark.pythons(*ALL)
@pytest.mark.parametrize("when", [("open", "/start"), ("import", "fathom"), ("open", ".part")], ids=" ".join)
@pytest.mark.parametrize("name", ["SIGINT", "SIGUSR1", "SIGUSR2"])
# The signal comes a second time, 50 ms after the script. One that is late may meet the beginning of the next script, where
# nobody can catch what is raised (decision 0014), and least of all in this program's audit hook.
@pytest.mark.statistical
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_signal_that_comes_meanwhile(
    python: Python,
    fathom: Path,
    tmp_path: Path,
    program: Any,
    name: str,
    when: Tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What its handler raises is the program's to catch, not the script's that loads the agent."""
    monkeypatch.setenv("FATHOM_AUDIT_HOOKS", "1")  # it has one, which forbids nothing
    process = program(python, 0, "injected_signal.py", name, *when)
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--inject", "--duration", "0.3")
    assert run.returncode == 0 or "a signal came just" in run.stderr
    again = inject(fathom, process.pid, tmp_path / "q.fathom", "--inject", "--duration", "0.1")
    assert again.returncode == 0, again.stderr
    caught = "KeyboardInterrupt" if name == "SIGINT" else "Urgent"
    assert process.communicate(timeout=60) == (f"sent 1 caught ['{caught}']\n", "") and process.returncode == 0


@pytest.mark.pythons(9, 13)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_program_at_its_recursion_limit_gets_no_script(
    python: Python, fathom: Path, tmp_path: Path, program: Any
) -> None:
    """What the script raised there would be a SystemError of the program's."""
    process = program(python, 2, "cramped.py", "depth")
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--inject", "--duration", "0.2")
    said = ("had no room for Python code of ours", "ran no Python code")  # the second, when it was ending
    assert run.returncode == 0 or any(words in run.stderr for words in said), run.stderr
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "well\n", "")


@pytest.mark.pythons(9, 12, 14)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_program_without_file_descriptors_gets_no_script(
    python: Python, fathom: Path, tmp_path: Path, program: Any
) -> None:
    """From 3.14 on the interpreter would complain on the program's standard error."""
    process = program(python, 2, "cramped.py", "files")
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--inject", "--duration", "0.2")
    said = ("had no file descriptors left", "ran no Python code")  # the second, when it was ending
    assert run.returncode == 1 and any(words in run.stderr for words in said), run.stderr
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "well\n", "")


@pytest.mark.pythons(11)
def test_a_program_with_audit_hooks_gets_no_script(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    process = program(python, 1, "cramped.py", "audit")
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--inject", "--duration", "0.2")
    assert run.returncode != 0 and "has audit hooks" in run.stderr, run.stderr
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "well\n", "")


@pytest.mark.pythons(8, 13)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_capture_after_one_whose_fathom_was_killed(
    python: Python, fathom: Path, tmp_path: Path, program: Any
) -> None:
    """Nothing is sampled then that would notice; the next one has to."""
    process = program(python, 60)
    command = [str(fathom), "record", "-p", str(process.pid), "-o", str(tmp_path / "p.fathom"), "--inject"]
    killed = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert killed.stderr and "the agent is in process" in killed.stderr.readline()
    killed.kill()
    killed.communicate()
    time.sleep(0.2)
    run = inject(fathom, process.pid, tmp_path / "q.fathom", "--inject", "--duration", "0.2")
    assert run.returncode == 0, run.stderr
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "kept 20 signals 0\n", "")


@pytest.mark.pythons(8, 12, 13, 14)
@pytest.mark.parametrize("folder", ["long", "short"])
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_capture_after_one_that_was_killed_while_it_waited(
    python: Python, fathom: Path, tmp_path: Path, folder: str
) -> None:
    """Its request is still in the program, which sleeps: the next one puts its own there, and leaves none. A short one
    ends where bytes of the library's file stand behind its data (libm's), not zeros."""
    text = (
        "import time; print('ready', flush=True); time.sleep(4); until = time.monotonic() + 4\n"
        "while time.monotonic() < until: sum(range(100))\n"
        "print('well')"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([python.path, "-c", text], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout and process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    command = [str(fathom), "record", "-p", str(process.pid), "-o", str(tmp_path / "p.fathom"), "--inject"]
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as short:
        env = {**os.environ, "TMPDIR": str(tmp_path) if folder == "long" else short}
        killed = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
        assert killed.stderr and "waiting for process" in killed.stderr.readline()
        killed.kill()
        killed.communicate()
    assert has_request(process.pid) == (python.minor < 14)
    run = inject(fathom, process.pid, tmp_path / "q.fathom", "--inject", "--duration", "0.2")
    assert run.returncode == 0, run.stderr
    assert not has_request(process.pid)
    assert process.communicate(timeout=60) == ("well\n", "") and process.returncode == 0


@pytest.mark.pythons(8, 12, 14)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_the_second_at_once_leaves_the_first_alone(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    process = program(python, 60)
    first = subprocess.Popen(
        [
            str(fathom),
            "record",
            "-p",
            str(process.pid),
            "--memory",
            "-o",
            str(tmp_path / "p.fathom"),
            "--duration",
            "2",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert first.stderr and "the agent is in process" in first.stderr.readline()
    second = inject(fathom, process.pid, tmp_path / "q.fathom", "--inject", "--duration", "1")
    assert second.returncode == 1 and "being profiled already" in second.stderr
    _, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    capture = Capture(tmp_path / "p.fathom", subprocess.CompletedProcess([], 0, "", err))
    assert max(s.time_ns for s in capture.samples) - min(s.time_ns for s in capture.samples) > 1.5e9
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "kept 20 signals 0\n", "")


def others_can_run(path: str) -> bool:
    """As a user who is nobody."""
    if os.geteuid() != 0:
        return False
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", path, "-c", "pass"]
    try:
        return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


@pytest.fixture
def others_python() -> str:
    for python in find_pythons():
        if others_can_run(python.path):
            return python.path
    pytest.skip("not root, or no Python that everybody may run")


def start_as(prefix: List[str], python: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    command = [*prefix, python, str(TARGETS / "injected.py"), "60"]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout and process.stdout.readline() == "ready\n"
    return process


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.mark.parametrize("agent", ["that it can read", "that it cannot read"])
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_as_root_into_anothers_process(others_python: str, fathom: Path, tmp_path: Path, agent: str) -> None:
    """What is made for it belongs to its user, and goes again; the capture is ours."""
    if agent == "that it cannot read":
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        for name in ("fathom", "_agent.abi3.so"):
            shutil.copy(fathom.parent / name, closed / name)
        fathom = closed / "fathom"
    elif subprocess.run([*NOBODY, "cat", str(fathom.parent / "_agent.abi3.so")], stdout=subprocess.DEVNULL).returncode:
        pytest.skip("this build is not everybody's to read")
    process = start_as(NOBODY, others_python)
    before, temporary = what_it_shows(process.pid), set(os.listdir("/tmp"))
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--memory", "--duration", "0.5")
    assert run.returncode == 0, run.stderr
    assert what_it_shows(process.pid) == before
    assert not [name for name in set(os.listdir("/tmp")) - temporary if re.fullmatch("fathom-[0-9a-f]{16}", name)]
    assert (tmp_path / "p.fathom").stat().st_uid == 0 and len(Capture(tmp_path / "p.fathom", run).samples) > 0
    again = inject(fathom, process.pid, tmp_path / "q.fathom", "--inject", "--duration", "0.2")
    if agent == "that it can read":
        assert again.returncode == 0, again.stderr
    else:
        assert again.returncode == 1 and "a copy of the agent from an earlier capture" in again.stderr
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "kept 20 signals 0\n", "")


@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_into_a_process_with_file_systems_of_its_own(others_python: str, fathom: Path, tmp_path: Path) -> None:
    hidden = 'mount -t tmpfs none /tmp && exec "$@"'
    if str(TARGETS).startswith("/tmp/"):
        pytest.skip("this checkout is below /tmp, which the program is not to see")
    if subprocess.run(["unshare", "-m", "sh", "-c", hidden, "sh", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no file systems may be mounted here")
    process = start_as(["unshare", "-m", "sh", "-c", hidden, "sh"], others_python)
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--inject", "--duration", "0.5")
    assert run.returncode == 0, run.stderr
    assert os.listdir(f"/proc/{process.pid}/root/tmp") == []
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "kept 20 signals 0\n", "")


@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_what_is_not_reached_is_refused_in_one_line(others_python: str, fathom: Path, tmp_path: Path) -> None:
    """Process numbers of its own; another user, and we not root."""
    numbers = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*numbers, "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no namespaces may be made here")
    outer = start_as(numbers, others_python)
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
    run = inject(fathom, int(children[0]), tmp_path / "p.fathom", "--inject")
    outer.communicate(timeout=60)
    assert (run.returncode, run.stderr.count("\n")) == (
        1,
        1,
    ) and "in a container with its own process numbers" in run.stderr
    process = start_as([], others_python)
    command = [*NOBODY, str(fathom), "record", "-p", str(process.pid), "--inject", "-o", "/dev/null"]
    denied = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    process.communicate(timeout=60)
    assert denied.returncode == 1 and "belongs to another user" in denied.stderr


def test_what_has_no_python_is_one_line(fathom: Path, tmp_path: Path) -> None:
    """Dynamically linked, and statically where a static C library is there."""
    source = tmp_path / "waits.c"
    source.write_text('#include <unistd.h>\nint main(void) { write(1, "ready\\n", 6); pause(); return 0; }\n')
    for options in [[], ["-static"]]:
        built = subprocess.run(
            ["gcc", *options, "-o", str(tmp_path / "waits"), str(source)], stderr=subprocess.PIPE, text=True
        )
        if built.returncode and options and "cannot find -lc" in built.stderr:
            pytest.skip("no static C library here")
        assert built.returncode == 0, built.stderr
        with subprocess.Popen([str(tmp_path / "waits")], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout and process.stdout.readline() == "ready\n"
            before = what_it_shows(process.pid)
            run = inject(fathom, process.pid, tmp_path / "p.fathom", "--inject", "--duration", "0.2")
            after = what_it_shows(process.pid)
            process.kill()
        assert (run.returncode, run.stderr.count("\n"), after) == (1, 1, before)
        assert "no Python that Fathom knows" in run.stderr and not (tmp_path / "p.fathom").exists()


CHILDREN = """
import os, sys, time
def in_the_child(s):
    end = time.thread_time() + s
    while time.thread_time() < end: sum(range(100))
def in_the_parent():
    sum(range(100))
print("ready", flush=True)
while not os.path.exists(sys.argv[1]): in_the_parent()
pid = os.fork()
if pid == 0:
    in_the_child(0.4)
    os._exit(7)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
time.sleep(1)
print("child", pid, os.waitpid(pid, 0)[1] >> 8, flush=True)
sys.stdin.read()
"""


@pytest.mark.pythons(8, 12, 14)
@pytest.mark.parametrize("way", [["--inject"], []], ids=["inside", "outside"])
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_child_that_is_forked_later(python: Python, fathom: Path, tmp_path: Path, way: List[str]) -> None:
    """Is followed; and how it ended is known where its parent does not ask for that at once."""
    pipe, cue = subprocess.PIPE, tmp_path / "cue"
    process = subprocess.Popen([python.path, "-c", CHILDREN, str(cue)], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout and process.stdout.readline() == "ready\n"
    command = [str(fathom), "record", "-p", str(process.pid), "-o", str(tmp_path / "p.fathom"), *way]
    recorder = subprocess.Popen(command, stderr=pipe, text=True)
    if way:
        assert recorder.stderr and "the agent is in process" in recorder.stderr.readline()
    else:
        time.sleep(0.5)
    cue.write_text("")
    word, child, status = process.stdout.readline().split()
    assert (word, status) == ("child", "7")
    recorder.send_signal(signal.SIGINT)
    _, err = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, err
    process.communicate(timeout=60)
    capture = Capture(tmp_path / "p.fathom", subprocess.CompletedProcess([], 0, "", err))
    assert 0.2 < capture.seconds("in_the_child") < 0.6
    (found,) = [p for p in capture.report["processes"] if p["pid"] == int(child)]
    assert found["parent"] == process.pid and found["exit"]["code"] == 7, found


@pytest.mark.pythons(9, 14)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_it_lets_itself_be_watched(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    """--listen beside --inject: what fathom live shows is the program."""
    process = program(python, 60)
    command = [str(fathom), "record", "-p", str(process.pid), "-o", str(tmp_path / "p.fathom"), "--inject"]
    recorder = subprocess.Popen([*command, "--listen", "0"], stderr=subprocess.PIPE, text=True)
    said = ""
    while recorder.stderr and "the agent is in process" not in said:
        line = recorder.stderr.readline()
        assert line, said
        said += line
    port = re.search(r":(\d+)", said)
    assert port, said
    time.sleep(2)
    live = [str(fathom), "live", "--once", "--json", port[1]]
    shown = json.loads(subprocess.run(live, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
    recorder.send_signal(signal.SIGINT)
    _, err = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, err
    assert {"one", "two"} <= {f["name"] for f in shown["functions"]}, shown
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "kept 20 signals 0\n", "")


@pytest.mark.pythons(14)
def test_a_program_that_only_sleeps_is_left_alone(python: Python, fathom: Path, tmp_path: Path) -> None:
    """No Python code, no safe moment: Ctrl-C ends the wait, and nothing of ours is left behind."""
    process = subprocess.Popen(
        [python.path, "-c", "import time; print('ready', flush=True); time.sleep(6); print('woke')"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout and process.stdout.readline() == b"ready\n"
    time.sleep(0.2)
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


@pytest.mark.pythons(12)
def test_a_thread_that_cannot_be_stopped(python: Python, fathom: Path, tmp_path: Path, program: Any) -> None:
    """The others are not held in vain: the program goes on, and one line says why."""
    process = program(python, 0, "injected_stuck.py")
    states = [Path(f"/proc/{process.pid}/task/{t}/stat").read_text() for t in os.listdir(f"/proc/{process.pid}/task")]
    if not any(") D " in state for state in states):
        pytest.skip("posix_spawn waits otherwise here")
    before = what_it_shows(process.pid)
    began = time.monotonic()
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--inject", "--duration", "1")
    took_s, after = time.monotonic() - began, what_it_shows(process.pid)
    out, err = process.communicate(timeout=60)  # its child ends then
    assert run.returncode == 1 and "a system call that cannot be interrupted" in run.stderr
    assert took_s < 30 and after == before
    assert (process.returncode, err) == (0, "") and int(out) < 2000


@pytest.mark.pythons(14)
def test_a_program_that_forbids_it(python: Python, fathom: Path, tmp_path: Path) -> None:
    if python.minor < 14:
        pytest.skip("knows no such option")
    process = subprocess.Popen([python.path, "-X", "disable-remote-debug", "-c", "import time; time.sleep(60)"])
    time.sleep(0.5)
    run = inject(fathom, process.pid, tmp_path / "p.fathom", "--inject", "--duration", "1")
    process.kill()
    process.wait()
    assert run.returncode == 1 and "does not permit others to run code in it" in run.stderr


def shut_in(python: Python, *arguments: str, **more: Any) -> "subprocess.Popen[str]":
    """targets/shut_in.py: a filter of its own, which ends it for opening a file."""
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of system calls are x86-64's")
    command = [python.path, str(TARGETS / "shut_in.py"), *arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, **more)
    assert process.stdout
    if process.stdout.readline() != "ready\n":
        process.communicate()
        pytest.skip("filters are not permitted here")
    return process


@pytest.mark.pythons(*ALL)
@pytest.mark.parametrize("way", ["--inject", "--memory", "--trace"])
def test_a_program_behind_a_filter_of_its_own_is_left_alone(
    python: Python, fathom: Path, tmp_path: Path, way: str
) -> None:
    """The script opens files, which its filter ends it for."""
    process = shut_in(python, "now", "ctypes")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [str(fathom), "record", "-p", str(process.pid), "-o", str(tmp_path / "p.fathom"), way]
    env = {**os.environ, "TMPDIR": str(temporary)}
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, env=env)
    assert process.communicate(timeout=60) == ("well\n", "") and process.returncode == 0
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and not list(tmp_path.glob("*/*"))
    assert "(seccomp)" in run.stderr and "observe it from outside" in run.stderr


@pytest.mark.pythons(9, 13, 14)
@pytest.mark.parametrize("how", ["ctypes", "library"])
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_filter_that_is_put_up_while_the_agent_is_in(python: Python, fathom: Path, tmp_path: Path, how: str) -> None:
    """From then on nothing is asked of the program: by ctypes behind the agent's back, by a library's call before its eyes."""
    if how == "library":
        source, how = tmp_path / "shut_in.c", str(tmp_path / "shut_in.so")
        source.write_text("int prctl(int, ...);\nint shut_in(void *filter) { return prctl(22, 2L, filter, 0L, 0L); }\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", how, str(source)], check=True)
    process = shut_in(python, "later", how)
    out = tmp_path / "p.fathom"
    command = [str(fathom), "record", "-p", str(process.pid), "-o", str(out), "--memory", "--duration", "20"]
    recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert recorder.stderr and "the agent is in process" in recorder.stderr.readline()
    assert process.stdin and process.stdout
    process.stdin.write("now\n")
    process.stdin.flush()
    assert process.stdout.readline() == "up\n"
    _, err = recorder.communicate(timeout=60)  # it ends by itself
    assert recorder.returncode == 0 and "installed a system call filter" in err and "leaves it alone" in err, err
    assert process.communicate(timeout=60) == ("well\n", "") and process.returncode == 0
    result = json.loads(subprocess.run([str(fathom), "report", "--json", str(out)], stdout=subprocess.PIPE).stdout)
    assert "1 process after installing a seccomp filter" in [c["what"] for c in result["coverage"]]


@pytest.mark.pythons(9, 14)
@pytest.mark.unaccounted("its parent alone is told what the program used")
def test_a_filter_that_we_are_behind_too_is_no_reason(
    python: Python, fathom: Path, tmp_path: Path, program: Any
) -> None:
    """A container's."""
    shut = sandbox.forbid("kcmp")
    command = [python.path, str(TARGETS / "injected.py"), "60"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, preexec_fn=shut)
    assert process.stdout and process.stdout.readline() == "ready\n"
    record = [str(fathom), "record", "-p", str(process.pid), "-o", str(tmp_path / "p.fathom"), "--inject"]
    outside = subprocess.run([*record, "--duration", "0.2"], stderr=subprocess.PIPE, text=True, timeout=60)
    inside = subprocess.run(
        [*record, "--duration", "0.2"], stderr=subprocess.PIPE, text=True, timeout=60, preexec_fn=shut
    )
    assert process.communicate(timeout=60) == ("kept 20 signals 0\n", "") and process.returncode == 0
    assert outside.returncode == 1 and "(seccomp)" in outside.stderr
    assert inside.returncode == 0, inside.stderr


def test_what_does_not_go_together(fathom: Path, tmp_path: Path) -> None:
    for options, text in [
        (["--inject", "--", "true"], "--inject needs --pid"),
        (["-p", "1", "--memory", "--max-size", "2M"], "--max-size and --nonblocking need a program"),
        (["-p", "1", "--inject", "--nonblocking"], "--max-size and --nonblocking need a program"),
    ]:
        run = subprocess.run([str(fathom), "record", *options], stderr=subprocess.PIPE, text=True)
        assert run.returncode == 2 and text in run.stderr
    run = inject(fathom, 999999999, tmp_path / "p.fathom", "--inject")
    assert run.returncode == 1 and "there is no process" in run.stderr
