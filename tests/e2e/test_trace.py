"""Traces: every call, counted exactly, on every Python; times that add up; nothing lost without a word."""

import csv
import json
import os
import pstats
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import BUILD, ROOT, TARGETS, Python, find_pythons

TRUTH = TARGETS / "trace_truth.py"
LONG = bool(os.environ.get("FATHOM_TEST_LONG"))


def traceable() -> List[Python]:
    """Free-threaded builds cannot be traced yet, and debug builds are like their releases."""
    return [p for p in find_pythons() if p.kind == "release"]


ALL = traceable()
# One of each way to trace: the hook's three forms, and sys.monitoring.
FEW = [p for p in ALL if p.minor in (8, 10, 11, 12) or p is ALL[-1]]
each_python = True


def pythons(wanted: List[Python]) -> Any:
    return pytest.mark.parametrize("python", ALL if LONG else wanted, ids=str)


def trace(
    python: Python, output: Path, options: List[str], target: List[str], status: int = 0, **popen: Any
) -> "subprocess.CompletedProcess[str]":
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env["PYTHONPATH"] = str(ROOT / "python")
    command = [python.path, "-m", "fathom", "-o", str(output), *options, *target]
    run = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, timeout=300, **popen
    )
    assert run.returncode == status, run.stdout + run.stderr
    return run


def rows_of(profile: Path) -> List[Dict[str, Any]]:
    """One per function; numbers as integers."""
    text = subprocess.run(
        [BUILD / "fathom", "export", "-f", "csv", profile], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    rows = list(csv.DictReader(text.splitlines()))
    return [{k: v if k in ("name", "file", "kind") else int(v) for k, v in row.items()} for row in rows]


def calls_of(profile: Path, kind: str = "python") -> Dict[str, int]:
    """By name; without its class where Python does not know it (up to 3.10)."""
    calls: Dict[str, int] = {}
    for row in rows_of(profile):
        if row["kind"] == kind and (kind != "python" or row["file"] == str(TRUTH)):
            calls[row["name"]] = calls.get(row["name"], 0) + row["calls"]
    return calls


def short(name: str, python: Python) -> str:
    return name if python.minor >= 11 else name.rpartition(".")[2]


def check_truth(python: Python, profile: Path, printed: str) -> None:
    truth = {short(name, python): n for name, n in json.loads(printed).items()}
    calls = calls_of(profile)
    calls = {name.rpartition("<locals>.")[2]: n for name, n in calls.items()}
    assert {name: calls.get(name) for name in truth} == truth


def source(tmp_path: Path, text: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(text)
    return str(path)


@pythons(FEW)
@pytest.mark.parametrize(
    "what", ["recursion", "generators", "coroutines", "exceptions", "threads", "methods", "volume"]
)
def test_counts_are_exact(python: Python, tmp_path: Path, what: str) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [str(TRUTH), what])
    assert "lost" not in run.stderr
    check_truth(python, tmp_path / "t.fathom", run.stdout)


@pythons(FEW)
def test_own_times_add_up_to_the_wall_time(python: Python, tmp_path: Path) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "times"])
    wall_ns = json.loads(run.stdout)["wall_s"] * 1e9
    rows = {row["name"]: row for row in rows_of(tmp_path / "t.fathom") if row["file"] == str(TRUTH)}
    assert rows["times"]["total_ns"] == pytest.approx(wall_ns, rel=0.01)
    inside = sum(rows[name]["own_ns"] for name in ("times", "outer", "inner", "busy"))
    assert inside == pytest.approx(wall_ns, rel=0.01)
    # inner() is at least its 0.2 s of work and its 0.1 s of sleep, outer() 0.1 s more. Own and total differ by what is called.
    assert rows["inner"]["total_ns"] >= 0.3e9 and rows["outer"]["total_ns"] >= rows["inner"]["total_ns"] + 0.1e9
    assert rows["times"]["total_ns"] == rows["times"]["own_ns"] + rows["outer"]["total_ns"]
    assert rows["busy"]["calls"] == 2 and rows["busy"]["min_ns"] >= 0.1e9 and rows["busy"]["max_ns"] >= 0.2e9


def stats_of(path: Path) -> Dict[Any, Any]:
    stats: Dict[Any, Any] = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    return stats


def called_from(stats: Dict[Any, Any], caller: str, kind: str = "built-in method") -> Dict[str, int]:
    """By callee, the calls that one function of the target made."""
    found = {}
    for (file, _, name), (_, _, _, _, callers) in stats.items():
        for (caller_file, _, caller_name), (n, *_) in callers.items():
            if caller_file == str(TRUTH) and caller_name == caller:
                found[name if file != "~" else name[len(kind) + 2 : -1]] = n
    return found


