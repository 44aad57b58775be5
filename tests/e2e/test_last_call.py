# SPDX-License-Identifier: Apache-2.0
"""The frames of a thread that is looked at from outside are return addresses: each call is the instruction before."""

import json
import subprocess
from pathlib import Path
from typing import List

import pytest
from capture import Capture
from guest import compile_target, run, under


@pytest.fixture(scope="module")
def last_call(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_target(tmp_path_factory.mktemp("last_call"), "last_call", ["last_call.c"])


def check(stacks: List[List[str]]) -> None:
    """By their functions, outermost first."""
    assert stacks
    for names in stacks:
        assert "lc_next_door" not in names, names
        at = names.index("lc_caller")
        assert names[at - 1 : at + 2] == ["main", "lc_caller", "lc_sleep_and_end"], names


def waits(capture: Capture) -> List[List[str]]:
    found = capture.collapsed("--idle", "--nolineno")
    return [[f.split(" ")[0] for f in frames] for frames, _ in found if any("lc_" in f for f in frames)]


def test_a_wait_is_shown_at_its_call(last_call: Path, tmp_path: Path) -> None:
    done = run([*under(tmp_path / "p.fathom"), last_call, "0.3"])
    assert done.returncode == 0
    check(waits(Capture(tmp_path / "p.fathom", done)))


@pytest.mark.parametrize("command", ["dump", "record"])
def test_a_process_looked_at_from_outside_is_shown_at_its_call(
    command: str, fathom: Path, last_call: Path, tmp_path: Path
) -> None:
    with subprocess.Popen([last_call, "30"], stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout and target.stdout.readline() == "ready\n"
        if command == "dump":
            done = run([fathom, "dump", "--json", "-p", str(target.pid)])
            threads = json.loads(done.stdout)["threads"]
            check([[f["name"] for f in reversed(thread["frames"])] for thread in threads])
        else:
            done = run([fathom, "record", "-p", str(target.pid), "-d", "0.5", "-o", tmp_path / "p.fathom"])
            assert done.returncode == 0, done.stderr
            check(waits(Capture(tmp_path / "p.fathom", done)))
        target.kill()
