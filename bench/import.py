#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `fathom import` reads large files of other tools, and in how much memory; beside `go tool pprof` where Go is there.

Files are made by a fixed seed and written as a stream: collapsed stacks in random order, speedscope JSON and pprof with one sample
a stack. With --perf-data MB, perf records copied stacks (--call-graph dwarf) of a program with four threads, and the file is read by
Fathom, by perf script and by Hotspot's parser, where these are there.

    python3 bench/import.py                          # 10 million lines of collapsed stacks, 1 million samples of the others
    python3 bench/import.py --lines 100k --samples 10k --keep /tmp/files
"""

import argparse
import gzip
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Tuple

ROOT = Path(__file__).resolve().parent.parent
N_FUNCTIONS = 5000
Stack = Tuple[int, ...]


def number(text: str) -> int:
    scale = {"k": 1000, "M": 1000000}.get(text[-1:], 1)
    return int(text[:-1] if scale > 1 else text) * scale


def name(i: int) -> str:
    return f"handler_{i} (package/module_{i % 300}.py:{i % 900 + 1})"


def distinct_stacks(n: int, seed: int = 1) -> List[Stack]:
    """A tree as calls are: each stack goes on from one that was there."""
    r = random.Random(seed)
    stacks: List[Stack] = [(0,)]
    while len(stacks) < n:
        parent = stacks[int(len(stacks) * r.random() ** 2)]
        if len(parent) < 40:
            stacks.append((*parent, r.randrange(N_FUNCTIONS)))
    return stacks


def collapsed(stacks: List[Stack], n: int) -> Iterator[bytes]:
    lines = [";".join(map(name, s)) for s in stacks]
    r = random.Random(2)
    for _ in range(n // 10000):
        yield "".join(
            f"{lines[int(r.random() * len(lines))]} {int(r.random() * 3) + 1}\n" for _ in range(10000)
        ).encode()


def speedscope(stacks: List[Stack], n: int) -> Iterator[bytes]:
    frames = ",".join(
        f'{{"name":"handler_{i}","file":"package/module_{i % 300}.py","line":{i % 900 + 1}}}'
        for i in range(N_FUNCTIONS)
    )
    yield b'{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[' + frames.encode()
    yield b']},"profiles":[{"type":"sampled","name":"one","unit":"milliseconds","startValue":0,"endValue":1,"samples":[[0]'
    for i in range(1, n):
        yield (",[" + ",".join(map(str, stacks[i % len(stacks)])) + "]").encode()
    yield b'],"weights":[1' + b",1" * (n - 1) + b"]}]}"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(field: int, body: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(body)) + body


def pprof(stacks: List[Stack], n: int) -> Iterator[bytes]:
    yield message(1, b"\x08\x01\x10\x02") + message(1, b"\x08\x03\x10\x04")
    values = message(2, b"\x01" + varint(1000000))
    for i in range(n):
        stack = stacks[i % len(stacks)]
        yield message(2, message(1, b"".join(varint(f + 1) for f in reversed(stack))) + values)
    for i in range(N_FUNCTIONS):
        yield message(4, b"\x08" + varint(i + 1) + message(4, b"\x08" + varint(i + 1) + b"\x10" + varint(i % 900 + 1)))
        yield message(5, b"\x08" + varint(i + 1) + b"\x10" + varint(i + 305) + b"\x20" + varint(i % 300 + 5))
    for text in [
        "",
        "samples",
        "count",
        "cpu",
        "nanoseconds",
        *(f"package/module_{i}.py" for i in range(300)),
        *(f"handler_{i}" for i in range(N_FUNCTIONS)),
    ]:
        yield message(6, text.encode())


def measure(command: List[str]) -> Tuple[float, float, float]:
    """Seconds on the clock, of CPU, and peak RSS in MB, of a command."""
    begin = time.monotonic()
    with open(os.devnull, "w") as null:
        child = subprocess.Popen(command, stdout=null, stderr=subprocess.PIPE)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status) if hasattr(os, "waitstatus_to_exitcode") else status
    assert child.stderr is not None
    error = child.stderr.read().decode()
    child.stderr.close()
    if status:
        sys.exit(f"{' '.join(command)}: {error}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def made(path: Path, make: Callable[[List[Stack], int], Iterator[bytes]], n_stacks: int, n: int) -> int:
    """Writes the file, and returns its unpacked length. In a child: what a process had before exec counts into its peak."""
    is_packed = path.suffix == ".gz"
    length = path.with_suffix(".length")
    pid = os.fork()
    if pid == 0:
        raw_bytes = 0
        with gzip.open(path, "wb", 1) if is_packed else open(path, "wb") as file:
            for part in make(distinct_stacks(n_stacks), n):
                raw_bytes += file.write(part)
        length.write_text(str(raw_bytes))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"cannot make {path}")
    raw_bytes = int(length.read_text())
    length.unlink()
    return raw_bytes


def show(what: str, path: Path, raw_bytes: int, n: int, took: Tuple[float, float, float]) -> None:
    wall, cpu, rss = took
    mb = raw_bytes / 1e6
    print(
        f"{what:30} {path.stat().st_size / 1e6:9.1f} {mb:9.1f} {wall:8.2f} {cpu:8.2f} {mb / cpu:10.1f} {n / cpu / 1e6:9.2f} {rss:8.0f}"
    )


PROGRAM = """
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
static volatile uint64_t sink;
__attribute__((noinline)) static uint64_t fold(uint64_t n) { uint64_t x = n; for (uint64_t i = 0; i < n; i++) x ^= x << 7 ^ i; return x; }
__attribute__((noinline)) static uint64_t deep(int d, uint64_t n) { if (!d) return fold(n); uint64_t r = deep(d - 1, n) + 1; sink += r; return r; }
static int order(const void *a, const void *b) { return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b); }
__attribute__((noinline)) static uint64_t sorted(unsigned seed) { int v[700]; for (int i = 0; i < 700; i++) { seed = seed * 1103515245 + 12345; v[i] = (int)seed; } qsort(v, 700, sizeof(int), order); return (uint64_t)v[7]; }
static int rounds;
static void *work(void *arg) { for (int i = 0; i < rounds; i++) { sink += deep(30, 100000 + i); for (int k = 0; k < 3; k++) sink += sorted(i); } return arg; }
int main(int argc, char **argv) { pthread_t t[3]; rounds = atoi(argv[argc - 1]); for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, 0); work(0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); return 0; }
"""  # fmt: skip
HOTSPOT = ("/usr/lib/x86_64-linux-gnu/libexec/hotspot-perfparser", "/usr/lib64/libexec/hotspot-perfparser")


def record_with_perf(perf: str, folder: Path, megabytes: int) -> Path:
    """Copies of 8 KiB, ten thousand a second of CPU time: 1 MB takes about 12 ms of the program."""
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", folder / "program", folder / "program.c"], check=True)
    data = folder / "big.perf.data"
    command = [
        perf,
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "9999",
        "-m",
        "16384",
        "--call-graph",
        "dwarf",
        "-o",
        str(data),
    ]
    subprocess.run([*command, str(folder / "program"), str(12 * megabytes)], check=True, stdout=subprocess.DEVNULL)
    return data


def perf_data(fathom: Path, folder: Path, megabytes: int) -> None:
    perf = shutil.which("perf")
    if not perf:
        sys.exit("perf is not installed (Debian: linux-perf)")
    data, out, text = record_with_perf(perf, folder, megabytes), folder / "out.fathom", folder / "script.txt"
    with open(text, "wb") as file:
        subprocess.run([perf, "script", "-i", data], check=True, stdout=file, stderr=subprocess.DEVNULL)
    with open(text, "rb") as lines:
        n = sum(1 for line in lines if line.rstrip().endswith(b"cpu-clock:"))
    commands = [
        ("fathom import, perf.data", data, [str(fathom), "import", "-o", str(out), str(data)]),
        ("fathom report, perf.data", data, [str(fathom), "report", str(data)]),
        ("perf script", data, [perf, "script", "-i", str(data)]),
        ("perf report", data, [perf, "report", "-i", str(data), "--stdio", "-g", "none"]),
        ("fathom import, perf script", text, [str(fathom), "import", "-o", str(out), str(text)]),
    ]
    commands += [
        ("hotspot-perfparser", data, [h, "--input", str(data), "--output", "/dev/null"])
        for h in HOTSPOT
        if os.path.exists(h)
    ]
    for what, path, command in commands:
        show(what, path, path.stat().st_size, n, measure(command))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fathom", type=Path, default=ROOT / "build" / "fathom")
    parser.add_argument("--lines", type=number, default=10_000_000, help="of collapsed stacks")
    parser.add_argument("--samples", type=number, default=1_000_000, help="of speedscope and pprof")
    parser.add_argument("--stacks", type=number, default=100_000, help="distinct ones among them")
    parser.add_argument("--perf-data", type=int, metavar="MB", help="nothing but a perf.data of about this size")
    parser.add_argument("--keep", type=Path, help="make the files there and leave them")
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp(prefix="fathom-import-"))
    folder.mkdir(parents=True, exist_ok=True)
    go: Optional[str] = shutil.which("go")
    kinds: List[Tuple[str, Callable[[List[Stack], int], Iterator[bytes]], int]] = [
        ("collapsed", collapsed, args.lines),
        ("speedscope.json", speedscope, args.samples),
        ("pprof.pb.gz", pprof, args.samples),
    ]
    if not args.perf_data:
        print(f"{args.stacks} distinct stacks; raw: unpacked; M: lines or samples")
    print(
        f"{'':30} {'file MB':>9} {'raw MB':>9} {'wall s':>8} {'CPU s':>8} {'MB/CPU s':>10} {'M/CPU s':>9} {'RSS MB':>8}"
    )
    try:
        if args.perf_data:
            perf_data(args.fathom, folder, args.perf_data)
            return
        for kind, make, n in kinds:
            path, out = folder / f"big.{kind}", folder / "out.fathom"
            raw_bytes = made(path, make, args.stacks, n)
            show(
                f"fathom import, {kind}",
                path,
                raw_bytes,
                n,
                measure([str(args.fathom), "import", "-o", str(out), str(path)]),
            )
            if kind == "pprof.pb.gz" and go:
                show("go tool pprof -top", path, raw_bytes, n, measure([go, "tool", "pprof", "-top", str(path)]))
            if not args.keep:
                path.unlink()
    finally:
        if not args.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
