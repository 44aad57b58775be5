# SPDX-License-Identifier: Apache-2.0
"""`export -f perfetto`, taken apart by a reader of our own and, where they can be had, by Perfetto's own tools."""

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, List

import pytest
from capture import BUILD, ROOT, Python
from tracing import FEW, TRUTH, ZONES, pythons, rows_of, source, trace

sys.path.insert(0, str(ROOT / "tests" / "reader"))
from perfetto_reader import Slice, Trace  # noqa: E402

each_python = True  # tests name their Pythons themselves


def export(profile: Path, *options: str) -> Path:
    out = profile.with_suffix(".pftrace")
    subprocess.run([BUILD / "fathom", "export", "-f", "perfetto", *options, "-o", out, profile], check=True)
    return out


def check_nesting(slices: List[Slice]) -> None:
    """On one track, what is inside ends before what is around it."""
    for track in {s.track for s in slices}:
        open_: List[Slice] = []
        for s in sorted((s for s in slices if s.track == track), key=lambda s: (s.begin_ns, s.depth)):
            del open_[s.depth :]
            assert len(open_) == s.depth and s.begin_ns <= s.end_ns
            if open_:
                assert open_[-1].begin_ns <= s.begin_ns and s.end_ns <= open_[-1].end_ns
            open_.append(s)


