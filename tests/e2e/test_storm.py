# SPDX-License-Identifier: Apache-2.0
"""A program that does everything at once, sampled 10,000 times a second, must notice nothing.

FATHOM_TEST_LONG=1 makes it a minute.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Tuple

import load
import pytest
from capture import ROOT
from guest import FATHOM, LONG, clean_env, compile_target, engines, report, run, some_pythons, under

SECONDS = "60" if LONG else "2"
ENGINES = engines()


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("storm")
    plugin = compile_target(folder, "plugin.so", ["storm_plugin.c"], ["-shared"])
    return compile_target(folder, "storm", ["storm.c", "storm_throw.cc"]), plugin


def check(done: "subprocess.CompletedProcess[str]", profile: Path) -> None:
    disturbed = [line for line in done.stdout.splitlines() if "early=0 eintr=0 wrong=0" not in line or " n=0 " in line]
    assert (done.returncode, disturbed, done.stderr) == (0, [], ""), done.stdout
    assert len(done.stdout.splitlines()) == 24
    result = report(profile)
    # It was a storm: for each second of CPU that the machine gave it. Many of its threads run too briefly to be met.
    # Where others have the CPUs (load.py), neither has the ticker.
    assert result["samples"] > 1000 * result["cpu_s"] or load.too_busy(), (result["samples"], result["cpu_s"])
    assert result["dropped"] == 0
    assert result["failed_unwinds"] <= 0.005 * result["samples"]


@pytest.mark.parametrize("engine", ENGINES)
def test_storm(engine: str, storm: Tuple[Path, Path], tmp_path: Path) -> None:
    profile = tmp_path / "storm.fathom"
    options = ["--engine", engine, "-r", "10k", "--max-overhead", "0"]
    check(run([*under(profile, *options), storm[0], SECONDS, storm[1]]), profile)


@pytest.mark.parametrize("memory", ["--memory", "--memory=exact"] if LONG else ["--memory"])
def test_storm_with_memory_watched(memory: str, storm: Tuple[Path, Path], tmp_path: Path) -> None:
    """The same with hooks in front of every allocation and copy."""
    profile = tmp_path / "storm.fathom"
    options = ["--engine", "ticker", "-r", "10k", "--max-overhead", "0", memory]
    check(run([*under(profile, *options), storm[0], SECONDS, storm[1]]), profile)
    assert report(profile)["memory"]["alloc_bytes"] > 1 << 20


def test_storm_with_the_newest_libc(storm: Tuple[Path, Path], tmp_path: Path) -> None:
    """glibc 2.41 makes its system calls in another way, and a call that was cut short is found by how it was made."""
    libs = ROOT / ".tools/pythons/root/usr/lib/x86_64-linux-gnu"
    loader = libs / "ld-linux-x86-64.so.2"
    if not loader.exists():
        pytest.skip("no newer libc at hand (scripts/get-debian-pythons.sh brings one)")
    host = "/usr/lib/x86_64-linux-gnu"  # for libstdc++, which that folder may lack
    profile = tmp_path / "storm.fathom"
    options = ["--engine", "ticker", "-r", "10k", "--max-overhead", "0"]
    start = [loader, "--library-path", f"{libs}:{host}"]
    check(run([*under(profile, *options), *start, storm[0], SECONDS, storm[1]]), profile)


@pytest.mark.unaccounted("the sanitizer's own start takes longer than the referee grants a program's")
@pytest.mark.parametrize("engine", ENGINES)
def test_storm_under_asan(engine: str, storm: Tuple[Path, Path], tmp_path: Path) -> None:
    """The program's memory is watched: what the agent writes anywhere in it shows. The runtime is linked in, because it
    refuses to start when another library was preloaded before it."""
    flags = ["-fsanitize=address", "-fno-omit-frame-pointer", "-static-libasan"]
    try:
        program = compile_target(tmp_path, "storm-asan", ["storm.c", "storm_throw.cc"], flags)
    except subprocess.CalledProcessError:
        pytest.skip("this compiler has no static libasan")
    profile = tmp_path / "storm.fathom"
    options = ["--engine", engine, "-r", "10k", "--max-overhead", "0"]
    check(run([*under(profile, *options), program, SECONDS, storm[1]]), profile)


def test_storm_with_asan_agent(storm: Tuple[Path, Path], tmp_path: Path) -> None:
    """The agent itself built with the sanitizers (`make asan` leaves one), in a program that has them too."""
    built = ROOT / "build-asan" / "fathom"
    runtimes = sorted(Path("/usr/lib").glob("*-linux-gnu/libasan.so.?"))
    if not built.exists() or not (built.parent / "_agent.abi3.so").exists() or not runtimes:
        pytest.skip("no build-asan; `make asan` makes one")
    program = compile_target(tmp_path, "storm-asan", ["storm.c", "storm_throw.cc"], ["-fsanitize=address"])
    profile = tmp_path / "storm.fathom"
    # Nobody has the runtime first but the user who says so. Leaks: the program ends while detached threads still run.
    env = clean_env(
        {"LD_PRELOAD": str(runtimes[-1]), "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"}
    )
    done = run([built, *under(profile, "--engine", "ticker", "-r", "5k")[1:], program, SECONDS, storm[1]], env=env)
    disturbed = [line for line in done.stdout.splitlines() if "early=0 eintr=0 wrong=0" not in line]
    assert (done.returncode, disturbed, done.stderr) == (0, [], "")
    assert report(profile)["samples"] > 100


def test_storm_with_tsan_collector(storm: Tuple[Path, Path], tmp_path: Path) -> None:
    """The collector's threads, watched (`make tsan` leaves such a build). The agent beside it is the plain one: it is in another program."""
    built = ROOT / "build-tsan" / "fathom"
    if not built.exists():
        pytest.skip("no build-tsan; `make tsan` makes one")
    program = Path(shutil.copy(built, tmp_path))
    shutil.copy(FATHOM.parent / "_agent.abi3.so", tmp_path)
    profile = tmp_path / "storm.fathom"
    done = run(
        [program, *under(profile, "--engine", "ticker", "-r", "2k", "--memory")[1:], storm[0], SECONDS, storm[1]]
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert report(profile)["samples"] > 100


ONE_AFTER_THE_OTHER = """
import resource, threading, time
def work():
    end = time.thread_time() + 0.0015
    while time.thread_time() < end: pass
for _ in range(600):
    thread = threading.Thread(target=work); thread.start(); thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_threads_one_after_the_other_use_the_same_memory(tmp_path: Path) -> None:
    """A thread for each request, as many servers do: what sampling needs for a thread is used again by the next ones."""
    script = tmp_path / "threads.py"
    script.write_text(ONE_AFTER_THE_OTHER)
    python = some_pythons()[-1].path
    bare = int(run([python, script], env=clean_env()).stdout)
    profile = tmp_path / "threads.fathom"
    under_us = int(run([*under(profile), python, script], env=clean_env()).stdout)
    assert report(profile)["samples"] > 100
    # 600 threads of their own would be 40 MB; those that have ended are noticed some ten milliseconds later.
    assert under_us - bare < 15_000, (bare, under_us)
