# SPDX-License-Identifier: Apache-2.0
"""However a program or Fathom ends: the file opens and holds everything up to the last 100 ms, and the status is passed on."""

import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest
from guest import FATHOM, clean_env, default_signals, pick_python, report, run, sample_times, under, wait_for

PYTHON = pick_python()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Python to run")

# Works until the end comes, and writes its clock into shared memory all the time, so that even a SIGKILL leaves its last moment.
PREAMBLE = """
import mmap, os, signal, struct, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
page = mmap.mmap(file, 4096)
def work(cpu_seconds):
    end = time.process_time() + cpu_seconds
    while True:
        sum(range(200))
        now = time.process_time()
        struct.pack_into("=qq", page, 0, time.monotonic_ns(), int(now * 1e9))
        if now >= end:
            return
"""

ENDINGS = {
    "exit_3": ("work(0.5); sys.exit(3)", 3),
    "os_exit": ("work(0.5); os._exit(4)", 4),
    "exception": ("work(0.5); raise SystemError", 1),
    "kill_9": ("work(0.5); os.kill(os.getpid(), signal.SIGKILL)", 137),
    "sigterm": ("work(0.5); os.kill(os.getpid(), signal.SIGTERM)", 143),
    "segfault": ("import ctypes; work(0.5); ctypes.string_at(0)", 139),
    "abort": ("work(0.5); os.abort()", 134),
    "no_memory": (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "work(0.5)\nhog = []\nwhile True: hog.append(bytes(50 << 20)); work(0.0)",
        1,
    ),
}


def last_moment(clock: Path) -> int:
    return int.from_bytes(clock.read_bytes()[:8], "little")


def has_worked(clock: Path, cpu_seconds: float) -> bool:
    return clock.exists() and int.from_bytes(clock.read_bytes()[8:16], "little") >= cpu_seconds * 1e9


def check_last(profile: Path, clock: Path, samples: int = 100) -> Dict[str, Any]:
    result = report(profile)
    assert result["samples"] >= samples
    lag = last_moment(clock) - max(sample_times(profile))
    if (
        lag >= 100e6
    ):  # a busy machine may not have let it run: then what counts is its CPU time that no sample stands for
        lag = int.from_bytes(clock.read_bytes()[8:16], "little") - int(result["cpu_s"] * 1e9)
    assert lag < 100e6, f"the last sample is {lag / 1e6:.1f} ms before the last moment"
    return result


def write_script(tmp_path: Path, body: str) -> List[str]:
    assert PYTHON
    script = tmp_path / "ending.py"
    script.write_text(PREAMBLE + body + "\n")
    return [PYTHON.path, str(script), str(tmp_path / "clock")]


@pytest.mark.parametrize("what", list(ENDINGS))
def test_ending(what: str, tmp_path: Path) -> None:
    body, code = ENDINGS[what]
    profile = tmp_path / "p.fathom"
    command = write_script(tmp_path, body)
    bare = run(command)
    done = run([*under(profile), *command])
    assert done.returncode == code
    assert done.stdout == bare.stdout
    assert done.stderr == bare.stderr
    result = check_last(profile, tmp_path / "clock")
    assert result["exit"] == ({"code": None, "signal": code - 128} if code > 128 else {"code": code, "signal": None})


def start(command: List[str], **more: Any) -> "subprocess.Popen[str]":
    more.setdefault("env", clean_env())
    more.setdefault("preexec_fn", default_signals)
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


@pytest.mark.alone  # nothing says how long the collector had to wait for a CPU
@pytest.mark.statistical
def test_kill_9_of_fathom(tmp_path: Path) -> None:
    """The program goes on unharmed; the file holds all up to 100 ms before the kill."""
    profile, clock, end = tmp_path / "p.fathom", tmp_path / "clock", tmp_path / "end"
    command = write_script(tmp_path, f"work(1.5); time.sleep(0.1); open({str(end)!r}, 'w').write('well')")
    process = start([*under(profile), *command])
    wait_for(lambda: has_worked(clock, 0.4))
    killed_at = time.monotonic_ns()
    process.kill()
    process.wait()
    wait_for(lambda: end.exists() and end.read_text() == "well")
    result = report(profile)
    times = sample_times(profile)
    assert result["samples"] >= 100
    assert killed_at - max(times) < 150e6  # 100 ms between writes, and some for the scheduler
    assert last_moment(clock) > killed_at + 200e6  # it worked on


