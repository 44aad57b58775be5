# SPDX-License-Identifier: Apache-2.0
"""What the agent's hooks say of a program's memory, against programs whose every byte is known.

The records are read from shared memory by tests/tools/watch_memory.c. Sums of weights of blocks from 256 KiB on are exact; below
that they are estimates, judged by the deviation that their own weights tell (4 of them: one test in 15,000 is wrong by chance).
"""

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest
from capture import TARGETS, Python
from guest import LONG, clean_env, compile_target, pick_python, report, run, some_pythons, under
from memory import (
    COPY,
    HOOKS_COPY,
    HOOKS_MALLOC,
    HOOKS_PYTHON,
    MALLOC,
    MEAN,
    MEM,
    MMAP,
    NO_NATIVE,
    OBJ,
    RAW,
    Alloc,
    Watched,
    deviation,
    total,
    watch,
)

MIB = 1 << 20
ALL_HOOKS = HOOKS_MALLOC | HOOKS_PYTHON | HOOKS_COPY
each_python = True  # conftest: chosen here
pythons = pytest.mark.parametrize("python", some_pythons(), ids=str)
NEWEST = pick_python()
assert NEWEST


def source_line(target: str, text: str) -> int:
    lines = (TARGETS / target).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def assert_close(allocs: List[Alloc], truth: int) -> None:
    """By the larger of two deviations: too few blocks, which is what is judged, also make their own deviation too small."""
    expected = math.sqrt(truth * sum(a.weight - a.size for a in allocs) / max(len(allocs), 1))
    assert abs(total(allocs) - truth) <= 4 * max(deviation(allocs), expected) + 0.001 * truth, (total(allocs), truth)


def is_on(a: Alloc, frame: str) -> bool:
    """The innermost Python frame of one file."""
    return next((f == frame for f in a.frames if ":" in f), False)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_target(tmp_path_factory.mktemp("calls"), "memory_calls.so", ["memory_calls.c"], ["-shared"])


@pythons
def test_python_memory(python: Python) -> None:
    target = "memory_python.py"
    w = watch([python.path, TARGETS / target])
    here = int(re.findall(r"here (\d+)", w.output)[0])
    assert w.dropped == 0
    assert w.processes[-1]["hooks"] == ALL_HOOKS

    # 300,000 floats of 24 bytes are kept; range() and the list they stand in are other sizes.
    size = 24 + python.longer_head
    floats = [a for a in w.allocs if a.is_from("keep") and a.size == size and a.domain == OBJ]
    assert_close(floats, 300000 * size)
    assert_close([a for a in w.live_at(here) if a in set_of(floats)], 300000 * size)
    line = source_line(target, "i * 0.5")
    assert all(f"keep:{line}" in a.frames or f"<listcomp>:{line}" in a.frames for a in floats)

    # 200,000 strings of 200 bytes come and go: all the volume, and nothing is left.
    size = 233 + python.longer_head
    churned = [a for a in w.allocs if is_on(a, f"churn:{source_line(target, 'bytes(200)')}") and a.size == size]
    assert_close(churned, 200000 * size)
    assert [a for a in w.live_at(here) if a in set_of(churned)] == []

    # One block of 64 MiB is there, exactly.
    big = [a for a in w.live_at(here) if a.size >= 64 * MIB]
    assert [(a.weight - a.size, a.size - 64 * MIB < 64) for a in big] == [(0, True)]
    assert is_on(big[0], f"<module>:{source_line(target, 'bytearray(64')}")


def set_of(allocs: List[Alloc]) -> "IdSet":
    return IdSet(allocs)


class IdSet:
    def __init__(self, allocs: List[Alloc]) -> None:
        self.ids = {(a.pid, a.id) for a in allocs}

    def __contains__(self, a: Alloc) -> bool:
        return (a.pid, a.id) in self.ids


@pythons
def test_every_python_allocator_once(python: Python) -> None:
    """Each of the three, by its own name from ctypes: four of 1 MiB and 10,000 of 300 bytes."""
    w = watch([python.path, TARGETS / "memory_python.py"])
    big = [a for a in w.allocs if a.size == MIB and a.is_from("domains")]
    # Raw is asked for by ctypes, a native library: malloc by another name.
    assert sorted(a.domain for a in big) == sorted([OBJ] * 4 + [MEM] * 4 + [MALLOC] * 4)
    assert total(big) == 12 * MIB
    small = [a for a in w.allocs if a.size == 300 and a.is_from("domains")]
    assert_close(small, 3 * 10000 * 300)
    assert all(a.id in w.freed[a.pid] for a in big + small)


