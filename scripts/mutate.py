#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults into the sources, one at a time, and sees whether the tests notice.

    scripts/mutate.py                 all of tests/mutants.py; ends with a table, and with 1 if one survived
    scripts/mutate.py leak seal       those whose name or file has one of these words
    scripts/mutate.py --write         and puts the table into docs/testing.md

It works in a copy of the tree (build-mutants, or --scratch) with a build of its own, runs only the tests that a mutant names, and only until one fails. A test counts if it passes
without the mutant: each is run on the plain copy first.
"""

import argparse
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutants.py"
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- mutants: scripts/mutate.py --write -->", "<!-- end of mutants -->"
LINKED = (".venv", ".tools", "web/node_modules", "tests/web/node_modules")  # not ours to copy, or large
TEST_S, BUILD_S = 300, 1800
# What end-to-end tests run, beside the program and the agent.
TOOLS = ("dump_profile", "weigh_profile", "look_at_wire", "known_profile", "gen_profile", "memory_profile", "gen_trace")
FOUND = "build/pythons.txt"  # asking each of them takes longer than most tests
PYTHONS = "3.12"  # one is enough to see a fault that is not a version's own


class Mutant(NamedTuple):
    name: str  # what is wrong then, as a sentence without its subject
    file: str
    find: str
    put: str
    tests: List[str]  # "unit NAME [CASE]", "fuzz NAME", or a test of pytest

    @property
    def room(self) -> str:
        parts = Path(self.file).parts
        return parts[1] if parts[0] == "core" else parts[0]


class Verdict(NamedTuple):
    mutant: Mutant
    noticed_by: str  # "" = it survived
    trouble: str  # why it could not be judged


def load() -> List[Mutant]:
    mutants = [Mutant(*row) for row in runpy.run_path(str(LIST))["MUTANTS"]]
    for m in mutants:
        n = (ROOT / m.file).read_text().count(m.find)
        if n != 1:
            sys.exit(f"{LIST.name}: {m.name!r}: its text is {n} times in {m.file}, and has to be there once")
    return mutants


# ---- the copy ----


def copy_tree(scratch: Path) -> None:
    """What git knows or would add. Files that are the same stay as they are, so that nothing is built twice."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, copy = ROOT / name, scratch / name
        if not source.is_file() or (copy.exists() and copy.read_bytes() == source.read_bytes()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        shutil.copymode(source, copy)
    for name in LINKED:
        if (ROOT / name).exists() and not (scratch / name).exists():
            (scratch / name).symlink_to((ROOT / name).resolve())


def run(command: Sequence[str], scratch: Path, timeout_s: float) -> Tuple[int, str]:
    """Status (124: it took too long) and output."""
    env = {"FATHOM_TEST_PYTHONS": PYTHONS, "FATHOM_TEST_FOUND": str(scratch / FOUND), **os.environ}
    try:
        done = subprocess.run(
            ["nice", "-n", "10", *command],
            cwd=scratch,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return 124, f"no end within {timeout_s} s"
    return done.returncode, done.stdout.decode(errors="replace")


def targets_of(tests: Sequence[str]) -> List[str]:
    """What ninja has to build for them."""
    targets = [f"tests/test_{t.split()[1]}" for t in tests if t.startswith("unit ")]
    targets += [f"tests/fuzz/fuzz_{t.split()[1]}" for t in tests if t.startswith("fuzz ")]
    if any(t.startswith("tests/") for t in tests):
        targets += ["fathom", "_agent.abi3.so", *(f"tests/{tool}" for tool in TOOLS)]
    return targets


def build(scratch: Path, tests: Sequence[str]) -> Optional[str]:
    """None, or why not."""
    if not (scratch / "build" / "build.ninja").exists():
        status, text = run(["meson", "setup", "build"], scratch, BUILD_S)
        if status:
            return text.splitlines()[-1]
    if not (scratch / FOUND).exists():
        listed = subprocess.run(["scripts/find-pythons.py", "--one"], cwd=scratch, stdout=subprocess.PIPE, check=True)
        (scratch / FOUND).write_bytes(listed.stdout)
    status, text = run(["ninja", "-j", "1", "-C", "build", *dict.fromkeys(targets_of(tests))], scratch, BUILD_S)
    errors = [line for line in text.splitlines() if "error" in line]
    return (errors or text.splitlines())[0] if status else None


# ---- the tests ----


def command_of(test: str) -> List[str]:
    kind, _, name = test.partition(" ")
    if kind == "unit":
        program, *case = name.split()
        return [f"build/tests/test_{program}", *case]
    if kind == "fuzz":
        return ["meson", "test", "-C", "build", "--no-rebuild", f"fuzz_{name}"]
    # A busy machine excuses nothing here: what fails without the mutant does not count anyway.
    return [".venv/bin/python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--busy-limit=1e9", *test.split()]


def failure_of(test: str, scratch: Path) -> str:
    """The name of what failed; empty if all is well."""
    status, text = run(command_of(test), scratch, TEST_S)
    if status == 0:
        return ""
    if test.startswith("unit "):
        found = re.search(r"^FAILED (\w+)", text, re.M)
        return f"test_{test.split()[1]}.c: {found[1] if found else 'it ends early'}"
    if test.startswith("fuzz "):
        return f"fuzz_{test.split()[1]}.c"
    found = re.search(r"^(?:FAILED|ERROR) tests/e2e/(\S+?)(?:\[.*)?(?: - .*)?$", text, re.M)
    if not found:
        return "" if status == 5 else f"{test.split()[0]} (status {status})"
    return found[1].replace("::", ": ")


class Plain:
    """How tests do without any mutant. Each is run once, when it is first asked for."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.failures: Dict[str, str] = {}

    def learn(self, tests: Sequence[str]) -> None:
        new = [t for t in dict.fromkeys(tests) if t not in self.failures]
        why = build(self.scratch, new) if new else None
        if why:
            sys.exit(f"the copy in {self.scratch} does not build: {why}")
        for test in new:
            self.failures[test] = failure_of(test, self.scratch)
            if self.failures[test]:
                print(f"  does not count, it fails by itself: {test} ({self.failures[test]})", flush=True)

    def counts(self, test: str) -> bool:
        return not self.failures[test]


class Planted:
    """A fault in the copy's sources. Afterwards its source is as old as before, and its object files are those of before: only what is made of them is made anew."""

    def __init__(self, mutant: Mutant, scratch: Path) -> None:
        self.mutant, self.path = mutant, scratch / mutant.file
        self.text, self.time = self.path.read_text(), self.path.stat().st_mtime
        name = "_".join(Path(mutant.file).parts) + ".o"
        self.objects = {p: p.read_bytes() for p in (scratch / "build").glob("*.p/" + name)}

    def __enter__(self) -> None:
        self.path.write_text(self.text.replace(self.mutant.find, self.mutant.put))

    def __exit__(self, *error: object) -> None:
        self.path.write_text(self.text)
        if self.objects:
            os.utime(self.path, (self.time, self.time))
        for path, content in self.objects.items():
            path.write_bytes(content)


def judge(mutant: Mutant, plain: Plain) -> Verdict:
    scratch = plain.scratch
    plain.learn(mutant.tests)
    tests = [t for t in mutant.tests if plain.counts(t)]
    if not tests:
        return Verdict(mutant, "", "none of its tests passes by itself")
    with Planted(mutant, scratch):
        why = build(scratch, tests)
        if why:
            return Verdict(mutant, "", f"does not build: {why}")
        for test in tests:
            failed = failure_of(test, scratch)
            if failed:
                return Verdict(mutant, failed, "")
    return Verdict(mutant, "", "")


# ---- the table ----


def table(verdicts: Sequence[Verdict]) -> str:
    rows = ["| room | planted | noticed by |", "|---|---|---|"]
    for v in sorted(verdicts, key=lambda v: (v.mutant.room, v.mutant.name)):
        rows.append(f"| {v.mutant.room} | {v.mutant.name} | {v.noticed_by or '**' + (v.trouble or 'nobody') + '**'} |")
    n = sum(bool(v.noticed_by) for v in verdicts)
    return "\n".join([*rows, "", f"{n} of {len(verdicts)} are noticed."])


def write_page(text: str) -> None:
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only mutants whose name or file has one of them")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build-mutants", help="where the copy is kept")
    parser.add_argument(
        "--go-on", action="store_true", help="what was noticed before, in this copy, is not planted again"
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/testing.md")
    args = parser.parse_args()
    chosen = [m for m in load() if not args.words or any(w in m.name + m.file for w in args.words)]
    # The quick ones first. A header is many files.
    chosen.sort(key=lambda m: (m.file.endswith(".h"), not m.tests[0].startswith("unit "), m.file))
    copy_tree(args.scratch)
    plain, ledger = Plain(args.scratch), args.scratch / "build" / "mutants.json"
    known = json.loads(ledger.read_text()) if args.go_on and ledger.exists() else {}
    verdicts = []
    for mutant in chosen:
        key = "\n".join([mutant.file, mutant.find, mutant.put])
        if not known.get(key, [""])[0]:
            start = time.monotonic()
            known[key] = judge(mutant, plain)[1:]
            v = known[key]
            print(
                f"{time.monotonic() - start:6.1f} s  {mutant.room}: {mutant.name}: {v[0] or v[1] or 'SURVIVED'}",
                flush=True,
            )
            ledger.write_text(json.dumps(known, indent=1))
        verdicts.append(Verdict(mutant, *known[key]))
    print("\n" + table(verdicts))
    if args.write:
        write_page(table(verdicts))
    sys.exit(any(not v.noticed_by for v in verdicts))


if __name__ == "__main__":
    main()
