# Time split over lines of one function. Each line is a loop of its own, written on one line; what lies between are clock reads.
import random
from time import thread_time_ns as now

import truth


def work(scale):
    spent = [0, 0, 0]
    n = [int(scale * share * random.uniform(0.2, 2)) + 1 for share in (1, 3, 6)]
    t = now()
    for _ in range(n[0]): pass  # line: tenth
    t, spent[0] = now(), now() - t
    for _ in range(n[1]): pass  # line: third
    t, spent[1] = now(), now() - t
    while n[2]: n[2] -= 1  # line: most
    spent[2] = now() - t
    for name, ns in zip(("tenth", "third", "most"), spent):
        truth.truth[name] = truth.truth.get(name, 0) + ns


path, seconds, _ = truth.arguments()
end = now() + int(seconds * 1e9)
while now() < end:
    work(20000)
truth.write(path)
