# SPDX-License-Identifier: Apache-2.0
"""CPU time of native worker threads is charged to the Python line that waits for them, and to no other."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest
from capture import BUILD, CLASS_GIL_WAIT, CLASS_WAIT, TARGETS, Capture, Python, standard_error_s
from guest import LONG
from runs import fathom_run, write_notebook
from test_truth import PERIOD_S, Comparison, line_row

pytestmark = pytest.mark.statistical

HERE = Python("%d.%d" % sys.version_info[:2], "release", sys.executable)  # numpy, if there is one, is the tests' own
SECONDS = 0.24  # of each worker at each line


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: Any) -> Tuple[str, str]:
    cc = shutil.which("gcc") or shutil.which("cc")
    if not cc:
        pytest.skip("no C compiler")
    out = tmp_path_factory.mktemp("pool")
    for name, options in (("pool", ["-pthread"]), ("pool_openmp", ["-fopenmp"])):
        command = [cc, "-O2", "-g", "-shared", "-fPIC", *options, "-o", str(out / f"lib{name}.so")]
        if subprocess.run([*command, str(TARGETS / f"{name}.c")]).returncode:
            pytest.skip("the compiler has no OpenMP")
    return str(out / "libpool.so"), str(out / "libpool_openmp.so")


def text_report(capture: Capture) -> str:
    command = [str(BUILD / "fathom"), "report", "--width", "120", str(capture.path)]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout


@pytest.mark.pythons(15)  # whose work it is is told by threads, whichever Python they wait in
@pytest.mark.parametrize("n", [1, 2, 4, 8] if LONG else [1, 2, 4])
def test_workers(
    profile: Any, python: Python, libraries: Tuple[str, str], tmp_path: Path, n: int, record_property: Any
) -> None:
    file = tmp_path / "truth.json"
    args = [str(file), str(SECONDS), *libraries, str(n)]
    capture: Capture = profile("truth_workers.py", args, ["--max-overhead", "0"], python)
    truth: Dict[str, float] = json.loads(file.read_text())
    samples = [s for s in capture.samples if s.kind not in (CLASS_WAIT, CLASS_GIL_WAIT)]
    rows = {name: line_row(capture, "truth_workers.py", name) for name in truth}

    c = Comparison(f"workers {n} {python}", samples)
    for name in ("waits", "helps", "team"):
        c.add(name, truth[name], rows[name]["total_s"])
    # Each thread's first and last sample of each of three calls may be off by a period.
    c.judge(record_property, allowance_s=3 * (n + 1) * PERIOD_S)

    assert rows["waits"]["worker_threads"] == rows["helps"]["worker_threads"] == n
    assert rows["team"]["worker_threads"] == n - 1
    assert rows["waits"]["worker_s"] == pytest.approx(rows["waits"]["total_s"], abs=0.02)
    assert rows["alone"]["worker_s"] == 0 and rows["alone"]["worker_threads"] == 0
    assert f"+ {n} worker thread{'' if n == 1 else 's'}: " in text_report(capture)

    time = capture.report["workers"]
    assert time["worker_s"] == pytest.approx(sum(r["worker_s"] for r in rows.values()), abs=1e-6)
    # What nobody waits for stays apart, and the report says so.
    tolerance_s = 3 * standard_error_s(SECONDS, samples) + 3 * (n + 1) * PERIOD_S
    assert time["untied_s"] == pytest.approx(SECONDS, abs=tolerance_s)
    assert any("native threads' CPU time" in row["what"] for row in capture.report["coverage"])


def test_all_outputs_agree(profile: Any, libraries: Tuple[str, str], tmp_path: Path) -> None:
    """Functions, stacks and lines are made of the same samples: a line's CPU time is in its function's total, everywhere."""
    args = [str(tmp_path / "truth.json"), "0.12", *libraries, "3"]
    capture: Capture = profile("truth_workers.py", args, ["--max-overhead", "0"], HERE)
    row = line_row(capture, "truth_workers.py", "waits")
    assert capture.seconds("waits") == pytest.approx(row["total_s"], abs=1e-6)
    stacks = capture.collapsed("--unit", "us")
    below = sum(n for frames, n in stacks if any(f.startswith("waits ") for f in frames))
    assert below * 1e-6 == pytest.approx(row["total_s"], rel=0.01)
    marked = sum(n for frames, n in stacks if "[worker threads]" in frames)
    assert marked * 1e-6 == pytest.approx(capture.report["workers"]["worker_s"], rel=0.01) and marked
    whole = sum(n for _, n in stacks) * 1e-6
    assert whole == pytest.approx(sum(t["cpu_s"] for t in capture.report["threads"]), rel=0.05)


CELLS = [
    "import ctypes\npool = ctypes.CDLL({library!r})\n"
    "pool.pool_run.argtypes = (ctypes.c_double, ctypes.c_bool)\npool.pool_start(3)",
    "for _ in range(3):\n    pool.pool_run(0.15, False)",
]
BLAS_CELLS = [
    "import numpy, time\nA = numpy.random.rand(900, 900)\nA @ A",
    "end = time.process_time() + 0.8\nwhile time.process_time() < end:\n    A @ A",
]


def test_cells_of_a_notebook_have_the_time_of_their_workers(libraries: Tuple[str, str], tmp_path: Path) -> None:
    """The table of cells says what the process used meanwhile; a cell's functions and lines are as much."""
    has_numpy = not subprocess.run([sys.executable, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode
    cells = [cell.format(library=libraries[0]) for cell in CELLS] + (BLAS_CELLS if has_numpy else [])
    results = fathom_run(tmp_path, [write_notebook(tmp_path / "n.ipynb", cells)], ["--cpu"], python=HERE.path)
    assert results.done.returncode == 0, results.done.stderr
    table = {cell["cell"]: cell["cpu_s"] for cell in results.report["cells"]}
    samples = [s for s in results.capture.samples if s.kind not in (CLASS_WAIT, CLASS_GIL_WAIT)]
    for number in (2, 4) if has_numpy else (2,):
        name = f"n.ipynb [cell {number}]"
        body = sum(f["total_s"] for f in results.report["functions"] if f["file"] == name and f["name"] == "<module>")
        lines = [line for line in results.report["lines"] if line["file"] == name]
        # A thread's first and last sample may be off by a period; of BLAS, threads spin for the next product a while when the cell is over, and no call waits for them.
        allowed_s = 2 * 4 * PERIOD_S + 3 * standard_error_s(table[number], samples)
        allowed_s += 0.05 * table[number] if number == 4 else 0
        assert body == pytest.approx(table[number], abs=allowed_s), (number, lines)
        assert sum(line["total_s"] for line in lines) == pytest.approx(body, abs=1e-3)
        if number == 2:
            assert table[number] >= 3 * 3 * 0.15 and lines[0]["worker_threads"] == 3


def test_matrix_product(profile: Any, tmp_path: Path, record_property: Any) -> None:
    if subprocess.run([sys.executable, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no numpy in the environment of the tests")
    program = tmp_path / "product.py"
    program.write_text(
        "import json, time, numpy\n"
        "A = numpy.random.rand(900, 900)\n"
        "A @ A\n"
        "def product():\n"
        "    start = time.process_time()\n"
        "    while time.process_time() - start < 1.0:\n"
        "        A @ A\n"
        "    return time.process_time() - start\n"
        f"json.dump(product(), open({str(tmp_path / 'truth.json')!r}, 'w'))\n"
    )
    capture: Capture = profile(str(program), [], ["--max-overhead", "0"], HERE)
    true_s: float = json.loads((tmp_path / "truth.json").read_text())
    line = next(r for r in capture.report["lines"] if r["file"] == str(program) and r["line"] == 7)
    samples = [s for s in capture.samples if s.kind not in (CLASS_WAIT, CLASS_GIL_WAIT)]
    tolerance_s = (
        3 * standard_error_s(true_s, samples) + 0.05 * true_s
    )  # between two products workers spin for the next
    record_property("share", line["total_s"] / true_s)
    assert line["total_s"] == pytest.approx(true_s, abs=tolerance_s)
    if len({s.thread for s in samples}) > 1:
        assert line["worker_threads"] >= 1
