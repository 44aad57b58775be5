"""Interpreters beside the main one begin, work and end, while they are sampled.

chaos: case one one
chaos: case threads threads
"""

import sys
import threading
import warnings

warnings.simplefilter("ignore")
interpreters = None
for name in ("_interpreters", "_xxsubinterpreters"):
    try:
        interpreters = __import__(name)
        break
    except ImportError:
        pass
if interpreters is None:
    sys.exit(77)

scale = float(sys.argv[1])
WORK = """
def down(n):
    return 1 + down(n - 1) if n else sum(i for i in range(200))
total = sum(down(i % 90) for i in range(400))
"""


def once():
    other = interpreters.create()
    interpreters.run_string(other, WORK)
    interpreters.destroy(other)
    return 1


done = []
if sys.argv[2] == "threads" and sys.version_info >= (
    3,
    13,
):  # before, interpreters in several threads end badly without us, too

    def several():
        for _ in range(max(1, int(8 * scale))):
            done.append(once())

    threads = [threading.Thread(target=several) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
else:
    for _ in range(max(1, int(25 * scale))):
        done.append(once())
print(sum(done))
