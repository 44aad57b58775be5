#!/usr/bin/env python3
"""How long the viewer's data takes to be ready, and how large it is. Usage: bench/viewer.py [--build DIR] [--rounds N]

A capture of ten million samples of a million distinct stacks is generated and served; the clock runs from the start of
`fathom view` to the last byte of the bundle. Then one file of a ten-minute capture.
"""

import argparse
import http.client
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parent.parent


def served(fathom: Path, profile: Path) -> Dict[str, float]:
    begin = time.perf_counter()
    server = subprocess.Popen([fathom, "view", "--no-open", profile], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout
    match = re.match(rb"http://127.0.0.1:(\d+)/#token=(\w+)", server.stdout.readline())
    assert match, "fathom view did not start"
    figures = {"address": time.perf_counter() - begin}

    def ask(path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=600)
        connection.request("GET", path, headers={"X-Fathom-Token": match[2].decode(), "Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data
        return len(data)

    figures["bytes"] = ask("/api/bundle")
    figures["bundle"] = time.perf_counter() - begin
    for name, path in (("again", "/api/bundle"), ("range", "/api/bundle?from_s=100&to_s=200")):
        then = time.perf_counter()
        ask(path)
        figures[name] = time.perf_counter() - then
    with open(f"/proc/{server.pid}/status") as status:
        figures["peak_mb"] = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) / 1024  # type: ignore[index]
    server.terminate()
    server.wait()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    fathom, generate = options.build / "fathom", options.build / "tests" / "gen_profile"
    with tempfile.TemporaryDirectory() as folder:
        big, ten_minutes = Path(folder, "big.fathom"), Path(folder, "ten.fathom")
        shape = ["--stacks", "1000000", "--shared", "25", "--fresh"]
        subprocess.run([generate, big, "10000000", *shape], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([generate, ten_minutes, "600000"], check=True, stdout=subprocess.DEVNULL)
        rounds: List[Dict[str, float]] = [served(fathom, big) for _ in range(options.rounds)]
        print(f"10 M samples, 1 M stacks, {big.stat().st_size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}")
        for key, unit in (("address", "s"), ("bundle", "s"), ("again", "s"), ("range", "s"), ("peak_mb", "MB")):
            values = [r[key] for r in rounds]
            print(f"  {key:8} best {min(values):8.3f} {unit}, median {statistics.median(values):8.3f} {unit}")
        print(f"  bundle of {rounds[0]['bytes'] / 1e6:.1f} MB, packed")
        page = Path(folder, "page.html")
        begin = time.perf_counter()
        subprocess.run([fathom, "view", "--html", page, ten_minutes], check=True)
        print(f"600,000 samples: one file of {page.stat().st_size / 1e6:.2f} MB in {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
