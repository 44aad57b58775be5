"""Stacks 10,000 and 20,000 deep, with work and allocations at the far end: what a sample costs must not grow without bound.

chaos: case busy 20000 busy
chaos: case allocating 10000 allocating
chaos: case recursing 15000 recursing
chaos: limited
"""

import sys
import threading

scale = float(sys.argv[1])
depth, kind = int(sys.argv[2]), sys.argv[3]


def burn(n):
    total = 0
    for i in range(n):
        total += i & 3
    return total


def allocate(n):
    kept = []
    for i in range(n):
        kept.append(bytes(100 + i % 900))
        if len(kept) > 300:
            kept.clear()
    return len(kept)


def fall(n):
    if n:
        return fall(n - 1)
    if kind == "busy":
        return burn(int(6000000 * scale))
    if kind == "allocating":
        return allocate(int(800000 * scale))
    return 1


def main():
    global got
    got = sum(fall(depth) for _ in range(max(1, int(60 * scale)))) if kind == "recursing" else fall(depth)


sys.setrecursionlimit(depth + 1000)
threading.stack_size(1 << 29)
thread = threading.Thread(target=main)
thread.start()
thread.join()
print(kind, got)
