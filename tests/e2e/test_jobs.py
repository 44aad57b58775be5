# SPDX-License-Identifier: Apache-2.0
"""Profiling from code: run_job(), job(), and IPython's %fathom. What each function burns is known."""

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest
from capture import ROOT, Capture, Python
from guest import LONG, clean_env, run, some_pythons
from runs import BURN, fathom_run, one_python, python_with

each_python = True  # conftest: chosen here


def run_code(python: str, folder: Path, code: str, **more: Any) -> Tuple[Dict[str, Any], Any]:
    """Runs a script that can import fathom; (what it printed last, as JSON; the run)."""
    script = folder / "generator.py"
    script.write_text("import json, os, sys\nimport fathom\n" + BURN + textwrap.dedent(code))
    more.setdefault("env", clean_env({"PYTHONPATH": str(ROOT / "python")}))
    done = run([python, script], cwd=folder, **more)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout.splitlines()[-1]), done


SECONDS = """
def seconds(report, name):
    return sum(f["total_s"] for f in report.json["functions"] if f["name"] == name)
"""

RUN_JOB = (
    SECONDS
    + """
import functools, warnings
class Simulation:
    def __init__(self, size): self.size = size
    def __call__(self, n):
        warnings.warn("in the job")
        burn(self.size)
        return {"n": n, "pid": os.getpid()}
def plain(n, size=0.1):
    burn(size)
    return n
def fails(): raise ValueError("not today")
def leaves(): os._exit(9)
if __name__ == "__main__":
    out = {}
    report = fathom.run_job(Simulation(0.3), 5, output_dir="runs", name="first try", rate=2000)
    out["call"] = [report.value["n"], report.value["pid"] != os.getpid(), report.exit_code, seconds(report, "__call__")
                   or seconds(report, "Simulation.__call__")]
    out["files"] = [os.path.relpath(report.folder, "runs").split("/")[0], os.path.exists(report.profile), os.path.exists(report.text_path),
                    "in the job" in open(report.logs).read(), "burn" in report.summary, report.json["rate_hz"]]
    out["partial"] = [fathom.run_job(functools.partial(plain, size=0.01), 7, output_dir="runs").value]
    failed, left = fathom.run_job(fails, output_dir="runs"), fathom.run_job(leaves, output_dir="runs")
    out["codes"] = [failed.exit_code, left.exit_code]
    for report in (failed, left):
        try: report.value
        except fathom.JobError as error: out.setdefault("errors", []).append(str(error))
    with open("a script.py", "w") as file: file.write("import sys; print(sys.argv[1:]); sys.exit(4)")
    report = fathom.run_job("a script.py", "x", 2, output_dir="runs")
    out["script"] = [report.exit_code, os.path.relpath(report.folder, "runs").split("/")[0]]
    try: fathom.run_job("nowhere.py", output_dir="runs")
    except fathom.JobError as error: out["missing"] = str(error)
    here = fathom.run_job(lambda n: (burn(0.2), os.getpid() == n)[1], os.getpid(), output_dir="runs")
    out["here"] = [here.value, here.exit_code, seconds(here, "burn")]
    print(json.dumps(out))
"""
)


@pytest.mark.statistical
@pytest.mark.parametrize("python", one_python(), ids=str)
def test_run_job(python: Python, tmp_path: Path) -> None:
    out, done = run_code(python.path, tmp_path, RUN_JOB)
    assert out["call"][:3] == [5, True, 0] and out["call"][3] == pytest.approx(0.3, abs=0.06)
    assert out["files"] == ["first try", True, True, True, True, 2000]
    assert out["partial"] == [7] and out["codes"] == [1, 9]
    assert all("returned no value" in text for text in out["errors"]) and len(out["errors"]) == 2
    assert out["script"] == [4, "a script"] and "['x', '2']" in done.stdout
    assert "nowhere.py" in out["missing"] and "nowhere.py" in done.stderr
    # A lambda cannot be pickled: called in this process, and still measured.
    assert out["here"][:2] == [True, None] and out["here"][2] == pytest.approx(0.2, abs=0.05)


