# Changes function on a fixed beat of exactly one millisecond: 0.3 ms in one, 0.7 ms in the other. A sampler in step with it
# sees only one of them. The beat is wall time, or with "cpu" the thread's own clock.
import time

import truth

path, seconds, (clock_name,) = truth.arguments()
now = time.thread_time_ns if clock_name == "cpu" else time.perf_counter_ns
cpu_now = time.thread_time_ns


def short(until):
    while now() < until:
        pass


def long(until):
    while now() < until:
        pass


spent_short = spent_long = 0
end = cpu_now() + int(seconds * 1e9)
beat = now()
while True:
    t0 = cpu_now()
    short(beat + 300000)
    t1 = cpu_now()
    long(beat + 1000000)
    t2 = cpu_now()
    spent_short += t1 - t0
    spent_long += t2 - t1
    if t2 > end:
        break
    beat += 1000000
    if now() > beat + 2000000:  # held up by other programs: beats that passed meanwhile are left out, the phase stays
        beat += (now() - beat) // 1000000 * 1000000
truth.truth.update(short=spent_short, long=spent_long)
truth.write(path)
