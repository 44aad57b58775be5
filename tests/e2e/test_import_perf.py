# SPDX-License-Identifier: Apache-2.0
"""perf.data and the text of perf script: what they hold arrives to the nanosecond. Files are built by code; perf itself is asked where it
is installed and may count."""

import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List

import perf_files as pf
import pytest
from capture import BUILD
from guest import FATHOM, coverage, fathom, report, run
from perf_files import Event, PerfData
from test_import import stacks, written

PERF = shutil.which("perf")
needs_perf = pytest.mark.skipif(not PERF, reason="perf is not installed (linux-perf)")
PID = (1 << 22) + os.getpid()  # no kernel gives such a number, and no other worker of the tests
CODE = 0x70000000
# Where they lie in CODE, each 0x100 long: native code of a compiler at run time, and Python as CPython tells perf.
NAMES = {"alpha": 0, "beta": 1, "gamma": 2, "py::outer:/srv/app.py": 3, "py::C.inner:/srv/app.py": 4}
ALPHA, BETA, GAMMA, OUTER, INNER = (CODE + 0x100 * i + 0x10 for i in range(5))


@pytest.fixture(scope="module", autouse=True)
def perf_map() -> Iterator[Path]:
    """/tmp/perf-PID.map, which names the code of the process in all these files."""
    path = Path(f"/tmp/perf-{PID}.map")
    path.write_text("".join(f"{CODE + 0x100 * i:x} 100 {name}\n" for name, i in NAMES.items()))
    yield path
    path.unlink()


def begun(*events: Event, **options: Any) -> PerfData:
    return PerfData(*(events or (Event(1),)), **options).comm(PID, PID, b"main").map(PID, CODE, 0x1000, b"//anon")


def name(symbol: str) -> str:
    return f"{symbol} ([jit])"


def known(*events: Event, **options: Any) -> PerfData:
    """Two threads, 17 ms in all."""
    d = begun(*events, **options).fork(PID, PID, PID + 1, PID, 2).comm(PID, PID + 1, b"worker", 3)
    d.sample(PID, PID, 1000, 5_000_000, [pf.USER_MARK, ALPHA, BETA])
    d.sample(PID, PID + 1, 2000, 7_000_000, [pf.USER_MARK, INNER, OUTER], cpu=3)
    return d.sample(PID, PID, 3000, 5_000_001, [pf.USER_MARK, BETA])


KNOWN = sorted(
    [
        f"thread ({PID}): main;{name('beta')};{name('alpha')} 5000",
        f"thread ({PID}): main;{name('beta')} 5000",
        f"thread ({PID + 1}): worker;outer (app.py);C.inner (app.py) 7000",
    ]
)


def shown(path: Path) -> List[str]:
    return stacks(path, "--threads", "--unit", "us")


@pytest.mark.parametrize("form", ["file", "unfinished", "pipe", "packed"])
def test_every_form_of_the_file(form: str, tmp_path: Path) -> None:
    data = known(host=os.uname().nodename.encode())
    path = written(
        tmp_path,
        {"file": data.file(), "unfinished": data.file(True), "pipe": data.pipe(), "packed": data.pipe(True)}[form],
    )
    assert fathom("import", "-o", tmp_path / "kept.fathom", path).stderr == ""
    assert shown(path) == KNOWN
    told = report(path)
    assert {(t["pid"], t["tid"], t["name"], round(t["cpu_s"] * 1e9)) for t in told["threads"]} == {
        (PID, PID, "main", 10_000_001),
        (PID, PID + 1, "worker", 7_000_000),
    }
    assert ("killed" in coverage(path)) == (form == "unfinished")


def test_every_field_of_a_sample_has_its_size(tmp_path: Path) -> None:
    """With all that perf can put into a sample: a field that were taken for longer or shorter would move those behind it."""
    bits = pf.USUAL | pf.ADDR | pf.ID | pf.STREAM_ID | pf.READ | pf.RAW | pf.BRANCH | pf.REGS_USER | pf.STACK_USER
    bits |= (
        pf.WEIGHT
        | pf.DATA_SRC
        | pf.TRANSACTION
        | pf.REGS_INTR
        | pf.PHYS_ADDR
        | pf.AUX
        | pf.CGROUP
        | pf.DATA_PAGE
        | pf.CODE_PAGE
    )
    data = known(Event(1, bits=bits, read_format=1 | 2 | 4 | 8, regs=1 << pf.SP | 1 << pf.PC))
    assert shown(written(tmp_path, data.file())) == KNOWN
    assert "could not be read" not in coverage(tmp_path / "foreign")
    # One that says that it is longer than it is, is counted and costs nothing else.
    body = data.records[-1]
    data.records.append(body[:-200] + bytes([255]) * 200)
    assert shown(written(tmp_path, data.file())) == KNOWN
    assert "1 samples could not be read" in coverage(tmp_path / "foreign")


