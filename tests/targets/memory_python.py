"""Python's own memory, on lines that the test knows: what is kept, what comes and goes, and each allocator by its own name."""

import ctypes
import sys
import time

KEPT = 300000
CHURNED = 200000


def keep():
    floats = [None] * KEPT
    for i in range(KEPT):
        floats[i] = i * 0.5
    return floats


def churn():
    for _ in range(CHURNED):
        bytes(200)


def domains():
    for name in ("PyObject_Malloc", "PyMem_Malloc", "PyMem_RawMalloc"):
        get, put = getattr(ctypes.pythonapi, name), getattr(ctypes.pythonapi, name.replace("Malloc", "Free"))
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        put.restype, put.argtypes = None, [ctypes.c_void_p]
        big = [get(1 << 20) for _ in range(4)]
        small = [get(300) for _ in range(10000)]
        for p in big + small:
            put(p)


kept = keep()
churn()
domains()
big = bytearray(64 << 20)
print("here", time.monotonic_ns(), sys.flags.dev_mode, flush=True)
