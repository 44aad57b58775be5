# SPDX-License-Identifier: Apache-2.0
"""Sources that keep sums of calls, and traces: pstats, callgrind and Chrome trace events give back every count and nanosecond."""

import cProfile
import json
import marshal
import profile
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest
from capture import BUILD, ROOT
from guest import coverage, fathom, report, run

sys.path.insert(0, str(ROOT / "tests" / "reader"))
from fathom_view import Bundle  # noqa: E402

Own = Dict[Tuple[str, str], int]
Pairs = Dict[Tuple[Tuple[str, str], Tuple[str, str]], Tuple[int, int]]


def calls(path: Path) -> Dict[str, Tuple[int, int, int, int]]:
    """Calls, recursive ones, own and total nanoseconds (or units) by function."""
    return {
        f["name"]: (f["calls"], f["recursive_calls"], round(f["own_s"] * 1e9), round(f["total_s"] * 1e9))
        for f in report(path)["calls"]["functions"]
    }


# ---- pstats ----


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Basket:
    def fill(self) -> int:
        return sum(len(str(i)) for i in range(20))


def workload() -> None:
    fib(9)
    Basket().fill()
    sorted([3, 1, 2], key=lambda x: -x)
    [].append(1)


def canonical(path: Path) -> Dict[Any, Any]:
    """What a pstats file says, in the file's unit or ns, whichever of both counts comes first; a bare number of calls has no times."""

    def figures(v: Any) -> Tuple[int, int, int, int]:
        v = (v, v, 0, 0) if isinstance(v, int) else v
        return min(v[:2]), max(v[:2]), round(v[2] * 1e9), round(v[3] * 1e9)

    with path.open("rb") as f:
        stats = marshal.load(f)
    return {key: (figures(v), {caller: figures(w) for caller, w in v[4].items()}) for key, v in stats.items()}


def pstats_file(folder: Path, kind: str) -> Path:
    path = folder / kind
    profiler: Any = profile.Profile() if kind == "profile" else cProfile.Profile()
    profiler.runcall(workload)
    profiler.dump_stats(path)
    if kind == "yappi":  # has all calls first, and in callers too, and writes without references
        stats = {k: (v[1], v[0], *v[2:]) for k, v in marshal.loads(path.read_bytes()).items()}
        path.write_bytes(marshal.dumps(stats, 2))
    return path


@pytest.mark.parametrize("kind", ["cProfile", "profile", "yappi"])
def test_pstats_comes_back_to_the_nanosecond(kind: str, tmp_path: Path) -> None:
    path, kept, again = pstats_file(tmp_path, kind), tmp_path / "kept.fathom", tmp_path / "again"
    assert fathom("import", "-o", kept, path).stderr == ""
    fathom("export", "-f", "pstats", "-o", again, kept)
    assert canonical(again) == canonical(path)
    assert len(canonical(path)) >= 8
    both = [subprocess.run([*reader, kept], stdout=subprocess.PIPE, check=True).stdout for reader in (
        [BUILD / "tests" / "dump_profile"], [sys.executable, ROOT / "tests" / "reader" / "fathom_reader.py"])]  # fmt: skip
    assert both[0] == both[1]
    assert both[0].count(b"callsum caller=0") == len(canonical(path))


def test_pstats_in_the_report(tmp_path: Path) -> None:
    """The table of calls, its callers, and own times as samples; what sums cannot tell is empty, not 0."""
    path = pstats_file(tmp_path, "cProfile")
    truth = {key[2]: figures for key, (figures, _) in canonical(path).items()}
    found = calls(path)
    assert found["fib"] == (109, 108, truth["fib"][2], truth["fib"][3])
    assert found["builtins.len"][0] == 20
    function = next(f for f in report(path)["calls"]["functions"] if f["name"] == "fib")
    assert {c["name"]: c["calls"] for c in function["callers"]} == {"fib": 108, "workload": 1}
    assert function["p50_s"] is None and function["mean_s"] is None and function["file"] == __file__
    assert sum(round(f["self_s"] * 1e9) for f in report(path)["functions"]) == sum(v[2] for v in truth.values())
    text = fathom("report", path).stdout
    assert re.search(r"^ +109 .* - +- +fib \(test_import_calls.py:\d+\)$", text, re.M)
    assert "how long each one took is not known" in text
    assert "stacks: the file has sums per function" in coverage(path)
    rows = fathom("export", "-f", "csv", path).stdout.splitlines()
    assert next(r for r in rows if r.startswith('"fib"')).endswith(",,,,,,")
    assert "109x" in fathom("export", "-f", "dot", path).stdout
    fathom("export", "-f", "bundle", "-o", tmp_path / "b.fmview", path)
    page = Bundle.of_file(tmp_path / "b.fmview")
    rows = {page.name(row["function"]): row for row in page.rows("func_row") if row["calls"]}
    assert rows["fib"]["calls"] == 109 and round(rows["fib"]["traced_own_s"] * 1e9) == truth["fib"][2]
    fathom("check", path, path)


