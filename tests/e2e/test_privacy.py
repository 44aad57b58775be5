# SPDX-License-Identifier: Apache-2.0
"""What a capture holds and what not: never the environment; with --redact no argument and no source line that looks like a secret (docs/privacy.md)."""

import base64
import gzip
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Sequence

import pytest
from capture import BUILD, ROOT
from guest import FATHOM, clean_env, run

sys.path.insert(0, str(ROOT / "tests" / "reader"))
from fathom_chunks import ChunkFile  # noqa: E402

SECRET = "hunter2-is-the-password"
# Burns a moment at a line of its own, in a child that gets a secret, too.
SCRIPT = f"""
import os, subprocess, sys
password = "{SECRET}"
def burn():
    return sum(range(3 * 10 ** 6))
burn()
if "--child" not in sys.argv:
    subprocess.run([sys.executable, __file__, "--child", "--token", "{SECRET}", "--plain", "kept-as-it-is"])
"""


def raw_bytes(path: Path) -> bytes:
    """Everything that is in a capture, unpacked."""
    whole = ChunkFile(str(path))
    raw = b"".join(raw for _, raw in whole.chunks())
    assert not whole.truncated and not whole.n_damaged
    return path.read_bytes() + raw


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(SCRIPT)
    return tmp_path


def fathom(work: Path, *words: Any, code: int = 0, **env: str) -> "subprocess.CompletedProcess[str]":
    done = run([FATHOM, *words], cwd=work, env=clean_env(env))
    assert done.returncode == code, done.stderr
    return done


ARGS = ["app.py", "--password", SECRET, f"postgres://bob:{SECRET}@host/", "--plain", "kept-as-it-is"]


@pytest.mark.parametrize("options", [["--memory"], ["--memory=exact"], ["--trace"], ["--no-native"]])
def test_the_environment_is_never_in_a_capture(work, options):
    (work / "plain.py").write_text(SCRIPT.replace(SECRET, "x"))
    words = ["record", "-o", "p.fathom", *options, "--", sys.executable, "plain.py"]
    fathom(work, *words, MY_PASSWORD="in-the-environment-71c3", SOMETHING="in-the-environment-71c3")
    raw = raw_bytes(work / "p.fathom")
    assert b"plain.py" in raw and b"kept-as-it-is" in raw
    assert b"in-the-environment" not in raw and b"MY_PASSWORD" not in raw


def test_command_lines_and_sources_are_kept(work):
    fathom(work, "record", "-o", "p.fathom", "--", sys.executable, *ARGS)
    assert raw_bytes(work / "p.fathom").count(SECRET.encode()) >= 4  # so that the tests below find it when it is there


def check_masked(path: Path) -> None:
    raw = raw_bytes(path)
    assert SECRET.encode() not in raw
    assert b"kept-as-it-is" in raw and b"return sum(range(3 * 10 ** 6))" in raw  # the rest stays
    text = run([BUILD / "tests" / "dump_profile", path]).stdout
    assert re.search(r"^coverage\|\d+ source lines\|--redact masked what looks like a secret", text, re.M), text[:2000]
    assert re.search(r"^coverage\|parts of command lines\|--redact masked", text, re.M)


@pytest.mark.parametrize("options, env", [(["--redact"], {}), (["--redact-also", "nothing"], {}), ([], {"FATHOM_REDACT": "1"})])  # fmt: skip
def test_redact_masks_arguments_and_source_lines(work, options, env):
    fathom(work, "record", "-o", "p.fathom", *options, "--", sys.executable, *ARGS, **env)
    check_masked(work / "p.fathom")


def unpacked(path: Path) -> bytes:
    """A page's data is compressed."""
    data = path.read_bytes()
    inside = re.findall(rb'<script id="bundle" type="application/octet-stream">([^<]*)</script>', data)
    return data + b"".join(gzip.decompress(base64.b64decode(part)) for part in inside)


def test_nothing_that_run_leaves_has_it(work):
    (work / "pyproject.toml").write_text("[tool.fathom]\nredact = true\n")  # a project may ask for it
    done = fathom(work, "run", "--python", sys.executable, *ARGS)
    assert SECRET not in done.stdout
    [folder] = work.glob(".fathom/app/*")
    check_masked(folder / "profile.fathom")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {"profile.fathom", "profile_results.txt"} <= {path.name for path in files}
    for path in files:
        assert SECRET.encode() not in unpacked(path), path
    first = (folder / "profile_results.txt").read_text().splitlines()[0]
    assert first.endswith("app.py --password '***' 'postgres***host/' --plain kept-as-it-is"), first


def test_a_project_has_patterns_of_its_own(work):
    (work / "app.py").write_text("x = 'acme-1234'\nsum(range(3 * 10 ** 6))\n")
    (work / "pyproject.toml").write_text(
        "[tool.fathom]\nredact-also = [\n  'acme-[0-9]+', # ours\n  \"bob\\\\.smith\",\n]\n"
    )
    command: Sequence[Any] = [
        "record",
        "-o",
        "p.fathom",
        "--",
        sys.executable,
        "app.py",
        "bob.smith",
        "acme-77",
        "bobXsmith",
    ]
    fathom(work, *command)
    raw = raw_bytes(work / "p.fathom")
    assert b"acme-" not in raw and b"bob.smith" not in raw and b"bobXsmith" in raw and b"sum(range(" in raw
    (work / "pyproject.toml").write_text("[tool.fathom]\nredact-also = [1]\n")
    assert "redact-also must be a list of regular expressions" in fathom(work, *command, code=2).stderr


@pytest.mark.parametrize("pattern", ["(", "x*", "[z-a]"])
def test_a_pattern_that_is_none_is_one_line(work, pattern):
    done = fathom(work, "record", "--redact-also", pattern, "--", "true", code=2)
    assert done.stderr.count("\n") == 1 and "--redact-also wants a regular expression" in done.stderr
    assert not (work / "profile.fathom").exists()


def test_a_process_that_runs_is_masked_too(work):
    (work / "wait.py").write_text(f"import time\ntoken = '{SECRET}'\nprint('ready', flush=True)\ntime.sleep(60)\n")
    words = [sys.executable, "wait.py", "--password", SECRET]
    with subprocess.Popen(words, cwd=work, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline() == b"ready\n"
        try:
            fathom(work, "record", "--redact", "-o", "p.fathom", "-p", child.pid, "--duration", "1")
        finally:
            child.kill()
    raw = raw_bytes(work / "p.fathom")
    assert SECRET.encode() not in raw and b"wait.py" in raw


def test_a_block_is_masked_too(work):
    (work / "block.py").write_text(
        f"import fathom\npassword = '{SECRET}'\n"
        "with fathom.job(output_dir='out', redact=True):\n    sum(range(3 * 10 ** 6))\n"
    )
    env = clean_env({"PYTHONPATH": str(ROOT / "python")})
    done = run([sys.executable, "block.py", "--token", SECRET], cwd=work, env=env)
    assert done.returncode == 0, done.stderr
    [path] = work.glob("out/job/*/profile.fathom")
    raw = raw_bytes(path)
    assert SECRET.encode() not in raw and b"with fathom.job(" in raw
