# SPDX-License-Identifier: Apache-2.0
"""Files of other Python profilers: profiling.sampling (Tachyon), austin, Scalene, memray. Every sample and byte that they have comes out."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
from capture import find_pythons
from guest import coverage, fathom, report, run

MB = 1 << 20


def stacks(path: Path, *options: str) -> Dict[str, int]:
    lines = fathom("export", "-f", "collapsed", *options, path).stdout.splitlines()
    return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in lines}


# ---- Tachyon ----

TACHYON = [p for p in find_pythons() if p.minor >= 15 and p.kind == "release"]


def varint(v: int) -> bytes:
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def zigzag(v: int) -> bytes:
    return varint(v << 1 if v >= 0 else -v * 2 - 1)


def tachyon(records: bytes, order: str = "<") -> bytes:
    """A file with four frames: main (a.py:9), work (a.py:5), work (a.py:6), <GC>; an interval of 2 ms."""
    strings = b"".join(varint(len(s)) + s for s in (b"/a.py", b"main", b"work", b"~", b"<GC>"))
    frames = b"".join(
        varint(f) + varint(n) + zigzag(line) + zigzag(0) + zigzag(4) + zigzag(8) + b"\xff"
        for f, n, line in ((0, 1, 9), (0, 2, 5), (0, 2, 6), (3, 4, -1))
    )
    head = struct.pack(order + "IIBBBxQQQIQQII", 0x54414348, 1, 3, 15, 2, 5000, 2000, 9, 2, 64 + len(records), 64 + len(records) + len(strings), 0, 0)  # fmt: skip
    size = 64 + len(records) + len(strings) + len(frames) + 32
    return head + records + strings + frames + struct.pack(order + "IIQ16x", 5, 4, size)


def tachyon_records(order: str = "<") -> bytes:
    a, b = struct.pack(order + "QI", 71, 0), struct.pack(order + "QI", 72, 0)
    return (
        a + b"\x01" + varint(100) + b"\x03" + varint(2) + varint(1) + varint(0)  # whole: work:5, main
        + a + b"\x00" + varint(2) + (varint(2000) + b"\x01") * 2  # the same twice more
        + b + b"\x01" + varint(50) + b"\x0c" + varint(1) + varint(0)  # the other thread wants the GIL
        + a + b"\x02" + varint(2000) + b"\x03" + varint(2) + varint(1) + varint(3)  # two shared, and <GC> inside
        + a + b"\x03" + varint(2000) + b"\x01" + varint(2) + varint(1) + varint(2)  # two popped, work:6 pushed
        + b + b"\x00" + varint(1) + varint(70000) + b"\x04"  # what it does without the GIL is not known
    )  # fmt: skip


@pytest.mark.parametrize("order", ["<", ">"])
def test_tachyon_by_hand(order: str, tmp_path: Path) -> None:
    """Each way to write a stack, in both byte orders; what the threads did."""
    path = tmp_path / "t"
    path.write_bytes(tachyon(tachyon_records(order), order))
    assert stacks(path, "--unit", "us", "--threads", "--idle") == {
        "thread (71);main (a.py:9);work (a.py:5)": 6000, "thread (71);main (a.py:9);work (a.py:5);<GC>": 2000,
        "thread (71);main (a.py:9);work (a.py:6)": 2000, "thread (72);main (a.py:9)": 4000}  # fmt: skip
    told = report(path)
    assert {k: round(told["time"][k] * 1000) for k in ("python_s", "gc_s", "gil_wait_s", "wait_s")} == {
        "python_s": 8, "gc_s": 2, "gil_wait_s": 2, "wait_s": 2}  # fmt: skip
    assert told["python"] == "3.15.2" and told["rate_hz"] == 500
    assert "they are shown as waiting" in coverage(path) and "native code: " in coverage(path)


@pytest.mark.skipif(not TACHYON, reason="needs Python 3.15")
@pytest.mark.parametrize("packing", ["zstd", "none"])
def test_tachyon(packing: str, tmp_path: Path) -> None:
    """As many samples of each stack as its own replay tells."""
    script, path, own = tmp_path / "s.py", tmp_path / "t.bin", tmp_path / "t.txt"
    script.write_text(
        "import gc, threading, time\ndef leaf(n):\n    return sum(i * i for i in range(n))\ndef work(t):\n    end = time.time() + t\n"
        "    while time.time() < end:\n        leaf(500)\n        gc.collect()\n"
        "t = threading.Thread(target=work, args=(0.15,))\nt.start()\nwork(0.15)\nt.join()\n"
    )
    tool = [TACHYON[-1].path, "-m", "profiling.sampling"]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "check": True, "timeout": 60}
    done = subprocess.run([*tool, "run", "--binary", "-a", "--native", "--compression", packing, "-o", path, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    if not path.exists():
        pytest.skip("profiling.sampling may not look into programs here: " + done.stderr.decode()[-200:])
    subprocess.run([*tool, "replay", "--collapsed", "-o", own, path], **quiet)  # type: ignore[call-overload]

    def plain(stack: str) -> str:
        """Names and lines, without the folders; what its own export leaves out is left out."""
        # A look at a frame that was just being made or left may know neither its file nor its line, which Tachyon writes as 0.
        frames = [re.sub(r" \(<unknown file>\)$", " (<unknown file>:0)", f) for f in stack.split(";")]
        frames = [re.sub(r"^(.*) \((.*):(\d+)\)$", r"\2:\1:\3", f) for f in frames]
        return ";".join(f for f in frames if "_sync_coordinator" not in f)

    truth = Counter({re.sub(r"^tid:(\d+)", r"thread (\1)", line.rsplit(" ", 1)[0]): int(line.rsplit(" ", 1)[1]) for line in own.read_text().splitlines()})  # fmt: skip
    found = Counter[str]()
    for stack, n in stacks(path, "--threads", "--idle").items():
        found[plain(stack)] += n
    assert sum(found.values()) == sum(truth.values()) > 20
    # Its own export knows neither the thread's number when it prints a name, nor native frames of its start-up.
    strip = Counter[str]()
    for counter, sign in ((found, 1), (truth, -1)):
        for stack, n in counter.items():
            strip[";".join(f for f in stack.split(";") if f != "<native>")] += sign * n
    assert not {k: v for k, v in strip.items() if v}


@pytest.mark.parametrize("what, said", [
    (lambda d: d[:4] + b"\x07" + d[5:], "version 7 of the format"), (lambda d: d[:-40], "damaged, or it was made by a Python before"),
    (lambda d: d[:64] + b"\xff" * 30 + d[94:], "byte 1"), (lambda d: d[:70], "ends in its head")])  # fmt: skip
def test_broken_tachyon(what: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(what(tachyon(tachyon_records())))
    done = fathom("report", path, code=1)
    assert said in done.stderr and done.stderr.count("\n") == 1


# ---- MOJO ----


def mojo_int(v: int) -> bytes:
    out, rest = [(v < 0) << 6 | abs(v) & 0x3F], abs(v) >> 6
    while rest:
        out, rest = [*out[:-1], out[-1] | 0x80, rest & 0x7F], rest >> 7
    return bytes(out)


class Mojo:
    def __init__(self, version: int, mode: str = "wall") -> None:
        self.version, self.data = version, b"MOJ" + mojo_int(version) + b"\x01mode\0" + mode.encode() + b"\0"

    def event(self, kind: int, *parts: Any) -> "Mojo":
        self.data += bytes([kind]) + b"".join(mojo_int(p) if isinstance(p, int) else p.encode() + b"\0" for p in parts)
        return self

    def sample(self, pid: int, tid: str) -> "Mojo":
        return self.event(2, pid, *([0] if self.version >= 3 else []), tid)

    def frame(self, key: int, file: int, name: int, line: int) -> "Mojo":
        return self.event(3, key, file, name, line, *([line, 1, 9] if self.version > 1 else []))


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_mojo(version: int, tmp_path: Path) -> None:
    """Definitions by process, idle and collecting samples, memory, a stack cut at its inner end; each version of the format."""
    m = Mojo(version, "full")
    m.sample(7, "0x1a").event(11, 2, "/p/app.py").event(11, 3, "work").event(11, 300, "leaf").event(11, 5, "libc.so.6").event(11, 6, "memcpy")  # fmt: skip
    m.frame(0, 2, 3, 5).frame(1, 2, 300, 130).frame(2, 5, 6, 0)
    m.event(5, 0).event(5, 1).event(9, 1000).event(10, 4096)
    m.sample(7, "0x1a").event(5, 0).event(5, 2).event(9, 131000).event(10, -100)
    m.sample(7, "1b").event(5, 0).event(7).event(9, 250)
    m.sample(7, "1b").event(5, 0).event(8).event(9, 750)
    m.sample(7, "1b").event(5, 0).event(4).event(9, 30)
    m.sample(8, "5").event(11, 2, "other.py").event(11, 3, "main").frame(0, 2, 3, 9).event(5, 0).event(9, 40)
    if version == 4:
        m.sample(7, "0x1a").event(14, 99, 0, 1).event(5, 1).event(6, "do_read").event(13).event(9, 7)
    path = tmp_path / "m"
    path.write_bytes(m.data)
    expected = {
        "process 7;thread (26);work (app.py:5);leaf (app.py:130)": 1000, "process 7;thread (26);work (app.py:5);memcpy (libc.so.6)": 131000,
        "process 7;thread (27);work (app.py:5)": 1000, "process 7;thread (27);work (app.py:5);[Python frames unreadable at this instant]": 30,
        "process 8;thread (5);main (other.py:9)": 40}  # fmt: skip
    if version == 4:  # work is what the thread's last stack has, but for native code; a task's frame is no frame of it
        expected["process 7;thread (26);work (app.py:5);do_read ([kernel])"] = 7
    found = stacks(path, "--unit", "us", "--processes", "--threads", "--idle")
    assert {re.sub(r'^(process \d+):""', r"\1", k): v for k, v in found.items()} == expected
    told = report(path)
    assert round(told["time"]["gc_s"] * 1e6) == 250 and round(told["time"]["wait_s"] * 1e6) == 750
    assert {f["name"]: f["alloc_bytes"] for f in told["functions"] if f["alloc_bytes"]} == {"leaf": 4096, "work": 4096} or (
        {f["name"]: f["alloc_bytes"] for f in told["functions"] if f["alloc_bytes"]} == {"leaf": 4096})  # fmt: skip
    assert "growth of resident memory" in coverage(path) and "does not say whose it was" in coverage(path)


@pytest.mark.parametrize("data, said", [
    (b"MOJ\x05", "version 5 of MOJO; Fathom knows 1 to 4"), (Mojo(4).event(5, 0).data, "before the first one"),
    (Mojo(4).sample(1, "2").event(5, 9).data, "a frame is not defined"), (Mojo(4).sample(1, "2").data + b"\x40", "the format has no event of this kind")])  # fmt: skip
def test_broken_mojo(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(data)
    done = fathom("report", path, code=1)
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_files_that_are_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    """Samples and texts lie across the borders of what is in memory."""
    path, n = tmp_path / "f", 30000
    path.write_bytes(tachyon(tachyon_records() * n))
    assert sum(stacks(path, "--idle").values()) == 7 * n
    m = Mojo(4)
    for i in range(n):
        m.sample(3, "77").event(11, 2 + i, f"/srv/{i % 50}.py").frame(i, 2 + i, 2 + i, 1 + i % 50).event(5, i).event(9, 10 + i % 50)  # fmt: skip
    path.write_bytes(m.data)
    assert len(m.data) > 1 << 20
    assert stacks(path, "--unit", "us") == {f"/srv/{k}.py ({k}.py:{k + 1})": (10 + k) * n // 50 for k in range(50)}


# ---- Scalene ----


def scalene_line(number: int, start: int, text: str, **figures: float) -> Dict[str, Any]:
    return {"lineno": number, "start_function_line": start, "line": text + "\n", "cpu_samples_list": [1.5], **figures}


SCALENE: Dict[str, Any] = {
    "alloc_samples": 3, "args": ["app.py", "-v"], "combined_stacks": [], "elapsed_time_sec": 2.0, "gpu": False,
    "files": {"/srv/app.py": {
        "functions": [{"line": "work", "lineno": 1}], "leaks": {"2": {"likelihood": 0.97}}, "percent_cpu_time": 100.0,
        "lines": [
            scalene_line(1, 1, "def work():"),
            scalene_line(2, 1, "    return [0] * 99", n_cpu_percent_python=10.0, n_cpu_percent_c=30.0, n_sys_percent=5.0, n_malloc_mb=8.0, n_peak_mb=6.0, n_python_fraction=0.75, n_mallocs=4, n_copy_mb_s=1.5),
            scalene_line(3, 0, "work(); work()", n_cpu_percent_python=55.0)]}},
    "stacks": [[["/srv/app.py <module>:3;", "/srv/app.py work:2;"], {"count": 9, "cpu_samples": 0.3}],
               [["/srv/my app.py run:7;", "/srv/app.py work:2;"], {"count": 3, "cpu_samples": 0.1}]],
    "memory_stacks": [[[{"display_name": "<module>", "filename_or_module": "/srv/app.py", "kind": "py", "line": 3}, {"display_name": "work", "filename_or_module": "/srv/app.py", "kind": "py", "line": 2}], 8.0]],
}  # fmt: skip


def test_scalene(tmp_path: Path) -> None:
    """Lines come out as they are in the file: Python, C and system by their shares of the time, memory by its own; stacks share what their line has."""
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SCALENE))
    lines = {line["line"]: line for line in report(path)["lines"] if line["file"] == "/srv/app.py"}
    times = {n: tuple(round(line[k] * 1e6) for k in ("python_s", "native_s", "system_s")) for n, line in lines.items()}
    assert times[2] == (200000, 600000, 100000) and times[3] == (1100000, 0, 0)
    assert (lines[2]["alloc_bytes"], lines[2]["peak_bytes"], lines[2]["copy_bytes"]) == (8 * MB, 6 * MB, 3 * MB)
    assert lines[2]["alloc_python_share"] == 0.75
    assert stacks(path, "--unit", "us") == {
        "<module> (app.py:3);work (app.py:2)": 675000, "run (my app.py:7);work (app.py:2)": 225000, "<module> (app.py:3)": 1100000}  # fmt: skip
    assert stacks(path, "--metric", "alloc") == {"<module> (app.py:3);work (app.py:2)": 8 * MB}
    told = report(path)
    assert told["command"] == ["app.py", "-v"] and told["wall_s"] == pytest.approx(2)
    assert "leaks that Scalene found" in coverage(path) and "GPU" not in coverage(path)
    assert "return [0] * 99" in fathom("report", path).stdout  # the file brings its source


# ---- memray ----

CSV = "allocator,num_allocations,size,tid,thread_name,stack_trace\n"
PEAK = (
    CSV
    + 'MALLOC,3,3000,1,"0x1 (a,b)",leaf;/a.py;3|main;/a.py;9\nPYMALLOC_CALLOC,2,50,1,0x1,main;/a.py;8\nMMAP,1,4096,1,0x1,operator new(unsigned long);/lib/libx.so;0|main;/a.py;9\n'
)
LIVE = CSV + "MALLOC,1,1000,1,0x1,leaf;/a.py;3|main;/a.py;9\nMALLOC,7,70,1,0x1,late;/a.py;20\n"


def test_memray_csv(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text(PEAK)
    assert stacks(path, "--metric", "alloc") == {
        "main (a.py:9);leaf (a.py:3)": 3000, "main (a.py:8)": 50, "main (a.py:9);operator new(unsigned long) (libx.so)": 4096}  # fmt: skip
    path.write_text(PEAK + "MALLOC,many,1,1,x,f;a.py;1\n")
    done = fathom("import", "-o", tmp_path / "kept.fathom", path, code=1)
    assert "line 5: this is not a row of memray's CSV" in done.stderr and done.stderr.count("\n") == 1


def programs(folder: Path, **scripts: str) -> Dict[str, str]:
    """An environment in which only these programs are found, and the system's."""
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:/usr/bin:/bin"}


