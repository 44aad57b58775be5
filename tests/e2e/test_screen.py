# SPDX-License-Identifier: Apache-2.0
"""The first screen of `fathom run`, and `report --tree`: what they hold, and that they fit."""

import json
import platform
import re
import subprocess
import textwrap
from typing import Dict, List, NamedTuple

import pytest
from runs import user_env, write_notebook

MAX_LINES = 40


# As much as an ordinary script can have to say: hot lines, many functions, libraries, imports, memory, a leak, threads.
MUCH = """
    import json, re, threading, time, decimal, argparse
    kept, held = [], bytearray(60_000_000)
    def leak():
        kept.append(bytearray(200_000))
    def burn(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end: pass
    def parse():
        return json.loads(json.dumps(list(range(2000))))
    def match():
        return re.sub("a+b", "", "aaaa" * 500)
    def hold():
        return [bytearray(1000) for _ in range(30_000)]
    def step(i):
        parse(); match(); leak(); burn(0.004)
    def worker():
        burn(0.05)
    threads = [threading.Thread(target=worker, name="a thread with a long name %d" % i) for i in range(3)]
    [t.start() for t in threads]
    some = hold()
    for i in range(80):
        step(i)
    [t.join() for t in threads]
    import logging
    logging.warning("something to look at")
"""


@pytest.mark.statistical
def test_the_first_screen_fits_and_names_the_line(run, fathom, tmp_path):
    done = run(MUCH)
    assert done.code == 0
    for width in (80, 100, 120):
        lines = done.report("--summary", "--width", width).splitlines()
        assert len(lines) <= MAX_LINES, "\n".join(lines)
        shown = [x for x in lines if not x.startswith(("  fathom ", "Check logs "))]  # to be copied: never cut
        assert max(map(len, shown)) <= width, "\n".join(lines)
    assert len(done.text.splitlines()) <= MAX_LINES
    text = done.text
    top = re.findall(r"^ +([0-9.]+)% ±([0-9.]+) +(app\.py:\d+) +(.*)$", text[text.index("Top Lines:") :], re.M)
    assert top[0][3] == "while time.thread_time() < end: pass", text
    shares = [float(row[0]) for row in top]
    assert shares == sorted(shares, reverse=True) and len(shares) <= 5
    assert "Check logs" in text and "(1 warning)" in text
    # What a comprehension holds is its function's; what nobody uses is no memory, and nothing to act on.
    assert re.search(r"^ \d\. hold +\d+ MB .*\(app\.py:13\)$|^Most memory: hold \(app\.py:13\)", text, re.M), text
    assert "<listcomp>" not in text and "never used" not in text
    assert re.search(r"^[0-9,]+ samples of Python 3\.\S+, accurate to ±[0-9.]+ points or better", text, re.M)
    commands = re.findall(r"^  (fathom .*?)(?:  #.*)?$", text, re.M)
    assert [c.split(" .fathom")[0] for c in commands] == ["fathom report --tree", "fathom report", "fathom view"]
    # They do what they say: the folder of the run stands for its capture.
    for command in commands[:2]:
        subprocess.run(command.replace("fathom", str(fathom), 1), cwd=tmp_path, shell=True, check=True, env=user_env(), stdout=subprocess.DEVNULL)  # fmt: skip
    assert text.rstrip().splitlines()[-1].startswith("All of it is in .fathom/app/")


@pytest.mark.parametrize(
    "beside, end", [(0, r", all of it at line 3\."), (9, r", line 3 alone 3[0-9] MB\."), (25, r"\.")]
)
def test_most_memory_names_the_line(run, beside, end):
    """Of a function that has most of it the line is the one to change, where one has most of that."""
    text = run(
        f"def make():\n    other = bytearray({beside}_000_000)\n    big = bytearray(35_000_000)\n"
        "    return len(other) + len(big)\nmake()\n"
    ).text
    assert re.search(rf"^Most memory: make \(app\.py:1\), [0-9]+ MB at its peak{end}$", text, re.M), text


def test_the_rest_is_asked_for(run):
    done = run(MUCH, "--full")
    whole = done.text
    assert "Functions by Module" in whole and "  Line │Python │native" in whole and "Time by Kind" in whole
    assert (done.results / "profile_results.txt").read_text().count("\n") > MAX_LINES
    silent = run("pass", "--full", "--quiet")
    assert silent.code == 0 and silent.text == ""


