# SPDX-License-Identifier: Apache-2.0
"""Profiles of other tools open as captures: the same small profile in every format gives the same figures to the unit."""

import gzip
import json
import random
import re
import resource
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Tuple

import foreign_files as foreign
import pytest
from capture import BUILD
from guest import FATHOM, coverage, fathom, report, run

MS = 1000


def stacks(path: Path, *options: str) -> List[str]:
    return sorted(fathom("export", "-f", "collapsed", *options, path).stdout.splitlines())


def written(folder: Path, content: bytes, name: str = "foreign") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", foreign.FILES)
def test_the_same_profile_in_every_format(name: str, tmp_path: Path) -> None:
    """Threads, stacks, times; and per function what is its own and what is in all. By content: no name ends in anything telling."""
    path = written(tmp_path, foreign.FILES[name]())
    is_evented = name == "speedscope-evented"  # where nothing is open, nothing ran
    assert stacks(path, "--threads", "--unit", "us") == foreign.expected(MS, not is_evented)
    if not name.startswith("speedscope"):  # which holds no counts
        assert stacks(path, "--threads") == foreign.expected()
    told = report(path)
    assert {(t["pid"], t["tid"], t["name"], round(t["cpu_s"] * 1e9)) for t in told["threads"]} == {
        (foreign.PID, 71, "MainThread", 26_000_000), (foreign.PID, 72, "Worker \u00e9", 13_000_000 if is_evented else 15_000_000)}  # fmt: skip
    times = {f["name"]: (round(f["self_s"] * 1e9), round(f["total_s"] * 1e9), f["kind"]) for f in told["functions"]}
    assert times == {
        "main": (3_000_000, 26_000_000, "python"), "work": (18_000_000, 36_000_000, "python"), "fib": (7_000_000, 7_000_000, "python"),
        "run": (0, 13_000_000, "python"), "dgemm": (11_000_000, 11_000_000, "native"),
    }  # fmt: skip


def test_every_command_takes_them(tmp_path: Path) -> None:
    path = written(tmp_path, foreign.pprof())
    kept = tmp_path / "kept.fathom"
    assert fathom("import", "-o", kept, path).stderr == ""
    assert stacks(kept) == stacks(path)
    assert "work" in fathom("report", path).stdout
    fathom("view", "--html", tmp_path / "page.html", path)
    assert (tmp_path / "page.html").stat().st_size > 100000
    fathom("diff", path, kept)
    fathom("check", path, kept)
    assert set(list_formats()) >= {"collapsed", "speedscope", "pprof", "gecko"}


def list_formats() -> List[str]:
    return [line.split()[0] for line in fathom("import", "--list").stdout.splitlines()]


def test_a_capture_made_of_it_goes_with_the_command(tmp_path: Path, monkeypatch: Any) -> None:
    passing = tmp_path / "passing"
    passing.mkdir()
    monkeypatch.setenv("TMPDIR", str(passing))
    path = written(tmp_path, foreign.collapsed())
    assert stacks(path)
    fathom("diff", path, path)
    assert list(passing.iterdir()) == []
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    assert "set TMPDIR" in fathom("report", path, code=1).stderr


@pytest.mark.parametrize("made", ["known_profile", "hostile_profile"])
@pytest.mark.parametrize("exported", ["collapsed", "speedscope"])
def test_our_own_exports_come_back(exported: str, made: str, tmp_path: Path) -> None:
    """Everything that the format holds: stacks with their threads, to the sample or the microsecond, whatever names are in them."""
    known, again = tmp_path / "known.fathom", tmp_path / "again"
    subprocess.run([BUILD / "tests" / made, known], check=True, stdout=subprocess.PIPE)
    fathom("export", "-f", exported, *(["--threads"] if exported == "collapsed" else []), "-o", again, known)
    unit = "samples" if exported == "collapsed" else "us"
    assert stacks(again, "--threads", "--unit", unit) == stacks(known, "--threads", "--unit", unit)


