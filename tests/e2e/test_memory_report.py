# SPDX-License-Identifier: Apache-2.0
"""What `report --json` and `export --metric` say of memory, on profiles whose every number is known."""

import json
import os
import random
import resource
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest

MIB = 1 << 20
OBJ, MALLOC, MMAP, COPY = 0, 3, 4, 5

Make = Callable[[List[str]], Path]


@pytest.fixture
def make(build: Path, tmp_path: Path) -> Make:
    def run(script: List[str]) -> Path:
        path = tmp_path / "memory.fathom"
        subprocess.run(
            [build / "tests" / "memory_profile", path], input="\n".join(script) + "\n", text=True, check=True
        )
        return path

    return run


@pytest.fixture
def report(fathom: Path) -> Callable[..., Dict[str, Any]]:
    def run(path: Path, *options: str) -> Dict[str, Any]:
        done = subprocess.run([fathom, "report", "--json", *options, path], stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)

    return run


def line_of(report: Dict[str, Any], line: int) -> Dict[str, Any]:
    (found,) = [row for row in report["lines"] if row["line"] == line]
    return found


def two_peaks() -> List[str]:
    return [
        "run 10",
        "meta memory sampled",
        "sample 0 11 1",
        f"alloc 0 11 1 1 {400 * MIB} {400 * MIB} {OBJ}",
        "free 1 3 1",
        f"alloc 1 12 5 2 {400 * MIB + 8} {400 * MIB + 8} {MALLOC}",
        "free 0 7 2",
        f"alloc 0 0 0.5 3 {5 * MIB} {5 * MIB} {MALLOC}",
        f"alloc 0 13 4 4 1000 131572 {OBJ}",
        f"alloc 0 12 6 0 {MIB} {8 * MIB} {COPY}",
        f"level 0 2 {430 * MIB} {420 * MIB} {9 * MIB} {MIB} {425 * MIB} 0 {450 * MIB} {600 * MIB}",
        f"level 0 6 {440 * MIB} {430 * MIB} {9 * MIB} {MIB} 0 {2 * MIB} {470 * MIB} {600 * MIB}",
    ]


def test_lines_with_and_without_time(make: Make, report: Callable[..., Dict[str, Any]]) -> None:
    r = report(make(two_peaks()))
    first, second, third = (line_of(r, n) for n in (11, 12, 13))
    assert first["total_s"] == 0.001 and second["total_s"] == 0 and second["function"] == "at_12"
    assert (first["alloc_bytes"], first["peak_bytes"], first["peak_plus_minus_bytes"]) == (400 * MIB, 400 * MIB, 0)
    assert first["alloc_python_share"] == 1 and second["alloc_python_share"] == 0
    assert first["avg_bytes"] == 80 * MIB and first["at_peak_bytes"] == 0
    assert second["copy_bytes"] == 8 * MIB and second["at_peak_bytes"] == 400 * MIB + 8
    assert len(first["timeline_bytes"]) == 32
    assert first["timeline_bytes"][2] == 0 and first["timeline_bytes"][3:10] == [400 * MIB] * 7
    assert first["timeline_bytes"][10:] == [0] * 22
    assert third["alloc_bytes"] == 131572
    assert third["peak_plus_minus_bytes"] == pytest.approx(1.96 * (131572 * 130572) ** 0.5, abs=0.5)
    functions = {f["name"]: f for f in r["functions"]}
    assert functions["at_12"]["peak_bytes"] == 400 * MIB + 8
    assert functions["at_12"]["self_s"] == 0 and functions["at_11"]["alloc_bytes"] == 400 * MIB


