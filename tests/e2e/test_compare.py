# SPDX-License-Identifier: Apache-2.0
"""`fathom compare`: what it says of two programs that differ by what is known, where it leaves the repository, and how it is refused."""

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import pytest
from guest import FATHOM, Arg, clean_env, default_signals, run, wait_for

# Seconds of CPU time by its own clock, so the machine's speed is not in it. ORDER gets a line for each run.
PROGRAM = """
import os, time
SECONDS, NAME = %r, %r

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(2000))

def same():
    burn_less = time.thread_time() + 0.02
    while time.thread_time() < burn_less:
        sum(range(500))

if "ORDER" in os.environ:
    open(os.environ["ORDER"], "a").write(NAME + "\\n")
same()
burn(SECONDS)
"""
LESS, MORE = 0.10, 0.14
HOSTILE = "be,nch %0A::error::x.py"  # as far as a file may be called


class Compared(NamedTuple):
    done: "subprocess.CompletedProcess[str]"
    folder: Path

    @property
    def code(self) -> int:
        return self.done.returncode

    @property
    def json(self) -> Dict[str, Any]:
        found: Dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return found


def compare(folder: Path, *words: Arg, env: Optional[Dict[str, str]] = None, **more: Any) -> Compared:
    tmp = folder / "tmp"
    tmp.mkdir(exist_ok=True)
    env = clean_env({"TMPDIR": str(tmp), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})})
    more.setdefault("cwd", folder)
    done = run([FATHOM, "compare", *words], env=env, **more)
    assert not list(tmp.iterdir()), "it leaves nothing behind"
    return Compared(done, folder)


OUTPUTS = ("--json=result.json", "--markdown=result.md", "--junit", "result.xml", "--github", "--keep", "kept")


def two_programs(folder: Path, base: float, head: float) -> Compared:
    (folder / "old").mkdir()
    (folder / "old" / HOSTILE).write_text(PROGRAM % (base, "base"))
    (folder / HOSTILE).write_text(PROGRAM % (head, "head"))
    words = [sys.executable, Path("old") / HOSTILE, "--", sys.executable, HOSTILE]
    return compare(folder, "--runs", "6", *OUTPUTS, "--", *words, env={"ORDER": str(folder / "order")})


@pytest.fixture(scope="module")
def slower(tmp_path_factory: Any) -> Compared:
    return two_programs(tmp_path_factory.mktemp("slower"), LESS, MORE)


@pytest.mark.statistical
def test_a_slower_head_is_found_measured_and_named(slower: Compared) -> None:
    assert slower.code == 1, slower.done.stdout
    lines = [line for line in slower.done.stderr.splitlines() if not line.startswith("::")]
    assert len(lines) == 1
    assert re.match(r"fathom: CPU time changed by \+\d.*, above the limit of 5%; most in burn \(", lines[0])
    result = slower.json
    assert result["schema"] == "fathom.compare/1" and result["beyond"] and result["pairs"] == 6
    cpu = result["cpu_s"]
    assert cpu["head"] - cpu["base"] == pytest.approx(MORE - LESS, abs=0.012), "by the kernel's account"
    assert cpu["low"] <= cpu["change"] <= cpu["high"] and cpu["low"] > 0 and cpu["beyond"]
    functions = {row["name"]: row["seconds"] for row in result["functions"]}
    assert functions["burn"]["change"] == pytest.approx(MORE - LESS, abs=0.02) and functions["burn"]["significant"]
    assert not functions["same"]["significant"], "it takes as long in both"
    worst = result["lines"][0]
    assert worst["function"] == "burn" and worst["in_base"] and worst["in_new"]


def test_runs_alternate_in_pairs_as_is_told(slower: Compared) -> None:
    order = (slower.folder / "order").read_text().split()
    assert len(order) == 14, "six pairs, and one that warms up"
    pairs = [order[i : i + 2] for i in range(0, 14, 2)]
    assert all(sorted(pair) == ["base", "head"] for pair in pairs)
    assert [pair[0] for pair in pairs[1:]] == slower.json["first"]
    assert len(slower.json["cpu_s"]["base_runs"]) == len(slower.json["cpu_s"]["head_runs"]) == 6


