# SPDX-License-Identifier: Apache-2.0
"""A greenlet's stack is its own, begins where the greenlet began, and its time and waiting are what it measured itself."""

import json
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
from capture import FRAME_ERROR, FRAME_PYTHON, TARGETS, Capture, Python, record, standard_error_s

pytestmark = pytest.mark.statistical

each_frame_layout = True  # conftest
SECONDS = 0.6
CHAINS = [
    ("a_outer", "a_inner", "burn_a"),
    ("b_outer", "b_inner", "<lambda>", "burn_b"),
    ("c_outer", "nap"),
]
NAMES = {name for chain in CHAINS for name in chain}


def install_greenlet(python: Python, folder: Path) -> None:
    command = [python.path, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--target", folder, "greenlet"]
    try:
        if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120).returncode != 0:
            pytest.skip("greenlet could not be installed for this Python")
    except subprocess.TimeoutExpired:
        pytest.skip("greenlet could not be installed in time")


def chains_of(capture: Capture) -> List[Tuple[Tuple[str, ...], bool]]:
    """By stack id: the names of the target's functions in it, outermost first, and whether it is broken."""
    found: List[Tuple[Tuple[str, ...], bool]] = [((), False)]
    for parent, frame_id in capture.stacks[1:]:
        names, is_broken = found[parent]
        frame = capture.frames[frame_id]
        if frame.kind == FRAME_PYTHON and frame.ref >= 0 and capture.codes[frame.ref].file.endswith("greenlets.py"):
            names += (capture.codes[frame.ref].name.split(".")[-1],)
        found.append((names, is_broken or frame.kind == FRAME_ERROR))
    return found


def test_greenlets(python: Python, tmp_path: Path) -> None:
    install_greenlet(python, tmp_path / "packages")
    capture = record(
        tmp_path / "p.fathom", TARGETS / "greenlets.py", [str(tmp_path / "packages"), str(SECONDS)], python=python
    )
    took: Dict[str, float] = json.loads(capture.run.stdout.splitlines()[-1])
    chains = chains_of(capture)
    wrong: Dict[Any, int] = {}
    n_broken = n_greenlet = 0
    for sample in capture.all_samples:
        names, is_broken = chains[sample.stack]
        if not NAMES.intersection(names):
            continue
        n_greenlet += 1
        n_broken += is_broken
        # Between two calls a chain is shorter; it never has another's functions, nor the main program's.
        if not any(names == chain[: len(names)] for chain in CHAINS):
            wrong[names] = wrong.get(names, 0) + 1
    assert not wrong
    assert n_greenlet > 100
    assert n_broken <= 0.005 * n_greenlet + 1
    for name in ("burn_a", "burn_b"):
        got_s = capture.seconds(name)
        assert abs(got_s - took[name]) <= 3 * standard_error_s(took[name], capture.samples) + 0.01, (name, got_s, took)
    slept_s = sum(s.weight_ns for s in capture.waits if "nap" in chains[s.stack][0]) * 1e-9
    assert abs(slept_s - took["nap"]) <= 0.03 * took["nap"] + capture.wait_ends_s(), (slept_s, took)
