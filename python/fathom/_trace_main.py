# SPDX-License-Identifier: Apache-2.0
"""`python -m fathom SCRIPT`: runs a script or module with every call traced, as `python -m cProfile` does."""

import _thread
import builtins
import contextlib
import importlib.machinery
import io
import os
import sys
import threading
import types
from typing import Any, Callable, List, NoReturn, Optional, Tuple

from fathom import _follow, _lines, _private, _session, _trace

USAGE = """\
usage: python -m fathom [options] [-m MODULE | SCRIPT] [ARGUMENTS...]
       python -m fathom COMMAND ...        (the same as 'fathom COMMAND ...')

Runs a script or module and records every Python call with its times, on all threads, and samples of the native code below.

  -o FILE       where to write: FILE.fathom; with FILE.prof also what cProfile would write (default: NAME.fathom);
                in its name, %p is the process id, %t the time, %r the rank that mpirun or srun gave
  -p            only between Profiler().enable() and disable() (from fathom import Profiler)
  -l            also every line
  --lines package.module:function
                the lines of this function only (:Class.method, :Class.*); may be given several times
  --calls c     also calls of C functions
  --include P   only functions of files that match the pattern P ('*/mypackage/*'); may be given several times
  --exclude P   no functions of files that match; their time is their callers'
  --min-duration 10us
                leave out calls that took less (and called nothing that took longer)
  --last 30s    only the end of the trace, however long the program runs
  --rate HZ     samples per second of CPU time (default 1000)
  --listen [HOST:]PORT
                let 'fathom live' and a browser watch while it runs (8086 by convention; default: nobody)
  --token TOKEN the secret that other machines need to watch (default: a random one, printed)
  --quiet       no table at the end
  -m MODULE     run a module, as python -m does
  -h, --help    this text

Examples:
  python -m fathom script.py --its-own-option
  python -m fathom -o run.prof -m package.module && snakeviz run.prof
  python -m fathom -p -l -m pytest tests/test_x.py::test_y
  python -m fathom --lines package.parser:Parser.feed script.py
  python -m fathom --listen 8086 server.py            (then, in another terminal: fathom live)
"""


class _Options:
    output: Optional[str] = None
    rate: Optional[str] = None
    last: Optional[str] = None
    min_us: Optional[float] = None
    listen: Optional[str] = None
    token: Optional[str] = None
    is_partial = False
    has_lines = False
    has_c_calls = False
    is_quiet = False
    module: Optional[str] = None

    def __init__(self) -> None:
        self.include: List[str] = []
        self.exclude: List[str] = []
        self.lines: List[str] = []
        self.target: List[str] = []


def _fail(text: str) -> NoReturn:
    print("fathom: %s; 'python -m fathom --help' has examples" % text, file=sys.stderr)
    sys.exit(2)


def _microseconds(text: str) -> float:
    number = text.rstrip("nums")
    try:
        return float(number) * {"ns": 1e-3, "us": 1.0, "": 1.0, "ms": 1e3, "s": 1e6}[text[len(number) :]]
    except (KeyError, ValueError):
        _fail("--min-duration wants a time such as 50us or 2ms, not '%s'" % text)


def _parse(args: List[str]) -> _Options:
    options = _Options()
    rest = list(args)

    def value(option: str, attached: str) -> str:
        if attached:
            return attached
        if not rest:
            _fail("%s wants a value" % option)
        return rest.pop(0)

    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        name, equals, attached = option.partition("=")
        if option in ("-h", "--help"):
            print(USAGE, end="")
            sys.exit(0)
        elif option == "--":
            break
        elif name in ("-o", "--output"):
            options.output = value(name, attached)
        elif name in ("-r", "--rate"):
            options.rate = value(name, attached)
            if not options.rate.rstrip("k").isdigit():
                _fail("--rate wants a whole number, such as 1000 or 10k, not '%s'" % options.rate)
        elif name == "--last":
            options.last = value(name, attached)
            if not options.last.rstrip("s").replace(".", "", 1).isdigit():
                _fail("--last wants seconds, not '%s'" % options.last)
        elif name == "--min-duration":
            options.min_us = _microseconds(value(name, attached))
        elif name == "--listen":
            options.listen = value(name, attached)
            port = options.listen.rpartition(":")[2]
            if not port.isdigit() or int(port) > 65535:
                _fail("--listen wants PORT or HOST:PORT, such as 8086, not '%s'" % options.listen)
        elif name == "--token":
            options.token = value(name, attached)
        elif name == "--calls":
            if value(name, attached) not in ("c", "C"):
                _fail("--calls takes 'c'")
            options.has_c_calls = True
        elif name == "--include":
            options.include.append(value(name, attached))
        elif name == "--exclude":
            options.exclude.append(value(name, attached))
        elif option in ("-p", "--partial"):
            options.is_partial = True
        elif option == "-l":
            options.has_lines = True
        elif name == "--lines":
            options.lines.append(value(name, attached))
        elif option == "-pl" or option == "-lp":
            options.is_partial = options.has_lines = True
        elif option in ("-q", "--quiet"):
            options.is_quiet = True
        elif name == "-m":
            options.module = value(name, attached)
            break  # what follows is the module's
        else:
            _fail("there is no option %s" % option)
    if options.module is None:
        if not rest:
            _fail("name a script, or a module with -m")
        options.target = rest
    else:
        options.target = [options.module] + rest
    return options


