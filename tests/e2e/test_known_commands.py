# SPDX-License-Identifier: Apache-2.0
"""What users of cProfile and of Tracy's Python module write and type, with fathom's name in place of the tool's."""

import csv
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import BUILD, ROOT
from runs import write_notebook
from tracing import install_plugin

BERT = "models/experimental/bert_large_performant/unit_tests/test_bert_large_split_and_transform_qkv_heads.py"
TEST = "test_split_fused_qkv_and_split_heads_with_program_cache"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder where fathom is installed: its package, its pytest plugin, its program on PATH."""
    install_plugin(tmp_path / "site")
    return tmp_path


def shell(project: Path, command: str) -> str:
    """As typed; python is the one with pytest."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PY")}
    env["PYTHONPATH"] = "%s:%s" % (project / "site", ROOT / "python")
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), str(BUILD), env["PATH"]])
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        cwd=project,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def rows(project: Path, profile: str, format: str = "csv") -> List[Dict[str, Any]]:
    return list(csv.DictReader(shell(project, "fathom export -f %s %s" % (format, profile)).splitlines()))


def calls(project: Path, profile: str) -> Dict[str, int]:
    return {row["name"]: int(row["calls"]) for row in rows(project, profile)}


# The fixture of cProfile's users, two words changed.
FIXTURE = """
import pstats
from contextlib import contextmanager
from pathlib import Path
import fathom, pytest

@pytest.fixture(scope="function")
def profiled(request):
    testname = request.node.name
    pr = fathom.Profiler()

    @contextmanager
    def profiled():
        pr.enable()
        yield
        pr.disable()

    yield profiled
    ps = pstats.Stats(pr)
    Path(".profiles").mkdir(parents=True, exist_ok=True)
    ps.dump_stats(f".profiles/{testname}.prof")
"""

TEST_PROFILED = """
def step(i): return i
def setup(): [step(i) for i in range(100)]
def complex_procedure(): return [step(i) for i in range(30)]
def test(profiled):
    setup()
    with profiled():
        complex_procedure()
    setup()
def test_again(profiled):
    with profiled():
        complex_procedure()
        complex_procedure()
"""


@pytest.mark.parametrize("is_own", [True, False], ids=["their own fixture", "the plugin's"])
def test_the_fixture_profiled(project: Path, is_own: bool) -> None:
    import pstats

    if is_own:
        (project / "conftest.py").write_text(FIXTURE)
    (project / "test_it.py").write_text(TEST_PROFILED)
    assert "2 passed" in shell(project, "pytest -q test_it.py")
    for name, n in (("test", 1), ("test_again", 2)):
        stats = pstats.Stats(str(project / ".profiles" / (name + ".prof"))).stats  # type: ignore[attr-defined]
        counted = {key[2]: value[1] for key, value in stats.items()}
        assert counted["complex_procedure"] == n and counted["step"] == 30 * n and "setup" not in counted
    # What follows in their notes: a picture of each. Ours needs no Graphviz.
    loop = "for filename in .profiles/*.prof; do\n  gprof2dot -f pstats $filename | %s\ndone"
    shell(project, loop % ("dot -Tpng -o $filename.png" if shutil.which("dot") else "cat >$filename.dot"))
    made = sorted(path.name for path in (project / ".profiles").iterdir() if path.suffix in (".png", ".dot"))
    assert [name.rpartition(".")[0] for name in made] == ["test.prof", "test_again.prof"]
    if not is_own:
        for_ours = loop.partition("\n")[0].replace("*.prof", "*.fathom")
        shell(project, for_ours + "\n  fathom export -f callgraph-svg -o $filename.svg $filename\ndone")
        assert "complex_procedure" in (project / ".profiles" / "test.fathom.svg").read_text()


TRACY_TEST = """
import pytest
def step(i): return i
def work(n):
    for i in range(n): step(i)
@pytest.fixture
def device():
    work(500)
    yield "device"
@pytest.fixture
def use_program_cache():
    work(300)
def test_split_fused_qkv_and_split_heads_with_program_cache(device, use_program_cache, tracy_profile):
    work(40)
def test_other(device):
    work(7)
"""


