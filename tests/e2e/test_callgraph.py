# SPDX-License-Identifier: Apache-2.0
"""`export -f callgraph-svg` and `-f dot`: who calls whom, drawn."""

import itertools
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import pytest
from capture import BUILD, Python
from tracing import FEW, pythons, rows_of, source, trace

each_python = True  # tests name their Pythons themselves

SVG = "{http://www.w3.org/2000/svg}"


class Box(NamedTuple):
    name: str
    place: str
    shares: str
    calls: str
    left: float
    top: float
    right: float
    bottom: float


class Picture:
    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)
        self.boxes: Dict[str, Box] = {}
        self.lines: Dict[str, str] = {}  # "a calls b" -> what its title says of it
        self.labels: List[List[str]] = []
        for group in self.root.iter(SVG + "g"):
            rect = group.find(SVG + "rect")
            texts = ["".join(t.itertext()) for t in group.iter(SVG + "text")]
            title = group.findtext(SVG + "title") or ""
            if rect is None:
                name, _, rest = title.rpartition(": ")
                self.lines[name] = rest
                self.labels += [[*t.itertext()] for t in group.iter(SVG + "text")]
                continue
            x, y, w, h = (float(rect.get(key) or 0) for key in ("x", "y", "width", "height"))
            texts += [""] * (4 - len(texts))
            self.boxes[texts[0]] = Box(texts[0], texts[1], texts[2], texts[3], x, y, x + w, y + h)

    def check(self) -> None:
        width, height = float(self.root.get("width") or 0), float(self.root.get("height") or 0)
        for box in self.boxes.values():
            assert box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height
        for a, b in itertools.combinations(self.boxes.values(), 2):
            assert a.right <= b.left or b.right <= a.left or a.bottom <= b.top or b.bottom <= a.top, (a, b)


def export(profile: Path, format: str, status: int = 0) -> str:
    done = subprocess.run(
        [BUILD / "fathom", "export", "-f", format, profile], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


PROGRAM = """
import time
def leaf(ms): time.sleep(ms / 1000)
def left(): [leaf(2) for _ in range(10)]
def right(): leaf(60)
def again(n):
    leaf(1)
    if n: again(n - 1)
def ping(n):
    leaf(1)
    if n: pong(n - 1)
def pong(n): ping(n)
def rare(): pass
def main():
    left(); right(); again(19); ping(9); rare()
main()
"""


@pythons(FEW[-1:])
def test_the_picture_says_what_the_trace_says(python: Python, tmp_path: Path) -> None:
    program = source(tmp_path, PROGRAM)
    trace(python, tmp_path / "t.fathom", [], [program])
    text = export(tmp_path / "t.fathom", "callgraph-svg")
    assert text == export(tmp_path / "t.fathom", "callgraph-svg"), "the same picture every time"
    picture = Picture(text)
    picture.check()
    rows = {row["name"]: row for row in rows_of(tmp_path / "t.fathom")}
    whole = sum(row["own_ns"] for row in rows.values())
    for name in ("main", "left", "right", "again", "ping", "pong", "leaf"):
        row, box = rows[name], picture.boxes[name]
        assert box.calls == "%dx" % row["calls"]
        assert box.shares == "%.2f%% (%.2f%%)" % (100 * row["total_ns"] / whole, 100 * row["own_ns"] / whole)
        assert box.place == "program.py:%d" % row["line"]
    assert "rare" not in picture.boxes, "what takes no time is left out"
    assert picture.boxes["main"].bottom < picture.boxes["left"].top < picture.boxes["leaf"].top
    calls = {name: int(rest.split(", ")[2].split()[0]) for name, rest in picture.lines.items()}
    expected = {"left calls leaf": 10, "right calls leaf": 1, "again calls again": 19, "again calls leaf": 20}
    expected.update({"main calls ping": 1, "ping calls pong": 9, "pong calls ping": 9, "ping calls leaf": 10})
    assert {name: calls.get(name) for name in expected} == expected
    assert ["19x"] in [label[1:] for label in picture.labels], "recursion has its numbers beside it"
    # Hot is red, cold is blue.
    fills = [group.find(SVG + "rect") for group in picture.root.iter(SVG + "g")]
    colors = {c for c in (rect.get("fill") for rect in fills if rect is not None) if c}
    red = {int(c[1:3], 16) > int(c[5:7], 16) for c in colors}
    assert red == {True, False}


@pythons(FEW[-1:])
def test_graphviz_gets_the_same_graph(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", [], [source(tmp_path, PROGRAM)])
    dot, picture = export(tmp_path / "t.fathom", "dot"), Picture(export(tmp_path / "t.fathom", "callgraph-svg"))
    nodes = dict(re.findall(r'^\t(\d+) \[label="(\S+?)\\n', dot, re.MULTILINE))
    edges = re.findall(r"^\t(\d+) -> (\d+) ", dot, re.MULTILINE)
    assert set(nodes.values()) == set(picture.boxes)
    assert {"%s calls %s" % (nodes[a], nodes[b]) for a, b in edges} == set(picture.lines)
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "-o", "/dev/null"], input=dot, text=True, check=True)


def test_samples_are_drawn_where_nothing_was_traced(tmp_path: Path) -> None:
    subprocess.run([BUILD / "tests" / "known_profile", tmp_path / "known.fathom"], check=True)
    picture = Picture(export(tmp_path / "known.fathom", "callgraph-svg"))
    picture.check()
    assert {"App.work", "known_kernel"} <= set(picture.boxes)
    assert all(box.calls == "" for box in picture.boxes.values()), "samples count no calls"
    assert "sampled" in "".join(picture.root.itertext())
    report: Any = json.loads(export(tmp_path / "known.fathom", "json"))
    cpu_s = sum(report["time"][key] for key in ("python_s", "native_s", "system_s", "gc_s"))
    for function in report["functions"]:
        if function["name"] in picture.boxes and function["kind"] == "python":
            total = float(picture.boxes[function["name"]].shares.partition("%")[0])
            assert total == pytest.approx(100 * function["total_s"] / cpu_s, abs=0.02)
    assert "App.work" in export(tmp_path / "known.fathom", "dot")


def test_any_name_makes_a_whole_picture(tmp_path: Path) -> None:
    subprocess.run([BUILD / "tests" / "known_profile", tmp_path / "hostile.fathom", "--hostile"], check=True)
    text = export(tmp_path / "hostile.fathom", "callgraph-svg")
    Picture(text).check()
    assert "<script" not in text


def test_nothing_to_draw_is_one_line(tmp_path: Path) -> None:
    program = tmp_path / "short.sh"
    program.write_text("exit 0")
    command = [BUILD / "fathom", "record", "--rate", "1", "-o", tmp_path / "none.fathom", "--", "sh", program]
    subprocess.run(command, check=True)
    error = export(tmp_path / "none.fathom", "callgraph-svg", status=1)
    assert error.count("\n") == 1 and "neither calls nor samples" in error
