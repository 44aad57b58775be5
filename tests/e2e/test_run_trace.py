# SPDX-License-Identifier: Apache-2.0
"""`fathom run --trace`: samples, memory and every call of one run in one file, and a program that cannot tell."""

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import Python
from guest import FATHOM, clean_env, compile_target, run
from runs import BURN, Results, fathom_run
from tracing import ALL, FEW, LONG, TRUTH, check_truth, pythons, source

each_python = True  # tests name their Pythons themselves
SOME = [p for p in FEW if p.minor in (8, 11) or p is FEW[-1]]


def traced(tmp_path: Path, target: List[Any], python: Python, *options: str) -> Results:
    results = fathom_run(tmp_path, target, ["--trace", *options], python=python.path)
    assert not (results.folder / "traced").exists(), "a note for us, not for the user"
    return results


def python_calls(results: Results, file: str) -> Dict[str, int]:
    return {f["name"]: f["calls"] for f in results.report["calls"]["functions"] if f["file"] == file}


@pythons(SOME)
@pytest.mark.parametrize("what", ["recursion", "threads", "forks"])
def test_counts_are_exact(python: Python, tmp_path: Path, what: str) -> None:
    results = traced(tmp_path, [TRUTH, what], python, "--cpu")
    check_truth(results.folder / "profile.fathom", results.done.stdout)
    assert results.report["calls"]["lost_events"] == 0
    assert not [c for c in results.report["coverage"] if c["what"].startswith(("calls", "the calls"))]


PROGRAM = (
    BURN
    + """
import sys
def hot(n): burn(n)
def keep(): return [bytearray(1 << 20) for _ in range(40)]
def main():
    kept = keep()
    for _ in range(4): hot(0.1)
    print(len(kept), sys.argv, __name__, __file__)
main()
"""
)


@pytest.mark.statistical
@pythons(SOME)
def test_one_run_has_samples_memory_and_calls(python: Python, tmp_path: Path) -> None:
    program = source(tmp_path, PROGRAM)
    bare = run([python.path, program, "--an", "option"])
    results = traced(tmp_path, [program, "--an", "option"], python)
    assert (results.done.stdout, results.done.stderr) == (bare.stdout, bare.stderr)
    report = results.report
    calls = {f["name"]: f for f in report["calls"]["functions"] if f["file"] == program}
    assert (calls["hot"]["calls"], calls["burn"]["calls"], calls["main"]["calls"], calls["keep"]["calls"]) == (
        4,
        4,
        1,
        1,
    )
    # Both clocks are of one time: what is sampled in hot() and the calls of hot() are the same 0.4 s of CPU.
    sampled = next(f for f in report["functions"] if f["name"] == "hot")["total_s"]
    assert sampled == pytest.approx(0.4, rel=0.25) and calls["hot"]["total_s"] >= 0.4
    assert report["memory"]["peak_bytes"] > 40 << 20
    text = run([FATHOM, "report", results.folder / "profile.fathom"]).stdout
    assert "Calls: (every one was traced)" in text and "Time by Kind:" in text
    if LONG:
        assert calls["<module>"]["total_s"] <= report["wall_s"]


