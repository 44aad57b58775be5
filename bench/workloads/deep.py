"""Work under 200 levels of recursion: what a sample costs when the stack is deep."""

import common

DEPTH = 200


def leaf():
    x = 0
    for i in range(4000):
        x += i & 7
    return x


def descend(level):
    if level == 0:
        return leaf()
    return descend(level - 1) + 1


def body(units):
    for _ in range(units):
        descend(DEPTH)


if __name__ == "__main__":
    common.run("deep", 10000, body)
