# SPDX-License-Identifier: Apache-2.0
"""The console entry `fathom`, in a module that no other project has: one on PyPI is called fathom, and installs a package of that name.

Installed beside each other, whichever came last has written fathom/__init__.py.
"""

import sys


def _say_whose() -> int:
    import fathom

    print(
        "fathom: `import fathom` finds another project's package (%s); run: pip uninstall -y fathom fathom-profiler && "
        "pip install fathom-profiler" % (getattr(fathom, "__file__", None) or "a folder without code"),
        file=sys.stderr,
    )
    return 1


def program() -> int:
    try:
        from fathom.__main__ import program as start
    except ImportError:
        return _say_whose()
    return start()
