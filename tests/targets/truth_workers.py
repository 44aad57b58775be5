"""FILE SECONDS POOL OPENMP WORKERS: lines whose work other threads do, and lines that do their own."""

import ctypes
import json
import sys
import time

file, seconds, n = sys.argv[1], float(sys.argv[2]), int(sys.argv[5])
pool = ctypes.CDLL(sys.argv[3])
pool.pool_run.argtypes = (ctypes.c_double, ctypes.c_bool)
pool.pool_run.restype = ctypes.c_double
pool.pool_detach.argtypes = (ctypes.c_double,)
openmp = ctypes.CDLL(sys.argv[4])
openmp.openmp_run.argtypes = (ctypes.c_double, ctypes.c_int)
openmp.openmp_run.restype = ctypes.c_double


def waits(each):
    return pool.pool_run(each, False)  # line: waits


def helps(each):
    return pool.pool_run(each, True)  # line: helps


def team(each):
    return openmp.openmp_run(each, n)  # line: team


def alone(wanted):
    start = time.thread_time()
    while time.thread_time() - start < wanted:
        sum(i for i in range(100))  # line: alone
    return time.thread_time() - start


pool.pool_start(n)
truth = {"waits": 0.0, "helps": 0.0, "team": 0.0, "alone": 0.0}
for _ in range(3):
    truth["waits"] += waits(seconds / 3)
    truth["alone"] += alone(seconds / 3)
    truth["helps"] += helps(seconds / 3)
    truth["team"] += team(seconds / 3)
pool.pool_detach(seconds)  # beside Python code that does not wait for it
truth["alone"] += alone(seconds)
time.sleep(seconds)  # until it is done, wherever it got its CPU
with open(file, "w") as out:
    json.dump(truth, out)
