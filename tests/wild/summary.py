"""The table of everything known about one build."""

from pathlib import Path
from typing import Dict, List, Tuple

import compatibility
from examine import Builds
from ledger import Ledger, Record

BAD = ("crash", "hang", "differs")


def rows(records: List[Record]) -> Dict[Tuple[str, str], Dict[str, int]]:
    """(part, Python) -> verdict -> runs; "cases" -> cases"""
    found: Dict[Tuple[str, str], Dict[str, int]] = {}
    for record in records:
        row = found.setdefault((record["part"], record["python"]), {"cases": 0, "runs": 0})
        row["cases"] += 1
        for run in record["runs"]:
            row["runs"] += 1
            row[run["how"]] = row.get(run["how"], 0) + 1
    return found


def tell(ledger: Ledger, fathom: Path, write: bool) -> int:
    """Prints it; how many runs failed."""
    build = Builds(fathom).current()
    records = [record for record in ledger.all("ours") if record["build"] == build]
    table = rows(records)
    print(f"{'part':14} {'Python':7} {'cases':>6} {'runs':>6} {'crash':>6} {'hang':>6} {'differs':>8} {'once':>6}")
    for (part, python), row in sorted(table.items()):
        counts = [row.get(how, 0) for how in ("crash", "hang", "differs", "once")]
        print(f"{part:14} {python:7} {row['cases']:6} {row['runs']:6} " + "{:6} {:6} {:8} {:6}".format(*counts))
    runs = sum(row["runs"] for row in table.values())
    failed = sum(row.get(how, 0) for row in table.values() for how in BAD)
    if write:
        compatibility.write(ledger, records, table)
    print(f"{runs - failed} passed, {failed} failed")
    return failed
