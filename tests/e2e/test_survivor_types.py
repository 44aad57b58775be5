# SPDX-License-Identifier: Apache-2.0
"""The types of objects, read from beside the process that has them. Blocks are told by their address and size alone."""

import subprocess
from pathlib import Path
from typing import List, Tuple

from capture import Python

SCRIPT = """
import gc, sys
class Node: pass
class Slots: __slots__ = ("a", "b")
class Meta(type): pass
class Made(metaclass=Meta): pass
class Text(str): pass
HEAPTYPE, GC, PRE = 1 << 9, 1 << 14, 1 << 3 | 1 << 4
keep = [Node(), Slots(), Made(), Text("x"), [1], {}, {1, 2}, 1.5, 10**40, b"ab" * 40, lambda: 0, range(9), object()]
for x in keep:
    t = type(x)
    before = (16 if t.__flags__ & GC and "t" not in sys.abiflags else 0) + (16 if sys.version_info >= (3, 11) and t.__flags__ & PRE else 0)
    size = before + max(t.__basicsize__, x.__sizeof__())
    print(id(x) - before, size, t.__name__)
raw = bytes(range(256)) * 4
print(id(raw) + 32, 512, "")  # no object: the inside of one
print(id(Node.__name__) + 8, 64, "")
print(64, 64, "")  # not mapped
print("", flush=True)
sys.stdin.read()
"""


def test_types_are_read_from_outside(python: Python, build: Path) -> None:
    free_threaded = ["t"] if python.kind == "freethreaded" else []
    target = subprocess.Popen(
        [python.path, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True
    )
    try:
        assert target.stdout
        wanted: List[Tuple[str, str, str]] = []
        for line in iter(target.stdout.readline, "\n"):
            addr, size, name = line.rstrip("\n").split(" ")
            wanted.append((addr, size, name))
        assert len(wanted) == 16
        for addr, size, name in wanted:
            done = subprocess.run(
                [build / "tests" / "print_type", str(target.pid), addr, size, *free_threaded],
                stdout=subprocess.PIPE,
                universal_newlines=True,
            )
            assert done.stdout.strip() == name
    finally:
        target.communicate("")