@pytest.mark.parametrize("seed", range(4))
def test_random_profiles_go_round(seed: int, tmp_path: Path) -> None:
    """Any names, any depth: in as collapsed stacks, out and in again as speedscope, out as they came."""
    r = random.Random(seed)
    letters = "abcXYZ_.:<>()[] é\u6f22'\"&%\\/"
    names = [f"f{i}" + "".join(r.choice(letters) for _ in range(r.randrange(9))).strip() for i in range(40)]
    files = [" (app.py:7)", " (/srv/x/mod.py:12)", " (libm.so.6)", " (a.c:3)", ""]
    frames = [name + r.choice(files) for name in names]
    sums: Dict[str, int] = {}
    for _ in range(200):
        stack = ";".join(r.choice(frames) for _ in range(r.choice([1, 2, 5, 40])))
        sums[stack] = sums.get(stack, 0) + r.randrange(1, 50)
    path = written(tmp_path, "".join(f"{stack} {n}\n" for stack, n in sums.items()).encode())
    assert stacks(path, "--full-filenames") == sorted(f"{stack} {n}" for stack, n in sums.items())
    fathom("export", "-f", "speedscope", "--full-filenames", "-o", tmp_path / "again", path)
    assert stacks(tmp_path / "again", "--full-filenames", "--unit", "us") == sorted(
        f"{stack} {n * MS}" for stack, n in sums.items()
    )


def test_units_of_counts(tmp_path: Path) -> None:
    path = written(tmp_path, b"# austin: 3.7\na (x.py:1);b (x.py:2) 1500\na (x.py:1) 0.5\n")
    for unit, us in (("us", [1, 1500]), ("ms", [500, 1500000]), ("ns", [2])):
        fathom("import", "--unit", unit, "-o", tmp_path / unit, path)
        assert sorted(int(line.rsplit(" ", 1)[1]) for line in stacks(tmp_path / unit, "--unit", "us")) == us
    fathom("import", "--unit", "bytes", "-o", tmp_path / "bytes", path)
    assert stacks(tmp_path / "bytes", "--metric", "alloc") == ["a (x.py:1);b (x.py:2) 1500"]


def test_times_that_no_run_has_are_said(tmp_path: Path) -> None:
    path = written(
        tmp_path, b"a (x.py:1) 9007199254740992\nb (x.py:2) 5\nc (x.py:3) 4000000000000\nd (x.py:4) 4000000000000\n"
    )
    assert stacks(path, "--unit", "us") == ["b (x.py:2) 5000", "c (x.py:3) 4000000000000000"]
    assert "more than 146 years" in coverage(path) and "how many samples some stacks had" in coverage(path)
    assert (
        "a stack should end in a count"
        in fathom(
            "import",
            "--from",
            "collapsed",
            "-o",
            tmp_path / "x",
            written(tmp_path, b"a 99999999999999999999\n"),
            code=1,
        ).stderr
    )


def test_speedscope_is_known_without_its_schema_in_sight(tmp_path: Path) -> None:
    content = json.loads(foreign.speedscope())
    profiles, schema = content["profiles"], content.pop("$schema")
    for profile in profiles:
        profile["startValue"] = profile.pop("startValue")
        profile["samples"] = profile.pop("samples") + [[]] * 90000
        profile["weights"] = profile.pop("weights") + [0] * 90000
    path = written(tmp_path, json.dumps({**content, "$schema": schema}).encode())
    assert path.read_bytes().find(schema.encode()) > 256 << 10
    assert stacks(path, "--threads", "--unit", "us") == foreign.expected(MS)


def test_austin_says_what_it_counts(tmp_path: Path) -> None:
    """Microseconds, of threads in processes; names that only begin like these are frames."""
    text = b"# austin: 3.7.0\n# interval: 10000\n# mode: wall\n\nP9;T0:12 1365\nP9;T0:12;/t.py:<module>:6;/t.py:f:3 10083\nP9;T0:13;/t.py:f:4 7\nP9;Tx 5\nP10 4\n"
    path = written(tmp_path, text)
    assert stacks(path, "--threads", "--processes", "--unit", "us") == sorted([
        'process 9:"";thread (12) 1365', 'process 9:"";thread (12);<module> (t.py:6);f (t.py:3) 10083', 'process 9:"";thread (13);f (t.py:4) 7',
        'process 9:"";thread (0);Tx 5', 'process 0:"";thread (0);P10 4'])  # fmt: skip
    assert "whether threads ran or waited" in coverage(path) and "each is shown as 1 ms" not in coverage(path)


def test_threads_of_py_spy_in_speedscope(tmp_path: Path) -> None:
    content = foreign.speedscope().replace(
        b"process 7 thread (71): MainThread", b'Process 7 Thread 71 \\"MainThread\\"'
    )
    content = content.replace(b"process 7 thread (72): Worker", b"any name")
    told = report(written(tmp_path, content))["threads"]
    assert [(t["pid"], t["tid"], t["name"]) for t in told] == [(7, 71, "MainThread"), (0, 2, "any name \u00e9")]


