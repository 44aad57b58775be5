"""The program has handlers for the signals that Fathom uses, and counts what it receives: not one more, not one less.

chaos: case SIGURG SIGURG
chaos: case SIGTRAP SIGTRAP
chaos: case SIGPROF SIGPROF
"""

import os
import signal
import sys
import threading

scale = float(sys.argv[1])
sig = getattr(signal, sys.argv[2])
handled = 0


def count(signum, frame):
    global handled
    handled += 1


def down(n):
    return 1 + down(n - 1) if n else sum(i for i in range(200))


def beside():
    for i in range(int(15000 * scale)):
        down(i % 40)


signal.signal(sig, count)
threads = [threading.Thread(target=beside) for _ in range(2)]
for thread in threads:
    thread.start()
sent = 0
for i in range(int(2500 * scale) + 1):
    before = handled
    os.kill(os.getpid(), sig)
    sent += 1
    down(i % 60)
    while handled < sent and handled == before:
        pass
for thread in threads:
    thread.join()
down(100)
print("sent", sent, "handled", handled)
