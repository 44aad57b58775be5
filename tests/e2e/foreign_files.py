# SPDX-License-Identifier: Apache-2.0
"""One small profile, written as other tools write theirs, so that what must come out of each is known to the unit."""

import gzip
import json
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Tuple


class Frame(NamedTuple):
    name: str
    file: str  # of a source, or a library where there is no line
    line: int = 0

    def text(self) -> str:
        return f"{self.name} ({self.file}{f':{self.line}' if self.line else ''})"


MAIN, WORK, FIB, RUN = (
    Frame("main", "app.py", 10),
    Frame("work", "app.py", 20),
    Frame("fib", "app.py", 3),
    Frame("run", "thr.py", 5),
)
DGEMM = Frame("dgemm", "libblas.so.3")
PID = 7
THREADS = {71: "MainThread", 72: "Worker \u00e9"}
# Thread, stack outermost first, samples of 1 ms.
STACKS: List[Tuple[int, Tuple[Frame, ...], int]] = [
    (71, (MAIN,), 3),
    (71, (MAIN, WORK), 5),
    (71, (MAIN, WORK, FIB, FIB), 7),
    (71, (MAIN, WORK, DGEMM), 11),
    (72, (RUN, WORK), 13),
    (72, (), 2),
]
FRAMES = [MAIN, WORK, FIB, RUN, DGEMM]


def expected(unit: int = 1, with_empty: bool = True) -> List[str]:
    """As `fathom export -f collapsed --threads` writes it."""
    shown = [(tid, frames, n * unit) for tid, frames, n in STACKS if frames or with_empty]
    return sorted(
        ";".join([f"thread ({tid}): {THREADS[tid]}", *(f.text() for f in frames)]) + f" {n}" for tid, frames, n in shown
    )


def collapsed() -> bytes:
    lines = [
        ";".join([f'process {PID}:"app"', f"thread ({tid}): {THREADS[tid]}", *(f.text() for f in frames)]) + f" {n}"
        for tid, frames, n in STACKS
    ]
    return ("\n".join(lines) + "\n").encode()


# ---- speedscope ----


def speedscope_frames() -> List[Dict[str, Any]]:
    return [{"name": f.name, "file": f.file, **({"line": f.line} if f.line else {})} for f in FRAMES]


def speedscope_name(tid: int) -> str:
    return f"process {PID} thread ({tid}): {THREADS[tid]}"


def speedscope(**top: Any) -> bytes:
    profiles = []
    for tid in THREADS:
        mine = [(frames, n) for t, frames, n in STACKS if t == tid]
        profiles.append(
            {
                "samples": [[FRAMES.index(f) for f in frames] for frames, _ in mine],
                "weights": [n for _, n in mine],
                "type": "sampled",
                "name": speedscope_name(tid),
                "unit": "milliseconds",
                "startValue": 5,
                "endValue": 5 + sum(n for _, n in mine),
            }
        )
    # py-spy, too, has its frames behind the profiles.
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "profiles": profiles,
            "shared": {"frames": speedscope_frames()},
            **top,
        }
    ).encode()


def speedscope_evented() -> bytes:
    profiles = []
    for tid in THREADS:
        at, path, events = 1.5, [], []  # type: float, List[int], List[Dict[str, Any]]
        for t, frames, n in STACKS:
            if t != tid:
                continue
            wanted = [FRAMES.index(f) for f in frames]
            while path != wanted[: len(path)]:
                events.append({"type": "C", "frame": path.pop(), "at": at})
            for frame in wanted[len(path) :]:
                events.append({"type": "O", "frame": frame, "at": at})
            path, at = wanted, at + n * 1e-3
        events += [{"type": "C", "frame": frame, "at": at} for frame in reversed(path)]
        profiles.append(
            {
                "type": "evented",
                "name": speedscope_name(tid),
                "unit": "seconds",
                "startValue": 1.5,
                "endValue": at,
                "events": events,
            }
        )
    return json.dumps(
        {
            "shared": {"frames": speedscope_frames()},
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "profiles": profiles,
        }
    ).encode()


