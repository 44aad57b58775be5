"""A tight loop without calls: nothing to hook, so only the sampling itself can cost anything."""

import common


def unit(start):
    x = start
    i = 0
    while i < 1000:
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        if x & 1:
            x ^= 0x55
        i += 1
    return x


def body(units):
    x = 1
    for _ in range(units):
        x = unit(x)


if __name__ == "__main__":
    common.run("loop", 11000, body)
