#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent into a busy program and out again, many times: how often that fails, and what the program notices.

    bench/inject.py --times 200 /usr/bin/python3.11 ...

For each Python: captures that were made, that were refused (nobody ran Python code in time; the program is as before) and that failed
otherwise; whether the program was hurt (its own checks, output, exit status, signals and descriptors against those of a run without
Fathom); the time from the command to the agent's first tick, and the longest pause of a thread that reads the clock (--pause, alone).
"""

import argparse
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "targets" / "injected_busy.py"
WAYS = ["--inject", "--memory", "--memory=exact", "--trace"]

# Reads the clock on one thread beside five that sleep or spin a little; prints the longest gap in microseconds.
CLOCK = """
import threading, time, sys
over = time.monotonic() + float(sys.argv[1])
def nap():
    while time.monotonic() < over:
        time.sleep(0.01)
for _ in range(5):
    threading.Thread(target=nap).start()
print("ready", flush=True)
longest, last = 0.0, time.monotonic()
while last < over:
    now = time.monotonic()
    longest, last = max(longest, now - last), now
print(round(longest * 1e6))
"""


def what_it_shows(pid: int) -> List[str]:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [line for line in status if line.startswith(("SigIgn", "SigCgt"))]


def start(python: str, *arguments: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [python, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stdout.readline() == "ready\n"
    return process


def inject(fathom: str, pid: int, out: Path, way: str, duration: float) -> Dict[str, Any]:
    """One capture: its exit status, what was said, and when the agent was in."""
    begin = time.monotonic()
    command = [fathom, "record", "-p", str(pid), way, "--duration", str(duration), "-o", str(out)]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said, in_s = "", None
    assert run.stderr
    while select.select([run.stderr], [], [], 60)[0]:
        line = run.stderr.readline()
        if not line:
            break
        said += line
        if "the agent is in process" in line:
            in_s = time.monotonic() - begin
    run.wait(timeout=60)
    return {"status": run.returncode, "said": said, "in_s": in_s, "all_s": time.monotonic() - begin}


def percentile(values: List[float], share: float) -> float:
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def storm(python: str, fathom: str, times: int, folder: Path) -> Dict[str, Any]:
    bare = start(python, str(TARGET))
    time.sleep(1)
    expected = bare.communicate("")
    process = start(python, str(TARGET))
    before, done, refused, failed, in_s = what_it_shows(process.pid), 0, [], [], []
    for i in range(times):
        run = inject(fathom, process.pid, folder / "storm.fathom", WAYS[i % len(WAYS)], 0.05)
        if run["status"] == 0:
            done += 1
            in_s.append(run["in_s"])
        elif "ran no Python code" in run["said"]:
            refused.append(run["said"])
        else:
            failed.append(run["said"])
        if process.poll() is not None:
            break
        if i % 10 == 0:
            process.send_signal(signal.SIGUSR1)
    is_alive = process.poll() is None
    after = what_it_shows(process.pid) if is_alive else ["gone"]
    got = process.communicate("" if is_alive else None)
    is_hurt = process.returncode != bare.returncode or got != expected or after != before
    return {
        "done": done,
        "refused": len(refused),
        "failed": len(failed),
        "why": sorted(set(re.sub(r"\d+", "N", text) for text in refused + failed)),
        "hurt": is_hurt,
        "what": [process.returncode, got, before, after] if is_hurt else None,
        "in_ms": [round(1000 * percentile(in_s, share)) for share in (0.5, 0.95, 1)],
    }


def pause(python: str, fathom: str, times: int, folder: Path) -> Dict[str, Any]:
    """Microseconds, of the program without us and with each way; real-time priority where that is allowed."""
    longest: Dict[str, List[int]] = {}
    for way in ["bare", *WAYS]:
        for _ in range(times):
            process = start(python, "-c", CLOCK, "1.5")
            try:
                for task in os.listdir(f"/proc/{process.pid}/task"):
                    os.sched_setscheduler(int(task), os.SCHED_FIFO, os.sched_param(10))
            except PermissionError:
                pass
            if way != "bare":
                run = inject(fathom, process.pid, folder / "pause.fathom", way, 0.2)
                assert run["status"] == 0, run["said"]
            longest.setdefault(way, []).append(int(process.communicate()[0]))
    return {way: [percentile(list(map(float, us)), 0.5), max(us)] for way, us in longest.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pythons", nargs="+")
    parser.add_argument("--fathom", default=str(ROOT / "build" / "fathom"))
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--pause", action="store_true", help="the longest pause instead, TIMES for each way")
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("TMPDIR", "/tmp")))
    options = parser.parse_args()
    for python in options.pythons:
        measure = pause if options.pause else storm
        print(json.dumps({"python": python, **measure(python, options.fathom, options.times, options.folder)}))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