def _as_python_names(path: str) -> str:
    """A script's `__file__`, and the file of its functions."""
    return os.path.abspath(path) if sys.version_info >= (3, 9) else path


def _script(path: str) -> Tuple[Callable[[], None], str]:
    try:
        with io.open_code(os.path.abspath(path)) as file:
            text = file.read()
    except OSError as error:
        print("fathom: cannot open %s: %s" % (path, error.strerror), file=sys.stderr)
        sys.exit(2)
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    path = _as_python_names(path)
    main = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __builtins__=builtins, __loader__=loader)
    if sys.version_info < (3, 15):
        main.__dict__["__cached__"] = None
    if sys.version_info < (3, 14):
        main.__dict__["__annotations__"] = {}

    def run() -> None:
        code = compile(text, path, "exec", dont_inherit=True)
        sys.modules["__main__"] = main
        _traced(lambda: exec(code, main.__dict__))

    return run, os.path.splitext(os.path.basename(path))[0]


def _module(name: str) -> Tuple[Callable[[], None], str]:
    import importlib.util
    import runpy

    sys.path[0] = os.getcwd()
    package = name.partition(".")[0]
    if not package or importlib.util.find_spec(package) is None:  # of a module inside of it runpy tells
        print("fathom: there is no module named %s" % name, file=sys.stderr)
        sys.exit(1)

    def run() -> None:
        _traced(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))

    return run, name.rpartition(".")[2]


def _main_file(options: _Options) -> Optional[str]:
    if options.module is None:
        return _as_python_names(options.target[0])
    return _lines.find(options.module + ".__main__") or _lines.find(options.module)


_flags: Optional[int] = None  # of a trace of the whole program


def _traced(program: Callable[[], Any]) -> None:
    """Runs it with nothing of ours between the start of the trace and the program. _end_trace() ends it."""
    if _flags is not None:
        _session.begin_calls(_flags)
    program()


def _end_trace() -> None:
    """When the main thread is done. What other threads still do belongs to the trace: they are waited for as the interpreter does, which
    first tells those of idle executors to end. It does nothing when it is called again at the interpreter's own end."""
    try:
        if _thread._count():
            threading._shutdown()  # type: ignore[attr-defined]
    finally:
        if _flags is not None:
            _session.end_calls()


def _without_our_frames(error: BaseException) -> Any:
    """Its traceback from the program's own code on."""
    at = error.__traceback__
    here = os.path.dirname(os.path.abspath(__file__))
    while at is not None and os.path.dirname(os.path.abspath(at.tb_frame.f_code.co_filename)) == here:
        at = at.tb_next
    return at


def _flush_output() -> None:
    """What the program printed comes before our table."""
    # It may have closed it, or nobody reads any more: the interpreter's own end says so.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stdout.flush()


def main(args: List[str]) -> int:
    global _flags
    options = _parse(args)
    sys.argv[:] = options.target
    run, name = _script(options.target[0]) if options.module is None else _module(options.module)
    output = options.output or name + ".fathom"
    try:
        if options.output and "%" in output:
            output = _private.ask("name", output, str(os.getpid()))
    except ValueError as error:
        _fail(str(error))
    except OSError as error:
        print("fathom: %s" % error, file=sys.stderr)
        return 1
    collector: List[str] = ["--children-join"]
    if os.path.splitext(output)[1] in (".prof", ".pstats"):
        collector += ["--format", "pstats", "--also-as", output]
        output = os.path.splitext(output)[0] + ".fathom"
    if options.rate:
        collector += ["--rate", options.rate]
    if options.min_us:
        collector += ["--min-duration-us", "%.3f" % options.min_us]
    if options.last:
        collector += ["--last", options.last]
    if options.listen:
        collector += ["--listen", options.listen]
    if options.token:
        collector += ["--token", options.token]
    if not options.is_quiet:
        collector.append("--table")
    has_lines = options.has_lines or bool(options.lines)
    flags = (_session.C_CALLS if options.has_c_calls else 0) | (_session.LINES if has_lines else 0)
    try:
        chosen = _lines.patterns(options.lines, _main_file(options))
    except ValueError as error:
        _fail(str(error))
    try:
        command = [sys.executable, "-m", "fathom"] + args
        if not _session.open_session(output, collector, command, of_regions=options.is_partial):
            if options.output:
                print("fathom: this process is being profiled already; its calls go there, not to -o", file=sys.stderr)
            if options.listen:
                print("fathom: this process is being profiled already; give --listen to that profiler", file=sys.stderr)
        _session.set_filter(options.include, options.exclude, chosen)
        _session.apply_filter()
    except (RuntimeError, FileNotFoundError) as error:
        print("fathom: %s" % error, file=sys.stderr)
        return 1
    _trace.set_default_flags(flags)
    if not options.is_partial:
        _flags = flags
    stop_following = _follow.start(_flags)
    try:
        run()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            raise
        print(error.code, file=sys.stderr)  # before the other threads are done, as ever
        return 1
    except BaseException as error:
        error.__traceback__ = _without_our_frames(error)
        if not _thread._count():
            _end_trace()  # nobody else goes on, and to print a traceback takes many calls
        sys.excepthook(type(error), error, error.__traceback__)
        if not isinstance(error, KeyboardInterrupt):
            return 1
        sys.excepthook = lambda *_: None  # it is told; how the process ends is Python's business
        raise
    finally:
        try:
            _end_trace()
        finally:
            _flush_output()
            stop_following()
            _session.close_session()
    return 0
