# SPDX-License-Identifier: Apache-2.0
"""`fathom report --focus` and `--markdown`: the report's own figures of one thing, and of the whole in 8 KB."""

import json
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from capture import BUILD, Python
from runs import Run, run_script

FATHOM = str(BUILD / "fathom")
MAX_BYTES = 8192
SCREEN = 50  # lines


def fathom(*words: Any, code: int = 0) -> str:
    done = subprocess.run(
        [FATHOM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert done.returncode == code, done.stderr
    assert code == 0 or not done.stdout
    return (done.stderr if code else done.stdout).decode("utf-8")  # strict


def focus(capture: Path, what: str, *options: str) -> Dict[str, Any]:
    found: Dict[str, Any] = json.loads(fathom("report", "--json", "--focus", what, *options, capture))
    assert found["schema"] == "fathom.focus/1"
    return found


def make(folder: Path, tool: str, *words: str) -> Path:
    path = folder / f"{tool}{''.join(words)}.fathom"
    subprocess.run([BUILD / "tests" / tool, path, *words], check=True)
    return path


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("known"), "known_profile")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> List[Path]:
    """Small, hostile, monstrous."""
    folder = tmp_path_factory.mktemp("captures")
    made = [make(folder, "known_profile", *words) for words in ([], ["--hostile"], ["--monstrous"])]
    return [*made, make(folder, "hostile_profile")]


SEVERAL = """
import threading, time
kept = []
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(2000))
    kept.append(bytearray(3_000_000))
def side():
    burn(0.05)
    time.sleep(0.05)
threading.Thread(target=side).start()
""" + "\n".join(f"class C{n}:\n    def twin(self):\n        burn(0.03)\nC{n}().twin()\n" for n in range(12))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, some_python: Python) -> Path:
    """Twelve functions of one name."""
    done = run_script(tmp_path_factory.mktemp("several"), some_python, SEVERAL)
    assert done.code == 0, done.errors
    return done.results / "profile.fathom"


def rows(found: Dict[str, Any], key: str) -> List[Any]:
    return [(row.get("name", row["line"]), row["line"], row["total_s"]) for row in found[key]]


def test_a_recursive_function_has_the_known_figures(known: Path) -> None:
    """tests/support/known.h: a 4 s (and 0.3 s waiting), b 3 s, and d 0.5 s, which is in work() three times."""
    found = focus(known, "App.work")
    assert (found["name"], found["file"], found["line"], found["kind"]) == (
        "App.work",
        "/home/user/app.py",
        20,
        "python",
    )
    assert (found["cpu_s"], found["total_s"], found["self_s"], found["own_s"]) == (10, 7.5, 4.5, 7.5)
    assert (found["python_s"], found["native_s"], found["gil_wait_s"]) == (4.5, 3, 0.3)
    assert rows(found, "callers") == [("main", 11, 7.5)]
    assert rows(found, "callees") == [("known_kernel", 0, 3)]
    assert [(r["line"], r["total_s"], r["own_s"]) for r in found["lines"]] == [(21, 4, 4), (22, 3, 3), (23, 0.5, 0.5)]
    assert found["lines"][1]["source"] == "kernel(self.data)"
    assert [(r["name"], r["total_s"], r["gil_wait_s"]) for r in found["threads"]] == [("MainThread", 7.5, 0.3)]


def test_a_line_has_what_it_calls(known: Path) -> None:
    """Line 21 is in a, and twice in d, where it calls the function that it is in."""
    found = focus(known, "app.py:21")
    assert (found["name"], found["kind"], found["total_s"], found["self_s"], found["own_s"]) == ("", "line", 4.5, 4, 4)
    assert rows(found, "callers") == [("main", 11, 4.5)] and rows(found, "callees") == [("App.work", 20, 0.5)]
    outer = focus(known, "app.py:11")
    assert outer["total_s"] == 7.5 and rows(outer, "callees") == [("App.work", 20, 7.5)]
    assert rows(outer, "callers") == [("", 0, 7.5)] and outer["callers"][0]["kind"] == "none"


