# SPDX-License-Identifier: Apache-2.0
"""`fathom run` of a program, and what it leaves in the results folder."""

import functools
import json
import os
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import pytest
from capture import ROOT, Capture, Python
from guest import FATHOM, LONG, Arg, run, some_pythons

VENV_PYTHON = ROOT / ".venv" / "bin" / "python"
LOG_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([A-Z]+) (\S+) (.*?):(\d+): (.*)")


class LogRecord(NamedTuple):
    time: str
    level: str
    logger: str
    file: str
    line: int
    message: str


class Results:
    """One results folder."""

    def __init__(self, folder: Path, done: "subprocess.CompletedProcess[str]") -> None:
        self.folder, self.done = folder, done

    @functools.cached_property
    def capture(self) -> Capture:
        return Capture(self.folder / "profile.fathom", self.done)

    @property
    def report(self) -> Dict[str, Any]:
        return self.capture.report

    @functools.cached_property
    def meta(self) -> Dict[str, str]:
        lines = (line.split("|", 2) for line in self.capture.raw.get("meta", []))
        return {key: value for _, key, value in lines}

    @functools.cached_property
    def records(self) -> List[LogRecord]:
        """Of logs.log; every line must be one, or an indented part of the one before."""
        found = []
        for line in (self.folder / "logs.log").read_text().splitlines():
            if line.startswith("    ") and found:
                found[-1] = found[-1]._replace(message=found[-1].message + "\n" + line[4:])
                continue
            match = LOG_LINE.fullmatch(line)
            assert match, line
            found.append(LogRecord(*match.groups()[:4], int(match[5]), match[6]))  # type: ignore[call-arg]
        return found


def fathom_run(
    where: Path, target: Sequence[Arg], options: Sequence[Arg] = (), python: Optional[Arg] = None, **more: Any
) -> Results:
    """Results go to where/results, one folder a call; `more` goes to guest.run."""
    chosen: List[Arg] = ["--python", python] if python else []
    out = where / "results"
    before = set(out.glob("*/*"))
    done = run([FATHOM, "run", "--quiet", "--output-dir", out, *chosen, *options, *target], **more)
    made = set(out.glob("*/*")) - before
    assert len(made) == 1, (done.stdout, done.stderr)
    return Results(made.pop(), done)


def user_env() -> Dict[str, str]:
    """That of somebody at a terminal: nothing of the tests' own Python."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FATHOM_", "VIRTUAL_ENV"))}
    return {**env, "LC_ALL": "C.UTF-8"}


class Run:
    """`fathom run app.py` as typed in a folder."""

    def __init__(self, done: "subprocess.CompletedProcess[str]", folder: Path) -> None:
        self.done, self.folder = done, folder
        self.text, self.errors, self.code = done.stdout, done.stderr, done.returncode

    @property
    def results(self) -> Path:
        """The newest results folder."""
        return sorted(p for p in (self.folder / ".fathom").glob("*/*") if p.is_dir())[-1]

    def report(self, *options: object) -> str:
        command = [FATHOM, "report", *map(str, options), self.results]
        return subprocess.run(command, env=user_env(), stdout=subprocess.PIPE, text=True, check=True).stdout


def run_script(
    folder: Path,
    python: Python,
    source: Optional[str],
    *options: str,
    name: str = "app.py",
    args: Sequence[str] = (),
    env: Optional[Dict[str, str]] = None,
) -> Run:
    """Writes the source into the folder (None: it is there) and runs it there."""
    if source is not None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(source))
    command = [FATHOM, "run", "--python", python.path, *options, name, *args]
    return Run(run(command, cwd=folder, env={**user_env(), **(env or {})}), folder)


def one_python(newest: bool = False) -> List[Python]:
    """The oldest or the newest one, where versions hardly matter; some_pythons() when there is time."""
    found = some_pythons()
    return found if LONG else [found[-1] if newest else found[0]]


def python_with(*modules: str) -> Path:
    """The tests' own Python, if it has these libraries (scripts/python-programs.txt)."""
    code = "import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in %r))" % (modules,)
    if not VENV_PYTHON.exists() or subprocess.run([VENV_PYTHON, "-c", code]).returncode != 0:
        pytest.skip("needs %s; scripts/bootstrap.sh test brings it" % ", ".join(modules))
    return VENV_PYTHON


def write_notebook(path: Path, cells: Sequence[str], **metadata: Any) -> Path:
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": text} for text in cells]
    text = [{"cell_type": "markdown", "metadata": {}, "source": ["# A title"]}]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": text + code}))
    return path


# A few tenths of a second at a known line; process_time itself is a system call on some machines.
BURN = """
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(2000))
"""
