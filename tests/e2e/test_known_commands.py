"""What users of cProfile and of Tracy's Python module write and type, with fathom's name in place of the tool's."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import BUILD, ROOT
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
        assert (found["step"], found["work"], found[TEST]) == (840, 3, 1) and found["pytest_pyfunc_call"] == 1
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
