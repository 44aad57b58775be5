# SPDX-License-Identifier: Apache-2.0
"""Every native frame says what it is: functions, lines, inlined calls, from every place they may be found in."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import pytest

TARGETS = Path(__file__).resolve().parents[1] / "targets"


def sh(*args, **kwargs):
    return subprocess.run([str(a) for a in args], check=True, capture_output=True, text=True, timeout=120, **kwargs)


def line_of(source: str, mark: str) -> int:
    for number, text in enumerate((TARGETS / source).read_text().splitlines(), 1):
        if text.endswith("// LINE " + mark):
            return number
    raise AssertionError(mark)


@pytest.fixture
def env(tmp_path) -> Dict[str, str]:
    """No cache, no debug files and no server but those that a test names."""
    clean = {k: v for k, v in os.environ.items() if k not in ("DEBUGINFOD_URLS", "FATHOM_DEBUG_PATH")}
    return {**clean, "XDG_CACHE_HOME": str(tmp_path / "cache"), "LC_ALL": "C.UTF-8"}


class Captured:
    def __init__(self, fathom: Path, env: Dict[str, str], path: Path):
        self.fathom, self.env, self.path = fathom, env, path

    def stacks(self, *options) -> List[List[str]]:
        out = sh(self.fathom, "export", "-f", "collapsed", *options, self.path, env=self.env).stdout
        return [line.rsplit(" ", 1)[0].split(";") for line in out.splitlines()]

    def weights(self, *options) -> Dict[str, int]:
        """Samples by innermost frame."""
        sums: Dict[str, int] = {}
        out = sh(self.fathom, "export", "-f", "collapsed", *options, self.path, env=self.env).stdout
        for line in out.splitlines():
            stack, count = line.rsplit(" ", 1)
            leaf = stack.split(";")[-1]
            sums[leaf] = sums.get(leaf, 0) + int(count)
        return sums

    def most(self, *options) -> str:
        weights = self.weights(*options)
        return max(weights, key=weights.__getitem__)

    def report(self, *options) -> dict:
        return json.loads(sh(self.fathom, "report", "--json", *options, self.path, env=self.env).stdout)

    def functions(self) -> Dict[str, dict]:
        return {f["name"]: f for f in self.report()["functions"]}

    def why(self, part: str) -> str:
        return " ".join(c["why"] for c in self.report()["coverage"] if part in c["what"])


def capture(fathom: Path, env: Dict[str, str], program: Path, *args) -> Captured:
    path = program.parent / (program.name + ".fathom")
    sh(fathom, "record", "-o", path, "-r", "2000", "--", program, *args, env=env)
    return Captured(fathom, env, path)


def compiled(tmp_path: Path, source: str, *flags) -> Path:
    program = tmp_path / source.split(".")[0]
    compiler = "g++" if source.endswith(".cpp") else "gcc"
    if not shutil.which(compiler):
        pytest.skip(compiler + " is not installed")
    sh(compiler, *flags, TARGETS / source, "-o", program)
    return program


def has_run(stacks: List[List[str]], *frames) -> bool:
    """Some stack holds these frames one after the other."""
    want = list(frames)
    return any(s[i : i + len(want)] == want for s in stacks for i in range(len(s)))


@pytest.mark.statistical
@pytest.mark.parametrize("flags", [["-gdwarf-5"], ["-gdwarf-4"], ["-g", "-gz"], ["-g", "-gsplit-dwarf"]], ids=" ".join)
def test_cpp_templates_and_inlines(fathom, env, tmp_path, flags):
    got = capture(fathom, env, compiled(tmp_path, "names.cpp", "-O2", *flags))
    lines = {m: line_of("names.cpp", m) for m in ("mix", "count", "main")}
    frames = (
        f"main (names.cpp:{lines['main']})",
        f"shop::Shelf<...>::count (names.cpp:{lines['count']})",
        f"shop::Shelf<...>::mix (inlined) (names.cpp:{lines['mix']})",
    )
    assert has_run(got.stacks(), *frames)
    assert got.most() == frames[-1]

    functions = got.functions()
    mix, count = functions["shop::Shelf<...>::mix"], functions["shop::Shelf<...>::count"]
    assert mix["inlined"] and not count["inlined"]
    # The inlined function's own time is its own; the function around it has it in its total.
    assert mix["self_s"] > 0.5 * count["total_s"] > count["self_s"]
    assert count["total_s"] >= mix["total_s"]
    assert "std::vector<int, std::allocator<int> >" in count["full_name"]
    assert count["full_name"].endswith("::count(unsigned long) const")
    assert Path(count["file"]).name == "names.cpp"

    folded = got.stacks("--no-inlines")
    assert not any("(inlined)" in frame for s in folded for frame in s)
    assert has_run(folded, frames[0], frames[1])


def test_split_debug_information_that_is_gone_or_packed(fathom, env, tmp_path):
    program = compiled(tmp_path, "names.cpp", "-O2", "-g", "-gsplit-dwarf")
    got = capture(fathom, env, program)
    lines = {m: line_of("names.cpp", m) for m in ("mix", "count", "main")}
    whole = (
        f"shop::Shelf<...>::count (names.cpp:{lines['count']})",
        f"shop::Shelf<...>::mix (inlined) (names.cpp:{lines['mix']})",
    )
    assert has_run(got.stacks(), *whole) and not got.why("/names")

    apart = list(tmp_path.glob("*.dwo"))
    assert apart
    # binutils' own crashes over DWARF 5 in some versions.
    is_packed = any(
        shutil.which(packer)
        and subprocess.run([packer, "-e", program, "-o", tmp_path / "packed"], capture_output=True).returncode == 0
        for packer in ("llvm-dwp", "dwp")
    )
    for path in apart:
        path.rename(path.with_suffix(".away"))
    shutil.rmtree(env["XDG_CACHE_HOME"])

    # Lines are in the program itself; what is inlined where is not.
    stacks = got.stacks()
    assert not any("(inlined)" in frame and "names.cpp" in frame for s in stacks for frame in s)
    assert any(f.startswith("shop::Shelf<...>::count (names.cpp:") for s in stacks for f in s)
    assert apart[0].name + " is gone" in got.why("/names") and "restore" in got.why("/names")

    if is_packed:
        (tmp_path / "packed").rename(tmp_path / "names.dwp")
        if "cannot read" in got.why("/names"):  # elfutils before 0.191
            assert re.search(r"/names\.dwp, which libdw 0\.1\d\d cannot read", got.why("/names"))
            assert "update elfutils" in got.why("/names")
        else:
            assert has_run(got.stacks(), *whole) and not got.why("/names")
        (tmp_path / "names.dwp").unlink()

    for path in apart:  # back again: what is cached is out of date
        path.with_suffix(".away").rename(path)
    assert has_run(got.stacks(), *whole) and not got.why("/names")


@pytest.mark.parametrize("mangling", ["legacy", "v0"])
def test_rust_inlined_iterators(fathom, env, tmp_path, mangling):
    rustc = shutil.which("rustc") or os.path.expanduser("~/.cargo/bin/rustc")
    if not os.path.exists(rustc):
        pytest.skip("rustc is not installed")
    program = tmp_path / "names"
    flags = ["-C", "symbol-mangling-version=" + mangling] if mangling == "v0" else []
    done = subprocess.run(
        [rustc, "-O", "-g", *flags, TARGETS / "names.rs", "-o", program],
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    if done.returncode:
        pytest.skip("rustc cannot do this: " + done.stderr[-200:])
    got = capture(fathom, env, program)
    hot = [s for s in got.stacks() if any("::churn (inlined)" in f for f in s)]
    assert hot
    for stack in hot:
        names = [re.sub(r" \([^)]*\)$", "", f) for f in stack]
        total = next(i for i, n in enumerate(names) if "grid::Cells" in n and "total" in n)
        churn = next(i for i, n in enumerate(names) if n == "names::churn (inlined)")
        assert total < churn
        inlined = names[total + 1 : churn]
        assert inlined and all(n.endswith(" (inlined)") for n in inlined)
        assert any("fold" in n or "iter" in n for n in inlined)
        assert not any(re.search(r"17h[0-9a-f]{16}|\[[0-9a-f]{16}\]|_RN|_ZN", n) for n in names)
    assert any(f.endswith(f"(names.rs:{line_of('names.rs', 'churn')})") or "num" in f for s in hot for f in s)


PYO3_SCRIPT = """
import deep
def called_back(i):
    return sum(range(40)) & i
