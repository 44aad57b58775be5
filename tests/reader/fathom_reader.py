#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An independent reader of .fathom files, written from docs/format.md and sharing no code with the C one.

fathom_reader.py FILE      print the canonical text that tests/tools/dump_profile prints
"""

import struct
import sys
from typing import Any, Callable, Dict, Iterator, List, Tuple

from fathom_chunks import M64, NONE, ChunkFile, Corrupt, NotAProfile

MAX_HOLES = 1 << 20


class Bytes:
    """Reads fields off a run of bytes; Corrupt when it ends early."""

    def __init__(self, data: bytes) -> None:
        self.data, self.pos = data, 0

    def left(self) -> int:
        return len(self.data) - self.pos

    def take(self, n: int) -> bytes:
        if n > self.left():
            raise Corrupt("ends early")
        self.pos += n
        return self.data[self.pos - n : self.pos]

    def u8(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        v = 0
        for shift in range(0, 70, 7):
            byte = self.u8()
            v |= (byte & 0x7F) << shift
            if byte < 0x80:
                return v & M64
        raise Corrupt("varint too long")

    def svarint(self) -> int:
        v = self.varint()
        return (v >> 1) ^ -(v & 1)

    def id(self) -> int:
        v = self.varint()
        if v > NONE:
            raise Corrupt("id above 32 bits")
        return v

    def str(self) -> bytes:
        return self.take(self.varint())


class Profile:
    def __init__(self, path: str) -> None:
        self.metas: Dict[bytes, bytes] = {}
        self.coverages: List[Tuple[bytes, bytes]] = []
        self.sources: List[Tuple[bytes, bytes]] = []
        self.mappings: List[Tuple[int, ...]] = []
        self.symbols: List[Tuple[int, int, List[Tuple[int, int, int, bytes, bytes]]]] = []
        self.strings: List[bytes] = [b""]
        self.images: List[Tuple[bytes, bytes, int]] = []
        self.codes: List[Tuple[Any, ...]] = []
        self.frames: List[Tuple[int, int, int]] = [(2, 0, 9)]
        self.stacks: List[Tuple[int, int]] = [(0, 0)]
        self.processes: List[Dict[str, Any]] = []
        self.threads: List[Dict[str, Any]] = []
        self.events: List[
            Tuple[Any, ...]
        ] = []  # ("sample", ...), ("alloc", ...), ("free", ...) in the file's order; traces, too
        self.sites: Dict[Tuple[int, int, int], Tuple[int, ...]] = {}
        self.levels: List[Tuple[int, ...]] = []
        self.alloc_types: List[Tuple[int, int, bytes]] = []
        self.alloc_touches: List[Tuple[int, int, int]] = []
        self.trace_names: List[Tuple[int, bytes, bytes, int]] = []
        self.call_sums: List[Tuple[int, ...]] = []
        self.n_undefined = self.n_holes = self.n_written = self.n_memory_written = 0
        self.file = ChunkFile(path)
        for kind, raw in self.file.chunks():
            if kind == 1:
                try:
                    self.records(Bytes(raw))
                except Corrupt:
                    self.file.n_damaged += 1
            elif kind == 2:
                mark = Bytes(raw)
                self.n_written = mark.varint() if raw else 0
                self.n_memory_written = mark.varint() if mark.left() else 0

    # Holes

    def fill(self, table: List[Any], count: int, blank: Callable[[], Any]) -> bool:
        missing = count - len(table)
        if missing > MAX_HOLES - self.n_holes:
            return False
        if missing > 0:
            self.n_holes += missing
            table.extend(blank() for _ in range(missing))
        return True

    def need(self, table: List[Any], index: int, blank: Callable[[], Any]) -> bool:
        if index < len(table):
            return True
        self.n_undefined += 1
        return self.fill(table, index + 1, blank)

    def must(self, ok: bool) -> None:
        if not ok:
            raise Corrupt("too many holes")

    @staticmethod
    def blank_process() -> Dict[str, Any]:
        return dict(pid=0, parent=0, start=0, end=0, code=-1, signal=0, exe=b"", command=b"", python=b"", engine=b"")

    @staticmethod
    def blank_thread() -> Dict[str, Any]:
        return dict(process=0, tid=0, start=0, end=0, cpu=0, dropped=0, name=b"")

    @staticmethod
    def blank_code() -> Tuple[Any, ...]:
        return (b"", b"", b"", 0, 0, b"")

    @staticmethod
    def blank_image() -> Tuple[bytes, bytes, int]:
        return (b"", b"", 0)

    @staticmethod
    def blank_frame() -> Tuple[int, int, int]:
        return (2, 0, 9)

    @staticmethod
    def blank_stack() -> Tuple[int, int]:
        return (0, 0)

    def need_process(self, index: int) -> bool:
        return self.need(self.processes, index, self.blank_process)

    def need_thread(self, index: int) -> bool:
        if index < len(self.threads):
            return True
        if not self.processes and not self.fill(self.processes, 1, self.blank_process):
            return False
        return self.need(self.threads, index, self.blank_thread)

    def string(self, index: int) -> bytes:
        if index < len(self.strings):
            return self.strings[index]
        self.n_undefined += 1
        return b""

    # Records

    def records(self, b: Bytes) -> None:
        tables = {
            1: self.take_string,
            2: self.take_image,
            3: self.take_code,
            4: self.take_frame,
            5: self.take_stack,
            32: self.take_trace_name,
        }
        facts = {
            6: self.take_samples,
            7: self.take_meta,
            8: self.take_coverage,
            9: self.take_process,
            10: self.take_process_end,
            11: self.take_thread,
            12: self.take_thread_name,
            13: self.take_thread_end,
            14: self.take_mapping,
            15: self.take_source,
            16: self.take_symbol,
            17: self.take_allocs,
            18: self.take_frees,
            20: self.take_level,
            21: self.take_alloc_type,
            22: self.take_sites,
            24: self.take_alloc_touched,
            33: self.take_trace,
            34: self.take_call_sum,
        }
        while b.left():
            kind = b.varint()
            body = Bytes(b.take(b.varint()))
            if kind in tables:
                self.take_batch(body, kind, tables[kind])
            elif kind in facts:
                facts[kind](body)

    def take_batch(self, b: Bytes, kind: int, entry: Callable[[Bytes], None]) -> None:
        table, blank = {
            1: (self.strings, bytes),
            2: (self.images, self.blank_image),
            3: (self.codes, self.blank_code),
            4: (self.frames, self.blank_frame),
            5: (self.stacks, self.blank_stack),
            32: (self.trace_names, lambda: (0, b"", b"", 0)),
        }[kind]
        first, n = b.id(), b.id()
        if n > b.left() or first > NONE - n or first < len(table):
            raise Corrupt("batch")
        self.must(self.fill(table, first, blank))
        self.previous_frame = 0
        for _ in range(n):
            entry(b)

    def take_string(self, b: Bytes) -> None:
        self.strings.append(b.str())

    def take_image(self, b: Bytes) -> None:
        path, build_id, flags = b.id(), b.str(), b.id()
        self.images.append((self.string(path), build_id, flags))

    def take_code(self, b: Bytes) -> None:
        name, qualname, filename, line, kind, table = b.id(), b.id(), b.id(), b.id(), b.u8(), b.str()
        self.codes.append((self.string(name), self.string(qualname), self.string(filename), line, kind, table))

    def take_frame(self, b: Bytes) -> None:
        kind, ref, value = b.u8(), b.id() - 1, b.varint()
        if kind > 2:
            raise Corrupt("frame kind")
        ok = True
        if kind == 0 and ref >= 0:
            ok = self.need(self.images, ref, self.blank_image)
        elif kind == 1 and ref >= 0:
            ok = self.need(self.codes, ref, self.blank_code)
        self.frames.append((kind, ref, value) if ok else self.blank_frame())

    def take_stack(self, b: Bytes) -> None:
        own = len(self.stacks)
        up, frame = b.varint(), b.svarint() + self.previous_frame
        if up == 0 or up > own or not 0 <= frame < NONE:
            raise Corrupt("stack")
        self.previous_frame = frame
        ok = self.need(self.frames, frame, self.blank_frame)
        self.stacks.append((own - up, frame if ok else 0))

    def take_meta(self, b: Bytes) -> None:
        key, value = b.str(), b.str()
        self.metas[key] = value

    def take_coverage(self, b: Bytes) -> None:
        what, why = b.str(), b.str()
        self.coverages.append((what, why))

    def take_source(self, b: Bytes) -> None:
        name, text = b.str(), b.str()
        self.sources.append((name, text))

    def take_process(self, b: Bytes) -> None:
        index = b.id()
        new = dict(
            pid=b.id(), parent=b.id(), start=b.varint(), exe=b.str(), command=b.str(), python=b.str(), engine=b.str()
        )
        self.must(self.fill(self.processes, index, self.blank_process))
        if index == len(self.processes):
            self.processes.append(self.blank_process())
        self.processes[index].update(new)

    def take_process_end(self, b: Bytes) -> None:
        index, new = b.id(), dict(end=b.varint(), code=b.svarint(), signal=b.svarint())
        self.must(self.need_process(index))
        self.processes[index].update(new)

    def take_thread(self, b: Bytes) -> None:
        index, new = b.id(), dict(self.blank_thread(), process=b.id(), tid=b.id(), start=b.varint())
        self.must(self.need_process(new["process"]))
        self.must(self.fill(self.threads, index, self.blank_thread))
        if index == len(self.threads):
            self.threads.append(new)
        self.threads[index] = new

    def take_thread_name(self, b: Bytes) -> None:
        index, name = b.id(), b.str()
        self.must(self.need_thread(index))
        self.threads[index]["name"] = name

    def take_thread_end(self, b: Bytes) -> None:
        index, new = b.id(), dict(end=b.varint(), cpu=b.varint(), dropped=b.varint())
        new["ready"] = b.varint() if b.left() else 0
        self.must(self.need_thread(index))
        self.threads[index].update(new)

    def take_mapping(self, b: Bytes) -> None:
        m = tuple([b.id(), b.id(), b.varint(), b.varint(), b.varint()])
        self.must(self.need_process(m[0]))
        self.must(self.need(self.images, m[1], self.blank_image))
        self.mappings.append(m)

    def take_symbol(self, b: Bytes) -> None:
        image, addr, n = b.id(), b.varint(), b.id()
        if n > b.left():
            raise Corrupt("symbol")
        self.must(self.need(self.images, image, self.blank_image))
        links = []
        for _ in range(n):
            name, file, first, line = b.id(), b.id(), b.id(), b.varint()
            if line >> 33:
                raise Corrupt("line")
            links.append((first, line >> 1, line & 1, self.string(name), self.string(file)))
        self.symbols.append((image, addr, links))

    @staticmethod
    def columns(b: Bytes, n: int, count: int) -> List[List[int]]:
        columns = []
        for i in range(count):
            low, width = b.varint(), b.u8()
            if width > 8 or (i == count - 1 and width == 0):
                raise Corrupt("column width")
            planes = [b.take(n) for _ in range(width)]
            columns.append([(low + sum(p[k] << 8 * s for s, p in enumerate(planes))) & M64 for k in range(n)])
        return columns

    def take_samples(self, b: Bytes) -> None:
        thread, n, time = b.id(), b.id(), b.varint()
        columns = self.columns(b, n, 4)
        if not self.need_thread(thread):
            return
        for rest, stack, weight, place in zip(*columns):
            if stack > NONE or place >> 20 or place & 15 > 5:
                raise Corrupt("sample")
            time = (time + ((rest >> 1) ^ -(rest & 1)) + weight) & M64
            if not self.need(self.stacks, stack, self.blank_stack):
                stack = 0
            self.events.append(("sample", thread, stack, time, weight, place >> 4, place & 15))

    def take_allocs(self, b: Bytes) -> None:
        thread, n, time = b.id(), b.id(), b.varint()
        columns = self.columns(b, n, 6)
        if not self.need_thread(thread):
            return
        for step, stack, size, extra, block, domain in zip(*columns):
            if stack > NONE or domain > 5:
                raise Corrupt("allocation")
            time = (time + ((step >> 1) ^ -(step & 1))) & M64
            if not self.need(self.stacks, stack, self.blank_stack):
                stack = 0
            weight = (size + extra) & M64
            self.events.append(("alloc", thread, stack, time, 0 if domain == 5 else block, size, weight, domain))

    def take_frees(self, b: Bytes) -> None:
        thread, n, time = b.id(), b.id(), b.varint()
        columns = self.columns(b, n, 2)
        if not self.need_thread(thread):
            return
        for step, block in zip(*columns):
            time = (time + ((step >> 1) ^ -(step & 1))) & M64
            self.events.append(("free", thread, time, block))

    def take_sites(self, b: Bytes) -> None:
        process, n, stack = b.id(), b.id(), 0
        for step, peak, turnover, given, missed, allocs, left, held, domain in zip(*self.columns(b, n, 9)):
            stack += step
            if stack > NONE or domain > 5 or held > 255:
                raise Corrupt("site")
            figures = [peak + turnover, allocs, allocs - left, peak - given, peak, peak - missed, held]
            self.keep_site(process, stack, domain, figures)

    def keep_site(self, process: int, stack: int, domain: int, figures: List[int]) -> None:
        self.must(self.need_process(process))
        if not self.need(self.stacks, stack, self.blank_stack):
            stack = 0
        self.sites[process, stack, domain] = tuple([v & M64 for v in figures])

    def take_level(self, b: Bytes) -> None:
        level = tuple([b.id()] + [b.varint() for _ in range(11)])
        self.must(self.need_process(level[0]))
        self.levels.append(level)

    def take_alloc_type(self, b: Bytes) -> None:
        process, block, name = b.id(), b.varint(), b.id()
        self.must(self.need_process(process))
        self.alloc_types.append((process, block, self.string(name)))

    def take_alloc_touched(self, b: Bytes) -> None:
        process, block, size = b.id(), b.varint(), b.varint()
        self.must(self.need_process(process))
        self.alloc_touches.append((process, block, size))

    def take_trace_name(self, b: Bytes) -> None:
        kind, name, file, line = b.id(), b.id(), b.id(), b.id()
        self.trace_names.append((min(kind, 255), self.string(name), self.string(file), line))

    def take_trace(self, b: Bytes) -> None:
        thread, n, time, depth, n_listed = b.id(), b.id(), b.varint(), b.varint(), b.id()
        if n_listed > depth or n_listed > b.left():
            raise Corrupt("open list")
        for _ in range(n_listed):
            b.varint()
        if n > b.left():
            raise Corrupt("number of events")
        if not self.need_thread(thread):
            return
        self.events.append(("trace", thread, n, depth))
        for _ in range(n):
            try:
                op, ref, delta, value = self.trace_event(b)
            except Corrupt:
                break  # what follows cannot be found; what came before stays
            time = (time + delta) & M64
            self.events.append(("zone", thread, op, ref, time, value))

    def known_ref(self, ref: int) -> int:
        table, index = (self.trace_names, ref >> 1) if ref & 1 else (self.codes, (ref >> 1) - 1)
        if index < len(table):
            return ref
        self.n_undefined += 1
        return 0

    def take_call_sum(self, b: Bytes) -> None:
        caller, callee, calls, recursive, own, total = [b.varint() for _ in range(6)]
        if recursive > calls:
            raise Corrupt("recursive calls")
        if caller:
            caller = self.known_ref(caller - 1) + 1
        self.call_sums.append((caller, self.known_ref(callee), calls, recursive, own, total))

    def trace_event(self, b: Bytes) -> Tuple[int, int, int, float]:
        first = b.varint()
        op, delta, ref, value = first & 7, first >> 3, 0, 0.0
        if op != 2:
            ref = b.varint()
        if op < 2:
            ref -= 1
            if ref >= len(self.codes):
                ref = -1
        elif op == 6:
            value = struct.unpack("<d", b.take(8))[0]
        elif op == 7:
            value = float(b.varint())
            if ref > 2:
                raise Corrupt("note")
        if ref > NONE:
            raise Corrupt("reference")
        if op in (3, 5, 6) and ref >= len(self.trace_names):
            ref = -1
        return op, ref, delta, value


EVENTS = {
    "sample": "sample thread=%d stack=%d time=%d weight=%d cpu=%d class=%d",
    "alloc": "alloc thread=%d stack=%d time=%d id=%d size=%d weight=%d domain=%d",
    "free": "free thread=%d time=%d id=%d",
    "trace": "trace thread=%d n=%d depth=%d",
    "zone": "zone thread=%d op=%d ref=%d time=%d value=%g",
}
SITE = "site process=%d stack=%d domain=%d alloc=%d allocs=%d frees=%d live=%d peak=%d at_peak=%d held=%d"
LEVEL = "level process=%d time=%d heap=%d high=%d rss=%d anon=%d file=%d shmem=%d pss=%d swap=%d cgroup=%d limit=%d"


def text(raw: bytes) -> str:
    return "".join(chr(c) if 0x20 <= c <= 0x7E and c not in b"\\|" else "\\x%02x" % c for c in raw)


def fields(*raws: bytes) -> str:
    return "".join("|" + text(raw) for raw in raws)


def dump(p: Profile) -> Iterator[str]:
    for event in p.events:
        yield EVENTS[event[0]] % event[1:]
    for key, value in p.metas.items():
        yield "meta" + fields(key, value)
    for pair in p.coverages:
        yield "coverage" + fields(*pair)
    for i, r in enumerate(p.processes):
        yield "process %d pid=%d parent=%d start=%d end=%d code=%d signal=%d" % (
            i,
            r["pid"],
            r["parent"],
            r["start"],
            r["end"],
            r["code"],
            r["signal"],
        ) + fields(r["exe"], r["command"], r["python"], r["engine"])
    for i, t in enumerate(p.threads):
        yield "thread %d process=%d tid=%d start=%d end=%d cpu=%d dropped=%d" % (
            i,
            t["process"],
            t["tid"],
            t["start"],
            t["end"],
            t["cpu"],
            t["dropped"],
        ) + fields(t["name"])
    for i, (path, build_id, flags) in enumerate(p.images):
        yield "image %d flags=%d" % (i, flags) + fields(path, build_id)
    for m in p.mappings:
        yield "mapping process=%d image=%d start=%d end=%d bias=%d" % m
    for i, (name, qualname, filename, line, kind, table) in enumerate(p.codes):
        yield "code %d line=%d kind=%d" % (i, line, kind) + fields(name, qualname, filename, table)
    for s in p.call_sums:
        yield "callsum caller=%d callee=%d calls=%d recursive=%d own=%d total=%d" % s
    for i, (kind, name, file, line) in enumerate(p.trace_names):
        yield "tracename %d kind=%d line=%d" % (i, kind, line) + fields(name, file)
    for i, frame in enumerate(p.frames):
        yield "frame %d kind=%d ref=%d value=%d" % ((i,) + frame)
    for i, stack in enumerate(p.stacks):
        yield "stack %d parent=%d frame=%d" % ((i,) + stack)
    for image, addr, links in p.symbols:
        yield "symbol image=%d addr=%d" % (image, addr)
        for first, line, inlined, name, file in links:
            yield "link first=%d line=%d inlined=%d" % (first, line, inlined) + fields(name, file)
    for pair in p.sources:
        yield "source" + fields(*pair)
    for key, figures in p.sites.items():
        yield SITE % (key + figures)
    for level in p.levels:
        yield LEVEL % level
    for process, block, name in p.alloc_types:
        yield "alloc_type process=%d id=%d" % (process, block) + fields(name)
    for touched in p.alloc_touches:
        yield "alloc_touched process=%d id=%d bytes=%d" % touched
    lost = max(p.n_written - sum(event[0] == "sample" for event in p.events), 0)
    lost_memory = max(p.n_memory_written - sum(event[0] in ("alloc", "free") for event in p.events), 0)
    yield "truncated=%d damaged=%d undefined=%d lost_samples=%d lost_memory=%d" % (
        p.file.truncated,
        p.file.n_damaged,
        p.n_undefined,
        lost,
        lost_memory,
    )


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: fathom_reader.py FILE", file=sys.stderr)
        return 2
    try:
        for line in dump(Profile(sys.argv[1])):
            print(line)
    except (NotAProfile, OSError) as e:
        print("fathom_reader: %s" % e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
