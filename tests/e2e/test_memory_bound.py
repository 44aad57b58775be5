# SPDX-License-Identifier: Apache-2.0
"""Memory where preloading does not reach: a library opened with RTLD_DEEPBIND, and a block of a process that runs already.

Every byte is known. Blocks of 256 KiB and more are told of one by one; of smaller ones the sums are estimates, judged by their own interval.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import ROOT, Python
from guest import LONG, clean_env, compile_target, run, some_pythons
from memory import MALLOC, MMAP, total, watch
from runs import one_python

MIB = 1 << 20
each_python = True  # conftest: chosen here
HOWS = "malloc calloc realloc reallocarray memalign aligned_alloc valloc pvalloc posix_memalign mmap".split()


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_target(tmp_path_factory.mktemp("calls"), "memory_calls.so", ["memory_calls.c"], ["-shared"])


# ---- opened past what is preloaded ----


@pytest.mark.parametrize("how", ["now", "lazy"])
@pytest.mark.parametrize("sealed", [True, False], ids=["relro", "norelro"])
def test_a_library_opened_with_deepbind(how: str, sealed: bool, tmp_path: Path) -> None:
    """Each function of it that allocates, six blocks of a size of its own; and its copies. Pages that the loader had sealed are sealed again."""
    flags = ["-shared", "-Wl,-z,now", "-Wl,-z,relro"] if sealed and how == "now" else ["-shared", "-Wl,-z,lazy"]
    flags += [] if sealed else ["-Wl,-z,norelro"]
    library = compile_target(tmp_path, "memory_calls.so", ["memory_calls.c"], flags)
    program = compile_target(tmp_path, "deepbind", ["deepbind.c"])
    bare = run([program, library, how])
    assert bare.returncode == 0, bare.stderr
    w = watch([program, library, how])
    for i, name in enumerate(HOWS):
        found = [a for a in w.allocs if a.size == MIB + 4096 * i]
        assert [(a.domain, a.weight) for a in found] == [(MMAP if name == "mmap" else MALLOC, MIB + 4096 * i)] * 6, name
        assert all(a.id in w.freed[a.pid] for a in found), name
    # Three that were asked for and two that check overlaps.
    assert total(a for a in w.copies if a.size == 2 * MIB) == 5 * 2 * MIB
    assert w.output == bare.stdout


def test_who_asks_dlsym_is_who_asked(tmp_path: Path) -> None:
    """RTLD_NEXT and RTLD_DEFAULT go by the caller: a library's own wrapper still finds the function behind it."""
    (tmp_path / "wrap.c").write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <unistd.h>\n"
        'int n; int getpagesize(void) { n++; return ((int (*)(void))dlsym(RTLD_NEXT, "getpagesize"))(); }\n'
    )
    (tmp_path / "main.c").write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        "extern int n;\nint own(void) { return 5; }\n"
        'int main(void) { int bytes = getpagesize(); void *self = dlsym(RTLD_DEFAULT, "own"), *none = dlsym(RTLD_DEFAULT, "no such");\n'
        'printf("%d %d %d %d %s\\n", bytes, n, self == (void *)own, !none, dlerror() ? "said" : "silent"); return 0; }\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "libwrap.so", "wrap.c", "-ldl"], cwd=tmp_path, check=True)
    command = ["gcc", "-rdynamic", "-o", "main", "main.c", "-L.", "-lwrap", "-ldl", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(command, cwd=tmp_path, check=True)
    bare = run([tmp_path / "main"])
    assert watch([tmp_path / "main"]).output == bare.stdout == "%d 1 1 1 said\n" % os.sysconf("SC_PAGESIZE")


def test_a_library_with_an_allocator_of_its_own_keeps_it(tmp_path: Path) -> None:
    """Bound to its own malloc, as a wheel with jemalloc inside is: its blocks must go back to where they came from."""
    (tmp_path / "own.c").write_text(
        "#include <stddef.h>\n#include <stdio.h>\n"
        "static char arena[1 << 20]; static size_t used; static int n;\n"
        "void *malloc(size_t size) { void *p = arena + used; used += (size + 15) & ~15ul; n++; return p; }\n"
        "void free(void *p) { if (p && ((char *)p < arena || (char *)p >= arena + sizeof(arena))) __builtin_trap(); n--; }\n"
        "int use(void) { void *volatile p = malloc(1000); int ok = (char *)p >= arena && (char *)p < arena + sizeof(arena) && n == 1;\n"
        "free(p); return ok && n == 0; }\n"
    )
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", "own.so", "own.c"], cwd=tmp_path, check=True
    )
    code = "import ctypes, os, sys\nlib = ctypes.CDLL(sys.argv[1], mode=os.RTLD_DEEPBIND)\nprint(lib.use())\n"
    python = some_pythons()[-1]
    (tmp_path / "s.py").write_text(code)
    assert watch([python.path, tmp_path / "s.py", tmp_path / "own.so"]).output == "1\n"


