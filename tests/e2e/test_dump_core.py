# SPDX-License-Identifier: Apache-2.0
"""fathom dump --core: the stacks and variables of a program that crashed, out of the file that the kernel wrote."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import Python, find_pythons
from guest import FATHOM, clean_env, run

PATTERN = Path("/proc/sys/kernel/core_pattern").read_text().strip()

# Crashes five calls deep in a function that C code called, while one thread waits for a lock and another wants the GIL.
PROGRAM = """
import ctypes, os, threading, time
lock = threading.Lock()
def waiter(label):
    api_token = "hunter2"
    with lock:
        pass
def spin():
    while True:
        sum(range(100))
def crash(depth, text):
    if depth:
        return crash(depth - 1, text)
    ctypes.string_at(0)  # line 14
lock.acquire()
threading.Thread(target=waiter, args=("w1",), name="waiter-1", daemon=True).start()
threading.Thread(target=spin, name="spinner", daemon=True).start()
time.sleep(0.2)
sorted([1], key=lambda x: crash(4, "hello"))
"""


def allow_cores() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def crash(python: Python, folder: Path, program: str = PROGRAM) -> Path:
    if PATTERN.startswith("|") or "/" in PATTERN:
        pytest.skip(f"cores go to {PATTERN} here")
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("no cores: ulimit -c is 0")
    (folder / "program.py").write_text(program)
    command = [python.path, "program.py"]
    done = subprocess.run(
        command, cwd=folder, env=clean_env(), preexec_fn=allow_cores, stderr=subprocess.DEVNULL, timeout=60
    )
    assert done.returncode == -signal.SIGSEGV
    (core,) = [p for p in folder.iterdir() if p.name.startswith("core")]
    return core


def dump(core: Path, *options: str) -> Dict[str, Any]:
    done = run([FATHOM, "dump", "--core", core, "--json", *options])
    assert (done.returncode, done.stderr) == (0, "")
    result: Dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.pythons(8, 11, 15)
def test_a_crash(python: Python, tmp_path: Path) -> None:
    core = crash(python, tmp_path)
    result = dump(core, "--locals")
    assert (result["schema"], result["signal"]) == ("fathom.dump/1", signal.SIGSEGV)
    assert result["python"].startswith(f"3.{python.minor}")
    first, *others = result["threads"]
    assert (first["tid"], first["state"], first["has_gil"]) == (
        result["pid"],
        "ended the process",
        python.kind != "freethreaded",
    )
    names = [f["name"] for f in first["frames"]]
    own = [(f["name"], f["line"]) for f in first["frames"] if f["file"].endswith("program.py")]
    assert own == [("crash", 14), *[("crash", 13)] * 4, ("<lambda>", 19), ("<module>", 19)]
    assert names.index("string_at") < names.index("crash")  # what crashed is native, and innermost
    values = [{v["name"]: v["value"] for v in f["locals"]} for f in first["frames"] if f["name"] == "crash"]
    assert values == [{"depth": str(n), "text": "'hello'"} for n in range(5)]
    by_name = {t["name"]: t for t in others}
    assert set(by_name) == {"waiter-1", "spinner"}
    waiting = by_name["waiter-1"]
    assert waiting["state"] == "waiting" and not waiting["has_gil"]
    frame = next(f for f in waiting["frames"] if f["name"] == "waiter")
    assert frame["line"] == 6 and {v["name"]: v["value"] for v in frame["locals"]} == {
        "label": "'w1'",
        "api_token": "***",
    }
    assert any(f["name"] == "spin" for f in by_name["spinner"]["frames"])


def test_text(tmp_path: Path) -> None:
    core = crash(find_pythons()[-1], tmp_path)
    done = run([FATHOM, "dump", "--core", core])
    assert done.returncode == 0
    assert "\nEnded by signal 11: Segmentation fault\n" in done.stdout and ": ended the process" in done.stdout


def test_cut_short_and_damaged(tmp_path: Path) -> None:
    """What is there is shown, and what is not is told. Nothing that a file says ends us."""
    core = crash(find_pythons()[-1], tmp_path)
    whole = core.read_bytes()
    cut = tmp_path / "cut"
    for n in (3, 1000, 20_000, len(whole) // 2, len(whole) - 4096):
        cut.write_bytes(whole[:n])
        done = run([FATHOM, "dump", "--core", cut])
        assert done.returncode in (0, 1) and re.match(r"fathom: .*\n", done.stderr), done
        assert done.returncode == 1 or "cut short" in done.stderr
    for seed in range(30):
        damaged = bytearray(whole)
        for k in range(40):
            at = (seed * 2654435761 + k * 40503 * (seed + 1)) % 60_000
            damaged[at] = (damaged[at] + seed + k + 1) % 256
        cut.write_bytes(damaged)
        assert run([FATHOM, "dump", "--core", cut, "--locals"]).returncode in (0, 1)


def test_another_file_where_one_was_mapped(tmp_path: Path) -> None:
    """An upgrade since: names from the new library would be wrong ones."""
    python = find_pythons()[-1]
    source = tmp_path / "part.c"
    library = tmp_path / "libpart.so"
    source.write_text("int crash(int x) { *(volatile int *)0 = x; return x; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,--build-id", "-o", str(library), str(source)], check=True)
    core = crash(python, tmp_path, f"import ctypes\nctypes.CDLL({str(library)!r}).crash(1)\n")
    assert "crash" in [f["name"] for f in dump(core)["threads"][0]["frames"]]
    source.write_text("int a_new_one(int x) { return x + 1; }\nint crash(int x) { return x; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,--build-id", "-o", str(library), str(source)], check=True)
    done = run([FATHOM, "dump", "--core", core])
    assert done.returncode == 0 and f"{library} is not the file that the process had mapped" in done.stderr
    assert "a_new_one" not in done.stdout and " crash (" not in done.stdout


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--core", "nowhere"], "cannot open nowhere"),
        (["--core", sys.executable], "is not a core file"),
        (["--core", "/dev/zero"], "is not a core file"),
        (["--core", "x", "-p", "1"], "not both"),
        (["--core", "x", "--children"], "for running processes"),
    ],
)
def test_refused(arguments: List[str], words: str, tmp_path: Path) -> None:
    done = run([FATHOM, "dump", *arguments], cwd=tmp_path)
    assert done.returncode in (1, 2) and done.stdout == ""
    assert done.stderr.startswith("fathom: ") and done.stderr.count("\n") == 1 and words in done.stderr, done.stderr


def test_who_has_the_gil(tmp_path: Path) -> None:
    """Of a running program, too: one thread holds it in a call that never lets go."""
    code = (
        "import re, threading, time\n"
        "def hold(): re.match(r'(a+)+$', 'a' * 40 + 'b')\n"
        "threading.Thread(target=hold, name='holder', daemon=True).start()\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=clean_env()) as target:
        try:
            time.sleep(1)
            done = run([FATHOM, "dump", "-p", str(target.pid), "--json"])
            os.kill(target.pid, 0)
        finally:
            target.kill()
    assert {t["name"]: t["has_gil"] for t in json.loads(done.stdout)["threads"]} == {
        "MainThread": False,
        "holder": True,
    }
