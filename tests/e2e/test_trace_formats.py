# SPDX-License-Identifier: Apache-2.0
"""What a trace is written as: for pstats and its kin, for timelines, for people and for machines."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest
from capture import BUILD, ROOT, Python
from tracing import (
    FEW,
    TRUTH,
    ZONES,
    pythons,
    source,
    stats_of,
    trace,
)

each_python = True  # tests name their Pythons themselves


def test_pstats_holds_what_cprofile_writes(tmp_path: Path) -> None:
    python = Python("3.%d.0" % sys.version_info[1], "release", sys.executable)
    for what in ("recursion", "exceptions", "methods"):
        trace(python, tmp_path / "ours.prof", [], [str(TRUTH), what])
        command = [python.path, "-m", "cProfile", "-o", str(tmp_path / "theirs.prof"), str(TRUTH), what]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        ours, theirs = stats_of(tmp_path / "ours.prof"), stats_of(tmp_path / "theirs.prof")
        checked = 0
        for key, (primitive, calls, _, _, callers) in theirs.items():
            if key[0] != str(TRUTH):
                continue
            assert ours[key][:2] == (primitive, calls), key
            for caller, counts in callers.items():
                if caller[0] == str(TRUTH):
                    assert ours[key][4][caller][:2] == counts[:2], (key, caller)
                    checked += 1
        assert checked >= 2


@pythons(FEW[-1:])
def test_other_tools_read_our_exports(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "recursion"])

    def export(format: str) -> str:
        command = [str(BUILD / "fathom"), "export", "-f", format, str(tmp_path / "t.fathom")]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout

    callgrind = tmp_path / "callgrind.out.1"
    callgrind.write_text(export("callgrind"))
    assert "fn=fib" in callgrind.read_text() and "calls=21890 " in callgrind.read_text()
    annotate = shutil.which("callgrind_annotate")
    if annotate:
        text = subprocess.run([annotate, str(callgrind)], stdout=subprocess.PIPE, check=True, text=True).stdout
        assert "fib" in text
    export_pstats = [
        str(BUILD / "fathom"),
        "export",
        "-f",
        "pstats",
        "-o",
        str(tmp_path / "t.prof"),
        str(tmp_path / "t.fathom"),
    ]
    subprocess.run(export_pstats, check=True)
    drawn = subprocess.run(
        [sys.executable, "-m", "gprof2dot", "-f", "pstats", str(tmp_path / "t.prof")], stdout=subprocess.PIPE, text=True
    )
    assert drawn.returncode == 0 and "fib" in drawn.stdout
    dot = export("dot")
    assert dot.startswith("digraph {") and "21891x" in dot
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "-o", os.devnull], input=dot, text=True, check=True)


@pythons(FEW[-1:])
def test_trace_events_nest_on_every_thread(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "threads"])
    command = [str(BUILD / "fathom"), "export", "-f", "chrometrace", str(tmp_path / "t.fathom")]
    events = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    depth: Dict[Any, int] = {}
    last: Dict[Any, float] = {}
    leaves: Dict[Any, int] = {}
    for event in events:
        row = event["pid"], event.get("tid")
        if event["ph"] not in "BE":
            continue
        assert event["ts"] >= last.get(row, 0)
        last[row] = event["ts"]
        depth[row] = depth.get(row, 0) + (1 if event["ph"] == "B" else -1)
        assert depth[row] >= 0
        if event.get("name") == "leaf" and event["cat"] == "call":
            assert event["loc"] == "%s:%d" % (TRUTH, TRUTH.read_text().splitlines().index("def leaf(i):") + 1)
            leaves[row] = leaves.get(row, 0) + 1
    assert set(depth.values()) == {0}
    assert sorted(leaves.values()) == [1000] + [2000] * 8


@pythons(FEW[-1:])
def test_report_for_machines_has_the_calls(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", ["--rate", "1"], [source(tmp_path, ZONES)])
    text = subprocess.run(
        [BUILD / "fathom", "report", "--json", tmp_path / "t.fathom"], stdout=subprocess.PIPE, check=True
    ).stdout
    calls = json.loads(text)["calls"]
    region = next(f for f in calls["functions"] if f["name"] == "region")
    assert region["calls"] == 4 and region["kind"] == "python"
    assert region["min_s"] <= region["p50_s"] <= region["p90_s"] <= region["max_s"] <= region["total_s"]
    assert sum(c["calls"] for c in region["callers"]) == 4
    assert [m["text"] for m in calls["marks"]] == ["done"] * 4
    assert calls["lost_events"] == 0
    # Own times and what is outside add up to what was traced.
    own_s = sum(f["own_s"] for f in calls["functions"])
    traced_s = sum(t["traced_s"] for t in calls["threads"])
    assert own_s + sum(t["outside_s"] for t in calls["threads"]) == pytest.approx(traced_s, rel=1e-6)


@pythons(FEW[-1:])
def test_both_readers_agree_on_a_trace(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", ["--rate", "1"], [source(tmp_path, ZONES)])
    by_c = subprocess.run([BUILD / "tests" / "dump_profile", tmp_path / "t.fathom"], stdout=subprocess.PIPE, check=True)
    reader = ROOT / "tests" / "reader" / "fathom_reader.py"
    by_python = subprocess.run([sys.executable, reader, tmp_path / "t.fathom"], stdout=subprocess.PIPE, check=True)
    assert by_c.stdout == by_python.stdout and b"\nzone " in by_c.stdout


@pythons(FEW[-1:])
def test_report_of_one_function(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "recursion"])
    command = [str(BUILD / "fathom"), "report", str(tmp_path / "t.fathom"), "--focus"]
    text = subprocess.run([*command, "fib"], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert "21891, 21890 of them inside another" in text
    rows = [line.split() for line in text.partition("from\n")[2].partition("\n\n")[0].splitlines()]
    assert sum(int(row[-1]) for row in rows) == 21891, "every call is in the histogram"
    assert "recursion" in text.partition("Called by")[2]
    line = TRUTH.read_text().splitlines().index("def fib(n):") + 1
    by_place = subprocess.run(
        [*command, "trace_truth.py:%d" % line], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    assert by_place == text
    missing = subprocess.run([*command, "nobody"], stderr=subprocess.PIPE, text=True)
    assert missing.returncode == 2 and "no function or line that was seen is called 'nobody'" in missing.stderr
    found = json.loads(subprocess.run([*command, "fib", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    assert (found["calls"]["calls"], found["calls"]["recursive_calls"]) == (21891, 21890)
    assert [edge["name"] for edge in found["calls"]["callees"]] == ["fib"]