# ---- a block of a process that runs already ----

TOOLS = """
import ctypes, json, os, sys, threading, time
import fathom
MIB = 1 << 20
def lines(report):
    return {r["line"]: r for r in report.json["lines"] if r["file"].endswith("program.py")}
def line_of(mark):
    return next(i for i, text in enumerate(open(__file__), 1) if text.rstrip().endswith("# " + mark))
def figures(report, mark):
    row = lines(report).get(line_of(mark), {})
    names = "alloc_bytes alloc_plus_minus_bytes peak_bytes live_bytes copy_bytes alloc_python_share peak_plus_minus_bytes".split()
    return [row.get(name, 0) for name in names]
def sums(report):
    memory = report.json["memory"]
    return [sum(r[name] for r in report.json["lines"]) + memory["no_python"][name] - memory[name] for name in ("alloc_bytes", "live_bytes")]
class Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in "ctx malloc calloc realloc free".split()]
def allocators():
    found = []
    for domain in range(3):
        a = Allocator()
        ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(a))
        found.append([getattr(a, name) for name, _ in a._fields_])
    return found
"""


def run_code(python: str, folder: Path, code: str, *args: Any, **more: Any) -> Dict[str, Any]:
    """Runs a program that can import fathom; what it printed last, as JSON."""
    program = folder / "program.py"
    program.write_text(TOOLS + textwrap.dedent(code))
    more.setdefault("env", clean_env({"PYTHONPATH": str(ROOT / "python")}))
    done = run([python, program, *args], cwd=folder, **more)
    assert done.returncode == 0, done.stderr + done.stdout
    result: Dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def assert_near(figures: List[float], truth: float) -> None:
    """Two intervals of 95 %: wrong once in 10,000."""
    assert abs(figures[0] - truth) <= 2 * figures[1] + 0.001 * truth, (figures, truth)


BLOCK = """
before = [bytearray(MIB) for _ in range(20)]
def work():
    global big, small, gone
    big = bytearray(64 * MIB)                    # big
    small = [i * 0.5 for i in range(300000)]     # small
    for _ in range(200000): bytes(200)           # churned
    gone = bytearray(32 * MIB)                   # gone
    del gone
    before.clear()
found = allocators()
with fathom.job(output_dir="runs", name="block"%s) as job:
    inside = allocators()
    work()
same = allocators() == found
json_of = job.report.json
print(json.dumps({
    "marks": {mark: figures(job.report, mark) for mark in ("big", "small", "churned", "gone")}, "sums": sums(job.report),
    "mode": json_of["memory"]["mode"], "live": json_of["memory"]["live_bytes"], "peak": json_of["memory"]["peak_bytes"],
    "coverage": [c["what"] for c in json_of["coverage"]], "same": same, "differs": inside != found,
    "columns": "peak" in open(job.report.text_path).read(),
}))
"""