@pytest.mark.parametrize("how", ["malloc", "debug", "pymalloc", "pymalloc_debug", "malloc_debug", "dev"])
@pytest.mark.parametrize("python", some_pythons() if LONG else [NEWEST], ids=str)
def test_other_allocators_of_python(python: Python, how: str) -> None:
    """PYTHONMALLOC and -X dev replace what was hooked before the interpreter began."""
    env = {} if how == "dev" else {"PYTHONMALLOC": how}
    if run([python.path, "-c", ""], env={**env, "PATH": "/usr/bin:/bin"}).returncode:
        pytest.skip(f"{python} has no allocator {how}")
    w = watch([python.path, *(["-X", "dev"] if how == "dev" else []), TARGETS / "memory_python.py"], env=env)
    size = 24 + python.longer_head
    assert_close([a for a in w.allocs if a.is_from("keep") and a.size == size], 300000 * size)
    assert_close([a for a in w.allocs if a.size == 300 and a.is_from("domains")], 3 * 10000 * 300)
    assert total(a for a in w.allocs if a.size == MIB and a.is_from("domains")) == 12 * MIB
    assert w.processes[-1]["hooks"] == ALL_HOOKS


ASK = """
import sys
try:
    from _testinternalcapi import pymem_getallocatorsname as name
except ImportError:
    from _testcapi import pymem_getallocatorsname as name
stats = sys._debugmallocstats
stats()
print(name(), stats is sys._debugmallocstats, stats)
"""


@pytest.mark.parametrize("how", ["pymalloc", "pymalloc_debug", "malloc"])
@pytest.mark.parametrize("option", ["--memory", "--memory=exact"])
@pythons
def test_python_tells_of_its_own_allocators(python: Python, option: str, how: str, tmp_path: Path) -> None:
    """Two functions of Python compare its allocators with those it brings, and knew none of ours."""
    env = {**clean_env(), "PYTHONMALLOC": how}
    bare = run([python.path, "-c", ASK], env=env)
    if bare.returncode:
        pytest.skip(f"{python} has no allocator {how}, or comes without its tests")
    done = run([*under(tmp_path / "p.fathom", option), python.path, "-c", ASK], env=env)
    assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr
    assert done.stdout.startswith(how + " True <built-in function")
    assert ("Small block threshold" in done.stderr) == ("Small block threshold" in bare.stderr) == (how != "malloc")
    env["PYTHONMALLOCSTATS"] = "1"  # at the end of Python, too; also for each arena, which we keep it from
    commands: List[List[str]] = [[], under(tmp_path / "p.fathom", option)]
    bare, done = (run([*command, python.path, "-c", ""], env=env) for command in commands)
    if bare.returncode == 0:  # 3.12.1 dies of it
        assert ("Small block threshold" in done.stderr) == (how != "malloc") and done.returncode == 0, done.stderr


def kept_lines(w: Watched) -> List["re.Match[str]"]:
    return list(re.finditer(r"^kept (\w+) (\d+) (\d+) (\d+)\nfreed \w+ \d+ \d+ (\d+)", w.output, re.M))


def test_every_native_function_once(calls: Path) -> None:
    target = "memory_calls.py"
    w = watch([NEWEST.path, TARGETS / target, calls])
    assert w.dropped == 0
    frame = f"blocks:{source_line(target, 'lib.get_all')}"
    ours = [a for a in w.allocs if is_on(a, frame)]
    last, n_seen = 0, 0
    for found in kept_lines(w):
        how, size, n, kept, freed = found[1], *map(int, found.groups()[1:])
        part = [a for a in ours if last < a.time <= kept and a.size == size]
        assert {a.domain for a in part} == {MMAP if how.startswith("mmap") else MALLOC}, how
        if size >= 256 << 10:
            assert (len(part), total(part)) == (n, n * size), how
        else:
            assert_close(part, n * size)
        live = set_of(w.live_at(kept))
        assert all(a in live for a in part), how
        gone = set_of(w.live_at(freed))
        assert not any(a in gone for a in part), how
        last, n_seen = freed, n_seen + 1
    assert n_seen == 22


