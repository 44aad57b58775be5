"""Where things are: the checkout, what lasts between runs, and the Pythons."""

import importlib.util
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
STORE = (ROOT / ".tools").resolve() / "wild"  # venvs, sources, Pythons and results; not part of the repository
VENVS = STORE / "venvs"
SOURCES = STORE / "sources"
PYTHONS = (
    STORE / "pythons"
)  # Debian's, with the test package: apart from those of `make test`, which would take it for more to test

CPYTHON = ["3.8", "3.11", "3.12", "3.13", "3.14", "3.15"]
LIBRARIES = ["3.11", "3.12", "3.13", "3.14"]


def find_pythons() -> Dict[str, str]:
    """ "3.12" -> path, released ones only. Those in .tools/wild come before others of the same version."""
    spec = importlib.util.spec_from_file_location("find_pythons", ROOT / "scripts" / "find-pythons.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {minor(version): path for version, kind, path in module.find(one=True) if kind == "release"}
    for path in sorted(PYTHONS.glob("bin/python3.*")):
        found[path.name[len("python") :]] = str(path.resolve())
    return found


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def full_version(python: str) -> str:
    out = subprocess.run([python, "-c", "import platform; print(platform.python_version())"], stdout=subprocess.PIPE)
    return out.stdout.decode().strip()


def clean_env() -> Dict[str, str]:
    """One thread for each library that would take a CPU per thread; nothing that changes a Python's ways."""
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FATHOM", "VIRTUAL_ENV", "MAKE", "MFLAGS"))
    }
    env.update(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2", MKL_NUM_THREADS="2", MPLBACKEND="Agg", LC_ALL="C.UTF-8")
    return env


def without_paths(text: str) -> str:
    """For texts that leave this machine."""
    for folder in (str(ROOT.resolve()), str(STORE.resolve()), str(ROOT), str(Path.home())):
        text = text.replace(folder, "~")
    return re.sub(r"/tmp/[\w./-]+", "/tmp/...", text)


def machine() -> str:
    """In general words."""
    libc = " ".join(platform.libc_ver())
    return f"Linux {'.'.join(platform.release().split('.')[:2])} on {platform.machine()}, {libc}, {os.cpu_count()} CPUs"


def known(wanted: List[str], have: Dict[str, str]) -> List[str]:
    return [version for version in wanted if version in have]
