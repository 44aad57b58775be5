# SPDX-License-Identifier: Apache-2.0
"""What a trace reports of each function, against what the program measured itself from within and from around every call."""

import json
import re
import subprocess
from typing import Any, Dict, List

import pytest
from capture import BUILD, TARGETS
from tracing import ALL, rows_of, trace

each_python = True  # tests name their Pythons themselves

DURATIONS = TARGETS / "trace_durations.py"
UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9}
SLACK = 0.002  # of the two clocks' rates: the cycle counter is compared with the system's clock every few milliseconds


@pytest.fixture(scope="module", params=ALL, ids=str)
def traced(request: Any, tmp_path_factory: Any) -> Any:
    folder = tmp_path_factory.mktemp("durations")
    truth = json.loads(trace(request.param, folder / "t.fathom", [], [str(DURATIONS)]).stdout)
    rows = {row["name"]: row for row in rows_of(folder / "t.fathom") if row["file"] == str(DURATIONS)}
    return folder / "t.fathom", truth, rows


def within(value: float, low: float, high: float, slack: float = SLACK) -> None:
    assert low * (1 - slack) <= value <= high * (1 + slack)


def test_own_times_add_up_to_the_wall(traced: Any) -> None:
    _, truth, rows = traced
    own_ns = sum(rows[name]["own_ns"] for name in ("main", "stretch", "down", "ping", "pong"))
    within(own_ns, truth["wall"], truth["wall_around"], slack=0.01)
    assert rows["main"]["total_ns"] == own_ns, "main() is around all of them"


def test_recursion_counts_once(traced: Any) -> None:
    _, truth, rows = traced
    assert (rows["down"]["calls"], rows["down"]["recursive_calls"]) == (10, 9)
    assert 10 * 100000 <= rows["down"]["total_ns"] <= truth["down"] * (1 + SLACK)
    assert rows["down"]["max_ns"] == rows["down"]["total_ns"], "the outermost call is all of them"
    # ping calls pong calls ping: each is on the stack for all that is inside.
    assert (rows["ping"]["calls"], rows["pong"]["calls"], rows["ping"]["recursive_calls"]) == (5, 5, 4)
    assert 10 * 50000 <= rows["ping"]["total_ns"] <= truth["ping"] * (1 + SLACK)
    assert 9 * 50000 <= rows["pong"]["total_ns"] <= rows["ping"]["total_ns"] - 50000
    for name in ("down", "ping", "pong"):
        assert rows[name]["own_ns"] < 0.5 * rows[name]["total_ns"], "the time is stretch()'s"


@pytest.mark.statistical
def test_every_number_lies_between_the_two_measurements(traced: Any) -> None:
    profile, truth, rows = traced
    inner, outer = truth["inner"], truth["outer"]
    text = subprocess.run(
        [BUILD / "fathom", "report", "--json", profile], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    functions = json.loads(text)["calls"]["functions"]
    stretch = next(f for f in functions if f["name"] == "stretch" and f["file"] == str(DURATIONS))
    of_main = next(c for c in stretch["callers"] if c["name"] == "main")
    assert of_main["calls"] == 500 and stretch["calls"] == 520
    within(of_main["total_s"] * 1e9, sum(inner), sum(outer))
    # The other twenty took 100 or 50 us and are known to be at least that.
    more = [100000] * 10 + [50000] * 10
    low = sorted(inner + more)
    high = sorted(outer + [ns + truth["down"] + truth["ping"] for ns in more])
    within(stretch["min_s"] * 1e9, low[0], outer[0])
    within(stretch["max_s"] * 1e9, inner[-1], high[-1])
    within(stretch["mean_s"] * 1e9, sum(low) / 520, (sum(outer) + truth["down"] + truth["ping"]) / 520)
    for share, key in ((0.5, "p50_s"), (0.9, "p90_s"), (0.99, "p99_s")):
        at = int(share * 520) - 1
        within(stretch[key] * 1e9, low[at], high[min(at + 20, 519)], slack=0.07)
    assert rows["stretch"]["min_ns"] == pytest.approx(stretch["min_s"] * 1e9, abs=1)
    assert rows["stretch"]["mean_ns"] == pytest.approx(stretch["mean_s"] * 1e9, abs=1)


def test_the_histogram_has_each_call_where_it_belongs(traced: Any) -> None:
    profile, truth, _ = traced
    command = [BUILD / "fathom", "report", "--focus", "stretch", profile]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    rows: List[Any] = []
    for line in text.partition("from\n")[2].partition("\n\n")[0].splitlines():
        match = re.match(r" *([0-9.]+) (us|ms|s) .* ([0-9]+)$", line)
        assert match, line
        rows.append((float(match[1]) * UNITS[match[2]], int(match[3])))
    assert sum(n for _, n in rows) == 520
    for (edge, _), (next_edge, _) in zip(rows, rows[1:]):
        assert next_edge == pytest.approx(2 * edge, rel=0.01), "an octave a row"
    below = 0
    for i, (edge, n) in enumerate(rows):
        if i:
            # A call below the edge was so by its own measure; one that was below by its caller's is.
            least = sum(ns < edge * (1 - 0.01) for ns in truth["outer"])
            most = sum(ns < edge * (1 + 0.01) for ns in truth["inner"]) + 20
            assert least <= below <= most, (edge, below)
        below += n


def test_the_table_has_more_columns_on_a_wider_page(traced: Any) -> None:
    profile, _, rows = traced
    seen: Dict[int, List[str]] = {}
    for width in (100, 125, 150):
        command = [BUILD / "fathom", "report", "--width", str(width), profile]
        text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
        heading = next(line for line in text.splitlines() if line.split()[:2] == ["calls", "total"])
        row = next(line for line in text.splitlines() if "stretch (trace_durations.py" in line)
        assert len(row) <= width and row.index("stretch (") == heading.index("function")
        seen[width] = heading.replace("90 %", "90%").replace("99 %", "99%").split()
        assert row.split()[0] == str(rows["stretch"]["calls"])
    assert seen[100] == ["calls", "total", "own", "median", "longest", "function"]
    assert seen[125] == ["calls", "total", "own", "mean", "median", "99%", "longest", "function"]
    assert len(seen[150]) == 10


@pytest.mark.parametrize("python", [p for p in ALL if p.minor >= 11 and p.kind == "release"][-1:], ids=str)
def test_no_hook_stands_between_a_caller_and_whom_it_calls(python: Any, tmp_path: Any) -> None:
    program = tmp_path / "waits.py"
    program.write_text(
        "import time\ndef inner():\n    time.sleep(0.02)\ndef outer():\n    for _ in range(20):\n        inner()\nouter()\n"
    )
    profile = tmp_path / "waits.fathom"
    subprocess.run([BUILD / "fathom", "record", "--trace", "-o", profile, "--", python.path, program], check=True)
    export = [BUILD / "fathom", "export", "-f", "collapsed", "--idle", profile]
    stacks = subprocess.run(export, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    waiting = [s for s in stacks if "inner (waits.py:3)" in s]
    assert waiting and all("outer (waits.py:6);inner (waits.py:3)" in s for s in waiting), waiting
