# SPDX-License-Identifier: Apache-2.0
"""Names that try to break out of where they are shown: one capture full of them through every command and format, and a program that bears them.

What drives a terminal, ends a line or turns the writing direction reaches no terminal, and every format can still be read.
"""

import csv
import gzip
import io
import json
import marshal
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List
from xml.dom import minidom

import pytest
from capture import BUILD, ROOT
from guest import FATHOM, clean_env, run
from runs import fathom_run

sys.path.insert(0, str(ROOT / "tests" / "reader"))
from fathom_view import Bundle  # noqa: E402

MARKS = [0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
UNFIT = re.compile("[%s]" % "".join(map(re.escape, map(chr, [*range(32), *range(127, 160), *MARKS]))))


def check_fit(raw: bytes, but: str = "\n") -> str:
    """Text as a terminal may see it."""
    text = raw.decode("utf-8")  # strict
    found = {hex(ord(c)) for c in UNFIT.findall(text)} - {hex(ord(c)) for c in but}
    assert not found, found
    return text


def fathom(*words: Any, code: int = 0, **more: Any) -> bytes:
    more.setdefault("env", clean_env({"LC_ALL": "C.UTF-8"}))
    done = subprocess.run(
        [FATHOM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120, **more
    )
    assert done.returncode == code, done.stderr
    check_fit(done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("hostile") / "hostile.fathom"
    subprocess.run([BUILD / "tests" / "hostile_profile", path], check=True)
    return path


HOSTILE_PLACE = "(1) one:7"


def test_names_that_several_have(hostile):
    fathom("report", "--focus", "\x1b[31mred\x1b]0;title\a\x1b[2J", hostile, code=2)
    json.loads(check_fit(fathom("report", "--focus", HOSTILE_PLACE, "--json", hostile)))


@pytest.mark.parametrize("options", [
    [], ["--detailed", "--top", "100"], ["--native-all", "--width", "1000"], ["--no-inlines"],
    ["--markdown"], ["--focus", HOSTILE_PLACE], ["--focus", HOSTILE_PLACE, "--markdown"],
])  # fmt: skip
def test_reports(hostile, options):
    text = check_fit(fathom("report", *options, hostile))
    assert "(1) one" in text or "?[31mred" in text or "?\\[31mred" in text
    ascii_only = fathom("report", *options, hostile, env=clean_env({"LC_ALL": "C"}))
    assert ascii_only.decode("utf-8" if "--markdown" in options else "ascii")


def test_colours_are_our_own(hostile):
    text = fathom("report", "--color", "always", "--detailed", hostile).decode()
    rest = re.sub("\x1b\\[[0-9]+m", "", text)
    assert rest != text
    check_fit(rest.encode())


def test_comparisons(hostile):
    check_fit(fathom("diff", "--top", "100", hostile, hostile))
    json.loads(check_fit(fathom("diff", "--json", hostile, hostile)))
    check_fit(fathom("check", "--max-slowdown", "1000%", hostile, hostile))


VIEWS = ["--threads", "--processes", "--idle"]


@pytest.mark.parametrize("name", ["json", "speedscope", "chrometrace", "gecko", "cpuprofile"])
def test_formats_of_json(hostile, name):
    options = ["--thread", "100"] if name == "cpuprofile" else []  # the first one, whose function is called so
    text = check_fit(fathom("export", "-f", name, *VIEWS, *options, hostile))
    assert any("\x1b[31mred" in part for part in strings_of(json.loads(text)))  # nothing is lost


def test_the_live_screen_and_dumps_as_json_use_the_same(hostile):
    text = check_fit(fathom("report", "--json", hostile))
    names = {f["name"] for f in json.loads(text)["functions"]}
    assert any("\u202e" in name for name in names)  # nothing is lost


@pytest.mark.parametrize("name", ["collapsed", "raw"])
def test_formats_by_lines(hostile, name):
    for line in check_fit(fathom("export", "-f", name, *VIEWS, hostile)).splitlines():
        assert re.fullmatch(r".* \d+", line), line


@pytest.mark.parametrize("name", ["flamegraph", "callgraph-svg"])
def test_pictures(hostile, name):
    text = fathom("export", "-f", name, hostile)
    check_fit(text, "\n\t")
    minidom.parseString(text)
    assert b"<script>alert" not in text and b"<img" not in text


@pytest.mark.parametrize("name", ["csv", "lines-csv"])
def test_tables(hostile, name):
    head, *rows = csv.reader(io.StringIO(check_fit(fathom("export", "-f", name, hostile)), newline=""), strict=True)
    assert len(rows) > 10
    for row in rows:
        assert len(row) == len(head)
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row), row
    assert any("'=HYPERLINK" in cell for row in rows for cell in row)


def test_graphs(hostile):
    text = check_fit(fathom("export", "-f", "dot", hostile), "\n\t")
    for line in text.splitlines()[4:-1]:
        assert re.fullmatch(r'\t\d+( -> \d+)? \[label="(?:[^"\\]|\\.)*", color="[^"]*"\];', line), line


def test_callgrind(hostile):
    text = check_fit(fathom("export", "-f", "callgrind", hostile))
    for line in text.split("\n\n", 1)[1].splitlines():
        assert re.fullmatch(r"(c?f[lni]=.*|calls=\d+ \d+|\d+ \d+|)", line), line
        assert not re.match(r"c?f[lni]=\(\d", line)


def strings_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from strings_of(part)
    elif isinstance(value, dict):
        yield from strings_of(list(value.items()))


def test_pstats(hostile, tmp_path):
    fathom("export", "-f", "pstats", "-o", tmp_path / "p.prof", hostile)
    names = list(strings_of(marshal.loads((tmp_path / "p.prof").read_bytes())))
    assert len(names) > 10
    for name in names:
        check_fit(name.encode())
    check_fit(fathom("export", "-f", "calls", hostile))


def test_pstats_of_samples(tmp_path):
    """The hostile capture is a trace; this one has nothing but samples, and the same kind of names."""
    subprocess.run([BUILD / "tests" / "known_profile", tmp_path / "k.fathom", "--hostile"], check=True)
    rows = marshal.loads(fathom("export", "-f", "pstats", tmp_path / "k.fathom"))
    for name in strings_of(list(rows)):
        check_fit(name.encode())
    assert any("alert(1)" in name for _, _, name in rows)


def test_pprof_and_otlp(hostile):
    """Strings are clean: terminals of others print them as they are."""
    packed = fathom("export", "-f", "pprof", hostile)
    for raw in (gzip.decompress(packed), fathom("export", "-f", "otlp", hostile)):
        assert b"?[31mred?]0;title??[2J" in raw and b"=HYPERLINK" in raw and b"long" in raw
        assert b"\x1b[" not in raw and b"\x1b]" not in raw
        assert "\u202e" not in raw.decode("utf-8", "replace") and b"\xc2\x9b" not in raw


def test_what_the_viewer_is_fed(hostile, tmp_path):
    fathom("export", "-f", "bundle", "-o", tmp_path / "b.fmview", hostile)
    bundle = Bundle.of_file(tmp_path / "b.fmview")
    assert any("\x1b" in text for text in bundle.strings)  # it never reads them as anything but text
    fathom("export", "-f", "perfetto", "-o", tmp_path / "p.pftrace", hostile)
    assert b"\x1b[31m" not in (tmp_path / "p.pftrace").read_bytes()
    gzip.decompress((tmp_path / "b.fmview").read_bytes())
    done = run([FATHOM, "view", "--html", tmp_path / "v.html", hostile])
    if done.returncode == 0:
        page = (tmp_path / "v.html").read_bytes()
        assert b"\x1b" not in page and b"onerror=alert(2)" not in page
    else:
        check_fit(done.stderr.encode())


NAME = "a\x1b]0;x\a\n\u202eb\x9b31m"


def test_messages(tmp_path):
    """A path, an option, a word: whatever is quoted. The folder is called like that, too."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[tool.fathom]\nrate = '\x1b[31m'\n")
    for words, code in [
        (["report", NAME], 1), (["report", "--" + NAME], 2), ([NAME], 2), (["run", NAME], 2), (["diff", NAME, "x"], 1),
        (["export", "-f", NAME, "x"], 2), (["record", "-o", NAME + "/x", "--", "true"], 2), (["live", NAME], 2),
        (["report", "--history", NAME], 1), (["check", NAME, NAME], 1), (["view", NAME], 1), (["dump", "-p", NAME], 2),
    ]:  # fmt: skip
        fathom(*words, code=code, cwd=folder)
    check_fit(fathom("doctor", env=clean_env({"XDG_CACHE_HOME": str(folder), "PATH": "/usr/bin"})))


def test_results_below_such_a_name(tmp_path):
    script = tmp_path / (NAME + ".py")
    script.write_text("import logging; logging.getLogger('x').warning('w')")
    text = fathom("run", "--python", sys.executable, script.name, cwd=tmp_path)
    assert "All of it is in" in check_fit(text)
    check_fit(fathom("report", "--history", NAME, cwd=tmp_path))
    [results] = tmp_path.glob(".fathom/*/*/profile_results.txt")
    check_fit(results.read_bytes())


LOGGING = r"""
import logging, warnings
name = "l\x1b[31m\u202e\x9b"
logging.getLogger(name).error("m\x1b]0;t\a\u2066 \x85next\nsecond\ttab\x7f \ud800", exc_info=ValueError("\x1b[2J"))
warnings.warn("w\x1b[31m\u202a")
"""


def test_logs(tmp_path):
    (tmp_path / "x.py").write_text(LOGGING)
    r = fathom_run(tmp_path, ["x.py"], python=sys.executable, cwd=tmp_path)
    text = check_fit((r.folder / "logs.log").read_bytes(), "\n\t")
    assert "\\x1b[31m" in text and "\\u202e" in text and "\\u2066" in text and "\\x7f" in text
    assert [record.level for record in r.records] == ["ERROR", "WARNING"]


def test_the_token_is_not_kept(tmp_path):
    token = "open-sesame-0123456789"
    for n, words in enumerate((["--token", token], [f"--token={token}"])):
        done = run([FATHOM, "run", *words, "--listen", "0", "--output-dir", tmp_path / str(n), "true", "--token", "x"])
        assert done.returncode == 0
        [text] = tmp_path.glob(f"{n}/*/*/profile_results.txt")
        assert text.read_text().startswith("fathom run --token" + "= "[n == 0] + "*** --listen 0 ")
        assert text.read_text().splitlines()[0].endswith(" true --token x")
        for path in tmp_path.glob(f"{n}/*/*/*"):
            assert token.encode() not in path.read_bytes(), path
        assert token not in run([BUILD / "tests" / "dump_profile", *tmp_path.glob(f"{n}/*/*/profile.fathom")]).stdout


# Says when it stands where it is to be seen. argv holds a hostile word.
PROGRAM = r"""
import sys, threading
name = "x\x1b[31m\u202e\x9b31m\n" + "y" * 10000
code = compile("def f(wait):\n    while True:\n        wait(0.01)\n", "file\x1b[31m\u2066.py", "exec")
code = code.replace(co_consts=tuple(
    c.replace(co_name=name, **({"co_qualname": name} if hasattr(c, "co_qualname") else {})) if hasattr(c, "co_code") else c
    for c in code.co_consts))
space, never = {}, threading.Event()
exec(code, space)
threading.Thread(target=space["f"], args=(lambda s: never.wait(),), name="t\x1b[31m\u202e", daemon=True).start()
print("ready", flush=True)
space["f"](lambda s: sum(range(1000)))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: Any) -> Iterator[Dict[str, Any]]:
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.py").write_text(PROGRAM)
    words: List[Any] = [
        FATHOM,
        "record",
        "-o",
        folder / "p.fathom",
        "--listen",
        "0",
        "--",
        sys.executable,
        "p.py",
        NAME,
    ]
    with open(folder / "err", "wb") as err:
        child = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=err, env=clean_env())
    assert child.stdout and child.stdout.readline() == b"ready\n"
    [pid] = subprocess.run(["pgrep", "-P", str(child.pid), "python"], stdout=subprocess.PIPE).stdout.split()
    port = re.search(r"fathom live (\d+)", (folder / "err").read_text())
    yield {"pid": pid.decode(), "port": port and port[1]}
    os.kill(int(pid), 9)
    child.wait()


def test_dump(program):
    text = check_fit(fathom("dump", "-p", program["pid"]))
    assert "x?[31m??31m?yyy" in text and max(map(len, text.splitlines())) < 2500
    dumped = json.loads(check_fit(fathom("dump", "--json", "-p", program["pid"])))
    assert any("\u202e" in f["name"] for t in dumped["threads"] for f in t["frames"])


def test_live(program):
    end = time.monotonic() + 60
    names: List[str] = []  # none before the first sample
    while not names and time.monotonic() < end:
        now = check_fit(fathom("live", "--once", "--json", program["port"]))
        names = [f["name"] for f in json.loads(now)["functions"] if "\u202e" in f["name"]]
    assert names
    assert "x?[31m" in check_fit(fathom("live", "--once", program["port"]))
