# SPDX-License-Identifier: Apache-2.0
"""Whatever Fathom writes is for its owner only, and it does not write where others decide what becomes of it."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest
from capture import ROOT
from guest import FATHOM, clean_env, run
from runs import write_notebook
from tracing import install_plugin

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
SCRIPT = "import warnings\nwarnings.warn('to be logged')\nsum(range(10 ** 6))\n"


def open_umask() -> None:
    os.umask(0)


def fathom(where: Path, *words: Any, **more: Any) -> "subprocess.CompletedProcess[str]":
    more.setdefault("preexec_fn", open_umask)
    done = run([FATHOM, *words], cwd=where, **more)
    assert done.returncode == 0, done.stderr
    return done


def modes(folder: Path) -> Dict[str, int]:
    """Of everything below, without the times in names."""
    return {str(p.relative_to(folder)): stat.S_IMODE(p.lstat().st_mode) for p in sorted(folder.rglob("*"))}


def check_private(folder: Path, least: int) -> Dict[str, int]:
    found = modes(folder)
    assert len(found) >= least, found
    wide = {name: oct(mode) for name, mode in found.items() if mode & 0o077}
    assert not wide, wide
    assert all(mode & 0o700 == 0o700 for name, mode in found.items() if (folder / name).is_dir())
    return found


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "app.py").write_text(SCRIPT)
    return folder


def test_results_are_private(work):
    write_notebook(work / "n.ipynb", ["x = 1", "sum(range(1000))"])
    fathom(work, "run", "app.py")
    fathom(work, "run", "-q", "--repeat", "2", "--trace", "--output-dir", ".fathom/deep/er", "app.py")
    fathom(work, "run", "-q", "n.ipynb")
    names = check_private(work / ".fathom", 15)
    for wanted in ("app.py", "logs.log", "profile.fathom", "profile_results.txt", "report.html", "cells.tsv"):
        assert any(name.endswith("/" + wanted) for name in names), (wanted, list(names))


def test_the_umask_can_narrow_it_further(work):
    fathom(work, "record", "-o", "p.fathom", "--", "true", preexec_fn=lambda: os.umask(0o277) and None)
    assert stat.S_IMODE((work / "p.fathom").stat().st_mode) == 0o400


def test_captures_reports_and_exports_are_private(work, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    fathom(work, "record", "-o", out / "p.fathom", "--memory", "--", sys.executable, "app.py")
    fathom(work, "record", "-o", out / "f.svg", "-f", "flamegraph", "--", sys.executable, "app.py")
    fathom(work, "report", "-o", out / "r.txt", out / "p.fathom")
    fathom(work, "report", "--json", "-o", out / "r.json", out / "p.fathom")
    fathom(work, "view", "--html", out / "v.html", out / "p.fathom")
    for name in ("speedscope", "collapsed", "chrometrace", "perfetto"):
        fathom(work, "export", "-f", name, "-o", out / name, out / "p.fathom")
    check_private(out, 9)


def test_a_symbol_cache_is_private(work):
    cache = work / "cache"
    fathom(work, "record", "-o", "p.fathom", "--", sys.executable, "app.py")
    fathom(work, "report", "p.fathom", env=clean_env({"XDG_CACHE_HOME": str(cache / "xdg")}))
    check_private(cache, 4)


def test_a_file_that_is_there_keeps_its_mode(work):
    """Somebody made it so."""
    (work / "p.fathom").touch()
    (work / "p.fathom").chmod(0o640)
    fathom(work, "record", "-o", "p.fathom", "--", "true")
    assert stat.S_IMODE((work / "p.fathom").stat().st_mode) == 0o640


JOB = """
import os, warnings
os.umask(0)
import fathom
with fathom.job() as job:
    warnings.warn("to be logged")
    sum(range(10 ** 6))
fathom.run_job("app.py")
"""


def python(work: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    path = "%s:%s" % (work / "site", ROOT / "python")
    return run([sys.executable, *words], cwd=work, env=clean_env({"PYTHONPATH": path}), preexec_fn=open_umask)


def test_jobs_and_tests_leave_private_files(work):
    done = python(work, "-c", JOB)
    assert done.returncode == 0, done.stderr
    check_private(work / ".fathom", 10)
    install_plugin(work / "site")
    (work / "test_x.py").write_text("def test_x(): pass\n")
    done = python(work, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--fathom", "test_x.py")
    assert done.returncode == 0, done.stdout + done.stderr
    check_private(work / ".profiles", 3)


# ---- folders of others ----


def check_not_used(work: Path, folder: Path, why: str) -> None:
    done = run([FATHOM, "run", "-q", "app.py"], cwd=work)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"fathom: cannot keep results in .fathom: it {why}; choose another folder with --output-dir\n"
    done = python(work, "-c", JOB)
    assert done.returncode == 1 and "JobError: cannot keep results in" in done.stderr, done.stderr
    assert not list(folder.iterdir())


@needs_root
def test_another_users_results_folder_is_not_used(work):
    (work / ".fathom").mkdir()
    os.chown(work / ".fathom", NOBODY, NOBODY)
    check_not_used(work, work / ".fathom", "belongs to another user")
    fathom(work, "run", "-q", "--output-dir", work / ".fathom", "app.py")  # whoever names it wants it


def test_a_results_folder_that_others_can_write_is_not_used(work):
    (work / ".fathom").mkdir()
    (work / ".fathom").chmod(0o1777)
    check_not_used(work, work / ".fathom", "can be written by others")


@needs_root
def test_another_users_link_is_not_followed(work, tmp_path):
    (tmp_path / "mine").mkdir()
    (work / ".fathom").symlink_to(tmp_path / "mine")
    fathom(work, "run", "-q", "app.py")  # one's own is
    assert list((tmp_path / "mine").glob("app/*/profile.fathom"))
    shutil.rmtree(tmp_path / "mine")
    (tmp_path / "mine").mkdir()
    os.chown(work / ".fathom", NOBODY, NOBODY, follow_symlinks=False)
    done = run([FATHOM, "run", "-q", "app.py"], cwd=work)
    assert done.returncode == 1 and "it is a link of another user's" in done.stderr
    assert not list((tmp_path / "mine").iterdir())
