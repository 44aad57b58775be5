"""Python works at changing depth and with buffers of all sizes while another thread maps memory and takes it away.

chaos: needs mappings
"""

import ctypes
import mmap
import os
import sys

scale = float(sys.argv[1])
library = ctypes.CDLL(os.path.join(os.environ["CHAOS_HELPERS"], "mappings.so"))


def down(n):
    if n:
        return 1 + down(n - 1)
    with mmap.mmap(-1, 1 << 16) as region:
        region[:5] = b"hello"
        return len(region[:5]) + sum(x for x in range(50))


library.begin()
total = sum(down(i % 300) + len(bytearray(i * 40)) for i in range(int(9000 * scale)))
library.end()
print(total)
