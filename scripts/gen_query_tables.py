#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints python/fathom/_tables.py: the tables of `fathom query` as Python types. Usage: gen_query_tables.py FATHOM

The program says what the tables are (core/render/query/tables*.c); tests/e2e/test_query.py holds the file against it.
"""

import json
import subprocess
import sys
from typing import Any, Dict, List

ROWS = {  # what one row of a table is called, where that is not the table's name without its s
    "processes": "Process",
    "cpus": "CPU",
    "memory": "MemoryLevel",
    "traced_lines": "TracedLine",
    "libraries": "Library",
    "meta": "Meta",
    "coverage": "Coverage",
}
TYPES = {"INTEGER": "int", "REAL": "float", "TEXT": "str"}

HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""The tables of a capture as Python types: written by scripts/gen_query_tables.py, not by hand."""

from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Type

if TYPE_CHECKING:
    from fathom._query import Table
'''


def row_name(table: str) -> str:
    return ROWS.get(table) or table[:-1].capitalize()


def row_class(table: Dict[str, Any]) -> List[str]:
    lines = [
        f"class {row_name(table['name'])}(NamedTuple):",
        f'    """A row of {table["name"]}: {table["meaning"]}."""',
        "",
    ]
    for column in table["columns"]:
        kind = TYPES[column["type"]]
        kind = f"Optional[{kind}]" if column["may_be_null"] else kind
        lines.append(f"    {column['name']}: {kind}  # {column['meaning']}")
    return [*lines, "", ""]


def source(tables: List[Dict[str, Any]]) -> str:
    lines = [HEAD, ""]
    for table in tables:
        lines += row_class(table)
    lines += ["class Tables:", '    """What a capture holds, each table read when it is asked for."""', ""]
    lines += ["    def _table(self, name: str, row: Type[Any]) -> Any:", "        raise NotImplementedError", ""]
    for table in tables:
        name = table["name"]
        lines += ["    @property", f'    def {name}(self) -> "Table[{row_name(name)}]":']
        meaning = table["meaning"][0].upper() + table["meaning"][1:]
        lines += [
            f'        """{meaning}."""',
            f'        return self._table("{name}", {row_name(name)})  # type: ignore[no-any-return]',
            "",
        ]
    lines += ["", "ROWS: Dict[str, Type[Any]] = {"]
    lines += [f'    "{table["name"]}": {row_name(table["name"])},' for table in tables]
    return "\n".join([*lines, "}", ""])


def main() -> int:
    done = subprocess.run([sys.argv[1], "query", "--tables", "--json"], stdout=subprocess.PIPE, check=True)
    sys.stdout.write(source(json.loads(done.stdout)["tables"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
