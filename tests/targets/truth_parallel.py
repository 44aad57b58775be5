# One function that several threads run at the same time, without a GIL at once on as many CPUs. From 3.14 on each of them then has its own copy
# of the function's bytecode. A generator begins in one thread and goes on in the next, and so moves from copy to copy.
import random
import sys
import threading
from time import thread_time_ns as now

import truth

path, seconds, others = truth.arguments()
lock = threading.Lock()
begin = threading.Barrier(int(others[0]))


def work(scale, spent):
    n = [int(scale * share * random.uniform(0.2, 2)) + 1 for share in (1, 3)]
    t = now()
    for _ in range(n[0]): pass  # line: quarter
    t, spent["quarter"] = now(), spent["quarter"] + now() - t
    while n[1]: n[1] -= 1  # line: most
    spent["most"] += now() - t


def steps():
    while True:
        n, t = 200000, now()
        while n: n -= 1  # line: step
        yield now() - t


handed_on = steps()


def run():
    spent = {"quarter": 0, "most": 0, "step": 0}
    begin.wait()
    end = now() + int(seconds * 1e9)
    while now() < end:
        work(100000, spent)
        if lock.acquire(False):  # none waits for another: locks of the interpreter spin, and that would be time, too
            spent["step"] += next(handed_on)
            lock.release()
    with lock:
        for name, ns in spent.items():
            truth.truth[name] = truth.truth.get(name, 0) + ns


threads = [threading.Thread(target=run) for _ in range(begin.parties)]
for t in threads:
    t.start()
for t in threads:
    t.join()
truth.write(path)
print("gil:", getattr(sys, "_is_gil_enabled", lambda: True)())
