# SPDX-License-Identifier: Apache-2.0
"""The C reader and the independent Python reader must print the same of every profile, whole or damaged."""

import os
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("FATHOM_BUILD_DIR", ROOT / "build")) / "tests"
PYTHON_READER = ROOT / "tests" / "reader" / "fathom_reader.py"

pytestmark = pytest.mark.skipif(not (TOOLS / "gen_profile").exists(), reason="build first: meson compile -C build")


def generate(path, *args):
    subprocess.run([TOOLS / "gen_profile", path, *map(str, args)], check=True, stdout=subprocess.PIPE)
    return path.read_bytes()


def dump(command, path):
    done = subprocess.run([*command, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout


def both(path):
    by_c = dump([TOOLS / "dump_profile"], path)
    by_python = dump([sys.executable, PYTHON_READER], path)
    assert by_c[0] == by_python[0]
    assert by_c[1] == by_python[1]
    return by_c[0], by_c[1].decode()


def facts(text):
    return dict(field.split("=") for field in text.splitlines()[-1].split())


def chunks(data):
    """Offsets and lengths of the chunks of a whole file."""
    found, pos = [], 16
    while pos < len(data):
        length = 32 + struct.unpack_from("<I", data, pos + 16)[0]
        found.append((pos, length))
        pos += length
    return found


@pytest.mark.parametrize(
    "args",
    [
        (0,),
        (1,),
        (3000, "--threads", 1, "--seed", 2),
        (3000, "--threads", 40, "--seed", 3),
        (40000, "--flush-ms", 0, "--stacks", 300),
        (5000, "--memory", 8000, "--threads", 5, "--sites"),
    ],
)
def test_both_readers_print_the_same(tmp_path, args):
    path = tmp_path / "p.fathom"
    generate(path, *args)
    status, text = both(path)
    assert status == 0
    assert text.count("\nsample ") + text.startswith("sample ") == args[0]
    assert facts(text) == {"truncated": "0", "damaged": "0", "undefined": "0", "lost_samples": "0", "lost_memory": "0"}


def test_same_arguments_give_the_same_file(tmp_path):
    assert generate(tmp_path / "a", 2000, "--seed", 5) == generate(tmp_path / "b", 2000, "--seed", 5)
    assert generate(tmp_path / "a", 2000, "--seed", 5) != generate(tmp_path / "b", 2000, "--seed", 6)


def test_each_lost_chunk_leaves_the_rest_readable(tmp_path):
    path = tmp_path / "p.fathom"
    data = generate(path, 4000, "--stacks", 100, "--threads", 4)
    whole = chunks(data)
    assert len(whole) > 5
    for i, (pos, length) in enumerate(whole[:6]):
        path.write_bytes(data[:pos] + data[pos + length :])
        status, text = both(path)
        assert status == 0
        said = facts(text)
        assert said["damaged"] == "1", f"chunk {i}"
        kept = text.count("\nsample ") + text.startswith("sample ")
        assert kept + int(said["lost_samples"]) == 4000
        assert kept > 2000


def test_damage_is_seen_alike(tmp_path):
    path = tmp_path / "p.fathom"
    data = generate(path, 1500, "--stacks", 60, "--threads", 3, "--memory", 1500)
    rng = random.Random(7)
    (first, first_len), (second, second_len) = chunks(data)[:2]
    cases = {
        "trailing bytes": data + b"more",
        "a chunk twice": data[: second + second_len] + data[second:],
        "garbage between chunks": data[:second] + b"\xfachk" * 30 + data[second:],
        "two chunks swapped": data[:first]
        + data[second : second + second_len]
        + data[first:second]
        + data[second + second_len :],
        "zeros in a chunk": data[: first + 100] + bytes(200) + data[first + 300 :],
        "zeros over a header": data[:second] + bytes(32) + data[second + 32 :],
    }
    for _ in range(12):
        flipped = bytearray(data)
        flipped[rng.randrange(16, len(data))] ^= 1 << rng.randrange(8)
        cases[f"flip {_}"] = bytes(flipped)
        cases[f"cut {_}"] = data[: rng.randrange(16, len(data))]
    for name, damaged in cases.items():
        path.write_bytes(damaged)
        status, text = both(path)
        assert status == 0, name
        said = facts(text)
        assert said["truncated"] == "1" or said["damaged"] != "0", name


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\x89FATHOM\n", b"\x89FATHOM\n\x02\x00" + bytes(6), bytes(5000)])
def test_other_files_are_one_clear_line(tmp_path, content):
    path = tmp_path / "not.fathom"
    path.write_bytes(content)
    done = subprocess.run([TOOLS / "dump_profile", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1 and b"not.fathom" in done.stderr
    assert both(path)[0] == 1


def numbers(header, prefix):
    """The enumerators of a header that begin with a prefix, as {name in small letters: number}."""
    text = (ROOT / "core" / "format" / header).read_text()
    return {name.lower(): int(value) for name, value in re.findall(rf"\b{prefix}(\w+)(?: = |, )(\d+)", text)}


def test_the_document_has_the_numbers_of_the_code():
    text = (ROOT / "docs" / "format.md").read_text()
    version = re.search(r"^# The .fathom file, format (\d+)\.(\d+)$", text, re.M).groups()
    head = re.findall(r"^\| (?:major|minor) \| u16 \| (\d+) \|$", text, re.M)
    chunk = (ROOT / "core" / "format" / "chunk.h").read_text()
    code = re.findall(r"#define FM_FILE_(?:MAJOR|MINOR) (\d+)", chunk)
    assert list(version) == head == code
    records = {
        name.replace(" ", "_"): int(number) for number, name in re.findall(r"^\| (\d+) \| ([a-z_ ]+) \|", text, re.M)
    }
    records["samples"] = int(re.search(r"^### Samples \(type (\d+)\)", text, re.M)[1])
    records["trace"] = int(re.search(r"^Type (\d+) is a part of one thread's trace", text, re.M)[1])
    assert records == numbers("record.h", "FM_RECORD_")
    reasons = " ".join(re.search(r"^Error reasons: (.*?)\. A reader", text, re.M | re.S)[1].split())
    listed = re.findall(r'X\(FM_STACK_\w+, (\d+), "([^"]*)"\)', (ROOT / "core" / "format" / "model.h").read_text())
    assert reasons == ", ".join(f"{number} {reason}" for number, reason in listed)
