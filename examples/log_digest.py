"""Digests a day of web-server logs: parse, group, find near-duplicate paths, compress the result.

A small program with the layers real ones have: Python loops, C code called from Python (re, json, zlib, sorted) and
threads. It runs about three seconds and needs nothing but Python. The hot line is the inner loop of `distance`.
"""

import json
import random
import re
import threading
import zlib
from collections import Counter, defaultdict
from typing import Dict, Iterable, List, Tuple

LINE = re.compile(
    r'(?P<host>\S+) \[(?P<time>[^\]]+)\] "(?P<verb>[A-Z]+) (?P<path>\S+)" (?P<status>\d+) (?P<body>\{.*\})'
)

WORDS = "cart login search item order profile image static help about invoice basket upload report archive".split()


def make_lines(count: int) -> List[str]:
    rng = random.Random(7)
    paths = ["/" + "/".join(rng.choices(WORDS, k=rng.randint(1, 4))) for _ in range(260)]
    paths += [path[:-1] for path in paths[:8]]  # typing errors
    return [
        '10.0.%d.%d [%02d:%02d:%02d] "GET %s" %d %s'
        % (
            *(rng.randrange(250), rng.randrange(250), i * 24 // count, rng.randrange(60), rng.randrange(60)),
            *(rng.choice(paths), rng.choice((200, 200, 200, 304, 404, 500))),
            json.dumps({"ms": round(rng.expovariate(0.05), 2), "bytes": rng.randrange(90_000)}),
        )
        for i in range(count)
    ]


def parse(lines: Iterable[str]) -> Dict[str, List[Tuple[float, int]]]:
    by_path: Dict[str, List[Tuple[float, int]]] = defaultdict(list)
    for line in lines:
        match = LINE.match(line)
        if match:
            body = json.loads(match["body"])
            by_path[match["path"]].append((body["ms"], body["bytes"]))
    return by_path


def distance(a: str, b: str) -> int:
    """Edit distance, one row at a time."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def near_duplicates(paths: List[str]) -> List[Tuple[str, str]]:
    return [(a, b) for i, a in enumerate(paths) for b in paths[:i] if distance(a, b) <= 2]


def compress(lines: List[str], sizes: Counter) -> None:
    """zlib lets go of the interpreter lock, so this thread runs beside the others."""
    for start in range(0, len(lines), 4000):
        sizes["packed"] += len(zlib.compress("\n".join(lines[start : start + 4000]).encode(), 9))


def main() -> None:
    lines = make_lines(80_000)
    sizes: Counter = Counter()
    packer = threading.Thread(target=compress, args=(lines, sizes), name="packer")
    packer.start()
    by_path = parse(lines)
    slowest = sorted(by_path, key=lambda path: -sum(ms for ms, _ in by_path[path]) / len(by_path[path]))
    pairs = near_duplicates(sorted(by_path))
    packer.join()
    print(f"{len(lines)} lines, {len(by_path)} paths, {len(pairs)} near-duplicates, {sizes['packed']} bytes packed")
    print("slowest:", ", ".join(slowest[:3]))


if __name__ == "__main__":
    main()
