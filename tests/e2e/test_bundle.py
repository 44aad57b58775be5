# SPDX-License-Identifier: Apache-2.0
"""The viewer's bundle and the viewer in one file: figures equal `report --json`, whatever the capture is made of."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from capture import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests" / "reader"))
from fathom_view import NONE, Bundle  # noqa: E402

FATHOM, TOOLS = BUILD / "fathom", BUILD / "tests"
CLASSES = ["python_s", "native_s", "system_s", "gc_s", "gil_wait_s", "wait_s"]


def make(tool: str, path: Path, *args: str) -> Path:
    subprocess.run([TOOLS / tool, path, *args], check=True, stdout=subprocess.PIPE)
    return path


def bundle(path: Path) -> Bundle:
    out = path.with_suffix(".fmview")
    subprocess.run([FATHOM, "export", "-f", "bundle", "-o", out, path], check=True, timeout=120)
    return Bundle.of_file(out)


def report(path: Path) -> dict:
    return json.loads(subprocess.run([FATHOM, "report", "--json", path], stdout=subprocess.PIPE, check=True).stdout)


def page(path: Path, *options: str) -> str:
    out = path.with_suffix(".html")
    done = subprocess.run(
        [FATHOM, "view", "--html", out, *options, path], stderr=subprocess.PIPE, text=True, timeout=120
    )
    if "without the viewer's page" in done.stderr:
        pytest.skip("the program was built where Node could not be had")
    assert done.returncode == 0, done.stderr
    return out.read_text()


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> Path:
    return make("known_profile", tmp_path_factory.mktemp("bundle") / "known.fathom")


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> Path:
    return make("gen_profile", tmp_path_factory.mktemp("bundle") / "generated.fathom", "30000", "--stacks", "800")


@pytest.fixture(params=["known", "generated"])
def profile(request) -> Path:
    return request.getfixturevalue(request.param)


def check_tables(b: Bundle, r: dict) -> None:
    head = dict(b.head["report"])
    assert {k: v for k, v in r.items() if k not in ("functions", "lines")} == head
    by_class = Counter()
    for kind, weight in zip(b["cell.class"], b["cell.weight_s"]):
        by_class[CLASSES[kind]] += ns(weight)
    assert {k: by_class[k] for k in CLASSES} == {k: ns(r["time"][k]) for k in CLASSES}
    assert sum(b["cell.n"]) == r["samples"]

    rows = b.rows("func_row")
    assert len(rows) == len(r["functions"])
    for row, f in zip(rows, r["functions"]):
        assert b.name(row["function"]) == f["name"]
        assert b.text(b["function.module"][row["function"]]) == f["module"]
        for key in ("self_s", "total_s", *CLASSES):
            assert ns(row[key]) == ns(f[key]), (f["name"], key)
        assert row["plus_minus_s"] == pytest.approx(f["total_plus_minus_s"], abs=1e-9)
        assert row["self_plus_minus_s"] == pytest.approx(f["self_plus_minus_s"], abs=1e-9)
    lines = b.rows("line")
    assert len(lines) == len(r["lines"])
    for row, line in zip(lines, r["lines"]):
        assert b.text(b["file.name"][row["file"]]) == line["file"]
        assert (row["line"], b.name(row["function"])) == (line["line"], line["function"])
        assert all(ns(row[key]) == ns(line[key]) for key in CLASSES)
    check_memory(b, r)
    threads = {(t["tid"], t["name"]): t for t in r["threads"]}
    sampled = set(b["cell.thread"])
    for i, row in enumerate(b.rows("thread")):
        if i not in sampled:  # the report has rows of threads that samples were taken of
            continue
        t = threads[row["tid"], b.text(row["name"])]
        assert ns(row["cpu_s"]) == ns(t["cpu_s"]) and ns(row["wall_s"]) == ns(t["wall_s"])
    assert [row["pid"] for row in b.rows("process")] == [p["pid"] for p in r["processes"]]


def check_memory(b: Bundle, r: dict) -> None:
    """Every figure of memory that the bundle and the report both have. Without memory there are no such columns."""
    over_time = r["memory"]["timeline"]  # whose times are the ends of what the bundle has the beginnings of
    points = b.rows("memory") if over_time else []
    assert [(p["heap"], p["rss"]) for p in points] == [(p["heap_high_bytes"], p["rss_bytes"]) for p in over_time]
    if r["memory"]["mode"] == "off":
        tables = {c.partition(".")[0] for c in b.columns}
        assert not tables & {"heap", "leak", "line_timeline"}
        assert not [c for c in b.columns if c.endswith("_bytes")]
        return
    assert sum(b["heap.alloc"]) == r["memory"]["alloc_bytes"]
    assert sum(b["heap.peak"]) == r["memory"]["peak_bytes"]
    assert sum(b["heap.copy"]) == r["memory"]["copy_bytes"]
    assert b["memory.time_s"][1:].tolist() == pytest.approx([p["t_s"] for p in over_time[:-1]], abs=1e-6)
    for row, f in zip(b.rows("func_row"), r["functions"]):
        assert (row["alloc_bytes"], row["peak_bytes"]) == (f["alloc_bytes"], f["peak_bytes"]), f["name"]
    for row, line in zip(b.rows("line"), r["lines"]):
        for key in ("alloc_bytes", "peak_bytes", "avg_bytes", "copy_bytes"):
            assert row[key] == line[key], (line["file"], line["line"], key)
        assert row["python_share"] == pytest.approx(line["alloc_python_share"], abs=1e-6)
        at = row["timeline"]
        timeline = b["line_timeline.bytes"][at : at + 32] if at != NONE else []
        assert list(timeline) == pytest.approx(line["timeline_bytes"], rel=1e-6)  # they are f32
    leaks = b.rows("leak") if r["leaks"] else []
    assert len(leaks) == len(r["leaks"]) and ("leak.file" in b.columns) == bool(leaks)
    for row, leak in zip(leaks, r["leaks"]):
        file = b.text(b["file.name"][row["file"]]) if row["file"] != NONE else None
        assert (file, row["line"] or None, b.name(row["function"])) == (leak["file"], leak["line"], leak["function"])
        assert (row["bytes"], b.text(row["types"])) == (leak["bytes"], leak["types"])
        assert row["likelihood"] == pytest.approx(leak["likelihood"], abs=1e-8)
        assert row["velocity"] == pytest.approx(leak["velocity_bytes_s"], abs=1e-3)


def test_tables_equal_the_report(profile):
    check_tables(bundle(profile), report(profile))


def test_tree_gives_the_totals_of_functions(profile):
    """A function's total, worked out from nodes and cells alone, as the page does it."""
    b, r = bundle(profile), report(profile)
    totals = b.totals_ns()
    by_function: Counter = Counter()
    on_path = [frozenset()]  # of each node: the functions above it
    for i in range(1, b.n("node")):
        above, function = on_path[b["node.parent"][i]], b["node.function"][i]
        on_path.append(above | {function})
        if function not in above:
            by_function[function] += totals[i]
    got = Counter({b.name(f): 0 for f in by_function})
    for f, total in by_function.items():
        got[b.name(f), b["function.line"][f]] += total
    for f in r["functions"]:
        if sum(1 for g in r["functions"] if (g["name"], g["line"]) == (f["name"], f["line"])) == 1:
            assert got[f["name"], f["line"]] == ns(f["total_s"]), f["name"]