def test_memray_recordings_are_read_by_memray(tmp_path: Path) -> None:
    """What is asked of memray, and what is made of its two answers; a stand-in for it answers, as its own format is not documented."""
    recording = tmp_path / "m.bin"
    recording.write_bytes(b"memray\0\x0d\0\0\0rest")
    (tmp_path / "peak.csv").write_text(PEAK)
    (tmp_path / "live.csv").write_text(LIVE)
    stand_in = (
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\npwd >> {tmp_path}/asked\ncase "$*" in\n'
        f'*--leaks*) cp {tmp_path}/live.csv "$8" ;;\n*) cp {tmp_path}/peak.csv "$7" ;;\nesac\n'
    )
    env = programs(tmp_path / "bin", python3=stand_in)
    done = fathom("import", "-o", tmp_path / "kept.fathom", recording, env=env)
    assert done.stderr == f"fathom: memray reads {recording}: 'python3 -m memray transform csv'\n"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0].startswith("-m memray transform csv -f -o /") and asked[0].endswith(f" {recording}")
    assert not Path(asked[1]).exists()  # an empty folder of its own, gone by now
    found = {
        f["name"]: (f["alloc_bytes"], f["peak_bytes"])
        for f in report(tmp_path / "kept.fathom")["functions"]
        if f["alloc_bytes"]
    }
    assert found["leaf"] == (3000, 3000) and found["late"][0] == 70
    assert "were freed before or after the peak" in coverage(tmp_path / "kept.fathom")


