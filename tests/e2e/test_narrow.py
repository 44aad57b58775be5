# SPDX-License-Identifier: Apache-2.0
"""Where less is allowed than usual: rules of containers, limits, folders that cannot be written. The program runs as it would alone, and
what the profile lacks is said."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import ROOT, Capture, standard_error_s
from guest import FATHOM, clean_env, engines, pick_python, report, run, under
from sandbox import CALLS, forbid

PYTHON = pick_python()
pytestmark = [pytest.mark.skipif(PYTHON is None, reason="no Python to run"), pytest.mark.statistical]

# Seven tenths here, three tenths there, by the program's own clock; and a wait.
PROGRAM = """
import subprocess, sys, time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(300))
def seven():
    spin(0.49)
def three():
    spin(0.21)
seven()
three()
time.sleep(0.15)
subprocess.run([sys.executable, "-c", "sum(range(3000000))"], check=True)
print("well")
sys.exit(7)
"""


def write(tmp_path: Path, text: str = PROGRAM) -> List[str]:
    assert PYTHON
    script = tmp_path / "program.py"
    script.write_text(text)
    return [PYTHON.path, str(script)]


def check_split(profile: Path) -> Dict[str, Any]:
    capture = Capture(profile, subprocess.CompletedProcess([], 0))
    seven, three = capture.seconds("seven"), capture.seconds("three")
    error = standard_error_s(0.49, capture.samples)
    assert abs(seven - 0.49) < 3 * error + 0.02 and abs(three - 0.21) < 3 * error + 0.02, (seven, three, error)
    assert capture.report["failed_unwinds"] <= 0.005 * capture.report["samples"]
    assert len(capture.report["processes"]) == 2
    return capture.report


def why_of(result: Dict[str, Any], what: str) -> str:
    return " ".join(item["why"] for item in result["coverage"] if what in item["what"])


# What older container rules forbid, and what the strictest may.
RULES = {
    "container": (["perf_event_open", "process_vm_readv", "ptrace", "kcmp", "pidfd_open"], errno.EPERM),
    "everything": (list(CALLS), errno.ENOSYS),
}


@pytest.mark.parametrize("rules", list(RULES))
def test_forbidden_calls(rules: str, tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    names, error = RULES[rules]
    done = run([*under(profile), *write(tmp_path)], preexec_fn=forbid(*names, error=error))
    assert (done.returncode, done.stdout, done.stderr) == (7, "well\n", "")
    result = check_split(profile)
    assert result["engine"] == "ticker"
    # Most of the wait of 0.15 s stands where it was: the memory of a thread that waits is read through /proc.
    assert sum(f["wait_s"] for f in result["functions"] if f["name"] == "<module>") >= 0.07 and not why_of(
        result, "wait"
    )


def test_perf_asked_for_and_refused(tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    command = [*under(profile, "--engine", "perf"), *write(tmp_path)]
    done = run(command, preexec_fn=forbid("perf_event_open"))
    assert (done.returncode, done.stdout, done.stderr) == (7, "well\n", "")
    result = check_split(profile)
    assert result["engine"] == "ticker"
    assert "refused" in why_of(result, "perf engine") and not why_of(result, "system time")


CHILD = """
import subprocess, sys
from sandbox import forbid
subprocess.run([sys.executable, "-c", "sum(range(20000000))"], preexec_fn=forbid("perf_event_open"), check=True)
"""


@pytest.mark.skipif("perf" not in engines(), reason="no perf events here")
def test_perf_refused_in_a_child_only(tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    env = clean_env({"PYTHONPATH": os.pathsep.join(sys.path)})
    done = run(
        [*under(profile, "--engine", "perf"), sys.executable, *write(tmp_path, CHILD)[1:]],
        env=env,
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = report(profile)
    assert "refused there (Operation not permitted)" in why_of(result, "engine perf in 1 process")
    child = result["processes"][1]["pid"]
    assert sum(t["samples"] for t in result["threads"] if t["pid"] == child) >= 30


JOB = """
import json, sys, time
import fathom
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(300))
with fathom.job(output_dir="runs") as job:
    burn(0.3)
print(json.dumps(sum(f["total_s"] for f in job.report.json["functions"] if f["name"] == "burn")))
"""


def test_job_where_processes_have_no_descriptors(tmp_path: Path) -> None:
    env = clean_env({"PYTHONPATH": str(ROOT / "python")})
    done = run(write(tmp_path, JOB), cwd=tmp_path, env=env, preexec_fn=forbid("pidfd_open"))
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[-1]) == pytest.approx(0.3, abs=0.05), done


def test_no_place_for_a_cache(tmp_path: Path) -> None:
    """A home that cannot be written: nothing is kept there, and nothing is said of it."""
    env = clean_env({"HOME": "/proc/nowhere"})
    del env["XDG_CACHE_HOME"]
    assert PYTHON
    write(tmp_path)
    done = run([FATHOM, "run", "--python", PYTHON.path, "program.py"], cwd=tmp_path, env=env)
    assert (done.returncode, done.stderr) == (7, "") and "seven" in done.stdout


@pytest.mark.parametrize("size", ["64k", "256k"])
def test_results_on_a_full_disk(size: str, tmp_path: Path) -> None:
    """What does not fit is a line each: the profile itself, or the page only. The report is printed, of what there is."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk]).returncode != 0:
        pytest.skip("a small file system needs the right to mount one")
    assert PYTHON
    write(tmp_path)
    try:
        done = run([FATHOM, "run", "--python", PYTHON.path, tmp_path / "program.py"], cwd=disk)
    finally:
        run(["umount", disk])
    assert done.returncode == 7 and done.stdout.startswith("well\n"), done
    assert all("cannot write" in line and "No space left" in line for line in done.stderr.splitlines()), done.stderr
    if size == "256k":
        assert "seven" in done.stdout and done.stderr.count("\n") <= 1, done
    else:
        assert "cut off" in done.stdout and done.stderr.count("\n") <= 2, done


def test_out_of_memory_beside_us(memory_cgroup: Path, tmp_path: Path) -> None:
    """A container's limit counts for Fathom as well. The kernel ends the larger one, which is the program; the report is whole.

    Should it need a second one while the memory of the first is still being given back, that is Fathom: then the capture is whole up to there.
    """
    body = (
        "def hog():\n    kept = []\n    while True:\n        kept.append(b'x' * (1 << 20)); sum(range(30000))\nhog()\n"
    )
    assert PYTHON
    write(tmp_path, body)

    def enter() -> None:
        (memory_cgroup / "cgroup.procs").write_text(str(os.getpid()))

    done = run([FATHOM, "run", "--python", PYTHON.path, "program.py"], cwd=tmp_path, preexec_fn=enter)
    if done.returncode == -9:
        functions = report(next(tmp_path.glob(".fathom/*/*/profile.fathom")))["functions"]
        assert any(function["name"] == "hog" for function in functions)
        return
    assert (done.returncode, done.stderr) == (137, ""), done
    assert "signal 9" in done.stdout and "hog" in done.stdout


def test_dump_where_reading_memory_is_forbidden(tmp_path: Path) -> None:
    """/proc has the memory, too."""
    command = write(tmp_path, "import time\ndef rest():\n    print('here', flush=True)\n    time.sleep(60)\nrest()\n")
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=clean_env()) as process:
        try:
            assert process.stdout and process.stdout.readline()
            done = run([FATHOM, "dump", "-p", str(process.pid)], preexec_fn=forbid("process_vm_readv", "ptrace"))
        finally:
            process.kill()
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "rest (" in done.stdout and "<module> (" in done.stdout, done.stdout
