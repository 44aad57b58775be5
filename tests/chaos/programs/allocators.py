"""All sizes and kinds of blocks, under every allocator that Python and the machine have.

chaos: case malloc PYTHONMALLOC=malloc
chaos: case pymalloc PYTHONMALLOC=pymalloc
chaos: case debug PYTHONMALLOC=debug
chaos: case malloc_debug PYTHONMALLOC=malloc_debug
chaos: case mimalloc from=3.13 PYTHONMALLOC=mimalloc
chaos: case jemalloc LD_PRELOAD=@jemalloc PYTHONMALLOC=malloc
chaos: case tcmalloc LD_PRELOAD=@tcmalloc PYTHONMALLOC=malloc
chaos: case arenas MALLOC_ARENA_MAX=1 MALLOC_PERTURB_=165
"""

import os
import random
import sys
import sysconfig
import threading
import time

if os.environ.get("PYTHONMALLOC") == "mimalloc" and not sysconfig.get_config_var("WITH_MIMALLOC"):
    sys.exit(77)
scale = float(sys.argv[1])
totals = {}


def work(seed):
    rng = random.Random(seed)
    kept = {}
    total = 0
    for i in range(int(50000 * scale)):
        kept[rng.randrange(400)] = [bytearray(rng.choice((8, 100, 600, 3000, 70000))), str(i), {i: i}]
        if i % 7 == 0 and kept:
            kept.pop(next(iter(kept)))
        total += len(kept)
    totals[seed] = total


threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
# One that was joined may still have to free its thread state. CPython (3.9 at least) takes another allocator for a moment
# while it ends, and aborts if that falls there, with PYTHONMALLOC=debug: also bare.
while len(os.listdir("/proc/self/task")) > 1:
    time.sleep(0.001)
print(sum(totals.values()))
