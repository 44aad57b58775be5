"""Two busy threads, one in Python and one in C without the GIL (both cores of a small machine), and six that wait."""

import threading

import common

ctypes, path = common.native_library()
free = ctypes.CDLL(path)
free.bench_spin.argtypes = [ctypes.c_uint64]
free.bench_spin.restype = ctypes.c_uint64


def python_work(units):
    x = 0
    for i in range(units * 1000):
        x = (x + i) & 0xFFFF
    return x


def native_work(units):
    # Few long calls: after each one this thread has to ask for the GIL, and may wait for 5 ms until it gets it.
    for _ in range(8):
        free.bench_spin(units * 11000)


def idle(event):
    event.wait()


def body(units):
    stop = threading.Event()
    waiting = [threading.Thread(target=idle, args=(stop,)) for _ in range(6)]
    busy = [threading.Thread(target=work, args=(units,)) for work in (python_work, native_work)]
    for thread in waiting + busy:
        thread.start()
    for thread in busy:
        thread.join()
    stop.set()
    for thread in waiting:
        thread.join()


if __name__ == "__main__":
    common.run("threads", 26000, body)
