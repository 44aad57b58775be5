# SPDX-License-Identifier: Apache-2.0
"""What a program can say to its profile: Profiler, zone, mark, counter.

All of it works in any thread, nests, and costs next to nothing while nobody profiles. Zones, marks and counters reach whatever
capture runs (`python -m fathom`, `fathom run`, a Profiler); without one they do nothing.
"""

import functools
import marshal
import os
import subprocess
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Optional, TypeVar, Union

from fathom import _lines, _session, program_path
from fathom._agent_module import load_agent
from fathom._lines import Choice

__all__ = ["Profiler", "counter", "mark", "zone"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _wrapped(function: _Function, context: Any) -> _Function:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with context:
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


if TYPE_CHECKING:

    class Zone:
        """A named stretch of time: a context manager, and a decorator."""

        def __enter__(self) -> None: ...
        def __exit__(self, *exception: object) -> None: ...
        def __call__(self, function: _Function) -> _Function: ...

    def zone(name: str) -> Zone:
        """The zone of that name, for `with zone("name"):` and `@zone("name")`."""

    def mark(text: str) -> None:
        """Marks this moment with a text."""

    def counter(name: str, value: float) -> None:
        """Notes the value of a counter at this moment."""

else:
    try:
        _agent = load_agent()

        class Zone:
            __slots__ = ()

            def __call__(self, function):
                return _wrapped(function, self)

        # A type for each zone: core/agent/zone.c says why.
        def _make_zone(begin, end):
            return type("Zone", (Zone,), {"__slots__": (), "__enter__": begin, "__exit__": end})()

        _agent.use_zone_factory(_make_zone)
        zone, mark, counter = _agent.zone, _agent.mark, _agent.counter
    except (RuntimeError, FileNotFoundError):
        # A program with zones must run where it cannot be profiled.
        class Zone:
            __slots__ = ()

            def __enter__(self):
                return self

            def __exit__(self, *exception):
                return None

            def __call__(self, function):
                return _wrapped(function, self)

        _no_zone = Zone()

        def zone(name):
            return _no_zone

        def mark(text):
            return None

        def counter(name, value):
            return None


class Profiler:
    """Traces every call between enable() and disable(), on all threads.

    Under `python -m fathom` and `fathom run` the calls go into their profile. On its own, the first enable() starts a capture
    into `output`, which is whole after close(), dump_stats(), or the end of the program.

        profiler = Profiler()
        profiler.enable()
        work()
        profiler.disable()

    It is a context manager and a decorator as well. Profilers nest: calls are traced while any of them is enabled.
    memory=True (or "exact") watches allocations as well, in a capture that it starts itself. listen=8086 (or "HOST:PORT", with a token) lets
    `fathom live` and a browser watch that capture.
    """

    def __init__(
        self,
        output: str = "trace.fathom",
        *,
        c_calls: bool = False,
        lines: Union[bool, Iterable[Choice]] = False,
        memory: "bool | str" = False,
        listen: "int | str | None" = None,
        token: Optional[str] = None,
    ) -> None:
        """lines: True for all, or a list of functions, as such or as "package.module:function"."""
        self.output = output
        self._options = ["--memory" if memory is True else "--memory=%s" % memory] if memory else []
        self._listens = listen is not None
        if self._listens:
            self._options += ["--listen", str(listen)]
        if token is not None:
            self._options += ["--token", token]
        self._lines = [] if isinstance(lines, bool) else _lines.patterns(lines)
        self._flags = (_session.C_CALLS if c_calls else 0) | (_session.LINES if lines is True or self._lines else 0)
        self._n_enabled = 0

    def enable(self) -> None:
        if self._n_enabled:
            warnings.warn("this Profiler is enabled already; enable() does nothing", RuntimeWarning, stacklevel=2)
            return
        self._enter()

    def disable(self) -> None:
        if not self._n_enabled:
            warnings.warn("this Profiler is not enabled; disable() does nothing", RuntimeWarning, stacklevel=2)
            return
        self._leave()

    def _enter(self) -> None:
        _session.open_session(self.output, self._options, of_regions=True)
        if self._listens and not _session.is_watchable():
            self._listens = False  # once is enough
            warnings.warn(
                "a capture runs already that nobody can watch; give listen= to the first Profiler, or --listen to whoever profiles this program",
                RuntimeWarning,
                stacklevel=3,
            )
        _session.begin_calls(self._flags | _default_flags, self._lines)
        self._n_enabled += 1

    def _leave(self) -> None:
        self._n_enabled -= 1
        _session.end_calls()

    def __enter__(self) -> "Profiler":
        self._enter()  # as often as it is entered: a recursive function may be decorated
        return self

    def __exit__(self, *exception: object) -> None:
        self._leave()

    def __call__(self, function: _Function) -> _Function:
        return _wrapped(function, self)

    def close(self) -> Optional[str]:
        """Ends the capture that a Profiler began. The path of its file; None when the capture is not ours to end."""
        self._n_enabled = 0
        return _session.close_session()

    def dump_stats(self, path: "os.PathLike[str] | str") -> None:
        """Ends the capture and writes what cProfile would have written, for pstats, snakeviz and their kin."""
        profile = self.close()
        if profile is None:
            raise RuntimeError(
                "there is no capture of our own to write; under another profiler its own file has the calls"
            )
        subprocess.run([program_path(), "export", "-f", "pstats", "-o", os.fspath(path), profile], check=True)

    def create_stats(self) -> None:
        """For pstats.Stats(profiler), which cProfile's users write: ends the capture and keeps what it counted in `stats`."""
        import tempfile  # slow to import, and zones need it not

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "calls.prof")
            self.dump_stats(path)
            with open(path, "rb") as file:
                self.stats: Dict[Any, Any] = marshal.load(file)


_default_flags = 0


def set_default_flags(flags: int) -> None:
    """What every Profiler of this program traces beside calls (`python -m fathom -p -l`)."""
    global _default_flags
    _default_flags = flags