@pythons(FEW[-1:])
def test_every_call_is_a_slice_on_its_threads_track(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", [], [str(TRUTH), "threads"])
    parsed = Trace(export(tmp_path / "t.fathom").read_bytes())
    calls = [s for s in parsed.slices if s.category == "call"]
    line = TRUTH.read_text().splitlines().index("def leaf(i):") + 1
    leaves = [s for s in calls if s.place == (str(TRUTH), "leaf", line)]
    assert sorted(Counter(s.track for s in leaves).values()) == [1000] + [2000] * 8
    assert all(parsed.tracks[s.track].tid for s in calls), "on tracks of threads"
    assert {parsed.tracks[parsed.tracks[s.track].parent or 0].pid for s in calls} == {
        parsed.tracks[s.track].pid for s in calls
    }
    check_nesting(parsed.slices)
    # The same times as everywhere else, to the nanosecond.
    rows = {row["name"]: row for row in rows_of(tmp_path / "t.fathom") if row["file"] == str(TRUTH)}
    assert sum(s.end_ns - s.begin_ns for s in leaves) == rows["leaf"]["total_ns"]
    assert max(s.end_ns - s.begin_ns for s in leaves) == rows["leaf"]["max_ns"]


@pythons(FEW)
def test_zones_marks_and_counters(python: Python, tmp_path: Path) -> None:
    trace(python, tmp_path / "t.fathom", [], [source(tmp_path, ZONES)])
    parsed = Trace(export(tmp_path / "t.fathom").read_bytes())
    zones = Counter(s.name for s in parsed.slices if s.category == "zone")
    assert zones == {"load": 25, "parse": 25, "whole": 1, "fails": 1}
    assert [text for _, _, text in parsed.marks] == ["done"] * 4
    assert len({track for track, _, _ in parsed.marks}) == 4
    counts = [count for count in parsed.counts if parsed.tracks[count[0]].name == "rows"]
    (track,) = {track for track, _, _ in counts}
    assert parsed.tracks[parsed.tracks[track].parent or 0].pid
    assert sorted(value for _, _, value in counts) == sorted(
        [i * 2.5 for i in range(10)] + [i * 2.5 for i in range(5)] * 3
    )
    whole = next(s for s in parsed.slices if s.name == "whole")
    assert all(whole.begin_ns <= ns <= whole.end_ns for _, ns, _ in counts)
    check_nesting(parsed.slices)


@pytest.mark.statistical
def test_samples_have_a_row_of_their_own(tmp_path: Path) -> None:
    subprocess.run([BUILD / "tests" / "known_profile", tmp_path / "known.fathom"], check=True)
    parsed = Trace(export(tmp_path / "known.fathom").read_bytes())
    assert {s.category for s in parsed.slices} == {"sample"}
    assert {"App.work", "known_kernel"} <= {s.name for s in parsed.slices}
    assert all(parsed.tracks[s.track].tid for s in parsed.slices), "no calls: the thread's own row"
    check_nesting(parsed.slices)
    trace(FEW[-1], tmp_path / "t.fathom", [], [str(TRUTH), "times"])
    parsed = Trace(export(tmp_path / "t.fathom").read_bytes())
    rows = {parsed.tracks[s.track].name for s in parsed.slices if s.category == "sample"}
    assert rows == {"samples"}
    # Both rows are of one clock: where calls say busy() ran, samples say so, too.
    calls = [s for s in parsed.slices if s.category == "call" and s.name == "busy"]
    samples = [s for s in parsed.slices if s.category == "sample" and s.name == "busy"]
    assert len(calls) == 2 and samples
    inside = sum(max(0, min(s.end_ns, c.end_ns) - max(s.begin_ns, c.begin_ns)) for s in samples for c in calls)
    assert inside > 0.9 * sum(s.end_ns - s.begin_ns for s in samples)
    check_nesting(parsed.slices)


def test_memory_over_time_is_a_counter_of_the_process(tmp_path: Path) -> None:
    program = source(
        tmp_path, "import time\ntime.sleep(.2)\nb = bytearray(200 << 20)\ntime.sleep(.3)\ndel b\ntime.sleep(.3)"
    )
    command = [BUILD / "fathom", "record", "-o", tmp_path / "m.fathom", "--", FEW[-1].path, program]
    subprocess.run(command, check=True)
    parsed = Trace(export(tmp_path / "m.fathom").read_bytes())
    levels = [(ns, value) for track, ns, value in parsed.counts if parsed.tracks[track].name == "resident memory"]
    assert levels == sorted(levels, key=lambda level: level[0])
    highest = max(value for _, value in levels)
    assert 200 << 20 <= highest < 400 << 20 and levels[0][1] < 100 << 20 and levels[-1][1] < 100 << 20
    at = next(ns for ns, value in levels if value == highest) - levels[0][0]
    assert at > 0.1e9, "not before it was allocated"
    chrome = json.loads(
        subprocess.run(
            [BUILD / "fathom", "export", "-f", "chrometrace", tmp_path / "m.fathom"], stdout=subprocess.PIPE, check=True
        ).stdout
    )
    assert max(e["args"]["resident_bytes"] for e in chrome if e["ph"] == "C") == highest


def test_names_may_be_anything(tmp_path: Path) -> None:
    subprocess.run([BUILD / "tests" / "known_profile", tmp_path / "hostile.fathom", "--hostile"], check=True)
    parsed = Trace(export(tmp_path / "hostile.fathom").read_bytes())  # strict about UTF-8
    assert "<script>alert(1)</script>" in {s.name for s in parsed.slices}


def test_a_capture_that_was_cut_off_is_still_a_whole_trace(tmp_path: Path) -> None:
    trace(FEW[-1], tmp_path / "t.fathom", [], [source(tmp_path, ZONES)])
    data = (tmp_path / "t.fathom").read_bytes()
    found = []
    for share in (0.3, 0.6, 0.9):
        (tmp_path / "cut.fathom").write_bytes(data[: int(share * len(data))])
        parsed = Trace(export(tmp_path / "cut.fathom").read_bytes())  # which wants every slice to end
        check_nesting(parsed.slices)
        found.append(len(parsed.slices))
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 0xFF
    (tmp_path / "damaged.fathom").write_bytes(damaged)
    check_nesting(Trace(export(tmp_path / "damaged.fathom").read_bytes()).slices)
    assert found == sorted(found)


def test_the_format_is_what_perfettos_own_description_says(tmp_path: Path) -> None:
    """Decoded by Google's protobuf with Perfetto's schema, both from PyPI."""
    if importlib.util.find_spec("perfetto") is None or importlib.util.find_spec("google.protobuf") is None:
        pytest.skip("needs perfetto and protobuf from PyPI; scripts/bootstrap.sh test brings them")
    from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema  # type: ignore[import-not-found]

    trace(FEW[-1], tmp_path / "t.fathom", [], [source(tmp_path, ZONES)])
    data = export(tmp_path / "t.fathom").read_bytes()
    parsed = schema.Trace()
    parsed.ParseFromString(data)
    ours = Trace(data)
    assert len(parsed.packet) == ours.n_packets
    kinds = Counter(p.track_event.type for p in parsed.packet if p.HasField("track_event"))
    assert kinds[schema.TrackEvent.TYPE_SLICE_BEGIN] == kinds[schema.TrackEvent.TYPE_SLICE_END] == len(ours.slices)
    assert kinds[schema.TrackEvent.TYPE_INSTANT] == 4 and kinds[schema.TrackEvent.TYPE_COUNTER] == len(ours.counts)

    def count_unknown(message: Any) -> int:
        inside = [value for field, value in message.ListFields() if field.message_type]
        parts = [part for value in inside for part in ([value] if hasattr(value, "ListFields") else value)]
        return len(UnknownFieldSet(message)) + sum(count_unknown(part) for part in parts)

    assert count_unknown(parsed) == 0
    names = {n.name for p in parsed.packet for n in p.interned_data.event_names}
    assert {"load", "parse", "whole", "done", "region"} <= names
    places = {(l.file_name, l.function_name) for p in parsed.packet for l in p.interned_data.source_locations}  # noqa: E741
    assert (str(tmp_path / "program.py"), "region") in places