def test_stacks_that_perf_copied(tmp_path: Path) -> None:
    """--call-graph dwarf, through CPython's trampolines: each takes eight bytes of the stack and calls. The end is a return to 0."""
    event = Event(1, bits=pf.USUAL | pf.REGS_USER | pf.STACK_USER, regs=1 << pf.BP | 1 << pf.SP | 1 << pf.PC, stack=64)
    sp = 0x7FFF0000
    data = begun(event)
    data.sample(PID, PID, 1000, 3_000_000, [], registers=[1, sp, INNER], stack=pf.words(0, OUTER, 0, 0))
    data.sample(
        PID, PID, 2000, 4_000_000, [], registers=[sp, sp, INNER], stack=pf.words(9, OUTER, 0, 0)
    )  # by a push of the frame pointer
    data.sample(
        PID, PID, 3000, 5_000_000, [], registers=[1, sp, INNER], stack=pf.words(0, OUTER)
    )  # not all of it was copied
    path = written(tmp_path, data.file())
    assert shown(path) == [
        f"thread ({PID}): main;[stack memory unreadable];outer (app.py);C.inner (app.py) 5000",
        f"thread ({PID}): main;outer (app.py);C.inner (app.py) 7000",
    ]
    assert "1 of 3 stacks are longer than the part that perf copied" in coverage(path)


def test_branch_records_are_calls(tmp_path: Path) -> None:
    """--call-graph lbr: from where each call was made, innermost first."""
    data = begun(Event(1, bits=pf.USUAL | pf.BRANCH, branches=pf.BRANCH_CALL_STACK))
    data.sample(PID, PID, 1000, 2_000_000, [pf.USER_MARK, ALPHA], branches=[(BETA, ALPHA - 0x10), (GAMMA, BETA - 0x10)])
    assert shown(written(tmp_path, data.file())) == [
        f"thread ({PID}): main;{name('gamma')};{name('beta')};{name('alpha')} 2000"
    ]


def test_kernel_code_and_classes(tmp_path: Path) -> None:
    data = begun()
    at = 0xFFFFFFFF81000000
    data.sample(PID, PID, 1000, 2_000_000, [pf.KERNEL_MARK, at, at + 0x99, pf.USER_MARK, ALPHA], misc=pf.KERNEL)
    data.sample(PID, PID, 2000, 6_000_000, [pf.USER_MARK, ALPHA])
    path = written(tmp_path, data.file())
    first, second = shown(path)
    assert first == f"thread ({PID}): main;{name('alpha')} 6000"
    assert second.startswith(f"thread ({PID}): main;{name('alpha')};") and second.count("[kernel]") == 2
    assert "names of kernel functions" in coverage(path)
    kinds = {kind: round(s * 1e9) for kind, s in report(path)["time"].items() if s}
    assert kinds == {"system_s": 2_000_000, "native_s": 6_000_000}


def test_waits_between_switches(tmp_path: Path) -> None:
    """Off its CPU from a switch to the next; who had to make room for another one does not wait."""
    data = begun(Event(1), Event(2, config=pf.CONTEXT_SWITCHES, period=1, name=b"context-switches"))
    data.sample(PID, PID, 1000, 1_000_000, [pf.USER_MARK, ALPHA])
    data.sample(PID, PID, 5_000_000, 1, [pf.USER_MARK, BETA], event=1)
    data.switch(PID, PID, 5_000_000, pf.SWITCH_OUT).switch(PID, PID, 8_000_000, 0)
    data.switch(PID, PID, 9_000_000, pf.SWITCH_OUT).switch(PID, PID, 13_000_000, 0)  # nothing tells where
    data.switch(PID, PID, 14_000_000, pf.SWITCH_OUT | pf.PREEMPTED).switch(PID, PID, 20_000_000, 0)
    path = written(tmp_path, data.file())
    assert shown(path) == [f"thread ({PID}): main;{name('alpha')} 1000"]
    assert stacks(path, "--idle", "--unit", "us") == sorted(
        [f"{name('alpha')} 1000", f"{name('beta')} 3000", "[no frames] 4000"]
    )
    assert "1 waits have no stack" in coverage(path)


