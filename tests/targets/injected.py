"""Something to load the agent into: a thread that splits its CPU time 1 : 2 and one that keeps and drops blocks, for SECONDS. Says "ready" first."""

import signal
import sys
import threading
import time

SECONDS = float(sys.argv[1])
kept = []


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
    while time.monotonic() < end:
        one()
        two()
        if len(kept) < 20:
            keep()


n_urgent = 0


def count(*_: object) -> None:
    global n_urgent
    n_urgent += 1


signal.signal(signal.SIGUSR1, count)
thread = threading.Thread(target=work)
thread.start()
print("ready", flush=True)
thread.join()
print("kept", len(kept), "signals", n_urgent)
