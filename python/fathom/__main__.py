# SPDX-License-Identifier: Apache-2.0
"""`fathom ...` hands over to the program of this package; `python -m fathom SCRIPT` traces a script in this interpreter.

For a command the process is replaced, so signals, exit status and process id are the program's own.
"""

import os
import signal
import sys
from typing import List, Optional

try:
    from fathom import program_path
except ImportError:  # another project's package was installed over this one
    from fathom_profiler import say_whose

    sys.exit(say_whose())


def _undo_locale_coercion() -> None:
    """Python sets LC_CTYPE when it starts in the C locale (PEP 538). The program behind us, and the one that it profiles, are to see the
    environment as it was."""
    try:
        with open("/proc/self/environ", "rb") as file:
            before = [entry[9:] for entry in file.read().split(b"\0") if entry.startswith(b"LC_CTYPE=")]
    except OSError:
        return
    if before:
        os.environb[b"LC_CTYPE"] = before[0]
    else:
        os.environ.pop("LC_CTYPE", None)


def _exec_program(args: List[str]) -> int:
    try:
        path = program_path()
        # Python ignores these two, and what is ignored stays ignored across exec: the profiled program would see
        # EPIPE where it would have ended quietly. subprocess restores them for the same reason.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        _undo_locale_coercion()
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(path, ["fathom"] + args)
    except OSError as error:
        print("fathom: %s" % error, file=sys.stderr)
        return 1


def program(args: Optional[List[str]] = None) -> int:
    """The console entry `fathom`."""
    return _exec_program(sys.argv[1:] if args is None else args)


# What the program itself answers to; anything else is something to trace.
_COMMANDS = (
    "run record report view export import top dump live diff check compare doctor collect-for help --version".split()
)


def main(args: Optional[List[str]] = None) -> int:
    """`python -m fathom`: traces a script or module, or runs a command of the program by its name."""
    args = sys.argv[1:] if args is None else args
    if args and args[0] in _COMMANDS:
        return _exec_program(args)
    from fathom import _trace_main

    return _trace_main.main(args)


if __name__ == "__main__":
    sys.exit(main())