def test_what_runs_in_the_interpreter_is_python(tmp_path: Path) -> None:
    """What the evaluator calls in the interpreter's own file for an instruction, and no library; the report does not name a line."""
    d = (
        begun()
        .map(PID, 0x10000000, 0x10000, b"/no/such/libpython3.12.so.1.0")
        .map(PID, 0x20000000, 0x10000, b"/no/such/libz.so")
    )
    evaluator, multiply, deflate = 0x10000010, 0x10000999, 0x20000010
    for i in range(500):
        d.sample(PID, PID, 1_600_000 * i + 600_000, 600_000, [pf.USER_MARK, multiply, evaluator, INNER])
        d.sample(PID, PID, 1_600_000 * i + 1_600_000, 1_000_000, [pf.USER_MARK, deflate, evaluator, INNER])
    path = written(tmp_path, d.file())
    assert {kind: round(s * 1e9) for kind, s in report(path)["time"].items() if s} == {
        "python_s": 300_000_000,
        "native_s": 500_000_000,
    }
    assert "C.inner (app.py) takes 100% of the CPU time." in fathom("report", path).stdout
    assert "ine 0" not in fathom("report", path).stdout


def test_lost_records_are_drops(tmp_path: Path) -> None:
    data = known().lost(PID, PID + 1, 4000, 41).lost(PID, PID, 5000, 1)
    path = written(tmp_path, data.file())
    assert shown(path) == KNOWN
    assert "42 records that perf lost" in coverage(path)
    assert {t["tid"]: t["dropped"] for t in report(path)["threads"]} == {PID: 1, PID + 1: 41}
    # Samples lost, where perf has asked for these, are the same ones once more.
    data.add(pf.LOST_SAMPLES, 0, pf.words(40) + data.who(PID, PID, 6000))
    assert "40 records that perf lost" in coverage(written(tmp_path, data.file()))


def test_the_event_that_goes_with_time(tmp_path: Path) -> None:
    def two(*events: Event) -> PerfData:
        d = begun(*events)
        for i in range(4):
            d.sample(PID, PID, 1000 + i, 10 * (i + 1), [pf.USER_MARK, ALPHA], event=0)
            d.sample(PID, PID, 1000 + i, 2_000_000, [pf.USER_MARK, BETA], event=1)
        return d

    faults, clock = Event(1, config=pf.PAGE_FAULTS, name=b"page-faults"), Event(2, name=b"cpu-clock")
    path = written(tmp_path, two(faults, clock).file())
    assert shown(path) == [f"thread ({PID}): main;{name('beta')} 8000"]
    assert "4 samples of page-faults" in coverage(path)
    # Cycles are no time: shares by their periods, all of them as long as the rate says.
    cycles = Event(1, type=pf.HARDWARE, config=pf.CYCLES, period=1000, flags=pf.SAMPLE_ID_ALL | pf.FREQ, name=b"cycles")
    other = Event(2, config=pf.PAGE_FAULTS, name=b"page-faults")
    path = written(tmp_path, two(cycles, other).file())
    assert shown(path) == [f"thread ({PID}): main;{name('alpha')} 4000"]
    assert "how long cycles took: perf counted them" in coverage(
        path
    ) and "rate that was requested of perf" in coverage(path)
    d = begun(Event(1, type=pf.HARDWARE, config=pf.CYCLES, name=b"cycles"))
    for i, period in enumerate((30, 10, 20)):  # 5 ms from one to the next
        d.sample(PID, PID, 1000 + 5_000_000 * i, period, [pf.USER_MARK, (ALPHA, BETA, GAMMA)[i]])
    path = written(tmp_path, d.file())
    assert shown(path) == [
        f"thread ({PID}): main;{name(n)} {us}" for n, us in (("alpha", 7500), ("beta", 2500), ("gamma", 5000))
    ]
    assert "the usual time between two samples" in coverage(path)


def test_a_period_beyond_all_time(tmp_path: Path) -> None:
    """It is cut at 146 years, and is no other number for that."""
    path = written(tmp_path, begun().sample(PID, PID, 1000, (1 << 64) - 1, [pf.USER_MARK, BETA]).file())
    assert report(path)["threads"][0]["cpu_s"] == pytest.approx(2**62 / 1e9)


