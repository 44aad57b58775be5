"""Threads made in native code take and leave the GIL: their thread states begin and end with each call.

chaos: needs native_threads
"""

import ctypes
import os
import sys

scale = float(sys.argv[1])
library = ctypes.CDLL(os.path.join(os.environ["CHAOS_HELPERS"], "native_threads.so"))
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)
library.run_threads.restype = ctypes.c_long
library.run_threads.argtypes = [CALLBACK, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def down(n):
    return 1 + down(n - 1) if n else sum(i for i in range(30))


@CALLBACK
def called(i):
    return down(i % 120)


print(sum(library.run_threads(called, 4, int(350 * scale) + 1, 20000) for _ in range(8)))