@pythons(FEW)
def test_c_functions_are_called_by_their_own_names(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.prof", ["--calls", "c"], [str(TRUTH), "c_calls"])
    calls = called_from(stats_of(tmp_path / "t.prof"), "c_calls")
    assert calls["list.append"] == 300
    assert calls["_operator.index"] == 21
    assert calls["str.split"] == 1
    assert calls["builtins.isinstance"] == 20
    assert calls["builtins.len"] == 300


@pythons(FEW)
def test_lines_are_counted(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", ["-l"], [str(TRUTH), "lines"])
    text = subprocess.run(
        [BUILD / "fathom", "export", "-f", "lines-csv", tmp_path / "t.fathom"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    source = TRUTH.read_text().splitlines()
    hits = {
        source[int(row["line"]) - 1].split("#")[0].strip(): int(row["hits"])
        for row in csv.DictReader(text.splitlines())
        if row["file"] == str(TRUTH) and row["function"] == "lines"
    }
    assert hits["total += i"] == 200
    assert hits["leaf(i)"] == 50
    assert hits["if i % 4 == 0:"] == 200
    assert hits["for i in range(200):"] in (200, 201)  # versions differ in whether its end is a visit
    check_truth(python, tmp_path / "t.fathom", '{"leaf": 50}')


@pythons(FEW[-1:])
def test_short_threads_lose_nothing(python: Python, tmp_path: Path) -> None:
    """A thread may begin and end between two looks of the collector."""
    program = source(
        tmp_path,
        "import threading\n"
        "def leaf(): pass\n"
        "for _ in range(40):\n"
        "    threads = [threading.Thread(target=leaf) for _ in range(10)]\n"
        "    [t.start() for t in threads]\n"
        "    [t.join() for t in threads]\n",
    )
    trace(python, tmp_path / "t.fathom", [], [program])
    assert [row["calls"] for row in rows_of(tmp_path / "t.fathom") if row["name"] == "leaf"] == [400]


@pythons(FEW)
def test_forked_children_are_traced(python: Python, tmp_path: Path) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "forks"])
    check_truth(python, tmp_path / "t.fathom", run.stdout)


@pythons(FEW[-1:])
def test_a_program_that_just_stops_leaves_its_trace(python: Python, tmp_path: Path) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "ends_abruptly"], status=7)
    check_truth(python, tmp_path / "t.fathom", run.stdout)


RECURSION = """
import sys
def down(n):
    global deepest
    deepest = n
    down(n + 1)
if len(sys.argv) > 1:
    sys.setrecursionlimit(int(sys.argv[1]))
try:
    down(0)
except RecursionError as error:
    print(deepest, error)
def again(n):
    return n and again(n - 1)
again(300)
"""


@pythons(FEW)
def test_recursion_ends_where_it_does_without_us(python: Python, tmp_path: Path) -> None:
    program = source(tmp_path, RECURSION)
    bare = subprocess.run([python.path, program], stdout=subprocess.PIPE, check=True, text=True).stdout
    traced = trace(python, tmp_path / "t.fathom", [], [program]).stdout
    bare_depth, traced_depth = int(bare.split()[0]), int(traced.split()[0])
    # The frames of `python -m fathom` itself are on the stack, as those of cProfile would be.
    assert bare_depth - 25 <= traced_depth <= bare_depth
    assert bare.split()[1:] == traced.split()[1:]


@pytest.mark.parametrize("python", [p for p in ALL if p.minor == 11], ids=str)
def test_deep_recursion_does_not_use_up_the_c_stack(python: Python, tmp_path: Path) -> None:
    # 3.11 recurses without C stack, and with a hook it does not: 200,000 calls would need some 100 MB of it.
    run = trace(python, tmp_path / "t.fathom", [], [source(tmp_path, RECURSION), "200000"])
    assert int(run.stdout.split()[0]) > 199000
    report = subprocess.run(
        [BUILD / "fathom", "report", tmp_path / "t.fathom"], stdout=subprocess.PIPE, text=True
    ).stdout
    assert "deepest points" in report


def test_pstats_holds_what_cprofile_writes(tmp_path: Path) -> None:
    python = next(p for p in ALL if p.path and p.minor == sys.version_info[1])
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


