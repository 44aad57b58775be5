"""Many threads that wait, and two that work: idle_threads.py SECONDS IDLE"""

import sys
import threading
import time


def busy_one(end):
    n = 0
    while time.perf_counter() < end:
        n += sum(range(100))


def busy_two(end):
    n = 0
    while time.perf_counter() < end:
        n += len(sorted(range(100), key=lambda x: -x))


def idle(event):
    event.wait()


if __name__ == "__main__":
    stop = threading.Event()
    pool = [threading.Thread(target=idle, args=(stop,)) for _ in range(int(sys.argv[2]))]
    for thread in pool:
        thread.start()
    end = time.perf_counter() + float(sys.argv[1])
    workers = [threading.Thread(target=f, args=(end,)) for f in (busy_one, busy_two)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    for thread in pool:
        thread.join()
