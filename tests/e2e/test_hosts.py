# SPDX-License-Identifier: Apache-2.0
"""Native code that Python runs inside of stays in the stack; functions without a symbol have one name each, marked as a guess."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, List

import pytest
from capture import TARGETS, Capture, Python


@pytest.fixture(scope="session")
def library(tmp_path_factory: Any) -> str:
    cc = shutil.which("gcc") or shutil.which("cc")
    if not cc:
        pytest.skip("no C compiler")
    out = tmp_path_factory.mktemp("host") / "libhost.so"
    options = ["-O1", "-fno-toplevel-reorder", "-fno-reorder-functions", "-s", "-shared", "-fPIC", "-pthread"]
    subprocess.run([cc, *options, "-o", str(out), str(TARGETS / "host.c")], check=True)
    return str(out)


def names_of(stack: List[str]) -> List[str]:
    return [label.rpartition(" (")[0] or label for label in stack]


@pytest.mark.statistical  # 0.1 s, in which samples must meet a callback
def test_hosts_and_guesses(profile: Any, python: Python, library: str, tmp_path: Path) -> None:
    capture: Capture = profile("host.py", [library], [], python)
    stacks = [names_of(stack) for stack, _ in capture.collapsed()]
    called = [s for s in stacks if "inside" in s]
    assert called, "no sample met the callback"
    for stack in called:
        outside = stack[: stack.index("inside")]
        assert "host_middle" in outside, "what called Python is there"
        assert not any(name.startswith(("_PyEval", "PyObject_", "_PyObject_")) for name in outside), "but not how"
    # Whether the thread's own work is tied to the line that waits for it is test_workers.py's: 0.1 s are too short for that at times.
    working = [s for s in stacks if "host_middle" in s and "inside" not in s]
    assert working
    unnamed = {name for s in working for name in s if name.startswith("libhost.so+0x")}
    assert any(re.fullmatch(r"libhost\.so\+0x[0-9a-f]+ \(near host_before\?\)", name) for name in unnamed)
    assert len(unnamed) == 2, f"two functions have no symbol, however many addresses were met: {unnamed}"


def test_nothing_but_the_interpreter_outside(profile: Any, python: Python, tmp_path: Path) -> None:
    program = tmp_path / "plain.py"
    program.write_text("import time\nwhile time.process_time() < 0.5:\n    for i in range(10000): pass\n")
    capture: Capture = profile(str(program), [], [], python)
    roots = {stack[0] for stack, _ in capture.collapsed() if any("plain.py" in label for label in stack)}
    assert roots and all(root.startswith("<module> (plain.py:") for root in roots), roots