def test_frames_of_text(tmp_path: Path) -> None:
    """Each form that other tools write, as it is called and of which kind; names that only look like one stay names."""
    forms = {
        "f (a.py:3)": ("f", "python", "a.py", 3), "<module> (run)": ("<module>", "python", "run", 0), "_find (<frozen importlib._bootstrap>:7)": ("_find", "python", "<frozen importlib._bootstrap>", 7),
        "py::g:/srv/b.py": ("g", "python", "/srv/b.py", 0), "/srv/c.py:h:12": ("h", "python", "/srv/c.py", 12), "k (a (1).py:4)": ("k", "python", "a (1).py", 4),
        "do_read_[k]": ("do_read", "native", "[kernel]", 0), "m (lib m.so)": ("m", "native", "lib m.so", 0), "std::vector<int>::at(int) (v.h:9)": ("std::vector<int>::at(int)", "native", "v.h", 9),
        "operator()(int)": ("operator()(int)", "native", "", 0), "std::vector<T> (anonymous)": ("std::vector<T>", "native", "anonymous", 0), "n (": ("n (", "native", "", 0), ")": (")", "native", "", 0),
    }  # fmt: skip
    path = written(tmp_path, "".join(f"{form} {i + 1}\n" for i, form in enumerate(forms)).encode())
    found = {
        (f["name"], f["kind"], f["file"] or f["module"]): round(f["self_s"] * 1000) for f in report(path)["functions"]
    }
    assert found == {(name, kind, file): i + 1 for i, (name, kind, file, _) in enumerate(forms.values())}


def test_allocations_of_pprof(tmp_path: Path) -> None:
    """alloc_space and inuse_space: what was allocated, and what of it lives."""
    kinds = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))
    path = written(tmp_path, foreign.pprof(types=kinds, values=lambda n: [n * 4, n * 4096, n, n * 1024]))
    total = sum(n for _, _, n in foreign.STACKS)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in stacks(path, "--metric", "alloc")) == total * 4096
    assert sum(int(line.rsplit(" ", 1)[1]) for line in stacks(path, "--metric", "peak")) == total * 1024
    functions = {f["name"]: f["alloc_bytes"] for f in report(path)["functions"]}
    assert functions["dgemm"] == 11 * 4096 and functions["fib"] == 7 * 4096


def test_inlined_functions_of_pprof(tmp_path: Path) -> None:
    """A location's functions, innermost first there and last here."""
    path = written(tmp_path, foreign.pprof(inlined=True))
    assert (
        "main (app.py:10);work (app.py:20);outer (o.c:5);middle (inlined) (m.c:4);dgemm (inlined) (libblas.so.3) 11"
        in stacks(path)
    )


def symbol_in(path: Path, name: str) -> Tuple[int, int, int, str]:
    """Its address, the file's offset and address of the segment that it is in, and the build id."""
    address = next(
        int(line.split()[0], 16) for line in run(["nm", path]).stdout.splitlines() if line.split()[-1] == name
    )
    for line in run(["readelf", "-lW", path]).stdout.splitlines():
        words = line.split()
        if words[:1] == ["LOAD"] and int(words[2], 16) <= address < int(words[2], 16) + int(words[5], 16):
            offset, at = int(words[1], 16), int(words[2], 16)
    build_id = re.search("Build ID: ([0-9a-f]+)", run(["readelf", "-n", path]).stdout)
    assert build_id
    return address, offset, at, build_id.group(1)


