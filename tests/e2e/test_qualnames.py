# SPDX-License-Identifier: Apache-2.0
"""Methods with their class: before 3.11 interpreters do not say it, and the source does."""

import json
import os
import subprocess
from pathlib import Path
from typing import Dict, List, Set

import pytest
from capture import BUILD, ROOT, TARGETS, Python, find_pythons

# Prints FILE, LINE, NAME and the true qualified name of every code object of the standard library, its tests left out: what the
# compiler stored for MAKE_FUNCTION, and for a class what its body stores as __qualname__. From 3.11 on, co_qualname.
LIST = r"""
import dis, os, sys, sysconfig, types, warnings
warnings.simplefilter("ignore")
def own(code):  # of a class body
    loaded = None
    for i in dis.get_instructions(code):
        if i.opname == "STORE_NAME" and i.argval == "__qualname__":
            return loaded
        loaded = i.argval
def walk(code, path):
    found, last = [], (None, None)
    if sys.version_info >= (3, 11):
        found = [(c, c.co_qualname) for c in code.co_consts if isinstance(c, types.CodeType)]
    else:
        for i in dis.get_instructions(code):
            if i.opname == "MAKE_FUNCTION" and isinstance(last[0], types.CodeType):
                found.append((last[0], own(last[0]) or last[1]))
            if i.opname != "EXTENDED_ARG":
                last = (last[1], i.argval if i.opname == "LOAD_CONST" else None)
    for c, name in found:
        print(path, c.co_firstlineno, c.co_name, name, sep="\t")
        walk(c, path)
for folder, folders, files in os.walk(sysconfig.get_path("stdlib")):
    folders[:] = sorted(f for f in folders if f not in ("site-packages", "dist-packages", "test", "tests", "lib2to3"))
    for name in sorted(files):
        path = os.path.join(folder, name)
        try:
            walk(compile(open(path, "rb").read(), path, "exec"), path) if name.endswith(".py") else None
        except (SyntaxError, ValueError):
            pass
"""

OLD = [p for p in find_pythons() if p.minor <= 10 and p.kind == "release"]
NEW = [p for p in find_pythons() if p.minor == 11 and p.kind == "release"]


@pytest.mark.parametrize("interpreter", (OLD[:1] if not os.environ.get("FATHOM_TEST_LONG") else OLD) + NEW, ids=str)
def test_names_agree_with_the_compiler_over_the_standard_library(interpreter: Python) -> None:
    listed = subprocess.run(
        [interpreter.path, "-c", LIST], stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONUTF8": "1"}
    )
    rows = [line.split("\t") for line in listed.stdout.decode().splitlines()]
    asked = "".join("%s\t%s\t%s\n" % tuple(row[:3]) for row in rows)
    told = subprocess.run([BUILD / "tests" / "qualnames"], input=asked.encode(), stdout=subprocess.PIPE, check=True)
    names = told.stdout.decode().split("\n")[:-1]
    assert len(names) == len(rows) > 15000
    wrong = [(row, name) for row, name in zip(rows, names) if name and name != row[3]]
    assert not wrong, (len(wrong), wrong[:5])
    # Several of one name in one line, called differently: they keep the plain one.
    unknown = [row for row, name in zip(rows, names) if not name]
    assert len(unknown) < len(rows) / 1000, unknown[:5]


def functions_of(profile: Path, part: str) -> List[Dict[str, object]]:
    report = subprocess.run([BUILD / "fathom", "report", "--json", profile], stdout=subprocess.PIPE, check=True).stdout
    loaded = json.loads(report)
    functions: List[Dict[str, object]] = (loaded["calls"] if part == "calls" else loaded)["functions"]
    return [f for f in functions if str(f["file"]).endswith("qualified.py")]


def traced_names(python: Python, folder: Path) -> Set[str]:
    profile = folder / "t.fathom"
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}, "PYTHONPATH": str(ROOT / "python")}
    command = [python.path, "-m", "fathom", "-o", profile, "--quiet", TARGETS / "qualified.py", "0"]
    subprocess.run(command, env=env, check=True, timeout=60)
    return {str(f["name"]) for f in functions_of(profile, "calls")}


@pytest.mark.parametrize("interpreter", OLD, ids=str)
def test_an_old_python_has_the_names_of_a_new_one(tmp_path: Path, interpreter: Python) -> None:
    if not NEW:
        pytest.skip("no Python 3.11 to compare with")
    new = traced_names(NEW[0], tmp_path)
    assert {"Shop.busy", "Shop.rows.<locals>.<listcomp>", "Shop.Till.<lambda>", "everywhere"} <= new
    # Two in one line, one inside the other, cannot be told apart: the plain name stands for both there.
    new = {name.replace("Shop.rows.<locals>.<listcomp>.<listcomp>", "<listcomp>") for name in new}
    new = {name.replace("Shop.rows.<locals>.<listcomp>", "<listcomp>") for name in new}
    assert traced_names(interpreter, tmp_path) == new


@pytest.mark.parametrize("interpreter", OLD[-1:], ids=str)
def test_samples_are_of_the_method_with_its_class(tmp_path: Path, interpreter: Python) -> None:
    profile = tmp_path / "p.fathom"
    command = [BUILD / "fathom", "record", "-o", profile, "--", interpreter.path, TARGETS / "qualified.py", "0.3"]
    subprocess.run(command, check=True, timeout=60)
    total = {str(f["name"]): float(str(f["total_s"])) for f in functions_of(profile, "functions")}
    assert total["Shop.busy"] > 0.2 and total["Shop.busy.<locals>.<genexpr>"] > 0
    text = subprocess.run([BUILD / "fathom", "report", profile], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert "Shop.busy" in text
