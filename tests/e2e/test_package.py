"""The wheel holds everything, and what it installs runs."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import List

import pytest


def run(command: List[str], **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)  # type: ignore


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    result = run(["make", "wheel", "WHEEL_DIR=%s" % out], cwd=root)
    assert result.returncode == 0, result.stdout
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bin/ of a fresh environment with nothing but the wheel in it."""
    venv = tmp_path_factory.mktemp("venv")
    assert run([sys.executable, "-m", "venv", str(venv)]).returncode == 0
    result = run([str(venv / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--no-index", str(wheel)])
    assert result.returncode == 0, result.stdout
    return venv / "bin"


def test_wheel_holds_program_and_package(root: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    expected = {
        "fathom/__init__.py",
        "fathom/__main__.py",
        "fathom/py.typed",
        "fathom/_bin/fathom",
        "fathom/_notebook.py",
    }
    expected |= {"fathom/_startup/sitecustomize.py", "fathom/_jobs.py", "fathom/_magics.py", "fathom/pytest_plugin.py"}
    expected |= {"fathom/_startup/_fathom_trace.py"}
    expected |= {"fathom/include/fathom.h", "fathom/include/TracyCompat.h"}
    if list((root / "core" / "agent").glob("*.c")):
        expected.add("fathom/_agent.abi3.so")
    assert expected <= names
    assert "[pytest11]\nfathom = fathom.pytest_plugin\n" in entry_points, "pytest finds the plugin by it"
    assert modes["fathom/_bin/fathom"] & 0o111, "the program must be executable"


def test_wheel_serves_every_python(wheel: Path) -> None:
    # One build serves every CPython: the file name must not tie it to the one that built it.
    assert "-py3-none-linux_" in wheel.name


def test_installed_program_runs(root: Path, build: Path, installed: Path) -> None:
    expected = run([str(build / "fathom"), "--version"]).stdout
    assert expected.startswith("fathom ")
    assert run([str(installed / "fathom"), "--version"]).stdout == expected
    assert run([str(installed / "python"), "-m", "fathom", "--version"]).stdout == expected


def test_package_and_program_have_one_version(installed: Path) -> None:
    result = run([str(installed / "python"), "-c", "import fathom; print('fathom', fathom.__version__)"])
    assert result.stdout == run([str(installed / "fathom"), "--version"]).stdout


def test_exit_status_passes_through(installed: Path) -> None:
    assert run([str(installed / "fathom"), "no-such-command"]).returncode == 2


def test_ignored_signals_of_the_entry_script_are_not_handed_on(installed: Path, tmp_path: Path) -> None:
    # Python ignores SIGPIPE (13) and SIGXFSZ (25); a program behind exec would inherit that.
    fake = tmp_path / "fathom"
    fake.write_text("#!/bin/sh\ngrep SigIgn /proc/$$/status\n")
    fake.chmod(0o755)
    code = "import fathom.__main__ as m; m.program_path = lambda: %r; m.program([])" % str(fake)
    result = run([str(installed / "python"), "-c", code])
    ignored = int(result.stdout.split()[1], 16)
    assert ignored & (1 << 12 | 1 << 24) == 0


def test_the_entry_script_leaves_the_environment_alone(installed: Path, tmp_path: Path) -> None:
    """Python sets LC_CTYPE in the C locale; a program that is no Python would never have seen it, and the report would not be ASCII."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for extra in ({}, {"LC_CTYPE": "C"}, {"LANG": "C"}, {"LC_ALL": "C"}, {"LC_CTYPE": "C.UTF-8"}):
        result = run([str(installed / "fathom"), "run", "/usr/bin/env"], cwd=tmp_path, env={**environment, **extra})
        seen = {line for line in result.stdout.splitlines() if line.startswith(("LC_", "LANG"))}
        assert seen == {"%s=%s" % pair for pair in extra.items()}, result.stdout
        assert result.stdout.isascii() or "UTF-8" in extra.get("LC_CTYPE", ""), result.stdout


def test_installed_package_traces(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\ndef f(): pass\nfor _ in range(12): f()\nprint(sys.argv[1:])\n")
    result = run([str(installed / "python"), "-m", "fathom", "script.py", "a"], cwd=tmp_path)
    assert result.returncode == 0 and result.stdout.startswith("['a']"), result.stdout
    assert " 12 " in result.stdout and "f (script.py:2)" in result.stdout
    assert (tmp_path / "script.fathom").exists()


def test_missing_program_is_one_line(root: Path, tmp_path: Path) -> None:
    package = tmp_path / "fathom"
    package.mkdir()
    for name in ("__init__.py", "__main__.py"):
        (package / name).write_bytes((root / "python" / "fathom" / name).read_bytes())
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PATH": "/nonexistent"}
    result = run([sys.executable, "-m", "fathom", "report", "x"], env=environment)
    assert result.returncode == 1
    assert len(result.stdout.splitlines()) == 1 and "reinstall" in result.stdout


SESSION = """
import glob, json, subprocess, sys
import fathom
def f(): return sum(range(3000000))
if __name__ == "__main__":
    value = fathom.run_job(f, output_dir="runs").value
    with fathom.job(output_dir="runs") as job: f()
    subprocess.run([sys.argv[1], "run", "-q", "--output-dir", "runs", "n.ipynb"], check=True)
    (log,) = glob.glob("runs/n/*/logs.log")
    print(json.dumps([value, job.report.json["samples"] > 0, open(log).read().split()[-1]]))
"""


def test_installed_package_runs_jobs_and_notebooks(installed: Path, tmp_path: Path) -> None:
    """What runs inside the target is found from the wheel, too."""
    (tmp_path / "session.py").write_text(SESSION)
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": "import logging; logging.error('logged')"}
    (tmp_path / "n.ipynb").write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": [cell]}))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    result = run([str(installed / "python"), "session.py", str(installed / "fathom")], cwd=tmp_path, env=environment)
    assert result.stdout.splitlines()[-1] == '[4499998500000, true, "logged"]', result.stdout


def test_make_install_brings_them_too(root: Path, build: Path, tmp_path: Path) -> None:
    """Without a wheel the program in bin finds them in lib/fathom."""
    result = run(["meson", "install", "-C", str(build), "--no-rebuild", "--destdir", str(tmp_path)])
    assert result.returncode == 0, result.stdout
    (program,) = tmp_path.glob("**/bin/fathom")
    (tmp_path / "s.py").write_text("import warnings; warnings.warn('seen')")
    result = run([str(program), "run", "-q", "--output-dir", "runs", "s.py"], cwd=tmp_path)
    (log,) = (tmp_path / "runs" / "s").glob("*/logs.log")
    assert result.returncode == 0 and log.read_text().endswith("UserWarning: seen\n")
