"""Tracers of C that note what was there before them, put it back, and pass events on to it: alone, one in another, in threads.

chaos: needs native_tracer
chaos: case trace trace
chaos: case profile profile
chaos: case threads trace threads
"""

import ctypes
import os
import sys
import threading

scale = float(sys.argv[1])
is_trace = sys.argv[2] == "trace"
is_threaded = "threads" in sys.argv
library = ctypes.PyDLL(os.path.join(os.environ["CHAOS_HELPERS"], "native_tracer.so"))
library.tracer_start.argtypes = [ctypes.py_object, ctypes.c_int, ctypes.c_int, ctypes.c_long]
library.tracer_start.restype = library.tracer_stop.restype = None
library.tracer_count.restype = ctypes.c_long
# From 3.12 on sys.monitoring calls these functions, in another way.
HEAD = 56 if sys.version_info < (3, 11) else 64 if sys.version_info < (3, 12) else 0


class Tracer:
    pass


def leaf(n):
    if n % 2:
        return n
    return -n


def numbers(n):
    for i in range(n):
        yield leaf(i)


def work(n):
    try:
        return sum(numbers(n)) + len([leaf(i) for i in range(3)])
    finally:
        leaf(n)


def traced(n, passes_on):
    tracer = Tracer()
    library.tracer_start(tracer, is_trace, passes_on, HEAD)
    total = work(n)
    if HEAD and n % 3 == 0:
        total += traced(n - 1, passes_on)
    library.tracer_stop()
    return total + work(2)


def run(results, key):
    total = 0
    for i in range(int(60 * scale) + 1):
        total += traced(i % 7, 0) + traced(i % 5, 1) + work(4)
    events = [library.tracer_count(what) for what in ((0, 1, 2, 3) if is_trace else (0, 3))]
    # From 3.12 on our own tool of sys.monitoring makes the interpreter leave out or repeat some.
    results[key] = (total, events if HEAD else all(events))


results = {}
if is_threaded:
    threads = [threading.Thread(target=run, args=(results, key)) for key in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
run(results, "main")
print(sorted(map(str, results.items())), sys.gettrace(), sys.getprofile())