def test_the_program_as_a_whole(make: Make, report: Callable[..., Dict[str, Any]]) -> None:
    r = report(make(two_peaks()))
    m = r["memory"]
    assert m["mode"] == "sampled"
    assert m["peak_bytes"] == 405 * MIB + 8 + 131572
    assert m["alloc_bytes"] == 805 * MIB + 8 + 131572
    assert sum(row["alloc_bytes"] for row in r["lines"]) + m["no_python"]["alloc_bytes"] == m["alloc_bytes"]
    assert sum(row["at_peak_bytes"] for row in r["lines"]) + m["no_python"]["at_peak_bytes"] == m["peak_bytes"]
    assert m["copy_bytes"] == 8 * MIB
    assert [(p["bytes"], p["t_s"]) for p in m["peaks"]] == [(405 * MIB + 8 + 131572, 5), (405 * MIB, 1)]
    for peak in m["peaks"]:
        assert sum(line["bytes"] for line in peak["lines"]) + peak["other_lines_bytes"] == peak["bytes"]
    assert m["peaks"][0]["lines"][0]["line"] == 12 and m["peaks"][1]["lines"][0]["line"] == 11
    assert m["peaks"][1]["lines"][1] == {"file": None, "line": None, "function": "<no Python>", "bytes": 5 * MIB}
    assert m["growth_rate"] == pytest.approx((5 * MIB + 131572) / m["alloc_bytes"])
    assert len(m["timeline"]) == 256 and m["timeline"][-1]["t_s"] == 10
    assert max(point["heap_high_bytes"] for point in m["timeline"]) == m["peak_bytes"]
    assert m["timeline"][100]["rss_bytes"] == 430 * MIB and m["timeline"][200]["rss_bytes"] == 440 * MIB
    assert m["cgroup_limit_bytes"] == 600 * MIB and m["cgroup_headroom_bytes"] == 130 * MIB
    assert m["reconciliation"] == {
        "t_s": 6,
        "rss_bytes": 440 * MIB,
        "anon_bytes": 430 * MIB,
        "file_bytes": 9 * MIB,
        "shmem_bytes": MIB,
        "swap_bytes": 2 * MIB,
        "pss_bytes": 0,
        "python_heap_bytes": 131572,
        "native_heap_bytes": 405 * MIB + 8,
        "mapped_bytes": 0,
        "unexplained_bytes": 432 * MIB - 405 * MIB - 8 - 131572,
        "untouched_bytes": 0,
        "owners": [
            {"library": "<unknown>", "bytes": 400 * MIB + 8},
            {"library": "/nonexistent/libnative.so", "bytes": 5 * MIB},
        ],
    }
    assert r["leaks"] == []


def collapsed(fathom: Path, path: Path, metric: str, *options: str) -> Dict[str, int]:
    done = subprocess.run(
        [fathom, "export", "-f", "collapsed", "--metric", metric, *options, path], stdout=subprocess.PIPE, check=True
    )
    return {stack: int(count) for stack, _, count in (s.rpartition(" ") for s in done.stdout.decode().splitlines())}


