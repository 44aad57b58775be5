"""A thread that always wants to run and seldom gets a CPU: of the lowest class, beside a process that takes the whole CPU. Says "ready" first."""

import os
import sys
import time


def spin() -> None:
    while True:
        sum(range(100))


def hog(parent: int, until: float) -> None:
    while os.getppid() == parent and time.monotonic() < until:
        for _ in range(100000):
            pass


until = time.monotonic() + float(sys.argv[1])
me = os.getpid()
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print("ready", flush=True)
if os.fork() == 0:
    hog(me, until)
    os._exit(0)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
spin()
