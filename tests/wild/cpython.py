"""CPython's own regression tests, file by file: those that pass without Fathom pass under it."""

import subprocess
from typing import Dict, List

from cases import MEMORY, Case, of_junit
from launch import Limits
from places import CPYTHON, PYTHONS, ROOT, clean_env, find_pythons, known

PART = "cpython"
# The network, sound and a screen are not to be had; large files and hours of CPU say nothing about a guest.
RESOURCES = "all,-audio,-gui,-largefile,-network,-urlfetch,-cpu"
LOCAL = ["test_socketserver"]  # asks for the network and takes this machine's own
IGNORE = {
    "test_socket": ["*ThreadedVSOCKSocketStreamTest*"],  # waits for ever where the machine is a virtual one
    # These two skip themselves where LD_PRELOAD is set.
    "test_fileio": ["*test_syscalls_read"],
    "test_subprocess": ["*test_vfork_used_when_expected"],
}
LEAVE_OUT: Dict[str, str] = {}  # test -> why it says nothing either way
LIMITS = Limits(idle_s=120, cpu_s=1800, wall_s=3600)


def fetch_tests() -> None:
    """Debian's Pythons come without their tests."""
    if not list(PYTHONS.glob("root/usr/lib/python3.*/test/test_signal.py")):
        script = str(ROOT / "scripts" / "get-debian-pythons.sh")
        subprocess.run([script, "-d", str(PYTHONS), "release", "testsuite"], check=True)


def names(python: str) -> List[str]:
    done = subprocess.run([python, "-m", "test", "--list-tests"], stdout=subprocess.PIPE, env=clean_env())
    return [name for name in done.stdout.decode().split() if name not in LEAVE_OUT]


def cases(pythons: Dict[str, str]) -> List[Case]:
    fetch_tests()
    have = {version: path for version, path in find_pythons().items() if version in pythons}
    env = {**clean_env(), "TMPDIR": "{folder}/tmp"}
    found = []
    for version in known(CPYTHON, have):
        for name in names(have[version]):
            resources = RESOURCES.replace("-network,", "") if name in LOCAL else RESOURCES
            command = [have[version], "-m", "test", "-v", "-u", resources, "--tempdir", "{folder}/tmp"]
            for pattern in IGNORE.get(name.split(".")[-1], []):
                command += ["-i", pattern]
            command += ["--junit-xml", "{folder}/results.xml", name]
            case = Case(PART, name, version, command, of_junit, [MEMORY], env, {"tmp/": ""}, LIMITS)
            found.append(case)
    return found
