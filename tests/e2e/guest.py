# SPDX-License-Identifier: Apache-2.0
"""Runs a program with and without Fathom, to see that it cannot tell the difference."""

import functools
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import load
from capture import BUILD, TARGETS, Python, find_pythons
from hurt import GuestHurt

LONG = bool(os.environ.get("FATHOM_TEST_LONG"))
FATHOM = BUILD / "fathom"
Arg = Union[str, Path]


def clean_env(extra: Optional[Dict[str, str]] = None) -> Dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env.update(extra or {})
    return env


def compile_target(folder: Path, name: str, sources: Sequence[str], flags: Sequence[str] = ()) -> Path:
    """Builds a C or C++ program of tests/targets."""
    out = folder / name
    objects: List[str] = []
    for source in sources:
        obj = str(folder / (name + "-" + source + ".o"))
        compiler = ["g++"] if source.endswith(".cc") else ["gcc", "-D_GNU_SOURCE"]
        keep = [f for f in flags if f not in ("-shared", "-static-libasan")]
        subprocess.run([*compiler, "-O1", "-g", "-fPIC", *keep, "-c", str(TARGETS / source), "-o", obj], check=True)
        objects.append(obj)
    linker = "g++" if any(s.endswith(".cc") for s in sources) else "gcc"
    subprocess.run([linker, "-o", str(out), *objects, *flags, "-ldl", "-lpthread"], check=True)
    return out


def under(profile: Path, *options: str) -> List[str]:
    return [str(FATHOM), "record", "-o", str(profile), *options, "--"]


def default_signals() -> None:
    """A shell that runs its commands in the background has them ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def run(command: Sequence[Arg], timeout: float = 120, **more: Any) -> "subprocess.CompletedProcess[str]":
    more.setdefault("env", clean_env())
    more.setdefault("preexec_fn", default_signals)
    more.setdefault("stdin", subprocess.DEVNULL if "input" not in more else None)
    if more["stdin"] is None:
        del more["stdin"]
    try:
        return subprocess.run(
            [str(a) for a in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=timeout,
            **more,
        )
    except subprocess.TimeoutExpired as late:
        raise GuestHurt(f"no end of {late.cmd} within {late.timeout} s") from late


def cpu_s(pid: int) -> float:
    """What a process has used. As clock_getcpuclockid(3) has it: what /proc says of a thread that runs alone on its CPU may be seconds old."""
    return time.clock_gettime(~pid << 3 | 2)


def fathom(*words: Arg, code: int = 0, **more: Any) -> "subprocess.CompletedProcess[str]":
    """A command of ours that ends with this exit code."""
    done = run([FATHOM, *words], **more)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done


def report(profile: Path) -> Dict[str, Any]:
    result: Dict[str, Any] = json.loads(fathom("report", "--json", profile).stdout)
    return result


def coverage(profile: Path) -> str:
    """What was not seen, and why, a line each."""
    return "\n".join(f"{c['what']}: {c['why']}" for c in report(profile)["coverage"])


def sample_times(profile: Path) -> List[int]:
    """CLOCK_MONOTONIC nanoseconds of all samples."""
    done = run([BUILD / "tests" / "dump_profile", profile])
    return [int(line.split("time=")[1].split()[0]) for line in done.stdout.splitlines() if line.startswith("sample")]


def wait_for(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """What the condition gives, once that is something."""
    end = time.monotonic() + (load.longer(seconds) or seconds)
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not come about")


def pick_python(minor: int = 0) -> Optional[Python]:
    """One released Python: the newest that is at least 3.minor (exactly that one when given), None when there is none."""
    found = [p for p in find_pythons() if p.kind == "release" and (not minor or p.minor == minor)]
    return found[-1] if found else None


def some_pythons() -> List[Python]:
    """The oldest and the newest released one; all of all kinds when there is time."""
    found = find_pythons()
    released = [p for p in found if p.kind == "release"]
    return found if LONG or len(released) < 3 else [released[0], released[-1]]


@functools.lru_cache(maxsize=None)  # a second of CPU time, and five modules ask when they are imported
def engines() -> List[str]:
    """The engines that work here; FATHOM_TEST_ENGINES has them where somebody has asked before (conftest.py, for its workers)."""
    known = os.environ.get("FATHOM_TEST_ENGINES")
    if known:
        return known.split()
    line = next((text for text in run([FATHOM, "doctor"]).stdout.splitlines() if "perf events" in text), "")
    return ["ticker", "perf"] if line.startswith("ok") else ["ticker"]
