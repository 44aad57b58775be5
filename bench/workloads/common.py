"""What every workload shares: a fixed amount of work, timed by the workload itself, told on one line.

The body is timed here and not from outside, so that a profiler's start and its report do not count as slowdown.
"""

import json
import os
import sys
import time


def peak_rss_kib():
    # VmHWM belongs to this program alone; getrusage's maximum survives exec and may be the launcher's.
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def run(name, units_at_scale_1, body, scale=None):
    """Calls body(units) and prints the BENCH line. The work is fixed by the scale alone, never by the clock."""
    if scale is None:
        scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    units = max(1, int(units_at_scale_1 * scale))
    cpu = time.process_time()
    start = time.perf_counter()
    body(units)
    wall = time.perf_counter() - start
    cpu = time.process_time() - cpu
    facts = {
        "workload": name,
        "body_s": wall,
        "body_cpu_s": cpu,
        "process_cpu_s": time.process_time(),
        "iterations": units,
        "pid": os.getpid(),
        "peak_rss_kib": peak_rss_kib(),
    }
    print("BENCH " + json.dumps(facts), flush=True)


def native_library():
    """The C functions of native.c, built by bench/run.py."""
    import ctypes

    path = os.environ.get("FATHOM_BENCH_NATIVE", "")
    if not os.path.exists(path):
        sys.exit("native.so is not built: start this workload through bench/run.py, or set FATHOM_BENCH_NATIVE to it")
    return ctypes, path