def test_blocks_that_change(calls: Path) -> None:
    target = "memory_calls.py"
    w = watch([NEWEST.path, TARGETS / target, calls])

    def on(mark: str) -> List[Alloc]:
        return [a for a in w.allocs if is_on(a, f"changes:{source_line(target, mark)}")]

    assert [a.size for a in on("# grown")] == [3 * MIB]
    assert [a.size for a in on("# remapped")] == [6 * MIB]
    assert sorted((a.size, a.weight) for a in on("# cut")) == [(2 * MIB, 2 * MIB)] * 2
    assert [a.size for a in on("# break")] == [2 * MIB]
    assert on("# reserved") == []
    changed = [a for a in w.allocs if a.is_from("changes") and a.size >= MIB]
    assert len(changed) == 7
    assert all(a.id in w.freed[a.pid] for a in changed)


def test_python_frames_only(calls: Path) -> None:
    w = watch([NEWEST.path, TARGETS / "memory_calls.py", calls], flags=NO_NATIVE)
    ours = [a for a in w.allocs if a.is_from("blocks")]
    assert len(ours) > 88
    assert all(":" in f for a in ours for f in a.frames)


@pytest.mark.parametrize("python", some_pythons() if LONG else [NEWEST], ids=str)
def test_copies(python: Python, calls: Path) -> None:
    target = "memory_copies.py"
    w = watch([python.path, TARGETS / target, calls])
    frame = f"copies:{source_line(target, 'lib.copy_all')}"
    ours = [a for a in w.copies if is_on(a, frame)]
    assert all((a.domain, a.id, a.addr) == (COPY, 0, 0) for a in ours)
    truth: Dict[int, int] = {}
    for _, size, n in re.findall(r"^copied (\w+) (\d+) (\d+)", w.output, re.M):
        # And two moves with the size of each call, which check overlaps.
        truth[int(size)] = truth.get(int(size), 0) + (int(n) + 2) * int(size)
    assert len(truth) == 4
    for size, expected in truth.items():
        part = [a for a in ours if a.size == size]
        if size >= MIB:
            assert total(part) == expected
        else:
            assert abs(total(part) - expected) <= 4 * (8 * MIB * expected) ** 0.5
    assert w.dropped == 0


def script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(text)
    return path


def test_freed_by_another_thread(tmp_path: Path) -> None:
    w = watch(
        [
            NEWEST.path,
            script(
                tmp_path,
                """
import queue, threading
q = queue.Queue(maxsize=4)
def take():
    while q.get() is not None:
        pass
t = threading.Thread(target=take)
t.start()
def make():
    for _ in range(200):
        q.put(bytearray(1 << 20))
make()
q.put(None)
t.join()
""",
            ),
        ]
    )
    made = [a for a in w.allocs if a.is_from("make") and a.size >= MIB]
    assert len(made) == 200
    by = w.freed_by[made[0].pid]
    assert all(a.id in by for a in made)
    assert sum(by[a.id] != a.tid for a in made) > 100  # some go when the loop puts the next one


N_FORKS = 2000 if LONG else 200


def test_fork_storm(tmp_path: Path) -> None:
    """Children begin with none of their parent's blocks: they free them, and say nothing of it."""
    w = watch(
        [
            NEWEST.path,
            script(
                tmp_path,
                f"""
import os
kept = [bytearray(1 << 20) for _ in range(8)]
def child():
    global kept
    kept = None
    return bytearray(1 << 20)
for i in range({N_FORKS}):
    pid = os.fork()
    if pid == 0:
        own = child()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print("parent", os.getpid())
""",
            ),
        ],
        timeout=300,
    )
    parent = int(re.findall(r"parent (\d+)", w.output)[0])
    children = [a for a in w.allocs if a.pid != parent and a.is_from("child") and a.size >= MIB]
    assert len(children) == N_FORKS
    assert {p["hooks"] for p in w.processes if p["pid"] != parent} == {ALL_HOOKS}
    for pid, ids in w.freed.items():
        known = {a.id for a in w.allocs if a.pid == pid}
        assert set(ids) <= known, pid


AT_ONCE = """
import _ctypes, signal, sys, threading, time
n = [0]
def on_alarm(*_):
    n[0] += len(bytes(5000)) - 4999
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
until = time.monotonic() + %d
def churn():
    kept = []
    while time.monotonic() < until:
        kept = [dict(a=[i] * 50) for i in range(1000)]
        assert sum(len(k["a"]) for k in kept) == 50000
def load():
    while time.monotonic() < until:
        _ctypes.dlclose(_ctypes.dlopen(sys.argv[1], 2))
def spawn():
    while time.monotonic() < until:
        t = threading.Thread(target=bytearray, args=(1 << 20,))
        t.start()
        t.join()
threads = [threading.Thread(target=f) for f in (churn, churn, load, spawn)]
for t in threads: t.start()
for t in threads: t.join()
signal.setitimer(signal.ITIMER_REAL, 0)
print("alarms", n[0])
"""


