# SPDX-License-Identifier: Apache-2.0
"""The referee of totals: what it lets pass, and what not."""

from pathlib import Path
from typing import List

import pytest
from capture import CLASS_NATIVE, CLASS_SYSTEM, Capture
from guest import compile_target, run, under
from referee import Account, judge_kernel, judge_samples, judge_threads, weigh

MS = 1_000_000


def account(n_in_file: int = 900, weight_ns: int = 900 * MS, n_taken: int = 1000, n_dropped: int = 0) -> Account:
    """A process whose first thread had 100 samples of 1 ms, and a second one as told; the kernel counted 1005 ms."""
    lines = ["rate_hz 1000", f"target_user_ns {1005 * MS}", f"n_taken {n_taken}", f"n_dropped {n_dropped}", "whole 1"]
    lines += ["process 7 1", f"thread 7 7 {103 * MS} 0 100 {100 * MS}"]
    return Account([*lines, f"thread 7 8 {900 * MS} {n_dropped} {n_in_file} {weight_ns}"])


def wrong(a: Account) -> List[str]:
    return judge_samples(a) + judge_threads(a) + judge_kernel(a, Path("/nonexistent"))


def test_what_adds_up_passes() -> None:
    assert wrong(account()) == []


def test_one_lost_sample_shows() -> None:
    assert wrong(account(n_in_file=899)) == ["1000 samples were taken, 999 are in the file"]


def test_weights_too_small_show() -> None:
    assert len(wrong(account(weight_ns=900 * MS - 1))) == 1
    assert len(wrong(account(weight_ns=882 * MS))) == 1


def test_weights_too_large_show() -> None:
    assert len(wrong(account(weight_ns=900 * MS + 1))) == 1


def test_drops_explain_what_they_took_and_are_counted() -> None:
    assert wrong(account(weight_ns=890 * MS, n_dropped=10)) == []
    a = account(n_dropped=10)
    a.meta["n_dropped"] = "0"
    assert wrong(a) == ["threads dropped 10 samples, 0 are told of"]


def test_more_than_the_kernel_counted_shows() -> None:
    a = account()
    a.meta["target_user_ns"] = str(1000 * MS)
    assert len(wrong(a)) == 1


@pytest.mark.parametrize("engine", ["ticker"])
def test_every_thread_is_accounted_for(engine: str, tmp_path: Path) -> None:
    """Of three threads with 0.4 s each, to the nanosecond (the first one lacks its start)."""
    program = compile_target(tmp_path, "two_threads", ["two_threads.c"])
    done = run([*under(tmp_path / "p.fathom", "--engine", engine), program, "0.4"])
    assert done.returncode == 0, done.stderr
    a = weigh(tmp_path / "p.fathom")
    assert len(a.threads) == 3 and all(t.n_samples for t in a.threads)
    assert judge_samples(a) + judge_threads(a) == []
    assert a.number("n_taken") == sum(t.n_samples for t in a.threads)
    assert [t.cpu_ns - t.weight_ns for t in a.threads if not t.is_first] == [0, 0]
    # There is no Python anywhere near.
    assert {s.kind for s in Capture(tmp_path / "p.fathom", done).samples} <= {CLASS_NATIVE, CLASS_SYSTEM}