def test_without_memray_one_line_says_so(tmp_path: Path) -> None:
    recording = tmp_path / "m.bin"
    recording.write_bytes(b"memray\0\x0d\0\0\0rest")
    env = programs(tmp_path / "bin", python3='#!/bin/sh\necho "python3: No module named memray" >&2\nexit 1\n')
    done = fathom("report", recording, code=1, env=env)
    assert (
        "memray is not installed for python3; run 'pip install memray'" in done.stderr and done.stderr.count("\n") == 1
    )
    env = programs(tmp_path / "bad", python3='#!/bin/sh\necho "the file is from the future" >&2\nexit 1\n')
    done = fathom("report", recording, code=1, env=env)
    assert "memray could not read" in done.stderr and "the file is from the future" in done.stderr


def test_memray_without_a_python3(tmp_path: Path) -> None:
    recording = tmp_path / "m.bin"
    recording.write_bytes(b"memray\0\x0d\0\0\0rest")
    (tmp_path / "peak.csv").write_text(PEAK)
    copy = (
        f'#!/bin/sh\n[ "$3" = -f ] || exit 1\nwhile read -r line; do echo "$line"; done < {tmp_path}/peak.csv > "$5"\n'
    )
    env = {**programs(tmp_path / "bin", memray=copy), "PATH": str(tmp_path / "bin")}
    done = fathom("import", "-o", tmp_path / "kept.fathom", recording, env=env)
    assert done.stderr == f"fathom: memray reads {recording}: 'memray transform csv'\n"


