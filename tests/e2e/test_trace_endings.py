# SPDX-License-Identifier: Apache-2.0
"""`python -m fathom SCRIPT` is `python SCRIPT`: what a script finds in its own module, and how it ends, threads and all."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest
from capture import ROOT, Python
from tracing import ALL, FEW, pythons, rows_of, source

each_python = True  # tests name their Pythons themselves

NAMES = """
'''The script's own.'''
import inspect, pickle, sys
def function(): pass
class Thing: pass
for name in sorted(set(vars()) - {"name"}):
    print(name, vars()[name] if name.startswith("__") and name not in ("__builtins__", "__loader__") else type(vars()[name]))
print(__builtins__.len("four"), function.__code__.co_filename, inspect.getsource(function).strip(), inspect.getfile(Thing))
print(type(pickle.loads(pickle.dumps(Thing()))), sys.argv, sys.path[0])
print(type(__loader__).__name__, __loader__.get_filename(), __loader__.is_package("__main__"))
"""

# What is said before and after the other threads are done, and the status.
ENDINGS: Dict[str, str] = {
    "an executor that nobody shuts down": """
from concurrent.futures import ThreadPoolExecutor
executor = ThreadPoolExecutor(2)
print(sum(executor.map(abs, range(-10, 0))))
""",
    "an exception while a thread goes on": """
import sys, threading
def slow():
    threading.main_thread().join()
    print("the thread is done", file=sys.stderr, flush=True)
threading.Thread(target=slow).start()
def fails(): 1 / 0
fails()
""",
    "an exit with a text while a thread goes on": """
import sys, threading
def slow():
    threading.main_thread().join()
    print("the thread is done", file=sys.stderr, flush=True)
threading.Thread(target=slow).start()
sys.exit("no more")
""",
    "an exit with a status": "import sys; sys.exit(7)",
    "an exit with no status": "import sys; sys.exit(None)",
    "a closed standard output": "import sys; print('once', flush=True); sys.stdout.close()",
    "no standard output": "import sys; print('once', flush=True); sys.stdout = None",
    "an interrupt": """
import os, signal
def waits():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000000): pass
waits()
""",
    "exit functions": """
import atexit, threading
atexit.register(lambda: print(threading.main_thread().is_alive()))
threading.Thread(target=print, args=("thread",)).start()
""",
    "a fork that runs to the end twice": """
import atexit, os
atexit.register(lambda: print("exit", flush=True))
pid = os.fork()
if pid: os.waitpid(pid, 0)
""",
    "a syntax error": "def f(:\\n    pass",
}


def run_both(python: Python, program: str) -> List["subprocess.CompletedProcess[str]"]:
    """Bare, and traced."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = []
    for command in ([], ["-m", "fathom", "--quiet", "-o", "t.fathom"]):
        done.append(
            subprocess.run(
                [python.path, *command, program],
                cwd=Path(program).parent,
                env={**env, "PYTHONPATH": str(ROOT / "python")},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
            )
        )
    return done


@pythons(FEW)
def test_a_script_finds_what_it_always_finds(python: Python, tmp_path: Path) -> None:
    source(tmp_path, NAMES)
    for name in ("program.py", str(tmp_path / "program.py")):
        os.chdir(tmp_path)
        bare, ours = run_both(python, name)
        assert bare.returncode == 0, bare.stderr
        assert (ours.stdout, ours.stderr) == (bare.stdout, bare.stderr)


@pythons([ALL[0], FEW[-1]])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_ends_as_it_always_does(python: Python, tmp_path: Path, ending: str) -> None:
    bare, ours = run_both(python, source(tmp_path, ENDINGS[ending]))
    assert (ours.returncode, ours.stdout, ours.stderr) == (bare.returncode, bare.stdout, bare.stderr)


def test_what_threads_do_after_the_main_one_is_traced(tmp_path: Path) -> None:
    text = "def late():\n    for _ in range(50): step()\ndef step(): pass\n"
    text += "import threading, time\n"
    text += "threading.Thread(target=lambda: (time.sleep(0.2), late())).start()\nraise SystemExit(3)\n"
    bare, ours = run_both(ALL[-1], source(tmp_path, text))
    assert bare.returncode == ours.returncode == 3
    calls = {row["name"]: row["calls"] for row in rows_of(tmp_path / "t.fathom")}
    assert calls["step"] == 50 and calls["late"] == 1
