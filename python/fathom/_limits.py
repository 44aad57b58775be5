# SPDX-License-Identifier: Apache-2.0
"""The marks of the pytest plugin that hold a test to a limit; imported when a test has one.

    @pytest.mark.limit_memory("24 MB")    # the peak of what the test itself allocates
    @pytest.mark.limit_leaks("1 MB")      # what each of its lines leaves behind
    @pytest.mark.limit_time("200 ms")     # how long it takes
    @pytest.mark.limit_time("+10%")       # the same, against a baseline that is kept

Each such test is a capture of its own, begun inside this process, so that a failure can show the lines and the stack that broke the limit.
"""

import contextlib
import gc
import json
import linecache
import os
import platform
import re
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

import pytest

from fathom import _session, program_path
from fathom._agent_module import load_agent
from fathom._private import make_folders, opener

BASELINES = "limits.json"
MEMORY_MARKS = ("limit_memory", "limit_leaks")
_LEFT = (
    "pytest-memray is installed and checks limit_memory and limit_leaks; use '-p no:memray' to let Fathom check them"
)
# As pytest-memray counts them, whose marks these are: 1 MB is 1024 * 1024 bytes.
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_N_LINES = 5
_MOST_FRAMES = 12


class _Limit(NamedTuple):
    text: str  # as it was written
    value: float  # bytes, seconds, or a share above the baseline
    is_relative: bool = False


class Limits(NamedTuple):
    """Of one test; None = it has none of that kind."""

    memory: Optional[_Limit] = None
    leaks: Optional[_Limit] = None
    time: Optional[_Limit] = None
    warmups: int = 0  # calls before the one that may leak
    runs: int = 1  # calls of which the shortest counts
    is_cpu: bool = False  # limit_time counts CPU time, not time on the clock


class _Verdict(NamedTuple):
    """What a report carries to the process that prints."""

    problem: Optional[str] = None  # why the limits could not be judged
    baseline: Optional[float] = None  # seconds, to be kept
    key: str = ""  # of the baseline


def _parse(text: Any, pattern: str, units: Dict[str, float], example: str) -> _Limit:
    match = (
        re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(%s)\s*" % pattern, text, re.IGNORECASE)
        if isinstance(text, str)
        else None
    )
    if not match:
        raise ValueError("wants %s, not %r" % (example, text))
    unit = match[2] if match[2] in units else match[2].upper()
    return _Limit(text, float(match[1]) * units.get(unit, units.get(match[2].lower(), 0)))


def _size(text: Any) -> _Limit:
    return _parse(text, "[KMGTP]?B", {k: float(v) for k, v in _UNITS.items()}, 'a size such as "24 MB"')


def _duration(text: Any) -> _Limit:
    example = 'a time such as "200 ms", or "+10%" of the baseline'
    match = re.fullmatch(r"\s*\+\s*(\d+(?:\.\d+)?)\s*%\s*", text) if isinstance(text, str) else None
    if match:
        return _Limit(text, float(match[1]) / 100, True)
    return _parse(text, "us|ms|s|min", _SECONDS, example)


