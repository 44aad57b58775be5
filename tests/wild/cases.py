"""What is run, and how its results are compared with those without Fathom."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

from launch import Limits, Outcome

Results = Dict[str, str]  # what was looked at -> how it went
Digest = Callable[[Outcome, Path], Results]

MEMORY = ["--memory"]
FAST = ["-r", "10k"]


class Case(NamedTuple):
    """In commands and variables, {folder} stands for the folder that a run has for itself, which is also its current one."""

    part: str
    name: str
    python: str  # "3.12"
    command: List[str]
    digest: Digest
    modes: List[List[str]]  # options of `fathom record`, one list for each run
    env: Dict[str, str] = {}
    files: Dict[str, str] = {}  # made in the folder: name -> text; a name that ends in / is a folder
    limits: Limits = Limits()
    prepare: str = ""  # a shell command that makes the folder ready, not under Fathom

    @property
    def key(self) -> str:
        return f"{self.part}/{self.python}/{re.sub(r'[^A-Za-z0-9_.+-]', '_', self.name)}"


def of_output(outcome: Outcome, folder: Path) -> Results:
    """What a program printed on its standard output."""
    return {"output": outcome.stdout.replace(str(folder), "FOLDER")}


def of_status(outcome: Outcome, folder: Path) -> Results:
    return {}


def of_junit(outcome: Outcome, folder: Path) -> Results:
    """Tests by name, from the XML that pytest and CPython's own runner write."""
    found: Results = {}
    path = folder / "results.xml"
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return found
    for case in root.iter("testcase"):
        name = "::".join(filter(None, [case.get("classname", ""), case.get("name", "")]))
        name = re.sub(r"0x[0-9a-f]{6,}", "0xN", name)
        kinds = {child.tag for child in case}
        how = next((k for k in ("error", "failure", "skipped") if k in kinds), "ok")
        found[name] = worse(found.get(name, "skipped"), how)
    return found


def of_json(outcome: Outcome, folder: Path) -> Results:
    """Tests by name, from the file that record_unittest.py writes."""
    try:
        found: Results = json.loads((folder / "results.json").read_text())
    except (OSError, ValueError):
        return {}
    return found


ORDER = ["skipped", "ok", "failure", "error"]


def worse(a: str, b: str) -> str:
    return max(a, b, key=ORDER.index)


def differences(bare: Results, ours: Results) -> Results:
    """What did not fail without Fathom and is otherwise under it."""
    found = {}
    for name, how in bare.items():
        if how in ("failure", "error"):
            continue
        now = ours.get(name, "missing")
        if now != how:
            found[name] = f"{how} -> {now}" if len(how) + len(now) < 60 else "other output"
    return found


def fails_bare(record: Dict[str, Any]) -> str:
    """Why there is nothing to compare with, or ""."""
    if record["hung"]:
        return str(record["hung"])
    if record["status"] >= 128 or (record["status"] and "ok" not in record["results"].values()):
        return f"exit status {record['status']}"
    return ""
