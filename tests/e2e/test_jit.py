# SPDX-License-Identifier: Apache-2.0
"""Code that is made at run time has names, and stacks through it are whole."""

import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
from capture import FRAME_ERROR, FRAME_NATIVE, TARGETS, Capture, Python, fields, find_pythons, record
from native import compile_libraries, is_error, plain_name
from runs import python_with

IMAGE_IS_JIT = 16
OPTIONS = ["--rate", "2000", "--max-overhead", "0"]
# How jit_emitter.c tells of its code.
HOWS = {"by_gdb": 0, "by_register_frame": 1, "by_jitdump": 2, "by perf map": 3}


def pick(low: int, high: int) -> Python:
    found = [p for p in find_pythons() if p.kind == "release" and low <= p.minor <= high]
    if not found:
        pytest.skip(f"no Python 3.{low} to 3.{high} here")
    return found[-1]


@pytest.fixture(scope="session")
def emitter(tmp_path_factory: Any) -> Path:
    out: Path = tmp_path_factory.mktemp("emitter") / "jit_emitter.so"
    command = [
        "cc",
        "-O2",
        "-Wall",
        "-Wextra",
        "-shared",
        "-fPIC",
        str(TARGETS / "jit_emitter.c"),
        "-o",
        str(out),
        "-lgcc_s",
    ]
    subprocess.run(command, check=True)
    return out


def names_of(labels: List[str]) -> List[str]:
    """Without what stands in brackets behind."""
    return [re.sub(r" \([^()]*\)$", "", label) for label in labels]


def stacks_with(capture: Capture, name: str, *options: str) -> List[Tuple[List[str], int]]:
    return [(labels, n) for labels, n in capture.collapsed(*options) if name in names_of(labels)]


def check_whole(capture: Capture, least: int, settle_s: float = 0.25) -> None:
    """Samples that go through run-time code are whole, once the collector had time to notice it."""
    is_jit = [fields(line)["flags"] & IMAGE_IS_JIT != 0 for line in capture.raw["image"]]
    through, broken = [False], [False]
    for parent, frame_id in capture.stacks[1:]:
        frame = capture.frames[frame_id]
        through.append(through[parent] or (frame.kind == FRAME_NATIVE and frame.ref >= 0 and is_jit[frame.ref]))
        broken.append(broken[parent] or frame.kind == FRAME_ERROR)
    inside = [s for s in capture.samples if through[s.stack]]
    assert inside
    first_ns = min(s.time_ns for s in inside)
    late = [s for s in inside if s.time_ns > first_ns + settle_s * 1e9]
    n_broken, n_late_broken = sum(broken[s.stack] for s in inside), sum(broken[s.stack] for s in late)
    print(f"{len(inside)} samples, {n_broken} not whole; after {settle_s} s {len(late)}, {n_late_broken} not whole")
    assert len(late) >= least, (len(inside), len(late))
    assert n_late_broken <= 0.005 * len(late), n_late_broken


# Compilers tell in the same way whoever calls their code; test_stacks.py has frames of other Pythons around native ones.
@pytest.mark.pythons(15)
@pytest.mark.statistical  # so many samples after so long
@pytest.mark.parametrize("how", HOWS)
def test_code_told_of_in_each_way(python: Python, emitter: Path, tmp_path: Path, how: str) -> None:
    capture = record(tmp_path / "p.fathom", TARGETS / "jit_calls.py", [emitter, 0.7, HOWS[how], how], OPTIONS, python)
    inside = stacks_with(capture, how)
    check_whole(capture, 200)
    called = [(labels, n) for labels, n in inside if "py_back" in names_of(labels)]
    assert sum(n for _, n in called) > 100
    for labels, _ in called:
        names = names_of(labels)
        assert names.index("py_call") < names.index(how) < names.index("py_back"), labels
    # No sample in the code went without a name. (ctypes' own callbacks go through a few bytes that libffi makes and names nowhere.)
    nameless = sum(
        n for labels, n in capture.collapsed() if any(re.match(r"0x[0-9a-f]+ \(\[jit\]\)", label) for label in labels)
    )
    assert nameless <= 0.01 * sum(n for _, n in inside), nameless
    kinds = {f["name"]: f["kind"] for f in capture.report["functions"]}
    assert (kinds[how], kinds["py_back"]) == ("jit", "python")
    if how == "by_jitdump":
        assert any("by_jitdump (emitted.src:42)" in labels for labels, _ in inside)