for _ in range(60):
    deep.crunch(6_000_000)
walker = deep.Walker()
for _ in range(8):
    walker.walk(called_back, 100_000)
"""


def test_a_module_made_with_pyo3(fathom, env, tmp_path):
    """The real thing, built from its crates: functions and methods by their own names, a call back into Python inside."""
    cargo = shutil.which("cargo") or os.path.expanduser("~/.cargo/bin/cargo")
    if not os.environ.get("FATHOM_TEST_LONG") or not os.path.exists(cargo):
        pytest.skip("with FATHOM_TEST_LONG=1 and cargo: downloads and builds crates")
    built = tmp_path / "target"
    done = subprocess.run(
        [cargo, "build", "--release", "--target-dir", built],
        cwd=shutil.copytree(TARGETS / "pyo3", tmp_path / "crate"),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip("cargo cannot build it: " + done.stderr[-200:])
    shutil.copy(built / "release" / "libdeep.so", tmp_path / "deep.so")
    script = tmp_path / "t.py"
    script.write_text(f"#!{sys.executable}\n{PYO3_SCRIPT}")
    script.chmod(0o755)
    got = capture(fathom, env, script)
    stacks = [[re.sub(r" \([^()]*:\d+\)$", "", frame) for frame in s] for s in got.stacks()]
    crunching = [s for s in stacks if "deep::crunch (PyO3)" in s]
    assert crunching and all(s.index("deep::crunch (PyO3)") < s.index("deep::crunch (inlined)") for s in crunching)
    walking = [s for s in stacks if "called_back" in s]
    assert walking and all(s.index("deep::Walker::walk (PyO3)") < s.index("called_back") for s in walking)
    assert got.report()["failed_unwinds"] == 0


CYTHON_MODULE = """
cdef unsigned long churn(unsigned long n):
    cdef unsigned long x = 1, i
    for i in range(n):
        x = x * 69069 + i
    return x

