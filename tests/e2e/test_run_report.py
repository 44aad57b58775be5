# SPDX-License-Identifier: Apache-2.0
"""What a person sees of `fathom run`: the summary, the results folder, and how programs ended."""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time

import pytest
from capture import Capture
from runs import Run

BUSY = """
    import sys, time

    def burn(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    def three_quarters():
        burn(0.45)

    def one_quarter():
        burn(0.15)

    three_quarters()
    one_quarter()
"""


def shares(text: str, heading: str) -> dict:
    """{function: (share, plus-minus)} of one list"""
    block = text[text.index(heading) :].split("\n\n")[0]
    rows = re.findall(r"^ *\d+\. (\S.*?)  +([0-9.]+)% (?:±|\+-)([0-9.]+)", block, re.M)
    return {name: (float(share), float(pm)) for name, share, pm in rows}


@pytest.mark.statistical
def test_the_summary_tells_where_the_time_went(run, fathom):
    r = run(BUSY)
    assert r.code == 0
    assert r.text.startswith("Finished in ")
    assert re.match(r"Finished in \d+\.\d{3} seconds using \d+\.\d{3} MB of RAM\.\n", r.text)
    top = shares(r.text, "Functions by Total Runtime")
    # Both are CPU time by the program's own clock. Starting the interpreter is in neither, so the ratio is what is known;
    # five of its standard errors, and a tick of the clock for each.
    (a, pm_a), (b, pm_b) = top["three_quarters"], top["one_quarter"]
    error = (pm_a / a + pm_b / b) / 1.96
    assert a / b == pytest.approx(3, rel=5 * error + 0.1)
    assert top["<module>"][0] >= a + b - 0.2
    whole = (r.results / "profile_results.txt").read_text()
    assert re.search(r"^Profile Summary\n=+\n", whole, re.M)
    tree = whole[whole.index("Functions by Module") :]
    assert re.search(r"^└─ app\.py \(\d func, [0-9.]+% total\)$", tree, re.M)
    assert re.search(r"^   [├└]─ burn\.+[0-9.]+%$", tree, re.M)
    folder = r.results.relative_to(r.folder)
    assert f"  fathom report {folder}\n" in r.text.replace("  # every table and line", "")
    assert r.text.rstrip().endswith(str(r.results.relative_to(r.folder) / "profile_results.txt"))


def test_the_results_folder_has_everything(run, some_python):
    r = run(BUSY, args=["--its-own", "a b"])
    names = {p.name for p in r.results.iterdir()}
    assert {"app.py", "profile.fathom", "profile_results.txt"} <= names
    lines = (r.results / "profile_results.txt").read_text().splitlines()
    assert lines[0] == f"fathom run --python {some_python.path} app.py --its-own 'a b'"
    assert lines[1].startswith("Finished in ")
    table = "\n".join(lines)
    assert "  Line │Python │native │system │" in table
    # Which of the columns has the time is test_truth.py's: process_time() is a C function, and asks the kernel.
    row = re.search(r"^ +6 │.*\d+% .*│.*while time", table, re.M)
    assert row, table
    assert re.search(r"^ +4 │ .*│burn$", table, re.M)  # the function's row


@pytest.mark.parametrize("source, code, says", [
    ("import sys; sum(range(5_000_000)); sys.exit(3)", 3, "Ended with exit code 3 after "),
    ("sum(range(5_000_000)); raise ValueError('no')", 1, "Ended with exit code 1 after "),
    ("import os; sum(range(5_000_000)); os.kill(os.getpid(), 9)", 137, "Ended by signal 9 (Killed) after "),
    ("import os; sum(range(5_000_000)); os._exit(0)", 0, "Finished in "),
])  # fmt: skip
def test_every_ending_has_its_sentence_and_a_report(run, source, code, says):
    r = run(source)
    assert r.code == code
    assert r.text.startswith(says)
    assert "  fathom report --tree " in r.text
    assert (r.results / "profile_results.txt").read_text().splitlines()[1].startswith(says)
    if "raise" in source:
        assert "ValueError: no" in r.errors
    else:
        assert r.errors == ""


