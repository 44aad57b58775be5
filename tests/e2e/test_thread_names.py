# SPDX-License-Identifier: Apache-2.0
"""Threads have the names that Python's threading gives them, whatever the version; those given by the system's means stay."""

import json
import subprocess
import time
from pathlib import Path
from typing import Dict

from capture import find_pythons
from guest import FATHOM, clean_env, pick_python, report, run

# Threads that live long enough to be looked at on the busiest machine, and say who they are. They end when the file is gone.
PROGRAM = """
import ctypes, json, os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

stay, said = sys.argv[1:3]
names = {}

def live(before=lambda: None):
    before()
    me = threading.current_thread()
    names[threading.get_native_id()] = me
    while os.path.exists(stay):
        sum(range(20000))
        time.sleep(0.02)

def naps():  # too short to be looked at twice, and no CPU time to be sampled by
    names[threading.get_native_id()] = threading.current_thread()
    while os.path.exists(stay):
        time.sleep(0.1)

class WithDict(threading.Thread):
    def __init__(self):
        super().__init__(name="of a class")
        self.more = vars(self)  # now its attributes are a dictionary's

    def run(self):
        live()

class WithManyAttributes(threading.Thread):
    def __init__(self):
        super().__init__()
        for i in range(40):
            setattr(self, "attribute%d" % i, i)
        self.name = "of many attributes"

    def run(self):
        live()

def prctl():
    ctypes.CDLL(None).prctl(15, b"by the system", 0, 0, 0)

def rename():
    time.sleep(0.2)
    threading.current_thread().name = "renamed later"

threads = [
    threading.Thread(target=live, args=(rename,), name="at first"),
    threading.Thread(target=live),
    threading.Thread(target=live, name="gr\\u00f6\\u00dfe \\u4e2d\\u6587 \\U0001f40d"),
    threading.Thread(target=live, name="a name that is cut " + 9 * "too long "),
    threading.Thread(target=live, args=(prctl,), name="not by Python"),
    threading.Thread(target=naps, name="mostly asleep"),
    WithDict(),
    WithManyAttributes(),
]
for t in threads:
    t.start()
pool = ThreadPoolExecutor(1, thread_name_prefix="a pool of workers")
pool.submit(live)
while len(names) < 9:
    time.sleep(0.01)
with open(said + ".part", "w") as file:
    json.dump({"pid": os.getpid(), "names": {tid: t.name for tid, t in names.items()}}, file)
os.rename(said + ".part", said)
while os.path.exists(stay):
    time.sleep(0.02)
"""


def expected(said: Path) -> Dict[int, str]:
    names = {int(tid): name for tid, name in json.loads(said.read_text())["names"].items()}
    for tid, name in names.items():
        if name == "not by Python":
            names[tid] = "by the system"
        elif len(name.encode()) > 63:
            names[tid] = name[:63]
    return names


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.05)


def test_names_of_threading(tmp_path: Path) -> None:
    """All versions side by side: their threads mostly sleep."""
    script, stay = tmp_path / "app.py", tmp_path / "stay"
    script.write_text(PROGRAM)
    stay.touch()
    runs = []
    for python in find_pythons():
        out, said = tmp_path / f"{python}.fathom", tmp_path / f"{python}.json"
        command = [FATHOM, "record", "-o", out, "--", python.path, script, stay, said]
        runs.append((python, out, said, subprocess.Popen(command, env=clean_env())))
    for _, _, said, _ in runs:
        wait_for(said)
    time.sleep(2.5)  # a look at names each second
    stay.unlink()
    wrong = {}
    for python, out, said, process in runs:
        assert process.wait(60) == 0, python
        threads = {t["tid"]: t["name"] for t in report(out)["threads"]}
        assert threads[json.loads(said.read_text())["pid"]] == "MainThread", python
        assert "" not in threads.values(), (python, threads)
        wrong[str(python)] = {
            name: threads.get(tid) for tid, name in expected(said).items() if threads.get(tid) != name
        }
    assert wrong == {version: {} for version in wrong}


def test_names_in_a_dump(tmp_path: Path) -> None:
    """Of a process that was not started by Fathom."""
    script, stay, said = tmp_path / "app.py", tmp_path / "stay", tmp_path / "said"
    script.write_text(PROGRAM)
    stay.touch()
    python = pick_python(11) or pick_python()
    assert python
    process = subprocess.Popen([python.path, str(script), str(stay), str(said)], env=clean_env())
    try:
        wait_for(said)
        done = run([FATHOM, "dump", "--json", "-p", str(process.pid)])
        assert done.returncode == 0, done.stderr
        threads = {t["tid"]: t["name"] for t in json.loads(done.stdout)["threads"]}
        assert {tid: threads.get(tid) for tid in expected(said)} == expected(said)
    finally:
        stay.unlink()
        assert process.wait(60) == 0
