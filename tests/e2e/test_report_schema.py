# SPDX-License-Identifier: Apache-2.0
"""docs/report.schema.json says all that `fathom report --json` writes, and no more."""

import json
import os
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any, Dict, List

import jsonschema
import pytest
from capture import ROOT
from guest import pick_python

PYTHON = pick_python()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Python to run")

BUSY = "sum(i * i for i in range(3_000_000))"
CHILDREN = """
    import multiprocessing, threading
    def work(n):
        return sum(i * i for i in range(n))
    if __name__ == "__main__":
        t = threading.Thread(target=work, args=(300_000,)); t.start(); t.join()
        with multiprocessing.Pool(2) as pool:
            pool.map(work, [400_000] * 4)
"""
MARKED = """
    import fathom
    kept = []
    def work(n):
        return sum(i * i for i in range(n))
    for i in range(300):
        kept.append(bytearray(100_000))
        work(1000)
    fathom.mark("filled")
"""
SOURCES = {
    "script": BUSY,
    "children": CHILDREN,
    "failing": "raise SystemExit(5)",
    "killed": "import os; sum(range(3_000_000)); os.kill(os.getpid(), 9)",
    "cut off": BUSY,
    "exact": MARKED,
    "traced": MARKED,
}
OPTIONS = {"exact": ["--memory-log"], "traced": ["--trace"]}


@pytest.fixture(scope="session")
def validator(root: Path) -> Any:
    schema = json.loads((root / "docs" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def undescribed(schema: Any, value: Any, path: str = "$") -> List[str]:
    """Fields that the schema says nothing of."""
    if isinstance(value, list):
        return sorted({x for item in value for x in undescribed(schema.get("items", {}), item, path + "[]")})
    if not isinstance(value, dict) or "$ref" in schema:
        return []
    found = []
    for key, item in value.items():
        if key not in schema.get("properties", {}):
            found.append(f"{path}.{key}")
        else:
            found += undescribed(schema["properties"][key], item, f"{path}.{key}")
    return found


def report_of(fathom: Path, path: Path) -> Dict[str, Any]:
    done = subprocess.run([fathom, "report", "--json", path], stdout=subprocess.PIPE, check=True)
    report: Dict[str, Any] = json.loads(done.stdout)
    return report


def run_script(fathom: Path, what: str, folder: Path) -> Path:
    assert PYTHON
    (folder / "app.py").write_text(textwrap.dedent(SOURCES[what]))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FATHOM_", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [fathom, "run", "--full", "--python", PYTHON.path, *OPTIONS.get(what, []), "app.py"],
        cwd=folder,
        env={**env, "PYTHONPATH": str(ROOT / "python")},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    if what == "children":
        assert re.search(r"^\d+ Processes:$", done.stdout, re.M) and re.search(r"^\d+ Threads:$", done.stdout, re.M)
    (results,) = (folder / ".fathom").glob("*/*/profile.fathom")
    return results


@pytest.mark.parametrize("what", [*SOURCES, "native", "leak"])
def test_captures_follow_the_schema(fathom: Path, build: Path, validator: Any, what: str, tmp_path: Path) -> None:
    path = tmp_path / "p.fathom"
    if what == "native":
        subprocess.run([fathom, "record", "-o", path, "--", "seq", "200000"], check=True, stdout=subprocess.DEVNULL)
    elif what == "leak":
        events = [f"alloc 0 21 {i / 10} {i + 1} 4000 135000 0" for i in range(280)]
        script = "\n".join(["run 30", "meta memory sampled", "sample 0 21 1", *events, ""])
        subprocess.run([build / "tests" / "memory_profile", path], input=script, text=True, check=True)
    else:
        path = run_script(fathom, what, tmp_path)
    if what == "cut off":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    report = report_of(fathom, path)
    assert [f"{e.json_path}: {e.message[:200]}" for e in validator.iter_errors(report)] == []
    assert undescribed(validator.schema, report) == []
    assert what != "leak" or report["leaks"]
    assert what != "traced" or report["calls"]["functions"] and report["calls"]["marks"]


def test_the_schema_refuses_what_is_wrong(validator: Any, fathom: Path, build: Path, tmp_path: Path) -> None:
    path = tmp_path / "known.fathom"
    subprocess.run([build / "tests" / "known_profile", path], check=True)
    good = report_of(fathom, path)
    assert validator.is_valid(good)
    for key in ("schema", "time", "functions", "exit"):
        assert not validator.is_valid({k: v for k, v in good.items() if k != key})
    assert not validator.is_valid({**good, "wall_s": "long"})
    assert not validator.is_valid({**good, "functions": [{**good["functions"][0], "kind": "magic"}]})
