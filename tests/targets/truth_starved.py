# FILE turns: three functions by random turns, 6 : 3 : 1, until the standard input ends. Who runs this stops its collector now and then.
# FILE moment: first() and second() take turns, 8 : 2; the collector is stopped for one stretch of first(); when second() runs, "second" is printed for who lets it go on. A sample
# then shows second(), and stands for what first() did.
import os
import random
import select
import signal
import sys
import time

import truth

AWAKE_S = 0.3
STOPPED_S = 0.4
MOST_S = 0.6  # of the clock: of a second and more the collector would know


def first(n):
    x = 0
    for i in range(n):
        x ^= i


def second(n):
    total = 0.0
    for i in range(n):
        total = total * 0.5 + i


def third(n):
    return sum(range(n))


def take_turns(chances, goes_on):
    """The CPU seconds that it took."""
    start_s = time.thread_time()
    while goes_on():
        (work,) = random.choices(WORKS, chances)
        truth.measure(work.__name__, work, int(rates[work] * random.uniform(1, 5)))
    return time.thread_time() - start_s


def for_cpu(seconds, clock_s=60.0):
    cpu_end, end = time.thread_time() + seconds, time.monotonic() + clock_s
    return lambda: time.thread_time() < cpu_end and time.monotonic() < end


WORKS = (first, second, third)
path, mode = sys.argv[1:]
rates = {work: truth.per_ms(work.__name__, work) for work in WORKS}
print("ready", flush=True)
if mode == "turns":
    take_turns((6, 3, 1), lambda: not select.select([sys.stdin], [], [], 0)[0])
else:
    take_turns((8, 2, 0), for_cpu(AWAKE_S))
    os.kill(os.getppid(), signal.SIGSTOP)
    truth.truth["stopped"] = 1e9 * take_turns((1, 0, 0), for_cpu(STOPPED_S, MOST_S))
    print("second", flush=True)
    take_turns((0, 1, 0), for_cpu(0.02))
truth.write(path)
