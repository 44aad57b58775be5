"""Calls memory_calls.so: every function of native code on a line of its own. The test knows the truth of each line."""

import ctypes
import sys
import time

lib = ctypes.CDLL(sys.argv[1])
MIB = 1 << 20
HOWS = "malloc calloc realloc reallocarray memalign aligned_alloc valloc pvalloc posix_memalign mmap mmap64".split()


def blocks(how: str, size: int, n: int) -> None:
    kept = (ctypes.c_void_p * n)()
    name = how.encode()
    assert lib.get_all(name, ctypes.c_size_t(size), ctypes.c_size_t(n), kept) == 0
    print("kept", how, size, n, time.monotonic_ns(), flush=True)
    assert lib.put_all(name, ctypes.c_size_t(size), ctypes.c_size_t(n), kept) == 0
    print("freed", how, size, n, time.monotonic_ns(), flush=True)


def changes() -> None:
    kept = (ctypes.c_void_p * 1)()
    lib.get_all(b"malloc", ctypes.c_size_t(MIB), ctypes.c_size_t(1), kept)
    assert lib.grow(ctypes.c_size_t(MIB), ctypes.c_size_t(3 * MIB), kept) == 0  # grown
    lib.put_all(b"malloc", ctypes.c_size_t(MIB), ctypes.c_size_t(1), kept)
    lib.get_all(b"mmap", ctypes.c_size_t(MIB), ctypes.c_size_t(1), kept)
    assert lib.remap(ctypes.c_size_t(MIB), ctypes.c_size_t(6 * MIB), kept) == 0  # remapped
    assert lib.unmap_middle(ctypes.c_size_t(2 * MIB), kept) == 0  # cut
    lib.put_all(b"mmap", ctypes.c_size_t(6 * MIB), ctypes.c_size_t(1), kept)
    assert lib.move_break(ctypes.c_ssize_t(2 * MIB)) == 0  # break
    assert lib.move_break(ctypes.c_ssize_t(-2 * MIB)) == 0
    assert lib.reserve_only(ctypes.c_size_t(512 * MIB)) == 0  # reserved


for a_how in HOWS:
    blocks(a_how, MIB, 4)
    blocks(a_how, 4096, 2000)
changes()
