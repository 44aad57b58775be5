# SPDX-License-Identifier: Apache-2.0
"""The console entry `fathom`, in a module that no other project has: one on PyPI is called fathom, and installs a package of that name.

Installed beside each other, whichever came last has written fathom/__init__.py.
"""

import sys


def whose() -> str:
    import importlib.util

    found = importlib.util.find_spec("fathom")
    return (
        "`import fathom` finds another project's package (%s); run: pip uninstall -y fathom fathom-profiler && "
        "pip install fathom-profiler" % ((found and found.origin) or "a folder without code")
    )


def say_whose() -> int:
    print("fathom: %s" % whose(), file=sys.stderr)
    return 1


def program() -> int:
    try:
        from fathom.__main__ import program as start
    except (ImportError, SyntaxError):  # it need not be for this Python
        return say_whose()
    return start()
