"""Random slices of 1 to 10 ms over two Python functions, C that holds the GIL and C that does not: 35/25/25/15."""

import random

import truth

free, held = truth.native_library()


def python_a(ns):
    end = truth.thread_time_ns() + ns
    x = 0
    while truth.thread_time_ns() < end:
        for i in range(200):
            x += i
    return x


def python_b(ns):
    end = truth.thread_time_ns() + ns
    x = 1
    while truth.thread_time_ns() < end:
        for _ in range(200):
            x = x * 3 & 0xFFFF
    return x


def c_with_gil(ns):
    held.bench_spin_for(ns)


def c_without_gil(ns):
    free.bench_spin_for(ns)


def main():
    rng = random.Random(7)
    kinds = [python_a, python_b, c_with_gil, c_without_gil]
    spent = {kind.__name__: 0 for kind in kinds}
    stop = truth.perf_counter() + truth.seconds()
    while truth.perf_counter() < stop:
        kind = rng.choices(kinds, weights=(35, 25, 25, 15))[0]
        start = truth.thread_time_ns()
        kind(rng.randint(1000000, 10000000))
        spent[kind.__name__] += truth.thread_time_ns() - start
    truth.tell("functions", spent)


if __name__ == "__main__":
    main()
