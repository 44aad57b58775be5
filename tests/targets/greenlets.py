"""Greenlets that go on by turns, begun at different depths: greenlets.py FOLDER_OF_GREENLET SECONDS

Prints what each one's work took, by the thread's own CPU clock, and how long the third one slept. Each has a stack of its own: none of
their functions stands under a function of another greenlet, nor of the main program.
"""

import json
import sys
import time

sys.path.insert(0, sys.argv[1])
from greenlet import getcurrent, greenlet  # noqa: E402

took = {"burn_a": 0.0, "burn_b": 0.0, "nap": 0.0}
end = time.thread_time() + float(sys.argv[2])


def burn_a(n):
    s = 0
    for i in range(n):
        s += i * i
    return s


def burn_b(n):
    s = 0
    for i in range(n):
        s += i * i
    return s


def a_inner():
    while time.thread_time() < end:
        start = time.thread_time()
        burn_a(40000)
        took["burn_a"] += time.thread_time() - start
        b.switch()


def b_inner():
    while True:
        start = time.thread_time()
        sorted([1, 2], key=lambda _: burn_b(10000))  # through C
        took["burn_b"] += time.thread_time() - start
        a.switch()


def nap(seconds):
    start = time.monotonic()
    time.sleep(seconds)
    took["nap"] += time.monotonic() - start


def a_outer():
    a_inner()
    c.switch()


def b_outer():
    b_inner()


def c_outer():
    nap(0.3)
    main.switch()


def begin_deeper(n):
    return begin_deeper(n - 1) if n else a.switch()


main = getcurrent()
a, b, c = greenlet(a_outer), greenlet(b_outer), greenlet(c_outer)
begin_deeper(7)
print(json.dumps(took))
