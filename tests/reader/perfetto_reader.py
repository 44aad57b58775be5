# SPDX-License-Identifier: Apache-2.0
"""Reads a Perfetto trace, from what its format's description says alone: no code of Fathom's and none of Perfetto's.

Protocol Buffers on the wire are fields: a varint of number and kind, then a varint, eight bytes, four bytes, or a length and so many bytes.
"""

import struct
from collections import defaultdict
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

Value = Union[int, float, bytes]


def fields(data: bytes) -> Iterator[Tuple[int, Value]]:
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        number, kind = key >> 3, key & 7
        assert number > 0
        if kind == 0:
            yield number, varint()
        elif kind == 1:
            yield number, struct.unpack_from("<d", data, at)[0]
            at += 8
        elif kind == 2:
            length = varint()
            assert at + length <= len(data), "a field that is longer than what it is in"
            yield number, data[at : at + length]
            at += length
        else:
            raise AssertionError("kind %d is not used by this format" % kind)


def message(data: Value) -> Dict[int, List[Value]]:
    assert isinstance(data, bytes)
    found: Dict[int, List[Value]] = defaultdict(list)
    for number, value in fields(data):
        found[number].append(value)
    return found


def text(message_: Dict[int, List[Value]], number: int) -> Optional[str]:
    values = message_.get(number)
    if not values:
        return None
    assert isinstance(values[0], bytes)
    return values[0].decode("utf-8")  # strict: the format demands it


class Track(NamedTuple):
    parent: Optional[int]
    name: Optional[str]
    pid: Optional[int]
    tid: Optional[int]
    is_counter: bool


class Slice(NamedTuple):
    track: int
    name: str
    category: str
    place: Optional[Tuple[str, str, int]]  # file, function, line
    begin_ns: int
    end_ns: int
    depth: int


class Trace:
    def __init__(self, data: bytes) -> None:
        self.tracks: Dict[int, Track] = {}
        self.slices: List[Slice] = []
        self.marks: List[Tuple[int, int, str]] = []  # track, time, text
        self.counts: List[Tuple[int, int, float]] = []  # track, time, value
        self.n_packets = 0
        self._sequences: Dict[int, Dict[str, Any]] = {}
        self._open: Dict[int, List[Any]] = defaultdict(list)
        for number, packet in fields(data):
            assert number == 1
            self._packet(message(packet))
            self.n_packets += 1
        assert not any(self._open.values()), "slices that never end"

    def track_of(self, tid: int) -> int:
        return next(uuid for uuid, t in self.tracks.items() if t.tid == tid)

    def _packet(self, packet: Dict[int, List[Value]]) -> None:
        sequence_id, flags = int(packet[10][0]), int(packet.get(13, [0])[0])  # type: ignore[arg-type]
        if flags & 1:  # what was known of the sequence is void
            self._sequences[sequence_id] = {"clock": {}, "defaults": {}, "interned": defaultdict(dict)}
        if flags & 2:
            assert sequence_id in self._sequences, "refers to what was never said"
        sequence = self._sequences.get(sequence_id)
        for snapshot in packet.get(6, []):
            self._clocks(sequence, message(snapshot))
        for defaults in packet.get(59, []):
            assert sequence is not None
            sequence["defaults"] = message(defaults)
        for interned in packet.get(12, []):
            self._intern(sequence, message(interned))
        for descriptor in packet.get(60, []):
            self._track(message(descriptor))
        for event in packet.get(11, []):
            assert sequence is not None
            clock = int(sequence["defaults"][58][0])
            sequence["clock"][clock] += packet[8][0]  # the clock counts from packet to packet
            self._event(sequence, sequence["clock"][clock], message(event))

    def _clocks(self, sequence: Any, snapshot: Dict[int, List[Value]]) -> None:
        clocks = [message(clock) for clock in snapshot[1]]
        assert snapshot[2] == [3] and {c[1][0] for c in clocks} == {3, 64}
        assert len({c[2][0] for c in clocks}) == 1, "ours are the same clock, counted differently"
        own = next(c for c in clocks if c[1][0] == 64)
        assert own[3] == [1]
        sequence["clock"][64] = own[2][0]

    def _intern(self, sequence: Any, data: Dict[int, List[Value]]) -> None:
        for kind, entries in data.items():
            for entry in entries:
                fields_ = message(entry)
                iid = fields_[1][0]
                assert iid and iid not in sequence["interned"][kind], "a number is given once"
                sequence["interned"][kind][iid] = fields_

    def _track(self, descriptor: Dict[int, List[Value]]) -> None:
        uuid = int(descriptor[1][0])  # type: ignore[arg-type]
        assert uuid and uuid not in self.tracks
        parent = descriptor.get(5)
        assert not parent or parent[0] in self.tracks, "parents come first"
        process, thread = (message(descriptor[n][0]) if n in descriptor else {} for n in (3, 4))
        name = text(descriptor, 2) or text(process, 6) or text(thread, 5)
        pid: Any = (process or thread).get(1, [None])[0]
        tid: Any = thread.get(2, [None])[0]
        self.tracks[uuid] = Track(int(parent[0]) if parent else None, name, pid, tid, 8 in descriptor)  # type: ignore[arg-type]

    def _event(self, sequence: Any, ns: int, event: Dict[int, List[Value]]) -> None:
        (kind,) = event[9]
        default = message(sequence["defaults"][11][0])[11]
        track = int(event.get(11, default)[0])  # type: ignore[arg-type]
        assert track in self.tracks
        interned = sequence["interned"]
        if kind == 1:
            name, category = text(interned[2][event[10][0]], 2), text(interned[1][event[3][0]], 2)
            place = None
            if 34 in event:
                where = interned[4][event[34][0]]
                place = text(where, 2), text(where, 3), where[4][0]
            self._open[track].append((name, category, place, ns))
        elif kind == 2:
            name, category, place, begin_ns = self._open[track].pop()
            self.slices.append(Slice(track, name, category, place, begin_ns, ns, len(self._open[track])))
        elif kind == 3:
            self.marks.append((track, ns, text(interned[2][event[10][0]], 2) or ""))
        else:
            assert kind == 4 and self.tracks[track].is_counter
            self.counts.append((track, ns, float(event[44][0])))
