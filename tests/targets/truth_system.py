# System calls against Python. The call copies from the page cache: it neither waits nor ends early, and but for 1 us of
# Python it is the kernel's time. Arguments: KiB per call, and the shortest and longest slice in ms. Slices are short, about as
# long as a period, unless told: a signal that a call holds back until its end must not shift time from what follows to the call.
import os
import tempfile

import truth

path, seconds, (kib, *slice_ms) = truth.arguments()
file = tempfile.TemporaryFile()
file.write(bytes(int(kib) * 1024))
file.flush()
fd = file.fileno()
buffers = [bytearray(int(kib) * 1024)]


def python(n):
    for _ in range(n): pass  # line: python


def system(n):
    for _ in range(n): os.preadv(fd, buffers, 0)  # line: system


truth.run_slices({"python": (python, 50), "system": (system, 50)}, seconds, tuple(map(float, slice_ms)) or (0.2, 0.7))
truth.write(path)