SLOW_IMPORTS = """
import time
end = time.process_time() + 0.3
while time.process_time() < end: sum(range(100))  # an import that takes as long as the job
import fathom, json, os
def job(size):
    end = time.process_time() + size
    while time.process_time() < end: sum(range(100))
if __name__ == "__main__":
    report = fathom.run_job(job, 0.3, output_dir="runs")
    seconds = {f["name"]: f["total_s"] for f in report.json["functions"]}
    print(json.dumps([seconds, report.json["cpu_s"], report.json["no_cpu_s"], report.summary, sorted(os.listdir(report.folder))]))
"""


@pytest.mark.statistical
@pytest.mark.parametrize("python", one_python(), ids=str)
def test_a_job_is_the_call_without_the_imports_before_it(python: Python, tmp_path: Path) -> None:
    (seconds, cpu_s, no_cpu_s, summary, files), _ = run_code(python.path, tmp_path, SLOW_IMPORTS)
    assert seconds["job"] == pytest.approx(0.3, abs=0.02)
    assert cpu_s < 0.3 + 0.12, "the interpreter's own start is all that may be beside it"
    assert seconds.get("<module>", 0) < 0.03 and seconds.get("main", 0) < 0.33
    assert no_cpu_s == 0, "what is left out on purpose is no gap"
    assert not re.search(r"Not seen: [0-9.]+ of [0-9.]+ s of CPU time", " ".join(summary.split())), summary
    assert "_job.py" not in files and "generator.py" in files, files


def test_unguarded_script(tmp_path: Path) -> None:
    """The new process imports the script; a call at its top level is told so instead of starting processes without end."""
    (tmp_path / "generator.py").write_text(
        "import fathom\ndef f(): return 1\nprint(fathom.run_job(f, output_dir='runs').exit_code)\n"
    )
    env = clean_env({"PYTHONPATH": str(ROOT / "python")})
    done = run([some_pythons()[0].path, tmp_path / "generator.py"], cwd=tmp_path, env=env)
    assert done.stdout == "1\n" and "if __name__ == '__main__'" in done.stderr


JOB = (
    SECONDS
    + """
import gc, signal, threading
def before(): burn(0.3)
def inside(): burn(0.3)
def beside():
    while not over: burn(0.01)
def late_thread(): burn(0.2)
def in_child(): burn(0.2)
before()
over = False
thread = threading.Thread(target=beside)
thread.start()
time.sleep(0.3)                                  # it has used CPU that is no business of the capture
handler = lambda *_: caught.append(1)
caught = []
signal.signal(signal.SIGUSR1, handler)
fds, maps = len(os.listdir("/proc/self/fd")), sum("fathom" in line for line in open("/proc/self/maps"))
import logging, warnings
makers = [logging.Logger.makeRecord, logging.Logger.isEnabledFor, logging.Logger.filter, warnings._showwarnmsg]
logging.error("before the block")
with fathom.job(output_dir="runs", name="block", log_level="INFO") as job:
    logging.error("in the block"); warnings.warn("in it, too"); logging.info("held back"); logging.debug("too little")
    inside()
    other = threading.Thread(target=late_thread); other.start(); other.join()
    pid = os.fork()
    if pid == 0:
        in_child()
        os._exit(0)
    os.waitpid(pid, 0)
    os.kill(os.getpid(), signal.SIGUSR1)
    try: fathom.job().__enter__()
    except fathom.JobError as error: nested = str(error)
    cpu_beside = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
before()
logging.error("after the block")
same = makers == [logging.Logger.makeRecord, logging.Logger.isEnabledFor, logging.Logger.filter, warnings._showwarnmsg]
again = []
for i in range(3):
    with fathom.job(output_dir="runs", name="again") as each: burn(0.05)
    again.append((each.report.json["cpu_s"], seconds(each.report, "burn")))
try:
    with fathom.job(output_dir="runs", name="raises") as raised:
        burn(0.05); raise KeyError("through")
except KeyError: pass
over = True; thread.join()
os.kill(os.getpid(), signal.SIGUSR1)
threads = sorted(t["cpu_s"] for t in job.report.json["threads"])
print(json.dumps({
    "profile": str(job.report.profile), "inside": seconds(job.report, "inside"), "before": seconds(job.report, "before"), "late": seconds(job.report, "late_thread"),
    "child": seconds(job.report, "in_child"), "beside": seconds(job.report, "beside"), "wall": job.report.json["wall_s"],
    "cpu": job.report.json["cpu_s"], "threads": threads, "nested": nested, "caught": len(caught),
    "log": [line.split(": ", 1)[1].strip() for line in open(job.report.logs)], "same": same, "filter": "filter" in vars(logging.Logger),
    "summary": job.report.summary,
    "handler": signal.getsignal(signal.SIGUSR1) is handler, "again": again + [(raised.report.json["cpu_s"], seconds(raised.report, "burn"))],
    "fds": len(os.listdir("/proc/self/fd")) - fds, "exit": job.report.exit_code,
    "coverage": [c["what"] for c in job.report.json["coverage"]],
    "blocked": [l.split()[1] for l in open("/proc/self/status") if l.startswith("SigCgt")],
}))
"""
)


