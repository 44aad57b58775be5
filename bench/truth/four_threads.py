"""Four threads: one spins in Python, one in C without the GIL, one works a quarter of the time, one sleeps."""

import threading
import time

import truth

free, _ = truth.native_library()
spent = {}


def spin_python(stop):
    x = 0
    while truth.perf_counter() < stop:
        for i in range(500):
            x ^= i
    spent["spin_python"] = truth.thread_time_ns()


def spin_c(stop):
    while truth.perf_counter() < stop:
        free.bench_spin_for(20000000)
    spent["spin_c"] = truth.thread_time_ns()


def quarter(stop):
    while truth.perf_counter() < stop:
        free.bench_spin_for(5000000)
        time.sleep(0.015)
    spent["quarter"] = truth.thread_time_ns()


def sleeper(stop):
    while truth.perf_counter() < stop:
        time.sleep(0.1)
    spent["sleeper"] = truth.thread_time_ns()


def main():
    stop = truth.perf_counter() + truth.seconds()
    threads = [
        threading.Thread(target=kind, args=(stop,), name=kind.__name__)
        for kind in (spin_python, spin_c, quarter, sleeper)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    truth.tell("functions", spent)


if __name__ == "__main__":
    main()
