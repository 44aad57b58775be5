"""A stand-in for pyperf, so that pyperformance's scripts run in one process with a fixed number of loops.

The real pyperf starts worker processes and chooses the number of loops by the clock; here both would hide what is
measured. Only what the chosen scripts call is here. FATHOM_BENCH_LOOPS says how many loops to run.
"""

import argparse
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workloads"))
import common  # noqa: E402

perf_counter = time.perf_counter


class Runner:
    def __init__(self, **_options):
        self.metadata = {}
        self.argparser = argparse.ArgumentParser()
        self.args = None

    def parse_args(self, args=None):
        self.args = self.argparser.parse_args([] if args is None else args)
        return self.args

    def _run(self, name, body):
        common.run(name, int(os.environ.get("FATHOM_BENCH_LOOPS", "1")), body, scale=1.0)

    def bench_func(self, name, func, *args, **_options):
        def body(loops):
            for _ in range(loops):
                func(*args)

        self._run(name, body)

    def bench_time_func(self, name, time_func, *args, **_options):
        self._run(name, lambda loops: time_func(loops, *args))
