# SPDX-License-Identifier: Apache-2.0
"""The machine code of hot native functions in the page's data: instructions, their time, and the lines they were made of."""

import ctypes.util
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import pytest
from capture import ROOT

sys.path.insert(0, str(ROOT / "tests" / "reader"))
from fathom_view import NONE, Bundle  # noqa: E402

SOURCE = """\
#include <stddef.h>

static inline double term(double x, size_t i)
{
	return x / (double)(i * i + 1);
}

double hot(double x, size_t n)
{
	double s = 0;
	for (size_t i = 0; i < n; i++)
		s += term(x, i);
	return s;
}
"""
PROGRAM = """\
import ctypes
library = ctypes.CDLL(%r)
library.hot.restype, library.hot.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_size_t]
for _ in range(10):
    library.hot(1.0, 10_000_000)
"""


@pytest.fixture(scope="module")
def capstone() -> str:
    spec = importlib.util.find_spec("capstone")
    places = [os.environ.get("FATHOM_CAPSTONE")]
    places += [
        str(Path(folder) / "lib" / "libcapstone.so") for folder in (spec and spec.submodule_search_locations) or []
    ]
    found = next((p for p in places if p and os.path.exists(p)), None) or ctypes.util.find_library("capstone")
    if not found:
        pytest.skip("Capstone is not installed (pip install capstone)")
    return found


