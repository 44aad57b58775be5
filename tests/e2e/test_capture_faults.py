# SPDX-License-Identifier: Apache-2.0
"""What may happen to a capture while it is made: its file removed, renamed, cut or wanted by two, no room, few descriptors, few processes, no collector.

Nothing is lost silently. Each program tells its own CPU time as the kernel counts it, and the profile's total with what it says it did not see is that."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest
from capture import ROOT
from guest import FATHOM, clean_env, cpu_s, default_signals, pick_python, report, run, under, wait_for
from sandbox import forbid

PYTHON = pick_python(11) or pick_python()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Python to run")

# Works, says that it has, works until it is told to end, and tells what it used: all of it, by the kernel's account.
PROGRAM = """
import json, os, resource, sys, time
folder, status = sys.argv[1], int(sys.argv[2])
def work(cpu_seconds):
    end = time.process_time() + cpu_seconds
    while time.process_time() < end:
        sum(range(300))
def say(name, text=""):
    with open(os.path.join(folder, name + ".new"), "w") as file: file.write(text)
    os.rename(os.path.join(folder, name + ".new"), os.path.join(folder, name))
work(0.3)
say("half", str(os.getpid()))
while not os.path.exists(os.path.join(folder, "go")):
    work(0.01)
work(0.15)
used = resource.getrusage(resource.RUSAGE_SELF)
say("used", json.dumps(used.ru_utime + used.ru_stime))
sys.exit(status)
"""


class Guest:
    """The program under `fathom record` (or what else is given), in the middle of its work."""

    def __init__(self, folder: Path, status: int = 0, command: Optional[List[str]] = None, **more: Any) -> None:
        assert PYTHON
        self.folder = folder
        script = folder / "program.py"
        script.write_text(PROGRAM)
        self.profile = folder / "out" / "p.fathom"
        self.profile.parent.mkdir(exist_ok=True)
        more.setdefault("preexec_fn", default_signals)
        more.setdefault("env", clean_env())
        self.process = subprocess.Popen(
            [*(under(self.profile) if command is None else command), PYTHON.path, str(script), str(folder), str(status)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
        )  # fmt: skip
        wait_for(lambda: (folder / "half").exists() or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.process.communicate()
        self.pid = int((folder / "half").read_text())

    def end(self) -> "subprocess.CompletedProcess[str]":
        (self.folder / "go").touch()
        out, err = self.process.communicate(timeout=120)
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)

    def used_s(self) -> float:
        return float(json.loads((self.folder / "used").read_text()))


def sampled_s(result: Dict[str, Any]) -> float:
    """What samples stand for, in all."""
    parts = result["time"]
    return float(parts["python_s"] + parts["native_s"] + parts["system_s"] + parts["gc_s"])


def told_cpu_s(result: Dict[str, Any]) -> float:
    """CPU time that the profile says it did not see."""
    found = [re.match(r"([\d.]+)(?: of [\d.]+)? s of CPU time", item["what"]) for item in result["coverage"]]
    return sum(float(match[1]) for match in found if match)


def check_whole(profile: Path, used_s: float) -> Dict[str, Any]:
    """Everything that the program used is there. It used some before the agent was loaded, and some after it had asked."""
    result = report(profile)
    assert abs(result["cpu_s"] - used_s) < 0.05 + 0.02 * used_s, (result["cpu_s"], used_s)
    assert abs(sampled_s(result) - used_s) < 0.05 + 0.02 * used_s, (sampled_s(result), used_s)
    assert result["dropped"] == 0
    return result


def one_line(done: "subprocess.CompletedProcess[str]", *words: str) -> None:
    assert done.stderr.startswith("fathom: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


# ---- the file, while it is written ----


@pytest.mark.parametrize("status, expected", [(0, 1), (5, 5)])
def test_removed(tmp_path: Path, status: int, expected: int) -> None:
    """Lost, and said. The program's own status is passed on, unless it was well: then Fathom's failure is the news."""
    guest = Guest(tmp_path, status)
    guest.profile.unlink()
    done = guest.end()
    one_line(done, str(guest.profile), "was removed", "lost")
    assert (done.returncode, done.stdout, guest.profile.exists()) == (expected, "", False)


@pytest.mark.parametrize("size", [0, 100])
def test_cut(tmp_path: Path, size: int) -> None:
    guest = Guest(tmp_path)
    os.truncate(guest.profile, size)
    done = guest.end()
    one_line(done, str(guest.profile), "another program changed", f"has {size} now", "lost")
    assert done.returncode == 1 and guest.profile.stat().st_size == size


def test_overwritten(tmp_path: Path) -> None:
    """What somebody else put there stays as they put it."""
    guest = Guest(tmp_path)
    guest.profile.write_text("mine")
    done = guest.end()
    one_line(done, str(guest.profile), "another program changed")
    assert done.returncode == 1 and guest.profile.read_text() == "mine"


def test_replaced(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    other = tmp_path / "other"
    other.write_text("mine")
    other.rename(guest.profile)
    done = guest.end()
    one_line(done, str(guest.profile), "was removed", "lost")
    assert done.returncode == 1 and guest.profile.read_text() == "mine"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_renamed(tmp_path: Path, what: str) -> None:
    """Nothing is lost: it is where it was brought, which is said."""
    guest = Guest(tmp_path)
    there = tmp_path / "elsewhere" / "p.fathom"
    if what == "folder":
        guest.profile.parent.rename(there.parent)
    else:
        there.parent.mkdir()
        guest.profile.rename(there)
    done = guest.end()
    one_line(done, str(guest.profile), "was renamed", "complete", str(there))
    assert done.returncode == 0
    check_whole(there, guest.used_s())


@pytest.mark.parametrize("what", ["removed", "cut"])
def test_attached(tmp_path: Path, what: str) -> None:
    """The observer has nothing else to do: it ends at once, and says why. The program goes on."""
    guest = Guest(tmp_path, command=[])
    observer = subprocess.Popen(
        [str(FATHOM), "record", "-o", str(guest.profile), "-p", str(guest.pid)], stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: guest.profile.exists() and guest.profile.stat().st_size > 200, 60)
    if what == "removed":
        guest.profile.unlink()
    else:
        os.truncate(guest.profile, 0)
    _, err = observer.communicate(timeout=60)
    done = subprocess.CompletedProcess([], observer.returncode, "", err)
    one_line(done, str(guest.profile), "lost")
    assert done.returncode == 1 and guest.end().returncode == 0


def test_results_folder_removed(tmp_path: Path) -> None:
    """fathom run: no report, a line that says why, and a status that shows it."""
    assert PYTHON
    where = tmp_path / "results"
    guest = Guest(tmp_path, command=[str(FATHOM), "run", "--cpu", "--output-dir", str(where), "--"])
    (profile,) = where.glob("*/*/profile.fathom")
    run(["rm", "-r", where])
    done = guest.end()
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and str(profile) in lines[0] and "was removed" in lines[0], done.stderr
    assert all(line.startswith("fathom: ") for line in lines) and len(lines) <= 2, done.stderr


def as_somebody() -> None:
    """Root may write everywhere."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def test_read_only_folder(tmp_path: Path) -> None:
    """Said before anything runs."""
    for folder in [tmp_path, *tmp_path.parents[:3]]:  # pytest's own are for one user
        folder.chmod(0o755)
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    done = run([*under(folder / "p.fathom"), "touch", "/dev/null"], preexec_fn=as_somebody, cwd="/")
    one_line(done, str(folder / "p.fathom"), "Permission denied")
    assert done.returncode == 1


