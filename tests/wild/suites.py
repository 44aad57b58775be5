"""Test-suites of libraries that play with stacks, threads and memory themselves: every test that passes without Fathom passes under it."""

import os
import subprocess
import tarfile
from pathlib import Path
from typing import Dict, List, NamedTuple

from cases import MEMORY, Case, of_json, of_junit
from launch import Limits
from places import HERE, SOURCES, clean_env, known
from venvs import Venv

PART = "suites"
PYTHONS = ["3.12", "3.13"]
MODES: List[List[str]] = [MEMORY, ["-r", "10k"]]
LIMITS = Limits(idle_s=240, cpu_s=1800, wall_s=3600)
HELPERS = [
    "hypothesis",
    "pytest-mock",
    "re-assert",
    "freezegun",
    "time-machine",
    "trustme",
    "blockbuster",
    "aiosqlite",
    "attrs",
]
HELPERS += [
    "psutil",
    "pyopenssl",
    "argcomplete",
    "mock",
    "xmlschema",
    "pygments",
    "brotli",
    "setuptools",
    "objgraph",
    "isal",
    "zlib-ng",
]
HELPERS += [
    "proxy.py",
    "pytest-codspeed",
    "gunicorn",
    "pytest-xdist",
    "pytest-timeout",
    "dnspython",
    "zope.event",
    "zope.interface",
]
HELPERS += ["pytest-cov", "aiodns", "pkgconfig"]
LIBRARIES = ["pytest", "greenlet", "gevent", "uvloop", "sqlalchemy", "numpy", "pandas", "aiohttp"]


class FromSource(NamedTuple):
    """Tests that come with the source only; what would hide the installed library is left out."""

    name: str
    tests: str  # folder
    keep: List[str]
    options: List[str] = []
    depth: int = 1  # a case for each file below tests (1), or for each folder (0)
    leave_out: List[str] = []


FROM_SOURCE = [
    FromSource("uvloop", "tests", ["tests"], leave_out=["test_sourcecode.py"]),
    FromSource(
        "sqlalchemy",
        "test",
        ["test", "examples", "setup.cfg", "pyproject.toml"],
        ["-c", "source/pyproject.toml"],
        depth=0,
    ),
    FromSource("pytest", "testing", ["testing", "pyproject.toml", "tox.ini"], ["-c", "source/pyproject.toml"]),
    FromSource("aiohttp", "tests", ["tests", "examples", "requirements"], ["-o", "asyncio_mode=auto"]),
]
# Those that typecheck with another program, or count calls and compare with numbers of other machines.
NOT_THESE = [
    "plugins",
    "profiling",
    "aaa_profiling",
    "perf",
    "typing",
    "static",
    "autobahn",
    "isolated",
    "assets",
    "certs",
]
NOT_THESE += ["bench", "example_scripts", "freeze", "plugins_integration"]
INSTALLED = {
    "numpy": ["numpy._core.tests", "numpy.lib.tests", "numpy.random.tests", "numpy.linalg.tests", "numpy.ma.tests"],
    "pandas": [
        "pandas.tests.groupby",
        "pandas.tests.reshape",
        "pandas.tests.window",
        "pandas.tests.strings",
        "pandas.tests.indexing",
    ],
    "greenlet": ["greenlet.tests"],
}


def pytest_command(venv: Venv, options: List[str], what: List[str]) -> List[str]:
    fixed = [
        "--continue-on-collection-errors",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:codspeed",
        "-q",
        "--junit-xml={folder}/results.xml",
    ]
    return [venv.python, "-m", "pytest", *fixed, *options, *what]


def source(venv: Venv, suite: FromSource) -> Path:
    """Unpacked below .tools/wild: what is kept of it."""
    version = venv.versions[suite.name]
    folder = SOURCES / f"{suite.name}-{version}"
    if not folder.exists():
        archives = SOURCES / "archives"
        archives.mkdir(parents=True, exist_ok=True)
        command = [
            "python3",
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            suite.name,
            "-d",
            str(archives),
        ]
        subprocess.run([*command, f"{suite.name}=={version}"], env=clean_env(), check=True)
        (archive,) = archives.glob(f"{suite.name}-{version}.tar.gz")
        with tarfile.open(archive) as file:
            top = f"{suite.name}-{version}/"
            wanted = tuple(top + name for name in suite.keep)
            file.extractall(SOURCES, [member for member in file if member.name.startswith(wanted)])
    return folder


def pieces(tests: Path, suite: FromSource) -> List[str]:
    """Relative to the source: a case each."""
    base = tests.parent
    if suite.depth == 0:
        found = [path for path in tests.iterdir() if path.is_dir() and list(path.glob("test_*.py"))]
    else:
        found = [path for path in tests.rglob("test_*.py")]
    names = [str(path.relative_to(base)) for path in sorted(found)]
    bad = set(NOT_THESE + suite.leave_out)
    return [name for name in names if not bad & set(name.split("/")) and "test_benchmarks" not in name]


def library(venv: Venv, name: str) -> Path:
    """As it is installed: SQLAlchemy's tests want it beside them."""
    return next(venv.folder.glob("lib/python3.*/site-packages")) / name


def from_source(venv: Venv, version: str) -> List[Case]:
    found = []
    for suite in FROM_SOURCE:
        folder = source(venv, suite)
        for piece in pieces(folder / suite.tests, suite):
            command = pytest_command(venv, ["--rootdir=source", *suite.options], ["source/" + piece])
            prepare = (
                f"cp -r '{folder}' source && mkdir -p source/lib && ln -s '{library(venv, suite.name)}' source/lib/"
            )
            name = f"{suite.name}: {piece}"
            found.append(Case(PART, name, version, command, of_junit, MODES, clean_env(), {}, LIMITS, prepare))
    return found


def installed(venv: Venv, version: str) -> List[Case]:
    """Tests that come with the library."""
    found = []
    for packages in INSTALLED.values():
        for package in packages:
            command = pytest_command(venv, ["-c", "pytest.ini"], ["--pyargs", package])
            files = {"pytest.ini": "[pytest]\nmarkers =\n    slow\n    single_cpu\n    network\n    db\n"}
            found.append(Case(PART, package, version, command, of_junit, MODES, clean_env(), files, LIMITS))
    return found


def gevent(venv: Venv, version: str) -> List[Case]:
    """Each file patches the standard library when it is loaded, and so is a program of its own."""
    folder = next(venv.folder.glob("lib/python3.*/site-packages/gevent/tests"))
    env = {**clean_env(), "GEVENTTEST_USE_RESOURCES": "-network", "GEVENT_RESOLVER": "thread"}
    found = []
    for path in sorted(folder.glob("test_*.py")):
        command = [
            venv.python,
            str(HERE / "programs" / "record_unittest.py"),
            "{folder}/results.json",
            "gevent.tests." + path.stem,
        ]
        found.append(Case(PART, "gevent: " + path.stem, version, command, of_json, MODES, env, {}, LIMITS))
    return found


def cases(pythons: Dict[str, str]) -> List[Case]:
    found: List[Case] = []
    for version in known(PYTHONS, pythons):
        venv = Venv("suites", version, pythons[version])
        venv.prepare(LIBRARIES + HELPERS)
        if os.path.exists(venv.python):
            found += from_source(venv, version) + installed(venv, version) + gevent(venv, version)
    return found