@pytest.fixture(scope="module")
def capture(fathom: Path, tmp_path_factory) -> Tuple[Path, Path]:
    """A capture of a program that spends its time in a C library with debug information, and that library."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("hot")
    library, profile, script = folder / "libhot.so", folder / "hot.fathom", folder / "hot.py"
    (folder / "hot.c").write_text(SOURCE)
    subprocess.run([compiler, "-O2", "-g", "-shared", "-fPIC", "-o", library, folder / "hot.c"], check=True)
    script.write_text(PROGRAM % str(library))
    subprocess.run([fathom, "record", "-o", profile, "--", sys.executable, script], check=True)
    return profile, library


class Instruction(NamedTuple):
    at: int
    text: str
    self_s: float
    n: int
    function: Optional[str]
    inlined: str
    file: str
    line: int
    source: str


def bundle(fathom: Path, profile: Path, library: str) -> Bundle:
    out = profile.with_suffix(".bundle")
    environment = {**os.environ, "FATHOM_CAPSTONE": library}
    subprocess.run([fathom, "export", "-f", "bundle", "-o", out, profile], check=True, env=environment)
    return Bundle.of_file(out)


def listings_in(b: Bundle) -> Dict[str, List[Instruction]]:
    if "code.function" not in b.columns:
        return {}
    rows = [
        Instruction(
            int(r["at"]), b.text(r["text"]), r["self_s"], r["n"], None if r["function"] == NONE else b.name(r["function"]),
            b.text(r["inlined"]), b.text(r["file"]), r["line"], b.text(r["source"]),
        )
        for r in b.rows("instruction")
    ]  # fmt: skip
    return {b.name(code["function"]): [rows.pop(0) for _ in range(code["n"])] for code in b.rows("code")}


@pytest.fixture(scope="module")
def listings(fathom, capture, capstone) -> Dict[str, List[Instruction]]:
    return listings_in(bundle(fathom, capture[0], capstone))


def test_instructions_have_what_their_functions_took(fathom, capture, listings):
    said = subprocess.run([fathom, "report", "--json", capture[0]], stdout=subprocess.PIPE, check=True).stdout
    own: Dict[str, float] = {}
    for function in json.loads(said)["functions"]:
        if function["name"] in ("hot", "term"):
            own[function["name"]] = own.get(function["name"], 0) + function["self_s"]
    rows = listings["hot"]
    assert own["hot"] + own.get("term", 0) > 0.02
    for name, seconds in own.items():
        assert sum(r.self_s for r in rows if r.function == name) == pytest.approx(seconds, abs=1e-6), name
    assert all((r.n > 0) == (r.self_s > 0) == (r.function is not None) for r in rows)


def test_instructions_are_those_of_the_library(capture, listings):
    """binutils, which share no code with Capstone, find the same ones in the same places."""
    objdump = shutil.which("objdump")
    if not objdump:
        pytest.skip("objdump is not installed")
    told = subprocess.run(
        [objdump, "-d", "-M", "intel", "--no-show-raw-insn", "--disassemble=hot", capture[1]],
        stdout=subprocess.PIPE, check=True, universal_newlines=True,
    ).stdout  # fmt: skip
    theirs = {int(at, 16): word for at, word in re.findall(r"^\s*([0-9a-f]+):\s+(\w+)", told, re.M)}
    ours = {r.at: r.text.split()[0] for r in listings["hot"]}
    assert len(ours) > 10 and set(ours) == set(theirs)
    differing = [(ours[at], theirs[at]) for at in ours if ours[at] != theirs[at]]
    assert len(differing) <= len(ours) // 5, differing  # names of no-ops and of some jumps differ


def test_instructions_know_their_source(capture, listings):
    lines = SOURCE.splitlines()
    rows = listings["hot"]
    assert {r.file for r in rows} == {str(capture[1].parent / "hot.c")}
    for r in rows:
        assert r.source == lines[r.line - 1].strip()
        assert r.inlined == ("term" if r.line in range(3, 7) else "")
    assert {5, 12} <= {r.line for r in rows}


def test_the_page_shows_them(root, fathom, capture, capstone):
    node = shutil.which("node")
    if not node:
        pytest.skip("node is not installed")
    html, report = capture[0].with_suffix(".html"), capture[0].with_suffix(".json")
    said = subprocess.run([fathom, "report", "--json", capture[0]], stdout=subprocess.PIPE, check=True).stdout
    report.write_bytes(said)
    environment = {**os.environ, "FATHOM_CAPSTONE": capstone}
    made = subprocess.run([fathom, "view", "--html", html, capture[0]], stderr=subprocess.PIPE, env=environment)
    if made.returncode and b"page" in made.stderr:
        pytest.skip("this fathom has no page to put captures into")
    assert made.returncode == 0, made.stderr
    done = subprocess.run(
        [node, root / "tests" / "web" / "check_viewer.mjs", "assembly", html, report],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=180,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout


def test_without_capstone_the_page_says_so(fathom, capture, tmp_path):
    libm = ctypes.util.find_library("m")
    assert libm
    for library in ("/nonexistent/libcapstone.so", libm):
        told = bundle(fathom, capture[0], library)
        assert told.head["lacks_disassembler"] is True
        assert not listings_in(told) and not [c for c in told.columns if c.startswith(("code.", "instruction."))]


def test_capstone_of_pip_is_found_beside_the_package(fathom, capture, capstone, tmp_path):
    """.../site-packages/fathom/_bin/fathom and .../site-packages/capstone/lib/libcapstone.so"""
    if not os.path.isabs(capstone):
        pytest.skip("Capstone is the system's here")
    program = tmp_path / "fathom" / "_bin" / "fathom"
    beside = tmp_path / "capstone" / "lib" / "libcapstone.so"
    for path in (program, beside):
        path.parent.mkdir(parents=True)
    shutil.copy(fathom, program)
    shutil.copy(capstone, beside)
    beside.chmod(0o644)
    assert "hot" in listings_in(bundle(program, capture[0], ""))
    if ctypes.util.find_library("capstone"):
        return
    beside.chmod(0o666)  # what others can write would run with our rights
    assert not listings_in(bundle(program, capture[0], ""))
    beside.chmod(0o644)
    elsewhere = program.parent.with_name("bin")  # beside a program that is not in our package lies anything
    program.parent.rename(elsewhere)
    assert not listings_in(bundle(elsewhere / "fathom", capture[0], ""))


def test_a_library_that_was_replaced_has_no_assembly(fathom, capture, capstone, tmp_path):
    """Time of one build must not stand beside the instructions of another."""
    profile, library = capture
    kept = library.read_bytes()
    try:
        (tmp_path / "other.c").write_text(SOURCE.replace("i * i", "i * i * 3"))
        library.unlink()
        subprocess.run(["cc", "-O2", "-g", "-shared", "-fPIC", "-o", library, tmp_path / "other.c"], check=True)
        assert "hot" not in listings_in(bundle(fathom, profile, capstone))
    finally:
        library.unlink()
        library.write_bytes(kept)


@pytest.mark.parametrize(
    "name, mode, is_shown", [("hot.c", 0o644, True), ("private.c", 0o600, False), ("key", 0o644, False)]
)
def test_a_library_shows_no_file_that_is_none_of_its_sources(fathom, capstone, tmp_path, name, mode, is_shown):
    """Debug information can name any file; what it names is shown in a page that people share."""
    if os.geteuid() != 0:
        pytest.skip("a library of another user's needs the right to make one")
    named, library = tmp_path / name, tmp_path / "libhot.so"
    named.write_text("first\nsecond\nthird secret\n" * 9)
    named.chmod(mode)
    (tmp_path / "made.c").write_text(f'#line 1 "{named}"\n' + SOURCE)
    command = ["cc", "-O2", "-g", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "made.c")]
    subprocess.run(command, check=True)
    os.chown(library, 65534, 65534)
    (tmp_path / "hot.py").write_text(PROGRAM % str(library))
    profile = tmp_path / "hot.fathom"
    subprocess.run([fathom, "record", "-o", profile, "--", sys.executable, tmp_path / "hot.py"], check=True)
    sources = {row.source for row in listings_in(bundle(fathom, profile, capstone))["hot"]}
    assert any(sources) == is_shown, sources
