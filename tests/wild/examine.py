"""One case: without Fathom once, its results kept; under Fathom as often as it is asked for, and compared.

A crash, a hang or a core is a failure at once. Only where a test merely came out otherwise is the bare program run again, to see whether it does
so by itself, and then the one under Fathom: both runs are kept and told.
"""

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import launch
from cases import Case, Results, differences, fails_bare
from launch import Outcome
from ledger import Ledger, Record, identity

BARE_AGAIN = 2  # more bare runs, to know what varies without Fathom
TEXT_BYTES = 400_000  # of output kept with a failure


class Builds:
    """The build under test. Someone may build it anew while this runs."""

    def __init__(self, fathom: Path) -> None:
        self.fathom = fathom
        self.files = [fathom, fathom.parent / "_agent.abi3.so"]
        self.known: Dict[Tuple[float, ...], str] = {}

    def current(self) -> str:
        stamp = tuple(path.stat().st_mtime for path in self.files)
        if stamp not in self.known:
            self.known[stamp] = identity(self.files)
        return self.known[stamp]


def inputs(case: Case) -> str:
    """What a program is given beside its command; another one has other results."""
    text = json.dumps([case.prepare, case.files], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Verdict(NamedTuple):
    how: str  # passed, differs, once (differs in one run of two), crash, hang, fails bare
    detail: str = ""


class Examiner:
    def __init__(self, fathom: Path, ledger: Ledger, scratch: Path, said: Any) -> None:
        self.builds, self.ledger, self.scratch, self.said = Builds(fathom), ledger, scratch, said

    def known_bare(self, case: Case) -> Optional[Record]:
        """From the ledger, if it was the same program."""
        found = self.ledger.read("bare", case.key)
        if found and found["command"] == case.command and found.get("inputs", inputs(case)) == inputs(case):
            return found
        return None

    def bare(self, case: Case, again: bool = False) -> Record:
        """From the ledger, or by a run."""
        found = None if again else self.known_bare(case)
        if found:
            return found
        work, outcome = self.launch(case)
        record = {
            "part": case.part,
            "name": case.name,
            "python": case.python,
            "command": case.command,
            "inputs": inputs(case),
            "status": outcome.status,
            "hung": outcome.hung,
            "cpu_s": round(outcome.cpu_s, 2),
            "wall_s": round(outcome.wall_s, 2),
            "cores": bool(outcome.backtrace),
            "results": case.digest(outcome, work),
            "unsteady": [],
            "tail": (outcome.stdout + outcome.stderr)[-1500:],
            "date": time.strftime("%Y-%m-%d"),
        }
        launch.remove(work.parent)
        self.ledger.write("bare", case.key, record)
        return record

    def again_bare(self, case: Case, record: Record) -> None:
        """Adds what varies by itself."""
        unsteady = set(record["unsteady"])
        for _ in range(BARE_AGAIN):
            work, outcome = self.launch(case)
            unsteady |= set(differences(record["results"], case.digest(outcome, work)))
            if outcome.status != record["status"]:
                unsteady.add("exit status")
            launch.remove(work.parent)
        record["unsteady"] = sorted(unsteady)
        record["bare_runs"] = record.get("bare_runs", 1) + BARE_AGAIN
        self.ledger.write("bare", case.key, record)

    def launch(
        self, case: Case, mode: Optional[List[str]] = None, bare: Optional[Record] = None
    ) -> Tuple[Path, Outcome]:
        """Without Fathom when no mode is given. What it leaves is in the folder it gives back, whose parent is to be removed."""
        folder = launch.fresh_folder(self.scratch)
        work = folder / "work"
        work.mkdir()
        for name, text in case.files.items():
            if name.endswith("/"):
                (work / name).mkdir()
            else:
                (work / name).write_text(text)
        if case.prepare:
            subprocess.run(
                ["sh", "-c", case.prepare.format(folder=work)], cwd=work, env=self.env(case, work), check=True
            )
        command = [part.replace("{folder}", str(work)) for part in case.command]
        if mode is not None:
            command = [str(self.builds.fathom), "record", "-o", str(folder / "profile.fathom"), *mode, "--", *command]
        limits = case.limits.beside(bare["cpu_s"], bare["wall_s"]) if bare else case.limits
        return work, launch.run(command, work, self.env(case, work), limits, starter=mode is not None)

    def env(self, case: Case, folder: Path) -> Dict[str, str]:
        return {name: text.replace("{folder}", str(folder)) for name, text in case.env.items()}

    def ours(self, case: Case, number: int) -> Verdict:
        """One run under Fathom, written to the ledger."""
        bare = self.bare(case)
        if fails_bare(bare):
            return Verdict("fails bare", fails_bare(bare))
        build = self.builds.current()
        record = self.ledger.read("ours", case.key) or {}
        if record.get("build") != build:
            record = {"part": case.part, "name": case.name, "python": case.python, "build": build, "runs": []}
        mode = case.modes[number % len(case.modes)]
        verdict, outcome = self.judged(case, mode, bare, number)
        if self.builds.current() != build:
            return Verdict("not counted", "the build changed meanwhile")
        row = {
            "number": number,
            "mode": mode,
            "how": verdict.how,
            "detail": verdict.detail,
            "status": outcome.status,
            "cpu_s": round(outcome.cpu_s, 2),
            "wall_s": round(outcome.wall_s, 2),
        }
        record["runs"] = [r for r in record["runs"] if r["number"] != number] + [row]
        self.ledger.write("ours", case.key, record)
        return verdict

    def judged(self, case: Case, mode: List[str], bare: Record, number: int) -> Tuple[Verdict, Outcome]:
        outcome, results = self.under_fathom(case, mode, bare)
        found = compare(bare, outcome, results)
        if found.how == "passed":
            return found, outcome
        self.keep(case, mode, number, outcome, found)
        if found.how != "differs":
            return found, outcome
        self.again_bare(case, bare)
        found = compare(bare, outcome, results)
        if found.how == "passed":
            return Verdict("passed", "varies without Fathom, too"), outcome
        second, results = self.under_fathom(case, mode, bare)
        again = compare(bare, second, results)
        if again.how in ("crash", "hang"):
            self.keep(case, mode, number, second, again)
            return again, second
        return (Verdict("once", found.detail) if again.how == "passed" else found), outcome

    def under_fathom(self, case: Case, mode: List[str], bare: Record) -> Tuple[Outcome, Results]:
        work, outcome = self.launch(case, mode, bare)
        results = case.digest(outcome, work)
        launch.remove(work.parent)
        return outcome, results

    def keep(self, case: Case, mode: List[str], number: int, outcome: Outcome, found: Verdict) -> None:
        kept = self.ledger.failure_folder(case.key, number)
        (kept / "command").write_text(" ".join(["fathom record", *mode, "--", *case.command]) + "\n")
        (kept / "verdict").write_text(f"{found.how}: {found.detail}\nexit status {outcome.status}\n")
        (kept / "stdout").write_text(outcome.stdout[-TEXT_BYTES:])
        (kept / "stderr").write_text(outcome.stderr[-TEXT_BYTES:])
        if outcome.backtrace:
            (kept / "backtrace").write_text(outcome.backtrace)
        self.said(
            f"{case.key} run {number} {' '.join(mode)}: {found.how} {found.detail[:200]} (kept in {os.path.relpath(kept)})"
        )


def compare(bare: Record, outcome: Outcome, results: Results) -> Verdict:
    if outcome.hung:
        return Verdict("hang", outcome.hung)
    if outcome.status >= 128 and outcome.status != bare["status"]:
        return Verdict("crash", f"exit status {outcome.status}")
    if outcome.backtrace and not bare["cores"]:
        return Verdict("crash", "a process of it dumped core")
    found = differences(bare["results"], results)
    if outcome.status != bare["status"] and (bare["status"] == 0 or not bare["results"]):
        found["exit status"] = f"{bare['status']} -> {outcome.status}"
    found = {name: how for name, how in found.items() if name not in bare["unsteady"]}
    if found:
        return Verdict("differs", "; ".join(f"{name}: {how}" for name, how in sorted(found.items())))
    return Verdict("passed")