def test_one_function_has_many_names(known: Path) -> None:
    found = focus(known, "App.work")
    for word in ("work", "app.App.work", "app.py:20", "/home/user/app.py:20", "user/app.py:20"):
        assert focus(known, word) == found, word
    by_old_name = fathom("report", "--function", "work", known)
    assert by_old_name == fathom("report", "--focus", "work", known)
    for word in ("pp.work", "ork", "pp.py:20", "app.py:", ":20", ""):
        assert "is called" in fathom("report", "--focus", word, known, code=2), word


def test_figures_are_the_reports_and_add_up(known: Path, several: Path) -> None:
    n = 0
    for capture in (known, several):
        report = json.loads(fathom("report", "--json", capture))
        own_of = {(line["file"], line["line"]): line for line in report["lines"]}
        for function in report["functions"][:25]:
            place = "%s:%d" % (function["file"], function["line"]) if function["line"] else function["name"]
            done = subprocess.run(
                [FATHOM, "report", "--json", "--focus", place, "--top", "1000", capture], stdout=subprocess.PIPE
            )
            if done.returncode == 2:
                continue  # of native code there may be several of that name
            found = json.loads(done.stdout)
            if found["name"] != function["name"]:
                continue  # another one begins there, too
            n += 1
            for key in ("total_s", "self_s", "self_plus_minus_s", "peak_bytes", "alloc_bytes"):
                assert found[key] == function[key], (key, function)
            assert found["plus_minus_s"] == function["total_plus_minus_s"]
            for key in ("callers", "lines", "threads"):
                assert sum(row["total_s"] for row in found[key]) == pytest.approx(found["total_s"]), key
                assert sum(row["wait_s"] for row in found[key]) == pytest.approx(found["wait_s"]), key
            called = sum(row["total_s"] for row in found["callees"])
            assert called + found["self_s"] == pytest.approx(found["total_s"])
            for line in found["lines"]:
                own = own_of.get((found["file"], line["line"]), {"total_s": 0, "peak_bytes": 0})
                assert (line["own_s"], line["peak_bytes"]) == (own["total_s"], own["peak_bytes"])
    assert n > 15


def test_lists_are_cut_and_say_so(known: Path) -> None:
    found = focus(known, "main", "--top", "1")
    for key in ("lines", "callers", "callees", "threads"):
        assert len(found[key]) == 1 and found["more_" + key] == 1
    text = fathom("report", "--focus", "main", "--top", "1", known)
    assert text.count("1 more (--top 2 lists them)") == 4
    assert "1 more; `--top 2` lists them" in fathom("report", "--focus", "main", "--markdown", "--top", "1", known)


def test_what_is_not_known_gets_the_nearest(known: Path) -> None:
    assert "  App.work  /home/user/app.py:20\n" in fathom("report", "--focus", "wrk", known, code=2)
    near = fathom("report", "--focus", "app.py:24", known, code=2).splitlines()
    assert near[1:3] == ["  /home/user/app.py:23", "  /home/user/app.py:22"]
    assert len(fathom("report", "--focus", "zzzzzzzzzzzz", known, code=2).splitlines()) == 1
    both = fathom("report", "--focus", "main", "--tree", known, code=2)
    assert "--focus is a separate report" in both
    assert fathom("report", "--focus", "main", "nothing.fathom", code=1)


def test_names_that_several_have_are_listed(several: Path) -> None:
    lines = fathom("report", "--focus", "twin", several, code=2).splitlines()
    assert lines[0].startswith("fathom: 12 functions or lines fit 'twin'") and len(lines) == 11
    assert re.fullmatch(r"  C\d+\.twin  /.*app\.py:\d+", lines[1])
    assert "burn" in [row["name"] for row in focus(several, "C3.twin")["callees"]]
    assert focus(several, lines[1].split()[1])["name"] == lines[1].split()[0]
    assert [row["name"] for row in focus(several, "burn")["threads"]] != []
    text = fathom("report", "--focus", "burn", several)
    assert "Threads:" in text and " memory " in text and re.search(r"7 more \(--top 13 lists them\)", text)


