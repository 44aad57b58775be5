# SPDX-License-Identifier: Apache-2.0
"""Children of every kind are in the one file, with the right parent and about the right time; the exit status is passed on."""

import re
from pathlib import Path
from typing import Any, Dict

import pytest
from capture import BUILD, TARGETS, Python, find_pythons
from guest import LONG, engines, report, run, some_pythons, under

pytestmark = pytest.mark.statistical


each_python = True  # conftest: chosen here
SECONDS = 0.3


@pytest.mark.parametrize("engine", engines() if LONG else ["auto"])
@pytest.mark.parametrize("python", some_pythons(), ids=str)
def test_children(engine: str, python: Python, tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    others = [p for p in find_pythons() if p.kind == "release" and p.minor != python.minor]
    command = [python.path, "-W", "error", TARGETS / "children.py", SECONDS, *(p.path for p in others[-1:])]
    done = run([*under(profile, "--engine", engine), *command])
    assert done.returncode == 21, done.stderr
    assert done.stderr == ""
    result = report(profile)
    by_pid: Dict[int, Any] = {p["pid"]: p for p in result["processes"]}
    said = [line.split() for line in done.stdout.splitlines()]
    ways = [way for way, *_ in said]
    assert sorted(ways) == sorted(
        [
            "multiprocessing.fork",
            "multiprocessing.spawn",
            "multiprocessing.forkserver",
            "subprocess",
            "fork+exec",
            "fork",
            "posix_spawn",
            "parent",
        ]
    )
    for way, pid_text, parent_text, cpu_text in said:
        pid, parent, cpu_s = int(pid_text), int(parent_text), float(cpu_text)
        assert pid in by_pid, way
        if way == "parent":
            assert by_pid[pid]["parent"] is None
            assert by_pid[pid]["exit"] == {"code": 21, "signal": None}
        else:
            assert by_pid[pid]["parent"] == parent, way
        own_s = sum(t["cpu_s"] for t in result["threads"] if t["pid"] == pid)
        # Until the agent runs, the loader has; after the last sample comes the rest of a period and the end of the interpreter.
        # A fork's child counts its CPU from zero, an exec's from the fork on.
        assert own_s == pytest.approx(cpu_s, abs=0.03 + 0.05 * cpu_s), way
    commands = [" ".join(p["command"]) for p in result["processes"]]
    for program in ("head -c 60000000", "sha256sum", "-c head"):
        assert any(program in c for c in commands), (program, commands)
    sha = next(p["pid"] for p in result["processes"] if p["command"] and p["command"][0] == "sha256sum")
    assert sum(t["samples"] for t in result["threads"] if t["pid"] == sha) > 10


BURN = "import time\nwhile time.process_time() < 0.5: pass"
PARENT = """
import os, subprocess, sys
env = {"seen": None, "cleared": {}, "stripped": {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}}[sys.argv[1]]
subprocess.run([sys.executable, "-c", %r], check=True, env=env)
"""


def test_what_children_used_unseen_is_told(tmp_path: Path) -> None:
    """A child from whose environment the agent was taken runs without it; the kernel's account of its CPU time tells."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT % BURN)
    for way, options in (("seen", []), ("cleared", []), ("stripped", []), ("seen", ["--no-children"])):
        profile = tmp_path / ("%s%d.fathom" % (way, len(options)))
        run([*under(profile, *options), some_pythons()[-1].path, script, way])
        told = [c["what"] for c in report(profile)["coverage"] if "child processes that were not followed" in c["why"]]
        if way in ("seen", "cleared") and not options:
            assert told == []
        else:
            (text,) = told
            assert float(text.split()[0]) == pytest.approx(0.52, abs=0.1), text


def test_a_program_that_becomes_another_is_one_process(tmp_path: Path) -> None:
    """The shell runs Python, then becomes sleep: two processes, three programs, and both sentences on processes count two."""
    profile = tmp_path / "p.fathom"
    python = some_pythons()[-1].path
    run([*under(profile), "sh", "-c", 'n=1; "$0" -c "sum(range(10**6))"; exec sleep 0.01', python])
    assert len({p["pid"] for p in report(profile)["processes"]}) == 2
    text = run([BUILD / "fathom", "report", profile]).stdout
    assert re.findall(r"(?:first of|^)\s(\d+) processes|^(\d+) Processes, with exec (\d+) Programs:$", text, re.M) == [
        ("2", "", ""),
        ("", "2", "3"),
    ]
