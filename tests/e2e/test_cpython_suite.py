# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests pass under Fathom as they pass without: the set of failures is compared with a bare run.

Short ones always; the long ones, on every Python named in FATHOM_TEST_PYTHONS, with FATHOM_TEST_LONG=1.
"""

import itertools
import os
import re
from pathlib import Path
from typing import List, Set, Tuple

import pytest
from capture import Python, find_pythons
from guest import FATHOM, LONG, run
from hurt import check_end

SHORT = ["test_fork1", "test_gc", "test_mmap"]
EXACT = ["test_gc", "test_mmap", "test_capi", "test_threading"]  # with every allocation counted, too
LONGER = [
    "test_faulthandler",
    "test_signal",
    "test_threading",
    "test_capi",
    "test_subprocess",
    "test_os",
    "test_asyncio",
    "test_multiprocessing_fork",
]
each_python = True  # conftest: chosen here, one for the short ones


def pythons() -> List[Python]:
    """Those that have CPython's test package; just the newest of them unless there is time."""
    released = reversed([p for p in find_pythons() if p.kind == "release"])
    found = (p for p in released if run([p.path, "-c", "import test.test_signal"]).returncode == 0)
    return list(found)[::-1] if LONG else list(itertools.islice(found, 1))


def names(python: Python, name: str) -> List[str]:
    if name == "test_multiprocessing_fork" and python.minor >= 12:
        return ["test.test_multiprocessing_fork.test_" + part for part in ("misc", "processes", "threads")]
    return ["test." + name]


def cases() -> List[Tuple[str, str]]:
    """(name, how memory is watched)"""
    sampled = [(name, "sampled") for name in SHORT + (LONGER if LONG else [])]
    return sampled + [(name, "exact") for name in (EXACT if LONG else EXACT[:1])]


def suite(command: List[str], python: Python, name: str, folder: Path) -> Tuple[Set[str], int]:
    """Failures and errors by name, and how many tests ran."""
    folder.mkdir()
    # -s and a run by unittest itself: regrtest would run tests again in other processes.
    done = run([*command, "unittest", "-v", *names(python, name)], timeout=1500, cwd=folder)
    check_end(done)
    text = done.stderr + done.stdout
    ran = sum(int(n) for n in re.findall(r"^Ran (\d+) tests?", text, re.M))
    return set(re.findall(r"^(?:FAIL|ERROR): (\S+(?: \(\S+\))?)", text, re.M)), ran


@pytest.mark.statistical  # some of these tests fail now and then on a busy machine
@pytest.mark.parametrize("name,memory", cases())
@pytest.mark.parametrize("python", pythons(), ids=str)
def test_suite(python: Python, name: str, memory: str, tmp_path: Path) -> None:
    bare, n_bare = suite([python.path, "-m"], python, name, tmp_path / "bare")
    if any("_FailedTest" in failed for failed in bare):
        pytest.skip(f"{name} cannot be loaded on {python} without Fathom either")
    command = [str(FATHOM), "run", "--quiet", "--memory=" + memory, "--python", python.path]
    command += ["--output-dir", str(tmp_path / "results"), "-m"]
    ours, n_ours = suite(command, python, name, tmp_path / "ours")
    print(
        f"{python} {name} {memory}: {n_bare} tests bare, {len(bare)} failed; under Fathom {n_ours} and {len(ours)} {sorted(ours)}"
    )
    if os.environ.get("FATHOM_TEST_LOG"):
        with open(os.environ["FATHOM_TEST_LOG"], "a") as log:
            log.write(
                f"{python} {name} {memory}: bare {n_bare} tests {sorted(bare)}; under Fathom {n_ours} {sorted(ours)}\n"
            )
    assert n_bare > 0
    assert ours <= bare
    assert n_ours == n_bare