def line_of(mark: str) -> int:
    lines = (TARGETS / "jit_object.c").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith("// LINE " + mark))


@pytest.mark.statistical
@pytest.mark.parametrize("dwarf", ["-gdwarf-4", "-gdwarf-5"])
def test_inlined_calls_of_an_object_in_memory(emitter: Path, tmp_path: Path, dwarf: str) -> None:
    """As for files: each inlined call is a frame of its own, with its line; calls around it have the line of the call."""
    built = tmp_path / "jit_object.o"
    subprocess.run(["cc", "-O2", dwarf, "-c", str(TARGETS / "jit_object.c"), "-o", str(built)], check=True)
    capture = record(
        tmp_path / "p.fathom", TARGETS / "jit_calls.py", [emitter, 0.7, "object", built], OPTIONS, pick(8, 15)
    )
    lines = {mark: line_of(mark) for mark in ("mix", "first", "second", "callback", "outer")}
    counts: "Counter[str]" = Counter()
    for labels, n in stacks_with(capture, "object_outer"):
        start = names_of(labels).index("object_outer")
        if "py_back" in names_of(labels):
            assert labels[start] == f"object_outer (jit_object.c:{lines['callback']})", labels
            counts["callback"] += n
        elif "object_mix (inlined)" in names_of(labels):
            assert labels[start] == f"object_outer (jit_object.c:{lines['outer']})", labels
            call = next(mark for mark in ("first", "second") if f":{lines[mark]})" in labels[start + 1])
            assert labels[start + 1].startswith("object_twice (inlined) (jit_object.c:"), labels
            counts[call] += n
            # The loop's head is a line of its own.
            assert labels[start + 2] in (
                f"object_mix (inlined) (jit_object.c:{lines['mix']})",
                f"object_mix (inlined) (jit_object.c:{lines['mix'] - 1})",
            ), labels
    print(counts)
    assert counts["callback"] > 5 and counts["first"] > 100, counts
    assert 1.5 < counts["second"] / counts["first"] < 2.7, counts  # twice the work
    functions = {f["name"]: f for f in capture.report["functions"]}
    assert functions["object_mix"]["inlined"] and not functions["object_outer"]["inlined"]
    check_whole(capture, 100)


def test_code_that_nobody_tells_of_is_said_so(emitter: Path, tmp_path: Path) -> None:
    capture = record(tmp_path / "p.fathom", TARGETS / "jit_calls.py", [emitter, 0.3, 4, "secret"], OPTIONS, pick(8, 15))
    assert any("run-time code" in line for line in capture.raw["coverage"]), capture.raw["coverage"]


def test_damage_is_said_and_the_rest_is_used(emitter: Path, tmp_path: Path) -> None:
    capture = record(
        tmp_path / "p.fathom", TARGETS / "jit_calls.py", [emitter, 0.5, 5, "survivor"], OPTIONS, pick(8, 15)
    )
    assert sum(n for _, n in stacks_with(capture, "survivor")) > 200
    assert any("damaged" in line and "run-time code" in line for line in capture.raw["coverage"]), capture.raw[
        "coverage"
    ]


