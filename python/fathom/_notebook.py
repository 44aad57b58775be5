# SPDX-License-Identifier: Apache-2.0
"""Runs the code cells of a notebook, in order, in one __main__: `fathom run NOTEBOOK.ipynb` starts this file with the target's Python.

No server and no kernel. A cell is compiled under the name `NOTEBOOK.ipynb [cell 3]`, so that tracebacks and profiles speak of cells;
cell 3 is the one that Jupyter calls In [3] after "Run All". IPython is started only when a cell is not plain Python. What fathom wants
to keep goes into the results folder: cells/ with each cell's text under its name, cells.tsv with its times.
"""

import ast
import builtins
import json
import linecache
import os
import re
import signal
import sys
import time
import traceback
import types
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional

# Cell magics whose body is plain code: run without what IPython would add.
_CODE_MAGICS = ("time", "timeit", "capture", "prun")
_MAGIC_LINE = re.compile(r"\s*(\w[\w, ]*=\s*)?[%!]|.*\?\s*$|\s*\?")


class BadNotebook(Exception):
    """One sentence for the user."""


class Cell(NamedTuple):
    name: str
    source: str
    may_fail: bool  # tagged raises-exception, which Jupyter's tools honour as well


def read_cells(path: str) -> List[Cell]:
    """The code cells of a notebook in format 3 or 4; empty ones have no number in Jupyter and none here."""
    try:
        with open(path, encoding="utf-8") as file:
            notebook = json.load(file)
    except OSError as error:
        raise BadNotebook("cannot read it: %s" % error.strerror) from None
    except ValueError as error:
        raise BadNotebook("it is not a notebook: not JSON (%s)" % error) from None
    try:
        info = notebook.get("metadata", {})
        language = info.get("language_info", {}).get("name") or info.get("kernelspec", {}).get("language") or "python"
        if "cells" in notebook:
            raw = notebook["cells"]
        else:
            raw = [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        cells: List[Cell] = []
        for cell in raw:
            if cell["cell_type"] != "code":
                continue
            source = cell["source"] if "source" in cell else cell["input"]
            source = source if isinstance(source, str) else "".join(source)
            if source.strip():
                name = "%s [cell %d]" % (os.path.basename(path), len(cells) + 1)
                tags = cell.get("metadata", {}).get("tags", [])
                cells.append(Cell(name, source, "raises-exception" in tags))
    except (AttributeError, KeyError, TypeError) as error:
        raise BadNotebook("it is not a notebook of format 3 or 4 (%s: %s)" % (type(error).__name__, error)) from None
    if language.lower() not in ("python", "python3", "ipython"):
        raise BadNotebook("its language is %s; fathom runs notebooks in Python" % language)
    if not cells:
        raise BadNotebook("it has no code cells")
    return cells


def note(text: str) -> None:
    print("fathom: " + text, file=sys.stderr)


def execute(text: str, name: str, namespace: Dict[str, Any], wait_for: Optional[Callable[[Any], None]] = None) -> None:
    """As Jupyter does: what the last line comes to is shown; with wait_for, await needs no function around it."""
    __tracebackhide__ = True  # for IPython, when %%fathom comes here
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if wait_for else 0
    tree = compile(text, name, "exec", ast.PyCF_ONLY_AST | flags, dont_inherit=True)
    parts: List[Any] = [ast.Module(tree.body, [])]
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not text.rstrip().endswith(";"):
        parts = [ast.Module(tree.body[:-1], []), ast.Interactive(tree.body[-1:])]
    for part in parts:
        mode = "single" if isinstance(part, ast.Interactive) else "exec"
        code = compile(part, name, mode, flags, dont_inherit=True)
        result = eval(code, namespace)
        if wait_for and code.co_flags & 0x80:  # inspect.CO_COROUTINE: it has an await
            wait_for(result)


def _plain(text: str) -> str:
    """For a line of a table that is looked at in terminals."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Results:
    """The results folder, if fathom gave one; the times of a run that is killed are there up to its last whole cell."""

    def __init__(self, folder: Optional[str], cells: List[Cell]) -> None:
        self.pid = os.getpid()
        self.path = os.path.join(folder, "cells.tsv") if folder else None
        if folder is None:
            return
        os.makedirs(os.path.join(folder, "cells"), 0o700, exist_ok=True)  # of --repeat
        for cell in cells:
            path = os.path.join(folder, "cells", cell.name)
            with open(path, "w", encoding="utf-8", errors="replace", opener=_private) as file:
                file.write(cell.source)
        self._write("cell\tstatus\twall_s\tcpu_s\tfirst line\n", "w")

    def _write(self, line: str, mode: str = "a") -> None:
        if self.path and os.getpid() == self.pid:  # a cell may have forked
            with open(self.path, mode, encoding="utf-8", errors="replace", opener=_private) as file:
                file.write(line)

    def add(self, number: int, status: str, wall_s: float, cpu_s: float, cell: Cell) -> None:
        first = next(line for line in cell.source.splitlines() if line.strip()).strip()
        self._write("%d\t%s\t%.6f\t%.6f\t%s\n" % (number, status, wall_s, cpu_s, _plain(first[:80])))


class Runner:
    def __init__(self) -> None:
        self.module = types.ModuleType("__main__")
        self.namespace: Dict[str, Any] = self.module.__dict__
        self.loop: Any = None
        self.shell: Any = None
        self.cell = Cell("", "", False)
        setattr(builtins, "display", lambda *objects, **_: [print(repr(each)) for each in objects] and None)  # noqa: B010

    # ---- from a cell's text to Python ----

    def translate(self, cell: Cell) -> Optional[str]:
        """A cell's text as plain Python with the same lines, None when nothing of it can run."""
        text = cell.source
        magic = re.match(r"\s*%%(\w+)[ \t]*([^\n]*)\n", text)
        if magic and magic.group(1) == "time" and not magic.group(2):
            return self._without_first_line(text)  # its times are told for every cell
        if not magic and self._is_python(text, cell.name) and "get_ipython" not in text:
            return text
        if self.start_ipython():
            skipped = re.match(r"(\s*\n)*", text)  # IPython drops them, and lines would move
            return "\n" * (skipped.group(0).count("\n") if skipped else 0) + str(self.shell.transform_cell(text))
        if magic and magic.group(1) not in _CODE_MAGICS:
            note("%s: skipped whole: %%%%%s needs IPython, which this Python lacks" % (cell.name, magic.group(1)))
            return None
        if magic:
            self._note_skipped(cell, 1, magic.group(0))
            text = self._without_first_line(text)
        return self._without_magic_lines(cell, text)

    @staticmethod
    def _without_first_line(text: str) -> str:
        lead = len(text) - len(text.lstrip())
        return "\n" * (text[:lead].count("\n") + 1) + text[lead:].partition("\n")[2]

    @staticmethod
    def _is_python(text: str, name: str) -> bool:
        try:
            compile(text, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except SyntaxError:
            return False
        return True

    @staticmethod
    def _note_skipped(cell: Cell, number: int, line: str) -> None:
        note("%s line %d: skipped %r: it needs IPython, which this Python lacks" % (cell.name, number, line.strip()))

    def _without_magic_lines(self, cell: Cell, text: str) -> str:
        """Line by line as the compiler objects to them, so that a % at the start of a line in a string or a sum stays."""
        lines = text.split("\n")
        while True:
            try:
                text = "\n".join(lines)
                compile(text, cell.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
                return text
            except SyntaxError as error:
                at = (error.lineno or 0) - 1
                if not 0 <= at < len(lines) or not _MAGIC_LINE.match(lines[at]):
                    return text  # wrong as it is: the run will say so
                self._note_skipped(cell, at + 1, lines[at])
                goes_on = lines[at].endswith("\\")
                lines[at] = lines[at][: len(lines[at]) - len(lines[at].lstrip())] + "pass"
                while goes_on and at + 1 < len(lines):
                    at += 1
                    goes_on = lines[at].endswith("\\")
                    lines[at] = ""

    def start_ipython(self) -> bool:
        """IPython's shell for its magics alone: cells are compiled and run here."""
        if self.shell is None:
            try:
                from IPython.core.interactiveshell import InteractiveShell
                from traitlets.config import Config
            except ImportError:
                return False
            runner = self

            class Shell(InteractiveShell):  # type: ignore[misc]
                def system(self, cmd: str) -> None:
                    sys.stdout.flush()
                    self.system_raw(cmd)

                def enable_gui(self, gui: Any = None) -> None:
                    pass

                def enable_matplotlib(self, gui: Any = None) -> Any:
                    return gui, "agg"  # nobody looks; the start-up hook sees to it

                def run_cell(self, raw_cell: str, *args: Any, **kwargs: Any) -> None:
                    """A cell magic's body (%%capture): the rest of the cell, at its own lines."""
                    whole, body = runner.cell.source.rstrip(), raw_cell.rstrip()
                    above = whole[: -len(body)].count("\n") if body and whole.endswith(body) else 0
                    runner.execute("\n" * above + str(self.transform_cell(raw_cell)), runner.cell.name)

            config = Config()
            config.HistoryManager.enabled = False
            self.shell = Shell.instance(config=config, user_module=self.module, user_ns=self.namespace)
            self.shell.builtin_trap.activate()
            sys.displayhook = sys.__displayhook__
        return True

    # ---- running ----

    def execute(self, text: str, name: str) -> None:
        execute(text, name, self.namespace, self._wait_for)

    def _wait_for(self, coroutine: Any) -> None:
        import asyncio

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(coroutine)

    def run(self, cells: List[Cell], results: Results) -> int:
        """The exit status. Ends at the first cell that fails."""
        for cell in cells:
            lines = [line + "\n" for line in cell.source.split("\n")]
            linecache.cache[cell.name] = (len(cell.source), None, lines, cell.name)
        for number, cell in enumerate(cells, 1):
            self.cell = cell
            text = self.translate(cell)
            status, wall, cpu = "skipped", time.perf_counter(), time.process_time()
            try:
                if text is not None:
                    status = "failed"
                    self.execute(text, cell.name)
                    status = "ok"
            except SystemExit:
                status = "exit"
                raise
            except BaseException as error:
                self._show(error)
                if isinstance(error, KeyboardInterrupt):
                    _end_by_interrupt()
                if not cell.may_fail:
                    return 1
            finally:
                results.add(number, status, time.perf_counter() - wall, time.process_time() - cpu, cell)
        return 0

    def _show(self, error: BaseException) -> None:
        """The traceback from the cell on, without the frames that ran it."""
        where = error.__traceback__
        while where and where.tb_frame.f_code.co_filename != self.cell.name:
            where = where.tb_next
        error.__traceback__ = where
        sys.stdout.flush()
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(type(error), error, where)
        else:
            sys.excepthook(type(error), error, where)


def _end_by_interrupt() -> NoReturn:
    """As Python ends a program that Ctrl-C ended: its parent can tell."""
    sys.stdout.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit(130)


def main() -> int:
    folder = os.environ.pop("FATHOM_NOTEBOOK", None)
    if len(sys.argv) < 2:
        print("fathom: name a notebook to run", file=sys.stderr)
        return 2
    path = os.path.abspath(sys.argv[1])
    try:
        cells = read_cells(path)
        results = Results(folder, cells)
    except (BadNotebook, OSError) as error:
        note("%s: %s" % (sys.argv[1], error))
        return 1
    runner = Runner()
    del sys.argv[0]
    # Where Jupyter would run it: its data lies beside it, and so do the modules it imports.
    os.chdir(os.path.dirname(path))
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # not with PYTHONSAFEPATH
        del sys.path[0]
    sys.path.insert(0, os.path.dirname(path))
    sys.modules["__main__"] = runner.module
    return runner.run(cells, results)


if __name__ == "__main__":
    this = sys.modules["__main__"]  # lives on when the notebook takes its place
    sys.exit(main())
