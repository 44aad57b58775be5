"""Calls memory_calls.so: every function that copies, with sizes from some bytes to many megabytes."""

import ctypes
import sys

lib = ctypes.CDLL(sys.argv[1])


def copies(how: str, size: int, n: int) -> None:
    assert lib.copy_all(how.encode(), ctypes.c_size_t(size), ctypes.c_size_t(n)) == 0
    print("copied", how, size, n, flush=True)


for a_how in "memcpy memmove mempcpy bcopy memcpy_chk memmove_chk mempcpy_chk".split():
    copies(a_how, 3 << 20, 5)
    copies(a_how, 64, 100000)
    copies(a_how, 40000, 2000)
copies("memcpy", 64 << 20, 1)