@pythons(FEW[-1:])
def test_every_python_of_the_program_is_traced(python: Python, tmp_path: Path) -> None:
    """Children that are started anew, too, with whatever environment."""
    program = source(
        tmp_path,
        """
        import multiprocessing, os, subprocess, sys
        def step(i): return i
        def work(n):
            for i in range(n): step(i)
        if __name__ == "__main__":
            work(10)
            subprocess.run([sys.executable, "-c", "def child(): pass\\nfor _ in range(7): child()"], check=True)
            bare = "import os\\ndef bare(): pass\\nfor _ in range(9): bare()\\nprint('given', [k for k in os.environ if k != 'LC_CTYPE'])"
            subprocess.run([sys.executable, "-c", bare], env={}, check=True)
            again = "import subprocess, sys\\nsubprocess.run([sys.executable, '-c', %r], check=True)" % bare
            subprocess.run([sys.executable, "-c", again], env={"A": "1"}, check=True)
            subprocess.run([sys.executable, "-c", "def copied(): pass\\nfor _ in range(5): copied()"], env=dict(os.environ, B="2"), check=True)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.map(work, [20, 30])
            print(sorted(k for k in os.environ if k.startswith(("FATHOM_", "PYTHONPATH"))))
        """,
    )
    Path(program).write_text(textwrap.dedent(Path(program).read_text()))
    results = traced(tmp_path, [program], python, "--cpu")
    # FATHOM_RING is how children are followed at all; the rest is taken back.
    assert "FATHOM_STARTUP" not in results.done.stdout and "PYTHONPATH" not in results.done.stdout
    calls = python_calls(results, program)
    assert (calls["step"], calls["work"]) == (60, 3)
    calls = python_calls(results, "<string>")
    assert (calls["child"], calls["bare"], calls["copied"]) == (7, 9 + 9, 5)
    # One that is cleared, or has but one variable, has nothing of ours in it.
    assert results.done.stdout.count("given []") == 1 and results.done.stdout.count("given ['A']") == 1