def test_signals_libraries_and_threads_at_once(tmp_path: Path, calls: Path) -> None:
    """5,000 signals a second, libraries that come and go, threads that allocate and end; the program's sums are right."""
    w = watch([NEWEST.path, script(tmp_path, AT_ONCE % (20 if LONG else 2)), calls])
    assert int(re.findall(r"alarms (\d+)", w.output)[0]) > 10  # as many as the main thread gets to
    assert len(w.allocs) > 500
    errors = [a for a in w.allocs if any(f.startswith("error") for f in a.frames)]
    assert len(errors) <= 0.01 * len(w.allocs)


def test_the_same_with_every_block_counted(tmp_path: Path, calls: Path) -> None:
    profile = tmp_path / "p.fathom"
    command = [
        *under(profile, "--memory=exact", "-r", "5k"),
        NEWEST.path,
        script(tmp_path, AT_ONCE % (20 if LONG else 2)),
    ]
    done = run([*command, calls])
    assert done.returncode == 0 and int(done.stdout.split()[1]) > 10, done.stderr
    lines = {r["line"]: r for r in report(profile)["lines"] if r["file"].endswith("script.py")}
    made = next(i for i, text in enumerate(AT_ONCE.splitlines(), 1) if "dict(a=" in text)
    assert lines[made]["allocs"] > 10000
    assert lines[made]["live_bytes"] < 4 * MIB


SUBINTERPRETERS = """
import sys, threading
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
code = "def inner():\\n    return [bytearray(1 << 20) for _ in range(5)]\\nfor _ in range(3): x = inner()\\nx = None\\n"
def work():
    for _ in range(4):
        one = interpreters.create()
        interpreters.run_string(one, code)
        interpreters.destroy(one)
work()
threads = [threading.Thread(target=work) for _ in range(3)]  # from 3.13 on each interpreter has a GIL of its own
for t in threads: t.start()
for t in threads: t.join()
print("done")
"""


@pythons
def test_subinterpreters(python: Python, tmp_path: Path) -> None:
    """Four at a time, each with fifteen blocks of 1 MiB in turn: all of them are seen, and all of them end."""
    target = script(tmp_path, SUBINTERPRETERS)
    if run([python.path, target]).returncode:
        pytest.skip(f"{python} cannot run this without Fathom either")
    w = watch([python.path, target])
    made = [a for a in w.allocs if a.is_from("inner") and a.size >= MIB]
    assert len(made) == 16 * 15 and w.output == "done\n"
    assert all(a.id in w.freed[a.pid] for a in made)
    profile = tmp_path / "p.fathom"
    done = run([*under(profile, "--memory=exact"), python.path, target])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    told = report(profile)
    # By line: so many interpreters have more stacks than are kept, and callers may be lost then.
    rows = [x for x in told["lines"] if x["file"][0] == "<" and x["line"] == 2]
    # Interpreters that do not share a GIL wait for each other to count, and not for ever.
    lost = sum(int(c["what"].split()[0]) for c in told["coverage"] if "allocations or frees" in c["what"])
    assert sum(x["alloc_bytes"] for x in rows) - 16 * 15 * MIB in range(-lost * MIB, 2 * MIB), lost


def test_children_started_in_other_ways(tmp_path: Path) -> None:
    """vfork and posix_spawn: a child that borrows its parent's memory leaves its parent's blocks alone."""
    w = watch(
        [
            NEWEST.path,
            script(
                tmp_path,
                f"""
import os, subprocess
kept = [bytearray(1 << 20) for _ in range(8)]
def start():
    for i in range({300 if LONG else 30}):
        assert subprocess.call(["/bin/true"]) == 0          # vfork, where Python has it
        assert os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)[1]) == 0
start()
def still(): return [bytearray(1 << 20) for _ in range(8)]
kept += still()
print("parent", os.getpid(), sum(map(len, kept)))
""",
            ),
        ],
        timeout=300,
    )
    parent, whole = map(int, re.findall(r"parent (\d+) (\d+)", w.output)[0])
    assert whole == 16 * MIB
    blocks = [a for a in w.allocs if a.pid == parent and a.size >= MIB and a.frames[-1]]
    assert len([a for a in blocks if a.is_from("still")]) == 8
    for pid, ids in w.freed.items():
        assert set(ids) <= {a.id for a in w.allocs if a.pid == pid}