@pytest.mark.parametrize("python", some_pythons(), ids=str)
@pytest.mark.statistical
def test_a_block_in_pure_python(python: Python, tmp_path: Path) -> None:
    """What lines asked for, hold and gave back inside the block; what was there before is no line's, also when it is freed."""
    out = run_code(python.path, tmp_path, BLOCK % "")
    marks = out["marks"]
    assert out["mode"] == "sampled" and out["same"] and out["differs"] and out["columns"]
    for mark, truth in (("big", 64 * MIB), ("gone", 32 * MIB)):
        assert marks[mark][0] - truth in range(2 * MIB), (mark, marks)
        assert marks[mark][2] - truth in range(2 * MIB)
    assert marks["big"][3] - 64 * MIB in range(2 * MIB) and marks["gone"][3] < 2 * MIB
    doubt, longer = 2 * marks["small"][6], python.longer_head
    assert (
        300000 * (32 + longer) - doubt < marks["small"][3] < 300000 * (33.5 + longer) + doubt
    )  # the floats, and a list that grows by an eighth
    assert_near(marks["churned"], 200000 * (233 + longer))
    assert marks["churned"][3] < 2 * MIB and marks["small"][5] > 0.9
    assert out["sums"] == [0, 0]
    assert abs(out["peak"] - 96 * MIB - 300000 * (33 + longer)) < MIB + doubt
    (was,) = [what for what in out["coverage"] if what.startswith("memory allocated before the capture began")]
    assert 20 < float(was.split("(")[1].split()[0]) < 300


@pytest.mark.parametrize("python", one_python(newest=True), ids=str)
def test_a_block_counted_exactly(python: Python, tmp_path: Path) -> None:
    out = run_code(python.path, tmp_path, BLOCK % ', memory="exact"')
    marks = out["marks"]
    assert out["mode"] == "exact" and out["same"]
    assert marks["big"][0] - 64 * MIB in range(200) and marks["gone"][0] - 32 * MIB in range(200)
    assert marks["churned"][0] - 200000 * 233 in range(0, 8 * MIB, 1)  # and the loop's numbers
    assert (marks["gone"][3], marks["churned"][3]) == (0, 0) or marks["churned"][3] < 200
    assert marks["small"][3] - 300000 * 24 in range(300000 * 8, 300000 * 10)
    assert out["sums"] == [0, 0]