# jit_calls.py, with the file that tells of the code changed before the code runs for the first time: argv[1] says how.
CHANGED = """
import glob, os, runpy, sys, time
how, real = sys.argv.pop(1), time.process_time
def change():
    time.process_time = real
    [path] = glob.glob("/tmp/perf-%d.map" % os.getpid()) + glob.glob("/tmp/jit-%d.dump" % os.getpid())
    if how == "link":
        os.rename(path, path + ".there")
        os.symlink(path + ".there", path)
    elif how == "open":
        os.chmod(path, 0o666)
    else:
        os.chown(path, 65534, 65534)
    return real()
time.process_time = change
sys.argv[0] = sys.argv[1]
runpy.run_path(sys.argv.pop(1), run_name="__main__")
for path in glob.glob("/tmp/perf-%d.map*" % os.getpid()) + glob.glob("/tmp/jit-%d.dump*" % os.getpid()):
    os.unlink(path)
"""


@pytest.mark.parametrize("how, change, why", [
    ("by_jitdump", "other", "belongs to another user"),
    ("by_jitdump", "open", "can be written by others"),
    ("by perf map", "other", "belongs to another user"),
    ("by perf map", "open", "can be written by others"),
    ("by perf map", "link", "is a symbolic link"),  # of a jitdump the kernel tells the file itself
])  # fmt: skip
def test_files_of_other_users_are_not_believed(emitter: Path, tmp_path: Path, how: str, change: str, why: str) -> None:
    if change == "other" and os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    script = tmp_path / "changed.py"
    script.write_text(CHANGED)
    args = [change, TARGETS / "jit_calls.py", emitter, 0.7, HOWS[how], how]
    capture = record(tmp_path / "p.fathom", script, args, OPTIONS, pick(8, 15))
    assert not stacks_with(capture, how)
    assert any("names|" in line and why in line for line in capture.raw["coverage"]), capture.raw["coverage"]


def test_a_forked_child_runs_code_of_its_parent(emitter: Path, tmp_path: Path) -> None:
    capture = record(tmp_path / "p.fathom", TARGETS / "jit_calls.py", [emitter, 0.7, "fork"], OPTIONS, pick(8, 15))
    assert sum(n for _, n in stacks_with(capture, "inherited_code")) > 200
    check_whole(capture, 200)


def test_other_code_at_the_same_address(emitter: Path, tmp_path: Path) -> None:
    capture = record(tmp_path / "p.fathom", TARGETS / "jit_calls.py", [emitter, 0.6, "remake"], OPTIONS, pick(8, 15))
    first, second = (
        sum(n for _, n in stacks_with(capture, name, "--unit", "us")) for name in ("first_code", "second_code")
    )
    assert 0.6 < first / second < 1.6, (first, second)  # of time: samples come rarer where others have the CPU


def test_python_rust_cpp_run_time_code_python(emitter: Path, tmp_path: Path) -> None:
    python = pick(9, 15)
    paths, missing = compile_libraries(tmp_path, ["rust_3", "cpp_O2"])
    if missing:
        pytest.skip("; ".join(missing))
    target = TARGETS / "jit_chain.py"
    capture = record(tmp_path / "p.fathom", target, [1.5, *paths, emitter], [*OPTIONS, "--engine", "ticker"], python)
    chain = ["py_outer", "rust_enter", "rust_call", "cpp_enter", "visit", "jit_middle", "py_inner"]
    n_inner, n_nameless = 0, 0
    for labels, n in capture.collapsed():
        names = [plain_name(label) for label in labels]
        if "py_inner" not in names:
            continue
        n_inner += n
        if not any(map(is_error, labels)):
            assert [name for name in names if name in chain] == chain, labels
        # libffi and _ctypes of a distribution are stripped; they are between ctypes and what it calls.
        n_nameless += (
            n
            if any(re.match(r"0x[0-9a-f]+ ", label) and not re.search("libffi|_ctypes", label) for label in labels)
            else 0
        )
    print(f"{n_inner} samples in py_inner, {n_nameless} with a frame without a name")
    assert n_inner > 300
    check_whole(capture, 300)
    assert n_nameless == 0, n_nameless


