# SPDX-License-Identifier: Apache-2.0
"""What `fathom report` and `fathom export` say of a profile whose every number is known (tests/support/known.h)."""

import json
import os
import random
import re
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def run(*args, env=None, stdin=None):
    full_env = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
    return subprocess.run([str(a) for a in args], capture_output=True, env=full_env, input=stdin, timeout=60)


def ok(*args, **kwargs) -> str:
    done = run(*args, **kwargs)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode()


@pytest.fixture(scope="module")
def known(build: Path, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("known") / "known.fathom"
    subprocess.run([build / "tests" / "known_profile", path], check=True)
    return path


@pytest.fixture(scope="module")
def report(fathom: Path, known: Path) -> dict:
    return json.loads(ok(fathom, "report", "--json", known))


def test_json_follows_the_schema(report):
    assert list(report) == [
        "schema", "command", "python", "started", "exit", "wall_s", "cpu_s", "no_cpu_s", "rate_hz", "engine", "samples",
        "wait_samples", "dropped", "failed_unwinds", "overhead_s", "max_rss_bytes", "runs", "verdict", "coverage", "time", "workers", "processes", "threads", "cpus", "functions",
        "lines", "libraries", "memory", "leaks",
    ]  # fmt: skip
    assert report["schema"] == "fathom.report/1"
    assert report["command"] == ["fathom", "run", "app.py", "--size=3"]
    assert report["python"] == "3.9.1"
    assert report["started"] == "2026-01-02T03:04:05Z"
    assert report["exit"] == {"code": 0, "signal": None}
    assert report["wall_s"] == 11.847
    assert report["cpu_s"] == pytest.approx(8.6 + 1.0 + 0.5)  # two threads' own clocks, one only from its samples
    assert (report["samples"], report["dropped"], report["failed_unwinds"]) == (10300, 7, 500)
    assert report["overhead_s"] == 0.12
    assert report["max_rss_bytes"] == 150601000
    assert report["time"] == {
        "python_s": 5.3,
        "native_s": 4,
        "system_s": 0.5,
        "gc_s": 0.2,
        "gil_wait_s": 0.3,
        "wait_s": 0,
    }
    assert report["workers"] == {"worker_s": 0, "untied_s": 1}
    memory = report["memory"]
    assert (memory["mode"], memory["peak_bytes"], memory["alloc_bytes"], memory["growth_rate"]) == ("off", 0, 0, 0)
    assert memory["timeline"] == memory["peaks"] == [] and memory["reconciliation"] is None
    assert report["leaks"] == []


def test_json_processes_and_threads(report):
    assert [(p["pid"], p["parent"], p["command"], p["exit"]) for p in report["processes"]] == [
        (100, None, ["python3", "app.py", "--size=3"], {"code": 0, "signal": None}),
        (200, 100, ["python3", "-c", "a b"], {"code": None, "signal": 9}),
    ]
    assert [(t["pid"], t["tid"], t["name"], t["cpu_s"], t["samples"]) for t in report["threads"]] == [
        (100, 100, "MainThread", 8.6, 8800),
        (100, 101, "worker", 1, 1000),
        (200, 200, "", 0.5, 500),
    ]


def test_json_functions_and_lines(report):
    functions = {f["name"]: f for f in report["functions"]}
    work = functions["App.work"]
    assert (work["kind"], work["module"], work["file"], work["line"]) == ("python", "app", "/home/user/app.py", 20)
    assert (work["self_s"], work["total_s"], work["python_s"], work["native_s"]) == (4.5, 7.5, 4.5, 3)
    kernel = functions["known_kernel"]
    assert (kernel["kind"], kernel["module"], kernel["self_s"], kernel["total_s"]) == ("native", "known_profile", 4, 4)
    assert functions["dumps"]["module"] == "json"
    lines = {(x["file"], x["line"]): x for x in report["lines"]}
    assert list(lines) == [("/home/user/app.py", n) for n in (21, 22, 12, 23)]
    line = lines["/home/user/app.py", 22]
    assert (line["function"], line["python_s"], line["native_s"], line["total_s"]) == ("App.work", 0, 3, 3)
    assert line["plus_minus_s"] == pytest.approx(1.96 * (10000 * 0.3 * 0.7) ** 0.5 / 1000, abs=1e-9)


def test_another_build_gives_addresses_and_says_why(fathom, build, tmp_path):
    path = tmp_path / "other.fathom"
    subprocess.run([build / "tests" / "known_profile", path, "--other-build"], check=True)
    report = json.loads(ok(fathom, "report", "--json", path))
    names = [f["name"] for f in report["functions"] if f["kind"] == "native"]
    assert len(names) == 2
    assert all(re.fullmatch("0x[0-9a-f]+", n) for n in names)
    assert any("known_profile" in c["what"] and "build id differs" in c["why"] for c in report["coverage"])


COLLAPSED = """\
[no unwind information];main (app.py:12) 500
known_start (known_profile);known_kernel (known_profile) 1000
main (app.py:11);App.work (app.py:21) 4000
main (app.py:11);App.work (app.py:21);App.work (app.py:21);App.work (app.py:23) 500
main (app.py:11);App.work (app.py:22);known_kernel (known_profile) 3000
main (app.py:12);dumps (json/__init__.py:5) 1000
"""


@pytest.mark.parametrize("name", ["collapsed", "raw"])
def test_collapsed(fathom, known, name):
    assert sorted(ok(fathom, "export", "-f", name, known).splitlines()) == sorted(COLLAPSED.splitlines())


def test_collapsed_options(fathom, known):
    def lines(*options):
        return ok(fathom, "export", "-f", "collapsed", *options, known).splitlines()

    assert "main (app.py:11);App.work (app.py:21) 4000000" in lines("--unit", "us")
    assert "main (app.py:11);App.work (app.py:21) 4300" in lines("--idle")
    assert "main (app.py:10);App.work (app.py:20) 4000" in lines("--function")
    assert "main (app.py);App.work (app.py) 4000" in lines("--nolineno")
    assert "main (/home/user/app.py:12);dumps (/usr/lib/python3.9/json/__init__.py:5) 1000" in lines("--full-filenames")
    assert "thread (101): worker;known_start (known_profile);known_kernel (known_profile) 1000" in lines("--threads")
    assert (
        'process 100:"python3 app.py --size=3";process 200:"python3 -c \'a b\'";thread (200);'
        "[no unwind information];main (app.py:12) 500" in lines("--threads", "--processes")
    )
    assert "main (app.py:11);App.work (app.py:22) 3000" in lines("--python-only")
    assert "0x100 (python3.9);0x200 (python3.9);main (app.py:12);dumps (json/__init__.py:5) 1000" in lines(
        "--native-all"
    )
    assert sum(int(x.rsplit(" ", 1)[1]) for x in lines("--gil")) == 5500


def test_speedscope(fathom, known):
    data = json.loads(ok(fathom, "export", "-f", "speedscope", known))
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = data["shared"]["frames"]
    assert {"name": "App.work", "file": "app.py", "line": 21} in frames
    assert {"name": "known_kernel", "file": "known_profile"} in frames
    by_name = {p["name"]: p for p in data["profiles"]}
    assert list(by_name) == [
        "process 100 thread (100): MainThread",
        "process 100 thread (101): worker",
        "process 200 thread (200)",
    ]
    for profile in data["profiles"]:
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "seconds", 0)
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == pytest.approx(profile["endValue"])
    main = by_name["process 100 thread (100): MainThread"]
    stacks = [[frames[i]["name"] for i in s] for s in main["samples"]]
    # in order of time; equal neighbours are one entry, waiting is left out
    assert stacks == [
        ["main", "App.work"],
        ["main", "App.work", "known_kernel"],
        ["main", "dumps"],
        ["main"] + ["App.work"] * 3,
    ]
    assert main["weights"] == pytest.approx([4, 3, 1, 0.5])


