# SPDX-License-Identifier: Apache-2.0
"""Processes with a root, or process ids, of their own, as containers have; and what processes and threads are called."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
from capture import TARGETS, Capture, Python

SPIN = """
import sys, zlib
data = bytes(range(256)) * 4096
def squeeze():
    while True:
        zlib.crc32(data)
print("ready", flush=True)
squeeze()
"""


def may_unshare(*options: str) -> None:
    done = subprocess.run(["unshare", *options, "true"], stderr=subprocess.DEVNULL)
    if done.returncode:
        pytest.skip("this user may not make namespaces")


def dump(fathom: Path, *options: str) -> Dict[str, Any]:
    done = subprocess.run([str(fathom), "dump", "--json", *options], stdout=subprocess.PIPE, check=True)
    found: Dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[int]:
    """The pid of a Python in a root of its own. The libz that it uses lies by a path that there is only there."""
    may_unshare("--mount")
    libz = next((p for p in Path("/").glob("*lib*/*/libz.so.1")), None) or next(Path("/").glob("usr/lib*/libz.so.1"))
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(libz, tmp_path / "elsewhere" / "libz.so.1")
    (tmp_path / "spin.py").write_text(SPIN)
    script = TARGETS / "container.sh"
    command = ["unshare", "--mount", "sh", str(script), str(tmp_path), sys.base_prefix, "--"]
    command += ["/opt/py/bin/python%d.%d" % sys.version_info[:2], "spin.py"]
    env = {**os.environ, "LD_LIBRARY_PATH": "/work/elsewhere"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout and process.stderr
        if process.stdout.readline() != "ready\n":
            pytest.skip("no root of its own can be made here: " + process.stderr.read())
        yield process.pid
        process.kill()


def test_native_names_in_a_container(fathom: Path, contained: int, tmp_path: Path) -> None:
    out = tmp_path / "p.fathom"
    subprocess.run([str(fathom), "record", "-p", str(contained), "-o", str(out), "-d", "1.5"], check=True)
    capture = Capture(out, None)  # type: ignore[arg-type]
    frames = {frame for stack, _ in capture.collapsed("--native-all") for frame in stack if "libz.so.1" in frame}
    assert frames and all("crc32" in frame for frame in frames), frames
    (why,) = {c["why"] for c in capture.report["coverage"] if c["what"].endswith("/work/elsewhere/libz.so.1")}
    assert why == "the file is in a container; the report shows the names recorded with the capture, without lines"
    (thread,) = dump(fathom, "-p", str(contained))["threads"]
    natives = {f["name"] for f in thread["frames"] if f["module"] == "libz.so.1"}
    assert natives and all("crc32" in name for name in natives), thread


def test_the_remedies_of_a_container_are_its_own(fathom: Path, contained: int, tmp_path: Path) -> None:
    out = tmp_path / "p.fathom"
    subprocess.run([str(fathom), "record", "-p", str(contained), "-o", str(out), "-d", "0.5"], check=True)
    text = subprocess.run([str(fathom), "report", str(out)], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "was replaced since the capture" not in text and "the machine that was profiled" not in text


@pytest.mark.parametrize("options", [["--pid", "--fork"]], ids=" ".join)
def test_a_pid_namespace_of_its_own(python: Python, fathom: Path, tmp_path: Path, options: List[str]) -> None:
    """PID 1 in there is another process outside. /proc is still the outer one."""
    may_unshare(*options)
    program = tmp_path / "program.py"
    program.write_text(
        "import os, threading, time\n"
        "def work(s):\n"
        "    end = time.thread_time() + s\n"
        "    while time.thread_time() < end: sum(range(1000))\n"
        "def other(): work(0.3)\n"
        "assert os.getpid() == 1\n"
        "t = threading.Thread(target=other)\n"
        "t.start(); work(0.4); t.join()\n"
    )
    out = tmp_path / "p.fathom"
    command = [str(fathom), "record", "-o", str(out), "--", "unshare", *options, python.path, str(program)]
    subprocess.run(command, check=True)
    report = Capture(out, None).report  # type: ignore[arg-type]
    seconds = {f["name"]: f["total_s"] for f in report["functions"] if f["kind"] == "python"}
    assert 0.6 < seconds["work"] < 0.8 and 0.25 < seconds["other"] < 0.35, seconds
    assert {p["pid"] for p in report["processes"]}.isdisjoint({1, 0})
    by_pid = {p["pid"]: p for p in report["processes"]}
    inner = [p for p in report["processes"] if p["command"][:1] == [python.path]]
    assert inner and all(p["parent"] in by_pid for p in inner), report["processes"]
    assert 0.6 < report["cpu_s"] < 1.5


def test_from_outside_into_a_pid_namespace(python: Python, fathom: Path, tmp_path: Path) -> None:
    """Dump and record by the number that it has here; in there it is process 1."""
    options = ["--pid", "--fork", "--kill-child"]
    may_unshare(*options)
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, threading, time\n"
        "def inner():\n"
        "    while not over: sum(range(1000))\n"
        "over = []\n"
        "t = threading.Thread(target=inner)\n"
        "t.start(); print('ready', os.getpid(), flush=True)\n"
        "sys.stdin.read(); over.append(1); t.join()\n"
    )
    pipe, out = subprocess.PIPE, tmp_path / "p.fathom"
    command = ["unshare", *options, python.path, str(program)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as outer:
        assert outer.stdout and outer.stdout.readline() == "ready 1\n"
        pid = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0]
        shown = dump(fathom, "-p", pid)
        subprocess.run([str(fathom), "record", "-p", pid, "-o", str(out), "-d", "1.5"], check=True)
        outer.communicate("", timeout=60)
    assert outer.returncode == 0
    assert any(f["name"] == "inner" for t in shown["threads"] for f in t["frames"]), shown
    report = Capture(out, None).report  # type: ignore[arg-type]
    assert [p["pid"] for p in report["processes"]] == [int(pid)]
    assert "inner" in {f["name"] for f in report["functions"]} and report["cpu_s"] > 0.1


POOL = """
import multiprocessing, sys, time
def nap(_): time.sleep(60)
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    pool = multiprocessing.Pool(2)
    other = multiprocessing.Process(target=nap, args=(1,), name="my own")
    other.start()
    pool.map_async(nap, [1, 2])
    time.sleep(0.5)
    print("ready", flush=True)
    sys.stdin.readline()
    pool.terminate(); other.terminate()
