"""A program that closes every descriptor it does not know, has others at their numbers, and forks: each child has them, too."""

import os
import resource
import sys
import time

SCALE = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if soft <= 1024:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
os.closerange(3, 4096)
reader, writer = os.pipe()
inode = os.fstat(writer).st_ino
numbers = list(range(190, 260)) + list(range(990, 1020))
for number in numbers:
    os.dup2(writer, number)


def work(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


missing = 0
for _ in range(5):
    work(0.1 * SCALE)
    pid = os.fork()
    if pid == 0:
        work(0.02 * SCALE)
        gone = 0
        for number in numbers:
            try:
                gone += os.fstat(number).st_ino != inode
            except OSError:
                gone += 1
        os._exit(gone)
    missing += os.waitpid(pid, 0)[1]
print("missing", missing)
