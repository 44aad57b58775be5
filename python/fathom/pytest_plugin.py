# SPDX-License-Identifier: Apache-2.0
"""Fathom in pytest: `--fathom` profiles every test, the fixtures `profiled` and `tracy_profile` one of them.

    def test(profiled):
        prepare()
        with profiled():
            procedure()

    def test(tracy_profile): ...        # the whole test function

A fixture leaves `.profiles/<test>.fathom` and `.prof` (pstats, snakeviz, gprof2dot); `--fathom` leaves one such pair for all tests,
each of them a zone, and `--fathom-each` one for each. The marks limit_memory, limit_leaks and limit_time hold a test to a limit (_limits.py). Under `python -m fathom` the calls go into that profile instead. pytest loads this file in every run, so it imports the rest when it is asked to profile.
"""

import functools
import hashlib
import inspect
import json
import os
import re
import time
from typing import Any, ContextManager, Dict, Iterator, List, NamedTuple, Optional

import pytest

FOLDER = ".profiles"
_LAST_RUN = "last-run.json"
_ALL = "tests"  # the name of the files that all tests share
_N_SLOWEST = 20
_LONGEST_NAME = 150  # characters; file systems stop at 255 with what we append
# Whose frames are no part of a test: pytest, and what carries it.
_MACHINERY = ("_pytest", "pytest", "pluggy", "xdist", "execnet")
_MARKS = {
    "limit_memory": '(limit): the most that the test may hold of what it allocates itself, such as "24 MB"',
    "limit_leaks": '(limit, warmups=0): the most that one line of the test may leave behind, such as "1 MB"',
    "limit_time": '(limit, runs=1, clock="wall"): "200 ms", or "+10%" above the baseline that is kept',
}
_MEMRAY = "memray"  # the plugin's name, whose marks two of these are


def safe_name(text: str) -> str:
    """As a file name that needs no quoting: shells take the brackets of parametrized tests for wildcards."""
    safe = re.sub(r"[^A-Za-z0-9_.=+,-]+", "-", text).strip("-.") or "test"
    if len(safe) > _LONGEST_NAME:
        safe = "%s-%s" % (safe[:_LONGEST_NAME], _digest(text))
    return safe


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def _machinery() -> List[str]:
    import importlib.util

    found = (importlib.util.find_spec(name) for name in _MACHINERY)
    return [os.path.join(os.path.dirname(spec.origin), "*") for spec in found if spec and spec.origin]


def _make_folder(folder: str) -> None:
    """RuntimeError: others decide where its files go."""
    from fathom._private import distrust, make_folders

    make_folders(folder)
    why = distrust(folder)
    if why:
        raise RuntimeError("%s %s" % (os.path.relpath(folder), why))


class _Capture:
    """What one test records: a capture of its own, or its part of the one that runs already."""

    def __init__(self, path: str) -> None:
        self.path = path  # without suffix
        self.problem: Optional[str] = None  # why it cannot be profiled
        self.is_written = False
        self._session: Any = None
        self._profiler: Any = None

    def __enter__(self) -> None:
        if self._profiler is None and self.problem is None:
            try:
                self._open()
            except (RuntimeError, OSError) as error:
                self.problem = str(error)
        if self._profiler is not None:
            self._profiler.__enter__()

    def __exit__(self, *exception: object) -> None:
        if self._profiler is not None:
            self._profiler.__exit__()

    def part_of(self, test: str) -> "ContextManager[Any]":
        """What is put around the test's function."""
        return self

    def _open(self) -> None:
        try:
            from fathom import Profiler, _session
            from fathom._agent_module import load_agent
        except ImportError:  # another project's package was installed over this one
            from fathom_profiler import whose

            raise RuntimeError(whose()) from None

        if _session.current() is None and not load_agent().is_active():
            _make_folder(os.path.dirname(self.path))
            for suffix in (".fathom", ".prof"):  # what is there afterwards is of this run
                if os.path.exists(self.path + suffix):
                    os.unlink(self.path + suffix)
            also = ["--format", "pstats", "--also-as", self.path + ".prof"]
            _session.open_session(self.path + ".fathom", also, of_regions=True)
            self._session = _session.current()
        _session.exclude_always(_machinery())
        self._profiler = Profiler(self.path + ".fathom")

    def close(self) -> None:
        """Waits until the files are whole. Not when the test itself has ended the capture, or it is another's."""
        if self._session is None:
            return
        from fathom import _session

        if _session.current() is self._session:
            _session.close_session()
        self._session = self._profiler = None
        self.is_written = os.path.exists(self.path + ".prof")


class _SharedCapture(_Capture):
    """One for all tests of this process: to begin and to end one takes longer than most tests. Each test is a zone of it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.first_path, self.n_begun = path, 0
        self.paths: List[str] = []

    def _open(self) -> None:
        if self.paths:  # a test has ended the capture: what is in its file stays there
            self.n_begun += 1
            self.path = "%s-%d" % (self.first_path, self.n_begun + 1)
        super()._open()
        if self._session is not None:
            self.paths.append(self.path)

    def _is_over(self) -> bool:
        from fathom import _session

        return self._session is not None and _session.current() is not self._session

    def part_of(self, test: str) -> "ContextManager[Any]":
        if self._profiler is not None and self._is_over():
            self._session = self._profiler = None
        return _Part(self, test)

    @property
    def is_ours(self) -> bool:
        """False: the test is part of somebody else's capture."""
        return self._session is not None


