# SPDX-License-Identifier: Apache-2.0
"""Notebooks: cells in order in one namespace, named in reports and tracebacks, with their times."""

import json
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import Capture, Python
from guest import FATHOM, clean_env, run, some_pythons
from runs import BURN, fathom_run, one_python, python_with, write_notebook

each_python = True  # conftest: chosen here


def cells_of(results: Any) -> Dict[int, Dict[str, Any]]:
    return {c["cell"]: c for c in results.report["cells"]}


@pytest.mark.statistical
def test_plain_python(tmp_path: Path) -> None:
    """Oldest and newest Python, no IPython needed. The hot line, its cell and its text are known."""
    for python in some_pythons():
        check_plain(python, tmp_path / str(python))


def check_plain(python: Python, tmp_path: Path) -> None:
    folder = tmp_path / "my wörk"
    folder.mkdir(parents=True)
    (folder / "beside.py").write_text("value = 'imported'\n")
    (folder / "data.txt").write_text("read from beside")
    notebook = write_notebook(
        folder / "größe 1.ipynb",
        [
            BURN.strip(),
            "",  # has no number in Jupyter
            "import asyncio, sys, warnings, beside\nprint(sys.argv[1:], __name__, beside.value, open('data.txt').read())",
            "def hot():\n    pass\n    burn(0.4)\nhot()\n",
            "burn(0.1)\nawait asyncio.sleep(0.15)\nasync def f(): return 'awaited'\nawait f()",
            "warnings.warn('in a cell')\nprint(input())\n[x for x in range(3)]",
            "display('shown', 2)\n5;",
            "print(_, hot.__module__, '__file__' in globals())",
        ],
    )
    results = fathom_run(tmp_path, [notebook, "an arg", "--flag"], python=python.path, input="typed\n", cwd=tmp_path)
    done = results.done
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['an arg', '--flag'] __main__ imported read from beside",
        "'awaited'",
        "typed",
        "[0, 1, 2]",
        "'shown'",
        "2",
        "[0, 1, 2] __main__ False",
    ]
    name = "größe 1.ipynb"
    # Inclusive time of the cells' own lines: each burns a known amount of CPU.
    hot = [f for f in results.report["functions"] if f["name"] == "hot"]
    assert [f["file"] for f in hot] == [name + " [cell 3]"] and hot[0]["total_s"] == pytest.approx(0.4, abs=0.1)
    modules = {f["file"]: f["total_s"] for f in results.report["functions"] if f["name"] == "<module>"}
    assert modules[name + " [cell 4]"] == pytest.approx(0.1, abs=0.06)
    lines = [line for line in results.report["lines"] if line["file"] == name + " [cell 1]"]
    assert sum(line["total_s"] for line in lines) == pytest.approx(0.5, abs=0.12)
    stacks = [";".join(frames) for frames, _ in results.capture.collapsed()]
    assert any("hot (%s [cell 3]:3);burn (%s [cell 1]:" % (name, name) in stack for stack in stacks)
    text = (results.folder / "profile_results.txt").read_text()
    assert (
        "sum(range(2000))" in text
        and "_notebook.py:" not in text.partition("Lines of your code")[2].partition("How")[0]
    )

    cells = cells_of(results)
    assert list(cells) == [1, 2, 3, 4, 5, 6, 7] and {c["status"] for c in cells.values()} == {"ok"}
    # CPU by the process's own clock; wall includes the sleep.
    assert 0.4 <= cells[3]["cpu_s"] < 0.6 and cells[3]["wall_s"] >= cells[3]["cpu_s"] - 0.02
    assert 0.1 <= cells[4]["cpu_s"] < 0.25 and cells[4]["wall_s"] >= 0.25
    assert cells[3]["first_line"] == "def hot():" and "def hot():" in text
    (record,) = results.records
    assert (record.file, record.line) == (name + " [cell 5]", 1)
    assert (results.folder / name).read_text() == notebook.read_text()


MAGICS = [
    "%matplotlib inline\nimport os\n" + BURN,
    "\n\nfiles = !echo one; echo two\n!echo shell {files[1]}\n!echo home $HOME\nburn(0.1)",
    "%%time\nburn(0.2)\n'timed'",
    "%%capture out\nprint('hidden')\nburn(0.2)",
    "print(out.stdout.strip())\n%timeit -n1 -r1 burn(0.001)\n%time x = 5\nx",
    "%%bash\necho from bash",
    "%%writefile %s\ncontent",
    "get_ipython().run_line_magic('pwd', '')",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2]);\nplt.show()",
]