def test_speedscope_with_too_many_samples_writes_each_stack_once(fathom, build, tmp_path):
    path = tmp_path / "big.fathom"
    subprocess.run([build / "tests" / "gen_profile", path, "2500000"], check=True, capture_output=True)
    data = json.loads(ok(fathom, "export", "-f", "speedscope", path))
    assert "each distinct stack once" in data["name"]
    report = json.loads(ok(fathom, "report", "--json", path))
    cpu_s = sum(report["time"][k] for k in ("python_s", "native_s", "system_s", "gc_s"))
    assert sum(p["endValue"] for p in data["profiles"]) == pytest.approx(cpu_s)
    for profile in data["profiles"]:
        assert len({tuple(x) for x in profile["samples"]}) == len(profile["samples"])


def test_chrometrace_nests_and_adds_up(fathom, known):
    events = json.loads(ok(fathom, "export", "-f", "chrometrace", known))
    open_frames, total = {}, {}
    for e in events:
        key = (e["pid"], e.get("tid"))
        if e["ph"] == "B":
            open_frames.setdefault(key, []).append((e["name"], e["ts"]))
        elif e["ph"] == "E":
            name, start = open_frames[key].pop()
            assert e["ts"] >= start
            total[key, name] = total.get((key, name), 0) + e["ts"] - start
    assert all(not x for x in open_frames.values())
    assert total[(100, 100), "known_kernel"] == pytest.approx(3e6, abs=2e3)
    assert total[(100, 101), "known_kernel"] == pytest.approx(1e6, abs=2e3)
    names = {e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    assert names == {"MainThread", "worker", *("CPU %d" % e["tid"] for e in events if e["ph"] == "X")}


def test_flamegraph_is_wellformed_and_asks_nobody(fathom, known):
    text = ok(fathom, "export", "-f", "flamegraph", known)
    root = ElementTree.fromstring(text)
    titles = [t.text.split("\n")[0] for t in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "all"
    assert {"main (app.py:11)", "known_kernel (known_profile)", "[no unwind information]"} <= set(titles)
    assert re.findall(r"(?:href|src|url)\s*[=(]", text) == []
    assert re.findall('https?://[^"]*', text) == ["http://www.w3.org/2000/svg"]


def run_beside(known: Path, *args, env=None) -> str:
    """With the profile's bare name, so that no line is as long as the path of the tests' folder happens to be."""
    full_env = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
    done = subprocess.run([str(a) for a in args], capture_output=True, env=full_env, cwd=known.parent, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def check_golden(name: str, text: str) -> None:
    """FATHOM_GOLDEN=write writes what is expected anew; read the difference before committing it."""
    if os.environ.get("FATHOM_GOLDEN") == "write":
        (GOLDEN / name).write_text(text)
    assert text == (GOLDEN / name).read_text()


@pytest.mark.parametrize("name, args, env", [
    ("known-100.txt", ["--width", "100"], {}),
    ("known-72-ascii.txt", ["--width", "72"], {"LC_ALL": "C"}),
    ("known-120-detailed.txt", ["--width", "120", "--detailed"], {}),
    ("known-tree-80.txt", ["--width", "80", "--tree"], {}),
    ("known-colour-summary.txt", ["--width", "100", "--color", "always", "--summary", "--top", "1"], {}),
])  # fmt: skip
def test_text_report_is_the_golden_one(fathom, known, name, args, env):
    text = run_beside(known, fathom, "report", *args, known.name, env=env)
    check_golden(name, text)
    if "LC_ALL" in env:
        assert text.isascii()


@pytest.mark.parametrize("width, form", [("130", ""), ("80", "--ascii")])
def test_text_report_with_memory_is_the_golden_one(build, known, width, form):
    text = run_beside(known, build / "tests" / "known_report", known.name, width, *([form] if form else []))
    check_golden(f"known-memory-{width}{form.replace('--', '-')}.txt", text)
    assert text.isascii() == bool(form)


def test_text_fits_the_width(fathom, build, known):
    for width in (60, 72, 80, 120, 200):
        texts = [ok(fathom, "report", "--width", width, *more, known) for more in ([], ["--detailed"])]
        texts.append(ok(build / "tests" / "known_report", known, width))
        for text in texts:
            # commands and paths are there to be copied: not wrapped
            lines = [x for x in text.splitlines() if not x.startswith(("  fathom ", "Check logs "))]
            assert max(len(x) for x in lines) <= width


def test_shares_of_the_tree_add_up(fathom, known):
    text = ok(fathom, "report", known)
    tree = text[text.index("Functions by Module") : text.index("Top 4 Functions by Own Time")]
    leaves = [float(x) for x in re.findall(r"\.\.(\d+\.\d)%", tree)]
    assert leaves == [75.0, 15.0, 10.0]  # App.work, main, and what is outside
    assert "app.py (2 func, 90.0% total)" in tree


def test_no_colour_outside_a_terminal_and_none_with_no_color(fathom, known, tmp_path):
    assert "\x1b" not in ok(fathom, "report", known)
    script = ["script", "-qec", f"{fathom} report {known}", "/dev/null"]
    try:
        coloured = run(*script, env={"TERM": "xterm-256color"}).stdout
    except FileNotFoundError:
        pytest.skip("the script program is not installed")
    assert b"\x1b[" in coloured
    assert b"\x1b[" not in run(*script, env={"TERM": "xterm-256color", "NO_COLOR": "1"}).stdout


def test_output_goes_to_the_file_and_never_over_the_profile(fathom, known, tmp_path):
    out = tmp_path / "out.json"
    assert ok(fathom, "report", "--json", "-o", out, known) == ""
    json.loads(out.read_text())
    before = known.read_bytes()
    done = run(fathom, "export", "-f", "json", "-o", known, known)
    assert done.returncode == 1
    assert b"is the profile itself" in done.stderr
    assert known.read_bytes() == before


def test_a_full_disk_is_one_line(fathom, known):
    done = run(fathom, "export", "-f", "flamegraph", "-o", "/dev/full", known)
    assert done.returncode == 1
    assert done.stderr == b"fathom: cannot write /dev/full: No space left on device\n"


@pytest.mark.parametrize("args, code", [
    (["report", "/nonexistent/x.fathom"], 1),
    (["report", "/dev/null"], 1),
    (["report", "/etc/passwd"], 1),
    (["report", "/"], 1),
    (["export", "-f", "speedscope", "-o", "/nonexistent/out", "PROFILE"], 1),
    (["report"], 2),
    (["report", "PROFILE", "more"], 2),
    (["report", "--jsn", "PROFILE"], 2),
    (["report", "--top", "x", "PROFILE"], 2),
    (["export", "PROFILE"], 2),
    (["export", "-f", "nonsense", "PROFILE"], 2),
    (["export", "-f", "collapsed"], 2),
    (["export", "-f", "collapsed", "--unit", "ms", "PROFILE"], 2),
])  # fmt: skip
def test_bad_input_is_one_line_and_an_exit_code(fathom, known, args, code):
    done = run(fathom, *[known if a == "PROFILE" else a for a in args])
    assert done.returncode == code
    assert done.stdout == b""
    assert done.stderr.startswith(b"fathom: ")
    assert done.stderr.count(b"\n") == 1


def test_a_profile_cut_anywhere_reports_or_refuses_in_one_line(fathom, known, tmp_path):
    whole = known.read_bytes()
    cut = tmp_path / "cut.fathom"
    for n in [*range(0, 40), *range(40, len(whole), max(1, len(whole) // 60))]:
        cut.write_bytes(whole[:n])
        done = run(fathom, "report", cut)
        assert done.returncode in (0, 1), n
        if done.returncode:
            assert done.stderr.count(b"\n") == 1, n
        else:
            assert b"Not Seen, and Why" in done.stdout, n


@pytest.fixture(scope="module")
def hostile(build: Path, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "hostile.fathom"
    subprocess.run([build / "tests" / "known_profile", path, "--hostile"], check=True)
    return path


def test_hostile_names_stay_names(fathom, hostile):
    for name in ("json", "speedscope", "chrometrace"):
        json.loads(ok(fathom, "export", "-f", name, "--idle", hostile))
    svg = ok(fathom, "export", "-f", "flamegraph", "--threads", "--processes", "--idle", hostile)
    root = ElementTree.fromstring(svg)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}script"))) == 1
    for line in ok(fathom, "export", "-f", "collapsed", "--threads", hostile).splitlines():
        frames, count = line.rsplit(" ", 1)
        assert int(count) > 0
        assert len(frames.split(";")) in (1, 4)  # the thread alone, or thread, error, Python and native frame
    for env in ({}, {"LC_ALL": "C"}):
        text = ok(fathom, "report", hostile, env=env)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


def test_help_has_examples(fathom):
    for command in ("report", "export"):
        text = ok(fathom, command, "--help")
        assert "Examples:" in text
        assert text.startswith(f"usage: fathom {command}")
    listed = ok(fathom, "export", "--list")
    for name in ("text", "json", "collapsed", "speedscope", "flamegraph", "chrometrace", "raw"):
        assert re.search(f"^{name} ", listed, re.M)


def test_any_bytes_become_valid_json(build):
    rng = random.Random(7)
    pieces = [
        b"",
        b"plain",
        bytes(range(256)),
        "naïve 名 🐍".encode(),
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"</script>\xe2\x80\xa8",
    ]
    pieces += [bytes(rng.choices(range(256), k=rng.randrange(60))) for _ in range(2000)]
    pieces += [bytes(rng.choice([0xC3, 0xE2, 0xF0, 0x80, 0xBF, 0x41]) for _ in range(12)) for _ in range(2000)]
    stdin = b"".join(struct.pack("<I", len(p)) + p for p in pieces)
    out = run(build / "tests" / "json_escape", stdin=stdin)
    assert out.returncode == 0
    strings = json.loads(out.stdout.decode("utf-8"))
    assert len(strings) == len(pieces)
    for piece, text in zip(pieces, strings):
        try:
            assert text == piece.decode("utf-8")
        except UnicodeDecodeError:
            assert "\ufffd" in text
            assert text.replace("\ufffd", "") == piece.decode("utf-8", errors="ignore").replace("\ufffd", "")