def test_ctrl_c(tmp_path: Path) -> None:
    """The terminal signals the whole group; the program's own handling decides."""
    profile = tmp_path / "p.fathom"
    body = "try:\n    work(30)\nexcept KeyboardInterrupt:\n    work(0.3)\n    print('caught')\n    sys.exit(9)"
    process = start([*under(profile), *write_script(tmp_path, body)], start_new_session=True)
    wait_for(lambda: has_worked(tmp_path / "clock", 0.3))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (9, "caught\n", "")
    check_last(profile, tmp_path / "clock")


def test_ctrl_c_uncaught(tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    process = start([*under(profile), *write_script(tmp_path, "work(30)")], start_new_session=True)
    wait_for(lambda: has_worked(tmp_path / "clock", 0.3))
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.rstrip().endswith("KeyboardInterrupt")
    check_last(profile, tmp_path / "clock")


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP])
def test_signal_to_fathom_is_passed_on(sig: signal.Signals, tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    body = f"signal.signal({int(sig)}, lambda s, f: sys.exit(12))\nwork(30)"
    process = start([*under(profile), *write_script(tmp_path, body)])
    wait_for(lambda: has_worked(tmp_path / "clock", 0.3))
    process.send_signal(sig)
    process.communicate(timeout=20)
    assert process.returncode == 12
    check_last(profile, tmp_path / "clock")


# ---- no room ----


def check_full(done: "subprocess.CompletedProcess[str]", profile: Path) -> None:
    lines = [line for line in done.stderr.splitlines() if line.startswith("fathom: ")]
    assert done.returncode == 6, done.stderr
    assert len(lines) == 1, done.stderr
    assert str(profile) in lines[0] and "cannot write" in lines[0], lines
    assert done.stderr.strip() == lines[0]
    assert run([FATHOM, "report", profile]).returncode == 0


# Many functions: the file grows by their names and lines.
GROWING = (
    "for i in range(4000):\n"
    "    name = 'function_%d_%s' % (i, os.urandom(100).hex())\n"
    "    space = {}\n"
    "    exec('def %s(work):\\n    work(0.0005)\\n' % name, space)\n"
    "    space[name](work)\n"
    "sys.exit(6)"
)


def test_file_size_limit(tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    done = run([*under(profile), *write_script(tmp_path, GROWING)], preexec_fn=limit)
    check_full(done, profile)
    assert report(profile)["samples"] > 0


def test_hard_file_size_limit(tmp_path: Path) -> None:
    """The shared memory counts as a file: one line, and nothing runs."""
    done = run(
        ["prlimit", "--fsize=60000:60000", *under(tmp_path / "p.fathom"), *write_script(tmp_path, "sys.exit(6)")]
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "ulimit -f" in done.stderr, done.stderr


def test_dev_full(tmp_path: Path) -> None:
    """Full from the start: said at once, and nothing runs."""
    done = run([*under(Path("/dev/full")), *write_script(tmp_path, "sys.exit(6)")])
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "/dev/full" in done.stderr, done.stderr


def test_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk]).returncode != 0:
        pytest.skip("a small file system needs the right to mount one")
    try:
        done = run([*under(disk / "p.fathom"), *write_script(tmp_path, GROWING)])
        check_full(done, disk / "p.fathom")
        assert report(disk / "p.fathom")["samples"] > 0
    finally:
        run(["umount", disk])


# ---- out of memory in a cgroup ----


def test_out_of_memory_in_cgroup(memory_cgroup: Path, tmp_path: Path) -> None:
    """The kernel kills the program (only it is in the group); the profile is whole."""
    profile = tmp_path / "p.fathom"
    body = (
        f"open({str(memory_cgroup / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        "work(0.5)\nhog = []\nwhile True: hog.append(b'x' * (4 << 20)); work(0.001)"
    )
    done = run([*under(profile), *write_script(tmp_path, body)])
    assert done.returncode == 137, done.stderr
    result = check_last(profile, tmp_path / "clock")
    assert result["exit"]["signal"] == 9
