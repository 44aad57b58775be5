"""Native stacks are whole, and merged with Python's in the order in which the calls were made."""

from pathlib import Path
from typing import Any, List, Tuple

import pytest
from capture import FRAME_ERROR, FRAME_NATIVE, Capture, Python, record
from native import LIBRARIES, TARGETS, compile_libraries, judge

SECONDS = 0.25
WHOLE_SHARE = 0.995
OPTIONS = ["--rate", "5k", "--max-overhead", "0"]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: Any) -> Tuple[List[Path], List[str]]:
    return compile_libraries(tmp_path_factory.mktemp("native"), list(LIBRARIES))


def check_outermost(capture: Capture) -> None:
    """A stack without a reason reaches the start of its thread: its outermost frame is native (as only an end of unwinding is)."""
    frames, stacks = capture.frames, capture.stacks
    has_error, outermost = [False], [-1]
    for parent, frame in stacks[1:]:
        has_error.append(has_error[parent] or frames[frame].kind == FRAME_ERROR)
        outermost.append(frame if parent == 0 else outermost[parent])
    bad = [s for s in capture.samples if not has_error[s.stack] and frames[outermost[s.stack]].kind != FRAME_NATIVE]
    assert not bad, f"{len(bad)} of {len(capture.samples)} samples begin with a Python frame"


def check(capture: Capture, expected: List[str], record_property: Any) -> None:
    check_outermost(capture)
    found = judge(capture)
    report = []
    for name in expected:
        assert name in found, f"no sample in {name}"
        v = found[name]
        report.append(f"{name}: {v.n} samples, {v.n_broken} not whole {dict(v.reasons) or ''}")
    record_property("stacks", report)
    print("\n".join(report))
    for name in expected:
        assert not found[name].wrong, f"{name}: " + "\n".join(f"{n} x {what}" for what, n in found[name].wrong.most_common(5))
    for language in sorted({name.partition("_")[0] for name in expected}):
        group = [found[name] for name in expected if name.partition("_")[0] == language]
        n, n_broken = sum(v.n for v in group), sum(v.n_broken for v in group)
        assert n > 200, f"{language}: only {n} samples"
        assert n_broken <= (1 - WHOLE_SHARE) * n, f"{language}: {n_broken} of {n} not whole\n" + "\n".join(report)


def test_stacks_through_native_code_are_whole(python: Python, libraries: Any, tmp_path: Path, record_property: Any) -> None:
    paths, missing = libraries
    capture = record(tmp_path / "p.fathom", TARGETS / "chain.py", [SECONDS, *paths], OPTIONS, python)
    check(capture, [path.stem for path in paths], record_property)
    if missing:
        pytest.skip("all right, but without " + "; ".join(missing))
