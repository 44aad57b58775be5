"""pyperformance's benchmarks, each as a program of its own with few loops. What they print is a time: they must end well."""

import ast
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from cases import FAST, MEMORY, Case, of_status
from launch import Limits
from places import clean_env, known
from venvs import Venv

PART = "benchmarks"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
MODES: List[List[str]] = [MEMORY, FAST]
PERIOD = ["--worker", "-l", "1", "-w", "0", "-n", "1"]  # of pyperf: this process, one value of one loop
# What the benchmarks ask for is older than these Pythons: the newest instead, but where that has another interface.
PINNED = {"sqlalchemy": "sqlalchemy<2", "sqlglot": "sqlglot==4.6.0", "dulwich": "dulwich<0.22", "tomli": "tomli==2.0.1"}


def folder(venv: Venv) -> Path:
    return next(venv.folder.glob("lib/python3.*/site-packages/pyperformance/data-files/benchmarks"))


def requirements(benchmarks: Path) -> List[str]:
    names = set()
    for path in benchmarks.glob("bm_*/requirements.txt"):
        for line in path.read_text().splitlines():
            name = re.split(r"[=<>~ ]", line.strip().lower())[0]
            names.add(PINNED.get(name, name))
    return sorted(names - {""})


def settings(path: Path) -> Dict[str, Any]:
    """Of the section that pyperformance reads: texts and lists of texts, one to a line."""
    section = re.search(r"^\[tool\.pyperformance\]\n((?:(?!\[).*\n?)*)", path.read_text(), re.M)
    pairs = re.findall(r"^(\w+)\s*=\s*(.+)$", section[1] if section else "", re.M)
    return {name: ast.literal_eval(value) for name, value in pairs}


def benchmarks(top: Path) -> Iterator[Tuple[str, List[str]]]:
    """(name, script and its options); variants of a benchmark are files beside its own."""
    for own in sorted(top.glob("bm_*/pyproject.toml")):
        base = settings(own)
        for path in [own, *sorted(own.parent.glob("bm_*.toml"))]:
            here = {**base, **settings(path)}
            script = own.parent / here.get("runscript", "run_benchmark.py")
            yield here.get("name", path.stem[3:]), [str(script), *here.get("extra_opts", [])]


def cases(pythons: Dict[str, str]) -> List[Case]:
    found = []
    for version in known(PYTHONS, pythons):
        venv = Venv("bench", version, pythons[version])
        if "pyperformance" not in venv.prepare(["pyperformance", "pyperf"], stamp="runner.json"):
            venv.prepare(requirements(folder(venv)))
            for name, command in benchmarks(folder(venv)):
                limits = Limits(idle_s=120, cpu_s=600)
                found.append(
                    Case(
                        PART, name, version, [venv.python, *command, *PERIOD], of_status, MODES, clean_env(), {}, limits
                    )
                )
    return found
