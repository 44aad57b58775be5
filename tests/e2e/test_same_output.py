# SPDX-License-Identifier: Apache-2.0
"""What a program reads, prints and returns is the same with Fathom; a terminal stays a terminal."""

import os
import pty
import select
import subprocess
import textwrap
import time
from pathlib import Path
from typing import List, Tuple

import pytest
from capture import Python
from guest import FATHOM, clean_env, default_signals, run, some_pythons, under

each_python = True  # conftest: chosen here
PROGRAMS = {
    "streams": """
        import sys
        sys.stdout.write("out 1\\n"); sys.stderr.write("err 1\\n")
        for line in sys.stdin: print("got", line.strip())
        sys.stdout.buffer.write(bytes(range(256))); sys.stdout.flush()
        sys.exit(17)
        """,
    "environment": """
        import os, sys, threading
        # Names only: what Fathom needs to reach children is in the environment, and nothing else.
        print(sorted(k for k in os.environ if k not in ("LD_PRELOAD", "FATHOM_RING")))
        print(sys.argv, os.getcwd(), threading.active_count(), sys.getprofile(), sys.gettrace(), sys.flags)
        print(len(os.listdir("/proc/self/task")), sorted(os.listdir("/proc/self/fd"))[:4])
        print(sorted(m for m in sys.modules if "fathom" in m or "agent" in m))
        """,
    "traceback": """
        def deep(n):
            if n == 0: raise ValueError("the end")
            deep(n - 1)
        deep(30)
        """,
    "recursion": """
        import sys
        n = 0
        def down():
            global n
            n += 1
            down()
        try: down()
        except RecursionError: print("limit", n > 900)
        """,
    "syntax": "def (:",
}


@pytest.mark.parametrize("what", list(PROGRAMS))
@pytest.mark.parametrize("python", some_pythons(), ids=str)
def test_same(what: str, python: Python, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAMS[what]))
    command = [python.path, str(script), "an argument", "--rate", "-o"]
    bare = run(command, input="one\ntwo\n", cwd=tmp_path)
    done = run([*under(tmp_path / "p.fathom"), *command], input="one\ntwo\n", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == (bare.stdout, bare.stderr, bare.returncode)
    # run prints its report after the program's own output, and nothing else.
    quiet = run(
        [FATHOM, "run", "--quiet", "--python", python.path, "--output-dir", tmp_path / "results", *command[1:]],
        input="one\ntwo\n",
        cwd=tmp_path,
    )
    assert (quiet.stdout, quiet.stderr, quiet.returncode) == (bare.stdout, bare.stderr, bare.returncode)


def in_terminal(command: List[str], typed: List[Tuple[bytes, bytes]]) -> Tuple[bytes, int]:
    """Runs a command as a user would, who types each answer a moment after its question.

    Returns all that the terminal showed, and the exit status."""
    pid, fd = pty.fork()
    if pid == 0:
        default_signals()
        os.execvpe(command[0], command, clean_env())
    shown, typed = b"", list(typed)
    while True:
        ready, _, _ = select.select([fd], [], [], 30)
        try:
            chunk = os.read(fd, 65536) if ready else b""
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
        if typed and typed[0][0] in shown:
            time.sleep(0.3)
            os.write(fd, typed.pop(0)[1])
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    return shown, os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


TERMINAL = """
import os, sys, time
print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), os.getpgrp() == os.tcgetpgrp(0))
try:
    print("got", input("ready "))
    time.sleep(20)
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(5)
"""


@pytest.mark.parametrize("python", some_pythons(), ids=str)
def test_terminal(python: Python, tmp_path: Path) -> None:
    """Also Ctrl-C as the terminal gives it: to all in the foreground."""
    script = tmp_path / "terminal.py"
    script.write_text(TERMINAL)
    command = [python.path, str(script)]
    typed = [(b"ready", b"hello\n"), (b"got hello", b"\x03")]
    bare = in_terminal(command, typed)
    done = in_terminal([*under(tmp_path / "p.fathom"), *command], typed)
    assert b"True True True True" in bare[0] and bare[1] == 5, bare
    assert done == bare


@pytest.mark.parametrize("python", some_pythons(), ids=str)
def test_pipe_reader_leaves(python: Python, tmp_path: Path) -> None:
    """SIGPIPE and its like keep their meaning for the program: Fathom's own handling is not inherited."""
    script = "import signal; print([signal.getsignal(s) == signal.SIG_IGN for s in (2, 3, 15, 1, 25)])"
    bare = run([python.path, "-c", script])
    done = run([*under(tmp_path / "p.fathom"), python.path, "-c", script])
    assert done.stdout == bare.stdout
    for command in ([], under(tmp_path / "p.fathom")):
        process = subprocess.run(
            ["sh", "-c", '"$@" | head -n 1', "sh", *command, "yes"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
        )
        assert (process.stdout, process.stderr) == (b"y\n", b"")
