# Time split evenly over a part in native code and a part in Python, by turns of random length: LOW to HIGH milliseconds, from the command line.
# What reading the clock takes is no part's: of slices as short as 0.1 ms it would be percents.
import time
import zlib

import truth

BLOCK = bytes(range(256)) * 64


def native_part(n):
    for _ in range(n):
        zlib.crc32(BLOCK)


def python_part(n):
    x = 0
    for i in range(n):
        x ^= i
    return x


def nothing(n):
    pass


def empty_ns():
    """What a slice that does nothing is measured to take."""
    took = []
    for _ in range(1000):
        start = time.thread_time_ns()
        nothing(0)
        took.append(time.thread_time_ns() - start)
    return sorted(took)[len(took) // 2]


path, seconds, (low, high) = truth.arguments()
read_ns = empty_ns()
bare = truth.measure
counts = {}


def measure(name, work, *args):
    counts[name] = counts.get(name, 0) + 1
    return bare(name, work, *args)


truth.measure = measure
truth.run_slices({"native_part": (native_part, 1), "python_part": (python_part, 1)}, seconds, (float(low), float(high)))
for name in truth.truth:
    truth.truth[name] -= counts[name] * read_ns
truth.write(path)
