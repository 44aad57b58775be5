# SPDX-License-Identifier: Apache-2.0
"""logs.log of `fathom run`, and the start-up hook behind it: records are kept, and the program cannot tell."""

import datetime
import resource
import subprocess
import textwrap
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import ROOT, Python
from guest import FATHOM, clean_env, run, some_pythons
from runs import fathom_run, one_python

each_python = True  # conftest: chosen here

RECORDS = """
import logging, sys, warnings
warnings.warn("a warning", RuntimeWarning)
log = logging.getLogger("app.part")
log.warning("from %s\\nand a second line", "here")        # by way of logging's last resort
class Caller(logging.Handler):
    def emit(self, record):
        # What bridges to other log libraries do: the caller is the first frame outside of logging.
        frame = sys._getframe(1)
        while frame.f_code.co_filename == logging.__file__: frame = frame.f_back
        print("handler", record.levelname, record.getMessage(), frame.f_code.co_name, record.funcName, record.lineno)
log.addHandler(Caller())
def work():
    log.error("no %d", 5)
    log.info("not shown"); log.debug("not shown either")
    try: 1 / 0
    except ZeroDivisionError: log.exception("failed")
    logging.LoggerAdapter(log, {}).critical("by an adapter")
work()
quiet = logging.getLogger("quiet"); quiet.setLevel(logging.ERROR); quiet.warning("held back")
off = logging.getLogger("off"); off.disabled = True; off.error("off")
print(log.isEnabledFor(logging.DEBUG), logging.LoggerAdapter(log, {}).isEnabledFor(10), log.getEffectiveLevel())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always"); warnings.warn("kept by the program")
print(len(caught))
warnings.simplefilter("ignore"); warnings.warn("not wanted")
logging.captureWarnings(True); warnings.simplefilter("always"); warnings.warn("once only")
sys.exit(3)
"""


def write(folder: Path, text: str) -> Path:
    script = folder / "program.py"
    script.write_text(textwrap.dedent(text))
    return script


@pytest.mark.parametrize("python", some_pythons(), ids=str)
def test_records(python: Python, tmp_path: Path) -> None:
    script = write(tmp_path, RECORDS)
    bare = run([python.path, script])
    before = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    results = fathom_run(tmp_path, [script], python=python.path)
    after = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    done = results.done
    assert (done.stdout, done.stderr, done.returncode) == (bare.stdout, bare.stderr, bare.returncode)

    found = [(r.level, r.logger, r.line, r.message.partition("\n")[0]) for r in results.records]
    lines = script.read_text().splitlines()

    def at(text: str) -> int:
        return next(i for i, line in enumerate(lines, 1) if text in line)

    assert found == [
        ("WARNING", "py.warnings", at('"a warning"'), "RuntimeWarning: a warning"),
        ("WARNING", "app.part", at("from %s"), "from here"),
        ("ERROR", "app.part", at("no %d"), "no 5"),
        ("ERROR", "app.part", at("log.exception"), "failed"),
        ("CRITICAL", "app.part", at("by an adapter"), "by an adapter"),
        ("WARNING", "py.warnings", at("once only"), "UserWarning: once only"),
    ]
    assert all(r.file == str(script) for r in results.records)
    assert results.records[1].message == "from here\nand a second line"
    assert results.records[3].message.endswith("ZeroDivisionError: division by zero")
    times = [datetime.datetime.strptime(r.time, "%Y-%m-%dT%H:%M:%S.%fZ") for r in results.records]
    second = datetime.timedelta(seconds=1)
    assert times == sorted(times) and before - second < times[0] <= times[-1] < after + second

    assert results.meta["logs_path"] == str(results.folder / "logs.log")
    counts = {k[len("logs_count_") :]: int(v) for k, v in results.meta.items() if k.startswith("logs_count_")}
    assert counts == {"debug": 0, "info": 0, "warning": 3, "error": 2, "critical": 1}