PARTIAL = """
from fathom import Profiler
def work(n):
    return sum(step(i) for i in range(n))
def step(i):
    return i
work(10)
profiler = Profiler()
profiler.enable()
work(20)
profiler.disable()
work(40)
with profiler:
    work(5)
@profiler
def decorated():
    work(3)
decorated()
work(80)
"""


@pythons(FEW)
@pytest.mark.parametrize("is_alone", [False, True], ids=["under -m fathom -p", "on its own"])
def test_profiler_traces_what_it_encloses(python: Python, tmp_path: Path, is_alone: bool) -> None:
    program = source(tmp_path, PARTIAL)
    if is_alone:
        env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        run = subprocess.run([python.path, program], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
        assert run.returncode == 0 and run.stderr == ""
        profile = tmp_path / "trace.fathom"
    else:
        profile = tmp_path / "t.fathom"
        trace(python, profile, ["-p"], [program])
    rows = {row["name"]: row["calls"] for row in rows_of(profile) if row["file"] == program}
    assert rows["step"] == 20 + 5 + 3
    assert rows["work"] == 3
    assert rows["decorated"] == 1


ZONES = """
import threading, fathom
def region(n):
    for i in range(n):
        with fathom.zone("load"):
            with fathom.zone("parse"):
                pass
        fathom.counter("rows", i * 2.5)
    fathom.mark("done")
@fathom.zone("whole")
def run():
    region(10)
    threads = [threading.Thread(target=region, args=(5,)) for _ in range(3)]
    [t.start() for t in threads]; [t.join() for t in threads]
    try:
        with fathom.zone("fails"):
            raise KeyError
    except KeyError:
        pass
run()
print(run.__name__)
"""


@pythons(FEW)
def test_zones_marks_and_counters_are_in_the_profile(python: Python, tmp_path: Path) -> None:
    program = source(tmp_path, ZONES)
    run = trace(python, tmp_path / "t.fathom", [], [program])
    assert run.stdout == "run\n"
    rows = {row["name"]: row for row in rows_of(tmp_path / "t.fathom") if row["kind"] == "zone"}
    assert {name: row["calls"] for name, row in rows.items()} == {"load": 25, "parse": 25, "whole": 1, "fails": 1}
    assert rows["whole"]["total_ns"] >= rows["load"]["min_ns"] >= rows["parse"]["min_ns"]
    dump = subprocess.run([BUILD / "tests" / "dump_profile", tmp_path / "t.fathom"], stdout=subprocess.PIPE, text=True)
    names = {
        line.split("|")[1]: int(line.split()[1]) for line in dump.stdout.splitlines() if line.startswith("tracename")
    }
    events = [dict(p.split("=") for p in x.split()[1:]) for x in dump.stdout.splitlines() if x.startswith("zone ")]
    assert sum(e["op"] == "5" and int(e["ref"]) == names["done"] for e in events) == 4
    values = [float(e["value"]) for e in events if e["op"] == "6" and int(e["ref"]) == names["rows"]]
    assert sorted(values) == sorted([i * 2.5 for i in range(10)] + [i * 2.5 for i in range(5)] * 3)


def test_zones_reach_a_capture_of_samples(fathom: Path, tmp_path: Path) -> None:
    """Under `fathom record` nothing is traced, but what the program says itself is kept."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [str(fathom), "record", "-o", str(tmp_path / "t.fathom"), "--", ALL[-1].path, source(tmp_path, ZONES)]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    assert calls_of(tmp_path / "t.fathom", "zone") == {"load": 25, "parse": 25, "whole": 1, "fails": 1}
    assert calls_of(tmp_path / "t.fathom") == {}


BAD_USE = """
import warnings, fathom, os
warnings.simplefilter("always")
profiler = fathom.Profiler()
profiler.disable()
profiler.enable()
profiler.enable()
pid = os.fork()
if pid == 0:
    profiler.disable()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
profiler.disable()
profiler.disable()
for bad in (lambda: fathom.zone(3), lambda: fathom.zone([]), lambda: fathom.counter("x"), lambda: fathom.counter("x", "y")):
    try:
        bad()
    except TypeError as error:
        print("TypeError")
fathom.zone("never entered").__exit__(None, None, None)
type(fathom.zone("x"))
fathom.mark("\\ud800" if False else "text")
profiler.close()
profiler.close()
fathom.mark("after the end")
with fathom.zone("after the end"):
    pass
profiler.enable()
profiler.disable()
profiler.dump_stats("out.prof")
print("fine")
"""


@pythons(FEW)
def test_bad_use_is_clear_and_harmless(python: Python, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    run = subprocess.run(
        [python.path, source(tmp_path, BAD_USE)],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["TypeError"] * 4 + ["fine"]
    assert run.stderr.count("is not enabled; disable() does nothing") == 2
    assert run.stderr.count("is enabled already; enable() does nothing") == 1
    assert (tmp_path / "out.prof").exists()


def test_running_programs_see_no_difference(tmp_path: Path) -> None:
    program = source(
        tmp_path,
        "import sys, os, __main__\n"
        "print(__name__, __file__ == sys.argv[0], sys.argv[1:], sys.path[0] == os.path.dirname(__file__), __main__.x)\n"
        "try:\n    os.wait()\nexcept ChildProcessError:\n    print('no child')\n"
        "if sys.argv[1:] == ['exit']: sys.exit(5)\n"
        "if sys.argv[1:] == ['fail']: 1 / 0\n",
    )
    Path(program).write_text("x = 1\n" + Path(program).read_text())
    python = ALL[-1]
    for args, status in ([], 0), (["exit"], 5), (["fail"], 1):
        bare = subprocess.run([python.path, program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ours = trace(python, tmp_path / "t.fathom", ["--quiet"], [program, *args], status=status)
        assert (bare.returncode, bare.stdout) == (ours.returncode, ours.stdout)
        assert bare.stderr == ours.stderr


def test_wrong_usage_is_one_line(tmp_path: Path) -> None:
    python = ALL[-1]
    for args in (
        [],
        ["--no-such"],
        ["-m"],
        ["--calls", "x", "f.py"],
        ["--last", "x", "f.py"],
        ["--min-duration", "x", "f.py"],
        [str(tmp_path / "missing.py")],
    ):
        run = trace(python, tmp_path / "t.fathom", args, [], status=2)
        assert len(run.stderr.splitlines()) == 1 and run.stderr.startswith("fathom: "), run.stderr


@pythons(FEW[-1:])
def test_modules_and_pytest_run(python: Python, tmp_path: Path) -> None:
    run = trace(python, tmp_path / "t.fathom", [], ["-m", "json.tool", "--help"])
    assert "usage" in run.stdout
    assert any(row["name"].endswith("parse_args") and row["calls"] == 1 for row in rows_of(tmp_path / "t.fathom"))


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


SESSIONS = """
import queue, threading, fathom
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
jobs, done = queue.Queue(), queue.Queue()
def serve():
    while True:
        n = jobs.get()
        work(n)
        done.put(n)
threading.Thread(target=serve, daemon=True).start()
for i in range(3):
    profiler = fathom.Profiler("s%d.fathom" % i)
    with profiler:
        work(10 * (i + 1))
        jobs.put(100 * (i + 1)); done.get()
    assert profiler.close() == "s%d.fathom" % i
    jobs.put(7); done.get()
"""


@pythons(FEW)
def test_captures_follow_one_another(python: Python, tmp_path: Path) -> None:
    """A thread that lives through all of them writes to each, and to none in between."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    subprocess.run([python.path, source(tmp_path, SESSIONS)], cwd=tmp_path, env=env, check=True)
    for i in range(3):
        calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / ("s%d.fathom" % i))}
        assert calls["leaf"] == 110 * (i + 1) and calls["work"] == 2


