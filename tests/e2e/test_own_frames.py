# SPDX-License-Identifier: Apache-2.0
"""Fathom's own Python code in the target shows in no output: not its hooks, nor what runs scripts, jobs and notebooks."""

import sys
from pathlib import Path
from typing import Iterator, List

import pytest
from capture import ROOT, Capture, Python
from guest import FATHOM, clean_env, run
from runs import BURN, fathom_run, one_python, write_notebook

sys.path.insert(0, str(ROOT / "tests" / "reader"))
from fathom_view import Bundle  # noqa: E402

# Most of what logging does here is done by the hook that keeps logs.log: it looks at every record, and writes one in eight.
LOGS = (
    BURN
    + """
import logging
logging.getLogger().addHandler(logging.NullHandler())
log = logging.getLogger("app")
log.propagate = False
log.addHandler(logging.NullHandler())
def loop(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        log.error("one %d", 2)
        for _ in range(7):
            log.warning("none")
loop(0.5)
"""
)


def our_files() -> List[str]:
    package = ROOT / "python" / "fathom"
    return ["fathom/" + str(p.relative_to(package)) for p in package.rglob("*.py")]


def places(capture: Capture) -> Iterator[str]:
    """Wherever outputs name a file; command lines may well name ours."""
    for table in ("functions", "lines"):
        yield from (row["file"] for row in capture.report[table])
    for options in (["--full-filenames"], ["--full-filenames", "--idle", "--python-only"]):
        yield from (frame for frames, _ in capture.collapsed(*options) for frame in frames)
    out = capture.path.with_suffix(".fmview")
    assert run([FATHOM, "export", "-f", "bundle", "-o", out, capture.path]).returncode == 0
    bundle = Bundle.of_file(out)
    yield from (bundle.text(i) for column in ("function.file", "file.name") for i in bundle[column])
    for options in ([], ["--detailed", "--full-filenames"]):
        text = run([FATHOM, "report", *options, capture.path]).stdout
        yield from (line for line in text.splitlines() if "Command" not in line and "python" not in line)
    for name in ("speedscope", "callgrind", "dot", "csv"):
        yield from run([FATHOM, "export", "-f", name, "--full-filenames", "-o", "-", capture.path]).stdout.splitlines()


def check(capture: Capture, python: Python) -> None:
    found = {(name, place[:200]) for place in places(capture) for name in our_files() if name in place}
    assert not found, (str(python), found)


@pytest.mark.statistical
def test_hooks_of_a_run(tmp_path: Path) -> None:
    for python in one_python(newest=True):
        script = tmp_path / "app.py"
        script.write_text(LOGS)
        results = fathom_run(tmp_path, [script], ["--log-level", "ERROR", "--cpu"], python=python.path)
        assert results.done.returncode == 0, results.done.stderr
        check(results.capture, python)
        # What the hook costs is told, as our own, and paid for by the line that logs.
        rows = {f["name"]: f for f in results.report["functions"]}
        assert rows["[fathom]"]["self_s"] > 0.01 and not rows["[fathom]"]["file"]
        lines = {line["line"] for line in results.report["lines"] if line["file"] == str(script)}
        assert {i + 1 for i, text in enumerate(LOGS.split("\n")) if "log." in text and "    " in text} <= lines


@pytest.mark.statistical
def test_what_runs_a_script_or_a_job(tmp_path: Path) -> None:
    for python in one_python():
        (tmp_path / "app.py").write_text(BURN + "burn(0.2)\n")
        env = clean_env({"PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"})
        out = tmp_path / "script.fathom"
        done = run([python.path, "-m", "fathom", "-q", "-o", out, "app.py"], cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        capture = Capture(out, done)
        check(capture, python)
        assert capture.seconds("burn") > 0.1

        job = "import app, fathom\nif __name__ == '__main__': print(fathom.run_job(app.burn, 0.2, output_dir='runs').folder)\n"
        (tmp_path / "app.py").write_text(BURN)
        (tmp_path / "job.py").write_text(job)
        done = run([python.path, "job.py"], cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        capture = Capture(Path(tmp_path / done.stdout.strip().splitlines()[-1]) / "profile.fathom", done)
        check(capture, python)
        assert capture.seconds("burn") > 0.1


def test_what_runs_a_notebook(tmp_path: Path) -> None:
    for python in one_python():
        results = fathom_run(tmp_path, [write_notebook(tmp_path / "n.ipynb", [BURN, "burn(0.2)"])], python=python.path)
        check(results.capture, python)
        outermost = {frames[0] for frames, _ in results.capture.collapsed()}
        assert any("[cell 2]" in frame for frame in outermost), outermost