@pytest.mark.parametrize("python", one_python(), ids=str)
def test_levels(python: Python, tmp_path: Path) -> None:
    """A lower level keeps what the program's own levels hold back; the program still sees and shows the same."""
    script = write(tmp_path, RECORDS)
    bare = run([python.path, script])
    lower = fathom_run(tmp_path, [script], options=["--log-level", "DEBUG"], python=python.path)
    higher = fathom_run(tmp_path, [script], options=["--log-level", "ERROR"], python=python.path)
    for results in (lower, higher):
        done = results.done
        assert (done.stdout, done.stderr, done.returncode) == (bare.stdout, bare.stderr, bare.returncode)
    extra = [(r.level, r.message) for r in lower.records if r.level in ("INFO", "DEBUG") or r.logger == "quiet"]
    assert extra == [("INFO", "not shown"), ("DEBUG", "not shown either"), ("WARNING", "held back")]
    assert {r.level for r in higher.records} == {"ERROR", "CRITICAL"} and len(higher.records) == 3


STATE = """
import os, sys
modules = set(sys.modules)
print(sorted((k, v) for k, v in os.environ.items() if k not in ("LD_PRELOAD", "FATHOM_RING")))
print(os.environb.get(b"PYTHONPATH"), sys.path, sys.argv, os.getcwd(), sys.flags, sys.executable)
print(sorted(modules - {"warnings", "_py_warnings", "_contextvars"}), __name__, __file__, sorted(vars()))
print([getattr(f, "__name__", type(f).__name__) for f in sys.meta_path if type(f).__name__ != "Watcher"])
print(sorted(os.path.basename(p) for p in sys.path_importer_cache), sys.stdin.read())
print(sorted(os.listdir("/proc/self/fd"))[:4], sys.getprofile(), sys.gettrace(), len(os.listdir("/proc/self/task")))
import importlib.util, logging
print(type(logging.__loader__), type(logging.__spec__.loader), logging.__spec__.origin, [type(f) for f in sys.meta_path])
print(os.environ.copy() == dict(os.environ), os.getenv("FATHOM_STARTUP"))
"""
CUSTOM = "import sys, os\nprint('custom', __name__, os.getenv('PYTHONPATH'), os.getenv('FATHOM_STARTUP'), __file__)\n"


@pytest.mark.parametrize("python", some_pythons(), ids=str)
def test_invisible(python: Python, tmp_path: Path) -> None:
    """Whatever PYTHONPATH says; the user's own sitecustomize runs as ever, also when it fails."""
    script = write(tmp_path, STATE)
    good, bad = tmp_path / "good site", tmp_path / "bad"
    for folder, text in ((good, CUSTOM), (bad, CUSTOM + "1 / 0\n")):
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(text)
    paths: List[Dict[str, str]] = [
        {},
        {"PYTHONPATH": ""},
        {"PYTHONPATH": "%s:/nowhere" % good},
        {"PYTHONPATH": str(bad)},
    ]
    for extra in paths:
        env = clean_env({"PYTHONDONTWRITEBYTECODE": "1", **extra})
        more: Dict[str, Any] = {"env": env, "input": "typed\n", "cwd": tmp_path}
        bare = run([python.path, script, "one", "two words"], **more)
        done = fathom_run(tmp_path, [script, "one", "two words"], python=python.path, **more).done
        assert done.stdout == bare.stdout
        assert (done.stderr, done.returncode) == (bare.stderr, bare.returncode)
    assert "Error in sitecustomize" in bare.stderr


