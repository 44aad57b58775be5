# SPDX-License-Identifier: Apache-2.0
"""Programs that a traced program starts are part of its trace: spawned, served by a fork server, run as commands, exec'd."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capture import ROOT, Python
from tracing import FEW, pythons, rows_of, source, trace

each_python = True  # tests name their Pythons themselves

WORK = """
import os
def leaf():
    pass
def work(n):
    for _ in range(n):
        leaf()
    return os.getpid()
"""

MULTIPROCESSING = """
import multiprocessing, os, sys
import work
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        pids = set(pool.map(work.work, [100, 200, 300, 400], chunksize=1))
        pool.close()
        pool.join()
    work.work(50)
    assert os.getpid() not in pids
"""

SUBPROCESS = """
import os, subprocess, sys
import work
before = dict(os.environ)
command = "import os, sys, work; work.work(300); print('FATHOM_STARTUP_JOIN' in os.environ, os.environ.get('PYTHONPATH'), sys.path[0] == '')"
out = subprocess.run([sys.executable, "-c", command], stdout=subprocess.PIPE, check=True).stdout.decode().split()
assert out == ["False", str(os.environ.get("PYTHONPATH")), "True"], out
subprocess.run([sys.executable, "-c", "import work; work.work(700)"], check=True)
subprocess.run(["true"], check=True)
work.work(50)
assert dict(os.environ) == before
os.execv(sys.executable, [sys.executable, "-c", "import work; work.work(1000)"])
"""


def leaf_calls(profile: Path) -> int:
    return sum(row["calls"] for row in rows_of(profile) if row["name"] == "leaf")


@pythons(FEW[:1] + FEW[-1:])
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_multiprocessing_are_traced(python: Python, tmp_path: Path, method: str) -> None:
    (tmp_path / "work.py").write_text(WORK)
    run = trace(python, tmp_path / "t.fathom", [], [source(tmp_path, MULTIPROCESSING), method], cwd=tmp_path)
    assert "lost" not in run.stderr
    assert leaf_calls(tmp_path / "t.fathom") == 1050


@pythons(FEW[:1] + FEW[-2:])
def test_commands_and_what_they_become_are_traced(python: Python, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    trace(python, tmp_path / "t.fathom", ["--exclude", "*/encodings/*"], [source(tmp_path, SUBPROCESS)], cwd=tmp_path)
    assert leaf_calls(tmp_path / "t.fathom") == 300 + 700 + 50 + 1000


OWN_ENVIRONMENT = """
import os, subprocess, sys
import work
COMMAND = "import os, sys, work; work.work(%d); print(sorted(os.environ.items()), sys.path[1:])"
def run(n, env, **options):
    print(subprocess.run([sys.executable, "-c", COMMAND % n], env=env, stdout=subprocess.PIPE, check=True, **options).stdout.decode())
run(100, {})
run(200, {"A": "1"}, close_fds=False)       # by posix_spawn, where subprocess has it
run(300, dict(os.environ, B="2"))
run(400, {"PYTHONPATH": "/nowhere:/else"})
subprocess.run([sys.executable, "-c", "import os, subprocess, sys; subprocess.run([sys.executable, '-c', 'import work; work.work(600)'], env={})"], env={}, check=True)
os.environ["PYTHONPATH"] = "/another"
run(700, None)
sys.stdout.flush()
os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", COMMAND % 800], {}), 0)
os.waitpid(os.posix_spawnp(sys.executable, [sys.executable, "-c", COMMAND % 900], {"C": "3"}), 0)
if os.spawnve(os.P_WAIT, "/nowhere/python", ["python"], {}) != 127:
    sys.exit("what cannot be run is no error any more")
