# SPDX-License-Identifier: Apache-2.0
"""Foreign files made to cost more than they are long: each is read in a second or refused by a line, where its like took minutes or gigabytes."""

import ctypes
import gzip
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


# ---- what a few bytes refer to often ----

NAMES = [b"", b"samples", b"count", b"work", b"app.py"]


def pprof_of(*parts: bytes, names: List[bytes] = NAMES) -> bytes:
    sample_type = foreign.message(1, foreign.number(1, 1) + foreign.number(2, 2))
    function = foreign.message(5, foreign.number(1, 1) + foreign.number(2, 3) + foreign.number(4, 4))
    return b"".join([sample_type, function, *parts, *(foreign.message(6, name) for name in names)])


def pprof_sample(location: int, more: bytes = b"") -> bytes:
    return foreign.message(2, foreign.packed(1, [location]) + foreign.packed(2, [1]) + more)


def pprof_location(number: int, line: int = 7, times: int = 1) -> bytes:
    return foreign.message(
        4, foreign.number(1, number) + foreign.message(4, foreign.number(1, 1) + foreign.number(2, line)) * times
    )


def wait_status(path: Path, content: bytes, *options: str, max_bytes: int = MAX_BYTES) -> str:
    """How the import of these bytes ended, within the limits of all tests here."""
    path.write_bytes(content)
    done = imported(path, *options, max_bytes=max_bytes)
    assert done.returncode in (0, 1), done.stderr
    return done.stderr


def samples_of(path: Path) -> int:
    done = run([FATHOM, "report", "--json", path.with_suffix(".fathom")])
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["samples"])


def test_a_location_of_many_frames_is_gone_through_once(tmp_path: Path) -> None:
    path = tmp_path / "deep.pb"
    assert wait_status(path, pprof_of(pprof_location(1, times=90_000), pprof_sample(1) * 5000)) == ""
    assert samples_of(path) == 5000


