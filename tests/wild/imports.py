"""The most downloaded packages, imported: each brings its shared objects and its thousands of small functions at once."""

from typing import Dict, List, Tuple

from cases import FAST, MEMORY, Case, of_output
from launch import Limits
from places import HERE, LIBRARIES, clean_env, known
from venvs import Venv

PART = "imports"
RUNS = 20
MODES: List[List[str]] = [FAST, FAST + MEMORY]
# A module may print what it likes when it is imported; what is compared is that it ends well, and what it is.
PROGRAM = """
import importlib, sys
for name in sys.argv[1].split(","):
    module = importlib.import_module(name)
    print(module.__name__, len([n for n in dir(module) if not n.startswith("_")]))
"""


def packages() -> List[Tuple[str, str]]:
    """(name, modules to import)"""
    lines = [line.split() for line in (HERE / "packages.txt").read_text().splitlines() if not line.startswith("#")]
    return [(line[0], line[-1]) for line in lines]


def cases(pythons: Dict[str, str]) -> List[Case]:
    found = []
    for version in known(LIBRARIES, pythons):
        venv = Venv("imports", version, pythons[version])
        absent = venv.prepare([name for name, _ in packages()])
        for name, module in packages():
            if name not in absent:
                command = [venv.python, "program.py", module]
                modes = MODES * (RUNS // len(MODES))
                files = {"program.py": PROGRAM}
                found.append(
                    Case(PART, name, version, command, of_output, modes, clean_env(), files, Limits(idle_s=30))
                )
    return found
