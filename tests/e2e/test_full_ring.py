# SPDX-License-Identifier: Apache-2.0
"""A collector that does not come to read: what does not fit a ring is counted and told, and no time is lost by it."""

import ctypes
import json
import os
import subprocess
from pathlib import Path
from typing import Dict, Iterator

import pytest
import referee
from capture import BUILD
from guest import clean_env, compile_target, report, run, under, wait_for

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # of waitpid: any kind of child


class Held:
    """One thread of a child of ours stands still; the others go on. SIGSTOP would stop all of them."""

    def __init__(self, tid: int) -> None:
        self.tid, self.libc = tid, ctypes.CDLL(None, use_errno=True)

    def ask(self, request: int) -> None:
        if self.libc.ptrace(request, self.tid, None, None) != 0:
            pytest.skip("ptrace is not permitted here: %s" % os.strerror(ctypes.get_errno()))

    def __enter__(self) -> "Held":
        self.ask(PTRACE_SEIZE)
        self.ask(PTRACE_INTERRUPT)
        os.waitpid(self.tid, WALL)
        return self

    def __exit__(self, *error: object) -> None:
        self.ask(PTRACE_DETACH)


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def counts_of(pid: int) -> Dict[str, int]:
    counts: Dict[str, int] = json.loads(run([BUILD / "tests" / "look_at_wire", str(pid)]).stdout)
    return counts


@pytest.fixture
def two_deep(tmp_path: Path) -> Iterator[Path]:
    yield compile_target(tmp_path, "two_deep", ["two_deep.c"])


def test_what_does_not_fit_a_ring_is_counted_and_told(two_deep: Path, tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    command = [*under(profile, "--engine", "ticker", "-r", "5k", "--max-overhead", "0"), str(two_deep)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=clean_env()) as collector:
        assert collector.stdin and collector.stdout and collector.stdout.readline() == "ready\n"
        target = child_of(collector.pid)
        wait_for(lambda: counts_of(target)["n_samples"], 60)  # until then the collector's main thread is needed
        with Held(collector.pid):  # which is the one that reads
            wait_for(lambda: counts_of(target)["n_dropped"] >= 20, 60)
            counted = counts_of(target)
            collector.stdin.write(" ")  # from here on its samples are small, and none is dropped
            collector.stdin.flush()
        # A dropped sample's time is the next one's: there has to be one.
        wait_for(lambda: counts_of(target)["n_samples"] > counted["n_samples"] + 20, 60)
        collector.stdin.close()
        used_s = float(collector.stdout.read())
    assert collector.returncode == 0
    result = report(profile)
    assert result["dropped"] >= counted["n_dropped"] >= 20
    assert result["samples"] >= counted["n_samples"]
    told = [c for c in result["coverage"] if c["what"] == "%d samples were dropped" % result["dropped"]]
    assert len(told) == 1, result["coverage"]
    # What the thread used is in the samples, all of it.
    (thread,) = referee.weigh(profile).threads
    assert thread.n_dropped == result["dropped"]
    assert used_s - 0.02 < thread.weight_ns * 1e-9 <= thread.cpu_ns * 1e-9 < thread.weight_ns * 1e-9 + 0.01
