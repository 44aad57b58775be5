# SPDX-License-Identifier: Apache-2.0
"""What Fathom takes of a program's address space: little, by the thread, and never so much that the program notices."""

import json
import re
from pathlib import Path
from typing import Any, Dict, List

import pytest
from guest import pick_python, report, run, under

PYTHON = pick_python()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Python to run")
MIB = 1 << 20

# Threads that have all been sampled by the time that the size is taken; their stacks are small, and malloc has one arena.
THREADS = """
import json, sys, threading, time
def size(what="VmSize"):
    return next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith(what + ":"))
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(100))
def work():
    burn(0.03)
    barrier.wait()
    barrier.wait()
n = int(sys.argv[1])
barrier = threading.Barrier(n + 1)
threading.stack_size(128 << 10)
threads = [threading.Thread(target=work) for _ in range(n)]
for t in threads: t.start()
burn(0.03)
barrier.wait()
print(json.dumps(size()))
barrier.wait()
for t in threads: t.join()
"""


def size_of(folder: Path, n_threads: int, *options: str) -> int:
    assert PYTHON
    script = folder / "threads.py"
    script.write_text(THREADS)
    start = under(folder / "p.fathom", *options) if options else []
    done = run([*start, "/usr/bin/env", "MALLOC_ARENA_MAX=1", PYTHON.path, script, str(n_threads)])
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout))


@pytest.mark.statistical
@pytest.mark.parametrize("n_threads", [0, 24])
def test_it_grows_with_the_threads(n_threads: int, tmp_path: Path) -> None:
    bare = size_of(tmp_path, n_threads)
    more = size_of(tmp_path, n_threads, "--engine", "ticker") - bare
    print(f"{n_threads} threads: {more / MIB:.1f} MiB more than {bare / MIB:.1f}")
    assert more < (90 + 3 * n_threads) * MIB
    result = report(tmp_path / "p.fathom")
    # All of them, by name of the program that runs them: each in memory that was mapped for it.
    assert len([t for t in result["threads"] if t["samples"] >= 5]) >= n_threads + 1, result["threads"]
    assert result["dropped"] == 0 and not [c for c in result["coverage"] if "ulimit" in c["why"]]


def limited(kib: int, *command: Any) -> List[Any]:
    return ["/bin/sh", "-c", f'ulimit -v {kib}; exec "$@"', "sh", *command]


def peak_kib(folder: Path) -> int:
    assert PYTHON
    done = run([PYTHON.path, "-c", "print(next(l for l in open('/proc/self/status') if l.startswith('VmPeak')))"])
    return int(re.findall(r"\d+", done.stdout)[0])


BURN = "import time\nwhile time.process_time() < 0.3: sum(range(100))\nprint('done')"


def reasons(profile: Path) -> Dict[str, str]:
    return {c["what"]: c["why"] for c in report(profile)["coverage"] if "ulimit -v" in c["why"]}


def test_no_room_for_any_of_it(tmp_path: Path) -> None:
    """The interpreter has what it needs and 30 MiB more; of ours, nothing fits."""
    assert PYTHON
    profile = tmp_path / "p.fathom"
    done = run([*under(profile), *limited(peak_kib(tmp_path) + 30 * 1024, PYTHON.path, "-c", BURN)])
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert list(reasons(profile)) == ["1 process"]  # the shell has had room


def test_no_room_for_the_collector(tmp_path: Path) -> None:
    assert PYTHON
    done = run(limited(90 * 1024, *under(tmp_path / "p.fathom"), PYTHON.path, "-c", BURN))
    assert done.returncode != 0 and "raise 'ulimit -v'" in done.stderr and len(done.stderr.splitlines()) == 1


# Threads that have not been sampled yet when the limit comes.
LATE = """
import resource, threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(100))
def work():
    gate.wait()
    burn(0.1)
    done.append(1)
gate, done = threading.Event(), []
threading.stack_size(128 << 10)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
burn(0.1)
size = next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith("VmSize:"))
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20), resource.RLIM_INFINITY))
gate.set()
for t in threads: t.join()
print(len(done))
"""


def test_no_room_for_threads(tmp_path: Path) -> None:
    """They work all the same, and the report says of how many samples it knows nothing."""
    assert PYTHON
    script, profile = tmp_path / "late.py", tmp_path / "p.fathom"
    script.write_text(LATE)
    done = run([*under(profile, "--engine", "ticker"), PYTHON.path, script])
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")
    ((what, why),) = reasons(profile).items()
    assert int(what.split()[0]) > 0 and what.endswith(" samples") and "3 MiB each" in why


@pytest.mark.statistical
def test_the_collector_under_a_limit(tmp_path: Path) -> None:
    """Both have 700 MiB: that is a quarter for threads, and everything works."""
    assert PYTHON
    profile = tmp_path / "p.fathom"
    done = run(limited(700 * 1024, *under(profile), PYTHON.path, "-c", BURN))
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    result = report(profile)
    assert result["samples"] > 100 and not reasons(profile)
