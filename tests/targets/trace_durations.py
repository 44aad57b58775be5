"""Calls whose times are known between two bounds: what the function itself measured from within, and its caller from around it."""

import json
import random
from time import perf_counter_ns as clock


def stretch(ns):
    begin = clock()
    while clock() - begin < ns:
        pass
    return clock() - begin


def down(n):
    stretch(100000)
    if n:
        down(n - 1)


def ping(n):
    stretch(50000)
    if n:
        pong(n - 1)


def pong(n):
    stretch(50000)
    if n:
        ping(n - 1)


def main(wanted):
    begin = clock()
    inner, outer = [], []
    for ns in wanted:
        before = clock()
        inner.append(stretch(ns))
        outer.append(clock() - before)
    before = clock()
    down(9)
    between = clock()
    ping(9)
    after = clock()
    return {
        "inner": sorted(inner),
        "outer": sorted(outer),
        "down": between - before,
        "ping": after - between,
        "wall": after - begin,
    }


durations = [int(10000 * 1.01**k) for k in range(500)]  # 10 us to 1.4 ms
random.Random(1).shuffle(durations)
start = clock()
truth = main(durations)
truth["wall_around"] = clock() - start
print(json.dumps(truth))
