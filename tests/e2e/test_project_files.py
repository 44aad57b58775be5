# SPDX-License-Identifier: Apache-2.0
"""Files of a project, and whether they are obeyed: not when somebody else can change them, and never in what decides over more than the measurement."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict

import pytest
from guest import FATHOM, clean_env, run

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
# A key that says nothing of itself, with a value that shows whether it was taken.
WRONG = "[tool.fathom]\nrate = 'fast'\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """<tmp>/project/inner, which is where commands run: the file is found on the way up."""
    inner = tmp_path / "project" / "inner"
    inner.mkdir(parents=True, mode=0o755)
    (inner.parent).chmod(0o755)
    return inner


def fathom(project: Path, *words: Any, **env: str) -> "subprocess.CompletedProcess[str]":
    return run([FATHOM, *words], timeout=60, cwd=project, env=clean_env(env))


def commands(project: Path) -> Dict[str, "subprocess.CompletedProcess[str]"]:
    """Both that take defaults from a project."""
    return {
        "run": fathom(project, "run", "-q", "--cpu", "true"),
        "record": fathom(project, "record", "-o", "out.fathom", "--", "true"),
    }


def check_not_obeyed(project: Path, why: str) -> None:
    for name, done in commands(project).items():
        assert done.returncode == 0, (name, done.stderr)
        assert done.stderr.count("\n") == 1, (name, done.stderr)
        assert f"{project.parent}/pyproject.toml is ignored: {why}; " in done.stderr, (name, done.stderr)


def test_our_own_file_is_obeyed(project):
    (project.parent / "pyproject.toml").write_text(WRONG)
    for done in commands(project).values():
        assert done.returncode == 2 and "rate must be a whole number, not 'fast'" in done.stderr


@needs_root
def test_another_users_file_is_not_obeyed(project):
    file = project.parent / "pyproject.toml"
    file.write_text(WRONG)
    os.chown(file, NOBODY, NOBODY)
    check_not_obeyed(project, "it belongs to another user")


@needs_root
def test_roots_file_is_obeyed_by_others():
    """As in a container whose image brings the project."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to other users
        os.chmod(folder, 0o755)
        Path(folder, "pyproject.toml").write_text(WRONG)
        done = run([FATHOM, "record", "--", "true"], cwd=folder, preexec_fn=lambda: os.setuid(NOBODY))
    assert done.returncode == 2 and "rate must be" in done.stderr


@needs_root
def test_a_file_in_another_users_folder_is_not_obeyed(project):
    (project.parent / "pyproject.toml").write_text(WRONG)
    os.chown(project.parent, NOBODY, NOBODY)
    check_not_obeyed(project, "its folder belongs to another user")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_file_in_a_folder_that_others_can_write_is_not_obeyed(project, mode):
    (project.parent / "pyproject.toml").write_text(WRONG)
    if mode == 0o775:
        if os.geteuid() != 0:
            pytest.skip("only root can give folders to another group")
        os.chown(project.parent, 0, NOBODY)
    project.parent.chmod(mode)
    check_not_obeyed(project, "its folder can be written by others")


def test_a_file_that_others_can_write_is_not_obeyed(project):
    file = project.parent / "pyproject.toml"
    file.write_text(WRONG)
    file.chmod(0o666)
    check_not_obeyed(project, "it can be written by others")


def test_a_link_is_not_obeyed(project):
    (project / "elsewhere").write_text(WRONG)
    (project.parent / "pyproject.toml").symlink_to(project / "elsewhere")
    check_not_obeyed(project, "it is a symbolic link")


def test_a_fifo_is_not_waited_for(project):
    os.mkfifo(project.parent / "pyproject.toml")
    check_not_obeyed(project, "it is not a regular file")


def test_a_fifo_in_a_folder_that_others_can_write_is_not_waited_for(project):
    os.mkfifo(project.parent / "pyproject.toml")
    project.parent.chmod(0o777)
    check_not_obeyed(project, "its folder can be written by others")


def test_a_file_that_has_nothing_for_fathom_costs_no_line(project):
    """Most of those that are not believed: a project that is mounted into a container."""
    (project.parent / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    project.parent.chmod(0o777)
    for done in commands(project).values():
        assert (done.returncode, done.stderr) == (0, "")


def test_scripts_are_not_searched_below_a_folder_that_others_can_write(project):
    (project.parent / ".git").mkdir()
    (project.parent / "theirs").mkdir()
    (project.parent / "theirs" / "job.py").write_text("print('ran')")
    assert fathom(project, "run", "-q", "job.py").stdout == "ran\n"
    project.parent.chmod(0o1777)
    done = fathom(project, "run", "-q", "job.py")
    assert done.returncode == 1 and done.stdout == ""
    assert "there is no file or program named job.py" in done.stderr


@pytest.mark.parametrize("key", ["python", "listen", "token", "output-dir", "output_dir"])
def test_what_runs_who_watches_and_where_files_go_is_not_for_a_projects_file(project, key):
    evil = project / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {project}/ran\n")
    evil.chmod(0o755)
    (project / "x.py").write_text("")
    value = {"python": str(evil), "listen": "0"}.get(key, str(project / "taken"))
    (project.parent / "pyproject.toml").write_text(f"[tool.fathom]\n{key} = '{value}'\n")
    done = fathom(project, "run", "-q", "x.py")
    option = key.replace("_", "-")
    assert done.returncode == 2 and done.stdout == ""
    assert f"line 2: {option} is not for a project's file; give --{option}" in done.stderr
    assert not (project / "ran").exists() and not (project / "taken").exists()


def test_a_token_is_not_for_a_projects_file_of_record_either(project):
    (project.parent / "pyproject.toml").write_text("[tool.fathom]\ntoken = 'known'\n")
    done = fathom(project, "record", "--", "true")
    assert done.returncode == 2 and "line 2: token is not for a project's file" in done.stderr


def test_options_for_programs_are_not_for_a_projects_file(project):
    kept = project / "kept"
    kept.write_text("mine")
    (project.parent / "pyproject.toml").write_text(f"[tool.fathom]\ntell-results = '{kept}'\n")
    done = fathom(project, "run", "-q", "true")
    assert done.returncode == 2 and "has no 'tell-results'" in done.stderr
    assert kept.read_text() == "mine"


def test_a_name_does_not_lead_out_of_the_output_dir(project):
    for name in ("../up", "a/../../up", ".."):
        (project.parent / "pyproject.toml").write_text(f"[tool.fathom]\nname = '{name}'\n")
        done = fathom(project, "run", "-q", "true")
        assert done.returncode == 2 and "--name wants a folder below the output dir" in done.stderr
    (project.parent / "pyproject.toml").write_text("[tool.fathom]\nname = 'a..b/c..'\n")
    assert fathom(project, "run", "-q", "true").returncode == 0
    assert list(project.parent.glob(".fathom/a..b/c../*/profile.fathom"))


def test_variables_may_say_all_of_it(project):
    done = fathom(project, "run", "-q", "true", FATHOM_OUTPUT_DIR=str(project / "mine"))
    assert done.returncode == 0 and list(project.glob("mine/true/*/profile.fathom"))
