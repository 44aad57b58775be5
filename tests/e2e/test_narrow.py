"""Where less is allowed than usual: rules of containers, limits, folders that cannot be written. The program runs as it would alone, and
what the profile lacks is said."""

import errno
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import Capture, standard_error_s
from guest import pick_python, run, under
from sandbox import CALLS, forbid

PYTHON = pick_python()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Python to run")

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
    assert check_split(profile)["engine"] == "ticker"


def test_perf_asked_for_and_refused(tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    command = [*under(profile, "--engine", "perf"), *write(tmp_path)]
    done = run(command, preexec_fn=forbid("perf_event_open"))
    assert (done.returncode, done.stdout, done.stderr) == (7, "well\n", "")
    result = check_split(profile)
    assert result["engine"] == "ticker"
    assert "refused" in why_of(result, "engine perf") and not why_of(result, "system time")
