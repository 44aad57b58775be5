"""Programs that crash: they end by the same signal, and faulthandler says the same.

chaos: case segv ends=SIGSEGV segv
chaos: case bus ends=SIGBUS bus
chaos: case abort ends=SIGABRT abort
chaos: case thread ends=SIGSEGV thread
chaos: case segv-told ends=SIGSEGV segv faulthandler
chaos: case bus-told ends=SIGBUS bus faulthandler
chaos: case abort-told ends=SIGABRT abort faulthandler
chaos: stderr first line
"""

import ctypes
import faulthandler
import mmap
import os
import sys
import tempfile
import threading

scale = float(sys.argv[1])
kind = sys.argv[2]
if "faulthandler" in sys.argv[3:]:
    faulthandler.enable()
else:
    faulthandler.disable()


def down(n):
    return 1 + down(n - 1) if n else sum(i for i in range(200))


def segv():
    ctypes.string_at(8)


def bus():
    with tempfile.TemporaryFile(dir=".") as file:
        file.truncate(4096)
        region = mmap.mmap(file.fileno(), 4096)
        file.truncate(0)
        ctypes.string_at(ctypes.addressof(ctypes.c_char.from_buffer(region)))


def thread():
    one = threading.Thread(target=segv)
    one.start()
    one.join()


print(sum(down(i % 100) for i in range(int(40000 * scale))), flush=True)
{"segv": segv, "bus": bus, "abort": os.abort, "thread": thread}[kind]()
print("still here")
