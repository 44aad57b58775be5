"""Python handlers of a timer's signals that raise through whatever runs."""

import signal
import sys

scale = float(sys.argv[1])


class Late(Exception):
    pass


def late(signum, frame):
    raise Late


def down(n):
    return 1 + down(n - 1) if n else sum(i for i in range(500))


signal.signal(signal.SIGPROF, late)
caught = 0
wanted = max(2, int(150 * scale))
while caught < wanted:
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.004)
        while True:
            down(caught % 90)
    except Late:
        caught += 1
print("caught", caught)
