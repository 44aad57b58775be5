# SPDX-License-Identifier: Apache-2.0
"""A capture of regions has what ran between enable() and disable(), and nothing else: calls, samples and waiting."""

import json
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import BUILD, Capture, Python
from guest import LONG, clean_env

PACKAGE = Path(__file__).parents[2] / "python"

# CPU time by construction: three times as much outside as inside. Regions of 0.3 ms are shorter than a period.
PROGRAM = """if True:
    import sys, time, threading
    from fathom import Profiler
    def burn(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end: sum(range(500))
    def outside(seconds): burn(seconds)
    def inside(seconds): burn(seconds)
    def idle_outside(): time.sleep(0.3)
    def beside():
        while not over: sum(range(500))
    profiler = Profiler(sys.argv[1])
    outside(0.3)
    for n, seconds in ((2, 0.15), (500, 0.0003)):
        for _ in range(n):
            with profiler: inside(seconds)
            outside(2 * seconds)
        idle_outside()
    outside(0.3)
    profiler.close()
"""
INSIDE_S = 2 * 0.15 + 500 * 0.0003


def report_of(path: Path) -> Dict[str, Any]:
    done = subprocess.run([BUILD / "fathom", "report", "--json", path], stdout=subprocess.PIPE, check=True)
    found: Dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.pythons(8, 15)
@pytest.mark.statistical
@pytest.mark.parametrize("how", [[], ["-m", "fathom", "-p"]], ids=["profiler", "partial"])
def test_what_is_outside_is_not_there(python: Python, how: List[str], tmp_path: Path) -> None:
    if how and python.minor == 8 and not LONG:
        pytest.skip("-p sets up the same profiler: one Python is enough")
    script, out = tmp_path / "program.py", tmp_path / "p.fathom"
    script.write_text(PROGRAM)
    command = [python.path, *how, *(["-o", str(out)] if how else []), str(script), str(out)]
    subprocess.run(command, check=True, stdout=subprocess.PIPE, env=clean_env({"PYTHONPATH": str(PACKAGE)}))
    report = report_of(out)
    seconds = {f["name"]: f["total_s"] for f in report["functions"]}
    assert seconds.get("inside", 0) > 0
    # A tick may meet the few microseconds between the region's ends and the functions around.
    assert seconds.get("outside", 0) <= 0.02 * report["cpu_s"], seconds
    assert sum(line["wait_s"] for line in report["lines"] if line["function"] == "idle_outside") < 0.05
    # What was used inside is on the account, to what a period and entering 502 regions take.
    used_s = sum(t["cpu_s"] for t in report["threads"])
    assert INSIDE_S - 0.012 <= used_s <= 1.25 * INSIDE_S + 0.012, used_s
    weights_s = sum(s.weight_ns for s in Capture(out, None).samples if s.kind < 4) * 1e-9  # type: ignore[arg-type]
    assert abs(weights_s - used_s) <= 0.012, (weights_s, used_s)


# Another thread is just about to enable or to open something when one forks: it takes that long on purpose.
FORKED = """if True:
    import os, signal, sys, threading, time, warnings
    from fathom import Profiler, _session
    warnings.simplefilter("ignore")
    profiler = Profiler(sys.argv[1])
    is_held = threading.Event()
    def hold():
        with _session._lock:
            is_held.set()
            time.sleep(0.3)
    threading.Thread(target=hold).start()
    is_held.wait()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        with profiler: sum(range(1000))
        os._exit(0)
    print(os.waitpid(pid, 0)[1])
    profiler.close()
"""


def test_a_region_in_the_child_of_a_fork_waits_for_nobody(python: Python, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(FORKED)
    command = [python.path, str(script), str(tmp_path / "p.fathom")]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=clean_env({"PYTHONPATH": str(PACKAGE)}))
    assert done.stdout.split() == [b"0"]
