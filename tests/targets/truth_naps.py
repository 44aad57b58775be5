# Work in short stretches, a nap after each. Where others want the CPU the thread is ready to run for much longer than it runs, and all that time it stands at
# the end of its nap, which takes next to nothing of a CPU.
import random
import time

import truth

path, seconds, _ = truth.arguments()


def work(n):
    for _ in range(n): pass  # line: work


def nap():
    time.sleep(0.0002)  # line: nap


rate = truth.per_ms("work", work)
end = time.thread_time_ns() + int(seconds * 1e9)
while time.thread_time_ns() < end:
    truth.measure("work", work, int(rate * random.uniform(0.2, 0.7)))
    truth.measure("nap", nap)
truth.write(path)
