#!/usr/bin/env python3
"""How long the first and the second report of a capture take, and how much memory, beside `perf script` and `perf report` on a
perf.data of the same program in one run.

    bench/symbolize.py [--megabytes 500] [--dir DIR] [--runs 3] [--no-perf]

The program uses numpy and scipy where the running interpreter has them, and a C++ extension with that much debug information (made
by make_big_extension.py, kept in DIR). Reports are timed with the file cache warm and Fathom's own cache empty (first) or filled (second).
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent

PROGRAM = """
import sys, time
sys.path.insert(0, {folder!r})
import bigdwarf
try:
    import numpy as np
    a = np.random.default_rng(1).random((300, 300))
except ImportError:
    np = None
try:
    from scipy import linalg
except ImportError:
    linalg = None
end = time.perf_counter() + {seconds}
while time.perf_counter() < end:
    bigdwarf.work(3)
    if np is not None:
        np.sort((a @ a).ravel())
    if linalg is not None:
        linalg.lu(a)
print("numpy", np and np.__version__, "scipy", bool(linalg))
"""


def timed(command, env, out=subprocess.DEVNULL):
    """Seconds, and the peak resident bytes of the command or of any process it waited for."""
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        fd = os.open(os.devnull, os.O_WRONLY) if out is subprocess.DEVNULL else out
        os.dup2(fd, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.execvpe(command[0], command, env)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{command} failed: {status:#x}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "fathom-bigdwarf")
    parser.add_argument("--fathom", type=Path, default=BENCH.parent / "build" / "fathom")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-perf", action="store_true")
    parser.add_argument("--perf-limit", type=float, default=600, help="seconds after which perf is given up")
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    if not (args.dir / "bigdwarf.so").exists():
        subprocess.run(
            [sys.executable, BENCH / "make_big_extension.py", "--megabytes", str(args.megabytes), args.dir], check=True
        )
    program = args.dir / "program.py"
    program.write_text(PROGRAM.format(folder=str(args.dir), seconds=args.seconds))
    cache = args.dir / "cache"
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    env.pop("DEBUGINFOD_URLS", None)
    profile = args.dir / "profile.fathom"
    subprocess.run([args.fathom, "record", "-o", profile, "--", sys.executable, program], check=True, env=env)

    first, second, peak = [], [], 0
    for _ in range(args.runs):
        shutil.rmtree(cache, ignore_errors=True)
        seconds, memory = timed([str(args.fathom), "report", str(profile)], env)
        first.append(seconds)
        peak = max(peak, memory)
        second.append(timed([str(args.fathom), "report", str(profile)], env)[0])
    report = json.loads(
        subprocess.run([args.fathom, "report", "--json", profile], check=True, capture_output=True, env=env).stdout
    )
    natives = [f for f in report["functions"] if f["kind"] == "native"]
    inlined = sum(f["inlined"] for f in natives)
    print(f"samples {report['samples']}, native functions {len(natives)}, of these only inlined {inlined}")
    for row in report["libraries"]:
        print(
            f"  {100 * row['share']:5.1f} % {100 * row['named_share']:5.1f} % named {100 * row['lines_share']:5.1f} % lines  {row['path']}"
        )
    print(
        f"fathom report, first:  {min(first):.3f} s (of {', '.join(f'{x:.3f}' for x in first)})  peak memory {peak / 1e6:.0f} MB"
    )
    print(f"fathom report, second: {min(second):.3f} s (of {', '.join(f'{x:.3f}' for x in second)})")

    perf = shutil.which("perf")
    if args.no_perf or not perf:
        return 0
    data = args.dir / "perf.data"
    record = [
        perf,
        "record",
        "-q",
        "-F",
        "1000",
        "--call-graph",
        "dwarf,16384",
        "-o",
        data,
        "--",
        sys.executable,
        program,
    ]
    done = subprocess.run(record, capture_output=True, text=True, env=env)
    if done.returncode:
        print("perf record failed:", done.stderr.strip()[-300:])
        return 0
    for command in (
        ["script", "--no-inline"],
        ["script"],
        ["script", "-F", "ip,sym,srcline"],
        ["report", "--stdio", "--no-children"],
    ):
        try:
            start = time.perf_counter()
            subprocess.run(
                [perf, *command, "-i", data],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
                timeout=args.perf_limit,
            )
            seconds, note = time.perf_counter() - start, ""
        except subprocess.TimeoutExpired:
            seconds, note = args.perf_limit, " (given up)"
        print(
            f"perf {' '.join(command)}: {seconds:.2f} s{note}; {seconds / min(first):.1f} x the first report, {seconds / min(second):.0f} x the second"
        )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"peak memory of any process of this run: {peak:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