TOGETHER = """
import cProfile, pstats, sys
def leaf(): pass
def work():
    for _ in range(100): leaf()
work()
other = cProfile.Profile()
other.enable()
work()
other.disable()
work()
events = []
def tracer(frame, event, arg):
    events.append(event)
    return tracer
sys.settrace(tracer)
work()
sys.settrace(None)
work()
counted = [value[1] for key, value in pstats.Stats(other).stats.items() if key[2] == "leaf"]
print(counted, events.count("call"))
"""


@pythons(FEW)
def test_other_tools_work_beside_us(python: Python, tmp_path: Path) -> None:
    run = trace(python, tmp_path / "t.fathom", [], [source(tmp_path, TOGETHER)])
    assert run.stdout.split() == ["[100]", "101"]
    calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom") if row["file"].endswith("program.py")}
    assert calls["leaf"] == 500 and calls["work"] == 5


def test_a_pytest_fixture_profiles_one_test(tmp_path: Path) -> None:
    """The fixture and the command that users have for other profilers."""
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "from fathom import Profiler\n"
        "@pytest.fixture(scope='function')\n"
        "def tracy_profile():\n"
        "    profiler = Profiler()\n"
        "    profiler.enable()\n"
        "    yield\n"
        "    profiler.disable()\n"
    )
    (tmp_path / "test_x.py").write_text(
        "def step(i): return i\n"
        "def test_y(tracy_profile):\n    assert sum(step(i) for i in range(40)) == 780\n"
        "def test_z():\n    assert sum(step(i) for i in range(1000))\n"
    )
    python = Python("3.%d.0" % sys.version_info[1], "release", sys.executable)
    for options in (["-p"], ["-p", "-l"]):
        run = trace(
            python, tmp_path / "t.fathom", options, ["-m", "pytest", "-q", str(tmp_path / "test_x.py")], cwd=tmp_path
        )
        assert "2 passed" in run.stdout
        calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom")}
        assert calls["step"] == 40 and calls["test_y"] == 1 and "test_z" not in calls


