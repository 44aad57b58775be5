#!/usr/bin/env python3
"""What watching memory costs: time only against time and memory, by turns in one run, and the nanoseconds of a single call.

    bench/memory.py [--rounds 9] [--python PATH] [--share 0.3] [--only alloc,loop,numpy_mix,calls]

alloc, numpy_mix: the workloads of bench/workloads. loop: nothing but small objects, the worst case for hooks on Python's allocators.
Shown is the CPU time of the body itself; ratios are medians over rounds, each against the same round's time-only run. `null` is
time only once more: no difference below its spread is a finding. calls: malloc and free by turns, and memcpy, in ns per call.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent
FATHOM = BENCH.parent / os.environ.get("FATHOM_BUILD", "build") / "fathom"
# glibc moves these by what is freed first, which moves the cost of everything.
PINNED = {"MALLOC_TRIM_THRESHOLD_": "134217728", "MALLOC_MMAP_THRESHOLD_": "33554432"}

LOOP = """
import sys, time
def work(n):
    for i in range(n):
        x = [i, i + 1, i + 2]; y = (i, x); z = {"a": x}; s = "k%d" % i; out = [x, y, z, s]
n = int(1500000 * float(sys.argv[1]))
start = time.process_time()
work(n)
print(time.process_time() - start)
"""

WORKLOAD = """
import sys, time
sys.path.insert(0, {folder!r})
import {name}
units = int({units} * float(sys.argv[1]))
{name}.body(max(units // 20, 1))
start = time.process_time()
{name}.body(units)
print(time.process_time() - start)
"""

CALLS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(void)
{
	static const size_t sizes[] = { 16, 64, 256, 4096, 65536 };
	static char a[65536], b[65536];
	for (unsigned s = 0; s < 5; s++) {
		size_t n = sizes[s] <= 4096 ? 5000000 : 500000;
		void *volatile p;
		double start = now();
		for (size_t i = 0; i < n; i++) { p = malloc(sizes[s]); free(p); }
		double middle = now();
		void *(*volatile copy)(void *, const void *, size_t) = memcpy;
		for (size_t i = 0; i < n; i++) copy(a, b, sizes[s]);
		double end = now();
		printf("malloc+free(%zu) %.3f\nmemcpy(%zu) %.3f\n", sizes[s], (middle - start) / n, sizes[s], (end - middle) / n);
	}
	return 0;
}
"""


def rows(folder):
    record = [str(FATHOM), "record", "-o", str(folder / "p.fathom")]
    return {
        "bare": [],
        "time only": [*record, "--"],
        "null": [*record, "--"],
        "time and memory": [*record, "--memory", "--"],
        "exact": [*record, "--memory=exact", "--"],
    }


def output(command, env):
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True).stdout


def compare(name, command, folder, rounds, env):
    """Prints the median ratio of each row to the same round's time-only run."""
    results = {row: [] for row in rows(folder)}
    order = list(results)
    for number in range(rounds):
        for row in order[number % len(order) :] + order[: number % len(order)]:
            results[row].append(float(output(rows(folder)[row] + command, env)))
    base = results["time only"]
    for row, values in results.items():
        ratios = sorted(v / b for v, b in zip(values, base))
        print(
            f"{name:10} {row:16} median {statistics.median(values):7.3f} s   x {statistics.median(ratios):.3f}"
            f"   ({ratios[0]:.3f} to {ratios[-1]:.3f})   best/best {min(values) / min(base):.3f}",
            flush=True,
        )


def compare_calls(folder, rounds, env):
    source, program = folder / "calls.c", folder / "calls"
    source.write_text(CALLS)
    subprocess.run(["cc", "-O2", "-fno-builtin", "-o", str(program), str(source)], check=True)
    results = {}
    for _ in range(rounds):
        for row, prefix in rows(folder).items():
            for line in output([*prefix, str(program)], env).splitlines():
                what, ns = line.split()
                results.setdefault(what, {}).setdefault(row, []).append(float(ns))
    for what, of_row in results.items():
        shown = "  ".join(f"{row} {statistics.median(v):7.2f}" for row, v in of_row.items())
        print(f"ns  {what:20} {shown}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--share", default="0.3", help="of the whole work (default 0.3)")
    parser.add_argument("--only", default="alloc,loop,numpy_mix,calls")
    args = parser.parse_args()
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env.update(PINNED, OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in args.only.split(","):
            if name == "calls":
                compare_calls(folder, args.rounds, env)
                continue
            units = {"alloc": 11000, "numpy_mix": 2000}.get(name)
            text = LOOP if name == "loop" else WORKLOAD.format(folder=str(BENCH / "workloads"), name=name, units=units)
            if name == "numpy_mix" and subprocess.run([args.python, "-c", "import numpy"], stderr=-3).returncode:
                print("numpy_mix: not available, this Python has no numpy")
                continue
            (folder / f"{name}_run.py").write_text(text)
            compare(name, [args.python, str(folder / f"{name}_run.py"), args.share], folder, args.rounds, env)


if __name__ == "__main__":
    main()
