# SPDX-License-Identifier: Apache-2.0
"""Programs whose time is split in a known way are reported so, within three standard errors (capture.standard_error_s).

The truth is measured by the program itself, on the thread's CPU clock, in the same run (tests/targets/truth.py).
Beyond the standard error one sample period is allowed: a part begins and ends within one, once per run.
"""

import json
import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
from capture import CLASS_GC, TARGETS, Capture, Python, Sample, find_pythons, standard_error_s

pytestmark = pytest.mark.statistical

LONG = bool(os.environ.get("FATHOM_TEST_LONG"))
SECONDS = 2.0 if LONG else 0.7  # the tolerance follows from the samples got
PERIOD_S = 1e-3
ENGINES = ["ticker", "perf"]
NO_LIMIT = ["--max-overhead", "0"]


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: Any, fathom: Path, tmp_path_factory: Any) -> str:
    name: str = request.param
    out = tmp_path_factory.mktemp("engine") / "p.fathom"
    subprocess.run([fathom, "record", "--engine", name, "-o", out, "--", "true"], check=True)
    used = json.loads(subprocess.run([fathom, "report", "--json", out], check=True, stdout=subprocess.PIPE).stdout)[
        "engine"
    ]
    if used != name:
        pytest.skip("perf_event_open is refused here")
    return name


def skip_if_seen(engine: str, python: Python) -> None:
    """Which Python runs is nothing to a kernel timer: of perf one is enough."""
    if engine == "perf" and python != find_pythons()[-1] and not LONG:
        pytest.skip("perf on the newest Python only")


def line_marked(target: str, name: str) -> int:
    for n, line in enumerate((TARGETS / target).read_text().splitlines(), 1):
        if line.endswith("# line: " + name):
            return n
    raise KeyError(name)


def line_row(capture: Capture, target: str, name: str) -> Dict[str, float]:
    wanted = line_marked(target, name)
    rows = [r for r in capture.report["lines"] if Path(r["file"]).name == target and r["line"] == wanted]
    assert len(rows) == 1, f"{target}:{wanted} is in the report {len(rows)} times"
    row: Dict[str, float] = rows[0]
    return row


class Comparison:
    """Collects (what, true seconds, reported seconds) and judges all of them at once."""

    def __init__(self, title: str, samples: List[Sample]) -> None:
        self.title, self.samples = title, samples
        self.rows: List[Tuple[str, float, float]] = []

    def add(self, what: str, true_s: float, got_s: float) -> None:
        self.rows.append((what, true_s, got_s))

    def judge(self, record_property: Any, allowance_s: float = PERIOD_S) -> None:
        worst, text = 0.0, []
        for what, true_s, got_s in self.rows:
            se = standard_error_s(true_s, self.samples)
            off_s = max(0.0, abs(got_s - true_s) - allowance_s)
            sigmas = off_s / se if se else (math.inf if off_s else 0.0)  # a part of nothing has no error
            worst = max(worst, sigmas)
            text.append(f"{what}: {got_s:.4f} s, true {true_s:.4f} s, {sigmas:.2f} standard errors of {se:.4f} s")
        print(f"{self.title}: {len(self.samples)} samples, worst {worst:.2f} standard errors")
        record_property("standard_errors", round(worst, 3))
        record_property("samples", len(self.samples))
        assert worst <= 3, "\n".join(text)


