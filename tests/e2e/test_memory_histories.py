# SPDX-License-Identifier: Apache-2.0
"""--memory=exact without a log: how lines went over time, and which one leaks, from what the collector saw of their sums now and then."""

from typing import Any, Dict

import pytest
from capture import Capture
from exact import MIB, exact
from guest import pick_python

pytestmark = pytest.mark.statistical

each_python = True  # conftest: chosen here
NEWEST = pick_python()
assert NEWEST

# Six seconds. One line keeps 2 MiB more each second; one makes and drops as much; one fills a queue of bounded length; one keeps every other block; one is high in the
# middle third and low before and after; one builds a table at the start.
PROGRAM = """
import collections, time
kept, copies, queue = [], [], collections.deque(maxlen=20)
def tick(i):
    kept.append(bytes(100000))        # leaks
    passing = bytes(100001)           # churns
    queue.append(bytes(100002))       # a queue
    for place in copies, []:
        place.append(bytes(60000))    # keeps half
    return len(passing)
table = [bytes(1000 + i % 3) for i in range(5000)]  # once
hill = None
begin = time.monotonic()
for i in range(132):
    tick(i)
    if i == 44:
        hill = [bytes(50000) for _ in range(400)]  # hill
    if i == 88:
        hill = None
    time.sleep(max(0, begin + i / 20 - time.monotonic()))
"""


def line_of(capture: Capture, mark: str) -> Dict[str, Any]:
    number = next(i for i, text in enumerate(PROGRAM.split("\n"), 1) if text.endswith("# " + mark))
    found: Dict[str, Any] = next(x for x in capture.report["lines"] if x["line"] == number)
    return found


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    assert NEWEST
    folder = tmp_path_factory.mktemp("histories")
    script = folder / "history.py"
    script.write_text(PROGRAM)
    return exact(folder, [NEWEST.path, script])


def test_the_leak_is_named_and_nothing_else(capture: Capture) -> None:
    leaks = capture.report["leaks"]
    assert [x["line"] for x in leaks] == [line_of(capture, "leaks")["line"]]
    assert leaks[0]["likelihood"] > 0.9
    # 20 blocks a second, each 100,033 bytes.
    velocity, around = leaks[0]["velocity_bytes_s"], leaks[0]["velocity_plus_minus_bytes_s"]
    assert velocity == pytest.approx(20 * 100033, rel=0.25, abs=around)


def test_sums_that_do_not_tell_are_said_to(capture: Capture) -> None:
    """Half of what the line makes is freed. Sums do not tell which half; that it grew to the end they do."""
    doubt = capture.report["memory"]["undecided_leak"]
    assert doubt and doubt["why"] == "sums only", doubt
    assert doubt["line"] == line_of(capture, "keeps half")["line"]
    assert doubt["bytes"] == pytest.approx(132 * 60033, rel=0.35)


def test_leaked_bytes_by_stack(capture: Capture) -> None:
    leaked = capture.collapsed("--metric", "leak")
    assert sum(n for _, n in leaked) == pytest.approx(132 * 100033, rel=0.35)
    assert all("tick" in frames[-1] for frames, _ in leaked)


def test_a_line_that_rises_and_falls(capture: Capture) -> None:
    timeline = line_of(capture, "hill")["timeline_bytes"]
    third = len(timeline) // 3
    assert max(timeline) >= 400 * 50033
    assert max(timeline[: third - 3]) < MIB
    assert min(timeline[third + 4 : 2 * third - 3]) >= 400 * 50033
    assert max(timeline[2 * third + 4 :]) < MIB


def test_a_line_that_only_rises(capture: Capture) -> None:
    timeline = line_of(capture, "leaks")["timeline_bytes"]
    upto = len(timeline) - 3  # what comes after is the interpreter's end
    assert timeline[:upto] == sorted(timeline[:upto])
    assert timeline[upto // 2] == pytest.approx(timeline[upto - 1] / 2, rel=0.25)