def test_pstats_of_this_python(python: Any, tmp_path: Path) -> None:
    """The marshal of each."""
    script = tmp_path / "s.py"
    script.write_text("import json\ndef f(n):\n    return json.dumps([n] * 50)\nfor i in range(30):\n    f(i)\n")
    subprocess.run([python.path, "-m", "cProfile", "-o", tmp_path / "p", script], check=True)
    fathom("export", "-f", "pstats", "-o", tmp_path / "again", tmp_path / "p")
    assert canonical(tmp_path / "again") == canonical(tmp_path / "p")
    assert calls(tmp_path / "p")["f"][0] == 30


# ---- callgrind ----

CALLGRIND = """# callgrind format
version: 1
creator: hand-1
pid: 77
cmd: ./prog -x
positions: instr line
events: Ir Dr Dw
summary: 1000 2 3

ob=(1) /usr/bin/prog
fl=(1) main.c
fn=(1) main
0x100 10 5 1 1
+4 +1 5
fi=(2) inline.h
* 90 7
fe=(1)
cob=(2) /usr/lib/libx.so
cfi=(3) x.c
cfn=(2) work
calls=3 0x900 20
+4 12 550 9 9
cfn=(3) helper
calls=2 +16 30
* * 100
jump=2 0x110 12
* 12

ob=(2)
fl=(3)
fn=(2)
0x900 20 500
cfn=(2)
calls=4 0x900 20
+1 +2 300
cob=(1)
cfi=(1)
cfn=(3)
calls=1 0x200 30
* * 50

fl=(1)
ob=(1)
fn=(3)
0x200 30 150

fn=(4) (12th)
0 31

part: 2
fn=(3)
0x200 -1 1
totals: 818
"""


def test_callgrind_names_positions_and_costs(tmp_path: Path) -> None:
    """Compressed names and positions, inlined code, calls by object, file and recursion, costs left out, a second part."""
    path = tmp_path / "c"
    path.write_text(CALLGRIND)
    found = calls(path)
    assert found == {
        "main": (0, 0, 17, 667), "work": (7, 4, 500, 550), "helper": (3, 0, 151, 151), "(12th)": (0, 0, 0, 0)}  # fmt: skip
    told = report(path)
    assert told["calls"]["unit"] == "Ir" and told["command"] == ["./prog -x"]
    by_name = {f["name"]: f for f in told["calls"]["functions"]}
    assert (by_name["main"]["file"], by_name["main"]["line"], by_name["work"]["line"]) == ("main.c", 10, 20)
    assert {c["name"]: (c["calls"], round(c["total_s"] * 1e9)) for c in by_name["work"]["callers"]} == {
        "main": (3, 550), "work": (4, 300)}  # fmt: skip
    assert {c["name"]: c["calls"] for c in by_name["helper"]["callers"]} == {"main": 2, "work": 1}
    said = coverage(path)
    assert "the file counts Ir, not time" in said and "not: Dr, Dw" in said and "inlined" in said
    assert "668 Ir in them" in fathom("report", path).stdout
    assert own_and_pairs(fathom("export", "-f", "callgrind", path).stdout) == own_and_pairs(CALLGRIND)
    assert fathom("export", "-f", "csv", path).stdout.startswith("name,file,line,kind,calls,recursive_calls,total_Ir,")
    refused = fathom("export", "-f", "pstats", path, code=1).stderr
    assert "counts Ir, but pstats holds seconds" in refused and refused.count("\n") == 1