def run(
    profile: Any,
    python: Python,
    tmp_path: Path,
    target: str,
    *args: str,
    options: Tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> Tuple[Capture, Dict[str, float]]:
    file = tmp_path / "truth.json"
    capture: Capture = profile(target, [str(file), str(seconds), *args], [*NO_LIMIT, *options], python)
    truth: Dict[str, float] = json.loads(file.read_text())
    assert capture.report["dropped"] == 0
    return capture, truth


def test_functions(profile: Any, python: Python, engine: str, tmp_path: Path, record_property: Any) -> None:
    skip_if_seen(engine, python)
    capture, truth = run(profile, python, tmp_path, "truth_functions.py", options=("--engine", engine))
    c = Comparison(f"functions {python} {engine}", capture.samples)
    for name, seconds in truth.items():
        c.add(name, seconds, capture.seconds(name))
    c.judge(record_property)


def test_lines(profile: Any, python: Python, tmp_path: Path, record_property: Any) -> None:
    capture, truth = run(profile, python, tmp_path, "truth_lines.py")
    c = Comparison(f"lines {python}", capture.samples)
    for name, seconds in truth.items():
        c.add(name, seconds, line_row(capture, "truth_lines.py", name)["total_s"])
    c.judge(record_property)


def test_threads(profile: Any, python: Python, tmp_path: Path, record_property: Any) -> None:
    """A thread's CPU time is known, not estimated: what a thread did after its last sample is all that may be missing."""
    capture, truth = run(profile, python, tmp_path, "truth_threads.py")
    rows = {str(r["tid"]): r for r in capture.report["threads"]}
    sleeper = next(name for name in truth if name.startswith("sleeper"))
    slept_s = truth.pop(sleeper)
    got_s = rows.get(sleeper.split()[1], {"cpu_s": 0.0})["cpu_s"]
    assert got_s <= slept_s + PERIOD_S and slept_s < 0.05, f"the sleeping thread: {got_s} s, true {slept_s} s"
    # On a crowded machine ticks come without memory: more than 12 periods apart one time in 160,000.
    rest_s = 12 * PERIOD_S
    for tid, true_s in truth.items():
        weight_s = sum(s.weight_ns for s in capture.samples if capture.thread_tids[s.thread] == int(tid)) * 1e-9
        assert abs(rows[tid]["cpu_s"] - true_s) <= rest_s, f"thread {tid}: {rows[tid]['cpu_s']} s, true {true_s} s"
        assert abs(weight_s - true_s) <= rest_s, f"thread {tid}: samples weigh {weight_s} s, true {true_s} s"


def test_python_against_native(profile: Any, python: Python, engine: str, tmp_path: Path) -> None:
    """C functions that Python calls are native, wherever they live; what bytecode does by itself is Python, wherever that lives."""
    skip_if_seen(engine, python)
    options = ("--engine", engine)
    capture, truth = run(profile, python, tmp_path, "truth_kinds.py", options=options, seconds=2 * SECONDS)
    wrong = []
    for name, true_s in truth.items():
        row = line_row(capture, "truth_kinds.py", name)
        is_native = name in ("sorting", "loading", "matching", "joining")
        mine_s = row["native_s" if is_native else "python_s"]
        other_s = row["python_s" if is_native else "native_s"]
        # The loop around a call is Python's, and so is letting go of what it gave: at most one part in ten here.
        # Up to 3.9 what enters a Python function is told by names that a build need not have: up to a third of that is called native.
        part = 0.33 if name == "calls" and python.minor <= 9 else 0.1
        se = standard_error_s(part * true_s, capture.samples)
        if other_s > part * (mine_s + other_s) + 3 * se:
            wrong.append(f"{name}: {mine_s:.3f} s, and {other_s:.3f} s of the other kind")
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="session")
def spin_library(tmp_path_factory: Any) -> str:
    cc = shutil.which("cc") or shutil.which("gcc")
    if not cc:
        pytest.skip("no C compiler")
    out = tmp_path_factory.mktemp("spin") / "libspin.so"
    subprocess.run([cc, "-O2", "-shared", "-fPIC", "-o", str(out), str(TARGETS / "spin.c")], check=True)
    return str(out)


def test_native(
    profile: Any, python: Python, engine: str, spin_library: str, tmp_path: Path, record_property: Any
) -> None:
    skip_if_seen(engine, python)
    capture, truth = run(profile, python, tmp_path, "truth_native.py", spin_library, options=("--engine", engine))
    c = Comparison(f"native {python} {engine}", capture.samples)
    pure, free, holding = (line_row(capture, "truth_native.py", name) for name in ("pure", "free", "holding"))
    c.add("python_s of the Python line", truth["pure"], pure["python_s"])
    c.add("native_s of the Python line", 0, pure["native_s"])
    c.add("native_s of the call without the GIL", truth["free"], free["native_s"])
    c.add("native_s of the call with the GIL", truth["holding"], holding["native_s"])
    c.judge(record_property)


# The kernel keeps its account of system time by its clock tick: 250 samples a second on most systems.
ACCOUNT_TICKS_PER_S = 250


def account_error_s(system_s: float, whole_s: float) -> float:
    """One standard error of the kernel's own account."""
    return math.sqrt(system_s * (whole_s - system_s) / (ACCOUNT_TICKS_PER_S * whole_s))


def shown_at_the_clock_s(capture: Capture) -> float:
    """Without the right to raise the ticker's priority a thread of a crowded machine goes on after a tick, mostly to its next look at its books, and
    is shown there (docs/sampling-math.md). The books are what the truth is read from, thousands of times a second: this much is missing elsewhere."""
    if os.geteuid() == 0 or not any("every CPU was busy" in g["why"] for g in capture.report["coverage"]):
        return 0.0
    lines = (TARGETS / "truth.py").read_text().splitlines()
    rows = [r for r in capture.report["lines"] if Path(r["file"]).name == "truth.py"]
    return sum(r["total_s"] for r in rows if "thread_time_ns()" in lines[r["line"] - 1])