def test_exports_weigh_stacks_by_bytes(make: Make, report: Callable[..., Dict[str, Any]], fathom: Path) -> None:
    path = make(two_peaks())
    m = report(path)["memory"]
    alloc = collapsed(fathom, path, "alloc")
    assert sum(alloc.values()) == m["alloc_bytes"]
    assert alloc["at_11 (app.py:11)"] == 400 * MIB
    assert sum(collapsed(fathom, path, "peak").values()) == m["peak_bytes"]
    assert collapsed(fathom, path, "copy") == {"at_12 (app.py:12)": 8 * MIB}
    assert collapsed(fathom, path, "leak") == {}
    by_thread = collapsed(fathom, path, "alloc", "--threads")
    assert len(by_thread) == len(alloc) and all(stack.startswith("thread (10") for stack in by_thread)
    scope = json.loads(
        subprocess.run(
            [fathom, "export", "-f", "speedscope", "--metric", "peak", path], stdout=subprocess.PIPE, check=True
        ).stdout
    )
    assert {p["unit"] for p in scope["profiles"]} == {"bytes"}
    assert sum(sum(p["weights"]) for p in scope["profiles"]) == m["peak_bytes"]
    svg = subprocess.run(
        [fathom, "export", "-f", "flamegraph", "--metric", "peak", path], stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    assert f"{m['peak_bytes'] / MIB:.3f} MiB live at the peak" in svg and " samples" not in svg


def test_metric_needs_memory_and_stacks(make: Make, fathom: Path) -> None:
    def fails(path: Path, form: str) -> str:
        done = subprocess.run(
            [fathom, "export", "-f", form, "--metric", "alloc", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert done.returncode in (1, 2) and done.stdout == b"" and done.stderr.count(b"\n") == 1
        return done.stderr.decode()

    path = make(["run 1", "sample 0 11 0.5"])
    assert "--memory" in fails(path, "collapsed")
    assert "flamegraph" in fails(path, "chrometrace")


def test_a_leak_with_its_types(make: Make, report: Callable[..., Dict[str, Any]], fathom: Path) -> None:
    script = ["run 30", "meta memory sampled"]
    for i in range(280):
        script.append(f"alloc 0 21 {i / 10} {i + 1} 4000 135000 {OBJ}")
        script.append(f"alloc 1 22 {i / 10} {i + 1001} 90000 200000 {OBJ}")
        script.append(f"free 0 {i / 10 + 0.02} {i + 1001}")
    script += [f"type 0 {i} {'dict' if i % 3 else 'Node'}" for i in range(1, 100, 10)]
    script += [f"free 0 29.99 {i + 1}" for i in range(280)]  # the interpreter ends
    path = make(script)
    (leak,) = report(path)["leaks"]
    assert (leak["line"], leak["function"], leak["file"]) == (21, "at_21", "/home/user/app.py")
    assert leak["types"] == "dict, Node"
    assert leak["likelihood"] > 0.99
    assert leak["velocity_bytes_s"] == pytest.approx(1.35e6, abs=leak["velocity_plus_minus_bytes_s"])
    assert collapsed(fathom, path, "leak") == {"at_21 (app.py:21)": leak["bytes"]}


@pytest.mark.parametrize("domain, is_leak", [(MMAP, False), (MALLOC, True)])
def test_a_pool_of_a_librarys_own_allocator_is_no_leak(
    make: Make, report: Callable[..., Dict[str, Any]], fathom: Path, domain: int, is_leak: bool
) -> None:
    """jemalloc in polars maps more and more in its own threads: what it hands out and gets back nobody sees. Blocks of malloc are another matter."""
    script = ["run 20", "meta memory sampled", f"alloc 0 11 1 9999 4000 135000 {OBJ}"]
    script += [f"alloc 1 0 {i / 10} {i + 1} 2000000 2000000 {domain}" for i in range(190)]
    path = make(script)
    r = report(path)
    assert len(r["leaks"]) == is_leak
    text = subprocess.run([fathom, "report", "--summary", path], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert ("Possible leak" in text) == is_leak, text
    if is_leak:
        assert r["memory"]["undecided_leak"] is None
        return
    doubt = r["memory"]["undecided_leak"]
    assert (doubt["why"], doubt["line"], doubt["bytes"]) == ("mappings", None, pytest.approx(380e6, rel=0.1))
    assert "Fathom cannot tell whether any of it leaks." in " ".join(text.split()), text


def test_a_program_without_python_may_leak_mappings(make: Make, report: Callable[..., Dict[str, Any]]) -> None:
    script = ["run 20", "meta memory sampled"]
    script += [f"alloc 1 0 {i / 10} {i + 1} 2000000 2000000 {MMAP}" for i in range(190)]
    (leak,) = report(make(script))["leaks"]
    assert leak["line"] is None


def test_children_are_added_up_on_one_clock(make: Make, report: Callable[..., Dict[str, Any]]) -> None:
    """Blocks with equal numbers in two processes are two blocks."""
    script = [
        "run 10",
        f"alloc 0 31 1 7 {100 * MIB} {100 * MIB} {OBJ}",
        f"alloc 2 31 2 7 {50 * MIB} {50 * MIB} {OBJ}",
        "free 2 3 7",
        f"alloc 2 32 4 8 {70 * MIB} {70 * MIB} {OBJ}",
        f"level 1 5 {80 * MIB} 0 0 0 0 0 0 0",
        f"level 1 6 {60 * MIB} 0 0 0 0 0 0 0",
    ]
    m = report(make(script))
    assert m["memory"]["peak_bytes"] == 170 * MIB
    assert [process["max_rss_bytes"] for process in m["processes"]] == [0, 80 * MIB]
    assert line_of(m, 31)["peak_bytes"] == 150 * MIB and line_of(m, 32)["at_peak_bytes"] == 70 * MIB


def test_exact_mode_counts_every_block(make: Make, report: Callable[..., Dict[str, Any]]) -> None:
    script = [
        "run 2",
        "meta memory exact",
        f"site 0 41 {OBJ} 1000 10 4 600 800 700",
        f"site 0 0 {MALLOC} 50 1 0 50 50 50",
    ]
    r = report(make(script))
    assert r["memory"]["mode"] == "exact"
    assert (r["memory"]["alloc_bytes"], r["memory"]["peak_bytes"]) == (1050, 750)
    assert line_of(r, 41)["allocs"] == 10 and line_of(r, 41)["peak_bytes"] == 750
    assert r["memory"]["no_python"]["at_peak_bytes"] == 50


def test_cut_and_damaged_files_are_still_reported(
    make: Make, report: Callable[..., Dict[str, Any]], fathom: Path
) -> None:
    rng = random.Random(3)
    script = ["run 20", "meta memory sampled"]
    for i in range(2000):
        script.append(f"alloc {i % 3} {i % 50} {i / 100} {i + 1} {rng.randrange(1, 10000)} 140000 {i % 6}")
        script.append(f"free {i % 3} {i / 100 + rng.random()} {i + 1}")
    path = make(script)
    data = path.read_bytes()
    whole = report(path)["memory"]["alloc_bytes"]
    last: Optional[int] = None
    for k in range(1, 16):
        path.write_bytes(data[: len(data) * k // 16])
        r = report(path)
        got = r["memory"]["alloc_bytes"]
        assert got <= whole and (last is None or got >= last)
        assert sum(row["alloc_bytes"] for row in r["lines"]) + r["memory"]["no_python"]["alloc_bytes"] == got
        last = got
    assert last and last > whole // 2
    for _ in range(30):
        damaged = bytearray(data)
        for _ in range(3):
            damaged[rng.randrange(16, len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(damaged))
        r = report(path)
        at_peak = sum(row["at_peak_bytes"] for row in r["lines"]) + r["memory"]["no_python"]["at_peak_bytes"]
        assert at_peak == r["memory"]["peak_bytes"]


def test_impossible_numbers_do_no_harm(make: Make, report: Callable[..., Dict[str, Any]], fathom: Path) -> None:
    """Each is a number that the format can hold and no program can have."""
    most = (1 << 64) - 1
    rng = random.Random(5)
    numbers = [0, 1, 1 << 31, 1 << 32, 1 << 47, 1 << 63, most - 1, most]
    times = [0, 1e-9, 0.5, 1, 1e3, 9e9, 1.7e10]
    script = ["meta memory sampled", f"run {rng.choice(times)}"]
    for _ in range(400):
        n = [rng.choice(numbers) for _ in range(8)]
        t = rng.choice(times)
        script.append(f"alloc {rng.randrange(3)} {rng.randrange(5)} {t} {n[0]} {n[1]} {n[2]} {rng.randrange(6)}")
        script.append(f"free {rng.randrange(3)} {rng.choice(times)} {rng.choice(numbers)}")
        script.append(f"level {rng.randrange(2)} {t} " + " ".join(map(str, n)))
    path = make(script)
    assert len(report(path)["memory"]["timeline"]) <= 256
    for metric in ("alloc", "peak", "leak", "copy"):
        collapsed(fathom, path, metric)
    script += [
        f"site 0 {rng.randrange(5)} 3 " + " ".join(str(rng.choice(numbers)) for _ in range(6)) for _ in range(30)
    ]
    assert report(make(script))["memory"]["mode"] == "exact"


@pytest.mark.statistical
@pytest.mark.skipif(not os.environ.get("FATHOM_TEST_LONG"), reason="FATHOM_TEST_LONG=1 runs it")
def test_a_million_events_take_less_than_a_second(build: Path, fathom: Path, tmp_path: Path) -> None:
    """CPU time of a report with memory against one without: ten minutes of samples each."""
    seconds = []
    for memory in ("0", "530000"):
        path = tmp_path / "p.fathom"
        subprocess.run(
            [build / "tests" / "gen_profile", path, "600000", "--memory", memory], stdout=subprocess.PIPE, check=True
        )
        best = 1e9
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([fathom, "report", "--json", "-o", tmp_path / "out.json", path], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        seconds.append(best)
    assert seconds[1] - seconds[0] < 1