# ---- pprof ----


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, body: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(body)) + body


def packed(field: int, values: Iterable[int]) -> bytes:
    return message(field, b"".join(map(varint, values)))


def loose(field: int, values: Iterable[int]) -> bytes:
    return b"".join(number(field, value) for value in values)


class Strings:
    def __init__(self) -> None:
        self.all = [""]

    def __call__(self, text: str) -> int:
        if text not in self.all:
            self.all.append(text)
        return self.all.index(text)


def pprof(numbers: Callable[[int, Iterable[int]], bytes] = packed, strings_first: bool = False, types: Tuple[Tuple[str, str], ...] = (("samples", "count"), ("cpu", "nanoseconds")),
          values: Callable[[int], List[int]] = lambda n: [n, n * 1000000], more: bytes = b"", inlined: bool = False) -> bytes:  # fmt: skip
    s = Strings()
    body = b"".join(message(1, number(1, s(kind)) + number(2, s(unit))) for kind, unit in types)
    for tid, frames, n in STACKS:
        labels = message(3, number(1, s("thread_id")) + number(3, tid)) + message(
            3, number(1, s("thread_name")) + number(2, s(THREADS[tid]))
        )
        labels += message(3, number(1, s("pid")) + number(3, PID))
        body += message(
            2, numbers(1, [FRAMES.index(f) + 100 for f in reversed(frames)]) + numbers(2, values(n)) + labels
        )
    body += message(3, number(1, 9) + number(2, 0x1000) + number(3, 0x9000) + number(5, s("libblas.so.3")))
    for i, f in enumerate(FRAMES):
        line = message(4, number(1, i + 200) + number(2, f.line))
        if f is DGEMM and inlined:  # into something that the compiler called its own
            line += message(4, number(1, 99) + number(2, 4)) + message(4, number(1, 98) + number(2, 5))
            body += message(5, number(1, 99) + number(2, s("middle")) + number(4, s("m.c")) + number(5, 2))
            body += message(5, number(1, 98) + number(3, s("outer")) + number(4, s("o.c")))
        body += message(4, number(1, i + 100) + (b"" if f.line else number(2, 9)) + number(3, 0x1000 + i) + line)
        body += message(5, number(1, i + 200) + number(2, s(f.name)) + (number(4, s(f.file)) if f.line else b""))
    body += number(9, 1700000000 * 10**9) + number(10, 50 * 10**6)
    table = b"".join(message(6, text.encode()) for text in s.all)
    return table + body + more if strings_first else body + more + table


# ---- Firefox Profiler ----

CATEGORIES = [{"name": "Other", "color": "grey", "subcategories": ["Other"]}]


