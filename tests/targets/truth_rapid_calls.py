# System calls of half a microsecond, one after the other, with about as much Python between them. The kernel's account of the
# thread says how much of it was its own.
import json
import os
import resource
import sys
import time

path, seconds = sys.argv[1], float(sys.argv[2])


def work(end):
    while time.thread_time() < end:
        for _ in range(200): os.stat("/")  # line: call


before = resource.getrusage(resource.RUSAGE_THREAD)
work(time.thread_time() + seconds)
after = resource.getrusage(resource.RUSAGE_THREAD)
user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
with open(path, "w") as out:
    json.dump({"user": user, "system": system}, out)
