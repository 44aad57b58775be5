"""docs/compatibility.md, from what is known about one build. Nothing of this machine's folders gets into it."""

import json
import re
import time
from typing import Dict, Iterator, List, Set, Tuple

from cases import fails_bare
from ledger import Ledger, Record
from places import ROOT, VENVS, find_pythons, full_version, machine, without_paths
from venvs import Venv

PAGE = ROOT / "docs" / "compatibility.md"
SHOWN = 300  # characters of one difference

HEAD = """# Compatibility

Other people's programs, each run alone and under `fathom record`, with the same exit status and the same results asked for. `make wild` does it and writes this page
(see [CONTRIBUTING.md](../CONTRIBUTING.md)). A crash, a hang or a core is never tried again. A test that merely came out otherwise is run again in both ways: what varies without
Fathom, too, is no difference; what differed in one run of two stands under "once".
"""

WHAT = {
    "import-line": "pandas, scikit-learn, scipy, lightgbm, xgboost, matplotlib, sqlalchemy and numba imported in one program; every second run with memory, half at 10 kHz",
    "imports": "the packages downloaded most from PyPI, each imported 20 times at 10 kHz, every second run with memory",
    "cpython": "CPython's regression tests with memory; a case is a file of tests",
    "suites": "test-suites of greenlet, gevent, uvloop, SQLAlchemy, pytest, aiohttp, and parts of numpy's and pandas'",
    "benchmarks": "pyperformance's benchmarks, with memory and at 10 kHz",
    "programs": "torch, jax, tensorflow, ray, pyspark, celery, scrapy, uwsgi; programs made by PyInstaller and Nuitka",
}


def write(ledger: Ledger, records: List[Record], table: Dict[Tuple[str, str], Dict[str, int]]) -> None:
    text = "\n".join(
        [HEAD, *circumstances(records), "", *totals(table), *differences(records), *left_out(ledger), *versions()]
    )
    PAGE.write_text(re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n")


def circumstances(records: List[Record]) -> Iterator[str]:
    used = {record["python"] for record in records}
    pythons = [full_version(path) for version, path in find_pythons().items() if version in used]
    yield f"Written on {time.strftime('%Y-%m-%d')}. {machine()}. CPython {', '.join(pythons)}."


def totals(table: Dict[Tuple[str, str], Dict[str, int]]) -> Iterator[str]:
    yield "| part | Python | cases | runs | crashes | hangs | differ | once |"
    yield "|---|---|---|---|---|---|---|---|"
    for (part, python), row in sorted(table.items(), key=lambda item: (item[0][0], order(item[0][1]))):
        counts = [row["cases"], row["runs"], *(row.get(how, 0) for how in ("crash", "hang", "differs", "once"))]
        yield f"| {part} | {python} | " + " | ".join(map(str, counts)) + " |"
    yield ""
    for part, what in WHAT.items():
        if any(part == row[0] for row in table):
            yield f"- {part}: {what}."
    yield ""


def order(version: str) -> Tuple[int, ...]:
    return tuple(int(n) for n in version.split("."))


def differences(records: List[Record]) -> Iterator[str]:
    rows = []
    for record in records:
        for how in ("crash", "hang", "differs", "once"):
            runs = [run for run in record["runs"] if run["how"] == how]
            if runs:
                detail = without_paths(runs[0]["detail"])
                detail = (
                    (detail if len(detail) <= SHOWN else detail[:SHOWN] + " ...").replace("|", "\\|").replace("\n", " ")
                )
                total = len(record["runs"])
                rows.append(
                    f"| {record['part']} {record['name']} | {record['python']} | {how}, {len(runs)} of {total} | {detail} |"
                )
    yield "## What differs"
    yield ""
    if not rows:
        yield "Nothing."
    else:
        yield "| case | Python | how | what |"
        yield "|---|---|---|---|"
        yield from rows
    yield ""


def left_out(ledger: Ledger) -> Iterator[str]:
    """Not compared, as it does not work without Fathom here either."""
    failing: Dict[str, Set[str]] = {}
    for record in ledger.all("bare"):
        if fails_bare(record):
            failing.setdefault(f"{record['part']} {record['name']}", set()).add(record["python"])
    yield "## What is not compared"
    yield ""
    yield "Fails, or has nothing to run, without Fathom here: " + (named(failing) or "nothing") + "."
    yield ""
    absent: Dict[str, Set[str]] = {}
    for folder in sorted(VENVS.glob("*-3.*")):
        name, _, version = folder.name.rpartition("-")
        for package in Venv(name, version, "").absent():
            absent.setdefault(package, set()).add(version)
    yield "Cannot be installed here: " + (named(absent) or "nothing") + "."
    yield ""


def named(found: Dict[str, Set[str]]) -> str:
    return ", ".join(f"{name} ({', '.join(sorted(where, key=order))})" for name, where in sorted(found.items()))


def versions() -> Iterator[str]:
    """Of what was asked for, not of all that it brings."""
    found: Dict[str, Set[str]] = {}
    for folder in sorted(VENVS.glob("*-3.*")):
        name, _, version = folder.name.rpartition("-")
        stamp = folder / "packages.json"
        if stamp.exists():
            have = Venv(name, version, "").versions
            for package in json.loads(stamp.read_text()):
                plain = re.split(r"[<=>]", package.lower())[0]
                if plain in have:
                    found.setdefault(plain, set()).add(have[plain])
    yield "## Versions"
    yield ""
    yield ", ".join(f"{name} {' and '.join(sorted(which))}" for name, which in sorted(found.items())) + "."