@pytest.mark.parametrize("options", [["--tree", "--json"], ["--summary", "--full"], ["--summary", "--tree"]])
def test_one_form_at_a_time(fathom, options):
    done = subprocess.run([fathom, "report", *options, "x.fathom"], stderr=subprocess.PIPE, text=True)
    assert (
        done.returncode == 2 and done.stderr == "fathom: give one of --json, --markdown, --summary, --full and --tree\n"
    )


# ---- the call tree ----


class Row(NamedTuple):
    depth: int
    name: str
    percent: float


def rows(text: str) -> List[Row]:
    """The tree as printed."""
    found = re.findall(r"^ *([0-9.]+)% +[0-9.]+ s (?: *[0-9.]+ s )?((?:[│ ]  )*)(├─ |└─ |)(\S.*)$", text, re.M)
    return [Row(len(bars) // 3 + bool(branch), name, float(share)) for share, bars, branch, name in found]


CALLS = """
    import sys, time
    sys.path.insert(0, "site-packages")
    def burn(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end: pass
    import library
    def left():
        burn(0.3)
        library.call(burn, 0.2)
    def right():
        library.itself(0.3)
    def again(n):
        if n: again(n - 1)
        else: burn(0.2)
    left(); right(); again(20)
"""
# Its own work is in a module of its own, as packages have it, and it calls back.
LIBRARY = {
    "__init__.py": "from ._inner import call, itself\nfrom . import _slow\n",
    "_inner.py": """
        import time
        def itself(seconds):
            deeper(seconds)
        def deeper(seconds):
            end = time.process_time() + seconds
            while time.process_time() < end: pass
        def call(function, *args):
            return function(*args)
    """,
    "_slow.py": "from ._inner import itself\nitself(0.2)\n",
}


@pytest.mark.statistical
def test_the_tree_is_that_of_the_users_code(run, tmp_path):
    package = tmp_path / "site-packages" / "library"
    package.mkdir(parents=True)
    for name, text in LIBRARY.items():
        (package / name).write_text(textwrap.dedent(text))
    text = run(CALLS, "--cpu").report("--tree", "--width", "100")
    tree = rows(text)
    assert tree[0] == Row(0, "the program", 100.0)
    where: Dict[str, Row] = {}
    path: List[str] = []
    for row in tree:
        path[row.depth :] = [re.sub(r" \(app\.py:\d+\)$", "", row.name)]
        where["/".join(path[1:])] = row
    # Seconds by construction; what else there is is Python's start. Shares to each other, as that is not known.
    expected = {
        "<module>": 1.2,
        "<module>/left": 0.5,
        "<module>/left/burn": 0.3,
        "<module>/left/library": 0.2,
        "<module>/left/library/burn": 0.2,  # its two modules are one row, and what it calls of ours is below it
        "<module>/right": 0.3,
        "<module>/right/library": 0.3,
        "<module>/again": 0.2,  # twenty calls, one row
        "<module>/again/burn": 0.2,
        "<module>/(imports) library": 0.2,
    }
    found = {re.sub(r" [0-9.]+%$", "", name): row.percent for name, row in where.items()}
    whole = found["<module>"]
    for name, seconds in expected.items():
        assert name in found, text
        # Five standard errors of 1,200 samples, and a clock tick.
        assert found[name] / whole == pytest.approx(seconds / 1.2, abs=0.08), (name, text)
    assert not any("deeper" in name or "_inner" in name or "again/again" in name for name in found), text
    # A row from 1 % on; the newest Pythons start in less.
    assert whole > 98.8 or any("Python's own start and end" in name for name in found), text


@pytest.mark.statistical
@pytest.mark.parametrize("how", ["module", "script of an environment"])
def test_a_package_that_is_run_is_the_users_own(fathom, some_python, tmp_path, how):
    """Nothing here is outside of site-packages: the package that runs is what the user wants to know about."""
    package = tmp_path / "site-packages" / "tool"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "core.py").write_text(
        "import time\ndef work():\n    end = time.process_time() + 0.5\n    while time.process_time() < end: pass\n"
    )
    (package / "__main__.py").write_text("from tool.core import work\nwork()\n")
    (tmp_path / "bin").mkdir()
    starter = tmp_path / "bin" / "tool"
    starter.write_text(f"#!{some_python.path}\nfrom tool.core import work\nwork()\n")
    starter.chmod(0o755)
    target = ["-m", "tool"] if how == "module" else [str(starter)]
    done = subprocess.run(
        [fathom, "run", *(["--python", some_python.path] if how == "module" else []), *target], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env={**user_env(), "PYTHONPATH": str(tmp_path / "site-packages")}, check=True, timeout=60,
    )  # fmt: skip
    top = done.stdout[done.stdout.index("Top Lines:") :].splitlines()[1]
    assert re.match(r" +[0-9.]+% ±\S+ +core\.py:4  while time\.process_time\(\) < end: pass$", top), done.stdout
    assert re.search(r"^Line 4 of core\.py takes|▸ Line 4 of core\.py takes", done.stdout, re.M), done.stdout
    assert re.search(r"^ \d\. work .*\(core\.py:2\)$", done.stdout, re.M), done.stdout


@pytest.mark.statistical
@pytest.mark.parametrize("whose", ["the tool's", "the user's"])
def test_a_tool_with_a_file_of_the_users(fathom, some_python, tmp_path, whose):
    """A configuration file does not make the tool a stranger; a test suite that has the time does."""
    package = tmp_path / "site-packages" / "tool"
    package.mkdir(parents=True)
    burn = "import time\ndef burn(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n"
    (package / "__init__.py").write_text("")
    (package / "core.py").write_text(burn)
    itself, theirs = (0.5, 0.01) if whose == "the tool's" else (0.2, 0.5)
    (package / "__main__.py").write_text(
        f"from tool.core import burn\nimport conf\nconf.burn({theirs})\nburn({itself})\n"
    )
    (tmp_path / "conf.py").write_text(burn)
    done = subprocess.run(
        [fathom, "run", "--python", some_python.path, "-m", "tool"], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env={**user_env(), "PYTHONPATH": str(tmp_path / "site-packages")}, check=True, timeout=60,
    )  # fmt: skip
    top = done.stdout[done.stdout.index("Top Lines:") :].splitlines()[1]
    is_tools = whose == "the tool's"
    assert ("core.py:4" if is_tools else "conf.py:4") in top, done.stdout
    assert ("(core.py:2)" in done.stdout) == is_tools, done.stdout


@pytest.mark.parametrize("option, what", [
    ("--cpu", "Fathom took N% of the CPU time."),
    ("--memory=exact", "sampling took N% of the CPU time, without the cost of counting every allocation."),
    ("--trace", "sampling took N% of the CPU time, without the cost of recording every call."),
])  # fmt: skip
def test_a_cost_that_nobody_measures_is_said(run, option, what):
    """Exact mode took 40 % of the CPU time of a solver of Sudokus, beside the 1.6 % of its samples."""
    text = " ".join(run("t = 0\nfor i in range(3_000_000): t += i & 7\n", option).text.split())
    assert re.sub(r"[0-9.]+%", "N%", re.search(r"or better; (.*?\.)(?: |$)(?=[A-Z]|fathom)", text)[1]) == what, text


def test_how_long_threads_were_held(fathom, some_python, tmp_path):
    """Of a program that we came to, what Fathom took is no CPU time of the program's."""
    out = tmp_path / "p.fathom"
    code = "import time\nprint('ready', flush=True)\nend = time.monotonic() + 60\nwhile time.monotonic() < end: sum(range(100))"
    with subprocess.Popen([some_python.path, "-c", code], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        subprocess.run([fathom, "record", "-p", str(program.pid), "-d", "0.7", "-o", out], check=True)
        program.kill()
    text = subprocess.run([fathom, "report", "--summary", out], stdout=subprocess.PIPE, text=True, check=True).stdout
    report = json.loads(subprocess.run([fathom, "report", "--json", out], stdout=subprocess.PIPE, check=True).stdout)
    held = re.search(r"or better; threads were stopped for ([0-9.]+)% of the wall time\.", " ".join(text.split()))
    assert held and "of the CPU time." not in text[text.index(" samples") :], text
    assert 0 < float(held[1]) == pytest.approx(100 * report["overhead_s"] / report["wall_s"], abs=0.051), text


# Children, waited for, each of which burns what is asked of it.
FAMILY = """
    import subprocess, sys, time
    burn = "import time\\nend = time.process_time() + %s\\nwhile time.process_time() < end: pass"
    exec(burn % {own})
    for seconds in {children}:
        subprocess.run([sys.executable, "-S", "-c", burn % seconds], check=True)
"""


@pytest.mark.statistical
@pytest.mark.parametrize("own, child, is_told", [(0.15, 0.06, True), (0.5, 0.3, True), (1.5, 0.0, False)])
def test_what_was_not_followed_is_told_by_its_share(run, own, child, is_told):
    """A third of a short program is as much as a third of a long one. The report has it with the way to see it."""
    done = run(FAMILY.format(own=own, children=[child]), "--no-children")
    pattern = r"Not seen: ([0-9.]+) of ([0-9.]+) s of CPU time, (?:at threads' ends or )?in processes not followed(?:\.|, and more)"
    told = re.search(pattern, " ".join(done.text.split()))
    assert bool(told) == is_told, done.text
    report = json.loads(done.report("--json"))
    rows = [c for c in report["coverage"] if " s of CPU time" in c["what"] and "not followed" in c["why"]]
    assert len(rows) == is_told, report["coverage"]
    if told:
        unseen_s, used_s = float(told[1]), float(told[2])
        assert child <= unseen_s <= used_s - own, done.text
        assert float(rows[0]["what"].split()[0]) == pytest.approx(unseen_s, abs=0.006)


@pytest.mark.unaccounted("a thread that no tick may interrupt")
@pytest.mark.statistical
def test_a_thread_that_was_never_sampled_is_told_of(run):
    """Its clock is known, and so the program's time is: what is missing is what samples do not show."""
    done = run(
        """
        import signal, threading, time
        def burn(seconds):
            end = time.thread_time() + seconds
            while time.thread_time() < end: pass
        def closed():
            burn(0.3)
            time.sleep(0.2)  # who waits is looked at, and so its clock is known
        burn(0.3)
        thread = threading.Thread(target=closed)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])  # the thread inherits that: it gets no sample at all
        thread.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGURG])
        thread.join()
        """,
        "--cpu",
    )
    report = json.loads(done.report("--json"))
    assert sum(f["total_s"] for f in report["functions"] if f["name"] == "closed") < 0.05
    told = [re.match(r"([0-9.]+) of [0-9.]+ s of CPU time$", gap["what"]) for gap in report["coverage"]]
    assert [float(match[1]) for match in told if match] == [pytest.approx(0.3, abs=0.06)], report["coverage"]
    assert re.search(r"^Not seen: 0\.[23]\d of 0\.\d+ s of CPU time", done.text, re.M), done.text


def test_code_that_doctest_made_has_its_whole_name(run):
    done = run("""
        import doctest
        def spin(n):
            \"\"\"
            >>> spin(4_000_000)
            \"\"\"
            for i in range(n): i * i
        doctest.testmod()
    """, "--cpu")  # fmt: skip
    assert re.search(r"^ \d\. <doctest __main__\.spin\[0\]> ", done.text, re.M), done.text


# Without a libc: it uses 0.4 s of CPU time and ends.
STATIC = """
static long call(long number, long a, long b) {
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return result;
}
void _start(void) {
	struct { long s, ns; } now = { 0, 0 };
	for (volatile long i = 0; now.s == 0 && now.ns < WANTED; i++)
		if (i % 10000 == 0) call(228, 2, (long)&now); /* clock_gettime, of the process */
	call(60, 0, 0);
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of system calls are x86-64's")
def test_what_the_program_used_itself_is_not_its_childrens(run, tmp_path):
    """A Python that becomes a program which cannot be followed: the kernel knows that no child used the rest."""
    (tmp_path / "static.c").write_text(STATIC)
    build = [
        "gcc",
        "-O1",
        "-static",
        "-nostdlib",
        "-DWANTED=600000000",
        "-o",
        tmp_path / "static",
        tmp_path / "static.c",
    ]
    subprocess.run(build, check=True)
    code = (
        f"import os, time\nwhile time.process_time() < 0.2: pass\nos.execv({str(tmp_path / 'static')!r}, ['static'])\n"
    )
    done = run(code, "--cpu")
    told = " ".join(done.text.split())
    assert re.search(
        r"Not seen: 0\.[34]\d? of 0\.6\d? s of CPU time, in the program itself, outside its samples", told
    ), told
    (row,) = [c for c in json.loads(done.report("--json"))["coverage"] if " s of CPU time" in c["what"]]
    assert "statically linked" in row["why"] and "child" not in row["why"]


def test_a_line_that_may_be_nothing_is_no_top_line(run):
    """At 40 samples a second single samples are more than a percent, give or take two."""
    lines = "".join(f"    for k in range(9_000): t += {i}\n" for i in range(60))
    done = run(
        "import time\ndef f(t):\n"
        + lines
        + "    for k in range(500_000): t += k\nwhile time.process_time() < 1: f(0)\n",
        "--cpu",
        "--rate",
        "40",
    )
    rows = re.findall(r"^ +([0-9.]+)% ±([0-9.]+) +app\.py:\d+ ", done.text, re.M)
    assert rows and all(float(share) >= float(pm) for share, pm in rows), done.text
    assert json.loads(done.report("--json"))["samples"] >= 20


@pytest.mark.statistical
def test_mere_callers_make_room(run):
    """Seven ways in, each with the time of the next: the six rows are for those who have lines of their own."""
    source = "import time\ndef burn(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n"
    source += "".join(
        f"def part{i}():\n    burn(0.06)\n    t = 0\n    for k in range(400_000): t += k\n" for i in range(5)
    )
    source += "def way0():\n" + "".join(f"    part{i}()\n" for i in range(5))
    source += "".join(f"def way{i}(): way{i - 1}()\n" for i in range(1, 7)) + "way6()\n"
    done = run(source, "--cpu")
    text = done.text[done.text.index("Functions by Total Runtime") :]
    names = re.findall(r"^ \d\. (\S+) ", text, re.M)
    assert "without mere callers" in text and len(names) == 6, done.text
    assert not {f"way{i}" for i in range(1, 7)} & set(names) and "burn" in names, done.text
    full = done.report("--full")
    assert "way6" in full and "way5" in full, "the report has them all"


@pytest.mark.statistical
def test_what_a_library_generates_is_part_of_it(run, tmp_path):
    """The constructor of a data class is code that was executed as "<string>", which tells nobody anything."""
    package = tmp_path / "site-packages" / "shapes"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import dataclasses, time\n@dataclasses.dataclass\nclass Point:\n"
        + "".join(f"    x{i}: int\n" for i in range(30))
        + "def draw():\n    end = time.process_time() + 0.5\n    while time.process_time() < end:\n"
        "        for _ in range(50): Point(*range(30))\n"
    )
    done = run("import sys\nsys.path.insert(0, 'site-packages')\nimport shapes\nshapes.draw()\n", "--cpu")
    generated = [f["total_s"] for f in json.loads(done.report("--json"))["functions"] if f["file"] == "<string>"]
    assert max(generated) > 0.1, "or nothing is shown by this"
    for text in (done.text, done.report("--tree", "--width", "100")):
        assert "<string>" not in text and re.search(r"\bshapes\b", text), text


@pytest.mark.statistical
def test_a_compiled_package_behind_a_script(fathom, some_python, tmp_path):
    """black is made by mypyc: the first Python code that its script leads to is a library that it calls."""
    place = tmp_path / "site-packages"
    (place / "helper").mkdir(parents=True)
    (place / "helper" / "__init__.py").write_text(
        "import time\ndef call():\n    end = time.process_time() + 0.5\n    while time.process_time() < end: pass\n"
    )
    (tmp_path / "core.c").write_text('void enter(void (*f)(void)) { f(); __asm__ volatile(""); }\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-o", place / "core.so", tmp_path / "core.c"], check=True)
    (tmp_path / "bin").mkdir()
    starter = tmp_path / "bin" / "tool"
    starter.write_text(
        f"#!{some_python.path}\nimport ctypes, helper\nenter = ctypes.CDLL({str(place / 'core.so')!r}).enter\n"
        "enter(ctypes.CFUNCTYPE(None)(helper.call))\n"
    )
    starter.chmod(0o755)
    done = subprocess.run(
        [fathom, "run", "--cpu", str(starter)], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True, timeout=60,
        env={**user_env(), "PYTHONPATH": str(place)},
    )  # fmt: skip
    assert re.search(
        r"▸ Line 4 of tool takes \d+% of the CPU time, .* in helper\.", " ".join(done.stdout.split())
    ), done.stdout


@pytest.mark.statistical
def test_cells_are_called_as_in_jupyter(run, tmp_path):
    cells = [
        "import time",
        "def burn(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass",
        "burn(0.4)",
    ]
    write_notebook(tmp_path / "n.ipynb", cells)
    done = run(None, name="n.ipynb")
    assert re.search(r"^ \d\. cell 3 +[0-9.]+% .*\(n\.ipynb \[cell 3\]:1\)$", done.text, re.M), done.text
    assert "▸ Line 3 of n.ipynb [cell 2] takes " in done.text, done.text
    assert re.search(r"─ cell 3 \(n\.ipynb \[cell 3\]:1\)$", done.report("--tree"), re.M)
