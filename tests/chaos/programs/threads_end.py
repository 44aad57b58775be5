"""Threads that work for a moment and end, some of them deep, while others begin. 3.9 to 3.11 crash by themselves with daemon threads at
the end (take_gil looks into an interpreter that is freed: 3 of 500 runs of 3.10 without Fathom).

chaos: case joined joined
chaos: case daemon daemon from=3.12
"""

import sys
import threading

scale = float(sys.argv[1])
sums = {}


def down(n):
    if n:
        return 1 + down(n - 1)
    return sum(i & 3 for i in range(2000))


def work(i):
    sums[i] = down(i % 200) + sum(down(3) for _ in range(3))


def forever():
    while True:
        down(50)


n = int(700 * scale)
for begin in range(0, n, 8):
    threads = [threading.Thread(target=work, args=(i,)) for i in range(begin, begin + 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
if sys.argv[2] == "daemon":  # they are still at work when the interpreter ends
    for _ in range(4):
        threading.Thread(target=forever, daemon=True).start()
print(len(sums), sum(sums.values()))