def crowded_s(capture: Capture) -> float:
    """How much of a part's CPU time may be elsewhere because others had the CPUs: ticks that meet a thread without one are left out, so a sample may
    stand for what came before, and what came after a block's last one is told as the difference of the two sums."""
    heaviest_s = max((s.weight_ns for s in capture.samples), default=0) * 1e-9
    time = capture.report["time"]
    sampled_s = sum(time[kind] for kind in ("python_s", "native_s", "system_s", "gc_s"))
    return heaviest_s + max(0.0, capture.report["cpu_s"] - sampled_s)


SELDOM = """
with fathom.job(output_dir="runs", name="seldom", rate=1) as job: burn(0.3)
print(json.dumps({"profile": str(job.report.profile)}))
"""


@pytest.mark.statistical
def test_what_a_block_used_is_known_without_a_sample(tmp_path: Path) -> None:
    """With a period longer than the block its time is the thread's own count; what no sample stands for is said."""
    for python in one_python(newest=True):
        out, done = run_code(python.path, tmp_path, SELDOM)
        capture = Capture(tmp_path / out["profile"], done)
        assert capture.report["cpu_s"] == pytest.approx(0.3, abs=0.05)
        sampled_s = sum(s.weight_ns for s in capture.samples) * 1e-9
        said = [c for c in capture.report["coverage"] if "of CPU time" in c["what"] and "last sample" in c["why"]]
        assert len(said) == (capture.report["cpu_s"] - sampled_s > 0.03), (capture.report["coverage"], sampled_s)


@pytest.mark.statistical
@pytest.mark.parametrize("python", some_pythons(), ids=str)
def test_job(python: Python, tmp_path: Path) -> None:
    """A block of this process: what it and its threads and forks did meanwhile, and nothing from before or after."""
    out, done = run_code(python.path, tmp_path, JOB)
    off = 0.06 + crowded_s(Capture(tmp_path / out["profile"], done))
    for name, seconds in (("inside", 0.3), ("late", 0.2), ("child", 0.2)):
        assert out[name] == pytest.approx(seconds, abs=off), (name, out)
    assert out["before"] == 0
    # The thread beside had run before: no more than the time that passed can be its.
    assert 0 < out["beside"] <= out["wall"] and max(out["threads"]) <= out["wall"] + 0.01
    assert out["nested"].startswith("this process is being profiled already")
    assert out["caught"] == 2 and out["handler"] and out["fds"] == 0 and out["exit"] is None
    # So short a block may go by without a sample where others have the CPUs, but not all of them; what it used is known.
    assert all(cpu_s >= 0.05 for cpu_s, _ in out["again"]) and any(burn_s > 0 for _, burn_s in out["again"]), out[
        "again"
    ]
    assert "programs that this one started meanwhile" in out["coverage"]
    logged = [line for line in out["log"] if "use of fork()" not in line]  # 3.12 and later warn of it
    assert logged == ["in the block", "UserWarning: in it, too", "held back"] and out["same"] and not out["filter"]
    assert "logs.log (1 error, " in out["summary"], out["summary"]
    sigurg = 1 << 22
    assert not int(out["blocked"][0], 16) & sigurg  # given back