def test_without_hook(tmp_path: Path) -> None:
    """Where no start-up file was read, the report says what is missing. A Python that is told to skip them is no such case."""
    script = write(tmp_path, "import warnings; warnings.warn('unseen'); print('ran')")
    python = some_pythons()[-1]
    for flag in ("-S", "-I", "-E"):
        results = fathom_run(tmp_path, [python.path, flag, script])
        assert results.done.stdout == "ran\n" and results.done.returncode == 0, results.done.stderr
        assert [r.message for r in results.records] == ["UserWarning: unseen"], flag
        assert not [g for g in results.report["coverage"] if g["what"] == "warnings and log records"]
    ended = fathom_run(tmp_path, [python.path, "--version"])
    assert ended.done.stdout.startswith("Python 3") and not (ended.folder / "logs.log").exists()
    (gap,) = [g for g in ended.report["coverage"] if g["what"] == "warnings and log records"]
    assert "ended before" in gap["why"]
    hooked = fathom_run(tmp_path, [python.path, script])
    assert [r.message for r in hooked.records] == ["UserWarning: unseen"]
    assert not [g for g in hooked.report["coverage"] if g["what"] == "warnings and log records"]
    other = fathom_run(tmp_path, ["/bin/true"])  # no Python: nothing is missing
    assert not [g for g in other.report["coverage"] if g["what"] == "warnings and log records"]


CHILDREN = """
import logging, multiprocessing, os, subprocess, sys
def shout(n):
    log = logging.getLogger("child")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    for i in range(100): log.warning("%d %s", i, "x" * 300)
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(3) as pool: pool.map(shout, range(6), chunksize=1)
    code = "import warnings; warnings.warn('by subprocess')"
    subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    pid = os.fork()
    if pid == 0:
        os.closerange(3, 256)          # as daemons do: the next file must not get our lines
        with open(sys.argv[1], "w") as own: logging.error("forked"); own.write("mine")
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_children(tmp_path: Path) -> None:
    """Every process appends; no line is torn or lost."""
    results = fathom_run(tmp_path, [write(tmp_path, CHILDREN), tmp_path / "own"], python=some_pythons()[-1].path)
    assert results.done.returncode == 0, results.done.stderr
    by_child = [r for r in results.records if r.logger == "child"]
    assert len(by_child) == 1200
    assert all(r.message.split() == [r.message.split()[0], "x" * 300] for r in by_child)
    rest = [(r.level, r.message) for r in results.records if r.logger != "child"]
    assert rest == [("WARNING", "UserWarning: by subprocess"), ("ERROR", "forked")]
    assert (tmp_path / "own").read_text() == "mine"


def test_lost_folder(tmp_path: Path) -> None:
    """A log that cannot be written is no business of the program's."""
    script = write(
        tmp_path,
        """
        import glob, logging, os, sys, warnings
        for path in glob.glob(sys.argv[1] + "/*/*/logs.log"):
            os.rename(os.path.dirname(path), os.path.dirname(path) + "-moved")
        warnings.warn("w"); logging.error("e"); print("went on")
        """,
    )
    done = run([FATHOM, "run", "-q", "--output-dir", tmp_path / "r", script, tmp_path / "r"])
    assert done.stdout == "went on\n" and done.returncode == 0
    assert "Traceback" not in done.stderr and "ERROR:root:e" in done.stderr


def cpu_of(command: List[str], env: Dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.statistical
@pytest.mark.parametrize("python", one_python(newest=True), ids=str)
def test_cost(python: Python, tmp_path: Path) -> None:
    """Of a start, in CPU time: the least of several, taken in turn, so that a busy machine counts for both."""
    hooked = clean_env({"PYTHONPATH": str(ROOT / "python/fathom/_startup"), "FATHOM_STARTUP": "1 30 -cp %s" % tmp_path})
    command = [python.path, "-c", "pass"]
    pairs = [(cpu_of(command, clean_env()), cpu_of(command, hooked)) for _ in range(12)]
    assert (tmp_path / "logs.log").exists()
    assert min(b for _, b in pairs) - min(a for a, _ in pairs) < 0.005


def test_bad_level(tmp_path: Path) -> None:
    done = run([FATHOM, "run", "--log-level", "LOUD", write(tmp_path, "pass")])
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "DEBUG" in done.stderr
