# SPDX-License-Identifier: Apache-2.0
"""Traces as they are used: python -m fathom with its options, Profiler and zones, beside other tools, and wrongly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capture import BUILD, ROOT, Python
from tracing import (
    ALL,
    FEW,
    TRUTH,
    ZONES,
    calls_of,
    check_truth,
    pythons,
    rows_of,
    source,
    trace,
)

each_python = True  # tests name their Pythons themselves


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
def refused():
    for bad in (lambda: fathom.zone(3), lambda: fathom.zone([]), lambda: fathom.counter("x"), lambda: fathom.counter("x", "y"),
                lambda: fathom.counter(3, 4), lambda: fathom.mark(3), lambda: fathom.mark()):
        try:
            bad()
        except TypeError as error:
            print("TypeError")
refused()
fathom.zone("never entered").__exit__(None, None, None)
type(fathom.zone("x"))
fathom.mark("half a pair: \\ud800")
profiler.close()
profiler.close()
refused()
fathom.mark("half a pair: \\ud800")
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
    assert run.stdout.split() == ["TypeError"] * 14 + ["fine"]
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


def test_what_is_not_there_is_one_line_and_the_rest_says_where_it_is(tmp_path: Path) -> None:
    output = tmp_path / "t.fathom"
    run = trace(ALL[-1], output, [], ["-m", "no_such_module"], status=1, cwd=tmp_path)
    assert run.stderr == "fathom: there is no module named no_such_module\n" and not output.exists()
    run = trace(ALL[-1], tmp_path / "t.prof", [], [source(tmp_path, "pass")], cwd=tmp_path)
    assert run.stderr.endswith(
        "In %s and %s; 'fathom view %s' shows it over time.\n" % (output, tmp_path / "t.prof", output)
    )


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


AGAIN = """
import threading, time, fathom
profiler = fathom.Profiler("t.fathom")
def work(): outer()
def outer():
    for _ in range(3): inner()
def inner(): time.sleep(0.002)
is_over = False
def serve():
    while not is_over: step()
def step(): time.sleep(0.001)
server = threading.Thread(target=serve)
server.start()
profiler.enable(); profiler.disable()   # from here on zones are recorded
with fathom.zone("around"):
    for _ in range(40):
        with profiler: work()
    time.sleep(0.1)
is_over = True
server.join()
profiler.close()
"""


@pythons([p for p in FEW if p.minor in (11, 12) or p is FEW[-1]])
def test_traces_that_follow_at_once(python: Python, tmp_path: Path) -> None:
    """The collector reads the end of one with the beginning of the next: neither's calls, nor a zone around all, are cut short."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    subprocess.run([python.path, source(tmp_path, AGAIN)], cwd=tmp_path, env=env, check=True)
    rows = {row["name"]: row for row in rows_of(tmp_path / "t.fathom")}
    assert (rows["work"]["calls"], rows["outer"]["calls"], rows["inner"]["calls"]) == (40, 40, 120)
    assert rows["work"]["total_ns"] >= rows["outer"]["total_ns"] >= rows["inner"]["total_ns"] >= 120 * 2e6
    assert rows["around"]["calls"] == 1 and rows["around"]["total_ns"] >= rows["work"]["total_ns"] + 0.1e9
    assert rows["around"]["own_ns"] >= 0.1e9
    # The other thread was in step() when most of the traces began: what it does in each is a call of its own.
    assert rows["step"]["max_ns"] < rows["around"]["total_ns"] / 2 and rows["step"]["calls"] >= 40


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
    check_truth(tmp_path / "all.fathom", run.stdout)


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


CLASSES = """
import gc
def make(i): return type("Made%d" % i, (), {})
def work():
    for i in range(20):
        made = make(i)
        for _ in range(i + 1): made()
        del made
        gc.collect()    # the next one may be given its address
work()
"""


@pythons([p for p in FEW if p.minor >= 12 and p.kind == "release"])
def test_classes_that_come_and_go_keep_their_names(python: Python, tmp_path: Path) -> None:
    if python.minor < 12:
        pytest.skip("up to 3.11 Python does not tell of calls of classes")
    trace(python, tmp_path / "t.fathom", ["--calls", "c"], [source(tmp_path, CLASSES)])
    calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom")}
    assert {name: n for name, n in calls.items() if "Made" in name} == {"__main__.Made%d" % i: i + 1 for i in range(20)}
