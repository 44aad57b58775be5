import ctypes
import sys
import time

library = ctypes.CDLL(sys.argv[1])


def inside():
    start = time.thread_time()
    while time.thread_time() - start < 0.1:
        pass


library.host_run(ctypes.CFUNCTYPE(None)(inside))