WAITS = """
import threading
def nap(): time.sleep(0.8)
def lock_up():
    locked.append(time.monotonic()); gate.acquire()
def long_asleep():
    burn(0.4)  # before the block, so no business of the capture
    ready.set(); bell.wait()
def before(): time.sleep(0.4)
locked, gate, bell, ready = [], threading.Lock(), threading.Event(), threading.Event()
sleeper = threading.Thread(target=long_asleep, name="sleeper"); sleeper.start(); ready.wait()
before()
gate.acquire()
with fathom.job(output_dir="runs", name="waits") as job:
    other = threading.Thread(target=lock_up); other.start()
    nap()
    locked.append(time.monotonic()); gate.release(); other.join()
    burn(0.2)
bell.set(); sleeper.join()
before()
found = {f["name"]: f["wait_s"] for f in job.report.json["functions"]}
lines = {row["line"]: row["wait_s"] for row in job.report.json["lines"]}
print(json.dumps({"profile": str(job.report.profile), "locked": locked[1] - locked[0], "waits": {n: found.get(n, 0) for n in ("nap", "lock_up", "before", "burn")}, "wall": job.report.json["wall_s"],
    "line": lines.get(nap.__code__.co_firstlineno, 0), "asleep": lines.get(long_asleep.__code__.co_firstlineno + 2, 0), "cpu": job.report.json["cpu_s"], "text": open(job.report.text_path).read(),
    "threads": sorted(t["cpu_s"] for t in job.report.json["threads"]), "why": [c["what"] for c in job.report.json["coverage"]]}))
"""


@pytest.mark.statistical
@pytest.mark.parametrize("python", one_python(), ids=str)
def test_a_block_waits_where_it_waits(python: Python, tmp_path: Path) -> None:
    """Sleeping and locked threads of a block are charged to their lines, from the block's beginning to its end and no longer."""
    out, done = run_code(python.path, tmp_path, WAITS)
    waits, wall = out["waits"], out["wall"]
    # Where a wait ends is known to the time between two looks; the profile says what a busy machine made of that.
    off = 0.02 + Capture(tmp_path / out["profile"], done).wait_ends_s()
    assert waits["nap"] == pytest.approx(0.8, abs=off) and out["line"] == waits["nap"], out
    assert waits["lock_up"] == pytest.approx(out["locked"], abs=off), out
    assert wall - off <= out["asleep"] <= wall + 0.02, out  # asleep before and after, too
    assert waits["before"] == 0 and waits["burn"] < off, out
    # Nothing of what the sleeper used before.
    assert out["cpu"] == pytest.approx(0.2, abs=0.1) and out["threads"][-1] < 0.3, out
    assert "Functions by Waiting" in out["text"] and " nap " in out["text"].partition("by Waiting")[2]


STORM = """
import threading
stop = False
def spin():
    while not stop: sum(range(300))
def churn():
    while not stop:
        t = threading.Thread(target=lambda: burn(0.002)); t.start(); t.join()
for target in [spin] * 3 + [churn] * 2: threading.Thread(target=target).start()
sizes = []
for i in range(%d):
    with fathom.job(output_dir="runs", name="storm", rate=10000) as job:
        burn(0.03)
        pid = os.fork()
        if pid == 0: os._exit(0)
        os.waitpid(pid, 0)
    assert job.report.json["samples"] > 0
    sizes.append(sum(int(l.split()[1]) for l in open("/proc/self/smaps") if l.startswith("Rss:")))
    mapped = len({l.split()[4] for l in open("/proc/self/maps") if "memfd:fathom " in l})  # captures of which anything is
stop = True
print(json.dumps({"growth": sizes[-1] - sizes[2], "mapped": mapped}))
"""


def test_many_captures(tmp_path: Path) -> None:
    """One capture after the other at 10 kHz while threads run, come and go: no crash, and no memory left behind."""
    for python in one_python(newest=True):
        out, _ = run_code(python.path, tmp_path, STORM % (40 if LONG else 5))
        assert out["mapped"] <= 2 and out["growth"] < 8192, (str(python), out)


def test_wrong_options(tmp_path: Path) -> None:
    """An exception that says it, before anything runs; nothing is left running, and nothing else is said."""
    code = """
    def wrong(call):
        try: call()
        except Exception as error: return [type(error).__name__, str(error)]
    def block(**options):
        with fathom.job(output_dir="runs", **options): pass
    said = [wrong(lambda: block(**o)) for o in ({"log_level": "LOUD"}, {"rate": 0}, {"nonsense": 1}, {"memory": "all"})]
    said.append(wrong(lambda: fathom.run_job("s.py", nonsense=1)))
    said.append(wrong(lambda: fathom.run_job(lambda: 0, no_plots=True)))
    with fathom.job(output_dir="runs", cpu=True) as job: burn(0.05)
    print(json.dumps(said))
    """
    said, done = run_code(one_python()[0].path, tmp_path, code)
    assert all(text and "\n" not in text for _, text in said) and done.stderr == "", (said, done.stderr)
    kinds = ["JobError", "JobError", "TypeError", "JobError", "TypeError", "JobError"]
    assert [kind for kind, _ in said] == kinds
    parts = ["LOUD", "rate", "'nonsense'", "memory", "'nonsense'", "no_plots"]
    assert all(part in text for part, (_, text) in zip(parts, said)), said
    assert len(list(tmp_path.glob("runs/*/*"))) == 1  # of the one that ran


