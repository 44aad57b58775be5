# The cycle collector against Python: it runs only when called, over a heap full of objects.
import gc

import truth

path, seconds, _ = truth.arguments()
gc.disable()
heap = [[i, {}] for i in range(10000)]


def python(n):
    for _ in range(n): pass  # line: python


def collect(n):
    for _ in range(n): gc.collect()  # line: collect


gc.collect()
truth.run_slices({"python": (python, 60), "collect": (collect, 40)}, seconds)
truth.write(path)
