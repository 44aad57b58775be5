"""Calls through libraries and back: Python, native, Python, native ... in an order that the test knows.

chain.py SECONDS LIBRARY...: each library has PREFIX_enter(callback), PREFIX_deep(callback), PREFIX_spin(rounds), PREFIX being its
name up to the first underscore. In the first round (py_warm_up) each runs for a moment only.
"""

import ctypes
import os
import sys
import time

state = {}


def py_inner():
    state["spin"](3)


def py_middle():
    state["deep"](py_inner)


def py_outer():
    state["enter"](py_middle)


def py_loop(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        py_outer()


def py_main(seconds, paths):
    for path in paths:
        py_use(path)
        py_loop(seconds)


def py_warm_up(paths):
    for path in paths:
        py_use(path)
        py_loop(0.05)


def py_use(path):
    prefix = os.path.basename(path).partition("_")[0]
    library = ctypes.PyDLL(path)
    for name, kind in (("enter", ctypes.py_object), ("deep", ctypes.py_object), ("spin", ctypes.c_long)):
        function = getattr(library, prefix + "_" + name)
        function.argtypes = [kind]
        function.restype = None
        state[name] = function


if __name__ == "__main__":
    py_warm_up(sys.argv[2:])
    py_main(float(sys.argv[1]), sys.argv[2:])
