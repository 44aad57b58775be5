# SPDX-License-Identifier: Apache-2.0
"""Wrong commands and broken files: one clear line on stderr, the right exit code, no crash. FATHOM_BUILD=build-asan runs the
same with sanitizers, where a leak or a bad read ends the program with another code."""

import os
import random
import subprocess
from pathlib import Path
from typing import List

import pytest
from capture import BUILD, ROOT
from guest import FATHOM, pick_python, run, under

PYTHON = pick_python()
ONE_LINE = [
    (["run"], 2),
    (["run", "no-such-script.py"], 1),
    (["run", "no-such-program-anywhere"], 1),
    (["run", "-m"], 2),
    (["run", "--python", "/no/such/python", "x.py"], 1),
    (["run", "--rate", "0", "x.py"], 2),
    (["run", "--rate", "fast", "x.py"], 2),
    (["run", "--rate", "1000000000", "x.py"], 2),
    (["run", "--no-such-option", "x.py"], 2),
    (["run", "--engine", "steam", "x.py"], 2),
    (["run", "empty-folder"], 1),
    (["record"], 2),
    (["record", "-o", "p.fathom"], 2),
    (["record", "-o", "p.fathom", "--", "no-such-program-anywhere"], 127),
    (["record", "-o", "p.fathom", "--", "./empty-folder"], 126),
    (["record", "-o", "no/such/folder/p.fathom", "--", "true"], 1),
    (["record", "-o", "empty-folder", "--", "true"], 1),
    (["record", "-f", "no-such-format", "-o", "p", "--", "true"], 2),
    (["report"], 2),
    (["report", "no-such-file"], 1),
    (["report", "empty-folder"], 1),
    (["report", "empty-file"], 1),
    (["report", "text-file"], 1),
    (["report", "a", "b"], 2),
    (["export", "text-file"], 2),
    (["export", "-f", "collapsed", "no-such-file"], 1),
    (["export", "-f", "collapsed", "empty-file"], 1),
    (["export", "-f", "no-such-format", "empty-file"], 2),
    (["no-such-command"], 2),
    (["run", "--listen", "x", "x.py"], 2),
    (["run", "--repeat", "0", "x.py"], 2),
    (["run", "--repeat", "2", "--listen", "0", "x.py"], 2),
    (["run", "--token", "short", "--listen", "0", "x.py"], 2),
    (["record", "--memory=nonsense", "--", "true"], 2),
    (["record", "--pid", "x"], 2),
    (["record", "-d", "x", "--", "true"], 2),
    (["report", "--function", "f", "text-file"], 1),
    (["report", "--history", "nothing"], 1),
    (["export", "-f", "html", "-o", "o.html", "text-file"], 1),
    (["export", "-f", "perfetto", "empty-file"], 1),
    (["view"], 2),
    (["view", "no-such-file"], 1),
    (["view", "text-file"], 1),
    (["view", "--port", "99999", "text-file"], 2),
    (["diff"], 2),
    (["diff", "empty-file"], 1),
    (["diff", "empty-file", "text-file"], 1),
    (["check", "empty-file", "text-file"], 1),
    (["live", "nonsense"], 2),
    (["live", "1.2.3.4:99999999"], 2),
    (["live", "--once", "127.0.0.1:1"], 1),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "empty-folder").mkdir()
    (folder / "empty-file").write_bytes(b"")
    (folder / "text-file").write_text("This is not a profile, but a sentence that is longer than any header.\n" * 10)
    (folder / "x.py").write_text("pass\n")
    return folder


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small but real one."""
    assert PYTHON
    path = tmp_path_factory.mktemp("good") / "p.fathom"
    script = "import time\nt = time.monotonic() + 0.3\nwhile time.monotonic() < t: sum(range(100))"
    # A sanitized agent cannot be preloaded into a plain Python: a plain build makes the file then.
    plain = ROOT / "build" / "fathom"
    recorder = FATHOM if "-asan" not in str(FATHOM) or not plain.exists() else plain
    assert run([recorder, *under(path)[1:], PYTHON.path, "-c", script]).returncode == 0
    return path.read_bytes()


def is_one_line(done: "subprocess.CompletedProcess[str]") -> bool:
    return (
        done.stderr.startswith("fathom: ")
        and done.stderr.count("\n") == 1
        and done.stderr.endswith("\n")
        and not done.stdout
    )


@pytest.mark.parametrize(("arguments", "code"), ONE_LINE, ids=lambda v: "_".join(v) if isinstance(v, list) else str(v))
def test_one_line(arguments: List[str], code: int, place: Path) -> None:
    done = run([FATHOM, *arguments], cwd=place)
    assert (done.returncode, is_one_line(done)) == (code, True), done.stderr


def test_unreadable(place: Path) -> None:
    secret = place / "secret.py"
    secret.write_text("pass\n")
    secret.chmod(0)
    place.chmod(0o777)
    for parent in place.parents[:3]:  # with workers side by side there is one more
        parent.chmod(parent.stat().st_mode | 0o055)
    prefix: List[str] = []
    if os.geteuid() == 0:
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if run([*prefix, FATHOM, "--version"]).returncode != 0:
            pytest.skip("another user cannot reach the build folder")
    for arguments in (["run", secret], ["report", secret]):
        done = run([*prefix, FATHOM, *arguments], cwd=place)
        assert done.returncode == 1 and is_one_line(done) and "ermission" in done.stderr, done.stderr


def check_file(path: Path) -> None:
    """Any bytes: a report or one line, never a crash."""
    for command in (["report"], ["report", "--json"], ["export", "-f", "collapsed"]):
        done = run([FATHOM, *command, path])
        assert done.returncode in (0, 1), (done.returncode, done.stderr)
        if done.returncode:
            assert is_one_line(done), done.stderr
        else:
            assert done.stderr == "" or is_one_line_of_warning(done.stderr), done.stderr


def test_a_length_of_centuries(tmp_path: Path) -> None:
    path = tmp_path / "p.fathom"
    script = f"run 1\nmeta wall_ns {15 * 10**18}\nsample 0 1 0.5\n"
    subprocess.run([BUILD / "tests" / "memory_profile", path], input=script, text=True, check=True)
    done = run([FATHOM, "report", path])
    assert done.returncode == 0 and "(4166666:40:00)" in done.stdout, done


def is_one_line_of_warning(text: str) -> bool:
    return text.startswith("fathom: ") and text.count("\n") == 1


def test_random_bytes(profile: bytes, tmp_path: Path) -> None:
    rng = random.Random(20)
    for i in range(20):
        path = tmp_path / f"random-{i}"
        start = profile[: rng.choice([0, 8, 64])]  # some look right at first
        path.write_bytes(start + rng.getrandbits(8 * 5000).to_bytes(5000, "little"))
        check_file(path)


def test_truncated(profile: bytes, tmp_path: Path) -> None:
    """At a hundred places over the whole length, the first and last bytes among them."""
    path = tmp_path / "cut"
    places = set(range(1, 20)) | set(range(len(profile) - 10, len(profile)))
    places |= {len(profile) * i // 71 for i in range(1, 71)}
    for n in sorted(places):
        path.write_bytes(profile[:n])
        done = run([FATHOM, "report", "--json", path])
        assert done.returncode in (0, 1), (n, done.returncode, done.stderr)
        assert done.returncode == 0 or is_one_line(done), (n, done.stderr)
    check_file(path)


def test_changed_bytes(profile: bytes, tmp_path: Path) -> None:
    rng = random.Random(21)
    path = tmp_path / "changed"
    for _ in range(30):
        data = bytearray(profile)
        for _ in range(rng.choice([1, 1, 4, 30])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(bytes(data))
        done = run([FATHOM, "report", "--json", path])
        assert done.returncode in (0, 1), (done.returncode, done.stderr)