def own_and_pairs(text: str) -> Tuple[Own, Pairs]:
    """By (file or object, function), read by a second reader of the format."""
    names: Dict[str, Dict[str, str]] = {"o": {}, "f": {}, "n": {}}
    own: Own = {}
    pairs: Pairs = {}
    at = {"ob": "", "fl": "", "cob": "", "cfi": ""}
    function = callee = ""
    count, n_positions, file = None, 1, ""

    def name(space: str, value: str) -> str:
        m = re.match(r"\((\d+)\) ?(.*)$", value)
        if not m:
            return value
        return names[space].setdefault(m[1], m[2]) if m[2] else names[space][m[1]]

    def place(ob: str, fl: str, fn: str) -> Tuple[str, str]:
        fl = "" if fl in ("???", "~") else fl
        return fl or ("" if ob == "???" else ob), fn.replace("(12th)", "[12th)")

    for line in text.splitlines():
        if line.startswith("positions:"):
            n_positions = len(line.split()) - 1
        key, _, value = line.partition("=")
        if key in ("ob", "fl", "fi", "fe"):
            at["cob" if key == "ob" else "cfi"] = at["ob" if key == "ob" else "fl"] = name(
                "o" if key == "ob" else "f", value
            )
        elif key in ("cob", "cfi", "cfl"):
            at["cob" if key == "cob" else "cfi"] = name("o" if key == "cob" else "f", value)
        elif key == "fn":
            function, file = name("n", value), at["fl"]
        elif key == "cfn":
            callee = name("n", value)
        elif key == "calls":
            count = int(value.split()[0])
        elif re.match(r"[\d+*-]", line):
            costs = line.split()[n_positions:]
            cost, here = int(costs[0]) if costs else 0, place(at["ob"], file, function)
            if count is None:
                own[here] = own.get(here, 0) + cost
            else:
                pair = here, place(at["cob"], at["cfi"], callee)
                n, total = pairs.get(pair, (0, 0))
                pairs[pair] = n + count, total + cost
                count, at["cob"], at["cfi"] = None, at["ob"], at["fl"]
    return {k: v for k, v in own.items() if v}, pairs


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_callgrind_of_valgrind(tmp_path: Path) -> None:
    """Every own cost, call and inclusive cost of a real file comes back."""
    path = tmp_path / "callgrind.out"
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}", "/bin/true"], check=True, stderr=subprocess.DEVNULL)  # fmt: skip
    whole = int(re.search(r"^(?:summary|totals): (\d+)", path.read_text(), re.M)[1])  # type: ignore[index]
    own, pairs = own_and_pairs(path.read_text())
    assert own_and_pairs(fathom("export", "-f", "callgrind", path).stdout) == (own, pairs)
    assert sum(own.values()) == whole and len(pairs) > 100
    assert sum(round(f["self_s"] * 1e9) for f in report(path)["functions"]) == whole