def test_a_busy_thread_is_sampled_less(tmp_path: Path) -> None:
    """20,000 blocks of 1 MiB a second would be as many samples; the estimate stands with some of them."""
    w = watch(
        [
            NEWEST.path,
            script(
                tmp_path,
                """
import time
def busy():
    until, n = time.monotonic() + 1.5, 0
    while time.monotonic() < until:
        bytearray(300000)
        n += 1
    return n
print("made", busy())
""",
            ),
        ]
    )
    made = int(re.findall(r"made (\d+)", w.output)[0]) * 300000
    ours = [a for a in w.allocs if a.is_from("busy") and a.size >= 300000]
    assert len(ours) < 6000
    assert abs(total(ours) - made) <= 4 * deviation(ours) + 0.01 * made


def test_exec_and_abrupt_end(tmp_path: Path) -> None:
    w = watch(
        [
            NEWEST.path,
            script(
                tmp_path,
                """
import os, sys
if len(sys.argv) == 1:
    first = bytearray(1 << 20)
    os.execv(sys.executable, [sys.executable, __file__, "again"])
def last():
    return bytearray(1 << 20)
kept = last()
os._exit(0)
""",
            ),
        ]
    )
    assert [a.size - MIB < 64 for a in w.allocs if a.is_from("last") and a.size >= MIB] == [True]


def test_numpy_arrays() -> None:
    python = subprocess.run([sys.executable, "-c", "import numpy"], stderr=subprocess.DEVNULL)
    if python.returncode:
        pytest.skip("no numpy in the environment of the tests")
    code = "import numpy\ndef f():\n    return [numpy.ones(1 << 17) for _ in range(5)]\nx = f()\n"
    w = watch([sys.executable, "-c", code])
    arrays = [a for a in w.allocs if a.is_from("f") and a.size == MIB]
    assert [a.domain for a in arrays] == [MALLOC] * 5
    copies = [a for a in w.copies if a.is_from("f")]
    assert total(copies) <= MIB  # filled, not copied


def test_arrow_buffers() -> None:
    """Arrow's own mimalloc, by the names it exports."""
    code = "import pyarrow\ndef f():\n    return [pyarrow.allocate_buffer(1 << 20) for _ in range(8)]\nx = f()\n"
    code += "y = [b.size for b in x]\nassert y == [1 << 20] * 8\ndel x\n"
    if subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no pyarrow in the environment of the tests")
    check = "import pyarrow\nprint(pyarrow.__version__, pyarrow.default_memory_pool().backend_name)"
    version, pool = subprocess.check_output([sys.executable, "-c", check], text=True).split()
    if int(version.split(".")[0]) < 25 or pool != "mimalloc":
        pytest.skip(f"pyarrow {version} with {pool} does not export its allocator")
    w = watch([sys.executable, "-c", code])
    buffers = [a for a in w.allocs if a.is_from("f") and a.size == MIB]
    assert [a.domain for a in buffers] == [MALLOC] * 8
    assert all(a.id in w.freed[a.pid] for a in buffers)


def test_greenlets(tmp_path: Path) -> None:
    """Stacks that are switched under the interpreter: each block is charged to the line that asked, in whichever greenlet."""
    if subprocess.run([sys.executable, "-c", "import greenlet"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no greenlet in the environment of the tests")
    text = """
from greenlet import greenlet
def work(n):
    kept = []
    for _ in range(n):
        kept.append(bytearray(1 << 20))
        main.switch()
main = greenlet.getcurrent()
all_of = [greenlet(work) for _ in range(20)]
for one in all_of: one.switch(5)
while any(all_of):
    for one in all_of:
        if one: one.switch()
print("done")
"""
    w = watch([sys.executable, script(tmp_path, text)])
    made = [a for a in w.allocs if a.is_from("work") and a.size >= MIB]
    assert (len(made), w.output) == (100, "done\n")
    assert all(is_on(a, "work:6") for a in made) and all(a.id in w.freed[a.pid] for a in made)


def test_a_copy_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    """Counts need more than 32 bits. The same few pages are mapped again and again, so that it takes no memory."""
    text = """
import ctypes, mmap, os
libc = ctypes.CDLL(None)
libc.mmap.restype = libc.memmove.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.memmove.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
part, n = 32 << 20, 68
fd = os.memfd_create("part")
os.ftruncate(fd, part)
def area():
    start = libc.mmap(None, part * n, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
    for i in range(n): assert libc.mmap(start + i * part, part, 3, mmap.MAP_SHARED | 0x10, fd, 0) == start + i * part
    return start
def copy(): libc.memmove(to, start, part * n - 5)
start, to = area(), area()
copy()
"""
    w = watch([NEWEST.path, script(tmp_path, text)])
    copies = [a for a in w.copies if a.is_from("copy") and a.size >= MIB]
    assert [(a.size, a.weight) for a in copies] == [((68 << 25) - 5, (68 << 25) - 5)]


def build_library(folder: Path, name: str, text: str) -> Path:
    (folder / "library.c").write_text(text)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(folder / name), str(folder / "library.c")], check=True)
    return folder / name


