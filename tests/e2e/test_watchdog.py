# SPDX-License-Identifier: Apache-2.0
"""fathom run --dump-after and --dump-on-hang: what all threads do when a program takes too long, or when nothing moves."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import List

HANG = """
import sys, threading, time
def stuck(lock, request_id):
    lock.acquire()
def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: sum(range(1000))
work(float(sys.argv[1]))
lock = threading.Lock()
lock.acquire()
t = threading.Thread(target=stuck, args=(lock, 4711), daemon=True)
t.start()
t.join(float(sys.argv[2]))
print("went on")
"""


def run_hang(fathom: Path, tmp_path: Path, options: List[str], *args: str) -> "subprocess.CompletedProcess[str]":
    script = tmp_path / "hang.py"
    script.write_text(HANG)
    command = [str(fathom), "run", "-q", "--cpu", *options, "--output-dir", str(tmp_path / "out")]
    return subprocess.run(
        [*command, "--python", sys.executable, str(script), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )


def test_a_program_that_hangs_is_dumped_and_goes_on(fathom: Path, tmp_path: Path) -> None:
    done = run_hang(fathom, tmp_path, ["--dump-on-hang", "1"], "1.5", "3")
    assert done.returncode == 0 and done.stdout == "went on\n"
    assert done.stderr.count("nothing moved for ") == 1, done.stderr
    (file,) = (tmp_path / "out").glob("hang/*/stacks_*.txt")
    for text in (done.stderr, file.read_text()):
        assert "stuck (" in text and "request_id=4711" in text and "join" in text


def test_a_program_that_works_is_not_said_to_hang(fathom: Path, tmp_path: Path) -> None:
    done = run_hang(fathom, tmp_path, ["--dump-on-hang", "1"], "3", "0.1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


def test_a_program_that_takes_long_is_dumped_and_ended(fathom: Path, tmp_path: Path) -> None:
    done = run_hang(fathom, tmp_path, ["--dump-after", "8", "--end-after-dump"], "0.1", "60")
    assert done.returncode == 128 + signal.SIGTERM and done.stdout == ""
    assert "s (--dump-after)" in done.stderr and "stuck (" in done.stderr
