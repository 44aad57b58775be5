"""Calls whose numbers are known by construction. The first argument names what to do; the truth is printed as JSON."""

import asyncio
import json
import operator
import os
import sys
import threading
import time


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def recursion():
    fib(20)
    return {"fib": 21891}


def numbers(n):
    for i in range(n):
        yield leaf(i)


def leaf(i):
    return i


def delegating(n):
    yield from numbers(n)


def generators():
    for _ in range(7):
        for _ in numbers(30):
            pass
    list(delegating(11))
    half = numbers(10)
    next(half)
    half.close()  # ends it by an exception at its yield
    never = numbers(10)
    never.close()
    thrown = numbers(10)
    next(thrown)
    try:
        thrown.throw(ValueError)
    except ValueError:
        pass
    return {"numbers": 7 + 1 + 1 + 1, "delegating": 1, "leaf": 7 * 30 + 11 + 1 + 1}


async def tick(n):
    for _ in range(n):
        await asyncio.sleep(0)
        leaf(0)


async def gather():
    await asyncio.gather(*[tick(5) for _ in range(40)])


def coroutines():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(gather())
    loop.close()
    return {"tick": 40, "gather": 1, "leaf": 200}


class Oops(Exception):
    pass


def fails(depth):
    if depth == 0:
        raise Oops
    fails(depth - 1)


def catches():
    try:
        fails(9)
    except Oops:
        leaf(0)


def exceptions():
    for _ in range(50):
        catches()
    return {"fails": 500, "catches": 50, "leaf": 50}


def worker(n):
    for i in range(n):
        leaf(i)


def threads():
    ready, go = threading.Event(), threading.Event()

    def early():
        ready.set()
        go.wait()
        worker(1000)

    old = threading.Thread(target=early)
    old.start()
    ready.wait()
    others = [threading.Thread(target=worker, args=(2000,)) for _ in range(8)]
    for thread in others:
        thread.start()
    go.set()
    for thread in others + [old]:
        thread.join()
    return {"worker": 9, "leaf": 17000, "early": 1}


class Shape:
    def __init__(self, n):
        self.n = n

    def __getitem__(self, i):
        return i

    @property
    def size(self):
        return self.n

    def __lt__(self, other):
        return self.n < other.n

    def __call__(self, x):
        return x


def methods():
    shape = Shape(3)
    total = 0
    for i in range(5000):
        total += shape[i] + shape.size
    for i in range(100):
        shape(i)
    sorted([Shape(i) for i in range(64)])
    return {"Shape.__getitem__": 5000, "Shape.size": 5000, "Shape.__call__": 100, "Shape.__init__": 65, "Shape.__lt__": 63}


def c_calls():
    items = []
    add = items.append
    for i in range(300):
        add(i)
        len(items)
    for _ in range(20):
        operator.index(3)
        isinstance(3, int)
    "a b".split()
    try:
        operator.index("x")
    except TypeError:
        pass
    return {}


def busy(seconds):
    end = time.perf_counter() + seconds
    n = 0
    while time.perf_counter() < end:
        n += 1
    return n


def outer():
    busy(0.1)
    inner()


def inner():
    busy(0.2)
    time.sleep(0.1)


def times():
    begin = time.perf_counter()
    outer()
    return {"wall_s": time.perf_counter() - begin}


def many(n):
    for i in range(n):
        leaf(i)


def volume():
    many(1500000)
    return {"many": 1, "leaf": 1500000}


def forks():
    worker(100)
    pid = os.fork()
    if pid == 0:
        worker(300)
        os._exit(0)
    os.waitpid(pid, 0)
    worker(100)
    return {"worker": 3, "leaf": 500}


def ends_abruptly():
    worker(4000)
    print(json.dumps({"worker": 1, "leaf": 4000}), flush=True)
    os._exit(7)


def lines():
    total = 0
    for i in range(200):  # reached 201 times
        total += i  # 200 times
        if i % 4 == 0:
            leaf(i)  # 50 times
    return {"leaf": 50}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()), flush=True)
