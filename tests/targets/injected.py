"""Something to load the agent into: a thread that splits its CPU time 1 : 2 and one that keeps and drops blocks, for SECONDS, or
until standard input ends. Says "ready" first."""

import signal
import sys
import threading
import time

SECONDS = float(sys.argv[1])
kept = []
over = []  # not empty: standard input has ended


def spin(s: float) -> None:
    end = time.thread_time() + s
    while time.thread_time() < end:
        sum(range(100))


def one() -> None:
    spin(0.007)


def two() -> None:
    spin(0.014)


def keep() -> None:
    kept.append(bytearray(1_000_000))  # line: keep


def work() -> None:
    end = time.monotonic() + SECONDS
    while (time.monotonic() < end and not over) or len(kept) < 20:  # also where it gets little CPU
        one()
        two()
        if len(kept) < 20:
            keep()


n_urgent = 0


def count(*_: object) -> None:
    global n_urgent
    n_urgent += 1


signal.signal(signal.SIGUSR1, count)
if not sys.stdin.isatty():
    threading.Thread(target=lambda: over.append(sys.stdin.read()), daemon=True).start()
thread = threading.Thread(target=work)
thread.start()
print("ready", flush=True)
thread.join()
print("kept", len(kept), "signals", n_urgent)
