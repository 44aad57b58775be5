"""A master that waits, and workers that work: two at first, one more when a line comes, and one that becomes another program by exec. Each worker's
CPU time goes to a function of its own. Ends with its input. Says "ready" first.
"""

import os
import signal
import sys
from typing import Callable, List


def spin() -> None:
    sum(range(1000))


def first() -> None:
    while True:
        spin()


def second() -> None:
    while True:
        spin()


def late() -> None:
    while True:
        spin()


def start(what: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        what()
    return pid


def other_program() -> int:
    code = "def other():\n while True: sum(range(1000))\nother()"
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    return pid


def main() -> None:
    pids: List[int] = [start(first), start(second)]
    print("ready", *pids, flush=True)
    if sys.stdin.readline():
        pids += [start(late), other_program()]
        print("more", *pids[2:], flush=True)
        sys.stdin.readline()
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


main()
