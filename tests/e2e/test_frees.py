# SPDX-License-Identifier: Apache-2.0
"""What the file tells of a block is the block's own: its size when it is made, and its end when it is given back."""

import re
from pathlib import Path
from typing import Dict, List

from capture import Capture, record
from guest import pick_python

BLOCKS, BYTES, HELD = 700, 300_000, 5
PROGRAM = f"""
import collections
kept = collections.deque()
for i in range({BLOCKS}):
    kept.append(bytearray({BYTES} + i))
    if len(kept) > {HELD}:
        kept.popleft()
kept.clear()
"""


def events(capture: Capture, kind: str) -> List[Dict[str, int]]:
    return [{k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line)} for line in capture.raw[kind]]


def test_every_end_is_its_own_blocks(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    capture = record(tmp_path / "p.fathom", script, options=["--memory"], python=pick_python())
    made = {a["id"]: a for a in events(capture, "alloc") if BYTES <= a["size"] < BYTES + BLOCKS + 64}
    # So large ones are all seen, until there are more of them than a thread may have samples of.
    assert len(made) > BLOCKS // 4
    assert all(a["weight"] >= a["size"] for a in made.values())
    assert len({a["size"] for a in made.values()}) == len(made)
    ends = [e for e in events(capture, "free") if e["id"] in made]
    assert sorted(e["id"] for e in ends) == sorted(made)
    # The blocks are given back in the order in which they were made, each when the fifth after it is there and before the seventh.
    ended = {made[e["id"]]["size"]: e["time"] for e in ends}
    begun = {a["size"]: a["time"] for a in made.values()}
    assert [size for size, _ in sorted(ended.items(), key=lambda item: item[1])] == sorted(ended)
    assert all(begun[size + HELD] <= ns for size, ns in ended.items() if size + HELD in begun)
    assert all(begun[size + HELD + 2] >= ns for size, ns in ended.items() if size + HELD + 2 in begun)
