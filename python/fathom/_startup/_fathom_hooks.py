# SPDX-License-Identifier: Apache-2.0
"""What `fathom run` sets up inside the program: logs.log, and with --no-plots no windows.

Nothing is imported on the program's behalf: a module is changed when the program itself has imported it. No function of ours stays on
the stack while the program's own code runs, so code that looks at its callers finds whom it would find without us.
"""

import os
import sys
import time

_LEVELS = ((50, "CRITICAL"), (40, "ERROR"), (30, "WARNING"), (20, "INFO"))


class _Settings:
    """FATHOM_STARTUP as core/cli/run/startup.c writes it: version, level, flags, and the results folder, which may hold blanks."""

    def __init__(self, text):
        version, level, self.flags, folder = text.split(" ", 3)
        if version != "1":
            raise ValueError("settings of another Fathom")
        self.level = int(level)
        self.log_path = os.path.join(folder, "logs.log")


class Watcher:
    """A finder that finds nothing, but sees to it that action(module) is called when a module has been imported."""

    def __init__(self):
        self.actions = {}

    def add(self, name, action):
        module = sys.modules.get(name)
        if module is not None:
            _guarded(action, module)
        else:
            self.actions[name] = action

    def find_spec(self, name, path=None, target=None):
        if name not in self.actions:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def is_imported(self, module):
        action = self.actions.pop(module.__name__, None)
        if not self.actions and self in sys.meta_path:
            sys.meta_path.remove(self)
        if action:
            _guarded(action, module)


class _Loader:
    """Stands in for a module's loader until it has been asked to execute the module."""

    def __init__(self, loader, watcher):
        self._loader = loader
        self._watcher = watcher

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._watcher.is_imported(module)


def _guarded(action, module):
    try:  # noqa: SIM105 (contextlib is no import for a start)
        action(module)
    except Exception:
        pass  # another version of that library than we know: it stays as it is


def like(original, function):
    """function, under the name of the one whose place it takes."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(function, name, getattr(original, name, None))
    return function


def _replace(owner, name, function, undo):
    """owner.name becomes function. What takes that back, unless somebody came after us, is added to undo."""
    original, was_own = getattr(owner, name), name in vars(owner)
    ours = like(original, function)
    setattr(owner, name, ours)

    def back():
        if vars(owner).get(name) is ours:
            setattr(owner, name, original) if was_own else delattr(owner, name)

    undo.append(back)


# Logs are looked at in terminals: what drives one, or turns the writing direction, is written as Python would escape it.
_UNFIT = {c: "\\x%02x" % c for c in [*range(32), *range(127, 160)] if c not in (9, 10)}
_UNFIT.update((c, "\\u%04x" % c) for c in [0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)])


class _Log:
    def __init__(self, path, level):
        self.path, self.level = path, level
        # The file's being there tells fathom that records are watched for.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))

    def write(self, level, logger, file, line, message):
        """One write a record, so that several processes may append; further lines of it are indented.

        No descriptor is kept: a program that closes all of them would give its number to a file of its own."""
        name = next((name for least, name in _LEVELS if level >= least), "DEBUG")
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (now % 1 * 1000)
        text = "%s %s %s %s:%s: %s" % (stamp, name, logger, file, line, message)
        text = "\n    ".join(text.splitlines()).translate(_UNFIT) + "\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, text.encode("utf-8", "backslashreplace"))
        finally:
            os.close(fd)


def _watch_warnings(warnings, log, undo):
    """Warnings that are shown: not those that a filter or catch_warnings(record=True) keeps from the user."""
    show, write_out = warnings._showwarnmsg, warnings._showwarnmsg_impl

    def is_recorded():
        context = getattr(warnings, "_get_context", None)  # 3.14
        return warnings._showwarnmsg_impl is not write_out or (context is not None and context().log is not None)

    def _showwarnmsg(msg):
        try:
            if not is_recorded():
                text = "%s: %s" % (msg.category.__name__, msg.message)
                log.write(30, "py.warnings", msg.filename, msg.lineno, text)
        except Exception:
            pass
        return show(msg)

    _replace(warnings, "_showwarnmsg", _showwarnmsg, undo)


def _watch_logging(logging, log, undo):
    """Records as they are made: they pass the program's own levels, but its filters have not seen them yet."""
    logger_class = logging.Logger
    make, is_enabled_for, passes = logger_class.makeRecord, logger_class.isEnabledFor, logger_class.filter

    def note(record):
        if record.levelno < log.level or record.name == "py.warnings":  # those come by _watch_warnings
            return
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        log.write(record.levelno, record.name, record.pathname, record.lineno, message)

    def makeRecord(self, *args, **kwargs):  # noqa: N802
        record = make(self, *args, **kwargs)
        try:
            note(record)
            if log.level < logging.WARNING and not is_enabled_for(self, record.levelno):
                record._fathom_only = True
        except Exception:
            pass
        return record

    _replace(logger_class, "makeRecord", makeRecord, undo)
    if log.level >= logging.WARNING:
        return

    # Asked for more than the program's levels let through: such records are made for us, and go no further. What the
    # program itself asks its loggers is answered as ever.
    def isEnabledFor(self, level):  # noqa: N802
        if is_enabled_for(self, level):
            return True
        if level < log.level or self.disabled or self.manager.disable >= level:
            return False
        asking = sys._getframe(1)
        if asking.f_code.co_name == "isEnabledFor":  # an adapter passes the question on
            asking = asking.f_back
        return asking is not None and asking.f_code.co_filename == logging._srcfile

    def filter(self, record):
        return False if getattr(record, "_fathom_only", False) else passes(self, record)

    _replace(logger_class, "isEnabledFor", isEnabledFor, undo)
    _replace(logger_class, "filter", filter, undo)


def watch(path, level):
    """For a block of a running process (fathom.job): from now on, until all of what is returned has been called."""
    import logging
    import warnings

    undo = []
    log = _Log(path, level)
    if level <= logging.WARNING:
        _watch_warnings(warnings, log, undo)
    _watch_logging(logging, log, undo)
    return undo


def install(text):
    settings = _Settings(text)
    watcher = Watcher()
    try:
        log = None if "q" in settings.flags else _Log(settings.log_path, settings.level)
    except OSError:
        log = None  # the program runs as another user, say
    if log and settings.level <= 30:
        # Here and not when the program imports it: warnings that the interpreter itself gives need no import.
        import warnings

        _watch_warnings(warnings, log, [])
    if log:
        watcher.add("logging", lambda module: _watch_logging(module, log, []))
    if "p" in settings.flags:
        import _fathom_plots

        _fathom_plots.install(watcher)
    if watcher.actions:
        sys.meta_path.insert(0, watcher)
