# SPDX-License-Identifier: Apache-2.0
"""The runner of tests/chaos notices what it is there for: it is given a Fathom that does harm, and has to say so."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import pytest
from capture import ROOT
from guest import clean_env

RUNNER = ROOT / "tests" / "chaos" / "run.py"

# Runs what stands behind `--`, and then does what FAKE says. Every third run, counted in a file, where it does harm now and then.
FATHOM = """#!{python}
import os, signal, subprocess, sys, time
if sys.argv[1] == "doctor": sys.exit()
command, harm = sys.argv[sys.argv.index("--") + 1:], os.environ["FAKE"]
with open({counter!r}, "a+") as file:
    file.write("x"); file.seek(0); n = len(file.read())
status = subprocess.call(command)
sys.stdout.flush()
if harm == "crash" and n % 3 == 0: os.kill(os.getpid(), signal.SIGSEGV)
if harm == "shell" and n % 3 == 0: sys.exit(128 + signal.SIGSEGV)
if harm == "status" and n % 3 == 0: sys.exit(3)
if harm == "hang": time.sleep(600)
if harm == "waits":
    while True: time.sleep(0.005)
if harm == "spin":
    while True: pass
if harm == "output": print("one line more")
if harm == "error": print("one line more", file=sys.stderr)
if harm == "child":
    if os.fork() == 0: os.kill(os.getpid(), signal.SIGSEGV)
    os.wait()
sys.exit(status if status >= 0 else 128 - status)
"""
GUEST = """/* A program that counts.
 *
 * chaos: case well well
 * chaos: case ill ends=SIGABRT ill
 */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    printf("%d %s\\n", argc, argv[2]);
    fflush(stdout);
    if (argv[2][0] == 'i')
        abort();
    return 0;
}
"""


class Runner(NamedTuple):
    folder: Path

    def run(self, harm: str, *options: str, guest: str = GUEST) -> Dict[str, Any]:
        (self.folder / "programs").mkdir(exist_ok=True)
        (self.folder / "programs" / "counts.c").write_text(guest)
        fathom = self.folder / "fathom-fake"
        fathom.write_text(FATHOM.format(python=sys.executable, counter=str(self.folder / "n")))
        fathom.chmod(0o755)
        command = [
            sys.executable,
            RUNNER,
            "--fathom",
            fathom,
            "--folder",
            self.folder / "out",
            "--result",
            self.folder / "r",
        ]
        command += ["--programs-from", self.folder / "programs", "--idle", "3", "--extra", "2"]
        words = [str(word) for word in [*command, "--modes", "ticker-1k", *options]]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, env=clean_env({"FAKE": harm}), timeout=240)
        result: Dict[str, Any] = json.loads((self.folder / "r").read_text())
        assert done.returncode == (1 if result["failed"] or not result["passed"] else 0), done.stdout
        last = done.stdout.splitlines()[-1]
        assert last == f"{result['passed']} passed, {result['failed']} failed"
        result["text"] = done.stdout
        return result

    @property
    def kept(self) -> List[Path]:
        return sorted((self.folder / "out" / "failures").glob("*"))


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_good_runs_pass_and_leave_nothing(runner: Runner) -> None:
    result = runner.run("nothing", "--each", "3", "--seed", "7")
    assert (result["passed"], result["failed"]) == (6, 0)
    assert "seed 7" in result["text"] and not runner.kept


@pytest.mark.parametrize("harm", ["crash", "shell", "status"])
def test_harm_now_and_then_is_counted_and_not_tried_again(runner: Runner, harm: str) -> None:
    result = runner.run(harm, "--each", "9", "--programs", "counts:well", "--jobs", "1")
    assert (result["passed"], result["failed"]) == (6, 3), result["text"]
    assert len((runner.folder / "n").read_text()) == 9
    assert ("exit 3" if harm == "status" else "SIGSEGV") in (runner.kept[0] / "cause").read_text()
    assert (runner.kept[0] / "command").read_text().count("record") == 1


@pytest.mark.parametrize(
    "harm,cause",
    [("hang", "hangs"), ("waits", "hangs"), ("output", "standard output"), ("error", "standard error")],
)
def test_harm_has_a_name(runner: Runner, harm: str, cause: str) -> None:
    result = runner.run(harm, "--each", "1", "--programs", "counts:well")
    assert (result["passed"], result["failed"]) == (0, 1)
    assert cause in (runner.kept[0] / "cause").read_text()


def test_a_program_without_progress_is_stopped_by_its_cpu_time(runner: Runner) -> None:
    result = runner.run("spin", "--each", "1", "--programs", "counts:well")
    assert (result["passed"], result["failed"]) == (0, 1)
    assert "of CPU" in (runner.kept[0] / "cause").read_text()


def test_a_core_that_nobody_asked_about_is_found(runner: Runner) -> None:
    if Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "/")):
        pytest.skip("this system keeps cores elsewhere")
    result = runner.run("child", "--each", "1", "--programs", "counts:well")
    assert (result["passed"], result["failed"]) == (0, 1)
    assert "left a core" in (runner.kept[0] / "cause").read_text()
    assert "SIGSEGV" in (runner.kept[0] / "backtrace.txt").read_text()


def test_a_program_that_fails_without_us_is_no_pass(runner: Runner) -> None:
    result = runner.run("nothing", "--each", "2", guest=GUEST.replace("ends=SIGABRT", "ends=SIGSEGV"))
    assert result["failed"] == 1 and "without Fathom" in result["text"]


def test_how_many_runs_make_sure() -> None:
    sys.path.insert(0, str(RUNNER.parent))
    try:
        module = importlib.import_module("run")
        guests = importlib.import_module("guests")
    finally:
        sys.path.remove(str(RUNNER.parent))
    n = module.runs_needed(0.01, 0.99)
    assert (n, 0.99**n <= 0.01 < 0.99 ** (n - 1)) == (459, True)
    names = [guest.name for guest in guests.all_guests()]
    assert len(names) == len(set(names)) > 60