def crunch(n):
    return churn(n)

class Walker:
    def walk(self, callback, n):
        for i in range(n):
            callback(i)

cdef class Native:
    def count(self, n):
        return churn(n)
"""
CYTHON_SCRIPT = """
import deeper
def called_back(i):
    return sum(range(40)) & i
for _ in range(40):
    deeper.crunch(6_000_000)
    deeper.Native().count(6_000_000)
deeper.Walker().walk(called_back, 300_000)
"""


def test_a_module_made_with_cython(fathom, env, tmp_path):
    """Functions, methods and classes by their Python names, a call back into Python inside."""
    include = sysconfig.get_paths()["include"]
    if not importlib.util.find_spec("cython") or not Path(include, "Python.h").exists():
        pytest.skip("no Cython, or no headers of this Python")
    (tmp_path / "deeper.pyx").write_text(CYTHON_MODULE)
    sh(sys.executable, "-m", "cython", "-3", "deeper.pyx", cwd=tmp_path)
    sh("gcc", "-O1", "-g", "-shared", "-fPIC", "-I" + include, "deeper.c", "-o", "deeper.so", cwd=tmp_path)
    script = tmp_path / "t.py"
    script.write_text(f"#!{sys.executable}\n{CYTHON_SCRIPT}")
    script.chmod(0o755)
    got = capture(fathom, env, script)
    stacks = [[re.sub(r" \([^()]*\)$", "", frame) for frame in s] for s in got.stacks()]
    ways = {
        "deeper.crunch (Cython)": "deeper.churn (Cython)",
        "deeper.Native.count (Cython)": "deeper.churn (Cython)",
        "deeper.Walker.walk (Cython)": "called_back",
    }
    for outer, inner in ways.items():
        through = [s for s in stacks if outer in s and any(frame.startswith(inner) for frame in s)]
        assert through, (outer, stacks[:5])
        for stack in through:
            assert stack.index(outer) < next(i for i, frame in enumerate(stack) if frame.startswith(inner)), stack
    assert not any("__pyx_pw_" in frame or "__pyx_pf_" in frame for s in stacks for frame in s)


C_FRAMES = ("main", "exported_work", "hidden_work")


def c_frames() -> List[str]:
    marks = ("main", "exported", "hidden")
    return [f"{f} (names.c:{line_of('names.c', m)})" for f, m in zip(C_FRAMES, marks)]


@pytest.mark.statistical
def test_c(fathom, env, tmp_path):
    got = capture(fathom, env, compiled(tmp_path, "names.c", "-O1", "-g", "-fno-optimize-sibling-calls"))
    assert has_run(got.stacks(), *c_frames())
    library = next(x for x in got.report()["libraries"] if x["path"].endswith("/names"))
    # A sample may hit the start-up code, which has no lines.
    assert library["named_share"] > 0.98 and library["lines_share"] > 0.98 and library["remedy"] == ""


def split_debug(program: Path) -> Path:
    debug = program.parent / "separate.debug"
    sh("objcopy", "--only-keep-debug", program, debug)
    sh("strip", "--strip-all", program)
    return debug


def build_id(path: Path) -> str:
    return re.search(r"Build ID: ([0-9a-f]+)", sh("readelf", "-n", path).stdout).group(1)


FLAGS = ["-O1", "-g", "-fno-optimize-sibling-calls", "-Wl,--build-id"]


def test_stripped_with_its_debug_file_by_build_id(fathom, env, tmp_path):
    program = compiled(tmp_path, "names.c", *FLAGS)
    debug = split_debug(program)
    hex_id = build_id(program)
    place = tmp_path / "debug" / ".build-id" / hex_id[:2] / (hex_id[2:] + ".debug")
    place.parent.mkdir(parents=True)
    got = capture(fathom, env, program)
    assert not has_run(got.stacks(), *c_frames())  # also fills the cache with what is known without the file
    shutil.move(debug, place)
    env["FATHOM_DEBUG_PATH"] = "/nonexistent:" + str(tmp_path / "debug")
    assert has_run(got.stacks(), *c_frames())
    place.unlink()
    assert has_run(got.stacks(), *c_frames())  # from the cache
    shutil.rmtree(env["XDG_CACHE_HOME"])
    assert not has_run(got.stacks(), *c_frames())


@pytest.mark.parametrize("folder", ["", ".debug"])
def test_stripped_with_a_debug_link(fathom, env, tmp_path, folder):
    program = compiled(tmp_path, "names.c", *FLAGS[:-1], "-Wl,--build-id=none")
    debug = split_debug(program)
    (tmp_path / folder).mkdir(exist_ok=True)
    if folder:
        debug = Path(shutil.move(debug, tmp_path / folder / debug.name))
    sh("objcopy", "--add-gnu-debuglink=" + str(debug), program)
    got = capture(fathom, env, program)
    assert has_run(got.stacks(), *c_frames())
    # A file of that name with other content is not believed: the CRC differs.
    shutil.rmtree(env["XDG_CACHE_HOME"])
    with debug.open("ab") as f:
        f.write(b"x")
    assert not has_run(got.stacks(), *c_frames())


def test_stripped_with_packed_symbols(fathom, env, tmp_path):
    if not shutil.which("xz"):
        pytest.skip("xz is not installed")
    program = compiled(tmp_path, "names.c", *FLAGS)
    mini = tmp_path / "mini"
    sh(
        "objcopy",
        "-S",
        "--remove-section",
        ".comment",
        "-K",
        "hidden_work",
        "-K",
        "exported_work",
        "-K",
        "main",
        program,
        mini,
    )
    sh("xz", mini)
    sh("strip", "--strip-all", program)
    sh("objcopy", "--add-section", f".gnu_debugdata={mini}.xz", program)
    got = capture(fathom, env, program)
    assert has_run(got.stacks(), *(f + " (names)" for f in C_FRAMES))


@pytest.mark.statistical
def test_stripped_without_anything(fathom, env, tmp_path):
    program = compiled(tmp_path, "names.c", *FLAGS)
    split_debug(program).unlink()
    got = capture(fathom, env, program)
    assert re.fullmatch(r"0x[0-9a-f]+ \(names\)", got.most())
    assert (
        len([w for f, w in got.weights().items() if f.endswith("(names)") and w > 5]) == 1
    )  # one function, not one per address
    library = next(x for x in got.report()["libraries"] if x["path"] == str(program))
    assert library["named_share"] < 0.1 and library["lines_share"] == 0
    assert "-g" in library["remedy"]
    assert "compile it with -g" in sh(fathom, "report", got.path, env=env).stdout


@pytest.mark.statistical
def test_a_wheel_is_built_by_the_name_that_pip_knows(fathom, env, tmp_path):
    """What one imports as oddly_called may be installed as another name: the list of files beside it says. Of many libraries with one remedy it is said once."""
    site = tmp_path / "lib" / "site-packages"
    package = site / "oddly_called"
    package.mkdir(parents=True)
    listed = "oddly_called/__init__.py,,\noddly_called/names,sha256=x,9\noddly_called/other,,\n"
    for name, files in (("aaa-1.0", "aaa/x.so,,\n"), ("its_name-2.5", listed)):
        (site / f"{name}.dist-info").mkdir()
        (site / f"{name}.dist-info" / "RECORD").write_text(files)
    program = compiled(package, "names.c", *FLAGS)
    split_debug(program).unlink()
    shutil.copy(program, package / "other")
    both = tmp_path / "both.sh"
    both.write_text(f"#!/bin/sh\n{program}\n{package / 'other'}\n")
    both.chmod(0o755)
    got = capture(fathom, env, both)
    library = next(x for x in got.report()["libraries"] if x["path"] == str(program))
    assert library["remedy"].endswith("--no-binary its-name its-name")
    text = sh(fathom, "report", "--width", "200", got.path, env=env).stdout.partition("Native Code without Names")[2]
    rows = [line.split()[-1] for line in text.splitlines() if line.endswith((" names", " other", "its-name"))]
    assert sorted(rows[:2]) == ["names", "other"] and rows[2:] == ["its-name"]
    (site / "its_name-2.5.dist-info" / "RECORD").unlink()
    library = next(x for x in got.report()["libraries"] if x["path"] == str(program))
    assert library["remedy"].endswith("--no-binary oddly_called oddly_called")  # nothing better is known


def test_debug_file_from_a_server(fathom, env, tmp_path):
    """libdebuginfod takes file:// addresses, so no network is needed. Without the variable nothing is asked."""
    program = compiled(tmp_path, "names.c", *FLAGS)
    debug = split_debug(program)
    served = tmp_path / "served" / "buildid" / build_id(program) / "debuginfo"
    served.parent.mkdir(parents=True)
    shutil.move(debug, served)
    got = capture(fathom, env, program)
    assert not has_run(got.stacks(), *c_frames())
    env["DEBUGINFOD_URLS"] = "file://" + str(tmp_path / "served")
    env["DEBUGINFOD_CACHE_PATH"] = str(tmp_path / "client")
    if "not there" in sh(fathom, "doctor", env=env).stdout:
        pytest.skip("libdebuginfod is not installed")
    assert has_run(got.stacks(), *c_frames())


