# SPDX-License-Identifier: Apache-2.0
"""A program with a handler of its own for the ticks' signal gets its own signals, all of them, and none of ours: whenever it sets the handler, and also where the
agent came late and was not preloaded."""

import os
import subprocess
from pathlib import Path

from capture import ROOT, Python
from guest import clean_env, run, under

N_RUNS = int(os.environ.get("FATHOM_TEST_STRAYS", "3"))

# Signals are sent one by one, as two that are pending are one. Other threads keep the machine busy, so that ticks are on their way at any moment; where there is a GIL
# they get no signal of the program's, as Python's own handler runs wherever the kernel likes.
PREAMBLE = """
import os, signal, sys, threading, time
handled = {}
sent = {}
def set_handler(name):
    def handler(number, frame):
        handled[name] = handled.get(name, 0) + 1
    signal.signal(signal.SIGURG, handler)
def send(name, n):
    for _ in range(n):
        sent[name] = sent.get(name, 0) + 1
        os.kill(os.getpid(), signal.SIGURG)
        until = time.monotonic() + 10
        while handled.get(name, 0) < sent[name] and time.monotonic() < until: pass
def spin(cpu_s):
    end = time.thread_time() + cpu_s
    while time.thread_time() < end: pass
def check():
    spin(0.005)
    assert handled == sent, (handled, sent)
threads = [threading.Thread(target=spin, args=(0.05,)) for _ in range(2)]
"""

INSIDE = """
assert signal.getsignal(signal.SIGURG) == signal.SIG_DFL
for thread in threads: thread.start()
spin(0.01)
set_handler("inside")
send("inside", 5)
spin(0.03)
for thread in threads: thread.join()
check()
print(handled)
"""

BEFORE_INSIDE_AFTER = """
import fathom
for i in range(int(sys.argv[1])):
    set_handler("before")
    send("before", 2)
    profiler = fathom.Profiler(sys.argv[2])
    profiler.enable()
    threads = [threading.Thread(target=spin, args=(0.05,)) for _ in range(2)]
    for thread in threads: thread.start()
    send("before", 2)
    spin(0.01)
    check()
    set_handler("inside")
    spin(0.01)
    send("inside", 2)
    profiler.disable()
    profiler.close() # while the threads still run
    send("inside", 2)
    check()
    for thread in threads: thread.join()
    check()
    set_handler("after")
    send("after", 2)
    check()
    signal.signal(signal.SIGURG, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGURG) # ignored, as ever
    assert "fathom" not in str(signal.getsignal(signal.SIGURG))
print("as sent")
"""


def inside(python: Python, script: Path, profile: Path) -> "subprocess.CompletedProcess[str]":
    env = clean_env({"PYTHONPATH": str(ROOT / "python")})
    return run([python.path, "-m", "fathom", "-o", profile, script], env=env)


def test_handler_set_inside(python: Python, tmp_path: Path) -> None:
    script = tmp_path / "inside.py"
    script.write_text(PREAMBLE + INSIDE)
    for i in range(N_RUNS):
        done = inside(python, script, tmp_path / "p.fathom")
        assert (done.returncode, done.stdout) == (0, "{'inside': 5}\n"), (i, done.stderr)
    done = run([*under(tmp_path / "q.fathom"), python.path, script])
    assert (done.returncode, done.stdout) == (0, "{'inside': 5}\n"), done.stderr


def test_handlers_around_a_profiler(python: Python, tmp_path: Path) -> None:
    script = tmp_path / "around.py"
    script.write_text(PREAMBLE + BEFORE_INSIDE_AFTER)
    env = clean_env({"PYTHONPATH": str(ROOT / "python")})
    done = run([python.path, script, str(N_RUNS), tmp_path / "p.fathom"], env=env, timeout=120 + N_RUNS)
    assert (done.returncode, done.stdout) == (0, "as sent\n"), done.stderr
