"""A program that does everything at once, sampled 10,000 times a second, must notice nothing. FATHOM_TEST_LONG=1: a minute."""

import subprocess
from pathlib import Path
from typing import Tuple

import pytest
from guest import LONG, compile_target, engines, report, run, under

SECONDS = "60" if LONG else "4"
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
    assert result["samples"] > 1000 * float(SECONDS)  # it was a storm
    assert result["dropped"] == 0
    assert result["failed_unwinds"] <= 0.005 * result["samples"]


@pytest.mark.parametrize("engine", ENGINES)
def test_storm(engine: str, storm: Tuple[Path, Path], tmp_path: Path) -> None:
    profile = tmp_path / "storm.fathom"
    options = ["--engine", engine, "-r", "10k", "--max-overhead", "0"]
    check(run([*under(profile, *options), storm[0], SECONDS, storm[1]]), profile)


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
