"""Code objects that are made, called and thrown away: what a sample names may be gone the moment after."""

import gc
import sys

scale = float(sys.argv[1])
total = 0
for i in range(int(2500 * scale)):
    space = {}
    text = "def made%d(n):\n    x = [n + %d for _ in range(60)]\n    return sum(v for v in x)\n" % (i, i)
    exec(compile(text, "<made %d>" % i, "exec"), space)
    for _ in range(30):
        total += space["made%d" % i](1)
    del space
    if i % 50 == 0:
        gc.collect()
print(total)
