# SPDX-License-Identifier: Apache-2.0
"""fathom top: a full screen over a recording that is made for it."""

import os
import subprocess
import sys
import time
from pathlib import Path


def test_top_on_a_terminal(fathom: Path, tmp_path: Path) -> None:
    """In a terminal of its own: the hottest function is there within seconds, keys work, and nothing is left behind."""
    import pty
    import select

    code = "def hot():\n  while True: sum(range(1000))\nprint('ready', flush=True)\nhot()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout and target.stdout.readline() == "ready\n"
        pid, fd = pty.fork()
        if pid == 0:
            os.environ.update(TMPDIR=str(tmp_path), COLUMNS="100", LINES="30", TERM="xterm")
            os.execv(fathom, ["fathom", "top", "-p", str(target.pid)])
        seen = b""

        def read_until(word: bytes, seconds: float = 30) -> None:
            nonlocal seen
            seen, end = b"", time.monotonic() + seconds
            while word not in seen and time.monotonic() < end:
                if select.select([fd], [], [], 0.2)[0]:
                    seen += os.read(fd, 65536)
            assert word in seen, seen[-2000:]

        read_until(b"hot (<string>:2)")
        os.write(fd, b"?")
        read_until(b"sorts functions by own time")
        os.write(fd, b"?")
        read_until(b"THREADS")
        os.write(fd, b"d")
        read_until(b"press any key to go back")
        assert b"Process %d" % target.pid in seen
        os.write(fd, b"x")
        read_until(b"THREADS")
        os.write(fd, b"r")
        read_until(b"recording is kept")
        os.write(fd, b"q")
        try:
            read_until(b"the recording is ")
        finally:
            _, status = os.waitpid(pid, 0)
            target.kill()
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
    (kept,) = tmp_path.glob("fathom-top-*/*")
    assert kept.name == "top.fathom"
