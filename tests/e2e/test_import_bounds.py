# SPDX-License-Identifier: Apache-2.0
"""Foreign files made to cost more than they are long: each is read in a second or refused by a line, where its like took minutes or gigabytes."""

import json
import os
import resource
import struct
from pathlib import Path
from typing import Any, List

import foreign_files as foreign
import pytest
from guest import FATHOM, Arg, run
from perf_files import COMPRESSED, HEADER_FEATURE, USER_MARK, Event, PerfData, header_text, words

MAX_BYTES = 1 << 30
MAX_CPU_S = 4
HEAD = "prog  18 [001]  1.620246:    1001001 cpu-clock:\n\t 1244 leaf_a+0x14 (/usr/bin/prog)\n\n"
ZSTD_HEAD = b"\x28\xb5\x2f\xfd\x00\x58"  # a frame without a length, a window of 2 MiB


def limit(max_bytes: int = MAX_BYTES) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))


def imported(path: Path, *options: str, max_bytes: int = MAX_BYTES) -> Any:
    command: List[Arg] = [FATHOM, "import", *options, "-o", path.with_suffix(".fathom"), path]
    return run(command, preexec_fn=lambda: limit(max_bytes))


def repeated(byte: int, n_blocks: int, is_first: bool = True) -> bytes:
    """So many blocks of zstd, each of which unpacks to 128 KiB of one byte."""
    block = struct.pack("<I", (128 << 10) << 3 | 1 << 1)[:3] + bytes([byte])
    return (ZSTD_HEAD if is_first else b"") + block * n_blocks


@pytest.mark.parametrize(
    "line",
    ["\t 1244 leaf" + " (" * 700_000 + " )", " " * 1_000_000 + "1.0: " * 200_000],
    ids=["brackets", "blanks"],
)
def test_a_long_line_of_perf_script_is_looked_at_once(line: str, tmp_path: Path) -> None:
    path = tmp_path / "script.txt"
    path.write_text(HEAD + HEAD.splitlines()[0] + "\n" + line + "\n")
    done = imported(path, "--from", "perf-script")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_with_brackets_keeps_them(tmp_path: Path) -> None:
    """Where the library's bracket opens is told by the offset before it, else by the last one."""
    path = tmp_path / "script.txt"
    names = {"f(int (*)(int))": "+0x1f", "g (a+b)": "+0x2", "h (x)": ""}
    frames = "".join(f"\t 1244 {name}{offset} (/usr/lib/libx (1).so)\n" for name, offset in names.items() if offset)
    path.write_text(HEAD.splitlines()[0] + "\n" + frames + "\t 1244 h (x) (/usr/lib/liby.so)\n\n")
    found = run([FATHOM, "export", "-f", "collapsed", path]).stdout
    assert found == "h (x) (liby.so);g (a+b) (libx (1).so);f(int (*)(int)) (libx (1).so) 1\n"