class _Part:
    """One test in the capture of all. A class, as its methods are ours and not traced; contextlib's would be."""

    def __init__(self, capture: _SharedCapture, test: str) -> None:
        self.capture, self.test = capture, test
        self.zone: Any = None

    def __enter__(self) -> None:
        self.capture.__enter__()
        if self.capture.is_ours:
            from fathom import zone

            self.zone = zone(self.test)
            self.zone.__enter__()

    def __exit__(self, *exception: object) -> None:
        if self.zone is not None:
            self.zone.__exit__(*exception)
        self.capture.__exit__(*exception)


class _Stopwatch:
    def __init__(self, item: Any) -> None:
        self.item = item

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        self.item.fathom_seconds = time.perf_counter() - self.start


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _measured(function: Any, capture: _Capture, item: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with capture.part_of(item.nodeid), _Stopwatch(item):
            return function(*args, **kwargs)

    return call


class _Result(NamedTuple):
    seconds: float
    outcome: str
    path: Optional[str]


class _Plugin:
    def __init__(self, config: Any) -> None:
        self.is_for_each: bool = config.getoption("fathom_each")
        self.is_for_all: bool = config.getoption("fathom_all") or self.is_for_each
        self.is_worker = hasattr(config, "workerinput")  # of xdist: its reports go to the process that prints
        self.folder = os.path.abspath(FOLDER)  # now: tests may change the folder they are in
        self.names: Dict[str, str] = {}  # of files, by test
        self.captures: Dict[str, _Capture] = {}
        self.wanted: Dict[str, bool] = {}  # tests that use tracy_profile
        self.results: Dict[str, _Result] = {}
        self.problems: Dict[str, str] = {}
        self.config = config
        self.limits: Dict[str, List[Any]] = {}  # what came of them, by test
        worker = config.workerinput["workerid"] if self.is_worker else ""
        self.shared: Optional[_SharedCapture] = None
        if self.is_for_all and not self.is_for_each:
            self.shared = _SharedCapture(os.path.join(self.folder, "-".join(filter(None, [_ALL, worker]))))

    def capture_of(self, item: Any) -> _Capture:
        if self.shared is not None:
            return self.shared
        if item.nodeid not in self.captures:
            name = self.names.get(item.nodeid) or safe_name(item.name)
            self.captures[item.nodeid] = _Capture(os.path.join(self.folder, name))
        return self.captures[item.nodeid]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: List[Any]) -> None:
        """A test's file has its plain name, unless another test's would have the same."""
        by_name: Dict[str, List[str]] = {}
        for item in items:
            by_name.setdefault(safe_name(item.name), []).append(item.nodeid)
        for name, ids in by_name.items():
            for nodeid in ids:
                is_alone = len(ids) == 1
                self.names[nodeid] = name if is_alone else "%s-%s" % (safe_name(nodeid), _digest(nodeid))
        self._take_limits(items)

    def _take_limits(self, items: List[Any]) -> None:
        """Two plugins that measure memory would measure each other: the marks that pytest-memray has are its own where it is there."""
        marked = [item for item in items if any(item.get_closest_marker(name) for name in _MARKS)]
        if not marked:
            return
        from fathom import _limits

        left = _limits.MEMORY_MARKS if self.config.pluginmanager.hasplugin(_MEMRAY) else ()
        renews = self.config.getoption("fathom_new_baseline")
        judge = _limits.Judge(self.folder, renews, self._is_profiled, self._limit_path)
        judge.take(marked, [name for name in _MARKS if name not in left], left)
        self.config.pluginmanager.register(judge, "fathom-limits")

    def _is_profiled(self, item: Any) -> bool:
        fixtures = getattr(item, "fixturenames", ())
        return self.is_for_all or "profiled" in fixtures or "tracy_profile" in fixtures

    def _limit_path(self, item: Any) -> str:
        _make_folder(self.folder)
        return os.path.join(self.folder, "%s.limit.fathom" % (self.names.get(item.nodeid) or safe_name(item.name)))

    # Innermost of the wrappers, so that other plugins' work is outside.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        if not self.is_for_all and not self.wanted.pop(item.nodeid, False):
            yield
            return
        capture = self.capture_of(item)
        function = getattr(item, "obj", None)
        if isinstance(item, pytest.Function) and not _is_async(function):
            # Only the function: pytest's own preparations call functions of the standard library.
            item.obj = _measured(function, capture, item)
            yield
            item.obj = function
        else:
            with capture.part_of(item.nodeid), _Stopwatch(item):
                yield

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        outcome: Any = yield
        capture = self.captures.get(item.nodeid)
        if self.shared is not None and call.when == "call":
            report = outcome.get_result()
            if hasattr(item, "fathom_seconds"):
                path = self.shared.path if self.shared.is_ours else None
                report.fathom_result = [item.fathom_seconds, report.outcome, path]
            report.fathom_problem = self.shared.problem
        if call.when == "setup" or capture is None:
            return
        report = outcome.get_result()
        if call.when == "call" and self.is_for_all:
            capture.close()  # what teardown does is not the test's
            if hasattr(item, "fathom_seconds"):
                report.fathom_result = [item.fathom_seconds, report.outcome, capture.is_written and capture.path]
        elif call.when == "teardown":
            capture.close()
            del self.captures[item.nodeid]
            report.fathom_problem = capture.problem

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Where the table is made: under xdist this is another process than the test's."""
        if getattr(report, "fathom_result", None):
            self.results[report.nodeid] = _Result(*report.fathom_result)
        if getattr(report, "fathom_limits", None):
            self.limits[report.nodeid] = report.fathom_limits
        if getattr(report, "fathom_problem", None):
            self.problems[report.nodeid] = report.fathom_problem

    def pytest_sessionfinish(self) -> None:
        if self.shared is not None:
            self.shared.close()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.is_worker:
            return
        for problem in sorted(set(self.problems.values())):
            n = list(self.problems.values()).count(problem)
            terminalreporter.write_line("fathom: %d test%s not profiled: %s" % (n, "s"[n == 1 :], problem))
        if self.limits:
            from fathom import _limits

            for line in _limits.closing_lines(self.folder, self.limits):
                terminalreporter.write_line(line)
        if self.results:
            last = self._read_last_run()
            for line in table(self.results, last):
                terminalreporter.write_line(line)
            paths = [result.path for result in self.results.values() if result.path]
            if paths and self.is_for_each:
                terminalreporter.write_line("%d profiles in %s" % (len(paths), os.path.relpath(self.folder)))
            elif paths:
                files = sorted({os.path.relpath(path) + ".fathom" for path in paths})
                terminalreporter.write_line("%d tests in %s" % (len(paths), ", ".join(files)))
            elif not self.problems:
                terminalreporter.write_line(
                    "fathom: this run is being profiled as a whole; the calls are in that profile"
                )
            self._write_last_run(last)

    def _read_last_run(self) -> Dict[str, float]:
        try:
            with open(os.path.join(self.folder, _LAST_RUN), encoding="utf-8") as file:
                seconds = json.load(file)["seconds"]
            return {str(test): float(value) for test, value in seconds.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}  # the first run, or not our file any more

    def _write_last_run(self, last: Dict[str, float]) -> None:
        """Tests that did not run this time, or failed, keep what they had."""
        last = dict(last)
        last.update((test, result.seconds) for test, result in self.results.items() if result.outcome == "passed")
        path = os.path.join(self.folder, _LAST_RUN)
        from fathom._private import make_folders, opener

        try:
            make_folders(self.folder)
            with open(path + ".new", "w", encoding="utf-8", opener=opener) as file:
                json.dump({"seconds": last}, file, indent=1, sort_keys=True)
            os.replace(path + ".new", path)
        except OSError:
            pass  # a read-only folder: then there is nothing to compare with next time