def test_records_are_put_in_order(tmp_path: Path) -> None:
    """perf writes CPU by CPU. Code is mapped on one of them and runs on the other, which stands before it in the file."""
    d = PerfData(Event(1)).comm(PID, PID, b"main", 10)
    d.sample(PID, PID, 3000, 1_000_000, [pf.USER_MARK, ALPHA]).sample(PID, PID, 9000, 2_000_000, [pf.USER_MARK, ALPHA])
    d.map(PID, CODE, 0x1000, b"//anon", 2000)
    d.map(PID, CODE, 0x1000, b"/no/such/library.so", 5000, offset=0x4000).round().round()
    assert shown(written(tmp_path, d.file())) == [
        f"thread ({PID}): main;0x4010 (library.so) 2000",
        f"thread ({PID}): main;{name('alpha')} 1000",
    ]


def test_a_child_has_its_parents_code_until_it_runs_another_program(tmp_path: Path) -> None:
    child = PID + 7
    d = begun().sample(PID, PID, 50, 1_000_000, [pf.USER_MARK, BETA]).fork(child, PID, child, PID, 100)
    d.sample(child, child, 1000, 1_000_000, [pf.USER_MARK, ALPHA])
    d.comm(child, child, b"other", 2000, pf.COMM_EXEC)
    d.sample(child, child, 3000, 2_000_000, [pf.USER_MARK, ALPHA])
    lines = stacks(written(tmp_path, d.file()), "--unit", "us")
    assert f"{name('alpha')} 1000" in lines and len(lines) == 3
    assert {p["pid"]: p["parent"] for p in report(tmp_path / "foreign")["processes"]} == {PID: None, child: PID}


def test_nothing_of_this_machine_names_what_ran_on_another(tmp_path: Path) -> None:
    """A process of the same number there, and a file of the same path whose build-id nobody knows."""
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so.6" in line)
    for host, is_named in ((os.uname().nodename, True), ("thor", False)):
        d = known(host=host.encode()).map(PID, 0x10000000, 0x1000000, libc.encode(), 3500)
        d.sample(PID, PID, 4000, 1_000_000, [pf.USER_MARK, 0x10030000])
        path = written(tmp_path, d.file())
        assert (KNOWN[0] in shown(path)) == is_named
        assert ("they ran on another machine" in coverage(path)) == (not is_named)
        assert ("no build-id of some" in coverage(path)) == is_named


def test_a_map_of_somebody_elses_is_not_read(tmp_path: Path, perf_map: Path) -> None:
    path = written(tmp_path, known().file())
    perf_map.chmod(0o666)
    try:
        assert not [line for line in shown(path) if "alpha" in line or "inner" in line]
    finally:
        perf_map.chmod(0o600)
    assert shown(path) == KNOWN


@pytest.mark.parametrize("form", ["file", "pipe", "packed"])
def test_a_cut_file_keeps_what_came_before(form: str, tmp_path: Path) -> None:
    whole = known().file() if form == "file" else known().pipe(form == "packed")
    seen = set()
    for n in range(8, len(whole), 56):
        path = written(tmp_path, whole[:n])
        done = run([FATHOM, "export", "-f", "collapsed", "--unit", "us", path])
        assert done.returncode in (0, 1) and "\n" not in done.stderr.strip() and "Sanitizer" not in done.stderr
        assert done.stderr or done.returncode == 0
        seen.add(sum(int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()))
    assert seen >= {0, 5000, 12000} and max(seen) <= 17000


def test_hostile_files(tmp_path: Path) -> None:
    """Numbers that are too large, at every place that holds one: one line, or what can be read without them."""
    whole = known().file()
    data_at = whole.index(known().records[0])
    for i, at in enumerate([*range(8, 104, 8), *range(104, data_at, 32), *range(data_at, data_at + 400, 12)]):
        value = (0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFF0, 0)[i % 3]
        content = whole[:at] + struct.pack("<Q", value) + whole[at + 8 :]
        done = run([FATHOM, "import", "-o", tmp_path / "out", written(tmp_path, content)])
        assert done.returncode in (0, 1), (at, value, done.stderr)
        assert done.stderr.count("\n") <= 1
    other = b"2ELIFREP" + whole[8:]
    assert "other byte order" in fathom("import", "-o", tmp_path / "out", written(tmp_path, other), code=1).stderr


