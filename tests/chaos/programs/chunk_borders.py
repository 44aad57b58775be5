"""Frames of each kind begin and end at each depth, so that each of them is once the first in its chunk of Python's data stack.

chaos: case plain plain
chaos: case generators generators
chaos: case coroutines coroutines
chaos: case asyncgen asyncgen
chaos: case exceptions exceptions
chaos: case constructors constructors
"""

import sys

scale = float(sys.argv[1])
kind = sys.argv[2]


def leaf(n):
    return n + 1


def two(n):
    yield n
    yield n + 1


async def inner(n):
    return n + 1


async def outer(n):
    return await inner(n) + await inner(n)


async def pair(n):
    yield n
    yield n + 1


async def sum_pair(n):
    total = 0
    async for i in pair(n):
        total += i
    return total


def fall(n):
    if n:
        fall(n - 1)
    raise ValueError(n)


def throwing(n):
    try:
        yield n
    finally:
        leaf(n)


class Point:
    def __init__(self, n):
        self.n = leaf(n)


class Fine(Point):
    def __init__(self, n):
        super().__init__(n)
        self.m = n


def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return end.value


def once_exceptions(i):
    try:
        fall(i % 5)
    except ValueError as error:
        n = error.args[0]
    it = throwing(i)
    next(it)
    try:
        it.throw(KeyError("x"))
    except KeyError:
        n += 1
    return n


ONCE = {
    "plain": lambda i: leaf(i) + leaf(i),
    "generators": lambda i: sum(two(i)) + sum(x for x in (i, 1)),
    "coroutines": lambda i: drive(outer(i)),
    "asyncgen": lambda i: drive(sum_pair(i)),
    "exceptions": once_exceptions,
    "constructors": lambda i: Fine(i).n + Point(i).n,
}
TIMES = {"plain": 3000, "generators": 700, "coroutines": 800, "asyncgen": 550, "exceptions": 400, "constructors": 900}


def at_depth(depth, once, times):
    if depth:
        return at_depth(depth - 1, once, times)
    total = 0
    for i in range(times):
        total += once(i)
    return total


sys.setrecursionlimit(4000)
total = 0
# The first chunk holds some hundred frames of these: two borders and all that lies between.
for depth in range(3, 400):
    total += at_depth(depth, ONCE[kind], max(1, int(TIMES[kind] * scale * 1.5)))
print(kind, total)
