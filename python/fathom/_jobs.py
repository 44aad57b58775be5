# SPDX-License-Identifier: Apache-2.0
"""Profiling from code: run_job() for a script or a function, job() for a block of this process.

    report = fathom.run_job("simulate.py", "input.toml", output_dir="runs", name="first try")
    report = fathom.run_job(simulate, 1000, output_dir="runs")
    with fathom.job(output_dir="runs", name="warm-up") as job:
        simulate(1000)
    print(job.report.summary)

Results lie where `fathom run` puts them: OUTPUT_DIR/NAME/<UTC date and time>/.
"""

import importlib.util
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Sequence, Type, Union

from fathom import _session, agent_path, program_path
from fathom._agent_module import load_agent
from fathom._private import ask, opener

__all__ = ["Job", "JobError", "Report", "job", "run_job"]

Target = Union[str, "os.PathLike[str]", Callable[..., Any]]
_NO_VALUE = object()
_OUTPUT_DIR = ".fathom"  # unless another one is named
# Options of the command line, with underscores: those that a block of this process takes, and those of `fathom run` beside them.
_BLOCK_OPTIONS = (
    "cpu",
    "log_level",
    "memory",
    "no_children",
    "no_native",
    "precision",
    "rate",
    "redact",
    "redact_also",
)
_RUN_OPTIONS = (
    *_BLOCK_OPTIONS,
    "detailed",
    "duration",
    "engine",
    "kernel",
    "listen",
    "max_overhead",
    "memory_log",
    "no_inlines",
    "no_plots",
    "open",
    "repeat",
    "token",
    "trace",
)
_LOG_LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}


class JobError(RuntimeError):
    """The job could not be run, or gave no result; the message says why."""


class Report:
    """What a job left: a results folder, and everything that can be read from it."""

    def __init__(self, folder: str, exit_code: Optional[int], value: Any = _NO_VALUE) -> None:
        self.folder = folder
        """The results folder, an absolute path."""
        self.exit_code = exit_code
        """As a shell would give it (128 + N for signal N); None for a block of a process that goes on."""
        self._value = value
        self._json: Optional[Dict[str, Any]] = None

    def _file(self, name: str) -> str:
        return os.path.join(self.folder, name)

    @property
    def profile(self) -> str:
        """The capture, for `fathom report`, `view`, `export`; with repeat=N the first one."""
        one, first = self._file("profile.fathom"), self._file("profile_1.fathom")
        return first if os.path.exists(first) else one

    @property
    def text_path(self) -> str:
        """The text report."""
        return self._file("profile_results.txt")

    @property
    def logs(self) -> str:
        """Warnings and log records."""
        return self._file("logs.log")

    @property
    def html(self) -> Optional[str]:
        """The page to look at, if there is one."""
        return self._file("report.html") if os.path.exists(self._file("report.html")) else None

    @property
    def summary(self) -> str:
        """The first screen of the report, as text; text_path has all of it."""
        return self._ask("--summary")

    def _ask(self, *options: str) -> str:
        command = [program_path(), "report", *options, self.profile]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise JobError(done.stderr.decode(errors="replace").strip())
        return done.stdout.decode("utf-8", "replace")

    @property
    def json(self) -> Dict[str, Any]:
        """All numbers (`fathom report --json`); read once, when first asked for."""
        if self._json is None:
            self._json = json.loads(self._ask("--json"))
        return self._json

    @property
    def value(self) -> Any:
        """What the function returned."""
        if self._value is _NO_VALUE:
            raise JobError("the job returned no value: exit status %s, see %s" % (self.exit_code, self.folder))
        return self._value

    def __repr__(self) -> str:
        return "<fathom.Report %s>" % self.folder


def _name_for_folder(name: str) -> str:
    return re.sub(r"[/\0]", "_", name).strip() or "job"


def _options(options: Dict[str, Any]) -> List[str]:
    """rate=2000 -> --rate=2000, cpu=True -> --cpu: the options of the command line under the same names."""
    args = []
    for key, value in options.items():
        name = "--" + key.replace("_", "-")
        if value is True:
            args.append(name)
        elif value is not None and value is not False:
            args.append("%s=%s" % (name, value))
    return args


def _check(function: str, options: Dict[str, Any], known: Sequence[str]) -> None:
    for key in options:
        if key not in known:
            text = "%s() got an unexpected keyword argument %r; its options are %s"
            raise TypeError(text % (function, key, ", ".join(sorted(known))))


