"""`fathom ...` and `python -m fathom ...`: hand over to the program of this package.

The process is replaced, so signals, exit status and process id are the program's own.
"""

import os
import signal
import sys
from typing import List, Optional

from fathom import program_path

# Options with which `python -m fathom` will trace like `python -m cProfile` does; they name no command of the program.
_TRACING_OPTIONS = ("-p", "-l", "-m", "-o")


def _exec_program(args: List[str]) -> int:
    try:
        path = program_path()
        # Python ignores these two, and what is ignored stays ignored across exec: the profiled program would see
        # EPIPE where it would have ended quietly. subprocess restores them for the same reason.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(path, ["fathom"] + args)
    except OSError as error:
        print("fathom: %s" % error, file=sys.stderr)
        return 1


def program(args: Optional[List[str]] = None) -> int:
    """The console entry `fathom`."""
    return _exec_program(sys.argv[1:] if args is None else args)


def main(args: Optional[List[str]] = None) -> int:
    """`python -m fathom`: a command of the program, by name; tracing a script directly is still to come."""
    args = sys.argv[1:] if args is None else args
    if args and (args[0] in _TRACING_OPTIONS or os.path.splitext(args[0])[1] == ".py"):
        print(
            "fathom: python -m fathom does not trace yet; 'python -m fathom run %s' profiles by sampling"
            % " ".join(arg for arg in args if arg not in ("-p", "-l")),
            file=sys.stderr,
        )
        return 2
    return _exec_program(args)


if __name__ == "__main__":
    sys.exit(main())
