"""Code objects of every kind, each with a qualified name, and one that takes nearly all the time."""

import sys
import time


def passed(f):
    return f


class Shop:
    @passed
    @passed
    def busy(self, until):
        while time.process_time() < until:
            sum(i * i for i in range(100))

    @staticmethod
    def rows(n):
        return [[j for j in range(i)] for i in range(n)]

    class Till:
        total = property(lambda self: 7)

        async def count(self):
            return f"{sorted(str(i) for i in (1, 2))}"

    def orders(self):
        def inner():
            return {k: v for k, v in zip("ab", "cd")}

        return inner


def outer():
    global everywhere

    def everywhere():
        return {i for i in range(3)}

    return everywhere


def main(seconds):
    shop = Shop()
    shop.rows(3)
    shop.Till().total
    try:
        shop.Till().count().send(None)
    except StopIteration:
        pass
    shop.orders()()
    outer()()
    shop.busy(time.process_time() + seconds)


main(float(sys.argv[1]))