SCRIPT = b"""# ========
# hostname : thor
main app  10/11    [002]  1771.620246:    1001001 cpu-clock:u:
\t            1244 leaf_a+0x14 (/usr/bin/prog (x))
\t            1244 mid+0x10 (inlined)
\t            147c work+0xec (/usr/bin/prog (x))
  prog.c:14
\t    7f2200001234 py::C.inner:/srv/app.py+0x10 (/tmp/perf-10.map)
\t        ffffffff [unknown] ([unknown])

main app  10/10 [000]  1771.621:    2000000 cpu-clock:u:      5627487b6247 leaf_a+0x17 (/usr/bin/prog (x))
main app  10/10 [000]  1771.631:          3 page-faults:      5627487b6247 leaf_b+0x17 (/usr/bin/prog (x))
swapper     0 [000]  1771.641: PERF_RECORD_COMM: swapper:0/0
"""


def test_the_text_of_perf_script(tmp_path: Path) -> None:
    path = written(tmp_path, SCRIPT)
    assert shown(path) == sorted(
        [
            "thread (10): main app;leaf_a (prog (x)) 2000",
            "thread (11): main app;[unknown];C.inner (app.py);work (prog (x));mid (inlined) (prog (x));leaf_a (prog (x)) 1001",
        ]
    )
    assert "1 samples of page-faults" in coverage(path) and "lines of the text" not in coverage(path)
    assert "1 lines of the text" in coverage(written(tmp_path, SCRIPT + b"What is this?\n"))


# ---- What we write ----


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    subprocess.run([BUILD / "tests" / "known_profile", folder / "known.fathom"], check=True, stdout=subprocess.PIPE)
    said = fathom("export", "-f", "perf", "-o", folder / "perf.data", folder / "known.fathom").stderr
    assert said.count("\n") == 1 and str(folder / "perf.data.names") in said
    return folder


def test_our_perf_data_comes_back(exported: Path) -> None:
    """Threads, stacks and times to the nanosecond; lines are what the format does not hold, nor which library a function is of."""

    def plain(path: Path) -> List[str]:
        lines = stacks(path, "--threads", "--unit", "us", "--nolineno")
        return sorted(";".join(f.split(" (")[0] if i else f.split(":")[0] for i, f in enumerate(x.rsplit(" ", 1)[0].split(";"))) + " " + x.rsplit(" ", 1)[1] for x in lines)  # fmt: skip

    def sums(path: Path) -> Dict[str, int]:
        all: Dict[str, int] = {}
        for line in plain(path):
            stack, us = line.rsplit(" ", 1)
            all[stack] = all.get(stack, 0) + int(us)
        return all

    assert sums(exported / "perf.data") == sums(exported / "known.fathom")
    python = {f["name"] for f in report(exported / "known.fathom")["functions"] if f["kind"] == "python"}
    assert (
        python == {f["name"] for f in report(exported / "perf.data")["functions"] if f["kind"] == "python"} and python
    )


def test_perf_data_needs_a_file(exported: Path) -> None:
    said = fathom("export", "-f", "perf", exported / "known.fathom", code=1).stderr
    assert "-o" in said and said.count("\n") == 1


def test_our_perf_data_says_how_many_cpus_there_are(exported: Path) -> None:
    """Hotspot makes room for so many, and crashed where the file did not say."""
    content = (exported / "perf.data").read_bytes()
    bits = struct.unpack_from("<Q", content, 72)[0]
    data_at, data_bytes = struct.unpack_from("<QQ", content, 40)
    place = bin(bits & ((1 << 7) - 1)).count("1")
    at, length = struct.unpack_from("<QQ", content, data_at + data_bytes + 16 * place)
    assert bits >> 7 & 1 and length == 8 and struct.unpack_from("<II", content, at)[0] >= 1


PARSER = Path("/usr/lib/x86_64-linux-gnu/libexec/hotspot-perfparser")


@pytest.mark.skipif(not PARSER.exists(), reason="Hotspot is not installed")
def test_hotspot_reads_our_names(exported: Path) -> None:
    subprocess.run(
        [PARSER, "--input", exported / "perf.data", "--output", exported / "parsed"], check=True, stderr=subprocess.PIPE
    )
    parsed = (exported / "parsed").read_bytes()
    names = [
        f["name"].encode()
        for f in report(exported / "known.fathom")["functions"]
        if f["kind"] == "python" and f["self_s"]
    ]
    assert names and all(b"py::" + name in parsed for name in names)


