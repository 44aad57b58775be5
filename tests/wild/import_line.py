"""Large libraries imported together: hundreds of shared objects, thread-locals and threads while samples are taken."""

from typing import Dict, List

from cases import FAST, MEMORY, Case, of_output
from launch import Limits
from places import LIBRARIES, clean_env, known
from venvs import Venv

PART = "import-line"
PACKAGES = ["pandas", "scikit-learn", "scipy", "lightgbm", "xgboost", "matplotlib", "sqlalchemy", "numba"]
PROGRAM = """
import pandas, sklearn, scipy, lightgbm, xgboost, matplotlib, sqlalchemy, numba
for module in (pandas, sklearn, scipy, lightgbm, xgboost, matplotlib, sqlalchemy, numba):
    print(module.__name__, module.__version__)
"""
LIMITS = Limits(idle_s=30)
MODES: List[List[str]] = [[], MEMORY, FAST, FAST + MEMORY]


def cases(pythons: Dict[str, str]) -> List[Case]:
    found = []
    for version in known(LIBRARIES, pythons):
        venv = Venv("line", version, pythons[version])
        if not venv.prepare(PACKAGES):
            command = [venv.python, "program.py"]
            found.append(
                Case(
                    PART,
                    "import-line",
                    version,
                    command,
                    of_output,
                    MODES,
                    clean_env(),
                    {"program.py": PROGRAM},
                    LIMITS,
                )
            )
    return found
