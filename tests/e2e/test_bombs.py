# SPDX-License-Identifier: Apache-2.0
"""Small files that unpack to gigabytes, or to millions of facts: as much is taken as an honest capture may need, and a line says that reading stopped."""

import json
import resource
from pathlib import Path

import pytest
from capture import BUILD
from guest import FATHOM, run

MAX_BYTES = 2 << 30  # of address space; each file would be several times that
MAX_CPU_S = 5

# KIND: how many bytes, where less would not do.
KINDS = {
    "strings": 20_000,
    "sources": 60_000,
    "stacks": 60_000,
    "metas": 70_000,
    "coverages": 70_000,
    "samples": 20_000,
    "allocs": 40_000,
    "unknown": 20_000,
}


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))


@pytest.mark.parametrize("kind", KINDS)
def test_bomb(kind: str, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.fathom"
    assert run([BUILD / "tests" / "bomb_profile", kind, str(KINDS[kind]), bomb]).returncode == 0
    assert bomb.stat().st_size < 100_000
    done = run([FATHOM, "report", "--json", bomb], preexec_fn=limit)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert len(done.stdout) < 1 << 20
    said = [item["why"] for item in json.loads(done.stdout)["coverage"]]
    assert any("unpack to more than a profile can hold" in why for why in said), said
    done = run([FATHOM, "export", "-f", "collapsed", bomb], preexec_fn=limit)
    assert done.returncode == 0 and len(done.stdout) < 1 << 20, done.stderr
