# SPDX-License-Identifier: Apache-2.0
"""What a program cannot do to Fathom, and Fathom does for nobody: boundaries between target, collector and other users."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, List

import pytest
from guest import FATHOM, LONG, clean_env, compile_target, report, run, under

NOBODY = 65534
CORE = Path(__file__).parents[2] / "core"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else as well")


def bundle_of(profile: Path) -> bytes:
    """All that the viewer is given of it, packed."""
    bundle = profile.with_suffix(".gz")
    shown = run([FATHOM, "export", "-f", "bundle", "-o", bundle, profile])
    assert shown.returncode == 0, shown.stderr
    return bundle.read_bytes()


@pytest.fixture(scope="module")
def scribbler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_target(tmp_path_factory.mktemp("scribble"), "scribble", ["scribble.c"])


@pytest.mark.unaccounted("the counts are written over")
@pytest.mark.parametrize("options", [[], ["--memory"], ["--memory=exact"], ["--engine", "perf"]], ids=" ".join)
@pytest.mark.parametrize("seed", range(200 if LONG else 3))
def test_scribbled(scribbler: Path, options: List[str], seed: int, tmp_path: Path) -> None:
    """A child writes over all that it shares with the collector: program and collector end well, the capture can be read and says what happened."""
    profile = tmp_path / "p.fathom"
    done = run([*under(profile, *options), scribbler, "0.3", seed + 1, "spare"], timeout=60)
    assert (done.returncode, done.stdout) == (0, "1 mapped, forbidden things done: 0\n"), done.stderr
    told = run([FATHOM, "report", "--json", profile], timeout=60)
    assert told.returncode == 0, told.stderr
    lacks = json.loads(told.stdout)["coverage"]
    assert any("overwrote the memory" in lack["why"] for lack in lacks), lacks


LIARS = {
    "3.8": ["-DPY_OLDER=PyCode_NewWithPosOnlyArgs"],
    "3.10": ["-DPY_OLDER=PyModule_AddObjectRef"],
    "3.11": ["-DPY_HEXVERSION=0x030b0000"],
    "3.12": ["-DPY_HEXVERSION=0x030c0000"],
    "3.13": ["-DPY_HEXVERSION=0x030d0000"],
    "3.14": ["-DPY_HEXVERSION=0x030e0000", "-DPY_OFFSETS"],
}


@pytest.mark.parametrize("version", LIARS)
def test_interpreter_that_lies(version: str, tmp_path: Path) -> None:
    """What is read from beside is believed nowhere: attached to any words at all, recording and dumping end well, and so does the program."""
    liar = compile_target(tmp_path, "python-" + version, ["liar.c"], [*LIARS[version], "-rdynamic"])
    profile = tmp_path / "p.fathom"
    rounds = 60 if LONG else 1
    with subprocess.Popen([liar, "7"], stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout is not None and target.stdout.readline() == "lying\n"
        for _ in range(rounds):
            done = run([FATHOM, "record", "-r", "1000", "-d", "0.8", "-o", profile, "-p", target.pid], timeout=60)
            assert done.returncode == 0, done.stderr
            told = run([FATHOM, "report", "--json", profile], timeout=60)
            assert told.returncode == 0 and json.loads(told.stdout), told.stderr
            dumped = run([FATHOM, "dump", "-p", target.pid], timeout=60)
            assert dumped.returncode == 0, dumped.stderr
        target.terminate()
        assert target.stdout.read() == "done\n"
    assert target.returncode == 0


KEEPER = """
import time
def a_secret_of_another():
    print(flush=True)
    time.sleep(60)
a_secret_of_another()
"""


@pytest.mark.unaccounted("an entry of the table is forged")
def test_a_number_of_another_process(tmp_path: Path) -> None:
    """A program enters a process that is none of its own: Fathom looks at nothing of it, and says so."""
    forger = compile_target(tmp_path, "forged_pid", ["forged_pid.c"], [f"-I{CORE}"])
    profile = tmp_path / "p.fathom"
    with subprocess.Popen([sys.executable, "-c", KEEPER], stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None and keeper.stdout.readline()
        done = run([*under(profile), forger, "0.6", keeper.pid], timeout=60)
        keeper.kill()
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    found = report(profile)
    assert keeper.pid not in [p["pid"] for p in found["processes"]]
    assert keeper.pid not in [t["pid"] for t in found["threads"]]
    assert b"a_secret_of_another" not in gzip.decompress(bundle_of(profile))
    assert [c["what"] for c in found["coverage"] if "not its own" in c["why"]] == ["1 process"], found["coverage"]


READER = """
import os, sys, time
os.setgroups([])
os.setgid({uid})
os.setuid({uid})
print(flush=True)
exec(compile("end = time.monotonic() + {seconds}\\nwhile time.monotonic() < end: pass", {path!r}, "exec"))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that others can look into, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="fathom-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@as_root
@pytest.mark.parametrize("how", ["record", "attach"])
def test_sources_by_the_rights_of_the_target(open_folder: Path, how: str) -> None:
    """A program under a collector of root's gives up its rights, and names a file that it may not read as its code's."""
    for mode, is_kept in ((0o600, False), (0o644, True)):
        source, profile = open_folder / f"{mode:o}.txt", open_folder / f"{mode:o}.fathom"
        source.write_text("a-word-of-the-file\n")
        source.chmod(mode)
        script = READER.format(uid=NOBODY, path=str(source), seconds=60 if how == "attach" else 0.3)
        if how == "record":
            done = run([*under(profile), sys.executable, "-c", script])
        else:
            with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as target:
                assert target.stdout and target.stdout.readline()
                done = run([FATHOM, "record", "-o", profile, "-d", "1", "-p", target.pid])
                target.kill()
        assert done.returncode == 0, done.stderr
        assert report(profile)["samples"] > 5
        source.unlink()  # what the viewer shows now, the capture has
        assert (b"a-word-of-the-file" in gzip.decompress(bundle_of(profile))) == is_kept, oct(mode)


@pytest.mark.parametrize("options", [[], ["--memory"], ["--engine", "perf"]], ids=" ".join)
def test_time_told_by_others(options: List[str], tmp_path: Path) -> None:
    """A preloaded library replaces clock_gettime by one that lies, and holds a lock meanwhile: no time of ours is its, and nothing hangs."""
    library = compile_target(tmp_path, "false_clock.so", ["false_clock.c"], ["-shared"])
    script = """if True:
        import resource, time
        def burn():
            while time.process_time() < 0.6: time.monotonic()
        burn()
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(used.ru_utime + used.ru_stime)
    """
    profile = tmp_path / "p.fathom"
    env = {**clean_env(), "LD_PRELOAD": str(library)}
    done = run([*under(profile, *options), sys.executable, "-c", script], env=env, timeout=60)
    assert done.returncode == 0, done.stderr
    found = report(profile)
    assert abs(found["cpu_s"] - float(done.stdout)) < 0.15, (found["cpu_s"], done.stdout)
    assert all(0 <= f["total_s"] <= found["cpu_s"] * 1.01 for f in found["functions"])
