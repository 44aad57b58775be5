# SPDX-License-Identifier: Apache-2.0
"""fathom dump --locals: what variables hold, read from outside; and which interpreter a thread is in."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import Python

PROGRAM = """
import time

class Thing:
    pass

def inner(number, text, /, *rest, flag=True, **more):
    small, negative, large, huge = 7, -123456789012, 2**40 + 1, 2**200
    real, nothing, raw = 1.5, None, b"12345"
    items, pair, table, unique = [1, 2, 3], (1, 2), {"a": 1}, {1, 2, 3, 4}
    thing, long_text, quoted = Thing(), "x" * 100, "it's\\n"
    password, api_token, greeting = "hunter2", "abc", "grüß dich"
    shared = 5
    def use():
        return shared
    deleted = 1
    del deleted
    print("ready", flush=True)
    time.sleep(60)
    return use, number, text, rest, flag, more

def outer():
    level = 1
    inner(3, "hello", 4, 5, other=6)

outer()
"""

EXPECTED = {
    "number": ("int", "3"),
    "text": ("str", "'hello'"),
    "rest": ("tuple", "<tuple, 2 items>"),
    "flag": ("bool", "True"),
    "more": ("dict", "<dict, 1 items>"),
    "small": ("int", "7"),
    "negative": ("int", "-123456789012"),
    "large": ("int", str(2**40 + 1)),
    "huge": ("int", "about 2**195"),
    "real": ("float", "1.5"),
    "nothing": ("NoneType", "None"),
    "raw": ("bytes", "<bytes, 5 bytes>"),
    "items": ("list", "<list, 3 items>"),
    "pair": ("tuple", "<tuple, 2 items>"),
    "table": ("dict", "<dict, 1 items>"),
    "unique": ("set", "<set, 4 items>"),
    "thing": ("Thing", "<Thing>"),
    "long_text": ("str", "'" + "x" * 60 + "'..."),
    "quoted": ("str", "'it\\'s\\n'"),
    "password": ("str", "***"),
    "api_token": ("str", "***"),
    "greeting": ("str", "'grüß dich'"),
    "use": ("function", "<function>"),
}


def each_python() -> None:
    """The layout differs from version to version."""


def pytest_generate_tests(metafunc: Any) -> None:
    from capture import find_pythons

    if "python" in metafunc.fixturenames:
        metafunc.parametrize("python", find_pythons(), ids=str)


def test_locals(python: Python, fathom: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen([python.path, str(program)], stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout and target.stdout.readline() == "ready\n"
        time.sleep(0.2)
        command = [str(fathom), "dump", "--locals", "-p", str(target.pid)]
        dump = json.loads(subprocess.run([*command, "--json"], stdout=subprocess.PIPE, check=True).stdout)
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        target.kill()
    (thread,) = dump["threads"]
    by_name: Dict[str, Any] = {f["name"]: f for f in thread["frames"]}
    found = {v["name"]: (v["type"], v["value"]) for v in by_name["inner"]["locals"]}
    expected = dict(EXPECTED)
    if python.minor >= 11:  # before, cells have names of their own, which are not read
        expected["shared"] = ("int", "5")
    assert found == expected
    assert {v["name"]: v["value"] for v in by_name["outer"]["locals"]} == {"level": "1"}
    assert "hunter2" not in text and "        small=7\n" in text and "        password=***\n" in text


def test_locals_of_a_thread_that_runs(fathom: Path) -> None:
    code = "def spin(limit):\n  n = 0\n  print('ready', flush=True)\n  while n < limit: n += 1\nspin(10**12)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout and target.stdout.readline() == "ready\n"
        seen: List[int] = []
        for _ in range(3):
            command = [str(fathom), "dump", "--locals", "--json", "-p", str(target.pid)]
            dump = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            frame = next(f for f in dump["threads"][0]["frames"] if f["name"] == "spin")
            values = {v["name"]: v["value"] for v in frame["locals"]}
            assert values["limit"] == str(10**12)
            seen.append(int(values["n"]))
        target.kill()
    assert seen == sorted(seen) and seen[0] < seen[-1]


SUBINTERPRETER = """
import sys, threading, time
try:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
except ImportError:
    import _interpreters as interpreters
    run = interpreters.exec

def nap():
    print("ready", flush=True)
    time.sleep(60)

def runner(interp):
    run(interp, "def inside():\\n    while True: pass\\ninside()")

interp = interpreters.create()
threading.Thread(target=runner, args=(interp,), daemon=True).start()
time.sleep(0.5)
nap()
"""


def test_each_thread_is_shown_in_its_own_interpreter(python: Python, fathom: Path, tmp_path: Path) -> None:
    if python.minor < 12 or python.kind == "freethreaded":
        pytest.skip("interpreters share their GIL")
    program = tmp_path / "sub.py"
    program.write_text(SUBINTERPRETER)
    with subprocess.Popen([python.path, str(program)], stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout and target.stdout.readline() == "ready\n"
        command = [str(fathom), "dump", "--json", "-p", str(target.pid)]
        dump = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        target.kill()
    names = {t["tid"]: [f["name"] for f in t["frames"]] for t in dump["threads"]}
    main = names.pop(target.pid)
    assert "nap" in main and "inside" not in main, main
    (other,) = names.values()
    assert "inside" in other, other