def test_addresses_are_named_by_the_file_of_the_same_build(tmp_path: Path) -> None:
    """pprof: an address of a mapping. Firefox: an address in a library. Another build at that path names nothing."""
    address, offset, at, build_id = symbol_in(FATHOM, "fm_import_file")
    for known_id, name in ((build_id, "fm_import_file (import.c:"), (build_id[::-1], "0x")):
        s = foreign.Strings()
        body = foreign.message(1, foreign.number(1, s("samples")) + foreign.number(2, s("count")))
        body += foreign.message(2, foreign.packed(1, [5]) + foreign.packed(2, [3]))
        start = 0x7F0000000000
        body += foreign.message(3, foreign.number(1, 9) + foreign.number(2, start) + foreign.number(3, start + (1 << 24)) + foreign.number(4, offset)
                                + foreign.number(5, s(str(FATHOM))) + foreign.number(6, s(known_id)))  # fmt: skip
        body += foreign.message(
            4, foreign.number(1, 5) + foreign.number(2, 9) + foreign.number(3, start + address + 4 - at)
        )
        pprof = body + b"".join(foreign.message(6, text.encode()) for text in s.all)
        (line,) = stacks(written(tmp_path, pprof, "pprof"))
        assert line.startswith(name) and line.endswith(" 3"), line
        gecko = {
            "meta": {"interval": 1, "stackwalk": 1, "version": 30},
            "libs": [{"path": str(FATHOM), "codeId": known_id.upper()}],
            "threads": [{
                "pid": "1", "tid": 1, "name": "t", "stringArray": ["0x1234"], "samples": {"stack": [0], "time": [1.5]},
                "stackTable": {"frame": [0], "prefix": [None]}, "frameTable": {"func": [0], "address": [address + 4]},
                "funcTable": {"name": [0], "resource": [0]}, "resourceTable": {"lib": [0]},
            }],
        }  # fmt: skip
        (line,) = stacks(written(tmp_path, json.dumps(gecko).encode(), "gecko"))
        assert line.startswith(name) and line.endswith(" 1"), line


def test_wall_time_of_pprof(tmp_path: Path) -> None:
    """Where both are there, what is not CPU time is waiting; where only elapsed time is, that is said."""
    both = written(
        tmp_path,
        foreign.pprof(types=(("cpu", "microseconds"), ("wall", "microseconds")), values=lambda n: [n * 1000, n * 3000]),
        "both",
    )
    told = report(both)
    assert (round(told["cpu_s"] * 1000), round(told["time"]["wait_s"] * 1000)) == (41, 82)
    wall = written(tmp_path, foreign.pprof(types=(("wall", "seconds"),), values=lambda n: [n]), "wall")
    assert "whether threads ran or waited" in coverage(wall) and round(report(wall)["cpu_s"]) == 41


def test_what_a_source_did_not_know_is_said(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        foreign.pprof(
            types=(("samples", "count"), ("cpu", "nanoseconds"), ("cache-misses", "misses")), values=lambda n: [n, n, n]
        ),
        "p",
    )
    assert "values of type cache-misses (misses)" in coverage(path)
    filtered = written(tmp_path, foreign.pprof(more=foreign.number(7, 1)), "f")
    assert "drop_frames" in coverage(filtered)
    assert "each is shown as 1 ms" in coverage(written(tmp_path, foreign.collapsed(), "c"))
    assert "markers" in coverage(written(tmp_path, foreign.gecko_raw(), "g"))


@pytest.mark.parametrize("name", foreign.FILES)
def test_a_file_that_is_cut_off_says_where(name: str, tmp_path: Path) -> None:
    """Anywhere: one line with the place and exit code 1, or (text between two lines) a whole file."""
    content = foreign.FILES[name]()
    is_packed, is_text = name.endswith(".gz"), name.startswith("collapsed")
    for share in (0.3, 0.6, 0.8, 0.97):
        cut = content[: int(len(content) * share)]
        done = run([FATHOM, "import", "-o", tmp_path / "out.fathom", written(tmp_path, cut)])
        if is_text and not is_packed:
            cut_line = cut.splitlines()[-1]
            assert (done.returncode == 0) == bool(re.search(rb" \d+$", cut_line)), (share, done.stderr)
            continue
        lines = done.stderr.splitlines()
        assert done.returncode == 1 and len(lines) == 1, (share, done.stderr)
        assert re.search(r"(byte|line) \d+: |is not a Fathom profile", lines[0]), lines
        if "the part before it is in" in lines[0]:
            assert "the rest of the imported file" in coverage(tmp_path / "out.fathom")
        else:
            assert not (tmp_path / "out.fathom").exists()
        (tmp_path / "out.fathom").unlink(missing_ok=True)


def test_what_came_before_the_damage_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, b"a (x.py:1) 3\nb (x.py:2) 4\nno count\nc (x.py:3) 5\n")
    # Its third line is no stack, so that it is recognised only when it is named.
    done = fathom("import", "--from", "collapsed", "-o", tmp_path / "kept", path, code=1)
    assert f"{path}: line 3: a stack should end in a count" in done.stderr and "the part before it is in" in done.stderr
    assert stacks(tmp_path / "kept") == ["a (x.py:1) 3", "b (x.py:2) 4"]
    assert "line 3" in coverage(tmp_path / "kept")


