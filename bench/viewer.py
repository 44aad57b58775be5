#!/usr/bin/env python3
"""How long the viewer takes to show something, and how large it is. Usage: bench/viewer.py [--build DIR] [--rounds N] [--viewport WxH]

A capture of ten million samples of a million distinct stacks, and a trace of ten million zones, are generated and served. The clock
runs from the start of `fathom view` to the last byte of the bundle, and to the first picture in a browser that is open (with Chromium
and tests/web's packages). Then one file of a ten-minute capture, and that capture in speedscope and in Fathom's page by turns.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parent.parent


class Server:
    def __init__(self, fathom: Path, profile: Path) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [fathom, "view", "--no-open", profile], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.process.stdout
        match = re.match(rb"http://127.0.0.1:(\d+)/#token=(\w+)", self.process.stdout.readline())
        assert match, "fathom view did not start"
        self.port, self.token = int(match[1]), match[2].decode()

    def ask(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("GET", path, headers={"X-Fathom-Token": self.token, "Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data
        return len(data)

    def timed(self, path: str) -> float:
        then = time.perf_counter()
        self.ask(path)
        return time.perf_counter() - then

    def cpu_s(self) -> float:
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> float:
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) / 1024  # type: ignore[index]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def served(fathom: Path, profile: Path, questions: Dict[str, str]) -> Dict[str, float]:
    server = Server(fathom, profile)
    figures: Dict[str, float] = {"address": time.perf_counter() - server.began}
    figures["bytes"] = server.ask("/api/bundle")
    figures["bundle"] = time.perf_counter() - server.began
    figures["of CPU"] = server.cpu_s()  # of all its threads: other programs on the machine do not count
    for name, path in questions.items():
        figures[name] = server.timed(path)
    figures["peak_mb"] = server.peak_mb()
    server.end()
    return figures


def tell(rounds: List[Dict[str, float]]) -> None:
    for key in rounds[0]:
        values = [r[key] for r in rounds]
        unit = "MB" if key == "peak_mb" else "s"
        if key != "bytes":
            print(f"  {key:10} best {min(values):8.3f} {unit}, median {statistics.median(values):8.3f} {unit}")
    print(f"  bundle of {rounds[0]['bytes'] / 1e6:.1f} MB, packed")


def in_browser(fathom: Path, profile: Path, view: str, rounds: int, viewport: str) -> None:
    node = shutil.which("node")
    if not node:
        print("  in a browser: not measured, there is no Node")
        return
    script = ROOT / "bench" / "first_picture.mjs"
    command = [node, script, fathom, profile, view, str(rounds), "--viewport", viewport]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print("  in a browser: not measured", done.stdout.strip())
        return
    lines: List[Dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    first = [line["first_s"] for line in lines]
    own = min(line["page_cpu_s"] for line in lines)
    print(f"  first picture in an open browser: best {min(first):.2f} s, median {statistics.median(first):.2f} s")
    print(f"  of it {own:.2f} s of the page's own CPU at best")
    best = max(lines, key=lambda line: line["fps"])
    print(
        f"  zooming and moving: {best['fps']:.0f} frames a second at best, {statistics.median(x['fps'] for x in lines):.0f} in the"
        f" median; {best['drawMs']:.1f} ms to draw one ({best['worstMs']:.1f} at worst), {best['cpu_ms']:.1f} ms of the page's CPU"
    )
    least = min(lines, key=lambda line: line["drag_all_ms"])
    print(
        f"  dragging {view} at {viewport}: {max(x['drag_fps'] for x in lines):.0f} frames a second at best; {least['drag_cpu_ms']:.1f} ms"
        f" of the page's CPU for each, {least['drag_all_ms']:.1f} ms of the browser's"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["samples", "zones", "file", "speedscope"], help="one part of it")
    parser.add_argument("--viewport", default="1280x720", help="of the browser's window; 3840x2160 is a large screen")
    options = parser.parse_args()
    fathom, tools = options.build / "fathom", options.build / "tests"

    def wants(part: str) -> bool:
        return options.only in (None, part)

    def make(tool: str, name: str, *args: str) -> Path:
        path = Path(folder, name)
        subprocess.run([tools / tool, path, *args], check=True, stdout=subprocess.DEVNULL)
        return path

    with tempfile.TemporaryDirectory() as folder:
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        if wants("samples"):
            big = make("gen_profile", "big", "10000000", "--stacks", "1000000", "--shared", "25", "--fresh")
            print(f"10 M samples, 1 M stacks, {big.stat().st_size / 1e6:.0f} MB")
            questions = {"again": "/api/bundle", "range": "/api/bundle?from_s=100&to_s=200"}
            tell([served(fathom, big, questions) for _ in range(options.rounds)])
            for view in ("flame", "timeline"):
                in_browser(fathom, big, view, options.rounds, options.viewport)
            big.unlink()
        if wants("zones"):
            trace = make("gen_trace", "trace", "10000000", "--threads", "4")
            print(f"10 M zones on 4 threads, {trace.stat().st_size / 1e6:.0f} MB")
            questions = {
                "all": "/api/zones?pixels=2048",
                "a tenth": "/api/zones?from_s=1&to_s=1.27&pixels=2048",
                "1 ms": "/api/zones?from_s=1&to_s=1.001&pixels=2048",
            }
            tell([served(fathom, trace, questions) for _ in range(options.rounds)])
            in_browser(fathom, trace, "timeline", options.rounds, options.viewport)
            trace.unlink()
        ten_minutes = make("gen_profile", "ten", "600000") if wants("file") or wants("speedscope") else None
        if ten_minutes and wants("file"):
            page = Path(folder, "page.html")
            begin = time.perf_counter()
            subprocess.run([fathom, "view", "--html", page, ten_minutes], check=True)
            took = time.perf_counter() - begin
            print(f"600,000 samples: one file of {page.stat().st_size / 1e6:.2f} MB in {took:.2f} s")
        if ten_minutes and wants("speedscope"):
            print("the same capture in speedscope and in Fathom's page", flush=True)
            script = ROOT / "bench" / "viewers.mjs"
            subprocess.run(
                ["node", script, fathom, ten_minutes, str(options.rounds), "--viewport", options.viewport], check=False
            )


if __name__ == "__main__":
    main()