def test_known_edges_and_sources(known):
    b = bundle(known)
    edges = {(b.name(e["caller"]), b.name(e["callee"])): ns(e["total_s"]) // 1000000 for e in b.rows("edge")}
    assert edges["main", "App.work"] == 7500
    assert edges["App.work", "App.work"] == 500  # once per stack, although the recursion is two calls deep
    assert edges["App.work", "known_kernel"] == 3000
    assert edges["main", "dumps"] == 1000
    files = {b.text(f["name"]): (b.text(f["source"]), f["flags"]) for f in b.rows("file")}
    assert "kernel(self.data)" in files["/home/user/app.py"][0] and files["/home/user/app.py"][1] == 0
    assert files["/usr/lib/python3.9/json/__init__.py"] == ("", 1)
    assert [p["parent"] for p in b.rows("process")] == [0xFFFFFFFF, 0]


def test_known_timeline_is_runs(known):
    b = bundle(known)
    runs = [(s["thread"], s["class"], round(s["time_s"], 3), round(s["weight_s"], 3)) for s in b.rows("sample")]
    assert runs == [
        (0, 0, 0.0, 4.0), (0, 1, 4.0, 3.0), (0, 0, 7.0, 0.8), (0, 3, 7.8, 0.2), (0, 4, 8.0, 0.3), (0, 0, 8.3, 0.5),
        (1, 1, 0.0, 1.0),
        (2, 2, 0.0, 0.5),
    ]  # fmt: skip


def test_timeline_keeps_each_threads_sum(generated):
    b = bundle(generated)
    in_cells, in_runs = Counter(), Counter()
    for thread, weight in zip(b["cell.thread"], b["cell.weight_s"]):
        in_cells[thread] += weight
    for thread, weight in zip(b["sample.thread"], b["sample.weight_s"]):
        in_runs[thread] += weight
    # Each run is rounded to a microsecond or to 24 bits; 20,000 of them stay far below a millisecond.
    assert all(in_runs[t] == pytest.approx(in_cells[t], abs=1e-3) for t in in_cells)
    ends = dict(zip(b["sample.thread"], zip(b["sample.time_s"], b["sample.weight_s"])))
    assert all(ends[t][0] + ends[t][1] == pytest.approx(b["thread.end_s"][t], abs=1e-3) for t in ends)


def test_single_file_has_it_all(profile):
    html = page(profile)
    b = Bundle.of_page(html)
    assert b.head["report"] == bundle(profile).head["report"]
    assert "<!--fathom-bundle-->" not in html
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in html


def test_large_capture_is_pruned_with_its_sums(tmp_path):
    """300,000 nodes: more than the page gets. What is left out goes to the parent, and nothing is lost."""
    path = make("gen_profile", tmp_path / "large.fathom", "70000", "--stacks", "36000", "--even")
    b, r = bundle(path), report(path)
    assert b.n("node") <= 200000 and b.head["limits"]["nodes_left_out"] > 0
    assert sum(ns(w) for w in b["cell.weight_s"]) == sum(ns(v) for v in r["time"].values())
    rows = {b.name(row["function"]) for row in b.rows("func_row")}
    assert {f["name"] for f in r["functions"]} == rows  # tables are made before pruning
    html = page(path)
    small = Bundle.of_page(html)
    assert small.n("node") <= 80000 and small.n("cell") <= 100000 and small.n("sample") <= 80000
    assert sum(ns(w) for w in small["cell.weight_s"]) == sum(ns(v) for v in r["time"].values())
    assert len(html) < 5e6


def test_a_ten_minute_capture_makes_a_small_file(tmp_path):
    path = make("gen_profile", tmp_path / "ten_minutes.fathom", "600000", "--threads", "1")
    html = page(path)
    assert Bundle.of_page(html).head["report"]["samples"] == 600000
    assert len(html) < 5e6


def test_hostile_names_stay_inside(tmp_path):
    path = make("known_profile", tmp_path / "hostile.fathom", "--hostile")
    b, r = bundle(path), report(path)
    assert "<script>alert(1)</script>" in b.strings
    assert "\ufffd\ufffd bytes" in b.strings
    assert sum(b["cell.n"]) == r["samples"]
    html = page(path)
    assert "alert(" not in html.replace(html[html.index('<script id="bundle"') : html.index("</script>")], "")


def test_monstrous_captures_are_cut_to_size(tmp_path):
    path = make("known_profile", tmp_path / "monstrous.fathom", "--monstrous")
    b = bundle(path)
    assert b.n("node") == 100001  # a stack of 100,000 frames, each with its sum
    totals = b.totals_ns()
    assert totals[0] == totals[1] == 200 * 1000000 and min(totals) == 2 * 1000000
    assert max(len(s.encode()) for s in b.strings) <= 1024
    assert b.n_bytes < 10e6
    assert Bundle.of_page(page(path)).n("node") == 80000


def test_damaged_captures_still_give_bundles(tmp_path, generated):
    rng = random.Random(5)
    whole = generated.read_bytes()
    for i in range(6):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 200)):
            data[rng.randrange(64, len(data))] = rng.randrange(256)
        path = tmp_path / f"damaged{i}.fathom"
        path.write_bytes(data[: rng.randrange(len(data) // 2, len(data))] if i % 2 else data)
        b, r = bundle(path), report(path)
        assert b.head["report"]["samples"] == r["samples"] == sum(b["cell.n"])


def test_a_comparison_has_both_sides(known, tmp_path):
    """The same capture twice: every change is zero. Against another: each side keeps its own sum."""
    same = page_of_two(known, known)
    assert all(a == b for a, b in zip(same["cell.weight_s"], same["cell.base_s"]))
    assert same.n("change") > 0 and not any(same["change.significant"])
    other = make("gen_profile", tmp_path / "other.fathom", "5000", "--stacks", "50")
    diff = page_of_two(other, known)
    new, base = report(known), report(other)
    assert sum(map(ns, diff["cell.weight_s"])) == sum(ns(new["time"][k]) for k in CLASSES)
    assert sum(map(ns, diff["cell.base_s"])) == sum(ns(base["time"][k]) for k in CLASSES)
    assert diff.head["diff"] and diff.head["report"]["samples"] == new["samples"]
    assert diff.head["base"]["samples"] == base["samples"]
    # Over time it is the same, each from its own begin.
    width = diff["series.time_s"][1]
    for side, of in (("cpu", new), ("base_cpu", base)):
        cpu = sum(of["time"][k] for k in CLASSES[:4])
        assert sum(diff["series." + side]) * width == pytest.approx(cpu, rel=1e-6), side
    # The rows are those of `fathom diff`, all of them, in its order.
    said = subprocess.run([FATHOM, "diff", "--json", other, known], stdout=subprocess.PIPE, check=True).stdout
    lists = ["functions", "lines", "memory_functions", "memory_lines"]
    expected = [
        (k, row.get("name", row.get("function")), row["line"], change["base"], change["new"], change["significant"])
        for k, key in enumerate(lists)
        for row in json.loads(said)[key]
        for change in [row.get("seconds") or row["peak_bytes"]]
    ]
    found = [
        (r["list"], diff.text(r["name"]), r["line"], r["base"], r["new"], bool(r["significant"]))
        for r in diff.rows("change")
    ]
    assert [(*r[:3], r[5]) for r in found] == [(*r[:3], r[5]) for r in expected] and any(r[5] for r in found)
    assert [v for r in found for v in r[3:5]] == pytest.approx([v for r in expected for v in r[3:5]], abs=1e-9)


def page_of_two(base: Path, new: Path) -> Bundle:
    out = new.with_suffix(".diff.html")
    done = subprocess.run([FATHOM, "view", "--html", out, base, new], stderr=subprocess.PIPE, text=True)
    if "without the viewer's page" in done.stderr:
        pytest.skip("the program was built where Node could not be had")
    assert done.returncode == 0, done.stderr
    return Bundle.of_page(out.read_text(), "diff")


def test_run_leaves_the_viewer_with_its_results(tmp_path):
    script = tmp_path / "busy.py"
    script.write_text(
        "def spin():\n    s = 0\n    for i in range(3000000):\n        s += i % 7\n    return s\nspin()\n"
    )
    subprocess.run(
        [FATHOM, "run", "--quiet", "--python", sys.executable, script], cwd=tmp_path, check=True, timeout=120
    )
    (folder,) = (tmp_path / ".fathom" / "busy").iterdir()
    if not (folder / "report.html").exists():
        pytest.skip("the program was built where Node could not be had")
    b, r = Bundle.of_page((folder / "report.html").read_text()), report(folder / "profile.fathom")
    check_tables(b, r)
    assert "spin" in b.strings and script.read_text() in b.strings  # the source as it was


MIB = 1 << 20


def test_known_memory(tmp_path):
    """Blocks whose place, size and life are given: what each metric of the flame graph has to show."""
    path = tmp_path / "memory.fathom"
    obj, malloc, copy = 0, 3, 5
    script = [
        "run 10", "meta memory sampled", "sample 0 11 1", "sample 1 11 2",
        f"alloc 0 11 1 1 {400 * MIB} {400 * MIB} {obj}", "free 1 3 1",
        f"alloc 1 12 5 2 {500 * MIB} {500 * MIB} {malloc}", "free 0 7 2",
        f"alloc 0 12 6 0 {MIB} {8 * MIB} {copy}",
        f"level 0 2 {430 * MIB} {420 * MIB} {9 * MIB} {MIB} {425 * MIB} 0 {450 * MIB} {600 * MIB}",
    ]  # fmt: skip
    subprocess.run([TOOLS / "memory_profile", path], input="\n".join(script) + "\n", text=True, check=True)
    b, r = bundle(path), report(path)
    check_tables(b, r)
    rows = {(b.name(b["node.function"][h["node"]]), h["thread"]): h for h in b.rows("heap")}
    assert {k: (h["alloc"], h["peak"], h["copy"]) for k, h in rows.items()} == {
        ("at_11", 0): (400 * MIB, 0, 0),
        ("at_12", 1): (500 * MIB, 500 * MIB, 0),
        ("at_12", 0): (0, 0, 8 * MIB),
    }
    lines = {row["line"]: row for row in b.rows("line")}
    assert lines[12]["python_s"] == 0 and lines[12]["alloc_bytes"] == 500 * MIB  # memory alone gives a line its row
    assert max(b["memory.heap"]) == 500 * MIB and max(b["memory.rss"]) == 430 * MIB
    assert Bundle.of_page(page(path)).rows("heap") == b.rows("heap")


def test_times_of_memory_go_by_bytes(tmp_path):
    """More blocks than a page has rows for: of the few large ones every time stays, of the many small ones the sum."""
    path, n = tmp_path / "many.fathom", 250000
    script = ["run 100", "meta memory sampled", "sample 0 11 1"]
    for i in range(10):
        script += [f"alloc 0 11 {10 * i + 1} {i + 1} {MIB} {800 * MIB} 0", f"free 0 {10 * i + 3} {i + 1}"]
    for i in range(n):
        script.append(f"alloc 0 12 {i * 99 / n:.6f} {i + 1001} 512 1024 0")
        script.append(f"free 0 {min(99.9, i * 99 / n + i * 37 % 1000 / 20):.6f} {i + 1001}")
    subprocess.run([TOOLS / "memory_profile", path], input="\n".join(script) + "\n", text=True, check=True)
    b = Bundle.of_page(page(path))
    rows = {name: [] for name in ("at_11", "at_12")}
    for row in b.rows("block"):
        rows[b.name(b["node.function"][row["node"]])].append(row)
    grain, step = (b.head["limits"][f"block_{kind}_s"] for kind in ("grain", "step"))
    assert 0 < grain < 0.2 and grain <= step < 2 * grain
    born = sorted((row["born"], row["died"]) for row in rows["at_11"])
    assert len(born) == 10
    for i, (first, last) in enumerate(born):
        assert first * grain <= 10 * i + 1 < (first + 1) * grain and last * grain <= 10 * i + 3 < (last + 1) * grain
    assert 1 < len(rows["at_12"]) < 100000
    assert sum(row["bytes"] for row in rows["at_12"]) == n * 1024
    # Halfway through the run half of them were there, within a coarse slot.
    half = sum(row["bytes"] for row in rows["at_12"] if row["born"] * grain < 49.5)
    assert abs(half / (n * 1024) - 0.5) < 0.05


def test_known_leak(tmp_path):
    path = tmp_path / "leak.fathom"
    script = ["run 30", "meta memory sampled", "sample 0 21 1", "sample 1 22 1"]
    for i in range(280):
        script.append(f"alloc 0 21 {i / 10} {i + 1} 4000 135000 0")
        script.append(f"alloc 1 22 {i / 10} {i + 1001} 90000 200000 0")
        script.append(f"free 0 {i / 10 + 0.02} {i + 1001}")
    script += [f"type 0 {i} {'dict' if i % 3 else 'Node'}" for i in range(1, 100, 10)]
    script += [f"free 0 29.99 {i + 1}" for i in range(280)]  # the interpreter ends
    subprocess.run([TOOLS / "memory_profile", path], input="\n".join(script) + "\n", text=True, check=True)
    b, r = bundle(path), report(path)
    check_tables(b, r)
    (leak,) = b.rows("leak")
    assert (leak["line"], b.name(leak["function"]), b.text(leak["types"])) == (21, "at_21", "dict, Node")
    leaked = {b.name(b["node.function"][h["node"]]): h["leak"] for h in b.rows("heap")}
    assert leaked == {"at_21": leak["bytes"], "at_22": 0}


@pytest.mark.statistical
def test_memory_of_a_real_program(tmp_path):
    """`fathom run` of known allocations: 60 MiB held and given back, 120 MB kept to the end, 40 MiB in another thread."""
    script = tmp_path / "hungry.py"
    script.write_text(
        "import itertools, threading\n"
        "def spin(n):\n    for _ in itertools.repeat(None, n):\n        pass\n"  # makes no objects
        "def hold():\n    return [bytes(2 << 20) for _ in range(30)]\n"
        "def keep(into):\n    for _ in range(600):\n        into.append(bytearray(200000))\n        spin(2000)\n"
        "def aside():\n    data = bytes(20 << 20)\n    bytearray(data)\n"
        "held, kept = hold(), []\nspin(1000000)\nheld = None\nkeep(kept)\n"
        "t = threading.Thread(target=aside)\nt.start()\nt.join()\n"
    )
    subprocess.run(
        [FATHOM, "run", "--quiet", "--python", sys.executable, script], cwd=tmp_path, check=True, timeout=120
    )
    (folder,) = (tmp_path / ".fathom" / "hungry").iterdir()
    b, r = bundle(folder / "profile.fathom"), report(folder / "profile.fathom")
    check_tables(b, r)
    inside: Counter = Counter()  # by function and column: bytes at or below any of its nodes
    threads = {}
    for h in b.rows("heap"):
        node, above = h["node"], set()
        while node:
            above.add(b.name(b["node.function"][node]))
            node = b["node.parent"][node]
        for name in above:
            threads.setdefault(name, set()).add(h["thread"])
            inside.update({(name, k): h[k] for k in ("alloc", "peak", "leak", "copy")})
    # Blocks of 2 MiB and 20 MiB are seen for certain; of those of 200,000 bytes each has the chance 1 - exp(-200 / 131).
    assert 60 * MIB <= inside["hold", "alloc"] < 61 * MIB and inside["hold", "peak"] < MIB
    assert 40 * MIB <= inside["aside", "alloc"] < 41 * MIB
    assert 20 * MIB <= inside["aside", "copy"] < 21 * MIB
    assert inside["keep", "alloc"] == pytest.approx(600 * 200000, rel=0.15)  # more than six deviations
    assert inside["keep", "peak"] == pytest.approx(600 * 200000, rel=0.15)
    assert len(threads["aside"]) == 1 and threads["aside"] != threads["hold"]
    html = page(folder / "profile.fathom")
    assert Bundle.of_page(html).rows("heap") == b.rows("heap") and len(html) < 2e6


def test_a_traced_program(tmp_path):
    """Calls and durations equal the report's; of more zones than the page gets the short ones are merged, and none is lost."""
    script = tmp_path / "traced.py"
    script.write_text(
        "from fathom import counter, mark, zone\n"
        "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "mark('begin')\nwith zone('work'):\n    fib(22)\n"
        "for i in range(20000):\n    counter('rows', i)\n"
        "for k in range(100):\n    counter(f'queue {k}', k)\n"
    )
    path = tmp_path / "traced.fathom"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env["PYTHONPATH"] = str(ROOT / "python")
    subprocess.run(
        [sys.executable, "-m", "fathom", "-o", path, script], env=env, check=True, stdout=subprocess.PIPE, timeout=120
    )
    b, r = bundle(path), report(path)
    traced = {f["name"]: f for f in r["calls"]["functions"]}
    rows = {b.name(row["function"]): row for row in b.rows("func_row") if row["calls"]}
    assert rows["fib"]["calls"] == traced["fib"]["calls"] == 57313
    assert set(rows) == {f["name"] for f in r["calls"]["functions"] if f["kind"] == "python"}
    for name, row in rows.items():
        assert [ns(row[k]) for k in ("min_s", "mean_s", "max_s")] == [
            ns(traced[name][k]) for k in ("min_s", "mean_s", "max_s")
        ]
        assert [ns(row[k]) for k in ("traced_own_s", "traced_total_s")] == [
            ns(traced[name][k]) for k in ("own_s", "total_s")
        ]
    assert b.n("zone") == sum(f["calls"] for f in traced.values()) == b.head["limits"]["zones"]
    assert "zone.n" not in b.columns and b.head["limits"]["zone_pixels"] == 0
    whats = b.rows("what")
    name_of = [b.text(w["name"]) if w["name"] else b.name(w["function"]) for w in whats]
    zones = [dict(z, name=name_of[z["what"]]) for z in b.rows("zone")]
    (work,) = [z for z in zones if z["name"] == "work"]
    assert (whats[work["what"]]["kind"], whats[work["what"]]["function"]) == (1, NONE)
    assert ns(work["duration_s"]) == ns(traced["work"]["max_s"])
    inside = [z for z in zones if z["name"] == "fib"]
    assert len(inside) == 57313 and min(z["depth"] for z in inside) == work["depth"] + 1
    assert max(z["depth"] for z in inside) == work["depth"] + 22
    counted = [d for d in b.rows("duration") if name_of[d["what"]] == "fib"]
    assert sum(d["n"] for d in counted) == 57313
    for d in counted:  # each bucket has the zones of that length
        assert d["n"] == sum(ns(d["from_s"]) <= ns(z["duration_s"]) < ns(d["to_s"]) for z in inside)
    assert [b.text(m["text"]) for m in b.rows("mark")] == ["begin"]
    counts = [(b.text(c["name"]), c["value"]) for c in b.rows("counter")]  # thinned evenly: every fourth
    assert counts == [("rows", i) for i in range(0, 20000, 4)] + [(f"queue {k}", k) for k in range(100)]
    assert b.head["limits"]["counter_values_left_out"] == 15000
    small = Bundle.of_page(page(path))
    limits = small.head["limits"]
    assert 1000 < small.n("zone") <= 40000 and limits["zones"] == b.n("zone") == sum(small["zone.n"])
    assert limits["zones_merged"] == sum(n for n in small["zone.n"] if n > 1) and limits["zones_left_out"] == 0
    assert sum(map(ns, small["zone.busy_s"])) == sum(map(ns, b["zone.duration_s"]))
    assert small.rows("duration") == b.rows("duration")
    shown = {small.text(small["what.name"][w]) for w, n in zip(small["zone.what"], small["zone.n"]) if n == 1}
    assert "work" in shown
