# 5,000 calls deep, two functions in turn, in plain calls and (every 100th) through C.
# from library: work, even, start
import sys
import threading

import oracle

DEPTH = 5000


def even(n):
    if n % 100 == 0 and n:
        return max([n - 1], key=odd)  # calls: odd
    return odd(n - 1) if n else bottom()  # calls: odd, bottom


def odd(n):
    return even(n - 1)  # calls: even


def bottom():
    return 0


def work():
    even(DEPTH)  # calls: even


def start():
    oracle.run(work)  # calls: library


sys.setrecursionlimit(DEPTH + 1000)
threading.stack_size(512 << 20)
thread = threading.Thread(target=start)  # calls: library
thread.start()  # calls: library
thread.join()  # calls: library
