"""160 threads, nearly all idle, beside one that works: what a profiler pays per thread that does nothing."""

import queue
import threading

import common

N_ASLEEP = 150
N_WAKING = 9


def asleep(event):
    event.wait()


def waking(event):
    while not event.wait(0.02):
        pass


def work(units):
    done = queue.Queue()
    for n in range(units):
        x = 0
        for i in range(500):
            x += i ^ n
        if n % 16 == 0:
            done.put(x)
            done.get()


def body(units):
    stop = threading.Event()
    pool = [threading.Thread(target=asleep, args=(stop,)) for _ in range(N_ASLEEP)]
    pool += [threading.Thread(target=waking, args=(stop,)) for _ in range(N_WAKING)]
    for thread in pool:
        thread.start()
    work(units)
    stop.set()
    for thread in pool:
        thread.join()


if __name__ == "__main__":
    common.run("threads160", 62000, body)