def test_options_of_run_job_are_those_of_the_command_line() -> None:
    known = set(
        re.findall(r"--([a-z-]+)", run([ROOT / "build" / "fathom", "run", "--help"]).stdout.partition("Examples")[0])
    )
    # Parameters of their own, and what is for people at a terminal.
    own = {"name", "output-dir", "python", "quiet", "full", "markdown", "dump-after", "dump-on-hang", "end-after-dump"}
    sys.path.insert(0, str(ROOT / "python"))
    try:
        from fathom import _jobs
    finally:
        sys.path.pop(0)
    assert {o.replace("_", "-") for o in _jobs._RUN_OPTIONS} == known - own - {"help", "its-own-option"}


def test_not_under_fathom_run(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text(
        "import fathom\ntry:\n    with fathom.job(): pass\nexcept fathom.JobError as error: print(error)\n"
    )
    env = clean_env({"PYTHONPATH": str(ROOT / "python")})
    results = fathom_run(tmp_path, [script], python=some_pythons()[-1].path, env=env)
    assert results.done.stdout == "this process is being profiled already; one capture at a time\n", results.done.stderr


IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config(); config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
def cell(text):
    result = shell.run_cell(text, store_history=True)
    if result.error_in_exec or result.error_before_exec: print("ERROR", result.error_in_exec or result.error_before_exec)
cell("%load_ext fathom")
cell("import time\\ndef burn(seconds):\\n    end = time.thread_time() + seconds\\n    while time.thread_time() < end:\\n        sum(range(2000))")
cell("%%fathom --name=a_cell --rate=2000 --log-level=ERROR\\nx = 5\\nburn(0.3)\\nx + 1")
cell("%fathom --name=a_line burn(0.1)")
cell("print(x)")
cell("%%fathom --name=bad\\nburn(0.2)\\n1 / 0")
cell("%%fathom nonsense\\n1")
cell("%%fathom --nonsense=1\\n1")
cell("%unload_ext fathom")
"""


@pytest.mark.statistical
def test_ipython_magics(tmp_path: Path) -> None:
    python = python_with("IPython")
    (tmp_path / "session.py").write_text(IPYTHON)
    env = clean_env({"PYTHONPATH": str(ROOT / "python"), "IPYTHONDIR": str(tmp_path / "ipython"), "NO_COLOR": "1"})
    done = run([python, tmp_path / "session.py"], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    out = done.stdout
    traceback = out.partition("ZeroDivisionError")[2].partition("Traceback")[0]
    assert "_magics.py" not in traceback and "_notebook.py" not in traceback
    assert (
        "\n5\n" in out
        and "ERROR division by zero" in out
        and "options of %fathom look like" in done.stdout + done.stderr
        and "%fathom got an unexpected keyword argument 'nonsense'" in done.stdout + done.stderr
    ), out
    # Cells by the names they have on the screen, with their text.
    (text,) = (tmp_path / ".fathom" / "a_cell").glob("*/profile_results.txt")
    assert "In [2]" in out and "sum(range(2000))" in text.read_text()

    def functions(name: str, seconds: float, off: float) -> Dict[str, Dict[str, Any]]:
        (profile,) = (tmp_path / ".fathom" / name).glob("*/profile.fathom")
        capture = Capture(profile, done)
        found = {f["name"]: f for f in capture.report["functions"] if f["kind"] == "python"}
        assert capture.report["cpu_s"] >= seconds  # by the thread's own clock
        burned_s = found["burn"]["total_s"] if "burn" in found else 0.0  # where no tick met it on a CPU
        assert burned_s == pytest.approx(seconds, abs=off + crowded_s(capture)), (name, found)
        return found

    cell = functions("a_cell", 0.3, 0.06)
    assert cell.get("burn", {"file": "In [2]"})["file"] == "In [2]"
    functions("a_line", 0.1, 0.04)
    functions("bad", 0.2, 0.08)