def _wants(name: Optional[str], target: Any) -> str:
    """The name of a job: the one given, else the function's."""
    target = getattr(target, "func", target)  # of a functools.partial
    return _name_for_folder(
        name or getattr(target, "__qualname__", type(target).__name__).replace("<", "").replace(">", "")
    )


def run_job(
    target: Target,
    *args: Any,
    output_dir: Union[str, "os.PathLike[str]"] = _OUTPUT_DIR,
    name: Optional[str] = None,
    python: Optional[str] = None,
    quiet: bool = True,
    **options: Any,
) -> Report:
    """Runs a script, a notebook or a function under fathom, waits for its end and returns the report.

    A path is run by `python` (default: this one) with args as its arguments. A function is called with args in a new process of
    this Python, as multiprocessing's spawn would start it: its time is that of the call, without the imports before it, and nothing of this process is in the way. For that
    it and args are pickled; a function that cannot be (a lambda, one defined in a notebook) is called here, inside job().

    name: of the results folder below output_dir (default: the script's or the function's). quiet=False prints the report. Other options are
    those of `fathom run`: rate=2000, log_level="INFO", no_plots=True, detailed=True.

    An option that there is not is a TypeError. A job that fails is no exception here: look at exit_code. Report.value is what the function returned, and raises JobError if it did not.
    """
    _check("run_job", options, _RUN_OPTIONS)
    if os.environ.get("FATHOM_JOB"):
        raise JobError(
            "run_job was called while a job's own script was being imported; put the call under if __name__ == '__main__':"
        )
    command = [program_path(), "run", "--python", python or sys.executable]
    if os.fspath(output_dir) != _OUTPUT_DIR:  # the usual one is the program's to find
        command += ["--output-dir", os.fspath(output_dir)]
    command += ["--quiet"] if quiet else []
    if not callable(target):
        path = os.fspath(target)
        command += ["--name", _name_for_folder(name)] if name else []
        return _launch(command + _options(options), [path, *map(str, args)], None)
    try:
        from multiprocessing import spawn

        preparation = spawn.get_preparation_data("fathom-job")
        preparation.pop("authkey", None)  # cannot be pickled here, and there is nobody to talk to
        work = pickle.dumps((target, args))
        prepared = pickle.dumps(preparation)
        _check_can_be_found(target)
    except (pickle.PicklingError, AttributeError, TypeError):
        return _call_here(target, args, output_dir, name, options)
    command += ["--name", _wants(name, target), "--copy-of", _file_of(target)]
    runner = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_job.py")
    with tempfile.TemporaryDirectory(prefix="fathom-job-") as folder:
        with open(os.path.join(folder, "job"), "wb") as file:
            pickle.dump((prepared, work), file)
        return _launch(command + _options(options), [runner, agent_path(), folder], os.path.join(folder, "value"))


def _file_of(target: Any) -> str:
    """The source file of what is called; "" when there is none."""
    target = getattr(target, "func", target)  # of a functools.partial
    if not hasattr(target, "__code__"):  # a method has its function's
        target = type(target).__call__
    file = getattr(getattr(target, "__code__", None), "co_filename", "")
    return os.path.abspath(file) if os.path.isfile(file) else ""


def _check_can_be_found(target: Any) -> None:
    """A function of an interactive __main__ pickles well, but no other process will find it."""
    if getattr(target, "__module__", None) == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        raise pickle.PicklingError


def _launch(command: List[str], target: List[str], value_path: Optional[str]) -> Report:
    with tempfile.NamedTemporaryFile("r", prefix="fathom-results-", encoding="utf-8") as told:
        done = subprocess.run(command + ["--tell-results", told.name] + target)
        folder = told.read().strip()
    if not folder:
        raise JobError("fathom could not run %s; see its own message for the reason" % target[0])
    value = _NO_VALUE
    if value_path and os.path.exists(value_path):
        with open(value_path, "rb") as file:
            value = pickle.load(file)
    return Report(folder, done.returncode, value)


def _call_here(target: Callable[..., Any], args: Any, output_dir: Any, name: Optional[str], options: Any) -> Report:
    for key in options:
        if key not in _BLOCK_OPTIONS:
            text = "%s=... needs a separate process, and this function cannot be sent to one: define it at the top of a module"
            raise JobError(text % key)
    with Job(output_dir, _wants(name, target), options) as here:
        value = target(*args)
    assert here.report is not None
    here.report._value = value
    return here.report