def _count(value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 1000:
        raise ValueError("wants a number from %d to 1000, not %r" % (least, value))
    return value


def _read_mark(mark: Any) -> Limits:
    options = dict(mark.kwargs)
    names = {"limit_memory": "limit", "limit_leaks": "location_limit", "limit_time": "limit"}
    values = list(mark.args) + ([options.pop(names[mark.name])] if names[mark.name] in options else [])
    if len(values) != 1:
        raise ValueError("wants one limit, not %d" % len(values))
    if options.pop("current_thread_only", False):
        raise ValueError("cannot leave out other threads: current_thread_only is pytest-memray's")
    if mark.name == "limit_memory":
        found = Limits(memory=_size(values[0]))
    elif mark.name == "limit_leaks":
        found = Limits(leaks=_size(values[0]), warmups=_count(options.pop("warmups", 0), 0))
    else:
        clock = options.pop("clock", "wall")
        if clock not in ("wall", "cpu"):
            raise ValueError('has no clock %r: "wall" or "cpu"' % clock)
        found = Limits(time=_duration(values[0]), runs=_count(options.pop("runs", 1), 1), is_cpu=clock == "cpu")
    if options:
        raise ValueError("has no option %s" % ", ".join(sorted(options)))
    return found


def limits_of(item: Any, names: List[str]) -> Optional[Limits]:
    """From the marks of these names, the closest of each; UsageError names the one that makes no sense."""
    found: Dict[str, Any] = {}
    for name in names:
        mark = item.get_closest_marker(name)
        try:
            limits = _read_mark(mark) if mark else Limits()
        except ValueError as error:
            raise pytest.UsageError("%s: %s %s" % (item.nodeid, name, error)) from None
        default = Limits()._asdict()
        found.update({key: value for key, value in limits._asdict().items() if value != default[key]})
    return Limits(**found) if found else None


# ---- baselines ----


def _machine() -> str:
    """Times of other machines, and of other Pythons, are no baseline."""
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    is_free_threaded = "free-threading" in sys.version
    python = "%s %d.%d%s" % (sys.implementation.name, *sys.version_info[:2], "t" if is_free_threaded else "")
    return "%s x %d, %s" % (model, os.cpu_count() or 1, python)


def _key(limits: Limits) -> str:
    how = ["cpu" if limits.is_cpu else "wall"]
    if limits.memory or limits.leaks:
        how.append("with memory")  # counting every allocation takes time
    return "%s, %s" % (_machine(), " ".join(how))


def read_baselines(folder: str) -> Dict[str, Dict[str, float]]:
    try:
        with open(os.path.join(folder, BASELINES), encoding="utf-8") as file:
            kept = json.load(file)["seconds"]
        return {str(key): {str(t): float(s) for t, s in tests.items()} for key, tests in kept.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # there is none yet, or it is not our file any more


def _write_baselines(folder: str, new: Dict[str, Dict[str, float]]) -> Optional[str]:
    """Adds to what is there. Returns why not."""
    path = os.path.join(folder, BASELINES)
    kept = read_baselines(folder)
    for key, tests in new.items():
        kept.setdefault(key, {}).update(tests)
    try:
        make_folders(folder)
        with open(path + ".new", "w", encoding="utf-8", opener=opener) as file:
            json.dump({"seconds": kept}, file, indent=1, sort_keys=True)
        os.replace(path + ".new", path)
    except OSError as error:
        return str(error)
    return None


def closing_lines(folder: str, verdicts: Dict[str, List[Any]]) -> List[str]:
    """Keeps the new baselines, and says what could not be judged."""
    lines: List[str] = []
    new: Dict[str, Dict[str, float]] = {}
    problems: Dict[str, int] = {}
    for test, fields in verdicts.items():
        verdict = _Verdict(*fields)
        if verdict.problem:
            problems[verdict.problem] = problems.get(verdict.problem, 0) + 1
        if verdict.baseline is not None:
            new.setdefault(verdict.key, {})[test] = verdict.baseline
    for problem, n in sorted(problems.items()):
        lines.append("fathom: limits of %d test%s not judged: %s" % (n, "s"[n == 1 :], problem))
    if new:
        n = sum(map(len, new.values()))
        why = _write_baselines(folder, new)
        where = os.path.relpath(os.path.join(folder, BASELINES))
        if why:
            lines.append("fathom: baselines of limit_time could not be kept: %s" % why)
        else:
            lines.append("fathom: %d new baseline%s of limit_time in %s" % (n, "s"[n == 1 :], where))
    return lines


# ---- what a failure says ----


def _amount(n_bytes: float) -> str:
    for unit in ("B", "KB", "MB"):
        if n_bytes < 1024:
            return "%.*f %s" % (unit != "B", n_bytes, unit)
        n_bytes /= 1024
    return "%.1f GB" % n_bytes


def _seconds(s: float) -> str:
    return "%.3g s" % s if s >= 1 else "%.3g ms" % (s * 1e3)


def _ask(*arguments: str) -> str:
    command = [program_path(), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    return done.stdout.decode("utf-8", "replace")


def _top_lines(lines: List[Dict[str, Any]], value_of: Callable[[Dict[str, Any]], float], show: Any) -> List[str]:
    top = sorted((line for line in lines if value_of(line) > 0), key=value_of, reverse=True)[:_N_LINES]
    text = []
    for line in top:
        text.append(
            "  %10s  %s:%d in %s"
            % (show(value_of(line)), os.path.relpath(line["file"]), line["line"], line["function"])
        )
        source = linecache.getline(line["file"], line["line"]).strip()
        if source:
            text.append("  %10s      %s" % ("", source[:120]))
    return text


def _top_stack(path: str, test: str) -> List[str]:
    """The one that held most at the peak, from the test on."""
    best, most = "", -1
    for line in _ask("export", "-f", "collapsed", "--metric", "peak", path).splitlines():
        stack, _, weight = line.rpartition(" ")
        if weight.isdigit() and int(weight) > most:
            best, most = stack, int(weight)
    frames = best.split(";") if best else []
    begin = next((i for i, frame in enumerate(frames) if frame.rpartition(" (")[0].rpartition(".")[2] == test), 0)
    frames = frames[begin:]
    left_out = len(frames) - _MOST_FRAMES
    if left_out > 0:
        frames[_MOST_FRAMES // 2 : -_MOST_FRAMES // 2] = ["... %d frames ..." % left_out]
    return ["  " + frame for frame in frames]


class _Findings(NamedTuple):
    broken: List[str]  # what a failure says, a paragraph each
    verdict: _Verdict


class _Test:
    """One test under its limits."""

    def __init__(
        self, item: Any, limits: Limits, path: str, baselines: Dict[str, Dict[str, float]], renews: bool
    ) -> None:
        self.item, self.limits, self.path, self.renews = item, limits, path, renews
        self.key = _key(limits)
        self.baseline = baselines.get(self.key, {}).get(item.nodeid)
        self.seconds: List[float] = []
        self.problem: Optional[str] = None
        self.session: Any = None
        self.name = getattr(item, "originalname", None) or item.name

    def begin(self) -> None:
        try:
            if load_agent().is_active():
                raise RuntimeError("this process is being profiled already")
            options = ["--memory=exact"] if self.limits.memory or self.limits.leaks else []
            self.session = _session.start(self.path, options)
        except (RuntimeError, OSError) as error:
            self.problem = str(error)

    def end(self) -> None:
        if self.session is None:
            return
        if self.limits.leaks:
            gc.collect()
        is_whole = self.session.finish()
        self.session = None
        if not is_whole:
            self.problem = "the collector could not finish %s" % self.path

    def now(self) -> float:
        return time.process_time() if self.limits.is_cpu else time.perf_counter()

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        __tracebackhide__ = True
        for _ in range(self.limits.warmups):
            function(*args, **kwargs)
        self.begin()
        try:
            for _ in range(self.limits.runs):
                start = self.now()
                function(*args, **kwargs)
                self.seconds.append(self.now() - start)
        finally:
            self.end()

    def _memory(self, report: Dict[str, Any]) -> Iterator[str]:
        limit = self.limits.memory
        peak = report["memory"]["peak_bytes"]
        if limit and peak > limit.value:
            said = ["limit_memory: the test held %s at its peak; its limit is %s." % (_amount(peak), limit.text)]
            said += _top_lines(report["lines"], lambda line: line["at_peak_bytes"], _amount)
            said += ["The stack that held most of it:"] + _top_stack(self.path, self.name)
            yield "\n".join(said)
        limit = self.limits.leaks
        if limit:
            most = limit.value
            guilty = [line for line in report["lines"] if line["live_bytes"] > most]
            if guilty:
                said = [
                    "limit_leaks: the memory that the test leaves behind exceeds the limit of %s for one line."
                    % limit.text
                ]
                yield "\n".join(said + _top_lines(guilty, lambda line: line["live_bytes"], _amount))

    def _time(self, report: Optional[Dict[str, Any]]) -> Iterator[str]:
        limit = self.limits.time
        if not limit:
            return
        took, most, of_what = min(self.seconds), limit.value, "its limit is %s" % limit.text
        if limit.is_relative:
            if self.baseline is None or self.renews:
                return
            most = self.baseline * (1 + limit.value)
            of_what = "its baseline is %s, its limit %s" % (_seconds(self.baseline), limit.text)
        if took > most:
            what = "%s of CPU time" % _seconds(took) if self.limits.is_cpu else _seconds(took)
            said = ["limit_time: the test took %s; %s." % (what, of_what)]
            lines = report["lines"] if report else []
            top = _top_lines(lines, lambda line: line["total_s"] + line["wait_s"], _seconds)
            said += top or ["  It was too short to show its lines."]
            yield "\n".join(said)

    def judge(self) -> _Findings:
        report: Optional[Dict[str, Any]] = None
        if self.problem is None:
            try:
                report = json.loads(_ask("report", "--json", self.path))
            except (RuntimeError, OSError, ValueError) as error:
                self.problem = str(error)
        broken = list(self._memory(report)) if report else []
        broken += self._time(report)
        is_memory_unknown = report is None and (self.limits.memory or self.limits.leaks)
        keeps = self.limits.time and self.limits.time.is_relative and not broken
        is_new = keeps and (self.baseline is None or self.renews)
        problem = self.problem if is_memory_unknown else None
        return _Findings(broken, _Verdict(problem, min(self.seconds) if is_new else None, self.key))


class Judge:
    """The plugin of a process whose tests have limits."""

    def __init__(
        self, folder: str, renews: bool, is_profiled: Callable[[Any], bool], path_of: Callable[[Any], str]
    ) -> None:
        self.folder, self.renews, self.is_profiled, self.path_of = folder, renews, is_profiled, path_of
        self.limits: Dict[str, Limits] = {}
        self.baselines = read_baselines(folder)
        self.verdicts: Dict[str, _Verdict] = {}
        self.left: Set[str] = set()  # tests with marks that are another plugin's to judge

    def take(self, items: List[Any], names: List[str], left: Sequence[str]) -> None:
        for item in items:
            limits = limits_of(item, names)
            if limits:
                self.limits[item.nodeid] = limits
            if any(item.get_closest_marker(name) for name in left):
                self.left.add(item.nodeid)

    def _close(self, test: _Test) -> None:
        """Fails the test, with its capture kept, or takes that away."""
        findings = test.judge()
        self.verdicts[test.item.nodeid] = findings.verdict
        if not findings.broken:
            _remove(test.path)
            return
        text = "\n\n".join(findings.broken)
        if os.path.exists(test.path):
            text += "\n\nfathom view %s shows all of it." % os.path.relpath(test.path)
        pytest.fail(text, pytrace=False)

    # Innermost of the wrappers, so that other plugins' work is outside.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        limits = self.limits.get(item.nodeid)
        if limits is None:
            yield
            return
        if self.is_profiled(item):
            self.verdicts[item.nodeid] = _Verdict("the same run profiles them, which costs time and memory")
            yield
            return
        try:
            path = self.path_of(item)
        except (RuntimeError, OSError) as error:
            self.verdicts[item.nodeid] = _Verdict(str(error))
            yield
            return
        test = _Test(item, limits, path, self.baselines, self.renews)
        function = getattr(item, "obj", None)
        if isinstance(item, pytest.Function) and not _is_async(function):
            item.obj = self._held(function, test)
            yield
            item.obj = function
            return
        test.begin()  # a coroutine, which a plugin runs, or no function at all
        start = test.now()
        outcome: Any = yield
        test.seconds.append(test.now() - start)
        test.end()
        if outcome.excinfo is None:
            try:
                self._close(test)
            except pytest.fail.Exception as failure:
                outcome.force_exception(failure)
        else:
            _remove(test.path)

    def _held(self, function: Any, test: _Test) -> Any:
        import functools

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            try:
                test.call(function, args, kwargs)
            except BaseException:
                _remove(test.path)
                raise
            self._close(test)

        return call

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        outcome: Any = yield
        if call.when != "call":
            return
        verdict = self.verdicts.pop(item.nodeid, None)
        if item.nodeid in self.left:
            verdict = (verdict or _Verdict())._replace(problem=_LEFT)
        if verdict is not None:
            outcome.get_result().fathom_limits = list(verdict)


def _is_async(function: Any) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
