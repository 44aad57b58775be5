# SPDX-License-Identifier: Apache-2.0
"""Places that every end-to-end test needs, and a way to run programs under Fathom."""

import functools
import json
import os
import resource
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import hurt
import load
import pytest
import referee
from capture import BUILD, ROOT, TARGETS, Capture, Python, find_pythons, record
from guest import engines
from runs import Run, run_script

sys.path.insert(0, str(ROOT / "python"))

Profile = Callable[..., Capture]

# The dearest begin first: the worker that gets one of them last keeps the other waiting. A compiler beside tests that judge by statistics
# does them no good, so first come those that do not. Nor do browsers: test_viewer comes late, and is alone at the end.
BEGIN = (
    "package",
    "names",
    "pyabi",
    "trace",
    "run_report",
    "truth",
    "stacks",
    "oracle",
    "storm",
    "jit",
    "cpython_suite",
)


def pytest_addoption(parser: Any) -> None:
    parser.addoption(
        "--failures-to", metavar="FILE", help="write which tests failed, and which of them may be tried again"
    )
    parser.addoption(
        "--busy-limit",
        metavar="TASKS",
        type=float,
        default=load.LIMIT,
        help="for each CPU; on a busier machine nothing is said by statistics (load.py)",
    )
    parser.addoption("--only-listed", metavar="FILE", help="run the tests whose names stand in FILE, one a line")


def pytest_configure(config: Any) -> None:
    hurt.watch()
    hurt.at_end.append(referee.saw_end)
    load.watch()
    config.option.loadscopereorder = False  # xdist would begin with the files that have the most tests
    if getattr(config.option, "numprocesses", None):  # what each worker would ask for itself
        os.environ["FATHOM_TEST_ENGINES"] = " ".join(engines())


def cpu_s() -> float:
    """Of this process and of all that it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    item.cpu_s_before = cpu_s()
    yield


def pytest_runtest_setup(item: Any) -> None:
    del hurt.seen[:]
    load.begin()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: Any) -> None:
    del hurt.started[:]  # what fixtures started is theirs to end


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    """Says in the report whether the test may be tried again, and if not, why. Reports travel from workers to the process that counts.

    What a machine too busy to judge by (load.py) makes fail is a skip.
    """
    report = (yield).get_result()
    if call.when == "teardown":  # for scripts/count_tests.py
        report.user_properties.append(("cpu_s", round(cpu_s() - item.cpu_s_before, 3)))
    if not report.failed:
        return
    if call.when == "call":
        hurt.end_what_is_left()
    error = call.excinfo.value if call.excinfo else None
    why = hurt.why_final(error)
    if isinstance(error, (NameError, TypeError, AttributeError, ImportError)):
        why = why or "no figure is wrong, but the test"
    report.final = why or ("" if item.get_closest_marker("statistical") else "it is not marked as statistical")
    rests_on_cpu = item.get_closest_marker("statistical") or item.get_closest_marker("alone")
    busy = load.too_busy(item.config.getoption("--busy-limit"))
    if call.when == "call" and rests_on_cpu and busy and not why:
        what = str(call.excinfo.value).partition("\n")[0][:200]
        report.outcome = "skipped"
        report.longrepr = (
            str(item.path),
            (item.location[1] or 0) + 1,
            f"skipped: {busy}; {call.excinfo.typename}: {what}",
        )


failures: Dict[str, str] = {}  # by test: why it may not be tried again


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        # A report without a word on it is of a worker that crashed.
        failures[report.nodeid] = failures.get(report.nodeid) or getattr(report, "final", "its worker crashed")


def pytest_sessionfinish(session: Any) -> None:
    path = session.config.getoption("--failures-to")
    if path and not hasattr(session.config, "workerinput"):
        Path(path).write_text(json.dumps(failures, indent=1) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: List[Any]) -> None:
    listed = config.getoption("--only-listed")
    if listed:
        names = set(Path(listed).read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
        items[:] = [item for item in items if item.nodeid in names]
    ranks = {"test_%s.py" % name: rank for rank, name in enumerate(BEGIN)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(BEGIN)))


def pytest_generate_tests(metafunc: Any) -> None:
    """A test that takes `python` runs for the newest and an older one; with FATHOM_TEST_LONG for every Python found.

    Which older one differs from test to test, so that all of them together meet every Python: the oldest in half of the tests. A test that is about certain
    ones is marked `pythons(8, 13)`.
    """
    if "python" in metafunc.fixturenames and not hasattr(metafunc.module, "each_python"):
        pythons = find_pythons()
        marker = metafunc.definition.get_closest_marker("pythons")
        if os.environ.get("FATHOM_TEST_LONG") or os.environ.get("FATHOM_TEST_PYTHONS"):
            pass
        elif marker:
            pythons = [p for p in pythons if p.minor in marker.args] or pythons[-1:]
        elif hasattr(metafunc.module, "each_frame_layout"):  # it is about how Python keeps its frames
            pythons = [p for p in pythons if p.minor in (8, 10, 11, 12)] + pythons[-1:]
        elif len(pythons) > 2:
            which = zlib.crc32(metafunc.function.__name__.encode()) % (2 * (len(pythons) - 2))
            pythons = [pythons[which + 1 if which < len(pythons) - 2 else 0], pythons[-1]]
        metafunc.parametrize("python", pythons, ids=str, scope="session")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory) -> None:
    """Nothing that the user's reports remember, and nothing left behind there."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def totals_add_up(request: Any) -> Iterator[None]:
    """Every capture that the test makes is weighed (referee.py)."""
    yield
    wrong = referee.found[:]
    del referee.found[:]
    if request.node.get_closest_marker("unaccounted") is None:
        assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def build() -> Path:
    """The build folder under test; FATHOM_BUILD names another one than build/."""
    return BUILD


@pytest.fixture(scope="session")
def fathom(build: Path) -> Path:
    """The program under test."""
    return build / "fathom"


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """profile(target, args=(), options=(), python=None) -> Capture; target is a name in tests/targets or a path."""

    def run(
        target: str, args: Sequence[str] = (), options: Sequence[str] = (), python: Optional[Python] = None
    ) -> Capture:
        return record(tmp_path / "profile.fathom", TARGETS / target, args, options, python)

    return run


@pytest.fixture(scope="session")
def some_python() -> Python:
    """The newest plain release, for what does not depend on the version."""
    found = [p for p in find_pythons() if p.kind == "release" and p.minor <= 13]
    if not found:
        pytest.skip("no Python found")
    return found[-1]


@pytest.fixture
def run(some_python: Python, tmp_path: Path) -> Callable[..., Run]:
    """run(source, *options, name="app.py", args=(), env=None) -> Run, in the test's own folder."""
    return functools.partial(run_script, tmp_path, some_python)


@pytest.fixture
def memory_cgroup() -> Iterator[Path]:
    """The folder of a cgroup that may use 200 MiB."""
    name = f"fathom-test-{os.getpid()}"
    for base, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(base) / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(200 << 20))
            for swap in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
                if (group / swap).exists():
                    (group / swap).write_text("0" if swap == "memory.swap.max" else str(200 << 20))
            yield group
            for _ in range(50):
                try:
                    group.rmdir()
                    return
                except OSError:
                    time.sleep(0.1)
            return
        except OSError:
            group.rmdir()
    pytest.skip("no memory cgroup can be made here")
