"""Forks at every moment: beside threads that allocate, by multiprocessing, by subprocess and posix_spawn; what the child computes counts.

chaos: case fork fork
chaos: case pool pool
chaos: case subprocess subprocess
chaos: case spawn spawn
chaos: case exec exec
"""

import os
import subprocess
import sys
import threading
import warnings

warnings.simplefilter("ignore")  # of forks beside threads
scale = float(sys.argv[1])
kind = sys.argv[2]


def down(n):
    return 1 + down(n - 1) if n else sum(i for i in range(300))


def work(i):
    return sum(down(i % 100 + k) for k in range(12)) % 200


def by_fork():
    running = True

    def beside():
        while running:
            [bytearray(1000 + i) for i in range(40)]
            down(60)

    threads = [threading.Thread(target=beside) for _ in range(2)]
    for thread in threads:
        thread.start()
    total = 0
    for i in range(max(2, int(60 * scale))):
        pid = os.fork()
        if pid == 0:
            os._exit(work(i))
        down(30)
        total += os.waitpid(pid, 0)[1]
    running = False
    for thread in threads:
        thread.join()
    return total


def by_pool():
    import multiprocessing

    total = 0
    with multiprocessing.get_context("fork").Pool(3) as pool:
        total += sum(pool.map(work, range(int(600 * scale))))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        total += sum(pool.map(work, range(10)))
    return total


def by_subprocess():
    total = 0
    for i in range(max(2, int(12 * scale))):
        done = subprocess.run(
            [sys.executable, "-S", "-c", "print(sum(i for i in range(30000)) %% %d)" % (i + 7)], stdout=subprocess.PIPE
        )
        total += int(done.stdout) + done.returncode
        total += subprocess.call(["/bin/false"]) + work(i)
    return total


def by_spawn():
    total = 0
    for i in range(max(2, int(60 * scale))):
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit %d" % (i % 5)], dict(os.environ))
        total += work(i) + os.waitpid(pid, 0)[1]
    return total


def by_exec():
    left = int(sys.argv[3]) if len(sys.argv) > 3 else max(2, int(10 * scale))
    total = sum(work(i) for i in range(40))
    if left:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, __file__, sys.argv[1], "exec", str(left - 1)])
    return total


if __name__ == "__main__":
    kinds = {"fork": by_fork, "pool": by_pool, "subprocess": by_subprocess, "spawn": by_spawn, "exec": by_exec}
    print(kind, kinds[kind]())