def test_many_threads_with_many_stacks(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    events = [{"ph": "X", "ts": i, "dur": 1, "pid": 1, "tid": i, "name": f"f{i}"} for i in range(100_000)]
    path.write_text(json.dumps({"traceEvents": events}))
    done = imported(path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_function_of_many_lines_as_a_cpuprofile(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    path.write_text("".join(f"app.py:work:{line} {line % 3 + 1}\n" for line in range(1, 150_001)))
    done = run([FATHOM, "export", "-f", "cpuprofile", "-o", tmp_path / "out.json", path], preexec_fn=limit)
    assert done.returncode == 0, done.stderr
    nodes = json.loads((tmp_path / "out.json").read_text())["nodes"]
    ticks = {tick["line"]: tick["ticks"] for tick in nodes[1]["positionTicks"]}
    assert ticks == {line: line % 3 + 1 for line in range(1, 150_001)}


def test_a_stack_is_as_deep_as_its_frames_are_many(tmp_path: Path) -> None:
    """In pprof a location has many frames where calls were inlined, and a sample names it often."""
    line = foreign.message(4, foreign.number(1, 1) + foreign.number(2, 7))
    parts = [
        foreign.message(1, foreign.number(1, 1) + foreign.number(2, 2)),
        foreign.message(5, foreign.number(1, 1) + foreign.number(2, 3) + foreign.number(4, 4)),
        foreign.message(4, foreign.number(1, 1) + line * 1000),
        *(foreign.message(6, text) for text in (b"", b"samples", b"count", b"work", b"app.py")),
    ]

    def with_sample(n_locations: int) -> Path:
        path = tmp_path / f"{n_locations}.pb"
        path.write_bytes(
            b"".join(parts) + foreign.message(2, foreign.packed(1, [1] * n_locations) + foreign.packed(2, [1]))
        )
        return path

    assert imported(with_sample(100)).returncode == 0
    done = imported(with_sample(101))
    assert done.returncode == 1 and "a stack is deeper than any program's" in done.stderr


def perf_record(type: int, body: bytes) -> bytes:
    return struct.pack("<IHH", type, 0, 8 + len(body)) + body


def test_packed_records_of_perf_are_no_bomb(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    # Eights are records, too, of a kind that nobody knows: 2056 bytes each.
    data = b"".join(perf_record(COMPRESSED, repeated(8, 500, i == 0)) for i in range(60))
    path.write_bytes(PerfData(Event(1)).pipe() + data)
    done = imported(path)
    assert done.returncode == 1 and "unpacks to more than any profile holds" in done.stderr, done.stderr


def test_what_perf_says_of_itself_is_kept_within_bounds(tmp_path: Path) -> None:
    """A record of a command's arguments takes the place of the one before it, and of its memory."""
    path = tmp_path / "perf.data"
    command = words(11) + struct.pack("<I", 900) + header_text(b"x" * 63) * 900
    known = PerfData(Event(1)).sample(7, 7, 1000, 1_000_000, [USER_MARK, 0x1000])
    path.write_bytes(known.pipe() + perf_record(HEADER_FEATURE, command) * 1500)
    done = imported(path, max_bytes=MAX_BYTES // 6)
    assert (done.returncode, done.stderr) == (0, "")


def test_ids_of_events_are_read_so_many_times(tmp_path: Path) -> None:
    """Where a thousand events say that the same bytes are their ids."""
    n, n_ids = 1000, 1 << 19
    event = Event(1)
    table_at = 104 + 8 * n_ids
    table = (event.attr + words(104, 8 * n_ids)) * n
    head = b"PERFILE2" + words(
        104, 16 + len(event.attr), table_at, len(table), table_at + len(table), 8, 0, 0, 0, 0, 0, 0
    )
    path = tmp_path / "perf.data"
    path.write_bytes(head + words(*range(n_ids)) + table + struct.pack("<IHH", 68, 0, 8))
    done = imported(path)
    assert done.returncode == 1 and "there are no samples in it" in done.stderr, done.stderr


def test_packed_samples_of_tachyon_are_no_bomb(tmp_path: Path) -> None:
    """Zeros are samples, too: of no thread, repeated not once."""
    samples = repeated(0, 60_000)
    tables_at = 64 + len(samples)
    head = b"HCAT" + struct.pack("<I", 1) + bytes([3, 15, 0]) + bytes(9) + struct.pack("<Q", 1000) + bytes(12)
    head += struct.pack("<QQI", tables_at, tables_at, 1) + bytes(4)
    assert len(head) == 64
    path = tmp_path / "tachyon.bin"
    path.write_bytes(head + samples + struct.pack("<IIQ", 0, 0, tables_at + 32) + bytes(16))
    done = imported(path)
    assert done.returncode == 1 and "the samples unpack to more than any profile holds" in done.stderr, done.stderr


NO_PIPES = (
    "import os\nfds = os.listdir('/proc/self/fd')\nprint([f for f in fds if int(f) > 2 and os.path.exists('/proc/self/fd/' + f)\
 and os.readlink('/proc/self/fd/' + f).startswith('pipe')])\n"
)


def test_repeated_runs_keep_their_answers_to_themselves(tmp_path: Path) -> None:
    """What a run tells the one that waits for it goes through a pipe, of which the program is to have no end."""
    script = tmp_path / "fds.py"
    script.write_text(NO_PIPES)
    done = run([FATHOM, "run", "--repeat", "2", "--output-dir", tmp_path / "out", script])
    assert done.returncode == 0 and done.stdout.startswith("[]\n"), done.stdout


def test_what_was_there_stays_where_nothing_came(tmp_path: Path) -> None:
    """-o names a capture of yesterday, and the file is none that can be read."""
    kept, broken = tmp_path / "kept.fathom", tmp_path / "broken"
    kept.write_bytes(b"of yesterday")
    broken.write_text('{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": 7}')
    done = run([FATHOM, "import", "-o", kept, broken])
    assert done.returncode == 1 and kept.read_bytes() == b"of yesterday"
    assert sorted(os.listdir(tmp_path)) == ["broken", "kept.fathom"]
    good = tmp_path / "good.txt"
    good.write_text("a;b 3\n")
    assert run([FATHOM, "import", "-o", kept, good]).returncode == 0 and kept.read_bytes()[:4] != b"of y"
