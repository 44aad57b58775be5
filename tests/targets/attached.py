"""Something to attach to: one thread that splits its CPU time 1 : 2, one that sleeps, and the main thread in a join. Says "ready" first."""

import sys
import threading
import time

SECONDS = float(sys.argv[1])
# Sleeps that come back early are counted: nobody may cut them short.
early = 0


def spin(s: float) -> None:
    end = time.thread_time() + s
    while time.thread_time() < end:
        sum(range(100))


def one() -> None:
    spin(0.007)


def two() -> None:
    spin(0.014)


def work() -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        one()
        two()


def sleeper() -> None:
    global early
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        start = time.monotonic()
        time.sleep(0.2)  # line: sleep
        early += time.monotonic() - start < 0.2


def main() -> None:
    threads = [threading.Thread(target=f) for f in (work, sleeper)]
    for t in threads:
        t.start()
    print("ready", flush=True)
    for t in threads:
        t.join()  # line: join


main()
print("early", early)