def test_debug_information_compressed_with_zstd(fathom, env, tmp_path):
    """elfutils before 0.189 cannot undo that, which is not damage."""
    program = compiled(tmp_path, "names.c", *FLAGS)
    done = subprocess.run(["objcopy", "--compress-debug-sections=zstd", program], capture_output=True)
    if done.returncode:
        pytest.skip("this objcopy does not know zstd")
    got = capture(fathom, env, program)
    if has_run(got.stacks(), *c_frames()):
        assert not got.why("/names")
    else:
        assert "compressed with zstd, which libdw" in got.why("/names") and "-gz=zlib" in got.why("/names")
        assert any("hidden_work (names)" in s for s in got.stacks())  # the symbols are not compressed
        library = next(x for x in got.report()["libraries"] if x["path"] == str(program))
        assert "-gz=zlib" in library["remedy"]  # it was compiled with -g: no word of that


@contextmanager
def debug_server(answers: Dict[str, bytes]) -> Iterator[Tuple[str, List[str]]]:
    """What debuginfod is to its clients, with a list of what was asked."""
    asked: List[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802 (its name)
            asked.append(self.path)
            body = answers.get(self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def test_debug_file_from_a_server_on_the_network(fathom, env, tmp_path):
    program = compiled(tmp_path, "names.c", *FLAGS)
    debug = split_debug(program)
    got = capture(fathom, env, program)
    env.update(DEBUGINFOD_URLS="http://127.0.0.1:9", DEBUGINFOD_CACHE_PATH=str(tmp_path / "client"))  # nobody is there
    if "not there" in sh(fathom, "doctor", env=env).stdout:
        pytest.skip("libdebuginfod is not installed")
    assert not has_run(got.stacks(), *c_frames())
    assert "did not answer" in got.why(str(program))

    address = f"/buildid/{build_id(program)}/debuginfo"
    with debug_server({}) as (url, asked):
        env["DEBUGINFOD_URLS"] = url
        assert not has_run(got.stacks(), *c_frames())
        assert address in asked and not got.why(str(program))
    shutil.rmtree(tmp_path / "client", ignore_errors=True)  # it remembers what a server has not
    shutil.rmtree(env["XDG_CACHE_HOME"])
    with debug_server({address: debug.read_bytes()}) as (url, asked):
        env["DEBUGINFOD_URLS"] = url
        assert url in sh(fathom, "doctor", env=env).stdout
        assert re.search(r"debug reader +elfutils 0\.\d+", sh(fathom, "doctor", env=env).stdout)
        assert has_run(got.stacks(), *c_frames())
        assert asked.count(address) == 1
    assert has_run(got.stacks(), *c_frames())  # from the cache, the server is gone


def test_names_outlive_their_files(fathom, env, tmp_path):
    """The capture itself holds the names: on another machine, or after a new build, they are still there."""
    library, main = tmp_path / "libnames.so", tmp_path / "app"
    sh("gcc", *FLAGS, "-shared", "-fPIC", "-DLIBRARY", TARGETS / "names.c", "-o", library)
    (tmp_path / "app.c").write_text(
        "unsigned long exported_work(unsigned long);\n"
        "int main(void) { unsigned long s = 0; for (int i = 0; i < 1500; i++) s += exported_work(s); return s == 1; }\n"
    )
    sh("gcc", "-g", tmp_path / "app.c", "-o", main, library, "-Wl,-rpath," + str(tmp_path))
    got = capture(fathom, env, main)
    named = tuple(f + " (libnames.so)" for f in C_FRAMES[1:])
    assert "recorded with the capture" not in got.why("libnames")
    shutil.rmtree(env["XDG_CACHE_HOME"])

    away = shutil.move(library, tmp_path / "away.so")
    assert has_run(got.stacks(), *named)
    assert "gone" in got.why("libnames") and "recorded with the capture" in got.why("libnames")

    sh(
        "gcc", *FLAGS, "-O2", "-DX", "-shared", "-fPIC", "-DLIBRARY", TARGETS / "names.c", "-o", library
    )  # another build
    assert has_run(got.stacks(), *named)
    assert "build id differs" in got.why("libnames") and "recorded with the capture" in got.why("libnames")

    shutil.move(away, library)
    assert has_run(got.stacks(), *c_frames()[1:])
    assert not got.why("libnames")


def test_a_damaged_file_is_said_and_harms_nothing(fathom, env, tmp_path):
    program = compiled(tmp_path, "names.c", *FLAGS)
    got = capture(fathom, env, program)
    whole = program.read_bytes()
    sections = sh("readelf", "-SW", program).stdout
    for name in (".debug_info", ".debug_abbrev", ".debug_line", ".debug_aranges"):
        at, size = (
            int(x, 16) for x in re.search(re.escape(name) + r"\s+PROGBITS\s+\w+ (\w+) (\w+)", sections).groups()
        )
        for fill in (b"\xff", b"\x00", b"\x80"):
            shutil.rmtree(env["XDG_CACHE_HOME"], ignore_errors=True)
            program.write_bytes(whole[:at] + fill * size + whole[at + size :])
            assert any("hidden_work" in f for s in got.stacks() for f in s), name  # the symbol table is whole
    program.write_bytes(b"\x7fELF" + b"\xff" * 100)
    shutil.rmtree(env["XDG_CACHE_HOME"], ignore_errors=True)
    assert any("hidden_work" in f for s in got.stacks() for f in s)  # from the capture
    assert got.why("names")


def test_the_second_report_reads_no_debug_information(fathom, env, tmp_path):
    program = compiled(tmp_path, "names.c", *FLAGS)
    got = capture(fathom, env, program)
    first = got.stacks()
    before = {p: p.stat().st_ino for p in Path(env["XDG_CACHE_HOME"]).rglob("*") if p.is_file()}
    assert any(build_id(program) == p.name for p in before)
    assert got.stacks() == first
    assert before == {p: p.stat().st_ino for p in Path(env["XDG_CACHE_HOME"]).rglob("*") if p.is_file()}
    for p in before:  # damaged: as good as none, and written anew
        p.write_bytes(p.read_bytes()[:-3] + b"xyz")
    assert got.stacks() == first


@pytest.mark.skipif(not Path("/var/lib/dpkg/status").exists(), reason="packages are not dpkg's here")
def test_the_package_of_a_library_is_asked_for_once(fathom, env, tmp_path):
    """dpkg reads the lists of all packages for an answer: 0.07 s of CPU in each report and each page of a run."""
    asked = tmp_path / "asked"
    (tmp_path / "bin").mkdir()
    dpkg = tmp_path / "bin" / "dpkg-query"
    dpkg.write_text(f'#!/bin/sh\necho "$2" >>{asked}\necho "a-package:amd64: $2"\n')
    dpkg.chmod(0o755)
    env = {**env, "PATH": "%s:%s" % (dpkg.parent, env["PATH"])}
    path = tmp_path / "p.fathom"
    code = "import time, zlib\nend = time.process_time() + 0.3\nwhile time.process_time() < end: zlib.crc32(bytes(100_000))"
    sh(fathom, "record", "-o", path, "--", sys.executable, "-c", code, env=env)
    reports = [sh(fathom, "report", path, env=env).stdout for _ in range(2)]
    if not asked.exists():
        pytest.skip("every library that it used has its names")
    files = asked.read_text().splitlines()
    assert len(files) == len(set(files)), files
    assert reports[0] == reports[1] and "install a-package-dbgsym" in " ".join(reports[1].split())


def chains(text: str) -> Dict[str, List[tuple]]:
    """addr2line -afi: an address, then a function and file:line for each, innermost first."""
    out: Dict[str, List[tuple]] = {}
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        links = out.setdefault(lines[i], [])
        i += 1
        while i + 1 < len(lines) and not lines[i].startswith("0x"):
            place = re.sub(r" \(discriminator \d+\)$", "", lines[i + 1])
            file, line = place.rsplit(":", 1)
            links.append((lines[i], os.path.basename(file), line))
            i += 2
    return out


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("flags", [["-gdwarf-5"], ["-gdwarf-4"]], ids=" ".join)
def test_lines_and_inlines_are_those_of_addr2line(build, tmp_path, compiler, flags):
    # binutils' leaves inlined calls out here and there with clang's files; LLVM's own does not.
    judge = shutil.which("llvm-addr2line") or shutil.which("addr2line")
    if not shutil.which(compiler) or not judge:
        pytest.skip("no " + compiler + " or no addr2line")
    program = tmp_path / "names"
    done = subprocess.run(
        [compiler, "-O2", *flags, TARGETS / "names.cpp", "-o", program], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(compiler + " does not work here: " + done.stderr[-200:])
    symbols = sh("nm", "-S", program).stdout
    start, size = (int(x, 16) for x in re.search(r"^(\w+) (\w+) [TW] _ZNK4shop5Shelf.*5count", symbols, re.M).groups())
    main, main_size = (int(x, 16) for x in re.search(r"^(\w+) (\w+) T main$", symbols, re.M).groups())
    addrs = sorted({*range(start, start + size), *range(main, main + main_size)})
    text = "".join(f"{a:#x}\n" for a in addrs)
    theirs = chains(sh(judge, "-afi", "-e", program, input=text).stdout)
    ours = chains(sh(build / "tests" / "resolve_addrs", program, input=text).stdout)
    theirs = {f"{int(addr, 16):#018x}": links for addr, links in theirs.items()}
    n_chains = n_lines = n_inlined = 0
    for addr, links in theirs.items():
        got = ours[addr]
        n_chains += [x[0] for x in got] == [x[0] for x in links]
        # Line 0 and '?': the compiler says that the code belongs to no line. Another file: code that the compiler counts to
        # the caller's line; ours gives the function's own first line then, as the file shown is the function's.
        n_lines += all(a[1:] == b[1:] or a[1] != b[1] or b[2] in ("?", "0") for a, b in zip(got, links))
        n_inlined += len(links) > 1
    assert n_inlined > 20
    assert n_chains >= 0.97 * len(theirs), (n_chains, len(theirs))
    assert n_lines >= 0.97 * len(theirs), (n_lines, len(theirs))


def test_jump_stubs_are_named(build, tmp_path):
    program = compiled(tmp_path, "names.cpp", "-O2")
    listed = re.findall(r"^([0-9a-f]+) <(\w+@plt)>:", sh("objdump", "-d", program).stdout, re.M)
    if not listed:
        pytest.skip("no stubs here")
    text = "".join(addr + "\n" for addr, _ in sorted(listed, key=lambda x: int(x[0], 16)))
    got = chains(sh(build / "tests" / "resolve_addrs", program, input=text).stdout)
    assert {int(a, 16): [x[0] for x in links] for a, links in got.items()} == {int(a, 16): [n] for a, n in listed}
