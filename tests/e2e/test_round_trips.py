# SPDX-License-Identifier: Apache-2.0
"""Random profiles, written in every format that can be read again, and read again: nothing has changed."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
from capture import BUILD

FATHOM = BUILD / "fathom"
N_PROFILES = 6


def random_profile(seed: int, unit_ns: int) -> bytes:
    """As speedscope has them, weights in nanoseconds: several threads, recursion, one function on several lines, names with all kinds of characters."""
    dice = random.Random(seed)
    frames: List[Dict[str, Any]] = []
    for i in range(dice.randint(1, 15)):
        name = (
            dice.choice(
                ["f%d", "Class%d.method", "<lambda>%d", "f.<locals>.g%d", "a %d b", "\u00e9\u4e2d%d", "x::y<int>%d"]
            )
            % i
        )
        if dice.random() < 0.7:
            file = "/src/%s.py" % dice.choice(["a", "b c", "\u00fc"])
            frames += [{"name": name, "file": file, "line": n} for n in dice.sample(range(1, 99), dice.randint(1, 3))]
        else:
            frames.append({"name": name, "file": "/lib/lib%d.so" % dice.randint(1, 3)})
    profiles = []
    for tid in range(101, 101 + dice.randint(1, 4)):
        stacks = [dice.choices(range(len(frames)), k=dice.randint(1, 12)) for _ in range(dice.randint(1, 40))]
        samples = [dice.choice(stacks) for _ in range(dice.randint(1, 200))]
        weights = [dice.randint(1, dice.choice([10, 1000, 10**6])) * unit_ns for _ in samples]
        profiles.append({
            "type": "sampled", "name": "process 7 thread (%d): t\u00e4 %d" % (tid, tid), "unit": "nanoseconds",
            "startValue": 0, "endValue": sum(weights), "samples": samples, "weights": weights,
        })  # fmt: skip
    schema = "https://www.speedscope.app/file-format-schema.json"
    return json.dumps({"$schema": schema, "shared": {"frames": frames}, "profiles": profiles}).encode()


def fathom(*words: Any) -> bytes:
    return subprocess.run([FATHOM, *words], check=True, stdout=subprocess.PIPE).stdout


def content(capture: Path) -> Tuple[List[str], List[Tuple[str, str, int, int]]]:
    """Stacks of each thread, and own and total nanoseconds of each function: to the unit."""
    options = ["--threads", "--full-filenames", "--unit", "us"]
    stacks = fathom("export", "-f", "collapsed", *options, capture).decode().splitlines()
    functions = json.loads(fathom("report", "--json", capture))["functions"]
    rows = [(f["name"], f["file"], round(f["self_s"] * 1e9), round(f["total_s"] * 1e9)) for f in functions]
    return sorted(stacks), sorted(rows)


@pytest.mark.parametrize("format, unit_ns, writing, reading", [
    ("speedscope", 1, ["--full-filenames"], []),
    ("pprof", 1, [], []),
    ("gecko", 1, [], []),
    ("collapsed", 1000, ["--threads", "--processes", "--full-filenames", "--unit", "us"], ["--unit", "us"]),
])  # fmt: skip
def test_what_is_written_is_read_again(tmp_path, format, unit_ns, writing, reading):
    for seed in range(N_PROFILES):
        first, foreign, again = tmp_path / "first.fathom", tmp_path / "foreign", tmp_path / "again.fathom"
        (tmp_path / "random").write_bytes(random_profile(seed, unit_ns))
        fathom("import", "-o", first, tmp_path / "random")
        fathom("export", "-f", format, *writing, "-o", foreign, first)
        fathom("import", *reading, "-o", again, foreign)
        stacks, functions = content(first)
        assert stacks and functions
        assert content(again) == (stacks, functions), f"seed {seed}"
