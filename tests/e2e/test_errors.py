# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong is one sentence on standard error, with what to do about it, and an exit code that is not 0."""

import os
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any, List

import pytest
from capture import BUILD
from guest import FATHOM, clean_env, run


@pytest.fixture(scope="module")
def captures(tmp_path_factory: Any) -> Path:
    """A folder with a whole capture, one that was cut off, others that are none, and a results folder."""
    folder: Path = tmp_path_factory.mktemp("captures")
    subprocess.run([BUILD / "tests" / "known_profile", folder / "whole.fathom"], check=True, stdout=subprocess.PIPE)
    data = (folder / "whole.fathom").read_bytes()
    (folder / "cut.fathom").write_bytes(data[: len(data) // 2])
    (folder / "empty.fathom").touch()
    (folder / "junk.fathom").write_bytes(b"junk" * 1000)
    for name, files in (("none", []), ("one", ["profile.fathom"]), ("two", ["profile_1.fathom", "profile_2.fathom"])):
        (folder / name).mkdir()
        for file in files:
            shutil.copy(folder / "whole.fathom", folder / name / file)
    return folder


def fails(command: List[Any], code: int, *words: str, **more: Any) -> None:
    done = run([FATHOM, *command], **more)
    lines = done.stderr.splitlines()
    assert done.returncode == code, (command, done.returncode, done.stderr)
    assert len(lines) == 1 and lines[0].startswith("fathom: "), (command, done.stderr)
    for word in words:
        assert word in lines[0], (command, lines[0])


READERS = [["report"], ["export", "-f", "collapsed"], ["view", "--html", "x.html"], ["diff", "whole.fathom"]]


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r[0])
def test_what_is_no_capture(captures: Path, reader: List[str]) -> None:
    for name, words in (
        ("nowhere.fathom", ["there is no nowhere.fathom", "name a capture"]),
        ("empty.fathom", ["empty.fathom is empty"]),
        ("junk.fathom", ["junk.fathom is not a Fathom profile"]),
        ("none", ["none is a folder without a profile.fathom", "name a capture"]),
    ):
        fails([*reader, name], 1, *words, cwd=captures)
    if os.getuid():
        (captures / "secret.fathom").touch(mode=0)
        fails([*reader, "secret.fathom"], 1, "Permission denied", cwd=captures)


def sum_of(collapsed: str) -> int:
    return sum(int(line.rsplit(" ", 1)[1]) for line in collapsed.splitlines())


def test_results_folders_are_captures(captures: Path) -> None:
    whole = run([FATHOM, "export", "-f", "collapsed", "whole.fathom"], cwd=captures).stdout
    assert whole and run([FATHOM, "export", "-f", "collapsed", "one/"], cwd=captures).stdout == whole
    assert run([FATHOM, "view", "--html", "one.html", "one"], cwd=captures).returncode == 0
    twice = run([FATHOM, "export", "-f", "collapsed", "two"], cwd=captures)
    assert twice.returncode == 0 and sum_of(twice.stdout) == 2 * sum_of(whole)
    fails(["diff", "whole.fathom"], 1, "whole.fathom is one capture", "compare", cwd=captures)


def test_a_folder_of_captures_of_tests(captures: Path) -> None:
    """As `snakeviz .profiles/` is typed: one is shown, of several one has to be named."""
    folder = captures / ".profiles"
    folder.mkdir()
    for i, name in enumerate(("b", "a", "d", "c", "e")):
        (folder / (name + ".fathom")).write_bytes((captures / "whole.fathom").read_bytes())
        (folder / (name + ".prof")).touch()
        if not i:
            whole = run([FATHOM, "export", "-f", "collapsed", "whole.fathom"], cwd=captures).stdout
            assert run([FATHOM, "export", "-f", "collapsed", ".profiles/"], cwd=captures).stdout == whole
    told = ".profiles/a.fathom, .profiles/b.fathom, .profiles/c.fathom and 2 more"
    fails(["report", ".profiles"], 1, ".profiles holds 5 captures; name one of them: " + told, cwd=captures)


def test_a_gate_does_not_pass_what_was_cut_off(captures: Path) -> None:
    assert run([FATHOM, "check", "whole.fathom", "one"], cwd=captures).returncode == 0
    fails(["check", "whole.fathom", "cut.fathom"], 1, "NEW was cut off", "record it again", cwd=captures)
    fails(["check", "cut.fathom", "whole.fathom"], 1, "BASE was cut off", cwd=captures)
    done = run([FATHOM, "diff", "whole.fathom", "cut.fathom"], cwd=captures)
    assert done.returncode == 0 and "NEW was cut off" in done.stderr and "CPU time" in done.stdout


@pytest.mark.parametrize(
    "command",
    [["--help"], ["--version"], ["report", "whole.fathom"], ["diff", "whole.fathom", "one"], ["check", "one", "one"],
     ["export", "--list"], ["export", "-f", "json", "whole.fathom"], ["report", "--help"], ["doctor"]],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_written_is_an_error(captures: Path, command: List[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [FATHOM, *command], stdout=full, stderr=subprocess.PIPE, text=True, cwd=captures, env=clean_env()
        )
    assert (done.returncode, done.stderr) == (1, "fathom: cannot write standard output: No space left on device\n")


def test_a_reader_that_has_enough_is_no_error(captures: Path) -> None:
    done = subprocess.run("%s report whole.fathom | head -1" % FATHOM, shell=True, capture_output=True, cwd=captures)
    assert done.stdout.count(b"\n") == 1 and done.stderr == b""


def test_files_that_may_not_grow(captures: Path, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    out = tmp_path / "page.html"
    fails(["export", "-f", "html", "-o", out, "whole.fathom"], 1, "File too large", cwd=captures, preexec_fn=limit)
    assert not out.exists()


def test_what_cannot_be_run_or_written(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no program")
    fails(["record", "--", "no-such-program"], 127, "no-such-program", "PATH", cwd=tmp_path)
    fails(["record", "--", "./data"], 126, "./data", "executable", cwd=tmp_path)
    fails(["record", "-o", "nowhere/x.fathom", "--", "true"], 1, "nowhere/x.fathom", "folder", cwd=tmp_path)
    fails(["run", "--output-dir", "data", "true"], 1, "--output-dir", cwd=tmp_path)
    fails(["top"], 2, "fathom top -p PID", cwd=tmp_path)
    fails(["record", "--nonsense"], 2, "unknown option --nonsense", "--help", cwd=tmp_path)
    fails(["run", "--nonblocking", "true"], 2, "unknown option", cwd=tmp_path)
