"""Allocation-heavy: small objects, containers that grow, and blocks big enough to go to malloc."""

import common


class Node:
    def __init__(self, key, value):
        self.key = key
        self.value = value


def small_objects():
    return [Node(i, str(i)) for i in range(300)]


def containers():
    table = {}
    for i in range(300):
        table[i] = [i, (i, i + 1)]
    return len(table)


def blocks():
    total = 0
    for size in (600, 4000, 20000, 90000):
        total += len(bytearray(size))
    return total


def body(units):
    kept = []
    for n in range(units):
        kept.append(small_objects())
        containers()
        blocks()
        if n % 64 == 63:
            kept.clear()


if __name__ == "__main__":
    common.run("alloc", 11000, body)
