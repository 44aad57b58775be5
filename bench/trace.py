#!/usr/bin/env python3
"""What tracing adds to a call, beside cProfile (and viztracer where it is installed): nanoseconds of CPU, by turns.

    python3 bench/trace.py                        # every Python found by scripts/find-pythons.py
    python3 bench/trace.py --python PATH --rounds 9

Bare recursion, the worst case: a call that does nothing else. Each tool runs the same calls in turn and times them by the thread's
own CPU clock; the smallest of all rounds counts, because a busy machine only ever adds. The ratio is what we add to what cProfile
adds in the same run.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import time
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
start = time.thread_time()
fib({n})
print("took", time.thread_time() - start)
"""


def n_calls(n: int) -> int:
    a, b = 1, 1
    for _ in range(n - 1):
        a, b = b, a + b + 1
    return b


def run(python: str, tool: List[str], program: str) -> Optional[float]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [python, *tool, program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    )
    found = re.search(r"took ([\d.e-]+)", done.stdout)
    return float(found[1]) if found else None


def pythons() -> List[str]:
    spec = importlib.util.spec_from_file_location("find_pythons", ROOT / "scripts" / "find-pythons.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [path for _, kind, path in module.find(one=True) if kind == "release"]


def measure(python: str, n: int, rounds: int, folder: str) -> str:
    program = os.path.join(folder, "program.py")
    Path(program).write_text(PROGRAM.format(n=n))
    tools: Dict[str, List[str]] = {
        "bare": [],
        "cProfile": ["-m", "cProfile", "-o", os.path.join(folder, "c.prof")],
        "fathom": ["-m", "fathom", "-o", os.path.join(folder, "f.fathom"), "--quiet"],
        "viztracer": ["-m", "viztracer", "--quiet", "--ignore_c_function", "-o", os.path.join(folder, "v.json")],
    }
    best: Dict[str, float] = {}
    for _ in range(rounds):
        for name, tool in list(tools.items()):
            took = run(python, tool, program)
            if took is None:
                del tools[name]  # not installed for this Python
            else:
                best[name] = min(best.get(name, took), took)
    bare = best.pop("bare")
    added = {name: (took - bare) / n_calls(n) * 1e9 for name, took in best.items()}
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version.split()[0])"], stdout=subprocess.PIPE, text=True
    )
    row = "%-8s bare %5.1f ns" % (version.stdout.strip(), bare / n_calls(n) * 1e9)
    row += "".join("   %s +%.1f" % pair for pair in added.items())
    if "cProfile" in added and "fathom" in added:
        row += "   ratio %.2f" % (added["fathom"] / added["cProfile"])
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", help="an interpreter; may be given several times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n", type=int, default=28, help="fib(N) is computed (default 28: a million calls)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for python in args.python or pythons():
            print(measure(python, args.n, args.rounds, folder), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
