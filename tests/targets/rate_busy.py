# One busy thread: Python calling native code through some levels, so that a sample has both kinds of frames.
import sys
import time


def level(n, numbers):
    if n:
        return level(n - 1, numbers)
    return sorted(numbers, key=abs)[0] + sum(numbers)


end = time.thread_time() + float(sys.argv[1])
numbers = list(range(-50, 50))
while time.thread_time() < end:
    for _ in range(100):
        level(5, numbers)