def test_junit_can_be_read(slower: Compared) -> None:
    root = ET.parse(slower.folder / "result.xml").getroot()
    suite = root.find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("errors")) == ("1", "0")
    case = suite.find("testcase")
    assert case is not None and case.get("name") == "CPU time"
    assert suite.get("failures") == str(int(slower.json["beyond"]))
    failure = case.find("failure")
    if slower.json["beyond"]:
        assert failure is not None and failure.get("message") == slower.json["verdict"]
        named = [row for row in slower.json["lines"] if row["seconds"]["significant"] and row["seconds"]["change"] > 0]
        lines = (failure.text or "").splitlines()
        assert len(lines) == min(len(named), 10) and all(line.startswith(HOSTILE + ":") for line in lines)


def test_annotations_are_lines_of_the_source_whatever_a_file_is_called(slower: Compared) -> None:
    """GitHub takes a line that begins with :: for an order, and %0A in it for the end of a line."""
    lines = [line for line in slower.done.stderr.splitlines() if line.startswith("::")]
    assert lines
    for line in lines:
        match = re.fullmatch(r"::(error|notice) ((?:file=[^:]*,line=\d+,)?title=fathom compare)::(.*)", line)
        assert match, line
        if "file=" in line:
            assert "file=be%2Cnch %250A%3A%3Aerror%3A%3Ax.py,line=" in line
        assert "%0A" not in match[3]


