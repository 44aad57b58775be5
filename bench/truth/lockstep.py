"""Two functions by turns, 30/70, on a beat of exactly the sampler's period: a fixed grid sees only one of them."""

import time

import truth


def first(until):
    start = truth.thread_time_ns()
    while time.monotonic_ns() < until:
        pass
    return truth.thread_time_ns() - start


def second(until):
    start = truth.thread_time_ns()
    while time.monotonic_ns() < until:
        pass
    return truth.thread_time_ns() - start


def main():
    period = truth.period_ns()
    spent = {"first": 0, "second": 0}
    beat = time.monotonic_ns() // period + 1
    stop = truth.perf_counter() + truth.seconds()
    while truth.perf_counter() < stop:
        spent["first"] += first(beat * period + period * 3 // 10)
        spent["second"] += second((beat + 1) * period)
        # A turn that was missed (we were off the CPU) is skipped, so the beat stays on the grid.
        beat = max(beat + 1, time.monotonic_ns() // period)
    truth.tell("functions", spent)


if __name__ == "__main__":
    main()
