"""Greenlets that begin and end at different depths. Their frames live in chunks of their own, which end with them.

chaos: wants greenlet
"""

import sys

try:
    from greenlet import getcurrent, greenlet
except ImportError:
    sys.exit(77)

scale = float(sys.argv[1])


def deep(n, value):
    if n:
        return deep(n - 1, value)
    return getcurrent().parent.switch(value)


def work(n):
    got = deep(n, n)
    return got + sum(deep(i, i) or 0 for i in (1, 40))


def begin(depth, n):
    if depth:
        return begin(depth - 1, n)
    g = greenlet(work)
    total = g.switch(n)
    while not g.dead:
        total += g.switch(1) or 0
    return total


sys.setrecursionlimit(3000)
print(sum(begin(i % 150, i % 230) for i in range(int(9000 * scale))))