@pytest.mark.parametrize("options", ["", "-p ", "-p -l "], ids=["whole", "-p", "-p -l"])
def test_tracy_commands_for_pytest(project: Path, options: str) -> None:
    path = project / BERT
    path.parent.mkdir(parents=True)
    path.write_text(TRACY_TEST)
    out = shell(project, "python -m fathom %s-m pytest %s::%s" % (options, BERT, TEST))
    assert "1 passed" in out
    found = calls(project, "pytest.fathom")
    if options:
        assert found == {"step": 40, "work": 1, TEST: 1}, "only what the fixture is put around"
    else:
        names = ("step", "work", TEST, "pytest_pyfunc_call")
        assert [found.get(name) for name in names] == [840, 3, 1, 1], out
    lines = {int(row["line"]): int(row["hits"]) for row in rows(project, "pytest.fathom", "lines-csv")}
    if "-l" in options:
        assert lines[TRACY_TEST.splitlines().index("def step(i): return i") + 1] == 40
    else:
        assert not lines


# As the manual has it, its slip of the pen corrected.
INSTRUMENTED = """
def child_function_1(): pass
def child_function_2(): pass
def function_under_test():
    child_function_1()
    child_function_2()


from fathom import Profiler
profiler = Profiler()

function_under_test()
profiler.enable()
function_under_test()
profiler.disable()
function_under_test()
"""


def test_tracy_commands_for_scripts(project: Path) -> None:
    (project / "test_script.py").write_text(INSTRUMENTED)
    shell(project, "python -m fathom test_script.py")
    assert calls(project, "test_script.fathom")["function_under_test"] == 3
    shell(project, "python -m fathom -p test_script.py")
    expected = {"function_under_test": 1, "child_function_1": 1, "child_function_2": 1}
    assert calls(project, "test_script.fathom") == expected
    shell(project, "python -m fathom -p -l test_script.py")
    assert calls(project, "test_script.fathom") == expected
    hits = {int(row["line"]): int(row["hits"]) for row in rows(project, "test_script.fathom", "lines-csv")}
    at = INSTRUMENTED.splitlines().index("    child_function_1()") + 1
    assert hits[at] == 1 and hits[at + 1] == 1


# ---- the rest of what the documents say to type, one by one ----

DATAFLOW = """
import time
def flow(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
flow(0.3)
"""


def test_py_spy_record_for_speedscope(project: Path) -> None:
    (project / "my-sampler.py").write_text(DATAFLOW)
    shell(project, "fathom record -o py-spy-results.prof --native --format speedscope -- python my-sampler.py")
    data = json.loads((project / "py-spy-results.prof").read_text())
    assert any(frame["name"] == "flow" for frame in data["shared"]["frames"])


@pytest.mark.parametrize("options", [
    "-F 999 --sample-cpu --call-graph dwarf --aio",
    "-F 999 --call-graph dwarf --sample-cpu -g",
    "-F999 --call-graph=dwarf -g",
    "--freq 999 -g --call-graph dwarf",
])  # fmt: skip
def test_perf_record(project: Path, options: str) -> None:
    (project / "example_dataflow.py").write_text(DATAFLOW)
    shell(project, "fathom record %s -- python example_dataflow.py" % options)
    report = json.loads(shell(project, "fathom report --json profile.fathom"))
    assert report["rate_hz"] == 999
    cpus = report["cpus"]
    assert cpus and all(0 <= row["cpu"] < (os.cpu_count() or 1) for row in cpus)
    cpu_s = sum(report["time"][kind] for kind in ("python_s", "native_s", "system_s", "gc_s"))
    assert sum(row["cpu_s"] for row in cpus) == pytest.approx(cpu_s)
    assert sum(row["samples"] for row in cpus) == report["samples"] - report["wait_samples"]
    # Not those in the interpreter alone, as -g would have it for py-spy.
    shell(project, "fathom record %s -f raw -o out.txt -- python example_dataflow.py" % options)
    assert "process_time" in (project / "out.txt").read_text() or "clock_gettime" in (project / "out.txt").read_text()


def test_py_spys_letters_mean_what_they_meant(project: Path) -> None:
    # DATAFLOW is nearly always in a system call, which -g leaves out; this one is in the interpreter in nearly all of its samples.
    (project / "app.py").write_text(DATAFLOW.replace("pass", "\n        n = 1000\n        while n: n -= 1"))
    shell(project, "fathom record -F -g -r 500 -f raw -o out.txt -- python app.py")
    stacks = (project / "out.txt").read_text()
    assert "flow (app.py:3)" in stacks, "-F: one frame per function, at its first line"
    assert "clock_gettime" not in stacks, "-g: only what is in the interpreter itself"