"""


def test_workers_have_their_names(python: Python, fathom: Path, tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    env = {**os.environ, "PMI_RANK": "3"}
    with subprocess.Popen(
        [python.path, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        found = dump(fathom, "-p", str(process.pid), "--children")
        out = tmp_path / "p.fathom"
        subprocess.run([str(fathom), "record", "-p", str(process.pid), "-o", str(out), "-d", "0.5"], check=True)
        process.communicate("\n")
    expected = ["ForkPoolWorker-1", "ForkPoolWorker-2", "my own", "rank 3"]
    assert sorted(p["name"] for p in found["processes"]) == expected
    assert sorted(p["name"] for p in Capture(out, None).report["processes"]) == expected  # type: ignore[arg-type]
    mains = {t["pid"]: t["name"] for t in found["threads"] if t["pid"] == t["tid"]}
    assert set(mains.values()) == {"MainThread"}, mains


def test_workers_of_a_launched_program_have_their_names(fathom: Path, tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    out = tmp_path / "p.fathom"
    command = [str(fathom), "record", "-o", str(out), "--", sys.executable, str(script)]
    subprocess.run(command, input="\n", stdout=subprocess.PIPE, text=True, check=True)
    names = [p["name"] for p in Capture(out, None).report["processes"]]  # type: ignore[arg-type]
    assert sorted(n for n in names if n) == ["ForkPoolWorker-1", "ForkPoolWorker-2", "my own"]


def test_a_title_is_a_name(fathom: Path, tmp_path: Path) -> None:
    """What setproctitle does: it writes over the memory of the arguments."""
    program = tmp_path / "titled.py"
    program.write_text(
        "import ctypes, sys, time\n"
        "def retitle(text):\n"
        "    start = int(open('/proc/self/stat').read().rpartition(')')[2].split()[45])\n"
        "    ctypes.memmove(start, text, len(text) + 1)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "retitle(b'worker: busy')\n"
        "time.sleep(60)\n"
    )
    out = tmp_path / "p.fathom"
    with subprocess.Popen(
        [sys.executable, str(program), "a" * 40], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == "ready\n"
        recording = subprocess.Popen([str(fathom), "record", "-p", str(process.pid), "-o", str(out), "-d", "1.5"])
        time.sleep(0.4)
        process.stdin.write("\n")
        process.stdin.flush()
        assert recording.wait(timeout=30) == 0
        process.kill()
    (known,) = Capture(out, None).report["processes"]  # type: ignore[arg-type]
    assert known["name"].startswith("worker: busy") and str(program) in known["command"]


def test_sentences_after_an_attach(fathom: Path, tmp_path: Path) -> None:
    """What is said of a launched program is not true of one that was looked at from outside."""
    code = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.01)"
    out = tmp_path / "p.fathom"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        subprocess.run([str(fathom), "record", "-p", str(process.pid), "-o", str(out), "-d", "0.5"], check=True)
        process.kill()
    text = subprocess.run([str(fathom), "report", str(out)], stdout=subprocess.PIPE, text=True, check=True).stdout
    text = " ".join(text.split())
    assert "own work" not in text and "--repeat" not in text and "Memory usage" not in text, text
    assert "Use a longer --duration" in text
    assert "requested per second" in text and "second of CPU time" not in text