@pytest.mark.statistical
def test_magics(tmp_path: Path) -> None:
    python = python_with("IPython", "matplotlib")
    cells = [c.replace("%s", str(tmp_path / "written")) if "writefile" in c else c for c in MAGICS]
    notebook = write_notebook(tmp_path / "magic.ipynb", cells)
    env = clean_env({"IPYTHONDIR": str(tmp_path / "ipython"), "MPLCONFIGDIR": str(tmp_path / "mpl"), "HOME": "/home/x"})
    results = fathom_run(tmp_path, [notebook], python=python, env=env)
    out = results.done.stdout
    assert results.done.returncode == 0, results.done.stderr
    for text in (
        "shell two\nhome /home/x\n",
        "'timed'\n",
        "hidden\n",
        "from bash\n",
        "per loop",
        "\n5\n",
        repr(str(tmp_path)),
    ):
        assert text in out, (text, out)
    assert out.count("hidden") == 1 and (tmp_path / "written").read_text() == "content\n"
    files = {f["file"]: f["total_s"] for f in results.report["functions"] if f["name"] == "<module>"}
    for number, seconds in ((2, 0.1), (3, 0.2), (4, 0.2)):
        assert files["magic.ipynb [cell %d]" % number] == pytest.approx(seconds, abs=0.1), number
    stacks = [";".join(frames) for frames, _ in results.capture.collapsed()]
    for frame in ("<module> (magic.ipynb [cell 2]:6)", "(magic.ipynb [cell 3]:2)", "(magic.ipynb [cell 4]:3)"):
        assert any(frame + ";burn" in stack for stack in stacks), frame
    assert not results.records, results.records


def test_magics_without_ipython(tmp_path: Path) -> None:
    """A clear line for each thing left out, and the rest runs."""
    python = next(p for p in some_pythons() if run([p.path, "-c", "import IPython"]).returncode != 0)
    cells = [
        "%matplotlib inline\nx = 10\ny = (x\n  % 3)\ntext = '''\n%not magic\n!nor this\n'''\nprint(y, len(text))",
        "if x:\n    !pip install \\\n       something\n    print('after')\nx?",
        "%%time\nprint('timed')",
        "%%capture\nprint('not captured')",
        "%%bash\nrm -rf nothing",
        "print('end')",
    ]
    results = fathom_run(tmp_path, [write_notebook(tmp_path / "n.ipynb", cells)], python=python.path)
    assert results.done.returncode == 0, results.done.stderr
    assert results.done.stdout.splitlines() == ["1 22", "after", "timed", "not captured", "end"]
    notes = results.done.stderr.splitlines()
    assert [n.partition(": skipped")[0] for n in notes] == [
        "fathom: n.ipynb [cell 1] line 1",
        "fathom: n.ipynb [cell 2] line 2",
        "fathom: n.ipynb [cell 2] line 5",
        "fathom: n.ipynb [cell 4] line 1",
        "fathom: n.ipynb [cell 5]",
    ]
    assert all("needs IPython" in n for n in notes)
    assert cells_of(results)[5]["status"] == "skipped"


@pytest.mark.statistical
@pytest.mark.parametrize("python", one_python(), ids=str)
def test_failing_cell(python: Python, tmp_path: Path) -> None:
    def run_cells(*cells: str) -> Any:
        return fathom_run(tmp_path, [write_notebook(tmp_path / "n.ipynb", cells)], python=python.path)

    failed = run_cells(BURN + "burn(0.1)", "def f(x):\n    return 1 / x\n\nf(0)", "print('never')")
    assert failed.done.returncode == 1 and failed.done.stdout == ""
    lines = [line.strip() for line in failed.done.stderr.splitlines() if "^" not in line and "~" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        'File "n.ipynb [cell 2]", line 4, in <module>',
        "f(0)",
        'File "n.ipynb [cell 2]", line 2, in f',
        "return 1 / x",
        "ZeroDivisionError: division by zero",
    ]
    assert [c["status"] for c in failed.report["cells"]] == ["ok", "failed"]
    assert failed.report["exit"]["code"] == 1 and failed.report["samples"] > 30
    assert "failed: def f(x):" in (failed.folder / "profile_results.txt").read_text()

    wrong = run_cells("x = 1", "x = = 2")
    assert wrong.done.returncode == 1
    assert 'File "n.ipynb [cell 2]", line 1' in wrong.done.stderr and "SyntaxError" in wrong.done.stderr
    assert "_notebook.py" not in wrong.done.stderr
    ended = run_cells("import sys", "sys.exit(7)", "print('never')")
    assert (ended.done.returncode, ended.done.stdout, ended.done.stderr) == (7, "", "")
    awaited = run_cells("import asyncio\nasync def f(): raise KeyError('k')", "await f()")
    assert awaited.done.returncode == 1 and awaited.done.stderr.endswith("KeyError: 'k'\n")
    assert "asyncio" not in awaited.done.stderr


