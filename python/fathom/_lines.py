# SPDX-License-Identifier: Apache-2.0
"""Functions chosen to be traced line by line: `--lines pkg.mod:func`, Profiler(lines=[func, "pkg.mod:Class.method"]).

The agent knows functions by file and name. A module's file is looked for without importing anything: what the program imports, and when,
is its own affair.
"""

import importlib.machinery
import os
import sys
from typing import Any, Callable, Iterable, List, Optional, Sequence, Union

Choice = Union[str, Callable[..., Any]]


def patterns(choices: Iterable[Choice], main_file: Optional[str] = None) -> List[str]:
    """For trace_filter() of the agent; ValueError says what cannot be a choice. main_file: what runs as __main__, as it is named."""
    found: List[str] = []
    for choice in choices:
        if isinstance(choice, str):
            found += _of_text(choice, main_file)
        else:
            found.append(_of_function(choice))
    return found


def _of_text(text: str, main_file: Optional[str]) -> List[str]:
    module, colon, function = text.partition(":")
    if not colon or not function or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError("'%s' names no function; write it as package.module:function or :Class.method" % text)
    return ["@%s:%s" % (file, function) for file in _file_patterns(module, main_file)]


def _of_function(function: Callable[..., Any]) -> str:
    while hasattr(function, "__wrapped__"):  # under decorators
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        raise ValueError("%r has no lines of Python" % (function,))
    return "@%s:%s" % (_literal(code.co_filename), _literal(function.__qualname__))


def _literal(text: str) -> str:
    """As a pattern that matches nothing but itself."""
    return "".join("[%s]" % c if c in "*?[" else "\\\\" if c == "\\" else c for c in text)


def _file_patterns(module: str, main_file: Optional[str]) -> List[str]:
    if module == "__main__":
        found = main_file or getattr(sys.modules["__main__"], "__file__", None)
    else:
        found = getattr(sys.modules.get(module), "__file__", None) or find(module)
    if found is None:  # not there (yet): any file that a module of that name could come from
        path = module.replace(".", "/")
        return ["*/%s.py" % path, "*/%s/__init__.py" % path]
    if main_file and os.path.abspath(found) == os.path.abspath(main_file):
        found = main_file  # functions of a script have its name as it was given
    return [_literal(found)]


def find(module: str) -> Optional[str]:
    """The module's file, found without importing anything."""
    path: Optional[Sequence[str]] = None
    origin: Optional[str] = None
    parts = module.split(".")
    for i in range(len(parts)):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[: i + 1]), path)
        if spec is None:
            return None
        path, origin = spec.submodule_search_locations, spec.origin
        if path is None and i < len(parts) - 1:
            return None
    return origin
