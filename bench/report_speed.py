#!/usr/bin/env python3
"""How long `fathom report` takes on a ten-minute capture: 600,000 samples, over 200 files. Usage: report_speed.py [N_SAMPLES]"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"
ROUNDS = 5


def cpu_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main() -> int:
    n_samples = sys.argv[1] if len(sys.argv) > 1 else "600000"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.fathom"
        subprocess.run([BUILD / "tests" / "gen_profile", path, n_samples], check=True, stdout=subprocess.DEVNULL)
        print(f"{n_samples} samples, {path.stat().st_size / 1e6:.1f} MB; best of {ROUNDS}")
        for options in (["--summary"], [], ["--detailed"], ["--json"]):
            took = []
            for _ in range(ROUNDS):
                before, start = cpu_seconds(), time.monotonic()
                subprocess.run([BUILD / "fathom", "report", *options, path], check=True, stdout=subprocess.DEVNULL)
                took.append((cpu_seconds() - before, time.monotonic() - start))
            name = " ".join(["report", *options])
            print(f"  {name:20} CPU {min(t[0] for t in took):.3f} s   wall {min(t[1] for t in took):.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
