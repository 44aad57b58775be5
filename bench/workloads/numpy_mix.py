"""numpy by turns with Python: matrix products, sorting, many small arrays."""

import common
import numpy as np


def products(a, b):
    return (a @ b).sum()


def sorting(values):
    return np.sort(values)[::100].sum()


def small_arrays(n):
    total = 0.0
    for i in range(n):
        v = np.arange(16, dtype=np.float64)
        total += float((v * i).sum())
    return total


def body(units):
    rng = np.random.default_rng(1)
    a = rng.random((160, 160))
    b = rng.random((160, 160))
    values = rng.random(20000)
    for _ in range(units):
        products(a, b)
        sorting(values)
        small_arrays(60)


if __name__ == "__main__":
    common.run("numpy_mix", 2000, body)
