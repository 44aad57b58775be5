#!/usr/bin/env python3
"""What tracing adds to a call, beside cProfile (and viztracer where it is installed): nanoseconds of CPU, by turns.

    python3 bench/trace.py                        # every Python found by scripts/find-pythons.py
    python3 bench/trace.py --python PATH --rounds 9
    python3 bench/trace.py --lines                # what -l adds to a line, beside line_profiler where it is installed
    python3 bench/trace.py --zones                # what a zone costs C code and each Python, recorded and not

Tools that a Python lacks are left out; PYTHONPATH may name a folder that has them.

Bare recursion, the worst case: a call that does nothing else. Each tool runs the same calls in turn and times them by the thread's
own CPU clock; the smallest of all rounds counts, because a busy machine only ever adds. The ratio is what we add to what cProfile
adds in the same run. "empty hook" and "its clocks" are the least that can be: an interpreter that tells of every call and nobody who listens, and the same
with the clock read twice a call (bench/trace_floor.c; by sys.monitoring from 3.12 on, too). A quarter million calls go before: what a tool does once (the pages of our ring, a millisecond) is no cost of a call.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import time
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(25)
start = time.thread_time()
fib({n})
print("took", time.thread_time() - start)
"""


def n_calls(n: int) -> int:
    a, b = 1, 1
    for _ in range(n - 1):
        a, b = b, a + b + 1
    return b