def perf(*words: Any) -> str:
    assert PERF
    return subprocess.run(
        [PERF, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, universal_newlines=True
    ).stdout


def perf_report(data: Path, *options: str, least_percent: int) -> str:
    """A line for each symbol: its percentage of its own, a bar, its name."""
    columns = ["-F", "overhead,sym", "-t", "|", "--percent-limit", str(least_percent)]
    return perf("report", "-i", data, "--no-children", "--stdio", "-g", "none", *columns, *options)


@needs_perf
def test_perf_opens_ours(exported: Path) -> None:
    own = {f["name"]: f["self_s"] for f in report(exported / "known.fathom")["functions"] if f["self_s"]}
    total = sum(own.values())
    rows = perf_report(exported / "perf.data", least_percent=0)
    shares: Dict[str, float] = {}
    for row in rows.splitlines():
        if row.strip() and not row.startswith("#"):
            share, symbol = row.split("|")
            key = symbol.strip()[4:].replace("py::", "").split(":")[0] if "py::" in symbol else symbol.strip()[4:]
            shares[key] = shares.get(key, 0) + float(share.rstrip(" %"))
    assert shares and all(abs(100 * own[key] / total - share) < 0.02 for key, share in shares.items() if key in own)
    assert sum(share for key, share in shares.items() if key in own) > 50
    text = perf("script", "-i", exported / "perf.data")
    assert "py::" in text
    (exported / "script.txt").write_text(text)
    times = {t["tid"]: t["cpu_s"] for t in report(exported / "perf.data")["threads"]}
    again = {t["tid"]: t["cpu_s"] for t in report(exported / "script.txt")["threads"]}
    assert again == {tid: s for tid, s in times.items() if s}


PROGRAM = """
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
static volatile uint64_t sink;
__attribute__((noinline)) static uint64_t grow(uint64_t n) { uint64_t x = n; for (uint64_t i = 0; i < n; i++) x = x * 6364136223846793005ull + i; return x; }
__attribute__((noinline)) static uint64_t fold(uint64_t n) { uint64_t x = n; for (uint64_t i = 0; i < n; i++) x ^= x << 7 ^ i; return x; }
__attribute__((noinline)) static uint64_t deep(int d, uint64_t n) { if (!d) return fold(n); uint64_t r = deep(d - 1, n) + 1; sink += r; return r; }
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static uint64_t sorted(unsigned seed) { int v[500]; for (int i = 0; i < 500; i++) { seed = seed * 1103515245 + 12345; v[i] = seed >> 8; } qsort(v, 500, sizeof(int), order); return v[7]; }
static void *work(void *arg) { for (int i = 0; i < 150; i++) { sink += grow(200000 + i) + deep(20, 100000 + i); for (int k = 0; k < 5; k++) sink += sorted(i); } return arg; }
int main(void) { pthread_t t[2]; for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, 0); work(0); for (int i = 0; i < 2; i++) pthread_join(t[i], 0); return 0; }
"""  # fmt: skip
ENDS = ("_start", "clone3", "__clone3", "__GI___clone3", "thread_start", "clone")


@needs_perf
def test_shares_and_whole_stacks_as_perf_has_them(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", tmp_path / "p", tmp_path / "p.c"], check=True)
    data = tmp_path / "perf.data"
    command = [
        str(PERF),
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "499",
        "--call-graph",
        "dwarf,4096",
        "-o",
        str(data),
        str(tmp_path / "p"),
    ]
    if subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE).returncode:
        pytest.skip("perf may not record here")
    told = report(data)
    own = {f["name"]: f["self_s"] for f in told["functions"]}
    total = sum(t["cpu_s"] for t in told["threads"])
    rows = perf_report(data, "--no-inline", least_percent=1)
    shares = {
        r.split("|")[1].strip()[4:].split(".")[0]: float(r.split("|")[0].rstrip(" %"))
        for r in rows.splitlines()
        if r.strip() and r[0] != "#"
    }
    assert {"grow", "fold", "order"} <= set(shares)
    for symbol in ("grow", "fold", "order"):
        assert abs(100 * own[symbol] / total - shares[symbol]) < 0.02, (symbol, own[symbol], shares)
    blocks = [b.strip().splitlines() for b in perf("script", "-i", data).split("\n\n") if b.strip()]
    theirs = sum(b[-1].split()[1].split("+")[0] in ENDS for b in blocks)
    ours = sum(int(x.rsplit(" ", 1)[1]) for x in stacks(data, "--native-all") if not x.startswith("["))
    assert ours >= theirs and ours > 0.9 * len(blocks), (ours, theirs, len(blocks))