def test_read_only_file_system(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    if os.geteuid() != 0 or run(["mount", "-t", "tmpfs", "-o", "ro", "none", folder]).returncode != 0:
        pytest.skip("a read-only file system needs the right to mount one")
    try:
        done = run([*under(folder / "p.fathom"), "touch", tmp_path / "ran"])
    finally:
        run(["umount", folder])
    one_line(done, str(folder / "p.fathom"), "Read-only file system")
    assert done.returncode == 1 and not (tmp_path / "ran").exists()


def test_file_system_that_becomes_full(tmp_path: Path) -> None:
    """In the middle, to the page: what is written is there, and readable."""
    folder = tmp_path / "out"
    folder.mkdir()
    if os.geteuid() != 0 or run(["mount", "-t", "tmpfs", "none", folder]).returncode != 0:
        pytest.skip("a file system needs the right to mount one")
    try:
        guest = Guest(tmp_path)
        os.kill(guest.process.pid, signal.SIGSTOP)  # else it writes on between the two looks at its file
        wait_for(lambda: Path(f"/proc/{guest.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        size = sum(f.stat().st_size for f in folder.iterdir())
        assert run(["mount", "-o", f"remount,size={(size >> 12) + 1 << 12}", folder]).returncode == 0
        os.kill(guest.process.pid, signal.SIGCONT)
        done = guest.end()
        assert done.returncode == 0
        if done.stderr:  # a page may have been enough for the rest
            one_line(done, str(guest.profile), "No space left on device", "recorded until then")
        assert report(guest.profile)["samples"] > 0
    finally:
        run(["umount", folder])


# ---- two writers ----


def test_two_writers(tmp_path: Path) -> None:
    """The second is refused, nothing of it runs, and the first one's capture is whole."""
    guest = Guest(tmp_path)
    second = run([*under(guest.profile), "touch", tmp_path / "ran"])
    one_line(second, str(guest.profile), "another fathom is writing to", "%p", "%t", "%r")
    assert second.returncode == 1 and not (tmp_path / "ran").exists()
    observer = run([FATHOM, "record", "-o", guest.profile, "-p", str(guest.pid), "-d", "0.1"])
    one_line(observer, str(guest.profile), "another fathom is writing to")
    assert observer.returncode == 1
    done = guest.end()
    assert (done.returncode, done.stderr) == (0, "")
    check_whole(guest.profile, guest.used_s())
    again = run([*under(guest.profile), "true"])  # it has ended: now it may be written over
    assert (again.returncode, again.stderr) == (0, "")


def test_two_writers_of_another_format(tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    guest = Guest(tmp_path, command=[*under(out, "-f", "speedscope")])
    second = run([*under(out, "-f", "speedscope"), "touch", tmp_path / "ran"])
    one_line(second, str(out), "another fathom is writing to")
    assert second.returncode == 1 and not (tmp_path / "ran").exists()
    done = guest.end()
    assert (done.returncode, done.stderr) == (0, "") and json.loads(out.read_text())["profiles"]


def test_a_killed_writer_leaves_no_lock(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.process.kill()
    guest.process.wait()
    assert report(guest.profile)["samples"] > 0
    again = run([*under(guest.profile), "true"])
    assert (again.returncode, again.stderr) == (0, "")
    guest.end()


def test_names_that_differ(tmp_path: Path) -> None:
    done = run([*under(tmp_path / "a-%p-%t-%r-%%.fathom"), "true"], env=clean_env({"SLURM_PROCID": "3"}))
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = [p.name for p in tmp_path.iterdir()]
    first, pid, stamp, rank, percent = name.split("-")
    assert (first, rank, percent) == ("a", "3", "%.fathom") and pid.isdigit()
    assert abs(time.mktime(time.strptime(stamp, "%Y%m%d_%H%M%S")) - time.mktime(time.gmtime())) < 120


def test_the_process_in_a_name_is_the_one_observed(tmp_path: Path) -> None:
    guest = Guest(tmp_path, command=[])
    done = run([FATHOM, "record", "-o", tmp_path / "out" / "p-%p", "-p", str(guest.pid), "-d", "0.1"])
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "out" / f"p-{guest.pid}").exists()
    assert guest.end().returncode == 0


@pytest.mark.parametrize("name", ["p-%r", "p-%s", "50%"])
def test_names_that_mean_nothing(tmp_path: Path, name: str) -> None:
    done = run([*under(tmp_path / name), "touch", tmp_path / "ran"])
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "%" in done.stderr
    assert not list(tmp_path.iterdir())


def test_names_of_traces(tmp_path: Path) -> None:
    """python -m fathom has the same letters, and the process is the program's own."""
    env = clean_env({"PYTHONPATH": str(ROOT / "python"), "PMI_RANK": "2"})
    code = "import os; print(os.getpid())"
    (tmp_path / "say.py").write_text(code)
    command = [sys.executable, "-m", "fathom", "-q", "-o"]
    done = run([*command, "t-%p-%r-%%.fathom", "say.py"], env=env, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    wait_for(lambda: (tmp_path / f"t-{done.stdout.strip()}-2-%.fathom").exists(), 60)
    wrong = run([*command, "t-%s.fathom", "say.py"], env=env, cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)


# ---- few descriptors, few processes ----

THREADS = """
import json, resource, sys, threading, time
gate = threading.Event()
def spin():
    gate.wait()
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        sum(range(300))
threads = [threading.Thread(target=spin) for _ in range(int(sys.argv[1]))]
for thread in threads: thread.start()
gate.set()
for thread in threads: thread.join()
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps(used.ru_utime + used.ru_stime))
"""


def run_threads(tmp_path: Path, n_threads: int, n_descriptors: int) -> Dict[str, Any]:
    assert PYTHON
    script, profile = tmp_path / "threads.py", tmp_path / "p.fathom"
    script.write_text(THREADS)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n_descriptors, n_descriptors))

    done = run([*under(profile), PYTHON.path, script, str(n_threads)], preexec_fn=limit)
    assert (done.returncode, done.stderr) == (0, ""), done
    result = report(profile)
    result["used_s"] = json.loads(done.stdout)
    result["why"] = " ".join(item["why"] for item in result["coverage"])
    return result


@pytest.mark.statistical
@pytest.mark.parametrize("n_descriptors", [64, 20])
def test_few_descriptors(n_descriptors: int, tmp_path: Path) -> None:
    """Five files of /proc for each thread are four times what there is: they are opened each time. No thread is missing, and no child process is blamed.

    A thread's CPU time is known as of its last sample: a millisecond of each may be missing, some more on a machine that is busy."""
    result = run_threads(tmp_path, 60, n_descriptors)
    assert sum(t["samples"] > 0 for t in result["threads"]) >= 60
    assert sampled_s(result) > 0.85 * result["used_s"], (sampled_s(result), result["used_s"])
    assert "child processes that were not followed" not in result["why"]


@pytest.mark.unaccounted("a thread that could not be looked at has ended for the collector, and is listed twice")
def test_no_descriptor_left(tmp_path: Path) -> None:
    """Not even one for a moment: how often is counted, and the remedy said."""
    result = run_threads(tmp_path, 20, 13)
    assert "too few file descriptors" in result["why"] and "ulimit -n" in result["why"], result["coverage"]
    assert "child processes that were not followed" not in result["why"]


def test_few_processes(tmp_path: Path) -> None:
    """No thread for the ticker: the program runs as it would, and the report says that there are no samples, and why."""
    if os.geteuid() != 0:
        pytest.skip("needs a user who runs nothing else")
    for folder in [tmp_path, *tmp_path.parents[:3]]:
        folder.chmod(0o755)
    where = tmp_path / "out"
    where.mkdir()
    where.chmod(0o777)
    profile = where / "p.fathom"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
        os.setgroups([])
        os.setgid(61234)
        os.setuid(61234)

    done = run([*under(profile), "/bin/sleep", "0.1"], preexec_fn=limit, cwd="/")
    assert (done.returncode, done.stderr) == (0, ""), done
    result = report(profile)
    assert any("ulimit -u" in item["why"] for item in result["coverage"]), result["coverage"]


# ---- the collector ----


def test_killed(tmp_path: Path) -> None:
    """What it had read is there, up to some 100 ms before; the file says that it was cut off, and the program goes on to its end."""
    guest = Guest(tmp_path)
    guest.process.kill()
    guest.process.wait()
    (tmp_path / "go").touch()
    wait_for(lambda: (tmp_path / "used").exists(), 60)
    result = report(guest.profile)
    assert any("cut off" in item["why"] for item in result["coverage"]), result["coverage"]
    assert 0.1 < sampled_s(result) < guest.used_s()


def test_stopped(tmp_path: Path) -> None:
    """The program works on meanwhile, unseen. How much that was is told, and the rest is in samples."""
    guest = Guest(tmp_path)
    guest.process.send_signal(signal.SIGSTOP)
    enough_s = cpu_s(guest.pid) + 1
    wait_for(lambda: cpu_s(guest.pid) > enough_s, 60)
    guest.process.send_signal(signal.SIGCONT)
    done = guest.end()
    assert (done.returncode, done.stderr) == (0, "")
    result, used_s = report(guest.profile), guest.used_s()
    assert any("Fathom itself did not run for" in item["why"] for item in result["coverage"]), result["coverage"]
    told_s = told_cpu_s(result)  # to a tenth of a second
    assert abs(sampled_s(result) + told_s - used_s) < 0.1 + 0.02 * used_s, (sampled_s(result), told_s, used_s)


def test_no_shared_memory_files(tmp_path: Path) -> None:
    """memfd_create() forbidden and /dev/shm full: one line, and nothing runs; or another place was found, and all is whole."""
    if os.geteuid() != 0 or run(["unshare", "-m", "true"]).returncode != 0:
        pytest.skip("a full /dev/shm needs a mount namespace")
    assert PYTHON
    script = tmp_path / "threads.py"
    script.write_text(THREADS)
    profile = tmp_path / "p.fathom"
    mount = 'mount --make-rprivate / && mount -t tmpfs -o size=64k none /dev/shm && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", mount, "sh", *under(profile), PYTHON.path, str(script), "2"]
    done = run(command, preexec_fn=forbid("memfd_create"))
    if done.returncode:
        assert done.stderr.startswith("fathom: ") and done.stderr.count("\n") == 1 and not done.stdout, done
        return
    used_s = json.loads(done.stdout)
    assert done.stderr == "" and abs(sampled_s(report(profile)) - used_s) < 0.05 + 0.1 * used_s


# ---- the clock ----


def test_another_clock(tmp_path: Path) -> None:
    """A program in a time namespace, whose clock is a day ahead of the collector's: what is not seen is told, and both add up to what it used."""
    if os.geteuid() != 0 or run(["unshare", "-T", "--monotonic", "86400", "--fork", "true"]).returncode != 0:
        pytest.skip("no time namespaces here")
    profile = tmp_path / "p.fathom"
    command = [*under(profile), "unshare", "-T", "--monotonic", "86400", "--fork"]
    guest = Guest(tmp_path, command=command)
    done = guest.end()
    assert (done.returncode, done.stderr) == (0, "")
    result, used_s = report(profile), guest.used_s()
    assert abs(sampled_s(result) + told_cpu_s(result) - used_s) < 0.1 + 0.02 * used_s, (result["coverage"], used_s)
    assert any("another time namespace" in c["why"] for c in result["coverage"]), result["coverage"]
    assert not any("Fathom itself did not run" in c["why"] for c in result["coverage"]), result["coverage"]