TRAMPOLINES = """
import sys, time
def leaf(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
def middle(n):
    return sorted([3, 1, 2], key=lambda v: leaf(n))
def top(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        middle(3000)
top(0.8)
"""


@pytest.mark.parametrize("option", ["perf", "perf_jit"])
def test_trampolines_of_python(tmp_path: Path, option: str) -> None:
    python = pick(12 if option == "perf" else 13, 15)
    script = tmp_path / "trampolines.py"
    script.write_text(TRAMPOLINES)
    wrapper = tmp_path / "python.sh"
    wrapper.write_text(f'#!/bin/sh\nexec "{python.path}" -X {option} "$@"\n')
    wrapper.chmod(0o755)
    capture = record(tmp_path / "p.fathom", wrapper, [script], OPTIONS)
    pids = {re.search(r" pid=(\d+)", line)[1] for line in capture.raw["process"]}  # type: ignore[index]
    try:
        whole = stacks_with(capture, "leaf")
        check_whole(capture, 300)
        # Each function once: the trampoline is how Python calls it.
        assert not any(name.startswith("py::") for labels, _ in whole for name in labels)
        n_all = n_with = 0
        for labels, n in stacks_with(capture, "leaf", "--native-all"):
            n_all += n
            n_with += n if any(label.startswith("py::leaf:") for label in labels) else 0
        assert n_with > 0.9 * n_all, (n_with, n_all)
    finally:
        for pid in pids:
            for path in (Path(f"/tmp/perf-{pid}.map"), Path(f"/tmp/jit-{pid}.dump"), Path(f"/tmp/perf-{pid}.dump")):
                if path.exists():
                    path.unlink()


NUMBA = """
import sys, time
from numba import njit, objmode

def py_back(x):
    total = 0
    for i in range(20000):
        total += i
    return float(total) + x

@njit
def hot_outer(n):
    total = 0.0
    for k in range(5):
        for i in range(n):
            total += (i % 7) / (1.0 + total * 1e-9)
        with objmode(r="float64"):
            r = py_back(total)
        total += r
    return total

def main(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        hot_outer(200000)

hot_outer(10)
time.sleep(0.5)  # until the new code was noticed
main(1.5)
"""


def test_numba(tmp_path: Path) -> None:
    script = tmp_path / "hot.py"
    script.write_text(NUMBA)
    capture = record(tmp_path / "p.fathom", python_with("numba"), [script], OPTIONS)
    ends: "Counter[str]" = Counter()
    n_broken = 0
    for labels, n in capture.collapsed():
        names = names_of(labels)
        if "main" not in names or not any("hot_outer" in name for name in names):
            continue
        n_broken += n if any(map(is_error, labels)) else 0
        ends["py_back" if "py_back" in names else "hot"] += n
        if "py_back" in names:
            assert names.index("__main__::hot_outer") < names.index("py_back"), labels
    print(dict(ends), n_broken)
    assert ends["hot"] > 500 and ends["py_back"] > 500, ends
    assert n_broken <= 0.005 * sum(ends.values()), n_broken


NUMBA_PURE = """
import math, time
from numba import njit

@njit
def pure(x, n):
    for i in range(n):
        x = math.cos(x) + i  # a call, so that there is a frame to keep
    return x

def run(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pure(0.5, 50000)

def main(seconds):
    run(seconds)

pure(0.5, 10)
run(0.1)  # it is looked at when it was met
time.sleep(0.5)
main(0.7)
"""


def test_numba_functions_that_cannot_throw(tmp_path: Path) -> None:
    """LLVM describes no way out of these."""
    script = tmp_path / "pure.py"
    script.write_text(NUMBA_PURE)
    capture = record(tmp_path / "p.fathom", python_with("numba"), [script], OPTIONS)
    hot: "Counter[bool]" = Counter()
    for labels, n in capture.collapsed():
        names = names_of(labels)
        if "main" in names and "__main__::pure" in names:
            is_whole = not any(map(is_error, labels)) and names.index("main") < names.index("__main__::pure")
            hot[is_whole] += n
    print(hot)
    assert hot[True] > 250 and hot[False] <= 0.02 * hot[True], hot