os.execve(sys.executable, [sys.executable, "-c", COMMAND % 1000], {"D": "4"})
"""


@pythons(FEW[:1] + FEW[-2:-1])
def test_an_environment_of_its_own_leads_nobody_astray(python: Python, tmp_path: Path) -> None:
    """Cleared, copied, changed: every child is traced, and sees what it was given and nothing else."""
    (tmp_path / "work.py").write_text(WORK)
    program = source(tmp_path, OWN_ENVIRONMENT)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env["PYTHONPATH"] = str(ROOT / "python")
    bare = subprocess.run([python.path, program], stdout=subprocess.PIPE, check=True, text=True, env=env, cwd=tmp_path)
    run = trace(python, tmp_path / "t.fathom", [], [program], cwd=tmp_path)
    assert run.stdout == bare.stdout and len(run.stdout.splitlines()) == 13
    assert leaf_calls(tmp_path / "t.fathom") == 100 + 200 + 300 + 400 + 600 + 700 + 800 + 900 + 1000


# What a child that ignores its environment, its user's files or `site` prints is the same without us; -S has no site-packages.
ISOLATED = """
import os, subprocess, sys
import work
COMMAND = "import os, sys; sys.path.insert(0, %r); import work; work.work(%d); print(sys.flags[:9], sorted(os.environ.items()), sys.path[1:])"
def run(n, *options, **more):
    command = [sys.executable, *options, COMMAND % (os.getcwd(), n)]
    print(subprocess.run(command, stdout=subprocess.PIPE, check=True, **more).stdout.decode())
run(100, "-I", "-c")
run(200, "-E", "-c", env={"A": "1"})
run(300, "-S", "-c")
run(400, "-W", "ignore", "-sISc")
run(500, "-Xutf8", "-I", "-c", env={})
with open("isolated.py", "w") as file:
    file.write(COMMAND % (os.getcwd(), 600))
print(subprocess.run([sys.executable, "-I", "isolated.py"], stdout=subprocess.PIPE, check=True).stdout.decode())
grandchild = "import os, subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import work; work.work(700)'], check=True), sorted(os.environ))"
subprocess.run([sys.executable, "-I", "-c", grandchild], check=True)
code = subprocess.run([sys.executable, "-I", "-c", "import atexit, os; atexit.register(lambda: print('at exit', flush=True)); raise SystemExit(3)"]).returncode
print(code, flush=True)
os.execl(sys.executable, sys.executable, "-I", "-c", COMMAND % (os.getcwd(), 1000))
"""


@pythons(FEW)
def test_what_ignores_its_environment_is_traced_all_the_same(python: Python, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    program = source(tmp_path, ISOLATED)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env["PYTHONPATH"] = str(ROOT / "python")
    bare = subprocess.run([python.path, program], stdout=subprocess.PIPE, check=True, text=True, env=env, cwd=tmp_path)
    run = trace(python, tmp_path / "t.fathom", [], [program], cwd=tmp_path)
    assert run.stdout == bare.stdout and run.stderr.count("Error") == 0
    assert leaf_calls(tmp_path / "t.fathom") == 100 + 200 + 300 + 400 + 500 + 600 + 700 + 1000


PARTIAL = """
import subprocess, sys
import work
work.work(10)
command = "import fathom, work\\nwork.work(20)\\nwith fathom.Profiler(): work.work(40)\\nwith fathom.zone('in child'): pass"
subprocess.run([sys.executable, "-c", command], check=True)
"""


@pythons(FEW[-1:])
def test_with_p_children_trace_what_they_ask_for(python: Python, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    trace(python, tmp_path / "t.fathom", ["-p"], [source(tmp_path, PARTIAL)], cwd=tmp_path)
    assert leaf_calls(tmp_path / "t.fathom") == 40
    assert [row["calls"] for row in rows_of(tmp_path / "t.fathom") if row["kind"] == "zone"] == [1]


@pythons(FEW[-1:])
def test_children_after_the_trace_are_left_alone(python: Python, tmp_path: Path) -> None:
    """An exit handler runs when the capture is over: what it starts finds nothing to join."""
    (tmp_path / "work.py").write_text(WORK)
    program = source(
        tmp_path,
        "import atexit, os, subprocess, sys\n"
        "def late():\n"
        "    subprocess.run([sys.executable, '-c', 'import os; print(os.popen(\"env\").read())'])\n"
        "atexit.register(late)\n",
    )
    run = trace(python, tmp_path / "t.fathom", [], [program], cwd=tmp_path)
    assert "PATH=" in run.stdout and "FATHOM_STARTUP_JOIN" not in run.stdout
    assert "_startup" not in run.stdout, (os.environ.get("PYTHONPATH"), sys.path)
