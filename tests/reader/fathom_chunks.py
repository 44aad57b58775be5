# SPDX-License-Identifier: Apache-2.0
"""The outer shape of a .fathom file: its header, and the chunks with what is damaged or missing of them.

Needs, for compressed chunks, the package `zstandard` or the program `zstd`.
"""

import struct
import subprocess
from typing import Iterator, Tuple

try:
    import zstandard
except ImportError:
    zstandard = None

MAGIC = b"\x89FATHOM\n"
MARK = b"\xfachk"
MAX_RAW = 64 << 20
M64 = (1 << 64) - 1
NONE = 0xFFFFFFFF
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


class NotAProfile(Exception):
    """The file is not a profile that this reader knows."""


class Corrupt(Exception):
    """A record holds impossible values."""


def rotl(x: int, r: int) -> int:
    return ((x << r) | (x >> (64 - r))) & M64


def xxh64(data: bytes, seed: int) -> int:
    def lane(acc: int, word: int) -> int:
        return rotl((acc + word * P2) & M64, 31) * P1 & M64

    n, pos = len(data), 0
    if n >= 32:
        v = [(seed + P1 + P2) & M64, (seed + P2) & M64, seed, (seed - P1) & M64]
        for words in struct.iter_unpack("<4Q", data[: n // 32 * 32]):
            v = [lane(a, w) for a, w in zip(v, words)]
        pos = n // 32 * 32
        h = (rotl(v[0], 1) + rotl(v[1], 7) + rotl(v[2], 12) + rotl(v[3], 18)) & M64
        for a in v:
            h = ((h ^ lane(0, a)) * P1 + P4) & M64
    else:
        h = (seed + P5) & M64
    h = (h + n) & M64
    while pos + 8 <= n:
        h = (rotl(h ^ lane(0, int.from_bytes(data[pos : pos + 8], "little")), 27) * P1 + P4) & M64
        pos += 8
    if pos + 4 <= n:
        h = (rotl(h ^ (int.from_bytes(data[pos : pos + 4], "little") * P1 & M64), 23) * P2 + P3) & M64
        pos += 4
    for byte in data[pos:]:
        h = rotl(h ^ (byte * P5 & M64), 11) * P1 & M64
    h = (h ^ h >> 33) * P2 & M64
    h = (h ^ h >> 29) * P3 & M64
    return h ^ h >> 32


def unpack_zstd(stored: bytes, raw_len: int) -> bytes:
    try:
        if zstandard is not None:
            return zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_len)
        return subprocess.run(
            ["zstd", "-dcq"], input=stored, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True
        ).stdout
    except FileNotFoundError:
        raise
    except Exception as e:
        raise Corrupt(str(e)) from e


class ChunkFile:
    def __init__(self, path: str) -> None:
        self.truncated = False
        self.n_damaged = 0
        with open(path, "rb") as f:
            self.data = f.read()
        if len(self.data) < 16 or self.data[:8] != MAGIC:
            raise NotAProfile(path + " is not a Fathom profile")
        if struct.unpack_from("<H", self.data, 8)[0] != 1:
            raise NotAProfile(path + " has an unknown format version")

    def chunks(self) -> Iterator[Tuple[int, bytes]]:
        data, pos, next_seq, in_garbage = self.data, 16, 0, False
        while True:
            if len(data) - pos < 32:
                self.n_damaged += in_garbage
                self.truncated = True
                return
            mark, kind, codec, _, seq, raw_len, stored_len, check, checksum = struct.unpack_from(
                "<4sBBHIIIIQ", data, pos
            )
            head = xxh64(data[pos : pos + 20], 0) if mark == MARK else 0
            if mark != MARK or check != head & NONE or raw_len > MAX_RAW or stored_len > raw_len:
                in_garbage = True
                found = data.find(MARK, pos + 1)
                # Without another mark only a piece too short for a header is left.
                pos = found if found >= 0 else max(pos + 1, len(data) - 31)
                continue
            stored = data[pos + 32 : pos + 32 + stored_len]
            if len(stored) < stored_len:
                self.n_damaged += in_garbage
                self.truncated = True
                return
            pos += 32 + stored_len
            in_garbage, was_garbage = False, in_garbage
            if seq < next_seq:
                self.n_damaged += 1
                continue
            self.n_damaged += max(seq - next_seq, was_garbage)
            next_seq = seq + 1
            try:
                raw = self.payload(codec, stored, raw_len, head, checksum)
            except Corrupt:
                self.n_damaged += 1
                continue
            yield kind, raw
            if kind == 2:
                self.truncated = pos != len(data)
                return

    @staticmethod
    def payload(codec: int, stored: bytes, raw_len: int, seed: int, checksum: int) -> bytes:
        if xxh64(stored, seed) != checksum:
            raise Corrupt("checksum")
        if codec not in (0, 1):
            raise Corrupt("codec")
        raw = stored if codec == 0 else unpack_zstd(stored, raw_len)
        if len(raw) != raw_len:
            raise Corrupt("raw length")
        return raw
