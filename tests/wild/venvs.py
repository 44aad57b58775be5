"""Virtual environments with other people's packages, made once below .tools/wild."""

import functools
import json
import subprocess
from pathlib import Path
from typing import Dict, List, Sequence

from places import STORE, VENVS, clean_env

UV = STORE / "uv"
SOURCE_ONLY = ["pyspark", "nuitka", "pyaes", "forbiddenfruit"]  # have no wheel, and need no compiler either


def uv() -> str:
    """An installer that resolves hundreds of packages in seconds; it has a venv of its own."""
    program = UV / "bin" / "uv"
    if not program.exists():
        subprocess.run(["python3", "-m", "venv", str(UV)], check=True)
        subprocess.run([str(UV / "bin" / "pip"), "install", "-q", "uv"], check=True)
    return str(program)


class Venv:
    def __init__(self, name: str, version: str, base: str) -> None:
        self.folder = VENVS / f"{name}-{version}"
        self.base = base
        self.absent_file = self.folder / "absent.json"

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def prepare(
        self, packages: Sequence[str], options: Sequence[str] = (), stamp: str = "packages.json"
    ) -> Dict[str, str]:
        """Installs what is missing; gives what cannot be had, with the reason. A second call with the same list does nothing."""
        done = self.folder / stamp
        if done.exists() and json.loads(done.read_text()) == list(packages):
            return self.absent()
        if not Path(self.python).exists():
            subprocess.run([self.base, "-m", "venv", "--without-pip", str(self.folder)], check=True)
        absent: Dict[str, str] = {}
        if self.install(packages, options):
            for package in packages:
                problem = self.install([package], options)
                if problem:
                    absent[package] = problem
        self.absent_file.write_text(json.dumps(absent, indent=1))
        done.write_text(json.dumps(list(packages)))
        return absent

    def install(self, packages: Sequence[str], options: Sequence[str]) -> str:
        """ "" or why not. Nothing is compiled but what the options name."""
        command = [uv(), "pip", "install", "-q", "--python", self.python, "--only-binary", ":all:"]
        for name in SOURCE_ONLY:
            command += ["--no-binary", name]
        command += [*options, *packages]
        done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_env())
        said = " ".join(done.stderr.decode(errors="replace").split())
        return (said or "it failed")[:300] if done.returncode else ""

    def absent(self) -> Dict[str, str]:
        try:
            found: Dict[str, str] = json.loads(self.absent_file.read_text())
        except OSError:
            return {}
        return found

    @functools.cached_property
    def versions(self) -> Dict[str, str]:
        """Of every package in it."""
        command = [uv(), "pip", "list", "-q", "--format", "json", "--python", self.python]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        rows: List[Dict[str, str]] = json.loads(done.stdout or b"[]")
        return {row["name"].lower(): row["version"] for row in rows}