def test_an_interrupted_program_is_reported_as_such(fathom, some_python, tmp_path):
    (tmp_path / "long.py").write_text("print('on', flush=True)\nwhile True: pass\n")
    child = subprocess.Popen(
        [fathom, "run", "--python", some_python.path, "long.py"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in what a shell starts in the background
    )  # fmt: skip
    assert child.stdout and child.stdout.readline() == "on\n"
    time.sleep(0.3)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    text, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert text.startswith("Interrupted after ")
    assert child.returncode == 130
    assert "long.py" in text


def test_a_program_too_short_to_tell_says_so(run):
    r = run("pass")
    assert r.code == 0
    sentence = " ".join(r.text.split())
    assert "ms of CPU time, too little to show where the time went" in sentence
    assert "--repeat 20" in sentence


def test_a_program_that_only_waits_says_so(run):
    sentence = " ".join(run("import time; time.sleep(0.8)").text.split())
    assert "it waited nearly all the time" in sentence


@pytest.mark.statistical
def test_waiting_has_a_list_of_its_own(run, fathom):
    r = run(
        """
        import time
        def nap():
            time.sleep(0.6)
        def work():
            sum(i * i for i in range(2_000_000))
        nap()
        work()
        """
    )
    if Capture(r.results / "profile.fathom", r.done).report["time"]["wait_s"] == 0:
        pytest.skip("this build does not capture waiting")
    whole = (r.results / "profile_results.txt").read_text()
    block = whole[whole.index("Functions by Waiting:") :].split("\n\n")[0]
    rows = re.findall(r"^ 1\. (\S+) +([0-9.]+) s \(app\.py:3\)$", block, re.M)
    assert [name for name, _ in rows] == ["nap"]
    assert float(rows[0][1]) == pytest.approx(0.6, abs=0.2)
    assert "work" not in block
    table = (r.results / "profile_results.txt").read_text()
    assert re.search(r"^ +4 │(?: +\S* │){3} 0\.[4-8]\ds │.*time\.sleep\(0\.6\)$", table, re.M)


@pytest.mark.parametrize("nap, whose", [("", "none"), ("time.sleep(0.04)", "almost none")])
def test_waiting_of_libraries_is_told_from_ones_own(run, nap, whose):
    """Threads of the standard library wait all the time; the user's code never does (start() of a Thread would), or for next to no time."""
    r = run(
        f"""
        import _thread, threading, time
        for _ in range(12): _thread.start_new_thread(threading.Event().wait, ())
        end = time.process_time() + 0.5
        while time.process_time() < end: pass
        {nap}
        """,
        "--full",
    )
    (row,) = re.findall(r"^  . waiting +([0-9.]+) s(.*)$", r.text, re.M)
    assert float(row[0]) >= 12 * 0.45 and row[1] == f", {whose} of it in your code", r.text
    assert "Functions by Waiting" not in r.text


@pytest.mark.statistical
def test_time_without_a_cpu_is_told(run):
    """Two busy processes on one CPU: the rest of the clock is neither work nor waiting."""
    r = run(
        """
        import os, signal, time
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        rival = os.fork()
        while rival == 0: pass
        end = time.process_time() + 0.6
        while time.process_time() < end: pass
        os.kill(rival, signal.SIGKILL)
        os.waitpid(rival, 0)
        """,
        "--no-children", "--full",
    )  # fmt: skip
    wall, cpu, no_cpu = (
        float(re.search(pattern, r.text, re.M)[1])
        for pattern in (
            r"^Finished in ([0-9.]+)",
            r"CPU time sampled +([0-9.]+) s",
            r"no CPU was free +([0-9.]+) s of the main",
        )
    )
    assert no_cpu >= 0.2 and cpu + no_cpu == pytest.approx(wall, abs=0.1), r.text


def test_a_module_that_is_run_is_the_users_own(run, fathom, some_python):
    """No other code is: what the screen lists is the package that runs, and not runpy's wrappers."""
    folder = run("pass", "-q").folder
    (folder / "big.json").write_text(json.dumps([{"number": i, "text": "x" * 20} for i in range(150_000)]))
    done = subprocess.run(
        [fathom, "run", "--python", some_python.path, "-m", "json.tool", "big.json", "out.json"],
        cwd=folder, stdout=subprocess.PIPE, text=True, timeout=120, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    block = done.stdout[done.stdout.index("Functions by Total Runtime: (with") :].split("\n\n")[0]
    assert "_run_code" not in block and "_iterencode" in block, block
    (profile,) = folder.glob(".fathom/json.tool/*/profile.fathom")
    told = subprocess.run(
        [fathom, "report", "--detailed", profile], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert "_run_code" in told[told.index("Functions by Total Runtime") :].split("\n\n")[0]


def test_quiet_prints_nothing_of_its_own(run):
    r = run("print('hello')", "--quiet")
    assert (r.text, r.errors) == ("hello\n", "")
    assert (r.results / "profile_results.txt").exists()


def test_generated_code_of_libraries_is_not_the_users(run):
    r = run(
        """
        import collections
        for i in range(150):
            collections.namedtuple("N", ["a%d" % k for k in range(60)])
        exec("for i in range(3_000_000): pass")
        """,
        "--rate", "4000",
    )  # fmt: skip
    top = shares(r.text, "Functions by Total Runtime")
    assert set(top) <= {"<module>", "collections", "(imports)"}  # the package as such, and no function of it
    block = r.text[r.text.index("Functions by Total Runtime") :].split("\n\n")[0]
    assert "(app.py:1)" in block or "(app.py:2)" in block
    assert "(<string>:1)" in block  # what the user's own code executes


@pytest.mark.statistical
def test_a_file_is_all_of_its_functions(run, tmp_path):
    """Fifty functions of one percent and less have no row each, but their files have what the tables of lines have."""
    parts = "".join(f"def part{i}():\n    t = 0\n    for k in range(30_000): t += k\n" for i in range(50))
    (tmp_path / "small.py").write_text(parts + "ALL = [%s]\n" % ", ".join(f"part{i}" for i in range(50)))
    (tmp_path / "mixed.py").write_text(
        parts + "ALL = [%s]\n" % ", ".join(f"part{i}" for i in range(50))
        + "def big():\n    t = 0\n    for k in range(2_000_000): t += k\n"
    )  # fmt: skip
    r = run(
        "import small, mixed\nfor _ in range(8):\n    mixed.big()\n    for f in small.ALL + mixed.ALL: f()\n", "--cpu"
    )
    text = r.report("--full")
    tree = dict(re.findall(r"─ (small|mixed)\.py \(\d+ func, ([0-9.]+)% total\)", text))
    table = dict(re.findall(r"/(small|mixed)\.py:\s+% of time = +([0-9.]+)%", text))
    assert set(tree) == set(table) == {"small", "mixed"}, text
    for name, share in table.items():
        assert float(tree[name]) == pytest.approx(float(share), abs=0.06), text
    assert re.search(r"─ big\.+[0-9.]+%\n(.*─ part\d+\.+[0-9.]+%\n)*.*─ \d+ smaller\.+[0-9.]+%$", text, re.M), text


def test_user_code_that_nobody_wrote_is_no_error(run, fathom, some_python):
    done = subprocess.run(
        [fathom, "run", "--python", some_python.path, "-m", "timeit", "-n", "20", "-r", "1", "sum(range(100000))"],
        cwd=run("pass").folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    assert "Functions by Total Runtime" in done.stdout


# ---- several runs ----


@pytest.mark.statistical
def test_repeat_gives_means_and_intervals(run, fathom):
    r = run(BUSY.replace("0.45", "0.12").replace("0.15", "0.04"), "--repeat", "3")
    assert r.code == 0
    assert sorted(p.name for p in r.results.glob("profile_*.fathom")) == [f"profile_{i}.fathom" for i in (1, 2, 3)]
    for text in (r.text, (r.results / "profile_results.txt").read_text()):
        block = text[text.index("Over 3 Runs:") :]
        mean, spread, pm = map(
            float, re.search(r"^ +([0-9.]+) +([0-9.]+) +±([0-9.]+) s   three_quarters", block, re.M).groups()
        )  # type: ignore[union-attr]
        assert mean == pytest.approx(0.12, abs=0.03)
        assert pm >= 4.30 / 3**0.5 * spread - 0.002  # Student's t for two degrees of freedom
    runs = [
        json.loads(subprocess.run([fathom, "report", "--json", p], stdout=subprocess.PIPE, check=True).stdout)
        for p in sorted(r.results.glob("profile_*.fathom"))
    ]
    known = [sum(f["total_s"] for f in x["functions"] if f["name"] == "three_quarters") for x in runs]
    assert mean == pytest.approx(sum(known) / 3, abs=0.0006)
    # Lines are told by their place and text, and what is in no run is in no mean.
    lines = r.text[r.text.index("CPU time of lines") :]
    rows = re.findall(r"^ +([0-9.]+) +([0-9.]+) +±([0-9.]+) s   app\.py:(\d+)  (\S.*)$", lines, re.M)
    told = {int(line): (float(mean), float(pm), text) for mean, _, pm, line, text in rows}
    for number, text in ((6, "while time.process_time() < end:"), (7, "pass")):
        known = [
            sum(x["total_s"] for x in run["lines"] if x["line"] == number and "app.py" in x["file"]) for run in runs
        ]
        if number in told or sum(known) > 0.005:
            mean, pm, shown = told[number]
            assert mean == pytest.approx(sum(known) / 3, abs=0.0006) and shown == text
            # Never surer than three runs of so many samples of a millisecond: one standard error is sqrt(seconds / 1000).
            assert pm > 0.5 * 1.96 * (mean * 3 / 1000) ** 0.5 / 3 * (1 - mean / 0.2)
    assert 6 in told
    narrow = subprocess.run(
        [fathom, "report", "--summary", "--width", "80", r.results], stdout=subprocess.PIPE, check=True, text=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    ).stdout  # fmt: skip
    subprocess.run([fathom, "report", "-o", r.folder / "out.txt", r.results], check=True)
    assert "Over 3 Runs:" in (r.folder / "out.txt").read_text()
    means = narrow[narrow.index("Over 3 Runs:") :].splitlines()
    assert max(len(line) for line in means) <= 80 and any("app.py:6" in line for line in means)


def test_repeated_runs_are_shown_as_one(run, fathom):
    """Whatever shows a capture shows all runs of a folder: sums, and how much single runs differ."""
    source = "\n    kept = [b'x' * 300000 for _ in range(50)]" + BUSY.replace("0.45", "0.1").replace("0.15", "0.05")
    r = run(source, "--repeat", "3")

    def report(path):
        return json.loads(subprocess.run([fathom, "report", "--json", path], stdout=subprocess.PIPE, check=True).stdout)

    def total(told, name):
        return sum(f["total_s"] for f in told["functions"] if f["name"] == name)

    runs = [report(p) for p in sorted(r.results.glob("profile_*.fathom"))]
    told = report(r.results)
    for figure in ("cpu_s", "wall_s", "overhead_s"):
        assert told[figure] == pytest.approx(sum(x[figure] for x in runs), abs=1e-6), figure
    assert told["samples"] == sum(x["samples"] for x in runs) and len(told["processes"]) == 3
    assert total(told, "three_quarters") == pytest.approx(sum(total(x, "three_quarters") for x in runs), abs=1e-6)
    assert told["memory"]["alloc_bytes"] == sum(x["memory"]["alloc_bytes"] for x in runs)
    assert told["memory"]["peak_bytes"] == max(x["memory"]["peak_bytes"] for x in runs)  # one after the other
    assert told["max_rss_bytes"] == max(x["max_rss_bytes"] for x in runs)
    cpu = [x["cpu_s"] for x in runs]
    assert told["runs"]["n"] == 3 and runs[0]["runs"] is None
    assert told["runs"]["cpu_s"]["mean"] == pytest.approx(sum(cpu) / 3, abs=1e-5)
    assert told["runs"]["cpu_s"]["spread"] == pytest.approx(statistics.stdev(cpu), abs=1e-5)
    assert told["coverage"][0]["what"] == "single runs: this is the sum of 3 of them"
    assert "Sum of 3 runs. One run took" in " ".join(r.text.split())

    def collapsed(path):
        done = subprocess.run(
            [fathom, "export", "-f", "collapsed", path], stdout=subprocess.PIPE, check=True, text=True
        )
        return sum(int(line.rpartition(" ")[2]) for line in done.stdout.splitlines())

    assert collapsed(r.results) == sum(map(collapsed, sorted(r.results.glob("profile_*.fathom"))))
    page = r.folder / "page.html"
    assert subprocess.run([fathom, "view", "--html", page, r.results]).returncode == 0 and page.stat().st_size > 100000
    # A run that is newer than what was added up is in the next sum.
    (r.results / "profile_3.fathom").unlink()
    (r.results / "runs.fathom").unlink()
    assert report(r.results)["runs"]["n"] == 2


def test_two_command_lines_are_said_to_differ(run, fathom):
    def tool(*args):
        return subprocess.run([fathom, *args], cwd=r.folder, stdout=subprocess.PIPE, check=True, text=True).stdout

    r = run("import sys; print(sum(range(10 ** 6)))", "-q", args=["one"])
    base = r.results
    time.sleep(1.1)  # the next folder has a later name
    run("import sys; print(sum(range(10 ** 6)))", "-q", args=["two"])
    new = r.results
    assert base != new
    text = " ".join(tool("diff", str(base), str(new)).split())
    assert re.search(r"command lines differ, .* BASE is \S+ app\.py one, NEW is \S+ app\.py two\.", text)
    assert "command lines differ" not in tool("diff", str(base), str(base))
    assert json.loads(tool("diff", "--json", str(base), str(new)))["same_command"] is False
    history = tool("report", "--history", "app.py")
    assert "The command lines differ" in history and history.count("app.py one\n") == 1


def test_repeat_stops_when_a_run_fails(run):
    r = run("import sys; sys.exit(4)", "--repeat", "5")
    assert r.code == 4
    assert len(list(r.results.glob("*.fathom"))) == 1
    assert "run 1 of 5 did not end well (exit code 4)" in r.errors
    assert run("pass", "--repeat", "0").code == 2


def test_a_notebook_can_be_repeated(run, fathom):
    cells = ["def f(n):\n    return sum(i * i for i in range(n))\nf(300_000)", "f(200_000)"]
    notebook = {
        "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": text} for text in cells],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    r = run(json.dumps(notebook), "--repeat", "2", name="n.ipynb")
    assert (r.code, r.errors) == (0, "")
    assert "Over 2 Runs:" in r.text
    for path in sorted(r.results.glob("*.fathom")):
        told = subprocess.run([fathom, "report", "--json", path], stdout=subprocess.PIPE, check=True).stdout
        assert [c["cell"] for c in json.loads(told)["cells"]] == [1, 2]


@pytest.mark.statistical
def test_diff_check_and_history(run, fathom):
    def tool(*args):
        return subprocess.run(
            [fathom, *args], cwd=r.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"}, timeout=60,
        )  # fmt: skip

    source = BUSY.replace("0.45", "0.1").replace("0.15", "0.1")
    r = run(source, "--repeat", "3", "-q")
    base = r.results
    time.sleep(1.1)  # the next folder has a later name
    # one_quarter takes eight times as long, which stands out on a loaded machine, too; everything has moved down by two lines
    run("\n    # moved\n" + source.replace("one_quarter():\n        burn(0.1)", "one_quarter():\n        burn(0.8)"),
        "--repeat", "3", "-q")  # fmt: skip
    new = r.results
    assert base != new

    diff = json.loads(tool("diff", "--json", "app").stdout)
    assert (diff["schema"], diff["base_runs"], diff["new_runs"]) == ("fathom.diff/1", 3, 3)
    changes = {f["name"]: f["seconds"] for f in diff["functions"]}
    assert changes["one_quarter"]["significant"]
    assert changes["one_quarter"]["change"] == pytest.approx(
        0.7, abs=changes["one_quarter"]["change_plus_minus"] + 0.03
    )
    assert not changes["three_quarters"]["significant"]
    lines = {x["source"]: x for x in diff["lines"]}
    assert lines["while time.process_time() < end:"]["in_base"]  # known by its text, though it moved
    text = tool("diff", str(base), str(new)).stdout
    assert re.search(r"\+\d\d\d?\.\d% \* one_quarter \(app\.py:\d+\)", text)
    assert "BASE has 3 runs, NEW 3." in text

    slow = tool("check", str(base), str(new), "--max-slowdown", "5%")
    assert slow.returncode == 1
    assert slow.stdout == ""
    assert re.fullmatch(r"fathom: CPU time grew by [0-9.]+% \+-[0-9.]+ \(limit 5%\); most in .*\n", slow.stderr)
    mixed = r.folder / "mixed"  # a fast run and a slow one: nothing can be told from them
    mixed.mkdir()
    for i, folder in enumerate((base, new), 1):
        shutil.copy(folder / "profile_1.fathom", mixed / f"profile_{i}.fathom")
    unsure = tool("check", str(mixed), str(new))
    assert unsure.returncode == 0
    assert "above the limit of 5%, but the runs differ too much" in unsure.stdout
    fine = tool("check", str(base), str(base))
    assert fine.returncode == 0
    assert "within the limit of 5%" in fine.stdout
    assert tool("check", str(new), str(base)).returncode == 0  # faster is no failure
    assert tool("check", str(base), "/nonexistent").returncode == 1
    assert tool("check", str(base)).returncode == 2

    history = tool("report", "--history", "app.py").stdout
    assert [x.split()[-1] for x in history.splitlines() if ".fathom/app/" in x and " s " in x] == [
        str(p.relative_to(r.folder)) for p in (base, new)
    ]
    assert "fathom diff" in history
    nobody = tool("report", "--history", "nobody")
    assert nobody.returncode == 1
    assert nobody.stderr.count("\n") == 1
    one = tool("diff", str(base / "profile_1.fathom"), str(new / "profile_1.fathom")).stdout
    assert "one run on each side" in " ".join(one.split())


BIGGER = """
    def hold(n):
        kept = []
        for _ in range(n):
            kept.append(bytearray(1_000_000))
        return kept
    def steady():
        return bytearray(30_000_000)
    a, b = hold(20), steady()
    sum(range(3_000_000))
"""


def test_diff_tells_what_got_bigger(run, fathom):
    """40 MB more in one line of two, and not a byte in the other."""
    first = run(BIGGER, "-q").results
    time.sleep(1.1)
    r = run(BIGGER.replace("hold(20)", "hold(60)"), "-q")
    told = subprocess.run(
        [fathom, "diff", "--json", first, r.results], stdout=subprocess.PIPE, check=True, text=True, timeout=60
    )
    diff = json.loads(told.stdout)
    for rows, key in ((diff["memory_functions"], "name"), (diff["memory_lines"], "function")):
        changes = {row[key]: row["peak_bytes"] for row in rows}
        assert changes["hold"]["change"] == pytest.approx(40e6, rel=0.02) and changes["hold"]["significant"], changes
        assert abs(changes["steady"]["change"]) < 1e6 and not changes["steady"]["significant"], changes
        assert rows[0][key] == "hold"
    text = subprocess.run(
        [fathom, "diff", "app.py"], stdout=subprocess.PIPE, check=True, text=True, cwd=r.folder
    ).stdout
    block = text[text.index("Lines whose memory changed most") :]
    assert re.search(r"^ +20\.0\d\d +60\.\d{3} +\+[34]\d\.\d{3} .* \* app\.py:\d+  kept\.append", block, re.M), text
    # Without memory on one side there is nothing to compare.
    time.sleep(1.1)
    run(BIGGER, "-q", "--cpu")
    told = subprocess.run([fathom, "diff", "--json", first, r.results], stdout=subprocess.PIPE, check=True, text=True)
    assert json.loads(told.stdout)["memory_functions"] == []


# ---- finding the target, and defaults ----

WHERE = "import sys; print(sys.argv[0])"


def test_a_name_that_is_unique_in_the_project_runs(run, tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    for folder in ("deep/er and deeper", ".venv/lib", "env", "__pycache__", ".fathom/x/y"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "jöb.py").write_text(WHERE)
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    r = run(None, "-q", name="jöb.py")
    assert (r.code, r.text) == (0, "deep/er and deeper/jöb.py\n")
    assert run(None, "-q", name="er and deeper/jöb.py").text == r.text
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "jöb.py").write_text(WHERE)
    r = run(None, "-q", name="jöb.py")
    assert r.code == 1
    assert r.text == ""
    assert "2 files are named jöb.py" in r.errors
    assert "deep/er and deeper/jöb.py, other/jöb.py" in r.errors
    assert run(None, "-q", name="other/jöb.py").text == "other/jöb.py\n"
    r = run(None, "-q", name="nothing.py")
    assert r.code == 1
    assert r.errors.count("\n") == 1


@pytest.mark.parametrize("toml, env, says", [
    ("[tool.fathom]\nrate = 'fast'\n", {}, "pyproject.toml, line 2: rate must be a whole number, not 'fast'"),
    ("[tool.fathom]\nraet = 1\n", {}, "pyproject.toml, line 2: [tool.fathom] has no 'raet'"),
    ("[tool.fathom]\ndetailed = 'yes'\n", {}, "line 2: detailed must be true or false, not 'yes'"),
    ("[tool.fathom\n", {}, "pyproject.toml, line 1: a table's name without its ']'"),
    ("", {"FATHOM_RATE": "-1"}, "FATHOM_RATE must be a whole number, not '-1'"),
    ("", {"FATHOM_QUIET": "maybe"}, "FATHOM_QUIET must be 1 or 0, not 'maybe'"),
])  # fmt: skip
def test_wrong_defaults_are_one_line(run, tmp_path, toml, env, says):
    (tmp_path / "pyproject.toml").write_text(toml)
    r = run("print('ran')", env=env)
    assert r.code == 2
    assert r.text == ""
    assert says in r.errors
    assert r.errors.count("\n") == 1


def test_the_command_line_wins_over_variables_and_these_over_the_file(run, fathom, tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n[tool.fathom]\nrate = 2_000 # per second\nquiet = true\n"
    )

    def rate(r: Run) -> int:
        assert r.text == ""  # quiet, as the file says
        return int(Capture(r.results / "profile.fathom", r.done).report["rate_hz"])

    assert rate(run("pass")) == 2000
    assert rate(run("pass", env={"FATHOM_RATE": "3k"})) == 3000
    assert rate(run("pass", "--rate", "4000", env={"FATHOM_RATE": "3k"})) == 4000
    out = tmp_path / "r.fathom"
    subprocess.run([fathom, "record", "-o", out, "--", "true"], cwd=tmp_path, check=True)
    assert Capture(out, None).report["rate_hz"] == 2000  # type: ignore[arg-type]


@pytest.mark.statistical
def test_a_ten_minute_capture_is_reported_in_a_second(fathom, build, tmp_path):
    path = tmp_path / "big.fathom"
    subprocess.run([build / "tests" / "gen_profile", path, "600000"], check=True, stdout=subprocess.DEVNULL)
    report = json.loads(subprocess.run([fathom, "report", "--json", path], stdout=subprocess.PIPE, check=True).stdout)
    assert len({x["file"] for x in report["lines"]}) >= 200
    took = []
    for _ in range(3):
        before = os.times()
        subprocess.run([fathom, "report", path], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        took.append(sum(after[2:4]) - sum(before[2:4]))  # CPU time: other work on the machine does not count
    assert min(took) < 1.0