@pytest.mark.parametrize(
    "content",
    [
        b"hello, world\n",
        b"{}",
        b'{"traceEvent": []}',
        b"\x00" * 100,
        b"\x1f\x8b",
        b"\n\n",
        b"[1, 2, 3]",
        b"\x89PNG\r\n\x1a\n",
    ],
)
def test_unknown_content_is_one_line_that_names_what_is_known(content: bytes, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    for command in (["report"], ["import", "-o", tmp_path / "x"], ["export", "-f", "collapsed"]):
        lines = fathom(*command, path, code=1).stderr.splitlines()
        assert (
            len(lines) == 1
            and "is not a Fathom profile" in lines[0]
            and "collapsed, " in lines[0]
            and "speedscope" in lines[0]
        )


def test_wrong_use(tmp_path: Path) -> None:
    path = written(tmp_path, foreign.collapsed())
    assert "no format named 'pprofs'" in fathom("import", "--from", "pprofs", path, code=2).stderr
    assert "name the profile to import" in fathom("import", code=2).stderr
    assert "over itself" in fathom("import", "-o", path, path, code=1).stderr
    assert path.read_bytes() == foreign.collapsed()
    assert "No such file" in fathom("import", "-o", tmp_path / "x", tmp_path / "nowhere", code=1).stderr
    assert "cannot write" in fathom("import", "-o", tmp_path / "no" / "x", path, code=1).stderr


def test_impossible_references_are_damage(tmp_path: Path) -> None:
    """Numbers of frames, stacks and locations that the file does not define."""
    broken = {
        "does not define a frame of this number": foreign.speedscope().replace(b'"samples": [[0]', b'"samples": [[99]'),
        "ends before the frames": foreign.speedscope_evented().replace(
            b', {"type": "C", "frame": 3, "at": 1.513}', b""
        ),
        "another number of weights": foreign.speedscope().replace(b'"weights": [3, ', b'"weights": ['),
        "a sample has a stack": foreign.gecko().replace(b'"stack": [0, ', b'"stack": [77, '),
        "a stack is its own caller": foreign.gecko(shared=False, offsets=False).replace(
            b'"prefix": [null, 0', b'"prefix": [null, 1'
        ),
        "a location that the file does not define": foreign.pprof().replace(
            foreign.packed(1, [101, 100]), foreign.packed(1, [99, 100])
        ),
        "another number of values": foreign.pprof(values=lambda n: [n]),
    }
    for words, content in broken.items():
        assert words in fathom("import", "-o", tmp_path / "x", written(tmp_path, content), code=1).stderr


def test_names_that_try_to_break_out(tmp_path: Path) -> None:
    """They are shown as names of our own captures are: nothing reaches the terminal that drives it."""
    hostile = "\x1b[31mred\u202e\u2028;x\x07"
    content = (
        foreign.speedscope()
        .replace(b'"main"', json.dumps(hostile).encode())
        .replace(b"MainThread", json.dumps(hostile)[1:-1].encode())
    )
    path = written(tmp_path, content)
    for command in (["report"], ["export", "-f", "collapsed", "--threads"], ["report", "--tree"]):
        shown = fathom(*command, path).stdout
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028]", shown)


def test_memory_is_bounded(tmp_path: Path) -> None:
    """160 MB of lines in 48 MB of writable memory."""
    lines = b"".join(
        b"main (app.py:1);" + b"work (app.py:2);" * 8 + b"leaf_%d (app.py:%d) 1\n" % (i % 50, i % 50)
        for i in range(10000)
    )
    path = written(tmp_path, gzip.compress(lines, 1) * 100)
    assert len(lines) * 100 > 160_000_000
    limit = 48 << 20
    done = run(
        [FATHOM, "import", "-o", tmp_path / "out.fathom", path],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr
    assert sum(int(line.rsplit(" ", 1)[1]) for line in stacks(tmp_path / "out.fathom")) == 1_000_000


def test_packed_bombs_end_early(tmp_path: Path) -> None:
    """A file that unpacks to gigabytes costs no memory: lines and fields have a longest."""
    bomb = gzip.compress(b"a" * (17 << 20), 1)
    assert (
        "a line is longer"
        in fathom("import", "--from", "collapsed", "-o", tmp_path / "x", written(tmp_path, bomb), code=1).stderr
    )