def test_what_is_not_seen_is_said(tmp_path: Path) -> None:
    front = build_library(
        tmp_path,
        "front.so",
        "#include <stddef.h>\n"
        "extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);\n"
        "extern void __libc_free(void *);\n"
        "void *malloc(size_t n) { return __libc_malloc(n); }\n"
        "void *calloc(size_t n, size_t s) { return __libc_calloc(n, s); }\n"
        "void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }\n"
        "void free(void *p) { __libc_free(p); }\n",
    )
    own = build_library(tmp_path, "libown.so", "void *mi_malloc(unsigned long n) { return (void *)(n * 0); }\n")

    def said(env: Dict[str, str]) -> str:
        profile = tmp_path / "p.fathom"
        code = f"import ctypes; ctypes.CDLL({str(own)!r})"
        done = run([*under(profile, "--memory"), NEWEST.path, "-c", code], env=clean_env(env))
        assert done.returncode == 0, done.stderr
        return " | ".join(c["what"] for c in report(profile)["coverage"])

    assert "single blocks of libown.so" in said({})
    assert "malloc" not in said({})
    assert "memory that native code allocates with malloc" in said({"LD_PRELOAD": str(front)})


def test_options_are_checked(tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    for options, said in (
        (["--precision", "11"], "--precision wants a number from -10 (coarse) to 10 (fine)"),
        (["--memory=all"], "--memory is sampled"),
    ):
        done = run([*under(profile, *options), "true"])
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_profile_says_how_memory_was_watched(tmp_path: Path) -> None:
    profile = tmp_path / "p.fathom"
    dump = [str(Path(under(profile)[0]).parent / "tests" / "dump_profile"), str(profile)]
    for options, expected in (
        ([], {"memory": "off"}),
        (["--memory"], {"memory": "sampled", "precision": "0", "alloc_mean_bytes": str(MEAN)}),
        (["--memory", "--precision", "3"], {"precision": "3", "alloc_mean_bytes": str(MEAN >> 3)}),
        (["--memory", "--precision", "-10"], {"precision": "-10", "alloc_mean_bytes": str(128 * MIB)}),
    ):
        assert run([*under(profile, *options), "true"]).returncode == 0
        text = run(dump).stdout
        for key, value in expected.items():
            assert re.search(rf"^meta.*\b{key}\b.*[|=]{value}$", text, re.M), (key, text)


def test_time_profile_does_not_show_the_hooks(tmp_path: Path) -> None:
    """Samples taken inside a hook are the interpreter's own, and no frame of the agent is in a stack."""
    profile = tmp_path / "p.fathom"
    target = script(tmp_path, "for i in range(1500000): [i, (i, i + 1)]\n")
    assert run([*under(profile, "--memory", "-r", "4000"), NEWEST.path, target]).returncode == 0
    text = run([Path(under(profile)[0]), "export", "-f", "collapsed", profile]).stdout
    assert "_agent" not in text
    assert RAW == 2


WEAK = """
#include <stdlib.h>
extern int nobody_has_this(void) __attribute__((weak));
int is_there(void) { return nobody_has_this != 0; }
void *ask(void) { return malloc(100); }
"""


def test_weak_symbols_that_nobody_defines_stay_so(tmp_path: Path) -> None:
    """OpenBLAS asks so for OpenMP, and calls what it finds."""
    (tmp_path / "weak.c").write_text(WEAK)
    library = tmp_path / "libweak.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "weak.c")], check=True)
    script = tmp_path / "look.py"
    script.write_text("import ctypes, sys\nl = ctypes.CDLL(sys.argv[1])\nl.ask()\nprint(l.is_there())\n")
    command = under(tmp_path / "p.fathom", "--memory")
    done = run([*command, some_pythons()[-1].path, script, library])
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
