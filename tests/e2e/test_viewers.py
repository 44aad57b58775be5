# SPDX-License-Identifier: Apache-2.0
"""Exports in the viewers they are meant for: the speedscope app and the flame graph in a real browser."""

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def profile(build: Path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewers")
    subprocess.run([build / "tests" / "known_profile", folder / "known.fathom"], check=True)
    subprocess.run([build / "tests" / "known_profile", folder / "hostile.fathom", "--hostile"], check=True)
    return folder


def check(root: Path, script: str, *args) -> None:
    node = shutil.which("node")
    if not node:
        pytest.skip("node is not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < 18:
        pytest.skip(f"node {version} is older than 18, which the browser's driver needs")
    done = subprocess.run(
        [node, root / "tests" / "web" / script, *map(str, args)], capture_output=True, text=True, timeout=120
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name, functions", [("known", ["App.work", "known_kernel", "main"]), ("hostile", ["<script>alert(1)</script>"])]
)
def test_speedscope_opens_it_left_heavy(root, fathom, profile, name, functions):
    out = profile / f"{name}.speedscope.json"
    subprocess.run([fathom, "export", "-f", "speedscope", "-o", out, profile / f"{name}.fathom"], check=True)
    check(root, "check_speedscope.mjs", out, *functions)


@pytest.mark.parametrize("name, search", [("known", "known_kernel"), ("hostile", "semi;colon")])
def test_flamegraph_zooms_and_searches(root, fathom, profile, name, search):
    out = profile / f"{name}.svg"
    subprocess.run(
        [fathom, "export", "-f", "flamegraph", "--threads", "-o", out, profile / f"{name}.fathom"], check=True
    )
    check(root, "check_flamegraph.mjs", out, search)
