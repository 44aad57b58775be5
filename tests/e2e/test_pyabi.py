# SPDX-License-Identifier: Apache-2.0
"""Are core/pyabi's facts about CPython true? Asked of every Python on this machine (scripts/find-pythons.py).

Three ways: offsetof() over its own headers, a walk of its own stack by our offsets, and its own answer for line tables.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from capture import every_python

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
TARGET = os.path.join(REPO, "tests", "targets", "walk_by_row.py")
CC = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "cc"

E_UNSUPPORTED, E_CORRUPT, E_TRUNCATED = 18, 14, 10
# Kinds, not offsets: no header says them. frames, lasti, line_table by minor.
KINDS = {8: (1, 1, 1), 9: (1, 1, 1), 10: (2, 2, 2), 11: (3, 3, 3), 12: (4, 3, 3)}
NO_SHIM_OWNER = 255


class Python:
    def __init__(self, version, kind, path):
        self.version, self.kind, self.path = version, kind, path
        self.minor = int(version.split(".")[1])

    def run(self, *args):
        # UTF-8 whatever the locale: the target has functions with names beyond ASCII.
        env = dict(os.environ, PYTHONIOENCODING="utf-8", PYTHONUTF8="1")
        return subprocess.run([self.path, TARGET, *args], stdout=subprocess.PIPE, check=True, env=env).stdout

    @functools.lru_cache(maxsize=None)
    def runtime(self):
        return self.run("runtime")


PYTHONS = [Python(*p) for p in every_python()]
pytestmark = pytest.mark.skipif(shutil.which(CC) is None, reason="no C compiler")
each_python = pytest.mark.parametrize("python", PYTHONS, ids=lambda p: "%s-%s" % (p.version, p.kind))


def compile_c(out, *args):
    subprocess.run([CC, "-O1", "-D_GNU_SOURCE", "-o", str(out), *map(str, args)], check=True, cwd=REPO)
    return str(out)


@pytest.fixture(scope="session")
def tools(tmp_path_factory):
    """Our own tools, built from the sources at hand and not from whatever lies in a build folder."""
    folder = tmp_path_factory.mktemp("tools")
    pyabi = [
        os.path.join("core", "pyabi", f)
        for f in sorted(os.listdir(os.path.join(REPO, "core", "pyabi")))
        if f.endswith(".c")
    ]
    return {
        name: compile_c(
            folder / name, "-Wall", "-Wextra", "-Icore", "tests/tools/%s.c" % name, "core/base/err.c", *pyabi
        )
        for name in ("print_row", "print_lines", "print_pending")
    }


def print_row(tools, source, stdin=b""):
    """The row as {field: value}, or the fm_err number that refused it."""
    done = subprocess.run([tools["print_row"], source], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        return done.returncode
    return parse_fields(done.stdout.decode())


def parse_fields(text):
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def row_of(tools, python):
    if python.minor >= 13:
        return print_row(tools, "-", python.runtime())
    return print_row(tools, str(python.minor))


def include_folder(python):
    out = subprocess.run(
        [python.path, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
        stdout=subprocess.PIPE,
        check=True,
    )
    folder = out.stdout.decode().strip()
    return folder if os.path.exists(os.path.join(folder, "internal", "pycore_pystate.h")) else None


def header_program(python, tmp_path, *defines, source="header_offsets"):
    include = include_folder(python)
    if not include:
        pytest.skip("no internal headers")
    # The parent folder too: Debian's pyconfig.h includes <ARCH/pythonX.Y/pyconfig.h>.
    return compile_c(
        tmp_path / source,
        "-w",
        *defines,
        "-I" + include,
        "-I" + os.path.join(include, "internal"),
        "-I" + os.path.dirname(include),
        "tests/tools/%s.c" % source,
        "-Wl,--unresolved-symbols=ignore-all",
    )


def check_against_headers(row, program):
    told = parse_fields(subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout.decode())
    kinds = dict(zip(("frames", "lasti", "line_table"), KINDS.get(row["minor"], (5, 3, 3))))
    if row["minor"] == 11:
        kinds["first_shim_owner"] = NO_SHIM_OWNER
    # What the headers do not have must be 0 in the row.
    expected = dict({name: 0 for name in row}, **kinds)
    expected.update(told)
    assert row == expected


@each_python
@pytest.mark.parametrize("build", ["as it is", "Py_DEBUG"])
def test_row_equals_headers(tools, python, build, tmp_path):
    defines = ["-DPy_DEBUG"] if build == "Py_DEBUG" and python.kind != "debug" else []
    program = header_program(python, tmp_path, *defines)
    check_against_headers(row_of(tools, python), program)
    if python.minor == 13 and python.kind != "freethreaded":  # has a table of ours and one of its own
        check_against_headers(print_row(tools, "13"), program)


@each_python
def test_row_of_free_threaded_build_equals_headers(tools, python, tmp_path):
    """The same headers describe the free-threaded build, which is seldom installed."""
    if python.minor < 13:
        pytest.skip("no such build before 3.13")
    program = header_program(python, tmp_path, "-DPy_GIL_DISABLED=1")
    table = subprocess.run([program, "table"], stdout=subprocess.PIPE, check=True).stdout
    row = print_row(tools, "-", table)
    assert row["is_free_threaded"] == 1
    check_against_headers(row, program)


@each_python
def test_headers_have_the_table_the_interpreter_has(python, tmp_path):
    if python.minor < 13:
        pytest.skip("no _Py_DebugOffsets before 3.13")
    table = subprocess.run([header_program(python, tmp_path), "table"], stdout=subprocess.PIPE, check=True).stdout
    has = bytearray(python.runtime()[: len(table)])
    # The whole runtime's and interpreter's sizes (slots 3 and 6) depend on flags of the interpreter's own build, which
    # its installed headers do not carry: 8 bytes in Debian's 3.15.
    for slot in (3, 6):
        has[8 * slot : 8 * slot + 8] = table[8 * slot : 8 * slot + 8]
    assert has == table


@each_python
@pytest.mark.parametrize("build", ["as it is", "Py_DEBUG"])
def test_ring_of_pending_calls_equals_headers(tools, python, build, tmp_path):
    """Into which a request is written from outside, up to 3.13 (collect/remote/pending.c)."""
    done = subprocess.run([tools["print_pending"], str(python.minor)], stdout=subprocess.PIPE)
    if python.minor > 13:
        assert done.returncode == E_UNSUPPORTED
        return
    if python.kind == "freethreaded":
        pytest.skip("refused: no such layout is known")
    defines = ["-DPy_DEBUG"] if build == "Py_DEBUG" and python.kind != "debug" else []
    program = header_program(python, tmp_path, *defines, source="header_pending")
    told = subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout
    ours, theirs = parse_fields(done.stdout.decode()), parse_fields(told.decode())
    if "audit_hooks" not in theirs:
        ours.pop("audit_hooks"), ours.pop("runtime_audit_hooks")
    assert ours == theirs


# Written to files by the interpreter itself: the code of two functions of its own.
COPY_CODE = """
import ctypes, sys
for name, path in zip(("_PyEval_AddPendingCall", "Py_AddPendingCall"), sys.argv[1:]):
    function = getattr(ctypes.pythonapi, name)
    open(path, "wb").write(ctypes.string_at(ctypes.cast(function, ctypes.c_void_p).value, 400))