def test_callgrind_of_our_own_comes_back(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    fathom("export", "-f", "callgrind", "-o", first, pstats_file(tmp_path, "cProfile"))
    fathom("export", "-f", "callgrind", "-o", second, first)
    assert own_and_pairs(second.read_text()) == own_and_pairs(first.read_text())
    assert "events: ns" in second.read_text() and ", not time;" not in coverage(first)


# ---- Chrome trace events ----

CHROME = [
    {"ph": "M", "pid": 5, "name": "process_name", "args": {"name": "prog"}},
    {"ph": "M", "pid": 5, "tid": 6, "name": "thread_name", "args": {"name": "worker"}},
    {"ph": "X", "pid": 5, "tid": 6, "ts": 1002, "dur": 3, "name": "leaf (/a/b.py:3)", "cat": "fee"},
    {"ph": "X", "pid": 5, "tid": 6, "ts": 1006.5, "dur": 1.5, "name": "leaf (/a/b.py:3)", "cat": "fee"},
    {"ph": "X", "pid": 5, "tid": 6, "ts": 1000, "dur": 10, "name": "f (/a/b.py:1)", "cat": "fee"},
    {"ph": "X", "pid": 5, "tid": 6, "ts": 1003, "dur": 1, "name": "builtins.len", "cat": "fee"},
    {"ph": "B", "pid": 5, "tid": 7, "ts": 1000.25, "name": "load"},
    {"ph": "C", "pid": 5, "tid": 7, "ts": 1001, "name": "queue", "args": {"n": 4.5}},
    {"ph": "i", "pid": 5, "tid": 7, "ts": 1002, "name": "ready", "s": "t"},
    {"ph": "B", "pid": 5, "tid": 7, "ts": 1003, "name": "parse"},
    {"ph": "E", "pid": 5, "tid": 7, "ts": 1005},
    {"ph": "E", "pid": 5, "tid": 7, "ts": 4000.25},
    {"ph": "s", "pid": 5, "tid": 7, "ts": 1003, "id": 1, "name": "flow"},
    {"ph": "X", "pid": 5, "tid": 6, "ts": "soon", "dur": 1, "name": "odd"},
]


@pytest.mark.parametrize("form", ["object", "array", "cut array"])
def test_chrome_events(form: str, tmp_path: Path) -> None:
    """In any order; complete ones and pairs; calls, zones, marks, counters and names; times are right to the nanosecond."""
    path = tmp_path / "t"
    text = json.dumps({"displayTimeUnit": "ms", "traceEvents": CHROME} if form == "object" else CHROME)
    path.write_text(text[:-1] + "," if form == "cut array" else text)
    assert calls(path) == {
        "f": (1, 0, 5500, 10000), "leaf": (2, 0, 3500, 4500), "builtins.len": (1, 0, 1000, 1000),
        "load": (1, 0, 2998000, 3000000), "parse": (1, 0, 2000, 2000)}  # fmt: skip
    told = report(path)
    kinds = {f["name"]: (f["kind"], f["file"], f["line"]) for f in told["calls"]["functions"]}
    assert kinds["leaf"] == ("python", "/a/b.py", 3) and kinds["load"] == ("zone", "", 0)
    assert kinds["builtins.len"] == ("native", "", 0)
    assert [(m["text"], m["tid"], round(m["t_s"] * 1e9)) for m in told["calls"]["marks"]] == [("ready", 7, 2000)]
    assert {(t["tid"], t["name"]) for t in told["threads"]} == {(6, "worker"), (7, "")}
    assert {f["name"]: round(f["self_s"] * 1e9) for f in told["functions"]} == {
        "f": 5500, "leaf": 3500, "builtins.len": 1000, "load": 2998000, "parse": 2000}  # fmt: skip
    said = coverage(path)
    assert "1 events of other kinds: " in said and "1 events without a time: " in said and "CPU time: " in said
    again = [
        e for e in json.loads(fathom("export", "-f", "chrometrace", path).stdout) if e.get("cat") in ("call", "zone")
    ]
    assert Counter(e["name"] for e in again) == {"f": 1, "leaf": 2, "builtins.len": 1, "load": 1, "parse": 1}


def test_a_long_trace_has_every_call_once(tmp_path: Path) -> None:
    """More events than one part of a trace holds, on two threads; times of what is inside and around."""
    path, n = tmp_path / "t", 40000
    events = [
        {"ph": "X", "pid": 1, "tid": 1 + i % 2, "ts": 4 * i + ts, "dur": dur, "name": name, "cat": "call"}
        for i in range(n)
        for ts, dur, name in ((1, 0.5, "inside"), (0, 2, "around"))
    ]
    path.write_text(json.dumps(events))
    assert calls(path) == {"inside": (n, 0, n * 500, n * 500), "around": (n, 0, n * 1500, n * 2000)}
    times = {f["name"]: round(f["self_s"] * 1e9) for f in report(path)["functions"]}
    assert times == {"inside": n * 500, "around": n * 1500}


def test_viztracer(tmp_path: Path) -> None:
    """A real file: as many calls of each function as it has events, and their times; its sources come along."""
    script, path = tmp_path / "s.py", tmp_path / "t.json"
    script.write_text(
        "import threading\ndef leaf(n):\n    return sum(range(n))\ndef work(k):\n    return [leaf(50) for _ in range(k)]\n"
        "t = threading.Thread(target=work, args=(30,))\nt.start()\nwork(20)\nt.join()\n"
    )
    viztracer = Path(sys.executable).parent / "viztracer"
    subprocess.run([viztracer, "-o", path, script], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    told, found = report(path), Counter[str]()
    for f in told["calls"]["functions"]:
        found[f"{f['name']} ({f['file']}:{f['line']})" if f["kind"] == "python" else f["name"]] += f["calls"]
    assert found == Counter(e["name"] for e in events)
    total = {f["name"]: round(f["total_s"] * 1e9) for f in told["calls"]["functions"]}
    assert total["leaf"] == sum(round(e["dur"] * 1000) for e in events if e["name"].startswith("leaf ("))
    assert found[f"leaf ({script}:2)"] == 50
    fathom("import", "-o", tmp_path / "kept.fathom", path)
    assert "return sum(range(n))" in run([BUILD / "tests" / "dump_profile", tmp_path / "kept.fathom"]).stdout


# ---- damage ----


@pytest.mark.parametrize("name", ["pstats", "callgrind", "chrome"])
def test_damage_is_one_line(name: str, tmp_path: Path) -> None:
    """What came before is kept, and the line says where it ends."""
    whole = {"callgrind": CALLGRIND.encode(), "chrome": json.dumps({"traceEvents": CHROME}).encode()}.get(name)
    whole = whole or pstats_file(tmp_path, "cProfile").read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: len(whole) * 2 // 3] + (b"\n0x11 x\n" if name == "callgrind" else b""))
    done = fathom("import", "-o", tmp_path / "kept.fathom", cut, code=1)
    assert done.stderr.count("\n") == 1 and re.search(r"cut: (line|byte) \d+: ", done.stderr), done.stderr
    assert "the part before it is in" in done.stderr and calls(tmp_path / "kept.fathom")
