"""Python and C by turns: C loops without the GIL, C loops with it, and C that calls back into Python."""

import common

ctypes, path = common.native_library()
free = ctypes.CDLL(path)  # releases the GIL around each call
held = ctypes.PyDLL(path)  # keeps it
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)
for library in (free, held):
    library.bench_spin.argtypes = [ctypes.c_uint64]
    library.bench_spin.restype = ctypes.c_uint64
    library.bench_each.argtypes = [ctypes.c_uint64, ctypes.c_uint64, CALLBACK]
    library.bench_each.restype = ctypes.c_uint64


def visit(value):
    total = 0
    for i in range(20):
        total += value ^ i
    return total


callback = CALLBACK(visit)


def unit():
    free.bench_spin(30000)
    held.bench_spin(30000)
    free.bench_each(20, 1000, callback)


def body(units):
    for _ in range(units):
        unit()


if __name__ == "__main__":
    common.run("native_ext", 11000, body)
