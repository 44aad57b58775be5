# Python against native code that Python calls: a library through ctypes, with the GIL released (CDLL) and held (PyDLL).
import ctypes

import truth

path, seconds, (library,) = truth.arguments()
released = ctypes.CDLL(library).spin
held = ctypes.PyDLL(library).spin
for function in (released, held):
    function.argtypes = [ctypes.c_uint64]
    function.restype = ctypes.c_uint64


def pure(n):
    for _ in range(n): pass  # line: pure


def free(n):
    released(n)  # line: free


def holding(n):
    held(n)  # line: holding


truth.run_slices({"pure": (pure, 40), "free": (free, 35), "holding": (holding, 25)}, seconds)
truth.write(path)
