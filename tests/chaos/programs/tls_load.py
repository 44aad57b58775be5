"""Libraries with a thread-local each are loaded while the program allocates: the next look at a thread-local grows a table on the heap.

chaos: needs tls_lib
chaos: case plain
chaos: case threads threads
"""

import ctypes
import os
import shutil
import sys
import tempfile
import threading

scale = float(sys.argv[1])
with_threads = "threads" in sys.argv[2:]
source = os.path.join(os.environ["CHAOS_HELPERS"], "tls_lib.so")
running = True


def allocate(n):
    kept = []
    for i in range(n):
        kept.append(bytearray(700 + i % 5000))
        if len(kept) > 50:
            del kept[::2]
    return len(kept)


def beside():
    while running:
        allocate(300)


threads = [threading.Thread(target=beside) for _ in range(1 if with_threads else 0)]
for thread in threads:
    thread.start()
total = 0
with tempfile.TemporaryDirectory(dir=".") as folder:
    for i in range(max(1, int(300 * scale))):
        path = os.path.join(os.path.abspath(folder), "lib%d.so" % i)
        shutil.copy(source, path)
        library = ctypes.CDLL(path)
        total += library.touch(i)
        allocate(300)
        total += library.touch(i)
running = False
for thread in threads:
    thread.join()
print("touched", total)