def test_calls_go_into_the_capture_that_runs(fathom: Path, tmp_path: Path) -> None:
    python = ALL[-1]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [str(fathom), "record", "-o", str(tmp_path / "all.fathom"), "--"]
    command += [python.path, "-m", "fathom", "-o", str(tmp_path / "own.fathom"), str(TRUTH), "exceptions"]
    run = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    assert "being profiled already" in run.stderr and not (tmp_path / "own.fathom").exists()
    check_truth(python, tmp_path / "all.fathom", run.stdout)


@pythons(FEW[-1:])
def test_report_of_one_function(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "recursion"])
    command = [str(BUILD / "fathom"), "report", str(tmp_path / "t.fathom"), "--function"]
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
    assert missing.returncode == 1 and "no traced function is called 'nobody'" in missing.stderr


ROUGH = """
import os, signal, subprocess, sys, time
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
work(100)
if sys.argv[1] == "closes":
    os.closerange(3, 256)
    files = [open(os.devnull) for _ in range(20)]
else:
    (pid,) = subprocess.run(["pgrep", "-f", "collect-for .* %d " % os.getpid()], stdout=subprocess.PIPE).stdout.split()
    os.kill(int(pid), signal.SIGKILL)
    time.sleep(0.1)
work(400000)
print("fine", flush=True)
"""


@pytest.mark.parametrize("what", ["closes", "kills"])
def test_rough_programs_get_through(tmp_path: Path, what: str) -> None:
    """Closing descriptors that are not its own, or losing the collector, costs the program nothing but a second."""
    run = trace(ALL[-1], tmp_path / "t.fathom", ["--quiet"], [source(tmp_path, ROUGH), what])
    assert run.stdout == "fine\n"
    calls = (
        {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom")} if what == "closes" else {"leaf": 400100}
    )
    assert calls["leaf"] == 400100


@pythons(FEW[-1:])
def test_only_the_last_seconds_are_kept(python: Python, tmp_path: Path) -> None:
    program = source(
        tmp_path,
        "import time\n"
        "def early(): pass\n"
        "def late(): pass\n"
        "def pause():\n    time.sleep(0.3)\n"
        "def main():\n"
        "    for _ in range(1000): early()\n"
        "    for _ in range(5): pause()\n"
        "    for _ in range(1000): late()\n"
        "main()\n",
    )
    run = trace(python, tmp_path / "t.fathom", ["--last", "0.5s"], [program])
    assert "lost" not in run.stderr
    calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom")}
    assert calls["late"] == 1000 and "early" not in calls
    assert 1 <= calls["pause"] <= 4
    assert calls["main"] == 0, "it began before, but is known to be open"


@pythons(FEW[-1:])
def test_short_calls_are_left_out_on_request(python: Python, tmp_path: Path) -> None:
    program = source(
        tmp_path,
        "import time\n"
        "def tiny(): pass\n"
        "def small():\n    for _ in range(3): tiny()\n"
        "def slow():\n    small()\n    time.sleep(0.06)\n"
        "def main():\n"
        "    for _ in range(200): small()\n"
        "    for _ in range(4): slow()\n"
        "main()\n",
    )
    trace(python, tmp_path / "t.fathom", ["--min-duration", "50ms"], [program])
    rows = {row["name"]: row for row in rows_of(tmp_path / "t.fathom")}
    # On a busy machine a short call may be interrupted for as long; not many of them.
    assert rows["slow"]["calls"] == 4 and rows["main"]["calls"] == 1
    assert rows.get("small", {"calls": 0})["calls"] < 5 and rows.get("tiny", {"calls": 0})["calls"] < 5
    assert rows["main"]["total_ns"] >= rows["slow"]["total_ns"] >= 0.24e9
    report = subprocess.run(
        [BUILD / "fathom", "report", tmp_path / "t.fathom"], stdout=subprocess.PIPE, text=True
    ).stdout
    assert "short calls" in report