def has_memray() -> bool:
    python = shutil.which("python3")
    return (
        bool(python) and subprocess.run([python or "", "-c", "import memray"], stderr=subprocess.PIPE).returncode == 0
    )


@pytest.mark.skipif(not has_memray(), reason="memray is not installed for python3")
def test_memray(tmp_path: Path) -> None:
    script, path = tmp_path / "s.py", tmp_path / "m.bin"
    script.write_text(
        "keep = []\ndef grow():\n    for _ in range(20):\n        keep.append(bytearray(100000))\ngrow()\n"
    )
    subprocess.run(["python3", "-m", "memray", "run", "-q", "-o", path, script], check=True)
    found = {f["name"]: f["peak_bytes"] for f in report(path)["functions"]}
    assert 2_000_000 <= found["grow"] < 2_100_000


def test_every_format_is_told_from_the_others(tmp_path: Path) -> None:
    """By content: each is recognised as itself alone."""
    files: List[Tuple[str, bytes]] = [
        ("tachyon", tachyon(tachyon_records())), ("mojo", Mojo(4).sample(1, "2").event(9, 5).data), ("scalene", json.dumps(SCALENE).encode()),
        ("memray-csv", PEAK.encode())]  # fmt: skip
    for name, content in files:
        path = tmp_path / name
        path.write_bytes(content)
        fathom("import", "-o", tmp_path / "out.fathom", path)
        assert f"imported|{name}" in run([sys.executable, Path(__file__).parents[1] / "reader" / "fathom_reader.py", tmp_path / "out.fathom"]).stdout  # fmt: skip