def gecko(shared: bool = True, offsets: bool = True, weights: bool = True) -> bytes:
    """The processed format: its tables shared, as today, or each thread's own, as before."""
    s = Strings()
    nodes: List[Tuple[int, int]] = []  # caller, frame

    def node(frames: Tuple[Frame, ...]) -> Any:
        at = -1
        for f in frames:
            wanted = (at, FRAMES.index(f))
            if wanted not in nodes:
                nodes.append(wanted)
            at = nodes.index(wanted)
        return None if at < 0 else at

    samples: Dict[int, Dict[str, Any]] = {
        tid: {"stack": [], "time": [], "weight": [], "weightType": "samples"} for tid in THREADS
    }
    for tid, frames, n in STACKS:
        mine = samples[tid]
        for _ in range(1 if weights else n):
            mine["stack"].append(node(frames))
            mine["time"].append((mine["time"] or [100.0])[-1] + (n if weights else 1) * 1.0)
            mine["weight"].append(n)
        mine["length"] = len(mine["stack"])
    if not weights:
        for mine in samples.values():
            mine["weight"] = None
    sources = [s("app.py"), s("thr.py")]
    tables: Dict[str, Any] = {
        "stackTable": {"frame": [f for _, f in nodes], "length": len(nodes)},
        "frameTable": {
            "func": list(range(len(FRAMES))),
            "line": [f.line or None for f in FRAMES],
            "category": [0] * len(FRAMES),
            "length": len(FRAMES),
        },
        "funcTable": {
            "name": [s(f.name) for f in FRAMES],
            "resource": [-1 if f.line else 0 for f in FRAMES],
            "length": len(FRAMES),
        },
        "resourceTable": {"lib": [0], "name": [s("libblas.so.3")], "length": 1},
        "sources": {"filename": sources, "length": 2},
    }
    if offsets:
        tables["stackTable"]["prefixOffset"] = [0 if at < 0 else i - at for i, (at, _) in enumerate(nodes)]
        tables["funcTable"]["source"] = [sources.index(s(f.file)) if f.line else None for f in FRAMES]
    else:
        tables["stackTable"]["prefix"] = [None if at < 0 else at for at, _ in nodes]
        tables["funcTable"]["fileName"] = [s(f.file) if f.line else None for f in FRAMES]
    tables["stringArray"] = s.all
    markers = {"length": 1, "name": [0], "data": [None]}
    threads = [
        {
            "name": THREADS[tid],
            "pid": str(PID),
            "markers": markers,
            "tid": tid,
            "samples": samples[tid],
            **({} if shared else tables),
        }
        for tid in THREADS
    ]
    meta = {
        "interval": 1,
        "startTime": 1700000000000.0,
        "version": 33,
        "preprocessedProfileVersion": 60,
        "stackwalk": 1,
        "product": "app",
        "categories": CATEGORIES,
    }
    libs = [{"name": "libblas.so.3", "path": "libblas.so.3", "codeId": None}]
    return json.dumps(
        {"meta": meta, "libs": libs, "threads": threads, **({"shared": tables} if shared else {})}
    ).encode()


def gecko_raw() -> bytes:
    """The raw format: rows with a schema, and a process inside another."""

    def thread(tid: int) -> Dict[str, Any]:
        s = Strings()
        frames = [[s(f.text())] for f in FRAMES]
        stacks: List[List[Any]] = []
        rows: List[List[Any]] = []
        at_ms = 0.0
        for t, path, n in STACKS:
            if t != tid:
                continue
            at = None
            for f in path:
                wanted = [at, FRAMES.index(f)]
                if wanted not in stacks:
                    stacks.append(wanted)
                at = stacks.index(wanted)
            for _ in range(n):
                at_ms += 2
                rows.append([at, at_ms])
        return {
            "name": THREADS[tid], "pid": PID, "tid": tid, "stringTable": s.all,
            "samples": {"schema": {"stack": 0, "time": 1, "responsiveness": 2}, "data": rows},
            "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": stacks},
            "frameTable": {"schema": {"location": 0, "line": 4}, "data": frames},
            "markers": {"schema": {"name": 0}, "data": [[0]]},
        }  # fmt: skip

    meta = {"interval": 1, "version": 24, "stackwalk": 1, "processType": 0}
    main, worker = (thread(tid) for tid in THREADS)
    for table in ("samples", "stackTable", "frameTable"):  # the schema behind the rows, as where keys are sorted
        worker[table] = {"data": worker[table]["data"], "schema": worker[table]["schema"]}
    return json.dumps({"meta": meta, "threads": [main], "processes": [{"meta": meta, "threads": [worker]}]}).encode()


FILES: Dict[str, Callable[[], bytes]] = {
    "collapsed": collapsed,
    "collapsed.gz": lambda: gzip.compress(collapsed()),
    "speedscope": speedscope,
    "speedscope-evented": speedscope_evented,
    "pprof": pprof,
    "pprof.gz": lambda: gzip.compress(pprof(loose, strings_first=True)),
    "gecko": gecko,
    "gecko-own-tables.gz": lambda: gzip.compress(gecko(shared=False, offsets=False, weights=False)),
    "gecko-raw": gecko_raw,
}