def test_numpy_in_a_block(tmp_path: Path) -> None:
    """numpy was loaded and bound long before; its arrays are malloc's."""
    if subprocess.run([sys.executable, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no numpy in the environment of the tests")
    code = """
    import numpy
    before = [numpy.ones(1 << 17) for _ in range(10)]
    def work():
        global kept, copied
        kept = [numpy.ones(1 << 17) for _ in range(30)]      # kept
        copied = [a.copy() for a in kept[:7]]                # copied
        for _ in range(5): numpy.zeros(1 << 18)              # churned
        before.clear()
    with fathom.job(output_dir="runs", name="numpy") as job: work()
    print(json.dumps({mark: figures(job.report, mark) for mark in ("kept", "copied", "churned")}))
    """
    out = run_code(sys.executable, tmp_path, code)
    for mark, made, live in (("kept", 30, 30), ("copied", 7, 7), ("churned", 10, 0)):
        assert out[mark][0] - made * MIB in range(MIB), (mark, out)
        assert out[mark][3] - live * MIB in range(MIB)
        assert out[mark][5] < 0.1  # native
    assert out["copied"][4] - 7 * MIB in range(MIB)


def test_arrow_in_a_block(tmp_path: Path) -> None:
    """Arrow is bound to its own allocator, by names that can be taken; what it got before goes back unseen."""
    if subprocess.run([sys.executable, "-c", "import pyarrow"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no pyarrow in the environment of the tests")
    code = """
    import pyarrow
    if int(pyarrow.__version__.split(".")[0]) < 25 or pyarrow.default_memory_pool().backend_name != "mimalloc":
        print(json.dumps(None)); sys.exit()
    before = [pyarrow.allocate_buffer(MIB) for _ in range(10)]
    def work():
        global kept
        kept = [pyarrow.allocate_buffer(MIB) for _ in range(8)]      # kept
        before.clear()
        for _ in range(5): pyarrow.allocate_buffer(MIB)              # churned
    with fathom.job(output_dir="runs", name="arrow") as job: work()
    kept.clear()
    more = [pyarrow.allocate_buffer(MIB) for _ in range(8)]
    print(json.dumps({mark: figures(job.report, mark) for mark in ("kept", "churned")}))
    """
    out = run_code(sys.executable, tmp_path, code)
    if out is None:
        pytest.skip("this pyarrow does not export its allocator")
    assert out["kept"][0] - 8 * MIB in range(MIB) and out["kept"][3] - 8 * MIB in range(-MIB, MIB), out
    assert out["churned"][0] - 5 * MIB in range(MIB) and out["churned"][3] < MIB, out


NATIVE = """
lib = ctypes.CDLL(sys.argv[1])
n = 24
size, count = ctypes.c_size_t(MIB), ctypes.c_size_t(n)
first, second, third = [(ctypes.c_void_p * n)() for _ in range(3)]
lib.get_all(b"malloc", size, count, first)
with fathom.job(output_dir="runs", name="native") as job:
    lib.put_all(b"malloc", size, count, first)   # early
    lib.get_all(b"malloc", size, count, second)  # here
    for p in second: ctypes.memset(p, 1, MIB)    # what is not used is no memory
    late = ctypes.CDLL(sys.argv[2])              # opened only now
    late.get_all(b"malloc", size, count, third)  # loaded
    for p in third: ctypes.memset(p, 1, MIB)
    lib.copy_all(b"memmove", ctypes.c_size_t(3 * MIB), ctypes.c_size_t(4))     # copies
for kept in (second, third): lib.put_all(b"malloc", size, count, kept)
with fathom.job(output_dir="runs", name="again") as again:
    lib.get_all(b"malloc", size, count, first)   # again
    for p in first: ctypes.memset(p, 1, MIB)
with fathom.job(output_dir="runs", name="cpu", cpu=True) as without:
    lib.get_all(b"malloc", size, count, second)  # without
print(json.dumps({
    **{mark: figures(job.report, mark) for mark in ("early", "here", "loaded", "copies")}, "again": figures(again.report, "again"),
    "without": without.report.json["memory"]["mode"],
}))
"""


def test_native_code_in_a_block(calls: Path, tmp_path: Path) -> None:
    """Blocks from before that are freed in it, blocks of it that are freed later, a library that is opened in it."""
    second = tmp_path / "second.so"
    second.write_bytes(calls.read_bytes())
    for python in one_python(newest=True):
        out = run_code(python.path, tmp_path, NATIVE, calls, second)
        assert out["early"][0] < MIB
        for mark in ("here", "loaded", "again"):
            assert out[mark][0] - 24 * MIB in range(MIB), (mark, out)
            assert out[mark][3] - 24 * MIB in range(MIB), (mark, out)
            assert out[mark][5] < 0.05
        assert out["copies"][4] - 6 * 3 * MIB in range(MIB)
        assert out["without"] == "off"


SLOTS = """
lib = ctypes.CDLL(sys.argv[1])
lib.address_of.restype = ctypes.c_void_p
names = [b"malloc", b"free", b"memcpy", b"mmap"]
def addresses(): return [lib.address_of(i) for i in range(len(names))]
def writable():
    return sum(int(l.split("-")[1].split()[0], 16) - int(l.split("-")[0], 16) for l in open("/proc/self/maps") if sys.argv[1] in l and " rw" in l)
before, pages = addresses(), writable()
with fathom.job(output_dir="runs", name="slots") as job:
    inside = addresses()
after = addresses()
print(json.dumps({"before": before, "inside": inside, "after": after, "pages": writable() - pages}))
"""


def test_slots_are_given_back(tmp_path: Path) -> None:
    (tmp_path / "slots.c").write_text(
        "#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n"
        "void *address_of(int i) { switch (i) { case 0: return malloc; case 1: return free; case 2: return memcpy; default: return mmap; } }\n"
    )
    library = tmp_path / "slots.so"
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        "-fno-builtin",
        "-Wl,-z,now",
        "-Wl,-z,relro",
        "-o",
        library,
        tmp_path / "slots.c",
    ]
    subprocess.run([str(c) for c in command], check=True)
    for python in one_python(newest=True):
        out = run_code(python.path, tmp_path, SLOTS, library)
        assert out["before"] == out["after"] and out["pages"] == 0
        # Where the executable lies at a fixed place, the address of a function is that of its own jump to it, whose slot is another one.
        differs = [a != b for a, b in zip(out["before"], out["inside"])]
        fixed = [address < 1 << 32 for address in out["before"]]
        assert all(d or f for d, f in zip(differs, fixed)) and any(differs), out


STACKED = """
import tracemalloc
def make(n): return [bytearray(MIB) for _ in range(n)]       # made
found = allocators()
results = []
with fathom.job(output_dir="runs", name="a") as a:
    kept = make(8)
    tracemalloc.start()                       # on top of ours, and stays
    kept += make(8)
with fathom.job(output_dir="runs", name="b") as b: kept = make(12)
traced = tracemalloc.get_traced_memory()[0]
tracemalloc.stop()
with fathom.job(output_dir="runs", name="c") as c: kept = make(10)
end = allocators() == found
with fathom.job(output_dir="runs", name="d", memory="exact") as d: kept = make(9)
with fathom.job(output_dir="runs", name="e", precision=4) as e: kept = make(7)
print(json.dumps({"made": [figures(j.report, "made")[0] for j in (a, b, c, d, e)], "traced": traced, "end": end,
                  "precision": e.report.json["memory"].get("precision"), "allocators": allocators() == found}))
"""


def test_allocators_put_on_top_of_ours(tmp_path: Path) -> None:
    """tracemalloc started inside one block and stopped between others: neither calls the other in a circle, and sums are right."""
    for python in one_python(newest=True):
        out = run_code(python.path, tmp_path, STACKED)
        for made, truth in zip(out["made"], (16, 12, 10, 9, 7)):
            assert made - truth * MIB in range(MIB), out
        assert out["traced"] >= 12 * MIB and out["end"] and out["allocators"], out


TAKEN_OFF = """
import tracemalloc
def make(n): return [bytes(200 + i % 200) for i in range(n)]       # made
tracemalloc.start()
with fathom.job(output_dir="runs", name="a", memory="exact") as a:
    kept = make(10000)
    tracemalloc.stop()                        # takes ours off, which stood on top of it
with fathom.job(output_dir="runs", name="b", memory="exact") as b: kept = make(20000)
with fathom.job(output_dir="runs", name="c", memory="exact") as c: kept = make(30000)
print(json.dumps({"made": [figures(j.report, "made")[0] for j in (a, b, c)]}))
"""


def test_an_allocator_below_ours_that_goes_and_takes_ours_off(tmp_path: Path) -> None:
    """The next blocks see Python's memory again, and not pymalloc's arenas in place of it."""
    for python in one_python(newest=True):
        out = run_code(python.path, tmp_path, TAKEN_OFF)
        for made, n in zip(out["made"], (10000, 20000, 30000)):
            assert n * 332 < made < n * 450, out  # with lists that grow


STORM = """
import _ctypes
lib = ctypes.CDLL(sys.argv[1])
over = False
def native():
    kept = (ctypes.c_void_p * 500)()
    while not over:
        lib.get_all(b"malloc", ctypes.c_size_t(300), ctypes.c_size_t(500), kept)
        lib.put_all(b"malloc", ctypes.c_size_t(300), ctypes.c_size_t(500), kept)
def python():
    while not over: assert sum(len(d["a"]) for d in [dict(a=[i] * 50) for i in range(300)]) == 15000
def load():
    while not over: _ctypes.dlclose(_ctypes.dlopen(sys.argv[2], 2))
def churn():
    while not over:
        t = threading.Thread(target=bytearray, args=(MIB,)); t.start(); t.join()
threads = [threading.Thread(target=f, daemon=True) for f in (native, native, python, load, churn)]
for t in threads: t.start()
found, modes = [], ["sampled", "exact"]
for i in range(%d):
    with fathom.job(output_dir="runs", name="storm", rate=5000, memory=modes[i %% 2]) as job:
        kept = [bytearray(MIB) for _ in range(50)]       # kept
        pid = os.fork()
        if pid == 0:
            x = [bytes(1000) for _ in range(1000)]
            os._exit(7)
        assert os.waitpid(pid, 0)[1] == 7 << 8
        time.sleep(0.05)
    found.append(figures(job.report, "kept")[0])
over = True
for t in threads: t.join()
print(json.dumps(found))
"""


def test_blocks_one_after_the_other_under_load(calls: Path, tmp_path: Path) -> None:
    """Hooks come and go in front of threads that allocate, libraries that come and go, and forks: nothing breaks, and sums are right."""
    second = tmp_path / "second.so"
    second.write_bytes(calls.read_bytes())
    for python in some_pythons() if LONG else one_python(newest=True):
        found = run_code(python.path, tmp_path, STORM % (12 if LONG else 4), calls, second)
        assert all(made - 50 * MIB in range(-3 * MIB, 3 * MIB) for made in found), (str(python), found)