def test_markdown_is_short_and_whole(slower: Compared) -> None:
    text = (slower.folder / "result.md").read_text()
    assert len(text.encode()) <= 8000
    assert text.startswith("### Fathom: slower\n" if slower.json["beyond"] else "### Fathom: not slower\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in rows)
    assert any(line.startswith("| CPU time, s |") for line in rows)


def test_what_is_kept_is_what_diff_takes(slower: Compared) -> None:
    done = run([FATHOM, "diff", "--json", slower.folder / "kept" / "base", slower.folder / "kept" / "head"])
    assert done.returncode == 0, done.stderr
    diff = json.loads(done.stdout)
    assert (diff["base_runs"], diff["new_runs"]) == (6, 6)
    for side in ("base", "head"):
        names = sorted(path.name for path in (slower.folder / "kept" / side).glob("*.fathom"))
        assert names == ["profile_%d.fathom" % i for i in range(1, 7)], "and not of the pair that warmed up"
    again = compare(slower.folder, "--runs", "6", "--keep", "kept", "--", "true", "--", "true")
    assert again.code == 1 and "it already exists" in again.done.stderr


@pytest.fixture(scope="module")
def equal(tmp_path_factory: Any) -> Compared:
    return two_programs(tmp_path_factory.mktemp("equal"), LESS, LESS)


@pytest.mark.statistical
def test_the_order_is_drawn(slower: Compared, equal: Compared) -> None:
    """Twelve times the same is met once in 2,048 times."""
    assert len({*slower.json["first"], *equal.json["first"]}) == 2


@pytest.mark.statistical
def test_equal_programs_raise_no_alarm(equal: Compared) -> None:
    result = equal
    assert result.code == 0, result.done.stderr
    assert "within the limit of 5%" in result.done.stdout
    assert "::notice title=fathom compare::" in result.done.stderr
    root = ET.parse(result.folder / "result.xml").getroot()
    assert root.find(".//failure") is None
    assert not any(row["seconds"]["significant"] for row in result.json["functions"])


def test_instructions_are_counted_or_a_line_says_why_not(slower: Compared) -> None:
    figure, why = slower.json["instructions"], slower.json["no_instructions"]
    assert (figure is None) == bool(why)
    if why:
        assert "Instructions were not counted: " in slower.done.stdout
        refused = compare(slower.folder, "--metric", "instructions", "--", "true", "--", "true")
        assert refused.code == 1 and refused.done.stderr.startswith("fathom: instructions cannot be counted: ")


# ---- a state of the repository ----

MARKED = "import os, here\nopen(os.environ['ORDER'], 'a').write(here.MARK + '\\n')\n"


def git(folder: Path, *words: Arg) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
    command = ["git", *who, *map(str, words)]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With a submodule, a folder below the root, and a change that is in no commit."""
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for folder in (inner, outer):
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
    (inner / "data").write_text("from the submodule")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "one")
    (outer / "perf").mkdir()
    (outer / "perf" / "here.py").write_text("MARK = 'committed'\nassert open('../inner/data').read()\n")
    (outer / "perf" / "bench.py").write_text(MARKED)
    git(outer, "submodule", "--quiet", "add", str(inner), "inner")
    git(outer, "add", ".")
    git(outer, "commit", "-qm", "one")
    (outer / "perf" / "here.py").write_text("MARK = 'changed'\n")
    venv = outer / "perf" / "venv" / "python"  # in no commit
    venv.parent.mkdir()
    venv.symlink_to(sys.executable)
    return outer


SUBMODULES = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}


def test_a_state_of_the_repository_is_the_base(repository: Path, tmp_path: Path) -> None:
    order = tmp_path / "order"
    before = git(repository, "status", "--short")
    words = ["--base-ref", "main", "--runs", "6", "--json", "--", "venv/python", "bench.py"]
    env = {"ORDER": str(order), **SUBMODULES}
    result = compare(tmp_path, *words, cwd=repository / "perf", env=env)
    assert result.code in (0, 1), result.done.stderr
    marks = order.read_text().split()
    assert marks.count("committed") == marks.count("changed") == 7
    said = json.loads(result.done.stdout)
    assert said["base"] == "main (%s)" % git(repository, "rev-parse", "--short", "main").strip()
    assert said["doubt"] == ""
    assert git(repository, "status", "--short") == before
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_base_that_runs_the_heads_code_is_told(repository: Path, tmp_path: Path) -> None:
    """As it is with a package that is installed for editing."""
    slow = repository / "perf" / "here.py"
    slow.write_text(
        "import time\nMARK = 'changed'\nend = time.thread_time() + 0.03\nwhile time.thread_time() < end: pass\n"
    )
    (repository / "perf" / "bench.py").write_text(MARKED)
    env = {"ORDER": str(tmp_path / "order"), "PYTHONPATH": str(repository / "perf"), **SUBMODULES}
    code = ["-c", "import sys; del sys.path[0]; import here"]
    words = ["--base-ref", "HEAD", "--runs", "6", "--", sys.executable, *code]
    result = compare(tmp_path, *words, cwd=repository / "perf", env=env)
    assert "here.py, which belongs to the working tree: an installed package" in result.done.stderr


WAITS = "import os, time\nopen(os.environ['ORDER'], 'a').write('runs\\n')\ntime.sleep(60)\n"


@pytest.mark.parametrize("number, to_all", [(signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False)])
def test_an_interrupted_comparison_leaves_nothing(
    repository: Path, tmp_path: Path, number: signal.Signals, to_all: bool
) -> None:
    """Ctrl-C comes to the whole group, a CI system's signal to the first process."""
    (repository / "perf" / "wait.py").write_text(WAITS)
    git(repository, "add", "perf/wait.py")
    git(repository, "commit", "-qm", "two")
    tmp, order = tmp_path / "tmp", tmp_path / "order"
    tmp.mkdir()
    env = clean_env({"TMPDIR": str(tmp), "ORDER": str(order), **SUBMODULES})
    command = [str(FATHOM), "compare", "--base-ref", "HEAD", "--", sys.executable, "wait.py"]
    child = subprocess.Popen(
        command, cwd=repository / "perf", env=env, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=default_signals,
    )  # fmt: skip
    try:
        wait_for(order.exists)
        (os.killpg if to_all else os.kill)(child.pid, number)
        errors = child.communicate(timeout=30)[1]
    finally:
        child.kill()
    assert child.returncode == 128 + number
    assert errors == "fathom: interrupted, so nothing is compared\n"
    assert not list(tmp.iterdir())
    assert len(git(repository, "worktree", "list").splitlines()) == 1


# ---- what cannot be ----


@pytest.mark.parametrize("side", ["base", "head"])
def test_a_command_that_fails_ends_it_with_one_line(tmp_path: Path, side: str) -> None:
    good, bad = ["true"], ["sh", "-c", "echo first; echo the bad input >&2; exit 3"]
    words = bad + ["--"] + good if side == "base" else good + ["--"] + bad
    result = compare(tmp_path, "--", *words)
    assert result.code == 1 and result.done.stdout == ""
    said = "fathom: the %s command failed (exit code 3), so nothing is compared: the bad input\n"
    assert result.done.stderr == said % side


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = compare(tmp_path, "--", "true", "--", "no-such-program")
    assert result.code == 1 and result.done.stderr.startswith("fathom: head: cannot run no-such-program: ")


def test_a_state_that_is_not_there_is_named(repository: Path, tmp_path: Path) -> None:
    for ref in ("no-such-branch", "--help"):
        result = compare(tmp_path, "--base-ref=" + ref, "--", "true", cwd=repository)
        assert result.code == 1 and "git has no commit '%s'" % ref in result.done.stderr
    outside = compare(
        tmp_path, "--base-ref", "main", "--", "true", env={"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    )
    assert outside.code == 1 and "--base-ref is for a git repository: " in outside.done.stderr
    git(repository, "checkout", "-q", "--orphan", "empty")
    git(repository, "rm", "-rqf", "--cached", ".")
    git(repository, "commit", "-qm", "nothing", "--allow-empty")
    gone = compare(tmp_path, "--base-ref", "empty", "--", "true", cwd=repository / "perf")
    assert gone.code == 1 and "empty has no folder perf/" in gone.done.stderr
    assert len(git(repository, "worktree", "list").splitlines()) == 1


REFUSED: Dict[str, Sequence[str]] = {
    "there is only one command": ["--", "true"],
    "name the two commands": [],
    "give the command to run after --": ["--base-ref", "main"],
    "it is not clear which -- is between": ["--", "a", "--", "b", "--", "c"],
    "there is a command on only one side of --": ["--", "a", "--"],
    "--base and --head belong together": ["--base", "true"],
    "not both": ["--base", "true", "--head", "true", "--", "true"],
    "with --base-ref, give one command": ["--base-ref", "main", "--base", "a", "--head", "b"],
    "--runs must be from 6 to 200": ["--runs", "5", "--", "true", "--", "true"],
    "both write to standard output": ["--json", "--markdown", "--", "true", "--", "true"],
    "--max-slowdown must be": ["--max-slowdown", "much", "--", "true", "--", "true"],
}


@pytest.mark.parametrize("said", REFUSED)
def test_wrong_usage_is_one_line(tmp_path: Path, said: str) -> None:
    result = compare(tmp_path, *REFUSED[said])
    assert result.code == 2 and result.done.stdout == ""
    assert said in result.done.stderr and result.done.stderr.count("\n") == 1


def test_commands_with_dashes_of_their_own(tmp_path: Path) -> None:
    order = tmp_path / "order"
    commands: List[str] = ["sh -c 'echo $1 >>%s' -- %s -- && :" % (order, side) for side in ("base", "head")]
    result = compare(tmp_path, "--runs", "6", "--json=result.json", "--base", commands[0], "--head", commands[1])
    assert result.code in (0, 1), result.done.stderr
    assert sorted(order.read_text().split()) == ["base"] * 7 + ["head"] * 7
    assert result.json["base"] == commands[0]
