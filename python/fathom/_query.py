# SPDX-License-Identifier: Apache-2.0
"""Captures as tables: open() one, read its tables as typed rows, ask it by SQL.

    capture = fathom.open("profile.fathom")
    for line in capture.lines[:10]:
        print(line.file, line.line, line.total_s)
    capture.query("SELECT file, sum(total_s) AS s FROM lines GROUP BY file").to_pandas()

The figures are those of `fathom report --json`; `fathom query --tables` says what each column means. The program does the work, and
what it gives is read once.
"""

import json
import os
import subprocess
from typing import Any, Callable, Dict, Generic, List, Optional, Sequence, Tuple, Type, TypeVar, Union, overload

from fathom._tables import Tables

__all__ = ["Capture", "QueryError", "Table", "open"]

Row = TypeVar("Row", bound=Tuple[Any, ...])
_ARROW = {"INTEGER": "int64", "REAL": "float64", "TEXT": "string"}
_PANDAS = {"INTEGER": "Int64", "REAL": "float64", "TEXT": "object"}
_POLARS = {"INTEGER": "Int64", "REAL": "Float64", "TEXT": "String"}


class QueryError(Exception):
    """What the program said: a wrong statement, one that took too long, a file that is no capture."""


def _wanted(module: str, method: str) -> Any:
    try:
        return __import__(module)
    except ImportError as error:
        raise ImportError("%s() needs %s: python -m pip install %s" % (method, module, module)) from error


class Table(Sequence[Row], Generic[Row]):
    """Rows in order, each a tuple; of the capture's own tables with names."""

    def __init__(self, columns: Sequence[str], types: Sequence[Optional[str]], rows: List[Row]) -> None:
        self.columns: Tuple[str, ...] = tuple(columns)
        self.types: Tuple[Optional[str], ...] = tuple(types)  # INTEGER, REAL, TEXT; None: an expression, of any type
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> List[Row]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Row, List[Row]]:
        return self._rows[index]

    def __repr__(self) -> str:
        return "<Table of %d rows: %s>" % (len(self), ", ".join(self.columns))

    def _by_column(self) -> List[Tuple[str, Optional[str], List[Any]]]:
        """Name, type and values of each; a name that comes twice is numbered, as no data frame can have it twice."""
        seen: Dict[str, int] = {}
        found = []
        for at, name in enumerate(self.columns):
            seen[name] = seen.get(name, 0) + 1
            unique = name if seen[name] == 1 else "%s_%d" % (name, seen[name])
            found.append((unique, self.types[at], [row[at] for row in self._rows]))
        return found

    def to_pandas(self) -> Any:
        """A pandas.DataFrame. Integers that may be missing are pandas' own Int64."""
        pandas = _wanted("pandas", "to_pandas")
        return pandas.DataFrame(
            {name: pandas.Series(values, dtype=_PANDAS.get(kind or "")) for name, kind, values in self._by_column()}
        )

    def to_polars(self) -> Any:
        """A polars.DataFrame."""
        polars = _wanted("polars", "to_polars")
        series = [
            polars.Series(name, values, dtype=getattr(polars, _POLARS[kind]) if kind else None, strict=False)
            for name, kind, values in self._by_column()
        ]
        return polars.DataFrame(series)

    def to_arrow(self) -> Any:
        """A pyarrow.Table."""
        pyarrow = _wanted("pyarrow", "to_arrow")
        types: Dict[str, Callable[[], Any]] = {kind: getattr(pyarrow, name) for kind, name in _ARROW.items()}
        columns = self._by_column()
        arrays = [pyarrow.array(values, type=types[kind]() if kind else None) for _, kind, values in columns]
        return pyarrow.Table.from_arrays(arrays, names=[name for name, _, _ in columns])


class Capture(Tables):
    """One capture: its tables as attributes (functions, lines, stacks, ...), and query()."""

    def __init__(self, path: "Union[str, os.PathLike[str]]", detailed: bool = False) -> None:
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            raise FileNotFoundError("there is no %s" % self.path)
        self.detailed = detailed
        self._tables: Dict[str, Any] = {}

    def __repr__(self) -> str:
        return "fathom.open(%r)" % self.path

    def query(self, statement: str, timeout: Optional[float] = None) -> "Table[Tuple[Any, ...]]":
        """What one SELECT gives, in SQLite's dialect, every row of it. timeout: seconds; 30 unless given."""
        return self._ask(statement, tuple, timeout)

    def _table(self, name: str, row: Type[Any]) -> Any:
        if name not in self._tables:
            self._tables[name] = self._ask("SELECT * FROM %s" % name, row._make, None)
        return self._tables[name]

    def _ask(self, statement: str, make: Callable[[List[Any]], Any], timeout: Optional[float]) -> "Table[Any]":
        from fathom import program_path

        command = [program_path(), "query", "--json", "--limit", "0"]
        command += ["--detailed"] if self.detailed else []
        command += ["--timeout", "%g" % timeout] if timeout is not None else []
        command += ["--", self.path, statement]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise QueryError(said[len("fathom: ") :] if said.startswith("fathom: ") else said)
        answer = json.loads(done.stdout)
        columns = answer["columns"]
        return Table([c["name"] for c in columns], [c["type"] for c in columns], [make(row) for row in answer["rows"]])


def open(path: "Union[str, os.PathLike[str]]", detailed: bool = False) -> Capture:
    """A capture, or the results folder of one. detailed: lines of libraries, too, as with `fathom report --detailed`."""
    return Capture(path, detailed)
