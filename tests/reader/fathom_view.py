# SPDX-License-Identifier: Apache-2.0
"""An independent reader of the viewer's bundles, written from docs/viewer-data.md and sharing no code with C or the page."""

import base64
import gzip
import json
import re
import struct
import sys
from array import array
from pathlib import Path
from typing import Any, Dict, List

TYPES = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "f64": "d"}
NONE = 0xFFFFFFFF
assert sys.byteorder == "little"


class Bundle:
    """Head and columns; every rule of the document is checked on the way in."""

    def __init__(self, data: bytes) -> None:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        self.n_bytes = len(data)
        assert data[:8] == b"FMVIEW1\n"
        head_len, zero = struct.unpack_from("<II", data, 8)
        assert head_len % 8 == 0 and zero == 0
        self.head: Dict[str, Any] = json.loads(data[16 : 16 + head_len].decode("utf-8"))
        assert self.head["schema"] == "fathom.view/1"
        self.columns: Dict[str, Any] = {}
        at = 16 + head_len
        for column in self.head["columns"]:
            values = array(TYPES[column["type"]])
            size = column["n"] * values.itemsize
            assert at % 8 == 0 and at + size <= len(data), column
            values.frombytes(data[at : at + size])
            assert column["name"] not in self.columns
            self.columns[column["name"]] = values
            at += (size + 7) & ~7
        assert at == len(data)
        self.check()

    @classmethod
    def of_page(cls, html: str, name: str = "bundle") -> "Bundle":
        inside = re.findall(rf'<script id="{name}" type="application/octet-stream">([^<]*)</script>', html)
        assert len(inside) == 1
        return cls(base64.b64decode(inside[0], validate=True))

    @classmethod
    def of_file(cls, path: Path) -> "Bundle":
        return cls(path.read_bytes())

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def n(self, table: str) -> int:
        sizes = {len(v) for k, v in self.columns.items() if k.startswith(table + ".")}
        assert len(sizes) == 1, (table, sizes)
        return sizes.pop()

    def rows(self, table: str) -> List[Dict[str, Any]]:
        names = [k for k in self.columns if k.startswith(table + ".")]
        return [{k.partition(".")[2]: self[k][i] for k in names} for i in range(self.n(table))]

    def text(self, i: int) -> str:
        text: str = self.strings[i]
        return text

    def name(self, function: int) -> str:
        return self.text(self["function.name"][function])

    def check(self) -> None:
        if "string.bytes" not in self.columns:  # a part of a trace has zones only
            self.check_zones()
            return
        raw, offsets = self["string.bytes"].tobytes(), self["string.offset"]
        assert offsets[0] == 0 and offsets[-1] == len(raw)
        self.strings = [raw[a:b].decode("utf-8") for a, b in zip(offsets, offsets[1:])]  # strict: must be valid
        assert self.strings[0] == ""
        n_functions, n_nodes, n_threads = self.n("function"), self.n("node"), self.n("thread")
        for name in ("name", "full_name", "file", "module", "library"):
            assert all(i < len(self.strings) for i in self["function." + name])
        for i in range(1, n_nodes):
            assert self["node.parent"][i] < i and self["node.function"][i] < n_functions
        assert all(a <= b for a, b in zip(self["node.parent"][1:], self["node.parent"][2:])) or "diff" in self.head
        for table in ("cell", "sample"):
            if table + ".node" in self.columns:
                self.n(table)
                assert all(i < n_nodes for i in self[table + ".node"])
                assert all(i < n_threads for i in self[table + ".thread"])
                assert all(i < 6 for i in self[table + ".class"])
        if "heap.node" in self.columns:
            self.n("heap")
            order = list(zip(self["heap.node"], self["heap.thread"]))
            assert order == sorted(set(order)) and all(node < n_nodes and t < n_threads for node, t in order)
        for table in ("zone", "mark", "block"):
            if table + ".thread" in self.columns:
                self.n(table)
                assert all(t < n_threads for t in self[table + ".thread"])
        if "zone.thread" in self.columns:
            assert all(i == NONE or i < n_functions for i in self["what.function"])
            assert all(i < len(self.strings) for i in self["what.name"])
            assert all(i < self.n("what") for i in (*self["zone.what"], *self["duration.what"]))
            self.check_zones()
        if "block.node" in self.columns:
            assert all(i < n_nodes for i in self["block.node"])
            sums: Dict[Any, float] = {}
            for row in self.rows("block"):
                assert row["kind"] == 2 or row["born"] <= row["died"]
                key = row["node"], row["thread"], row["kind"] == 2
                sums[key] = sums.get(key, 0) + row["bytes"]
            for row in self.rows("heap"):
                place = row["node"], row["thread"]
                assert (sums.pop((*place, False), 0), sums.pop((*place, True), 0)) == (row["alloc"], row["copy"])
            assert not sums
        if "memory.time_s" in self.columns:
            self.n("memory")
            assert list(self["memory.time_s"]) == sorted(self["memory.time_s"])
        if "leak.file" in self.columns:
            self.n("leak")
            assert all(i == NONE or i < self.n("file") for i in self["leak.file"])
            assert all(i < n_functions for i in self["leak.function"])
        if "line.timeline" in self.columns:
            starts = [i for i in self["line.timeline"] if i != NONE]
            assert starts == list(range(0, len(self["line_timeline.bytes"]), 32))
        if "code.function" in self.columns:
            self.check_code(n_functions)
        if "course.time_s" in self.columns:
            self.n("course")
            assert list(self["course.time_s"]) == sorted(self["course.time_s"])
        if "edge.caller" in self.columns:
            assert all(i < n_functions for i in (*self["edge.caller"], *self["edge.callee"]))
        if "diff" in self.head:
            self.n("change")
            assert all(k < 4 for k in self["change.list"]) and list(self["change.list"]) == sorted(self["change.list"])
            texts = (*self["change.name"], *self["change.file"], *self["change.text"])
            assert all(i < len(self.strings) for i in texts)
        else:
            for table in ("func_row", "line"):
                self.n(table)
                assert all(i < n_functions for i in self[table + ".function"])
            assert all(i < self.n("file") for i in self["line.file"])
            assert all(i < len(self.strings) for i in (*self["file.name"], *self["file.source"]))
        for name, column in self.columns.items():
            if name.endswith("_s"):
                assert all(0 <= v < float("inf") for v in column), name
        if "sample.time_s" in self.columns:
            order = list(zip(self["sample.thread"], self["sample.time_s"]))
            assert order == sorted(order)

    def check_code(self, n_functions: int) -> None:
        assert sum(self["code.n"]) == self.n("instruction")
        assert all(i < n_functions for i in self["code.function"])
        assert all(i == NONE or i < n_functions for i in self["instruction.function"])
        texts = ("code.image", *("instruction." + name for name in ("text", "inlined", "file", "source")))
        assert all(i < len(self.strings) for name in texts for i in self[name])
        assert list(self["code.self_s"]) == sorted(self["code.self_s"], reverse=True)
        first = 0
        for code in self.rows("code"):
            addresses = self["instruction.at"][first : first + code["n"]]
            assert list(addresses) == sorted(set(addresses))
            assert all(code["start"] <= at < code["end"] for at in addresses)
            seconds = sum(self["instruction.self_s"][first : first + code["n"]])
            assert abs(seconds - code["self_s"]) < 1e-9 * (code["n"] + 1)
            first += code["n"]

    def check_zones(self) -> None:
        self.n("zone")
        starts = list(zip(self["zone.thread"], self["zone.depth"], self["zone.start_s"]))
        assert starts == sorted(starts)
        if "zone.n" in self.columns:
            assert all(n > 0 for n in self["zone.n"])
            assert all(b <= d + 1e-12 for b, d in zip(self["zone.busy_s"], self["zone.duration_s"]))

    def totals_ns(self) -> List[int]:
        """By node: CPU time that ends there or above, in whole nanoseconds."""
        totals = [0] * self.n("node")
        for node, kind, weight in zip(self["cell.node"], self["cell.class"], self["cell.weight_s"]):
            if kind < 4:
                totals[node] += round(weight * 1e9)
        for i in range(len(totals) - 1, 0, -1):
            totals[self["node.parent"][i]] += totals[i]
        return totals