NUMBA_DEBUG = """
import time
from numba import njit

@njit(debug=True, forceinline=True)
def churn(x, n):
    for i in range(n):  # LINE head
        x = (x * 5 + i) % 1000003  # LINE churn
    return x

@njit(debug=True)
def outer(n):
    return churn(7, n) + 1  # LINE outer

outer(10)
time.sleep(0.5)  # until the new code was noticed
end = time.process_time() + 1
while time.process_time() < end:
    outer(2_000_000)
"""


def test_numba_with_debug_information(tmp_path: Path) -> None:
    """What LLVM inlined is a frame of its own, at the line of the Python source."""
    script = tmp_path / "hot.py"
    script.write_text(NUMBA_DEBUG)
    marks = {}
    for number, text in enumerate(NUMBA_DEBUG.splitlines(), 1):
        if "# LINE " in text:
            marks[text.split("# LINE ")[1]] = number
    capture = record(tmp_path / "p.fathom", python_with("numba"), [script], OPTIONS)
    chain = f"__main__::outer (hot.py:{marks['outer']})", f"__main__::churn (inlined) (hot.py:{marks['churn']})"
    head = f"__main__::churn (inlined) (hot.py:{marks['head']})"
    hot: "Counter[bool]" = Counter()
    for labels, n in capture.collapsed():
        if any("churn (inlined)" in label for label in labels):
            hot[tuple(labels[-2:]) in (chain, (chain[0], head))] += n
    print(hot)
    assert hot[True] > 500 and hot[False] <= 0.02 * hot[True], hot


SYSTEM = """
import os
fd = os.open("/dev/zero", os.O_RDONLY)
def py_read():
    for _ in range(8000):
        os.read(fd, 1 << 20)
def py_stat():
    for _ in range(150000):
        os.stat("/tmp")
py_read()
py_stat()
"""


@pytest.mark.pythons(15)
@pytest.mark.statistical
def test_system_time_ends_in_the_name_of_the_call(python: Python, tmp_path: Path) -> None:
    script = tmp_path / "calls.py"
    script.write_text(SYSTEM)
    capture = record(tmp_path / "p.fathom", script, [], ["--rate", "2000"], python)
    found: Dict[str, "Counter[str]"] = {"py_read": Counter(), "py_stat": Counter()}
    for labels, n in capture.collapsed():
        for name in found:
            if name in names_of(labels) and labels[-1].endswith("([kernel])"):
                found[name][names_of(labels)[-1]] += n
    print(found)
    assert found["py_read"]["read"] > 0.9 * sum(found["py_read"].values()) > 50
    assert found["py_stat"]["newfstatat"] + found["py_stat"]["stat"] > 0.9 * sum(found["py_stat"].values()) > 20
    # The call's own time is the system time of the line that made it.
    functions = {f["name"]: f for f in capture.report["functions"] if f["kind"] == "native" and "[kernel]" in str(f)}
    assert functions["read"]["self_s"] > 0
    assert capture.seconds("py_read", "system_s") >= 0.9 * functions["read"]["self_s"]


TABLES = """
import ctypes
register = ctypes.CDLL(None)["__register_frame"]
register.argtypes = [ctypes.c_void_p]
empty = ctypes.create_string_buffer(16)
for _ in range(16384 + 5):
    register(empty)
"""


def test_more_unwind_tables_than_there_is_room_for_are_told_of(tmp_path: Path) -> None:
    script = tmp_path / "tables.py"
    script.write_text(TABLES)
    capture = record(tmp_path / "p.fathom", script, [], [], pick(8, 15))
    assert [c["what"] for c in capture.report["coverage"] if "unwind tables" in c["what"]] == [
        "callers of some code made at run time (5 unwind tables)"
    ]
