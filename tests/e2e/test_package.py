# SPDX-License-Identifier: Apache-2.0
"""The wheel holds everything, and what it installs runs."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Dict, List, Set

import pytest


def run(command: List[str], **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)  # type: ignore


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    result = run(["make", "wheel-here", "WHEEL_DIR=%s" % out], cwd=root)
    assert result.returncode == 0, result.stdout
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bin/ of a fresh environment with nothing but the wheel in it."""
    venv = tmp_path_factory.mktemp("venv")
    assert run([sys.executable, "-m", "venv", str(venv)]).returncode == 0
    result = run([str(venv / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--no-index", str(wheel)])
    assert result.returncode == 0, result.stdout
    return venv / "bin"


def test_wheel_holds_program_and_package(root: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    expected = {
        "fathom/__init__.py",
        "fathom/__main__.py",
        "fathom/py.typed",
        "fathom/_bin/fathom",
        "fathom/_notebook.py",
        "fathom_profiler.py",
    }
    expected |= {"fathom/_startup/sitecustomize.py", "fathom/_jobs.py", "fathom/_magics.py", "fathom/pytest_plugin.py"}
    expected |= {"fathom/_startup/_fathom_start.py", "fathom/_startup/_fathom_trace.py"}
    expected |= {"fathom/include/fathom.h", "fathom/include/TracyCompat.h"}
    if list((root / "core" / "agent").glob("*.c")):
        expected.add("fathom/_agent.abi3.so")
    assert expected <= names
    assert "[console_scripts]\nfathom = fathom_profiler:program\n" in entry_points
    assert "[pytest11]\nfathom = fathom.pytest_plugin\n" in entry_points, "pytest finds the plugin by it"
    assert modes["fathom/_bin/fathom"] & 0o111, "the program must be executable"


def test_wheel_serves_every_python(wheel: Path) -> None:
    # One build serves every CPython: the file name must not tie it to the one that built it.
    assert re.search(r"-py3-none-manylinux_2_[0-9]+_%s.whl$" % platform.machine(), wheel.name)


def test_wheel_asks_for_what_its_name_says(root: Path, wheel: Path, tmp_path: Path) -> None:
    check = [sys.executable, str(root / "scripts" / "check_wheel.py")]
    result = run([*check, str(wheel)])
    print(result.stdout)  # the youngest symbol of every file
    assert result.returncode == 0, result.stdout
    for name in ("fathom/_bin/fathom", "fathom/_agent.abi3.so", "fathom/_lib/libdw.so.1"):
        assert re.search(r"^%s +\d+ bytes, glibc 2\.\d+" % re.escape(name), result.stdout, re.M), result.stdout
    # One that promises more than is true, and one that has grown too large, are told.
    promising = tmp_path / re.sub("manylinux_2_[0-9]+", "manylinux_2_5", wheel.name)
    shutil.copy(str(wheel), str(promising))
    result = run([*check, "--max-mb", "0.1", str(promising)])
    assert result.returncode == 1 and "and the name says 2.5" in result.stdout and "at most 0.1" in result.stdout


def test_installed_program_runs(root: Path, build: Path, installed: Path) -> None:
    expected = run([str(build / "fathom"), "--version"]).stdout
    assert expected.startswith("fathom ")
    assert run([str(installed / "fathom"), "--version"]).stdout == expected
    assert run([str(installed / "python"), "-m", "fathom", "--version"]).stdout == expected


def test_package_and_program_have_one_version(installed: Path) -> None:
    result = run([str(installed / "python"), "-c", "import fathom; print('fathom', fathom.__version__)"])
    assert result.stdout == run([str(installed / "fathom"), "--version"]).stdout


def test_exit_status_passes_through(installed: Path) -> None:
    assert run([str(installed / "fathom"), "no-such-command"]).returncode == 2


def test_ignored_signals_of_the_entry_script_are_not_handed_on(installed: Path, tmp_path: Path) -> None:
    # Python ignores SIGPIPE (13) and SIGXFSZ (25); a program behind exec would inherit that.
    fake = tmp_path / "fathom"
    fake.write_text("#!/bin/sh\ngrep SigIgn /proc/$$/status\n")
    fake.chmod(0o755)
    code = "import fathom.__main__ as m; m.program_path = lambda: %r; m.program([])" % str(fake)
    result = run([str(installed / "python"), "-c", code])
    ignored = int(result.stdout.split()[1], 16)
    assert ignored & (1 << 12 | 1 << 24) == 0


def test_the_entry_script_leaves_the_environment_alone(installed: Path, tmp_path: Path) -> None:
    """Python sets LC_CTYPE in the C locale; a program that is no Python would never have seen it, and the report would not be ASCII."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for extra in ({}, {"LC_CTYPE": "C"}, {"LANG": "C"}, {"LC_ALL": "C"}, {"LC_CTYPE": "C.UTF-8"}):
        result = run([str(installed / "fathom"), "run", "/usr/bin/env"], cwd=tmp_path, env={**environment, **extra})
        seen = {line for line in result.stdout.splitlines() if line.startswith(("LC_", "LANG"))}
        assert seen == {"%s=%s" % pair for pair in extra.items()}, result.stdout
        assert result.stdout.isascii() or "UTF-8" in extra.get("LC_CTYPE", ""), result.stdout


def test_installed_package_traces(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\ndef f(): pass\nfor _ in range(12): f()\nprint(sys.argv[1:])\n")
    result = run([str(installed / "python"), "-m", "fathom", "script.py", "a"], cwd=tmp_path)
    assert result.returncode == 0 and result.stdout.startswith("['a']"), result.stdout
    assert " 12 " in result.stdout and "f (script.py:2)" in result.stdout
    assert (tmp_path / "script.fathom").exists()


def libraries_of(file: Path) -> Dict[str, Path]:
    """What the loader takes for it, and from where."""
    found = {}
    for line in run(["ldd", str(file)]).stdout.splitlines():
        name, _, where = line.strip().partition(" => ")
        found[name.split(" (")[0]] = Path(where.rsplit(" (", 1)[0])
    return found


# Libraries of glibc, and what the kernel maps.
OF_GLIBC = {"linux-vdso.so.1", "/lib64/ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6"}


def test_wheel_brings_every_library(installed: Path) -> None:
    (package,) = installed.parent.glob("lib/python3*/site-packages/fathom")
    needed = libraries_of(package / "_bin" / "fathom")
    assert {"libdw.so.1", "libzstd.so.1", "libz.so.1"} <= set(needed), needed
    for name, path in needed.items():
        assert name in OF_GLIBC or path.parent.resolve() == (package / "_lib").resolve(), (name, path)
    assert set(libraries_of(package / "_agent.abi3.so")) <= OF_GLIBC, "the agent meets libraries of every program"
    licenses = (package / "_lib" / "LICENSES.txt").read_text()
    for name in {path.name for path in (package / "_lib").glob("*.so*")}:
        assert "\n%s: source package " % name in licenses or not shutil.which("dpkg"), name


def test_libraries_of_the_profiled_program_do_not_matter(installed: Path, tmp_path: Path) -> None:
    """LD_LIBRARY_PATH of an environment with libraries of its own: here one that is no library at all."""
    (tmp_path / "libz.so.1").write_text("not for us")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    (package,) = installed.parent.glob("lib/python3*/site-packages/fathom")
    result = run([str(package / "_bin" / "fathom"), "--version"], env=environment)
    assert result.returncode == 0 and result.stdout.startswith("fathom "), result.stdout


# Runs inside a root that has nothing but glibc, one Python and the environment the wheel went into, each at its own path.
BARE_ROOT = """
set -e
root=$1; shift
mount -t tmpfs none "$root"
for path in "$@"; do
    mkdir -p "$root$(dirname "$path")"
    if [ -d "$path" ]; then mkdir -p "$root$path"; else : >"$root$path"; fi
    mount --rbind "$path" "$root$path"
done
mkdir -p "$root/tmp"
cd "$root/tmp"
printf 'def spin():\n    return sum(i * i for i in range(6000000))\nspin()\n' >hot.py
chroot=$(PATH="$PATH:/usr/sbin" command -v chroot)
HOME=/tmp PATH=/nonexistent exec "$chroot" "$root" "$FATHOM" run --python "$PYTHON" /tmp/hot.py
"""


def libc_files(python: Path) -> Set[Path]:
    """What the interpreter itself cannot start without: glibc, and its own library where it is apart."""
    found = {path for path in libraries_of(python.resolve()).values() if path.is_absolute()}
    return found | {Path("/lib64/ld-linux-x86-64.so.2")}


def test_wheel_needs_glibc_and_python_only(installed: Path, tmp_path: Path) -> None:
    python = installed / "python"
    needed = libc_files(python)
    assert not [path for path in needed if re.match("lib(dw|elf|zstd|micro)", path.name)], needed
    root = tmp_path / "root"
    root.mkdir()
    isolate = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if run([*isolate, "true"]).returncode != 0:
        pytest.skip("mounting in a name space of one's own is not permitted here")
    python_files = [str(python.resolve()), os.path.dirname(os.__file__)]
    places = [*map(str, sorted(needed)), "/proc", "/dev", *python_files, str(installed.parent)]
    environment = {"PATH": os.environ["PATH"], "FATHOM": str(installed / "fathom"), "PYTHON": str(python)}
    result = run([*isolate, "sh", "-c", BARE_ROOT, "sh", str(root), *places], env=environment)
    assert result.returncode == 0, result.stdout
    assert re.search(r"spin.*hot\.py|hot\.py.*spin", result.stdout), result.stdout


def test_missing_program_is_one_line(root: Path, tmp_path: Path) -> None:
    package = tmp_path / "fathom"
    package.mkdir()
    for name in ("__init__.py", "__main__.py"):
        (package / name).write_bytes((root / "python" / "fathom" / name).read_bytes())
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PATH": "/nonexistent"}
    result = run([sys.executable, "-m", "fathom", "report", "x"], env=environment)
    assert result.returncode == 1
    assert len(result.stdout.splitlines()) == 1 and "reinstall" in result.stdout


@pytest.fixture
def stranger(root: Path, tmp_path: Path) -> Dict[str, str]:
    """An environment in which `import fathom` finds the package of another project, as PyPI has one."""
    (tmp_path / "fathom").mkdir()
    (tmp_path / "fathom" / "__init__.py").write_text("from fathom.schema import Schema\n")
    (tmp_path / "fathom" / "schema.py").write_text("class Schema: pass\n")
    (tmp_path / "fathom_profiler.py").write_bytes((root / "python" / "fathom_profiler.py").read_bytes())
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def test_another_projects_module_is_one_line(stranger: Dict[str, str], tmp_path: Path) -> None:
    code = "import sys, fathom_profiler; sys.exit(fathom_profiler.program())"
    result = run([sys.executable, "-c", code, "--version"], env=stranger, cwd="/")
    assert result.returncode == 1 and len(result.stdout.splitlines()) == 1, result.stdout
    assert str(tmp_path / "fathom" / "__init__.py") in result.stdout and "pip install fathom-profiler" in result.stdout


COMMAND = ["-c", "import sys, fathom_profiler; sys.exit(fathom_profiler.program())", "--version"]
SCHEMA = "class Schema: pass\n"


# A package that cannot be imported at all ends `python -m` before any of ours is asked.
@pytest.mark.parametrize(
    "words, theirs",
    [
        (["-m", "fathom", "x.py"], SCHEMA),
        *((COMMAND, code) for code in (SCHEMA, "import no_such_module\n", "print 2\n")),
    ],
    ids=["module", "command", "lacks-a-module", "of-python-2"],
)
def test_another_projects_module_over_ours_is_one_line(
    root: Path, stranger: Dict[str, str], tmp_path: Path, words: List[str], theirs: str
) -> None:
    """Installed last: its __init__.py lies among our files."""
    shutil.copytree(str(root / "python" / "fathom"), str(tmp_path / "fathom"), dirs_exist_ok=True)
    (tmp_path / "fathom" / "__init__.py").write_text(theirs)
    result = run([sys.executable, *words], env=stranger, cwd="/")
    assert result.returncode == 1 and len(result.stdout.splitlines()) == 1, result.stdout
    assert str(tmp_path / "fathom" / "__init__.py") in result.stdout and "pip install fathom-profiler" in result.stdout


def test_another_projects_module_over_ours_fails_no_test(root: Path, stranger: Dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(str(root / "python" / "fathom"), str(tmp_path / "fathom"), dirs_exist_ok=True)
    (tmp_path / "fathom" / "__init__.py").write_text(SCHEMA)
    (tmp_path / "test_it.py").write_text("def test_it(profiled):\n    with profiled():\n        pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "fathom.pytest_plugin", "-p", "no:cacheprovider"]
    for words in (["test_it.py"], ["test_it.py", "--fathom"]):
        result = run([*command, *words], env=stranger, cwd=tmp_path)
        assert result.returncode == 0, result.stdout
        (line,) = [line for line in result.stdout.splitlines() if "another project" in line]
        assert "1 test not profiled" in line and "pip install fathom-profiler" in line, result.stdout


def test_doctor_knows_another_projects_module(
    root: Path, build: Path, stranger: Dict[str, str], tmp_path: Path
) -> None:
    def lines(environment: Dict[str, str]) -> List[str]:
        done = run([str(build / "fathom"), "doctor"], env=environment, cwd="/")
        return [line for line in done.stdout.splitlines() if "module fathom" in line]

    assert str(tmp_path / "fathom" / "__init__.py") in lines(stranger)[0]
    ours = root / "python" / "fathom"
    shutil.copy(str(ours / "_trace_main.py"), str(tmp_path / "fathom"))  # where theirs was installed over ours
    assert str(tmp_path / "fathom" / "__init__.py") in lines(stranger)[0]
    shutil.copy(str(ours / "__init__.py"), str(tmp_path / "fathom"))
    assert not lines(stranger)


# What a system's own tool is called, and the end of the line that it gets.
REMEDIES = {
    "apt-get": "sudo apt-get install pkg-config libelf-dev libdw-dev libzstd-dev zlib1g-dev libmicrohttpd-dev libsqlite3-dev libiberty-dev",
    "dnf": "sudo dnf install pkgconf-pkg-config elfutils-libelf-devel elfutils-devel libzstd-devel zlib-devel libmicrohttpd-devel sqlite-devel binutils-devel",
    "zypper": "sudo zypper install pkg-config libelf-devel libdw-devel libzstd-devel zlib-devel libmicrohttpd-devel sqlite3-devel binutils-devel",
    "pacman": "sudo pacman -S --needed pkgconf libelf zstd zlib libmicrohttpd sqlite binutils",
}


@pytest.mark.parametrize("tool", sorted(REMEDIES))
def test_build_without_libraries_names_the_line_to_run(root: Path, tool: str, tmp_path: Path) -> None:
    """On a system that has this tool and no other of its kind."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("cc", "ld", "ar", "as", "ninja", "pkg-config", "meson", "python3", "env", "sh"):
        found = shutil.which(name)
        if found:
            (programs / name).symlink_to(found)
    (programs / tool).write_text("#!/bin/sh\n")
    (programs / tool).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": str(programs),
        "PKG_CONFIG_LIBDIR": str(tmp_path),
        "PKG_CONFIG_PATH": str(tmp_path),
    }
    result = run(["meson", "setup", str(tmp_path / "b"), str(root)], env=environment)
    (line,) = [line for line in result.stdout.splitlines() if "ERROR" in line]
    assert result.returncode != 0 and "needs libzstd" in line and "libmicrohttpd, sqlite3, libelf, libdw" in line, line
    assert line.endswith(REMEDIES[tool]), line


def test_build_needs_no_header_of_libiberty(root: Path, tmp_path: Path) -> None:
    """Debian has it in a folder of its own, Fedora and RHEL outside of it, others not at all."""
    for path in Path("/usr/include").iterdir():
        if "iberty" not in path.name and path.name != "demangle.h":
            (tmp_path / path.name).symlink_to(path)
    own = run(["cc", "-print-file-name=include"]).stdout.strip()
    places = [own, str(tmp_path), *map(str, tmp_path.glob("*-linux-gnu"))]
    system = ["-nostdinc", *(word for place in places for word in ("-isystem", place))]
    for path in sorted((root / "core" / "symbolize").glob("*.c")):
        result = run(
            ["cc", "-fsyntax-only", "-std=gnu11", "-D_GNU_SOURCE", "-I%s" % (root / "core"), *system, str(path)]
        )
        assert result.returncode == 0, result.stdout


def test_the_page_comes_with_the_sources(root: Path, tmp_path: Path) -> None:
    """`meson dist` gives it away, and nobody who builds it needs Node; changed sources do not pass for it."""
    for tree in ("here", "away"):
        (tmp_path / tree / "web" / "src").mkdir(parents=True)
        for name in ("package.json", "src/main.ts"):
            (tmp_path / tree / "web" / name).write_text(name)
    (tmp_path / "here" / "web" / "dist").mkdir()
    (tmp_path / "here" / "web" / "dist" / "index.html").write_text("<p>the page")
    script = [sys.executable, str(root / "scripts" / "build_page.py")]
    roots = {"MESON_SOURCE_ROOT": str(tmp_path / "here"), "MESON_DIST_ROOT": str(tmp_path / "away"), "PATH": ""}
    result = run([*script, "--dist"], env=roots)
    assert result.returncode == 0, result.stdout
    web, out = tmp_path / "away" / "web", tmp_path / "page.c"
    os.utime(web / "src" / "main.ts", (2**31, 2**31))  # as an archive may leave it
    assert run([*script, "--ask", str(web)], env=roots).stdout == ""
    assert run([*script, str(web), str(out)], env=roots).stdout == ""
    assert "<p>the page" in out.read_text()
    (web / "src" / "main.ts").write_text("other")
    assert "stays as it was built last" in run([*script, str(web), str(out)], env=roots).stdout
    shutil.rmtree(web / "dist")
    assert "without the viewer's page" in run([*script, "--ask", str(web)], env=roots).stdout


@pytest.mark.parametrize("by_pip", [True, False])
def test_who_waits_for_pip_is_told_that_there_will_be_no_page(root: Path, tmp_path: Path, by_pip: bool) -> None:
    """At the terminal: pip keeps what a build prints to itself."""
    (tmp_path / "web").mkdir()
    terminal, end = os.openpty()
    becomes_ours = ["/bin/sh", "-c", 'exec 3<>"$0"; exec "$@"', os.ttyname(end)]
    ask = [sys.executable, str(root / "scripts" / "build_page.py"), "--ask", str(tmp_path / "web")]
    environment = {"PATH": "/nonexistent", **({"PIP_BUILD_TRACKER": str(tmp_path)} if by_pip else {})}
    result = run([*becomes_ours, *ask], env=environment, start_new_session=True)
    assert result.returncode == 0 and "Node 18 or newer" in result.stdout, result.stdout
    os.write(end, b"=")  # so that there is an end
    shown = b""
    while not shown.endswith(b"="):
        shown += os.read(terminal, 4096)
    os.close(end)
    os.close(terminal)
    assert (b"without the viewer's page" in shown) == by_pip, shown


def test_a_source_package_needs_no_node(root: Path, tmp_path: Path) -> None:
    """The real one: a page made from its very sources lies in it, and goes into the program where there is no Node."""
    if not (root / ".git").exists():
        pytest.skip("source packages are made from a checkout")
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = run([*command, "-Cbuild-dir=%s" % (tmp_path / "b")], cwd=root, env={**os.environ, "PATH": path})
    if "the sources would lack the viewer's page" in result.stdout:
        pytest.skip("no Node here to make the page with")
    assert result.returncode == 0, result.stdout
    (archive,) = tmp_path.glob("fathom_profiler-*.tar.gz")
    with tarfile.open(str(archive)) as tar:
        tar.extractall(str(tmp_path))
    (tree,) = [folder for folder in tmp_path.glob("fathom_profiler-*") if folder.is_dir()]
    build_page = [sys.executable, str(tree / "scripts" / "build_page.py"), str(tree / "web"), str(tmp_path / "page.c")]
    result = run(build_page, env={"PATH": ""})
    assert result.returncode == 0 and result.stdout == "", result.stdout
    (length,) = re.findall(r"fm_page_len = (\d+);", (tmp_path / "page.c").read_text())
    assert int(length) == (tree / "web" / "dist" / "index.html").stat().st_size > 100000


SESSION = """
import glob, json, subprocess, sys
import fathom
def f(): return sum(range(3000000))
if __name__ == "__main__":
    value = fathom.run_job(f, output_dir="runs").value
    with fathom.job(output_dir="runs") as job: f()
    subprocess.run([sys.argv[1], "run", "-q", "--output-dir", "runs", "n.ipynb"], check=True)
    (log,) = glob.glob("runs/n/*/logs.log")
    print(json.dumps([value, job.report.json["samples"] > 0, open(log).read().split()[-1]]))
"""


def test_installed_package_runs_jobs_and_notebooks(installed: Path, tmp_path: Path) -> None:
    """What runs inside the target is found from the wheel, too."""
    (tmp_path / "session.py").write_text(SESSION)
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": "import logging; logging.error('logged')"}
    (tmp_path / "n.ipynb").write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": [cell]}))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    result = run([str(installed / "python"), "session.py", str(installed / "fathom")], cwd=tmp_path, env=environment)
    assert result.stdout.splitlines()[-1] == '[4499998500000, true, "logged"]', result.stdout


def test_make_install_brings_them_too(root: Path, build: Path, tmp_path: Path) -> None:
    """Without a wheel the program in bin finds them in lib/fathom."""
    result = run(["meson", "install", "-C", str(build), "--no-rebuild", "--destdir", str(tmp_path)])
    assert result.returncode == 0, result.stdout
    (program,) = tmp_path.glob("**/bin/fathom")
    (tmp_path / "s.py").write_text("import warnings; warnings.warn('seen')")
    result = run([str(program), "run", "-q", "--output-dir", "runs", "s.py"], cwd=tmp_path)
    (log,) = (tmp_path / "runs" / "s").glob("*/logs.log")
    assert result.returncode == 0 and log.read_text().endswith("UserWarning: seen\n")