def run(python: str, tool: List[str], program: str) -> Optional[float]:
    folders = [str(ROOT / "python")] + [path for path in [os.environ.get("PYTHONPATH")] if path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [python, *tool, program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    )
    found = re.search(r"took ([\d.e-]+)", done.stdout)
    return float(found[1]) if found else None


def pythons() -> List[str]:
    spec = importlib.util.spec_from_file_location("find_pythons", ROOT / "scripts" / "find-pythons.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [path for _, kind, path in module.find(one=True) if kind == "release"]


def by_turns(python: str, tools: Dict[str, List[str]], program: str, rounds: int) -> Dict[str, float]:
    """By tool, the smallest time of all rounds; those that do not run here are left out."""
    best: Dict[str, float] = {}
    for _ in range(rounds):
        for name, tool in list(tools.items()):
            took = run(python, tool, program)
            if took is None:
                del tools[name]  # not installed for this Python
            else:
                best[name] = min(best.get(name, took), took)
    return best


def version_of(python: str) -> str:
    command = [python, "-c", "import sys; print(sys.version.split()[0])"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.strip()


def row(python: str, best: Dict[str, float], n: int, against: List[str]) -> str:
    """What each tool adds to one of n things, and our share of what others add."""
    bare = best.pop("bare")
    added = {name: (took - bare) / n * 1e9 for name, took in best.items()}
    text = "%-8s bare %5.1f ns" % (version_of(python), bare / n * 1e9)
    text += "".join("   %s +%.1f" % pair for pair in added.items())
    return text + "".join("   of %s %.2f" % (a, added["fathom"] / added[a]) for a in against if a in added)


FLOOR = """
import runpy, sys
sys.path.insert(0, {folder!r})
import trace_floor
how, reads_clock = sys.argv[1], sys.argv[2] == "clock"
if how == "hook":
    trace_floor.set_hook(reads_clock)
else:
    monitoring = sys.monitoring
    monitoring.use_tool_id(3, "floor")
    for event in (monitoring.events.PY_START, monitoring.events.PY_RETURN):
        monitoring.register_callback(3, event, trace_floor.make_callback(reads_clock))
    monitoring.set_events(3, monitoring.events.PY_START | monitoring.events.PY_RETURN)
runpy.run_path(sys.argv[3], run_name="__main__")
"""


def floor_tools(python: str, folder: str) -> Dict[str, List[str]]:
    """Programs that run one as it would be with the cheapest trace of all. None for a Python without its headers."""
    ask = "import sys, sysconfig; print(sysconfig.get_paths()['include'], sys.version_info[1])"
    answer = subprocess.run([python, "-c", ask], stdout=subprocess.PIPE, text=True).stdout.split()
    into = tempfile.mkdtemp(dir=folder)
    command = ["gcc", "-O2", "-shared", "-fPIC", "-I", answer[0], "-I", str(ROOT / "core"), "-o"]
    command += [os.path.join(into, "trace_floor.so"), str(ROOT / "bench" / "trace_floor.c")]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
        return {}
    runner = os.path.join(into, "floor.py")
    Path(runner).write_text(FLOOR.format(folder=into))
    tools = {"empty hook": [runner, "hook", "-"], "its clocks": [runner, "hook", "clock"]}
    if int(answer[1]) >= 12:
        tools.update({"empty callbacks": [runner, "monitor", "-"], "their clocks": [runner, "monitor", "clock"]})
    return tools


def measure(python: str, n: int, rounds: int, folder: str) -> str:
    program = os.path.join(folder, "program.py")
    Path(program).write_text(PROGRAM.format(n=n))
    tools: Dict[str, List[str]] = {
        "bare": [],
        "cProfile": ["-m", "cProfile", "-o", os.path.join(folder, "c.prof")],
        "fathom": ["-m", "fathom", "-o", os.path.join(folder, "f.fathom"), "--quiet"],
        "viztracer": ["-m", "viztracer", "--quiet", "--ignore_c_function", "-o", os.path.join(folder, "v.json")],
        **floor_tools(python, folder),
    }
    return row(python, by_turns(python, tools, program, rounds), n_calls(n), ["cProfile", "viztracer"])


LINES = """
import time
def work(n):
    a = 0
    for i in range(n):
        a += i
        a ^= 3
        a -= i
    return a
if {is_profiled}:
    import line_profiler
    work = line_profiler.LineProfiler(work)(work)
start = time.thread_time()
work({n})
print("took", time.thread_time() - start)
"""


def measure_lines(python: str, rounds: int, folder: str) -> str:
    """A loop of four lines, each of which does next to nothing."""
    n = 100000
    program, with_profiler = os.path.join(folder, "lines.py"), os.path.join(folder, "with_profiler.py")
    Path(program).write_text(LINES.format(n=n, is_profiled=False))
    Path(with_profiler).write_text(LINES.format(n=n, is_profiled=True))
    fathom = ["-m", "fathom", "-o", os.path.join(folder, "l.fathom"), "--quiet"]
    tools: Dict[str, List[str]] = {
        "bare": [],
        "line_profiler": [with_profiler],
        "fathom": [*fathom, "-l"],
        "fathom --lines": [*fathom, "--lines", "__main__:work"],
    }
    return row(python, by_turns(python, tools, program, rounds), n * 4, ["line_profiler"])


PYTHON_ZONES = """
import sys, time
from fathom import counter, mark, zone
def bare(n):
    for _ in range(n):
        pass
def zoned(n):
    for _ in range(n):
        with zone("load"):
            pass
kept = zone("kept")
def zoned_by_kept(n):
    for _ in range(n):
        with kept:
            pass
def marked(n):
    for _ in range(n):
        mark("here")
def counted(n):
    for _ in range(n):
        counter("rows", 2.5)
floor = getter = zone
def on_the_floor(n):
    for _ in range(n):
        with floor("load"):
            pass
def by_getter(n):
    for _ in range(n):
        with getter("load"):
            pass
floor_kept = kept
def by_floor_kept(n):
    for _ in range(n):
        with floor_kept:
            pass
works = [bare, zoned, zoned_by_kept, marked, counted]
if {folder!r}:
    sys.path.insert(0, {folder!r})
    import trace_floor
    nothing = trace_floor.make_callback(False)
    floor_kept = type("Zone", (), {{"__slots__": (), "__enter__": nothing, "__exit__": nothing}})()
    trace_floor.use_zone(floor_kept)
    floor, getter = trace_floor.zone, trace_floor.make_zone_getter()
    works += [on_the_floor, by_getter, by_floor_kept]
best = [1e9] * len(works)
# Often and not long: up to 3.10 Python remembers where it found a name only in functions that are called often.
for _ in range(30):
    for i, work in enumerate(works):
        start = time.thread_time()
        for _ in range(100):
            work(50)
        best[i] = min(best[i], time.thread_time() - start)
print("took", *((b - best[0]) / 5000 * 1e9 for b in best[1:]))
"""


def measure_python_zones(python: str, rounds: int, folder: str) -> str:
    program = os.path.join(folder, "zones.py")
    floor = floor_tools(python, folder)
    Path(program).write_text(PYTHON_ZONES.format(folder=os.path.dirname(floor["empty hook"][0]) if floor else ""))
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    tools = {"not profiled": [], "recorded": ["-m", "fathom", "-p", "-o", os.path.join(folder, "z.fathom"), "--quiet"]}
    best: Dict[str, List[float]] = {}
    for _ in range(rounds):
        for name, tool in tools.items():
            done = subprocess.run([python, *tool, program], stdout=subprocess.PIPE, text=True, env=env)
            took = [float(number) for number in re.findall(r"[\d.]+", done.stdout)]
            best[name] = [min(pair) for pair in zip(took, best.get(name, took))]
    names = ["with zone(name)", "with kept", "mark", "counter"]
    text = "%-8s" % version_of(python)
    for name, took in best.items():
        text += "   %s: " % name + ", ".join("%s %.1f" % pair for pair in zip(names, took))
    if floor:
        least = zip(["with zone(name)", "the same by a vectorcall", "with kept"], best["not profiled"][-3:])
        text += "   doing nothing: " + ", ".join("%s %.1f" % pair for pair in least)
    return text


ZONES = """
#include <fathom.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#define N %d
static volatile uint64_t sink;
static __attribute__((noinline)) void bare(uint64_t i) { sink = i; }
static __attribute__((noinline)) void zoned(uint64_t i) { FATHOM_ZONE("zone"); sink = i; }
static double took(void (*work)(uint64_t))
{
	struct timespec a, b;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	for (uint64_t i = 0; i < N; i++)
		work(i);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / N;
}
int main(void)
{
	double best[2] = { 1e9, 1e9 };
	for (int i = 0; i < 20; i++) {
		double without = took(bare), with = took(zoned);
		best[0] = without < best[0] ? without : best[0];
		best[1] = with < best[1] ? with : best[1];
	}
	printf("bare %%.3f took %%.3f\\n", best[0], best[1]);
	return 0;
}
"""


def measure_zones(rounds: int, folder: str) -> str:
    """Begin and end together. A round fits into the ring, and the collector empties it between rounds."""
    source, program = os.path.join(folder, "zones.c"), os.path.join(folder, "zones")
    Path(source).write_text(ZONES % 20000)
    subprocess.run(["gcc", "-O2", "-I", str(ROOT / "include"), "-o", program, source], check=True)
    fathom = str(ROOT / "build" / "fathom")
    record = [fathom, "record", "-o", os.path.join(folder, "z.fathom"), "--"]
    best: Dict[str, float] = {}
    bare = 1e9
    for _ in range(rounds):
        for name, before in (("not profiled", []), ("recorded", record)):
            done = subprocess.run([*before, program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            without, ns = (float(number) for number in re.findall(r"[\d.]+", done.stdout))
            bare, best[name] = min(bare, without), min(best.get(name, ns), ns)
    row = "zone of C, begin and end: bare loop %.2f ns" % bare
    return row + "".join("   %s +%.2f" % (name, ns - bare) for name, ns in best.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", help="an interpreter; may be given several times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n", type=int, default=28, help="fib(N) is computed (default 28: a million calls)")
    parser.add_argument("--lines", action="store_true", help="lines instead of calls")
    parser.add_argument("--zones", action="store_true", help="zones instead of calls")
    args = parser.parse_args()
    for python in args.python or []:
        if not shutil.which(python):
            parser.error(f"there is no Python at {python}; --python takes a path or the name of a program")
    with tempfile.TemporaryDirectory() as folder:
        if args.zones:
            print(measure_zones(args.rounds, folder), flush=True)
        for python in args.python or pythons():
            if args.zones:
                print(measure_python_zones(python, args.rounds, folder), flush=True)
            elif args.lines:
                print(measure_lines(python, args.rounds, folder), flush=True)
            else:
                print(measure(python, args.n, args.rounds, folder), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