"""


@each_python
def test_ring_of_pending_calls_is_known_to_the_code(tools, python, tmp_path):
    if python.minor > 13 or python.kind == "freethreaded":
        pytest.skip("not asked")
    files = [str(tmp_path / "callee"), str(tmp_path / "caller")]
    subprocess.run([python.path, "-c", COPY_CODE, *files], check=True)
    for minor in range(8, 14):
        known = subprocess.run([tools["print_pending"], str(minor), *files]).returncode == 0
        # 3.9 and 3.10 have it at one place.
        assert known == (minor == python.minor or {minor, python.minor} == {9, 10}), minor


def told_position(tools, row, fact, offset):
    request = "%d %d %d %s\n" % (row["line_table"], fact["first_line"], offset + 2, fact["table"] or "-")
    out = subprocess.run([tools["print_lines"]], input=request.encode(), stdout=subprocess.PIPE, check=True)
    return int(out.stdout.split()[-1])


def is_interpreters_own(fact):
    return fact["first_line"] == 0 and fact["filename"] == fact["name"]


def check_walk(tools, row, walk):
    read = [f for f in walk["read"] if not f["shim"] and not is_interpreters_own(f)]
    told = walk["told"]
    assert [f["name"] for f in read] == [f["name"] for f in told]
    for i, (fact, truth) in enumerate(zip(read, told)):
        assert fact["type_is_code"]
        for key in ("code", "name", "qualname", "filename", "first_line", "table"):
            if key != "qualname" or row["code_qualname"]:
                assert fact[key] == truth[key], (key, fact["name"])
        if i:  # the innermost frame was running between the two looks
            assert fact["offset"] == truth["offset"], fact["name"]
            assert told_position(tools, row, fact, fact["offset"]) == truth["line"], fact["name"]
    return read


def ends_of_runs(row, walk):
    """Names of the frames with which evaluator calls begin, innermost first."""
    read = [f for f in walk["read"] if f["shim"] or not is_interpreters_own(f)]
    if row["frames"] == 3:
        return [f["name"] for f in read if f["is_entry"]]
    return [f["name"] for f, outer in zip(read, read[1:]) if outer["shim"] and not f["shim"]]


@pytest.fixture(scope="module")
def walks(tools):
    @functools.lru_cache(maxsize=None)
    def walk(python):
        return json.loads(python.run("walk", json.dumps(row_of(tools, python))).decode())

    return walk


@each_python
@pytest.mark.parametrize("shape", ["nested", "construct", "coroutine", "stack_of_thread"])
def test_walk_of_own_stack_equals_getframe(tools, walks, python, shape):
    check_walk(tools, row_of(tools, python), walks(python)[shape])


@each_python
def test_runs_of_evaluator_calls_end_where_c_code_is_between(tools, walks, python):
    row, walk = row_of(tools, python), walks(python)["nested"]
    if row["frames"] < 3:
        pytest.skip("every frame is an evaluator call of its own")
    assert ends_of_runs(row, walk) == ["<lambda>", "generator", "<module>"]
    owners = {f["name"]: f["owner"] for f in walk["read"] if not f["shim"]}
    assert owners["generator"] == row["generator_owner"] and owners["plain"] != row["generator_owner"]


@each_python
@pytest.mark.parametrize("shape", ["nested", "construct", "coroutine", "stack_of_thread"])
def test_one_cframe_for_each_evaluator_call(tools, walks, python, shape):
    row, walk = row_of(tools, python), walks(python)[shape]
    if not row["ts_cframe"]:
        pytest.skip("no cframe")
    n_cframes = len(walk["cframes"]) - 1  # the last is the thread state's own
    n_calls = len(walk["told"]) if row["frames"] == 2 else len(ends_of_runs(row, walk))
    assert n_cframes == n_calls
    assert walk["cframes"][:-1] == sorted(walk["cframes"][:-1]), "inner evaluator calls lie lower on the C stack"


@each_python
def test_data_stack_ends_above_the_innermost_frame(tools, walks, python):
    if not row_of(tools, python)["ts_datastack_top"]:
        pytest.skip("not used in this version")
    walk = walks(python)["nested"]
    assert 0 < walk["datastack_top"] - walk["read"][0]["address"] < 4096


@each_python
def test_shims_lie_on_the_c_stack_but_for_the_last_of_3_15(tools, walks, python):
    if row_of(tools, python)["frames"] < 4:
        pytest.skip("no shims")
    shims = [f["address"] for f in walks(python)["nested"]["read"] if f["shim"]]
    if python.minor >= 15:
        shims.pop()
    low, high = walks(python)["stack"]
    assert shims == sorted(shims) and low <= shims[0] and shims[-1] < high


@each_python
def test_collector_state_and_thread_id(walks, python):
    walk = walks(python)
    assert walk["collecting"] == {"during": [1, 1], "outside": 0}
    assert walk["thread_id_is_right"]


@each_python
def test_every_line_of_standard_modules(tools, python):
    kind = KINDS.get(python.minor, (5, 3, 3))[2]
    codes = [line.split() for line in python.run("lines").decode().splitlines()]
    assert len(codes) > 1000
    request = "".join("%d %s %s %s\n" % (kind, first, size, table) for first, size, table, *_ in codes)
    out = subprocess.run([tools["print_lines"]], input=request.encode(), stdout=subprocess.PIPE, check=True).stdout
    for code, answer in zip(codes, out.decode().splitlines()):
        assert answer.split() == code[3:]


def test_unknown_versions_are_refused(tools):
    for minor in (0, 7, 14, 15, 16, 255):
        assert print_row(tools, str(minor)) == E_UNSUPPORTED


@each_python
def test_damaged_tables_are_refused(tools, python):
    if python.minor < 13:
        pytest.skip("no _Py_DebugOffsets before 3.13")
    table = bytearray(python.runtime())
    assert print_row(tools, "-", b"X" + table[1:]) == E_UNSUPPORTED
    assert print_row(tools, "-", table[:400]) == E_TRUNCATED
    for version, expected in ((0x031000F0, E_UNSUPPORTED), (0x030D00B1, E_UNSUPPORTED), (0x040D00F0, E_UNSUPPORTED)):
        assert print_row(tools, "-", table[:8] + version.to_bytes(8, "little") + table[16:]) == expected
    # Read by the layout of another version, the fields fall on top of each other or out of their structures.
    for other in {13, 14, 15} - {python.minor}:
        version = (0x030000F0 | other << 16).to_bytes(8, "little")
        assert print_row(tools, "-", table[:8] + version + table[16:]) in (E_CORRUPT, E_TRUNCATED)


def test_a_python_was_found():
    assert PYTHONS, "find-pythons.py finds at least the one that runs this"
    assert re.match(r"3\.\d+\.", PYTHONS[0].version) and sys.version_info >= (3, 8)
