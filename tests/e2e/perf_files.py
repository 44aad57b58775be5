# SPDX-License-Identifier: Apache-2.0
"""perf.data written field by field, as include/uapi/linux/perf_event.h and perf's header say, so that what must come out of it
is known to the nanosecond."""

import struct
from typing import List, Optional, Sequence, Tuple

SOFTWARE, HARDWARE = 1, 0
CPU_CLOCK, TASK_CLOCK, PAGE_FAULTS, CONTEXT_SWITCHES = 0, 1, 2, 3
CYCLES = 0
IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW, BRANCH, REGS_USER, STACK_USER = (
    1 << i for i in range(14)
)
WEIGHT, DATA_SRC, IDENTIFIER, TRANSACTION, REGS_INTR, PHYS_ADDR, AUX, CGROUP, DATA_PAGE, CODE_PAGE = (
    1 << i for i in (14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
)
USUAL = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | CALLCHAIN
USER_MARK, KERNEL_MARK = (1 << 64) - 512, (1 << 64) - 128
KERNEL, USER = 1, 2  # in misc
BP, SP, PC = 6, 7, 8  # registers, by perf's numbers
FREQ, SAMPLE_ID_ALL = 1 << 10, 1 << 18
BRANCH_CALL_STACK = 1 << 11
MMAP, LOST, COMM, EXIT, FORK, SAMPLE, MMAP2, LOST_SAMPLES, SWITCH = 1, 2, 3, 4, 7, 9, 10, 13, 14
HEADER_ATTR, FINISHED_ROUND, EVENT_UPDATE, HEADER_FEATURE, COMPRESSED = 64, 68, 78, 80, 81
SWITCH_OUT, PREEMPTED, COMM_EXEC = 1 << 13, 1 << 14, 1 << 13


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def text(value: bytes) -> bytes:
    return value + b"\0" * (8 - len(value) % 8)


def header_text(value: bytes) -> bytes:
    return struct.pack("<I", 64) + value.ljust(64, b"\0")


def raw_zstd(data: bytes, is_first: bool) -> bytes:
    """A part of one zstd stream that packs nothing: a head without a length and then a block that is not the last."""
    head = b"\x28\xb5\x2f\xfd\x00\x58" if is_first else b""  # a window of 2 MiB
    return head + struct.pack("<I", len(data) << 3)[:3] + data


class Event:
    def __init__(
        self,
        number: int,
        type: int = SOFTWARE,
        config: int = CPU_CLOCK,
        period: int = 1_000_000,
        bits: int = USUAL,
        flags: int = SAMPLE_ID_ALL,
        name: bytes = b"",
        read_format: int = 0,
        branches: int = 0,
        regs: int = 0,
        stack: int = 0,
    ) -> None:
        self.id, self.bits, self.name, self.regs = number, bits, name, regs
        self.attr = struct.pack(
            "<IIQQQQQIIQQQQIiQ", type, 104, config, period, bits, read_format, flags, 0, 0, 0, 0, branches, regs, stack, 0, 0
        ) + bytes(8)  # fmt: skip


class PerfData:
    def __init__(self, *events: Event, host: bytes = b"") -> None:
        self.events, self.host = events, host
        self.records: List[bytes] = []

    def add(self, type: int, misc: int, body: bytes) -> "PerfData":
        assert len(body) % 8 == 0
        self.records.append(struct.pack("<IHH", type, misc, 8 + len(body)) + body)
        return self

    def who(self, pid: int, tid: int, time: int, cpu: int = 0) -> bytes:
        """What ends every record but a sample, in the order of the bits of its event."""
        bits, out = self.events[0].bits, b""
        for bit, value in ((TID, struct.pack("<II", pid, tid)), (TIME, words(time)), (ID, words(self.events[0].id)), (STREAM_ID, words(0)),
                           (CPU, words(cpu)), (IDENTIFIER, words(self.events[0].id))):  # fmt: skip
            out += value if bits & bit else b""
        return out

    def comm(self, pid: int, tid: int, name: bytes, time: int = 1, misc: int = 0) -> "PerfData":
        return self.add(COMM, misc, struct.pack("<II", pid, tid) + text(name) + self.who(pid, tid, time))

    def map(self, pid: int, start: int, length: int, path: bytes, time: int = 1, offset: int = 0) -> "PerfData":
        body = struct.pack("<II", pid, pid) + words(start, length, offset) + bytes(24) + struct.pack("<II", 5, 2)
        return self.add(MMAP2, USER, body + text(path) + self.who(pid, pid, time))

    def fork(self, pid: int, parent: int, tid: int, parent_tid: int, time: int) -> "PerfData":
        return self.add(
            FORK, 0, struct.pack("<IIII", pid, parent, tid, parent_tid) + words(time) + self.who(pid, tid, time)
        )

    def switch(self, pid: int, tid: int, time: int, misc: int) -> "PerfData":
        return self.add(SWITCH, misc, self.who(pid, tid, time))

    def lost(self, pid: int, tid: int, time: int, n: int) -> "PerfData":
        return self.add(LOST, 0, words(1, n) + self.who(pid, tid, time))

    def round(self) -> "PerfData":
        return self.add(FINISHED_ROUND, 0, b"")

    def sample(
        self, pid: int, tid: int, time: int, period: int, chain: Sequence[int], event: int = 0, cpu: int = 0, misc: int = USER,
        registers: Optional[Sequence[int]] = None, stack: bytes = b"", branches: Sequence[Tuple[int, int]] = (),
    ) -> "PerfData":  # fmt: skip
        """Every field that the event's bits ask for, with content that is no number if it is read for another."""
        e = self.events[event]
        ips = [ip for ip in chain if ip < KERNEL_MARK - 4096]
        fields = [
            (IDENTIFIER, words(e.id)), (IP, words(ips[0] if ips else 0)), (TID, struct.pack("<II", pid, tid)), (TIME, words(time)),
            (ADDR, words(0xADD0)), (ID, words(e.id)), (STREAM_ID, words(77)), (CPU, struct.pack("<II", cpu, 0)), (PERIOD, words(period)),
            (READ, words(2, 5, 6, 1, 2, 3, 4)),  # a group of two with both times and ids
            (CALLCHAIN, words(len(chain), *chain)), (RAW, struct.pack("<I", 12) + b"raw" * 4),
            (BRANCH, words(len(branches), *(v for a, b in branches for v in (a, b, 0)))),
            (REGS_USER, words(2, *registers) if registers is not None else words(0)),
            (STACK_USER, words(len(stack)) + stack + (words(len(stack)) if stack else b"")),
            (WEIGHT, words(88)), (DATA_SRC, words(89)), (TRANSACTION, words(90)), (REGS_INTR, words(0)), (PHYS_ADDR, words(91)),
            (CGROUP, words(92)), (DATA_PAGE, words(93)), (CODE_PAGE, words(94)), (AUX, words(16) + b"a" * 16),
        ]  # fmt: skip
        return self.add(SAMPLE, misc, b"".join(value for bit, value in fields if e.bits & bit))

    def data(self) -> bytes:
        return b"".join(self.records)

    def event_desc(self) -> bytes:
        out = struct.pack("<II", len(self.events), len(self.events[0].attr))
        for e in self.events:
            out += e.attr + struct.pack("<I", 1) + header_text(e.name) + words(e.id)
        return out

    def file(self, is_unfinished: bool = False) -> bytes:
        """As perf record -o writes it: head, ids, events, data, and what the file says of itself."""
        n, table_at = len(self.events), 104 + 8 * len(self.events)
        table = b"".join(e.attr + words(104 + 8 * i, 8) for i, e in enumerate(self.events))
        data_at, data = table_at + len(table), self.data()
        features = [(3, header_text(self.host)), (12, self.event_desc())]
        head = b"PERFILE2" + words(
            104, 16 + len(self.events[0].attr), table_at, len(table), data_at, 0 if is_unfinished else len(data), 0, 0
        )
        head += words(0 if is_unfinished else sum(1 << number for number, _ in features), 0, 0, 0)
        out = head + b"".join(words(e.id) for e in self.events) + table + data
        assert len(out) == data_at + len(data) and n
        if is_unfinished:
            return out
        at = len(out) + 16 * len(features)
        for _, body in features:
            out += words(at, len(body))
            at += len(body)
        return out + b"".join(body for _, body in features)

    def pipe(self, is_packed: bool = False) -> bytes:
        """As perf record -o - writes it; packed, as with -z, in parts that end in the middle of records."""
        out = b"PERFILE2" + words(16)
        for e in self.events:
            body = e.attr + words(e.id)
            out += struct.pack("<IHH", HEADER_ATTR, 0, 8 + len(body)) + body
            body = words(2, e.id) + text(e.name)
            out += struct.pack("<IHH", EVENT_UPDATE, 0, 8 + len(body)) + body
        feature = words(3) + header_text(self.host) + bytes(4)
        out += struct.pack("<IHH", HEADER_FEATURE, 0, 8 + len(feature)) + feature
        data = self.data()
        if not is_packed:
            return out + data
        for at in range(0, len(data), 100):
            part = raw_zstd(data[at : at + 100], at == 0)
            out += struct.pack("<IHH", COMPRESSED, 0, 8 + len(part)) + part
        return out
