"""Three lines of one function with 50/30/20 of the work, all in Python: a loop on one line works on that line alone."""

import truth

# fmt: off


def work(n):
    i = 0
    t0 = truth.thread_time_ns()
    while i < 5 * n: i += 1  # noqa: E701 (line A)
    t1 = truth.thread_time_ns()
    while i < 8 * n: i += 1  # noqa: E701 (line B)
    t2 = truth.thread_time_ns()
    while i < 10 * n: i += 1  # noqa: E701 (line C)
    t3 = truth.thread_time_ns()
    for line, ns in zip(SPENT, (t1 - t0, t2 - t1, t3 - t2)):
        SPENT[line] += ns


SPENT = truth.marked_lines(__file__)


def main():
    stop = truth.perf_counter() + truth.seconds()
    while truth.perf_counter() < stop:
        work(2000)
    truth.tell("lines", SPENT)


if __name__ == "__main__":
    main()
