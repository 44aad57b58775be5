"""Children below a limit of memory, which ask for most of what it leaves them.

chaos: case data RLIMIT_DATA
chaos: case addresses RLIMIT_AS
"""

import mmap
import resource
import subprocess
import sys

GIB = 1 << 30
LIMIT, WANTED = 8 * GIB, 3 * GIB  # never touched


def ask():
    parts = [mmap.mmap(-1, GIB // 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(WANTED // GIB * 8)]
    print(len(parts), sum(len(str(i)) for i in range(20000)), flush=True)


def limit():
    resource.setrlimit(getattr(resource, sys.argv[2]), (LIMIT, LIMIT))


if len(sys.argv) > 3:
    ask()
else:
    for _ in range(max(1, int(5 * float(sys.argv[1])))):
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "child"], preexec_fn=limit, check=False)
