# SPDX-License-Identifier: Apache-2.0
"""Fathom: a profiler for Python programs and all the native code below them.

This package carries the `fathom` program and its agent, and knows where they are. From code: run_job() profiles a script or a function,
job() a block of this process; open() reads a capture as tables; Profiler traces every call, zone, mark and counter say more to a profile. In IPython and Jupyter, %load_ext fathom brings
%fathom and %%fathom.

PYTEST_DONT_REWRITE: nothing here is a test, and under `python -m fathom -m pytest` it is imported before pytest could rewrite it.
"""

import io
import os
import shutil
from typing import TYPE_CHECKING, Any, List, Optional

if TYPE_CHECKING:
    from fathom._jobs import Job, JobError, Report, job, run_job
    from fathom._query import Capture, QueryError, Table, open
    from fathom._trace import Profiler, counter, mark, zone

__all__ = [
    "Capture",
    "Job",
    "JobError",
    "Profiler",
    "QueryError",
    "Report",
    "Table",
    "__version__",
    "agent_path",
    "counter",
    "include_path",
    "job",
    "mark",
    "open",
    "program_path",
    "run_job",
    "zone",
]

__version__ = "0.1.0"

_HERE = os.path.dirname(os.path.abspath(__file__))
_AGENT = "_agent.abi3.so"


def __getattr__(name: str) -> Any:
    """What is for programs is imported when one asks for it: the command `fathom` passes here too, and is in a hurry."""
    if name in ("Job", "JobError", "Report", "job", "run_job"):
        from fathom import _jobs

        return getattr(_jobs, name)
    if name in ("Capture", "QueryError", "Table", "open"):
        from fathom import _query

        return getattr(_query, name)
    if name in ("Profiler", "counter", "mark", "zone"):
        from fathom import _trace

        # Next time without this detour: a zone should cost nothing.
        for known in _trace.__all__:
            globals()[known] = getattr(_trace, known)
        return globals()[name]
    raise AttributeError("module 'fathom' has no attribute %r" % name)


def load_ipython_extension(shell: Any) -> None:
    """%load_ext fathom"""
    from fathom import _magics

    _magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """%unload_ext fathom"""
    from fathom import _magics

    _magics.unload(shell)


def _first_file(candidates: List[Optional[str]]) -> Optional[str]:
    for path in candidates:
        if path and os.path.isfile(path):
            return os.path.abspath(path)
    return None


def _in_checkout(name: str) -> str:
    """The file as `make` builds it, for a package that is imported from a checkout."""
    return os.path.join(_HERE, os.pardir, os.pardir, "build", name)


def program_path() -> str:
    """Path of the fathom program: the one in this package, else of this checkout, else on PATH."""
    found = _first_file([os.path.join(_HERE, "_bin", "fathom"), _in_checkout("fathom")])
    found = found or _installed_program()
    if found is None:
        raise FileNotFoundError("the fathom program is neither in this package nor on PATH; reinstall fathom-profiler")
    return found


def agent_path() -> str:
    """Path of the agent: FATHOM_AGENT_PATH if set, else the one that belongs to program_path()."""
    named = os.environ.get("FATHOM_AGENT_PATH")
    if named:
        if not os.path.isfile(named):
            raise FileNotFoundError("FATHOM_AGENT_PATH names %s, which does not exist" % named)
        return os.path.abspath(named)
    bin_dir = os.path.dirname(os.path.realpath(_installed_program() or "/"))
    found = _first_file(
        [
            os.path.join(_HERE, _AGENT),
            _in_checkout(_AGENT),
            os.path.join(bin_dir, os.pardir, "lib", "fathom", _AGENT),
        ]
    )
    if found is None:
        raise FileNotFoundError("the agent %s is not where fathom was installed; reinstall fathom-profiler" % _AGENT)
    return found


def include_path() -> str:
    """The folder of fathom.h and TracyCompat.h, for C and C++ code with zones."""
    bin_dir = os.path.dirname(os.path.realpath(_installed_program() or "/"))
    folders = [os.path.join(_HERE, "include"), os.path.join(_HERE, os.pardir, os.pardir, "include")]
    folders.append(os.path.join(bin_dir, os.pardir, "include"))
    found = _first_file([os.path.join(folder, "fathom.h") for folder in folders])
    if found is None:
        raise FileNotFoundError("fathom.h is not where fathom was installed; reinstall fathom-profiler")
    return os.path.dirname(found)


def _installed_program() -> Optional[str]:
    """fathom on PATH, unless it is a script: pip's entry point would only lead back here."""
    path = shutil.which("fathom")
    if path is None:
        return None
    with io.open(path, "rb") as file:  # open() is what this module gives to others
        return path if file.read(4) == b"\x7fELF" else None
