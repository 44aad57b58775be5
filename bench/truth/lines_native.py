"""Three lines of one function with 50/30/20 of the work, all in C without the GIL."""

import truth

free, _ = truth.native_library()


def work():
    t0 = truth.thread_time_ns()
    free.bench_spin(500000)  # (line A)
    t1 = truth.thread_time_ns()
    free.bench_spin(300000)  # (line B)
    t2 = truth.thread_time_ns()
    free.bench_spin(200000)  # (line C)
    t3 = truth.thread_time_ns()
    for line, ns in zip(SPENT, (t1 - t0, t2 - t1, t3 - t2)):
        SPENT[line] += ns


SPENT = truth.marked_lines(__file__)


def main():
    stop = truth.perf_counter() + truth.seconds()
    while truth.perf_counter() < stop:
        work()
    truth.tell("lines", SPENT)


if __name__ == "__main__":
    main()