@pythons(FEW[-1:])
def test_modules_exit_codes_and_exit_functions(python: Python, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(
        "import atexit, sys\n"
        "def last(): pass\n"
        "def fails(): raise KeyError('x')\n"
        "atexit.register(last)\n"
        "if len(sys.argv) > 1: fails()\n"
        "sys.exit(3)\n"
    )
    file = str(tmp_path / "package" / "__main__.py")
    results = fathom_run(tmp_path, ["-m", "package"], ["--trace", "--cpu"], python=python.path, cwd=tmp_path)
    assert results.done.returncode == 3
    assert python_calls(results, file)["last"] == 1
    bare = run([python.path, "-m", "package", "x"], cwd=tmp_path)
    results = fathom_run(tmp_path, ["-m", "package", "x"], ["--trace", "--cpu"], python=python.path, cwd=tmp_path)
    assert (results.done.returncode, results.done.stderr) == (1, bare.stderr)
    assert python_calls(results, file)["fails"] == 1


PROFILERS = """
import fathom
profiler = fathom.Profiler()
def step(): pass
step()
profiler.enable(); step(); profiler.disable()
with fathom.zone("zone"), profiler: step()
step()
"""


@pythons(SOME)
def test_profilers_of_the_program_have_nothing_to_do(python: Python, tmp_path: Path) -> None:
    """All is traced; what they enclose is not traced twice, and they do not end it."""
    program = source(tmp_path, PROFILERS)
    package = str(Path(__file__).parents[2] / "python")
    Path(program).write_text("import sys; sys.path.append(%r)\n" % package + PROFILERS)
    results = traced(tmp_path, [program], python, "--cpu")
    assert results.done.stderr == ""
    assert python_calls(results, program)["step"] == 4


SUBINTERPRETER = """
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
def f(): pass
f()
second = interpreters.create()
run = interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string
run(second, "def g(): pass\\ng(); print('ran')")
interpreters.destroy(second)
f()
"""


@pythons(SOME)
def test_a_second_interpreter_is_harmless_and_said(python: Python, tmp_path: Path) -> None:
    program = source(tmp_path, SUBINTERPRETER)
    results = traced(tmp_path, [program], python, "--cpu")
    assert (results.done.stdout, results.done.stderr) == ("ran\n", "")
    assert python_calls(results, program)["f"] == 2
    if python.minor >= 11:  # 3.8 gives the second one the first one's environment as it is by then
        assert [c for c in results.report["coverage"] if c["what"] == "the calls of 1 of 2 Pythons"]


@pytest.mark.parametrize("option", ["-I", "-S", "-sE", "-IXdev"])
def test_a_program_that_ignores_its_environment_is_traced(tmp_path: Path, option: str) -> None:
    """Logs are kept, too: the agent does all that the start-up file does. -X dev: allocators that check what is given back to them."""
    python = FEW[{"-I": 0, "-S": -1, "-sE": len(FEW) // 2, "-IXdev": 0}[option]]
    text = """
        import logging, os, sys
        def f(): pass
        for _ in range(9): f()
        logging.warning("said")
        print(sys.flags[:9], [k for k in os.environ if "FATHOM_ST" in k or "PYTHON" in k], [p for p in sys.path if "_startup" in p])
    """
    program = source(tmp_path, textwrap.dedent(text))
    bare = run([python.path, option, program])
    results = fathom_run(tmp_path, [python.path, option, program], ["--trace", "--cpu"])
    assert (results.done.stdout, results.done.stderr) == (bare.stdout, bare.stderr) and bare.stdout.endswith("[] []\n")
    assert (results.done.returncode, python_calls(results, program)["f"]) == (bare.returncode, 9)
    assert not [c for c in results.report["coverage"] if "calls" in c["what"]]
    assert [r.message for r in results.records] == ["said"]


def test_every_kind_of_exec_leads_on(tmp_path: Path) -> None:
    """Below a program that was given an empty environment nothing is inherited: all that leads on is what exec adds."""
    python = next(p for p in ALL if p.kind == "release" and p.minor == 11) if len(ALL) > 3 else ALL[0]
    program = compile_target(tmp_path, "exec_kinds", ["exec_kinds.c"])
    for how in ("execl", "execlp", "execle", "fexecve"):
        code = "import os, sys\ndef f(): pass\nfor _ in range(7): f()\nprint(sorted(set(os.environ) - {'LC_CTYPE'}), sys.argv)"
        command = ["/usr/bin/env", "-i", program, how, python.path, "-c", code]
        bare = run(command)
        results = fathom_run(tmp_path, command, ["--trace", "--cpu"])
        assert results.done.stdout == bare.stdout == "[] ['-c']\n", how
        calls = [f["calls"] for f in results.report.get("calls", {"functions": []})["functions"] if f["name"] == "f"]
        assert calls == [7], how


def test_what_is_not_traced_is_said(tmp_path: Path) -> None:
    results = fathom_run(tmp_path, ["/bin/true"], ["--trace", "--cpu"])
    why = [c["why"] for c in results.report["coverage"] if c["what"] == "calls: none was traced"]
    assert why == ["it ran no Python that can be traced"]
    assert "calls" not in results.report


def test_record_traces_too_and_leaves_nothing_else(tmp_path: Path) -> None:
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    out.mkdir(), temporary.mkdir()
    env = clean_env({"TMPDIR": str(temporary)})
    command = [FATHOM, "record", "--trace", "-o", out / "t.fathom", "--", ALL[-1].path, TRUTH, "exceptions"]
    done = run(command, env=env)
    check_truth(out / "t.fathom", done.stdout)
    command[3:5] = ["-f", "csv", "-o", out / "t.csv"]
    assert run(command, env=env).stdout == done.stdout
    assert '"fails",' in (out / "t.csv").read_text()
    assert sorted(path.name for path in out.iterdir()) == ["t.csv", "t.fathom"]
    assert not list(temporary.iterdir()), "notes and captures are taken away"
    done = run([FATHOM, "record", "--trace", "-o", out / "s.fathom", "--", "/bin/true"], env=env)
    report = run([FATHOM, "report", "--json", out / "s.fathom"]).stdout
    assert "calls: none was traced" in [c["what"] for c in json.loads(report)["coverage"]]


def test_a_project_may_want_it_always(tmp_path: Path) -> None:
    """By a variable, which stays the user's: a fathom that the program starts has it, too."""
    program = source(tmp_path, "import os\ndef f(): pass\nf()\nprint(os.environ['FATHOM_TRACE'])")
    results = fathom_run(tmp_path, [program], ["--cpu"], python=ALL[-1].path, env=clean_env({"FATHOM_TRACE": "1"}))
    assert results.done.stdout == "1\n" and python_calls(results, program)["f"] == 1


def test_trace_is_in_the_help() -> None:
    text = subprocess.run([FATHOM, "run", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "--trace" in text and "fathom run --trace script.py" in text