def table(results: Dict[str, _Result], last: Dict[str, float]) -> List[str]:
    """The slowest tests, and how each differs from the last time it passed."""
    slowest = sorted(results.items(), key=lambda pair: -pair[1].seconds)[:_N_SLOWEST]
    lines = ["", "slowest tests (their call, traced)", "%12s  %8s  test" % ("time", "change")]
    for test, result in slowest:
        before = last.get(test)
        if result.outcome != "passed":
            change = result.outcome
        elif not before:
            change = "new"
        else:
            change = "%+.0f %%" % ((result.seconds / before - 1) * 100)
        lines.append("%9.2f ms  %8s  %s" % (result.seconds * 1e3, change, test))
    return lines


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("fathom", "profiling with fathom")
    group.addoption(
        "--fathom",
        action="store_true",
        dest="fathom_all",
        help="profile the call of every test into %s/%s.fathom and .prof, and list the slowest" % (FOLDER, _ALL),
    )
    group.addoption(
        "--fathom-each",
        action="store_true",
        dest="fathom_each",
        help="the same with files for each test: %s/<test>.fathom and .prof" % FOLDER,
    )

    group.addoption(
        "--fathom-new-baseline",
        action="store_true",
        dest="fathom_new_baseline",
        help="what tests with limit_time take now becomes their baseline",
    )


def pytest_configure(config: Any) -> None:
    for name, meaning in _MARKS.items():
        config.addinivalue_line("markers", name + meaning)
    config.pluginmanager.register(_Plugin(config), "fathom-tests")


@pytest.fixture
def profiled(request: Any) -> Any:
    """`with profiled():` profiles that block, as often as it is entered."""
    capture = request.config.pluginmanager.get_plugin("fathom-tests").capture_of(request.node)
    return lambda: capture


@pytest.fixture
def tracy_profile(request: Any) -> None:
    """Profiles the whole test function; with `python -m fathom -p -m pytest` nothing else is."""
    request.config.pluginmanager.get_plugin("fathom-tests").wanted[request.node.nodeid] = True