@pytest.mark.statistical
def test_the_cpu_is_the_one_that_it_ran_on(project: Path) -> None:
    (project / "app.py").write_text("import os\nos.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\n" + DATAFLOW)
    shell(project, "fathom record -o p.fathom -- python app.py")
    cpus = {row["cpu"]: row["cpu_s"] for row in json.loads(shell(project, "fathom report --json p.fathom"))["cpus"]}
    assert cpus[max(os.sched_getaffinity(0))] >= 0.25, cpus
    # On a timeline each CPU has a lane, with the thread that it ran.
    events = json.loads(shell(project, "fathom export -f chrometrace p.fathom"))
    lanes = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name" and e["pid"] == 1 << 30}
    assert lanes == {cpu: "CPU %d" % cpu for cpu in cpus}
    for cpu, cpu_s in cpus.items():
        stretches = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == cpu)
        assert all(end <= begin + 1e-3 for (_, end), (begin, _) in zip(stretches, stretches[1:])), stretches
        assert sum(end - begin for begin, end in stretches) * 1e-6 == pytest.approx(cpu_s, rel=0.15, abs=0.02)


@pytest.mark.parametrize("options", [
    "", "--cpu", "--memory", "--precision=5", "--precision=-5", "--detailed", "--log-level INFO", "--log-level debug", "--no-plots",
])  # fmt: skip
def test_profile_a_script_by_its_name(project: Path, options: str) -> None:
    """`fixit profile my_new_method.py`, from anywhere in the project, once and again."""
    (project / "pyproject.toml").write_text("")
    (project / "my_work" / "deep").mkdir(parents=True)
    (project / "my_work" / "my_new_method.py").write_text(
        DATAFLOW + "import logging, warnings\nwarnings.warn('look')\nlogging.getLogger('x').info('told')\n"
    )
    for where in ("", "my_work/deep"):
        out = shell(project / where, "fathom run %s my_new_method.py" % options)
        assert re.search(r"^Finished in [0-9.]+ seconds using [0-9.]+ MB of RAM\.$", out, re.M), out
        assert "Check logs " in out and "1 warning" in out
        assert re.search(r"^ \d\. flow  .*\(my_new_method\.py:3\)$", out, re.M), out
    folders = sorted((project / ".fathom" / "my_new_method").iterdir())
    assert len(folders) == 2 and not list(project.glob("my_work/**/.fathom"))
    for folder in folders:
        assert {"my_new_method.py", "logs.log", "profile_results.txt", "profile.fathom"} <= {
            p.name for p in folder.iterdir()
        }
        lines = (folder / "profile_results.txt").read_text().splitlines()
        assert lines[0] == " ".join(("fathom run %s my_new_method.py" % options).split())
        assert lines[1].startswith("Finished in ")
    assert ("told" in (folders[0] / "logs.log").read_text()) == ("INFO" in options or "debug" in options)
    assert (project / ".fathom" / ".gitignore").read_text().splitlines()[-1] == "*"


def test_a_script_says_which_python_it_wants(project: Path) -> None:
    """The first line counts where the file may be executed; an option of Python's in it, too."""
    other = project / "bin" / "python3.99"
    other.parent.mkdir()
    other.symlink_to(os.path.realpath(sys.executable))
    script = project / "tool"
    tell = "import os, sys\nprint(os.path.basename(sys.executable), sys.flags.dont_write_bytecode)\n"
    script.write_text("#!%s -B\n" % other + tell)
    script.chmod(0o755)
    mine = os.path.basename(sys.executable)
    assert shell(project, "fathom run -q ./tool") == "python3.99 1\n"
    assert shell(project, "fathom run -q --python %s ./tool" % sys.executable) == "%s 0\n" % mine
    script.write_text("#!/usr/bin/env python3.99\n" + tell)
    assert shell(project, "PATH=%s:$PATH fathom run -q ./tool" % other.parent) == "python3.99 0\n"
    (project / "plain.py").write_text(script.read_text())
    assert "3.99" not in shell(project, "PATH=%s:$PATH fathom run -q plain.py" % other.parent)


def test_an_option_behind_the_target_gets_a_hint(project: Path) -> None:
    hint = "fathom: --cpu comes after x.py, so the program received it; Fathom's options come first: fathom run --cpu x.py ...\n"
    (project / "x.py").write_text("print('ran')\n")
    assert hint in shell(project, "fathom run x.py --cpu")
    assert hint not in shell(project, "fathom run x.py -- --cpu")
    assert shell(project, "fathom run -q x.py --cpu") == "ran\n"
    (project / "x.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--cpu')\nprint(p.parse_args().cpu)\n"
    )
    assert shell(project, "fathom run -q x.py --cpu=3") == "3\n", "an option of the script's own"