@pytest.mark.parametrize("kib", [64, 4096])
def test_system(profile: Any, python: Python, engine: str, kib: int, tmp_path: Path, record_property: Any) -> None:
    """Short calls and such as last as long as a period."""
    skip_if_seen(engine, python)
    options = ("--engine", engine)
    capture, truth = run(profile, python, tmp_path, "truth_system.py", str(kib), options=options, seconds=2 * SECONDS)
    if engine == "perf":
        # Perf events of unprivileged users do not fire in the kernel (docs/sampling-math.md): its time is the next user code's. No second
        # of it is lost, and the report says so.
        assert any(g["what"] == "system time as such" for g in capture.report["coverage"])
        assert sum(s.weight_ns for s in capture.samples) * 1e-9 >= 0.98 * (truth["system"] + truth["python"])
        assert capture.report["time"]["system_s"] == 0  # what it cannot tell it does not guess
        return
    c = Comparison(f"system {python} {engine} {kib} KiB", capture.samples)
    row = line_row(capture, "truth_system.py", "system")
    c.add("the calling line", truth["system"], row["total_s"])
    c.add("the Python line", truth["python"], line_row(capture, "truth_system.py", "python")["total_s"])
    c.judge(record_property, PERIOD_S + shown_at_the_clock_s(capture))
    if kib > 1000:  # else the interpreter's own share of the loop shows
        # No more is called system time than the kernel's account has, which is a sample as well.
        of_samples = standard_error_s(truth["system"], capture.samples)
        se = math.hypot(of_samples, account_error_s(truth["system"], truth["system"] + truth["python"]))
        assert abs(row["system_s"] - truth["system"]) <= 3 * se + PERIOD_S, (row["system_s"], truth, se)


def test_calls_in_quick_succession(profile: Any, python: Python, tmp_path: Path) -> None:
    """A signal meets such a thread at the end of a call nearly always; no more may be called system time than there is."""
    capture, truth = run(profile, python, tmp_path, "truth_rapid_calls.py", seconds=2 * SECONDS)
    row = line_row(capture, "truth_rapid_calls.py", "call")
    share = truth["system"] / (truth["system"] + truth["user"])
    got = row["system_s"] / row["total_s"]
    whole_s = truth["system"] + truth["user"]
    # Both are from one account, read at other times; the lag that the agent allows is 8 ms.
    allowed = 3 * account_error_s(truth["system"], whole_s) / whole_s + 0.008 / row["total_s"]
    print(f"rapid calls {python}: system {got:.3f}, by the kernel's account {share:.3f} (allowed {allowed:.3f})")
    assert abs(got - share) <= allowed
    # The call is a C function: what of it is not the kernel's is native, the loop around it Python.
    assert row["python_s"] + row["native_s"] > 0.9 * (row["total_s"] - row["system_s"])


@pytest.mark.parametrize("asked", ["auto", "ticker", "perf"])
def test_system_time_is_told_or_has_no_column(engine: str, fathom: Path, asked: str, tmp_path: Path) -> None:
    """The engine that cannot tell system time is used for who asks for it, and its report has no column for it."""
    if engine != "perf":
        pytest.skip("once is enough, where there are perf events")
    script, out = tmp_path / "calls.py", tmp_path / "p.fathom"
    script.write_text(
        "import os, time\n"
        "f = os.open('/dev/zero', os.O_RDONLY)\n"
        "end = time.thread_time() + 0.3\n"
        "while time.thread_time() < end:\n"
        "    os.read(f, 1 << 20)\n"
    )
    python = find_pythons()[-1].path
    subprocess.run([fathom, "record", "--engine", asked, "-o", out, "--", python, script], check=True)
    report = json.loads(subprocess.run([fathom, "report", "--json", out], check=True, stdout=subprocess.PIPE).stdout)
    text = subprocess.run([fathom, "report", out], check=True, stdout=subprocess.PIPE).stdout.decode()
    heads = [line.replace("|", "│").split("│")[:-1] for line in text.splitlines() if line.startswith("  Line ")]
    assert heads
    is_told = asked != "perf"
    assert report["engine"] == ("ticker" if is_told else "perf")
    assert (report["time"]["system_s"] > 0.1) == is_told, report["time"]
    assert all(("system " in head) == is_told for head in heads), heads


def knows_collector(python: Python) -> bool:
    """Without a GIL the collector is known by its function's name, which a stripped interpreter does not have."""
    files = [Path(python.path), *Path(python.path).parents[1].glob("lib/libpython3.*t.so.*")]
    return python.kind != "freethreaded" or any(b"gc_collect_main" in file.read_bytes() for file in files)


def test_gc(profile: Any, python: Python, tmp_path: Path, record_property: Any) -> None:
    if not knows_collector(python):
        pytest.skip("this interpreter has no symbols")
    capture, truth = run(profile, python, tmp_path, "truth_gc.py")
    mine = {i for i, code in enumerate(capture.innermost_code) if code and code.name == "collect"}
    gc_s = sum(s.weight_ns for s in capture.samples if s.kind == CLASS_GC and s.stack in mine) * 1e-9
    c = Comparison(f"gc {python}", capture.samples)
    c.add("collector", truth["collect"], gc_s)
    c.add("Python", truth["python"], capture.seconds("python"))
    c.judge(record_property)
    assert capture.report["time"]["gc_s"] >= gc_s - 1e-6


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_lockstep(profile: Any, engine: str, clock: str, tmp_path: Path, record_property: Any) -> None:
    python = find_pythons()[-1]  # it is the engine's clock that is judged
    options = ("--engine", engine, "--rate", "1000")
    capture, truth = run(profile, python, tmp_path, "truth_lockstep.py", clock, options=options)
    c = Comparison(f"lockstep {python} {engine} {clock}", capture.samples)
    for name in ("short", "long"):
        c.add(name, truth[name], capture.seconds(name))
    c.judge(record_property)