# ---- a block of this process ----


def _hooks() -> Any:
    """What watches warnings and log records, the same as under `fathom run`."""
    if "fathom._hooks" not in sys.modules:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_startup", "_fathom_hooks.py")
        spec = importlib.util.spec_from_file_location("fathom._hooks", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["fathom._hooks"] = module
    return sys.modules["fathom._hooks"]


def _make_folder(output_dir: Any, name: str) -> str:
    """A new one, as `fathom run` makes it."""
    where = os.fspath(output_dir)
    try:
        return os.path.abspath(ask("results", "" if where == _OUTPUT_DIR else where, name))
    except ValueError as error:
        raise JobError(str(error).replace("--output-dir", "output_dir")) from None


class Job:
    """One capture of this process, from __enter__ to __exit__: all threads, and children that it forks meanwhile.

    A collector is started beside this process; the agent joins it. Time, waiting, and the memory that is asked for from here on.
    """

    def __init__(self, output_dir: Any, name: str, options: Optional[Dict[str, Any]] = None) -> None:
        self.report: Optional[Report] = None
        """There after the block."""
        self._output_dir, self._name, self._options = output_dir, name, dict(options or {})
        _check("job", self._options, _BLOCK_OPTIONS)
        level = self._options.pop("log_level", "WARNING")
        if level not in _LOG_LEVELS:
            raise JobError("log_level is one of %s, not %r" % (", ".join(_LOG_LEVELS), level))
        self._log_level = _LOG_LEVELS[level]
        self._unwatch: List[Callable[[], None]] = []
        self._sources: Dict[str, str] = {}
        self._session: Optional[_session.Session] = None

    def add_source(self, name: str, text: str) -> None:
        """Before the block: text of code that no file has, under the name it was compiled with."""
        self._sources[name] = text

    def _stop_watching(self) -> None:
        while self._unwatch:
            self._unwatch.pop()()

    def __enter__(self) -> "Job":
        folder = ""
        try:
            if load_agent().is_active():
                raise JobError("this process is being profiled already; one capture at a time")
            self._folder = folder = _make_folder(self._output_dir, self._name)
            sources = os.path.join(self._folder, "cells")
            if self._sources:
                os.mkdir(sources, 0o700)
            for name, text in self._sources.items():
                path = os.path.join(sources, name)
                with open(path, "w", encoding="utf-8", errors="replace", opener=opener) as file:
                    file.write(text)
            self._unwatch = _hooks().watch(os.path.join(self._folder, "logs.log"), self._log_level)
            options = ["--results", self._folder] + _options(self._options)
            self._session = _session.start(os.path.join(self._folder, "profile.fathom"), options)
        except RuntimeError as error:
            self._stop_watching()
            shutil.rmtree(folder, ignore_errors=True)
            raise error if isinstance(error, JobError) else JobError(str(error)) from None
        self._pid = os.getpid()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        error: Optional[BaseException] = None,
        trace: Optional[TracebackType] = None,
    ) -> None:
        if os.getpid() != self._pid or self._session is None:
            return  # a forked child that leaves the block: the capture is its parent's
        self._stop_watching()
        if not self._session.finish():
            raise JobError("the collector could not finish %s" % self._session.output)
        self.report = Report(self._folder, None)
        with open(self.report.text_path, "w", encoding="utf-8", opener=opener) as file:
            file.write(self.report._ask())
        # The page to look at. A program built without it says so; then there is none.
        command = [program_path(), "view", "--html", os.path.join(self._folder, "report.html"), self.report.profile]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def job(output_dir: Union[str, "os.PathLike[str]"] = _OUTPUT_DIR, name: str = "job", **options: Any) -> Job:
    """A context manager that profiles the block below it, in this process; its report is there afterwards.

        with fathom.job(output_dir="runs", name="warm-up", rate=2000) as job:
            simulate(1000)
        print(job.report.summary)

    options: rate=2000, cpu=True (no memory), memory="exact", precision=2, redact=True, no_native=True, no_children=True, log_level="INFO"; others are a TypeError. One at
    a time in a process, and not in one that `fathom run` started.
    """
    return Job(output_dir, _name_for_folder(name), options)