def test_pytest_that_makes_errors_of_warnings(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (project / "test_it.py").write_text(TEST_PROFILED)
    for options in ("", "-p "):
        assert "2 passed" in shell(project, "python -m fathom %s-m pytest -q test_it.py" % options)


def test_perf_record_of_a_running_process(project: Path) -> None:
    """perf's words with -p, until Ctrl-C."""
    pinned = "import os\nos.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\nprint('ready', flush=True)\nflow(60)"
    (project / "example_dataflow.py").write_text(DATAFLOW.replace("flow(0.3)", pinned))
    shell(
        project,
        "python example_dataflow.py >out & PID=$!\n"
        "trap 'kill $PID' EXIT\n"
        "until grep -q ready out; do sleep 0.05; done\n"
        "timeout --preserve-status -s INT 1.5 fathom record -F 999 --sample-cpu --call-graph dwarf --aio -p $PID",
    )
    report = json.loads(shell(project, "fathom report --json profile.fathom"))
    assert report["rate_hz"] == 999 and report["engine"] == "attach"
    seconds = {f["name"]: f["total_s"] for f in report["functions"]}
    assert seconds["flow"] >= 0.8 * report["cpu_s"] > 0, seconds
    (row,) = report["cpus"]
    assert row["cpu"] == max(os.sched_getaffinity(0)) and row["samples"] == report["samples"] - report["wait_samples"]


NOTEBOOK_OPTIONS = ["", "--cpu", "--memory", "--precision=5", "--detailed", "--log-level INFO", "--no-plots"]


@pytest.mark.parametrize("options", NOTEBOOK_OPTIONS)
def test_profile_a_notebook_by_its_name(project: Path, options: str) -> None:
    """`fixit profile my_new_method.ipynb`: by its bare name while that is unique, by a longer one, by its whole path."""
    (project / "pyproject.toml").write_text("")
    for folder in ("my_work", "other_work", "docs"):
        (project / folder).mkdir()
    cells = ["import logging, time", DATAFLOW, "logging.getLogger('x').info('told')\nlogging.warning('look')"]
    path = write_notebook(project / "my_work" / "my_new_method.ipynb", cells)
    ways = (
        [("my_new_method.ipynb", ""), ("my_new_method.ipynb", "docs")] if not options else [("my_new_method.ipynb", "")]
    )
    outs = [shell(project / where, "fathom run %s %s" % (options, name)) for name, where in ways]
    if not options:
        write_notebook(project / "other_work" / "my_new_method.ipynb", ["raise SystemExit(3)"])
        said = shell(project, "fathom run my_new_method.ipynb 2>&1 || echo status $?")
        assert "2 files are named my_new_method.ipynb" in said and "status 1" in said
        outs += [
            shell(project, "fathom run my_work/my_new_method.ipynb"),
            shell(project / "docs", "fathom run %s" % path),
        ]
    for out in outs:
        assert re.search(r"^Finished in [0-9.]+ seconds using [0-9.]+ MB of RAM\.$", out, re.M), out
        assert "Check logs " in out and "1 warning" in out, out
        assert re.search(r"^ \d\. flow  .*\(my_new_method\.ipynb \[cell 2\]:3\)$", out, re.M), out
    folders = sorted((project / ".fathom" / "my_new_method").iterdir())
    assert len(folders) == len(outs)
    for folder in folders:
        assert {"my_new_method.ipynb", "logs.log", "profile_results.txt", "profile.fathom"} <= {
            p.name for p in folder.iterdir()
        }
    lines = (folders[0] / "profile_results.txt").read_text().splitlines()
    assert lines[0] == " ".join(("fathom run %s my_new_method.ipynb" % options).split())
    assert ("told" in (folders[0] / "logs.log").read_text()) == ("INFO" in options)


def test_help_of_run_has_every_option(project: Path) -> None:
    text = shell(project, "fathom run --help")
    for option in ("--cpu", "--memory", "--precision", "--detailed", "--log-level", "--no-plots"):
        assert re.search(r"^ .*%s\b" % option, text, re.M), option


def test_what_is_traced_can_be_watched_at_the_usual_port(project: Path) -> None:
    """Tracy's client listens at 8086, and its window connects to that."""
    with socket.socket() as taken:
        if taken.connect_ex(("127.0.0.1", 8086)) == 0:
            pytest.skip("port 8086 is in use")
    (project / "test_script.py").write_text(
        INSTRUMENTED + "import time\nwhile True: function_under_test(); time.sleep(0.001)\n"
    )
    text = shell(
        project,
        "python -m fathom --listen 8086 test_script.py 2>err & PID=$!\n"
        "trap 'kill $PID' EXIT\n"
        "until grep -q 'fathom live' err; do kill -0 $PID; sleep 0.05; done\n"
        "until fathom live --once | tee seen | grep -q function_under_test; do kill -0 $PID; done; cat seen",
    )
    assert re.search(r"^running, [0-9.]+ s, process \d+, Python 3", text, re.M), text