def test_one_screen_and_eight_kilobytes(captures: List[Path]) -> None:
    for capture in captures:
        functions = json.loads(fathom("report", "--json", capture))["functions"]
        for function in functions[:1]:
            place = "%s:%d" % (function["file"], function["line"])
            for word in (function["name"], place):
                if not word or "\0" in word or len(word) > 10_000:
                    continue
                words = ["report", "--focus", word, capture]
                done = subprocess.run([FATHOM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                assert done.returncode in (0, 2) and done.stderr.count(b"\n") < 13, done.stderr
                if done.returncode == 0:
                    assert done.stdout.count(b"\n") <= SCREEN
                    check_markdown(fathom("report", "--markdown", "--focus", word, capture))


def check_markdown(text: str) -> None:
    """It holds its limit, and nothing in it means what a name wants it to mean."""
    assert len(text.encode()) <= MAX_BYTES
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", text)
    rest = []
    for part in re.split(r"^```python\n(.*?)^```\n", text, flags=re.M | re.S)[::2]:
        rest += re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "CODE", part).splitlines()
    assert "```" not in "\n".join(rest)
    columns = 0
    for line in rest:
        assert not re.search(r"(?<!\\)[`<>\[\]]|@\w|&(?!lt;|gt;|amp;)", line), line
        bars = len(re.findall(r"(?<!\\)\|", line))
        assert bars in (0, columns) or not columns, line
        columns = bars


def test_the_short_report_keeps_its_limit(captures: List[Path]) -> None:
    for capture in captures:
        check_markdown(fathom("report", "--markdown", capture))
        check_markdown(fathom("export", "-f", "markdown", capture))
        check_markdown(fathom("diff", "--markdown", "--detailed", capture, captures[0]))
        check_markdown(fathom("diff", "--markdown", "--detailed", captures[0], capture))


def test_a_wide_program_is_told_in_eight_kilobytes(run: Callable[..., Run]) -> None:
    """Long lines, long names, much memory: every section has more than its share."""
    name = "name_" + 90 * "x"
    functions = [
        f"def {name}{n}():\n    return sum(i * {n} for i in range(60_000)), '{'`|<' * 60}', bytearray(11_000_000)\n"
        for n in range(9)
    ]
    calls = "kept = []\n" + "".join(f"kept.append([{name}{n}() for _ in range(6)])\n" for n in range(9))
    done = run("\n".join(functions) + calls)
    assert done.code == 0, done.errors
    text = done.report("--markdown")
    check_markdown(text)
    assert len(text) > MAX_BYTES / 2 and text.rstrip().splitlines()[-1].startswith("- `fathom diff")


def test_the_short_report_says_what_the_long_one_does(known: Path) -> None:
    text = fathom("report", "--markdown", known)
    report = json.loads(fathom("report", "--json", known))
    assert "- " + report["verdict"][0]["text"] in text
    block = text.partition("```python\n")[2].partition("```")[0].splitlines()
    assert block == [
        "   19 |             | ",
        "   20 |             |     def work(self, n):",
        "   21 |  40.0% ±1.0 |         if n: self.work(n - 1)",
        "   22 |  30.0% ±0.9 |         kernel(self.data)",
        "   23 |   5.0% ±0.4 |         return [x * x for x in self.data]",
    ]
    assert "| 75.0% ±0.8 | 75.0% | `App.work` | `app.py:20` |" in text
    command = re.findall(r"^- `fathom (.*--focus.*)` ", text, re.M)[0].split()
    assert fathom(*command).startswith("### `App.work`\n")


def test_run_prints_it(run: Callable[..., Run]) -> None:
    done = run(textwrap.dedent("print('hello')\nsum(i * i for i in range(3_000_000))\n"), "--markdown")
    assert done.code == 0, done.errors
    hello, _, text = done.text.partition("\n")
    assert hello == "hello" and text.startswith("\n# Profile of `")
    assert "sum(i * i for i in range(3\\_000\\_000))" not in text and "sum(i * i for" in text
    check_markdown(text.partition("\nAll of it is in")[0])
