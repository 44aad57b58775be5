# SPDX-License-Identifier: Apache-2.0
"""%fathom and %%fathom, for IPython and Jupyter: %load_ext fathom."""

import linecache
import os
from typing import Any, Dict, List, Optional, Tuple

from IPython.core.error import UsageError

from fathom._jobs import Job, JobError, Report
from fathom._notebook import execute

_USAGE = "options of %fathom look like --rate=2000 and stand before the statement"


class _Names:
    """Stands in for a compiler's get_code_name: from here on cells are called In [3], in profiles as on the screen."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self.last = "In [0]"  # the cell that is running

    def __call__(self, raw: str, transformed: str, number: int) -> str:
        self.last = "In [%d]" % number
        return self.last


def load(shell: Any) -> None:
    if not isinstance(shell.compile.get_code_name, _Names):
        shell.compile.get_code_name = _Names(shell.compile.get_code_name)

    def fathom(line: str, cell: Optional[str] = None) -> None:
        __tracebackhide__ = True  # IPython leaves such frames out: an error in the cell is the cell's
        _fathom(shell, line, cell)

    fathom.__doc__ = _fathom.__doc__
    shell.register_magic_function(fathom, "line_cell", "fathom")


def unload(shell: Any) -> None:
    if isinstance(shell.compile.get_code_name, _Names):
        shell.compile.get_code_name = shell.compile.get_code_name.original
    shell.magics_manager.magics["line"].pop("fathom", None)
    shell.magics_manager.magics["cell"].pop("fathom", None)


def _split(line: str) -> Tuple[Dict[str, Any], str]:
    """(options, what follows them)"""
    options: Dict[str, Any] = {}
    while line.startswith("--"):
        word, _, line = line.partition(" ")
        key, equals, value = word[2:].partition("=")
        if not key:
            raise UsageError(_USAGE)
        options[key.replace("-", "_")] = value if equals else True
        line = line.lstrip()
    return options, line


def _fathom(shell: Any, line: str, cell: Optional[str]) -> None:
    """Profile a statement (%fathom stmt) or a cell (%%fathom) and show the report.

    --name=N names the results folder, --output-dir=D says where it goes; the rest are those of fathom.job(): %%fathom --rate=5000
    """
    __tracebackhide__ = True
    options, statement = _split(line.strip())
    output_dir, name = options.pop("output_dir", ".fathom"), options.pop("name", "cell")
    if cell is not None and statement:
        raise UsageError(_USAGE)
    where = shell.compile.get_code_name.last
    if cell is not None:
        text = "\n" + str(shell.transform_cell(cell))  # at the lines that it has below %%fathom
        _remember(where, "%%fathom " + line + "\n" + cell)
    else:
        text = str(shell.transform_cell(statement))
        where = "%fathom"
        _remember(where, statement)
    try:
        job = Job(output_dir, name, options)
    except (JobError, TypeError) as error:
        raise UsageError(str(error).replace("job()", "%fathom", 1)) from None
    for file, entry in list(linecache.cache.items()):
        if file.startswith("In [") or file == "%fathom":
            job.add_source(file, "".join(entry[2]) if len(entry) > 2 else "")
    try:
        with job:
            execute(text, where, shell.user_ns)
    finally:
        if job.report:
            _show(job.report)


def _remember(name: str, text: str) -> None:
    lines: List[str] = [part + "\n" for part in text.split("\n")]
    linecache.cache[name] = (len(text), None, lines, name)


def _show(report: Report) -> None:
    print(report.summary)
    if report.html:
        from IPython.display import IFrame, display

        display(IFrame(os.path.relpath(report.html), "100%", 600))
