"""Call-heavy pure Python: small functions and methods, the worst case for anything that hooks calls."""

import common


class Counter:
    def __init__(self):
        self.total = 0

    def add(self, value):
        self.total += self.twice(value)

    def twice(self, value):
        return value + value


def leaf(a, b):
    return a * b & 0xFF


def middle(a):
    return leaf(a, 3) + leaf(a, 5)


def unit(counter):
    for i in range(100):
        counter.add(middle(i))


def body(units):
    counter = Counter()
    for _ in range(units):
        unit(counter)


if __name__ == "__main__":
    common.run("calls", 75000, body)
