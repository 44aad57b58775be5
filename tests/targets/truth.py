# What the programs with known answers share: random slices of work, their true CPU time measured by the program itself.
#
# A slice lasts 1 to 10 ms at random, so nothing is periodic and nothing can be in step with a sampler. Its truth is the thread's
# own CPU clock before and after, read in the caller: two reads, 1 us, against a millisecond and more.
import json
import random
import sys
import time

truth = {}  # name: CPU nanoseconds, calibration included: nothing runs in a function that is not counted


def measure(name, work, *args):
    start = time.thread_time_ns()
    work(*args)
    ns = time.thread_time_ns() - start
    truth[name] = truth.get(name, 0) + ns
    return ns


def per_ms(name, work):
    """How much of work(n) takes a millisecond."""
    n = 8
    while True:
        ns = min(measure(name, work, n) for _ in range(3))
        if ns > 300000:
            return n * 1e6 / ns
        n *= 2


def run_slices(shares, seconds, slice_ms=(1, 10)):
    """Calls work(n) of shares {name: (work, relative share)} in random slices."""
    names = sorted(shares)
    rates = {name: per_ms(name, shares[name][0]) for name in names}
    weights = [shares[name][1] for name in names]
    end = time.thread_time_ns() + int(seconds * 1e9)
    while time.thread_time_ns() < end:
        (name,) = random.choices(names, weights)
        measure(name, shares[name][0], max(1, int(rates[name] * random.uniform(*slice_ms))))


def write(path):
    with open(path, "w") as f:
        json.dump({name: ns * 1e-9 for name, ns in truth.items()}, f)


def arguments():
    """(file for the truth, seconds, other arguments)"""
    return sys.argv[1], float(sys.argv[2]), sys.argv[3:]