def test_cell_that_may_fail(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "n.ipynb", ["1 / 0", "print('on')"])
    content = json.loads(notebook.read_text())
    content["cells"][1]["metadata"]["tags"] = ["raises-exception"]
    notebook.write_text(json.dumps(content))
    results = fathom_run(tmp_path, [notebook])
    assert results.done.returncode == 0 and results.done.stdout == "on\n"
    assert "ZeroDivisionError" in results.done.stderr


def test_old_format(tmp_path: Path) -> None:
    """nbformat 3 keeps cells in worksheets and calls the source input; sources may be lists of lines."""
    cell: Dict[str, Any] = {
        "cell_type": "code",
        "input": ["a = 2\n", "print(a + 1)"],
        "language": "python",
        "outputs": [],
    }
    other = {"cell_type": "heading", "level": 1, "source": "t"}
    (tmp_path / "old.ipynb").write_text(
        json.dumps(
            {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": [other, cell]}]}
        )
    )
    results = fathom_run(tmp_path, [tmp_path / "old.ipynb"])
    assert results.done.stdout == "3\n" and results.done.returncode == 0, results.done.stderr


BAD: List[Any] = [
    ("no json at all", "not JSON"),
    ("[1, 2]", "not a notebook of format 3 or 4"),
    ('{"nbformat": 4}', "not a notebook of format 3 or 4"),
    ('{"cells": [{"cell_type": "code"}]}', "not a notebook of format 3 or 4"),
    ('{"cells": [{"cell_type": "code", "source": 5}]}', "not a notebook of format 3 or 4"),
    ('{"cells": []}', "no code cells"),
    ('{"cells": [{"cell_type": "code", "source": "1"}], "metadata": {"language_info": {"name": "R"}}}', "is R"),
    ("\udcff", "not a notebook"),
]


@pytest.mark.parametrize("text,why", BAD)
def test_bad_notebook(text: str, why: str, tmp_path: Path) -> None:
    """One clear line, and no report of nothing."""
    path = tmp_path / "bad.ipynb"
    path.write_bytes(text.encode(errors="surrogateescape"))
    done = run([FATHOM, "run", "--output-dir", tmp_path / "out", path])
    assert done.returncode == 1 and done.stdout == ""
    assert (
        done.stderr.count("\n") == 1 and done.stderr.startswith("fathom: %s: " % path) and why in done.stderr
    ), done.stderr


@pytest.mark.statistical
def test_fork_and_pool(tmp_path: Path) -> None:
    """Workers of a pool find the notebook's functions in __main__; a forked child leaves the times alone."""
    cells = [
        BURN + "import multiprocessing, os\ndef job(n):\n    burn(0.1)\n    return n * n",
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n    print(pool.map(job, range(4)))",
        "pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)[1]",
    ]
    results = fathom_run(tmp_path, [write_notebook(tmp_path / "pool.ipynb", cells)])
    assert results.done.returncode == 0 and results.done.stdout == "[0, 1, 4, 9]\n0\n", results.done.stderr
    assert [c["cell"] for c in results.report["cells"]] == [1, 2, 3]
    assert results.capture.seconds("job") == pytest.approx(0.4, abs=0.12)


def test_repeat(tmp_path: Path) -> None:
    """Every run of a notebook has its own times; cells.tsv keeps the last ones."""
    notebook = write_notebook(tmp_path / "n.ipynb", ["print('ran')", "x = sum(range(10**6))"])
    results = fathom_run(tmp_path, [notebook], ["--repeat", "2"], python=one_python()[0].path)
    assert results.done.returncode == 0 and results.done.stdout == "ran\nran\n", results.done.stderr
    assert len((results.folder / "cells.tsv").read_text().splitlines()) == 3
    for number in (1, 2):
        report = Capture(results.folder / ("profile_%d.fathom" % number), results.done).report
        assert [c["cell"] for c in report["cells"]] == [1, 2]
