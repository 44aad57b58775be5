#!/usr/bin/env python3
"""What watching memory costs: time only against time and memory, by turns in one run, and the nanoseconds of a single call.

    bench/memory.py [--rounds 9] [--python PATH] [--share 0.3] [--only alloc,loop,buffers,numpy_mix,calls] [--rows exact,memray]
    bench/memory.py --sizes [--python PATH] [--only alloc,loop,buffers,numpy_mix]

alloc, numpy_mix: the workloads of bench/workloads. loop: nothing but small objects, the worst case for hooks on Python's allocators.
buffers: each object has a block of malloc's, which memray sees without being asked for more.
Shown is the CPU time of the body itself; ratios are medians over rounds, each against the same round's bare run. `null` is time only
once more: no difference below its spread is a finding. calls: malloc and free by turns, and memcpy, in ns per call.

`memray` is memray as it comes, `memray all` with --trace-python-allocators, which is what exact mode counts; both where --python has
memray. Sizes of files and the number of events (allocations and frees) in each say how far the rows are alike: memray as it comes does
not see objects of up to 512 bytes, which is nearly all that alloc and loop make, and says nothing of time. In short runs our file is
mostly what the program is: the names of what was seen, and the stacks that a process starts with.

--sizes: how the files of exact mode and of memray grow with the length of the run, at shares of 0.3, 1 and 3; no times.
"""

import argparse
import os
import re
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

BUFFERS = """
import sys, time
def make(n):
    return [bytearray(600 + i % 3000) for i in range(n)]
def work(n):
    kept = []
    for i in range(n):
        kept.append(make(200))
        if i % 16 == 15:
            kept.clear()
n = int(8000 * float(sys.argv[1]))
work(n // 20)
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


def rows(folder, python):
    """Of each row what comes before the program, what comes between Python and the script, and the file it writes."""
    file, peer = folder / "p.fathom", folder / "p.bin"
    record = [str(FATHOM), "record", "-o", str(file)]
    all_rows = {
        "bare": ([], [], None),
        "time only": ([*record, "--"], [], file),
        "null": ([*record, "--"], [], file),
        "time and memory": ([*record, "--memory", "--"], [], file),
        "exact": ([*record, "--memory=exact", "--"], [], file),
        "exact+log": ([*record, "--memory-log", "--"], [], file),
    }
    if subprocess.run([python, "-c", "import memray"], stderr=subprocess.DEVNULL).returncode == 0:
        memray = ["-m", "memray", "run", "-q", "-f", "-o", str(peer)]
        all_rows["memray"] = ([], memray, peer)
        all_rows["memray all"] = ([], [*memray, "--trace-python-allocators"], peer)
    return all_rows


def output(command, env):
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True).stdout


# total_allocations counts frees, too.
COUNT_MEMRAY = "import memray, sys; print(memray.FileReader(sys.argv[1]).metadata.total_allocations)"


def n_events(row, file, python):
    """How many allocations and frees the tool saw, where it saw each."""
    if file.suffix == ".bin":
        return int(output([python, "-c", COUNT_MEMRAY, str(file)], None))
    if not row.startswith("exact"):
        return None
    dumped = output([str(FATHOM.parent / "tests" / "dump_profile"), str(file)], None)
    return sum(int(a) + int(b) for a, b in re.findall(r"^site .* allocs=(\d+) frees=(\d+)", dumped, re.M))


def compare(name, script, args, chosen, folder, env):
    """Prints the median ratio of each row to the same round's bare run, and what was written."""
    all_rows = {k: v for k, v in rows(folder, args.python).items() if not chosen or k in chosen or k == "bare"}
    results = {row: [] for row in all_rows}
    written = {}
    order = list(results)
    for number in range(args.rounds):
        for row in order[number % len(order) :] + order[: number % len(order)]:
            before, between, file = all_rows[row]
            results[row].append(float(output([*before, args.python, *between, str(script), args.share], env)))
            if file and number == args.rounds - 1:
                written[row] = file.stat().st_size, n_events(row, file, args.python)
    base = results["bare"]
    for row, values in results.items():
        ratios = sorted(v / b for v, b in zip(values, base))
        size, n = written.get(row, (0, None))
        told = f"   {size / 1024:9.1f} KiB" if size else ""
        told += f" for {n:,} events" if n is not None else ""
        print(
            f"{name:10} {row:16} median {statistics.median(values):7.3f} s   x {statistics.median(ratios):.3f}"
            f"   ({ratios[0]:.3f} to {ratios[-1]:.3f})   best/best {min(values) / min(base):.3f}{told}",
            flush=True,
        )


def compare_sizes(name, script, python, folder, env):
    """One run of each length: what is written does not depend on how busy the machine is, but for our samples of time."""
    chosen = {k: v for k, v in rows(folder, python).items() if k in ("exact", "memray", "memray all")}
    for share in ("0.3", "1", "3"):
        told, ours = f"size  {name:10} share {share:3}", 0
        for row, (before, between, file) in chosen.items():
            output([*before, python, *between, str(script), share], env)
            size, n = file.stat().st_size, n_events(row, file, python)
            ours = ours or size
            times = f" = {size / ours:.1f}x" if row != "exact" else ""
            told += f"   {row} {size / 1024:.1f} KiB for {n:,} events{times}"
        print(told, flush=True)


def compare_calls(folder, rounds, env):
    source, program = folder / "calls.c", folder / "calls"
    source.write_text(CALLS)
    subprocess.run(["cc", "-O2", "-fno-builtin", "-o", str(program), str(source)], check=True)
    results = {}
    for _ in range(rounds):
        for row, (before, between, _) in rows(folder, sys.executable).items():
            if between:
                continue  # memray wants a script
            for line in output([*before, str(program)], env).splitlines():
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
    parser.add_argument("--only", default="alloc,loop,buffers,numpy_mix,calls")
    parser.add_argument("--rows", default="", help="only these, by commas (default: all there are)")
    parser.add_argument("--sizes", action="store_true", help="of files, by the length of the run; no times")
    args = parser.parse_args()
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env.update(PINNED, OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in args.only.split(","):
            if name == "calls" and args.sizes:
                continue
            if name == "calls":
                compare_calls(folder, args.rounds, env)
                continue
            units = {"alloc": 11000, "numpy_mix": 2000}.get(name)
            text = {"loop": LOOP, "buffers": BUFFERS}.get(name)
            text = text or WORKLOAD.format(folder=str(BENCH / "workloads"), name=name, units=units)
            if name == "numpy_mix" and subprocess.run([args.python, "-c", "import numpy"], stderr=-3).returncode:
                print("numpy_mix: not available, this Python has no numpy")
                continue
            script = folder / f"{name}_run.py"
            script.write_text(text)
            if args.sizes:
                compare_sizes(name, script, args.python, folder, env)
                continue
            compare(name, script, args, args.rows.split(",") if args.rows else [], folder, env)


if __name__ == "__main__":
    main()
