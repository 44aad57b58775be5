"""Call-heavy Python, call-free Python and C by turns: shows a sampler that loses or favours one kind of code."""

import truth

free, _ = truth.native_library()


def tiny(x):
    return x + 1


def call_heavy():
    x = 0
    for _ in range(6000):
        x = tiny(x)
    return x


def call_free():
    x = 0
    for i in range(8000):
        x ^= i
    return x


def c_work():
    free.bench_spin(250000)


def main():
    kinds = (call_heavy, call_free, c_work)
    spent = {kind.__name__: 0 for kind in kinds}
    stop = truth.perf_counter() + truth.seconds()
    while truth.perf_counter() < stop:
        for kind in kinds:
            start = truth.thread_time_ns()
            kind()
            spent[kind.__name__] += truth.thread_time_ns() - start
    truth.tell("functions", spent, also={"tiny": "call_heavy"})


if __name__ == "__main__":
    main()