def test_a_long_name_is_not_kept_as_often_as_it_is_referred_to(tmp_path: Path) -> None:
    """A thread of that name for each sample, and a function of it for each line: 5 GB, were each to have its own."""
    names = [b"", b"samples", b"count", "\u00e9".encode() * 500_000, b"app.c", b"thread_id", b"thread_name"]
    path = tmp_path / "names.pb"
    parts = [pprof_location(i, line=i) for i in range(1, 5000)]
    for i in range(1, 5000):
        labels = foreign.message(3, foreign.number(1, 5) + foreign.number(3, i))
        parts.append(pprof_sample(i, labels + foreign.message(3, foreign.number(1, 6) + foreign.number(2, 3))))
    assert wait_status(path, pprof_of(*parts, names=names), max_bytes=MAX_BYTES // 2) == ""
    report = run([FATHOM, "report", "--json", path.with_suffix(".fathom")]).stdout
    said = {item["what"]: item["why"] for item in json.loads(report)["coverage"]}
    assert said["the ends of some names"] == "they are longer than 4,096 bytes"
    assert json.loads(report)["threads"][0]["name"] == "\u00e9" * 2048  # whole characters


def unhashed(value: int) -> int:
    """The number that core/base/hash.h makes this one of: whoever writes a file may choose its keys by it."""
    inverse, mask = pow(0xD6E8FEB86659FD93, -1, 1 << 64), (1 << 64) - 1
    for _ in range(2):
        value = (value ^ value >> 32) * inverse & mask
    return value ^ value >> 32


def test_keys_that_would_all_lie_in_one_place(tmp_path: Path) -> None:
    path = tmp_path / "flood.pb"
    ids = [unhashed(i << 32) for i in range(1, 200_000)]
    assert wait_status(path, pprof_of(*(pprof_location(i) for i in ids), pprof_sample(ids[0]))) == ""
    assert samples_of(path) == 1


def test_memory_is_in_proportion_to_the_file(tmp_path: Path) -> None:
    """Sixty million empty strings are 120 MB, pack to 117 kB, and would be kept in 1.5 GB."""
    path = tmp_path / "strings.pb"
    said = wait_status(path, gzip.compress(pprof_of() + b"2\0" * 60_000_000, 1))
    assert "what it holds takes more memory than any profile of its size" in said


def mojo_number(value: int) -> bytes:
    out = bytearray([value & 0x3F])
    value >>= 6
    while value:
        out[-1] |= 0x80
        out.append(value & 0x7F)
        value >>= 7
    return bytes(out)


def mojo_of_repeats(depth: int, n: int) -> bytes:
    begin = bytes([2]) + mojo_number(1) + mojo_number(0) + b"1\0"
    texts = bytes([11]) + mojo_number(5) + b"f.py\0" + bytes([11]) + mojo_number(6) + b"g\0"
    frame = bytes([3]) + b"".join(map(mojo_number, (1, 5, 6, 1, 0, 0, 0)))
    time = bytes([9]) + mojo_number(1000)
    first = begin + texts + frame + (bytes([5]) + mojo_number(1)) * depth + time
    return b"MOJ" + mojo_number(3) + first + (begin + bytes([13]) + time) * n


def test_a_stack_that_is_repeated_is_not_gone_through_again(tmp_path: Path) -> None:
    path = tmp_path / "repeat.mojo"
    assert wait_status(path, mojo_of_repeats(50_000, 50_000)) == ""
    assert samples_of(path) == 50_001
    path.write_bytes(mojo_of_repeats(2, 3))
    assert run([FATHOM, "export", "-f", "collapsed", path]).stdout == "g (f.py:1);g (f.py:1) 4\n"


def gecko_of(thread: str, more: str = "") -> bytes:
    meta = '"meta":{"interval":1,"stackwalk":1,"preprocessedProfileVersion":57}'
    return f'{{{meta}{more},"threads":[{thread}]}}'.encode()


def test_rows_of_nothing_take_no_memory(tmp_path: Path) -> None:
    """The last row has 32 columns: those before it would have as many nulls."""
    rows = "[]," * 20_000_000 + json.dumps([1] * 32)
    thread = '{"samples":{"data":[' + rows + '],"schema":{"stack":0}}}'
    said = wait_status(tmp_path / "rows.json", gzip.compress(gecko_of(thread), 1))
    assert "most rows of a table have no values" in said


def test_threads_take_of_shared_frames_what_they_use(tmp_path: Path) -> None:
    frames = ",".join(["0"] * 2_000_000)
    shared = f',"shared":{{"stringArray":["a"],"funcTable":{{"name":[0]}},"frameTable":{{"func":[{frames}]}}}}'
    thread = '{"stackTable":{"frame":[0],"prefix":[null]},"samples":{"stack":[0],"time":[1]}}'
    path = tmp_path / "threads.json"
    assert wait_status(path, gecko_of(",".join([thread] * 50_000), shared)) == ""
    assert samples_of(path) == 50_000


@pytest.mark.parametrize("what", ["inclusive", "calls"])
def test_costs_that_no_run_has(what: str, tmp_path: Path) -> None:
    """Each is possible, their sum is not, and would begin at 0 again."""
    call = f"calls={1 << 59 if what == 'calls' else 1} 1\n1 {1 << 59 if what == 'inclusive' else 1}\n"
    path = tmp_path / "callgrind.out"
    said = wait_status(path, ("events: ns\nfl=a.py\nfn=f\n1 1\ncfn=g\n" + call * 40).encode())
    assert "line 11: the costs are too large" in said


def test_times_that_no_run_has(tmp_path: Path) -> None:
    """Four samples of 2^62 ns would make none."""
    path = tmp_path / "threads.txt"
    path.write_text("".join(f"thread ({i}): T;work {(1 << 62) // 1000 - 10**7}\n" for i in range(1, 5)))
    done = imported(path, "--unit", "us")
    assert done.returncode == 0, done.stderr
    report = json.loads(run([FATHOM, "report", "--json", path.with_suffix(".fathom")]).stdout)
    assert report["samples"] == 1 and report["cpu_s"] == pytest.approx((1 << 62) / 1e9, rel=1e-3)
    assert "their times add up to more than 146 years" in [item["why"] for item in report["coverage"]]


def test_bytes_that_no_machine_has(tmp_path: Path) -> None:
    """Three of 2^63 - 1 are not as many as one."""
    types = foreign.message(1, foreign.number(1, 1) + foreign.number(2, 2))
    function = foreign.message(5, foreign.number(1, 1) + foreign.number(2, 3) + foreign.number(4, 4))
    sample = foreign.message(2, foreign.packed(1, [1]) + foreign.packed(2, [(1 << 63) - 1]))
    strings = b"".join(foreign.message(6, s) for s in (b"", b"alloc_space", b"bytes", b"work", b"app.py"))
    path = tmp_path / "bytes.pb"
    assert wait_status(path, types + function + pprof_location(1) + sample * 3 + strings) == ""
    done = run([FATHOM, "query", "--csv", path.with_suffix(".fathom"), "SELECT alloc_bytes FROM allocations"])
    assert done.stdout.splitlines()[1:] == [str((1 << 63) - 1)], done.stderr


IN_OPEN = 0x20


def test_what_a_path_of_the_file_leads_to_is_looked_at_before_it_is_opened(tmp_path: Path) -> None:
    """To open a fifo or a device is to do something: a tape winds, a watchdog begins to wait."""
    libc = ctypes.CDLL(None, use_errno=True)
    fifo, file = tmp_path / "fifo", tmp_path / "file"
    os.mkfifo(fifo)
    file.write_bytes(b"no ELF")
    watch = libc.inotify_init1(os.O_NONBLOCK)
    names = {libc.inotify_add_watch(watch, bytes(path), IN_OPEN): path for path in (fifo, file)}
    perf = PerfData(Event(1))
    for i, path in enumerate(names.values()):
        perf.map(1, 0x10000 * (i + 1), 0x1000, bytes(path))
        perf.sample(1, 1, 1000 + i, 1_000_000, [USER_MARK, 0x10000 * (i + 1)])
    data = tmp_path / "perf.data"
    data.write_bytes(perf.file())
    assert imported(data).returncode == 0
    opened, events = set(), os.read(watch, 65536)
    os.close(watch)
    while events:
        number, _, _, length = struct.unpack_from("<iIII", events)
        opened.add(names[number])
        events = events[16 + length :]
    assert opened == {file}
