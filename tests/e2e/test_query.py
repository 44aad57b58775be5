# SPDX-License-Identifier: Apache-2.0
"""`fathom query`, `export -f sqlite` and fathom.open(): the figures of `report --json`, by SQL, within bounds, and nothing but reading."""

import csv
import importlib.util
import io
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import pytest
from capture import BUILD, ROOT
from guest import clean_env, pick_python

sys.path.insert(0, str(ROOT / "python"))
import fathom as package  # noqa: E402

FATHOM = BUILD / "fathom"
PYTHON = pick_python()

PROGRAM = """
    import multiprocessing, threading, time
    import fathom
    kept = []
    def work(n):
        return sum(i * i for i in range(n))
    def fill(n):
        for i in range(n):
            kept.append(bytearray(200_000))
            work(2000)
    def nap():
        time.sleep(0.2)
    if __name__ == "__main__":
        t = threading.Thread(target=work, args=(600_000,), name="side"); t.start()
        fill(100); nap(); fathom.mark("filled"); work(300_000)
        p = multiprocessing.get_context("fork").Process(target=work, args=(300_000,)); p.start(); p.join()
        t.join()
"""


def ask(capture: Path, statement: str, *options: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    command = [FATHOM, "query", *options, "--", capture, statement]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, env=clean_env({})
    )
    assert done.returncode == code, (done.returncode, done.stdout[:500], done.stderr)
    assert done.stderr.count("\n") <= 3, done.stderr
    return done


def rows(capture: Path, statement: str, *options: str) -> List[List[Any]]:
    answer = json.loads(ask(capture, statement, "--json", "--limit", "0", *options).stdout)
    assert answer["schema"] == "fathom.query/1" and answer["rows_left_out"] == 0
    found: List[List[Any]] = answer["rows"]
    return found


def table(capture: Path, name: str, *options: str) -> List[Dict[str, Any]]:
    answer = json.loads(ask(capture, f"SELECT * FROM {name}", "--json", "--limit", "0", *options).stdout)
    names = [column["name"] for column in answer["columns"]]
    return [dict(zip(names, row)) for row in answer["rows"]]


def described() -> List[Dict[str, Any]]:
    done = subprocess.run([FATHOM, "query", "--tables", "--json"], stdout=subprocess.PIPE, check=True)
    tables: List[Dict[str, Any]] = json.loads(done.stdout)["tables"]
    return tables


@pytest.fixture(scope="module")
def known(tmp_path_factory: Any) -> Path:
    """10,000 samples of a millisecond, each figure of which is known (tests/support/known.h)."""
    path: Path = tmp_path_factory.mktemp("query") / "known.fathom"
    subprocess.run([BUILD / "tests" / "known_profile", path], check=True)
    return path


def record(folder: Path, *options: str) -> Path:
    assert PYTHON
    (folder / "app.py").write_text(textwrap.dedent(PROGRAM))
    path = folder / "app.fathom"
    command = [FATHOM, "record", *options, "-o", path, "--", PYTHON.path, "app.py"]
    subprocess.run(command, cwd=folder, env=clean_env({"PYTHONPATH": str(ROOT / "python")}), check=True, timeout=120)
    return path


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: Any) -> Path:
    return record(tmp_path_factory.mktemp("sampled"), "--memory", "--sample-cpu")


@pytest.fixture(scope="module")
def traced(tmp_path_factory: Any) -> Path:
    return record(tmp_path_factory.mktemp("traced"), "--trace", "--memory")


def report(capture: Path, *options: str) -> Dict[str, Any]:
    done = subprocess.run([FATHOM, "report", "--json", *options, capture], stdout=subprocess.PIPE, check=True)
    found: Dict[str, Any] = json.loads(done.stdout)
    return found


def leaking(folder: Path, build: Path) -> Path:
    events = [f"alloc 0 21 {i / 10} {i + 1} 4000 135000 0" for i in range(280)]
    script = "\n".join(["run 30", "meta memory sampled", "sample 0 21 1", *events, ""])
    subprocess.run([build / "tests" / "memory_profile", folder / "leak.fathom"], input=script, text=True, check=True)
    return folder / "leak.fathom"


# ---- the same figures ----


def compare(found: List[Dict[str, Any]], expected: List[Dict[str, Any]], but: str = "") -> None:
    """Every member of each row of the report is a column of the same name, with the same value."""
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected):
        for key, value in wanted.items():
            if key not in but.split():
                assert row[key] == value, (key, row, wanted)


@pytest.mark.skipif(PYTHON is None, reason="no Python to run")
@pytest.mark.parametrize(
    "options", [[], ["--detailed"], ["--native-all", "--no-inlines"]], ids=lambda o: " ".join(o) or "plain"
)
def test_figures_are_those_of_the_report(sampled: Path, options: List[str]) -> None:
    wanted = report(sampled, *options)
    assert wanted["functions"] and wanted["lines"] and len(wanted["threads"]) >= 2 and len(wanted["processes"]) == 2
    compare(table(sampled, "functions", *options), wanted["functions"])
    compare(table(sampled, "lines", *options), wanted["lines"], but="timeline_bytes")
    compare(table(sampled, "threads", *options), wanted["threads"])
    compare([row for row in table(sampled, "cpus", *options) if row["samples"]], wanted["cpus"])
    compare(table(sampled, "libraries", *options), wanted["libraries"])
    compare(table(sampled, "coverage", *options), wanted["coverage"])
    compare(table(sampled, "leaks", *options), wanted["leaks"])
    compare(table(sampled, "memory", *options), wanted["memory"]["timeline"])
    processes = table(sampled, "processes", *options)
    compare(processes, wanted["processes"], but="exit command")
    for row, process in zip(processes, wanted["processes"]):
        assert [row["exit_code"], row["exit_signal"]] == [process["exit"]["code"], process["exit"]["signal"]]
        assert shlex.split(row["command"]) == process["command"]


@pytest.mark.skipif(PYTHON is None, reason="no Python to run")
def test_the_run_as_a_whole_is_that_of_the_report(sampled: Path) -> None:
    wanted = report(sampled)
    (meta,) = table(sampled, "meta")
    for name in ("time", "workers"):
        compare([meta], [wanted[name]])
    for key in ("alloc_bytes", "peak_bytes", "live_bytes", "copy_bytes"):
        assert meta[key] == wanted["memory"][key] and meta["alloc_bytes"] > 0
    elsewhere = "schema command exit runs verdict coverage time workers processes threads cpus functions lines libraries memory leaks calls notebook_cells"
    compare([meta], [wanted], but=elsewhere)
    assert shlex.split(meta["command"]) == wanted["command"] and meta["exit_code"] == wanted["exit"]["code"] == 0
    assert meta["traced_calls"] == wanted["calls"]["calls"] == 0  # it has a mark


@pytest.mark.skipif(PYTHON is None, reason="no Python to run")
def test_a_trace_is_that_of_the_report(traced: Path) -> None:
    wanted = report(traced)["calls"]
    zones = table(traced, "zones")
    compare(zones, wanted["functions"], but="callers")
    assert rows(traced, "SELECT traced_calls FROM meta") == [[wanted["calls"]]]
    work = next(zone for zone in zones if zone["name"] == "work")
    assert work["calls"] == 103 and work["kind"] == "python"
    found = rows(
        traced, f"SELECT caller, calls, total_s, own_s FROM calls WHERE callee_id = {work['id']} AND caller_id NOTNULL"
    )
    callers = next(f for f in wanted["functions"] if f["name"] == "work")["callers"]
    assert sorted(found) == sorted([[c["name"], c["calls"], c["total_s"], c["own_s"]] for c in callers]) != []
    marks = rows(traced, "SELECT m.text, m.t_s, t.tid FROM marks m JOIN threads t ON t.id = m.thread_id")
    assert marks == [[m["text"], m["t_s"], m["tid"]] for m in wanted["marks"]] and marks[0][0] == "filled"


@pytest.mark.skipif(PYTHON is None, reason="no Python to run")
def test_traced_lines_are_those_of_the_report(tmp_path: Path) -> None:
    assert PYTHON
    (tmp_path / "app.py").write_text("def f():\n    x = 1\n    return x\nfor i in range(7):\n    f()\n")
    command = [PYTHON.path, "-m", "fathom", "-l", "-o", tmp_path / "t.fathom", "app.py"]
    env = clean_env({"PYTHONPATH": str(ROOT / "python")})
    subprocess.run(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, check=True, timeout=60)
    found = table(tmp_path / "t.fathom", "traced_lines")
    compare(found, report(tmp_path / "t.fathom")["calls"]["lines"])
    assert {row["line"]: row["hits"] for row in found if row["function"] == "f"} == {2: 7, 3: 7}


def test_leaks_are_those_of_the_report(tmp_path: Path, build: Path) -> None:
    path = leaking(tmp_path, build)
    compare(table(path, "leaks"), report(path)["leaks"])
    assert rows(path, "SELECT count(*), sum(weight_bytes) FROM blocks") == [[280, 280 * 135000]]
    # An event of the script was at i / 10 seconds.
    assert rows(path, "SELECT count(*) FROM blocks WHERE t_s BETWEEN 1 AND 1.9001 AND freed_s IS NULL") == [[10]]
    assert rows(path, "SELECT sum(alloc_bytes) FROM allocations") == [[280 * 135000]]
    ((leaked_bytes,),) = rows(path, "SELECT sum(leaked_bytes) FROM allocations")
    assert rows(path, "SELECT sum(weight_bytes) FROM blocks WHERE is_leaked") == [[leaked_bytes]]
    command = [FATHOM, "export", "-f", "collapsed", "--metric", "leak", path]
    wanted = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    assert leaked_bytes == sum(int(line.rsplit(" ", 1)[1]) for line in wanted.splitlines()) > 0


# ---- tables that the report does not have, on samples whose sums are known ----


def test_samples_are_every_sample(known: Path) -> None:
    kinds = dict(rows(known, "SELECT kind, count(*) FROM samples GROUP BY kind"))
    assert kinds == {"python": 5300, "native": 4000, "gc": 200, "system": 500, "gil_wait": 300}
    assert rows(known, "SELECT count(*), sum(weight_s), count(DISTINCT thread_id) FROM samples") == [[10300, 10.3, 3]]
    late = "SELECT count(*) FROM (SELECT t_s < lag(t_s) OVER (PARTITION BY thread_id) AS is_late FROM samples) WHERE is_late"
    assert rows(known, late) == [[0]]
    # Joined, in whatever order: each sample has one stack, one thread, one process.
    joined = """SELECT count(*), sum(s.weight_s) FROM processes p JOIN threads t ON t.process_id = p.id
                JOIN samples s ON s.thread_id = t.id JOIN stacks k ON k.id = s.stack_id JOIN nodes n ON n.id = k.id"""
    assert rows(known, joined) == [[10300, 10.3]]


def test_functions_know_whose_they_are(known: Path) -> None:
    found = rows(
        known, "SELECT name, samples, is_users FROM functions WHERE name IN ('main', 'App.work', 'dumps') ORDER BY name"
    )
    assert found == [["App.work", 7500, 1], ["dumps", 1000, 0], ["main", 9000, 1]]
    assert (
        rows(known, "SELECT f.name FROM lines l JOIN functions f ON f.id = l.function_id WHERE f.name <> l.function")
        == []
    )
    assert rows(
        known, "SELECT count(*) FROM threads t LEFT JOIN processes p ON p.id = t.process_id WHERE p.pid <> t.pid"
    ) == [[0]]
    assert rows(known, "SELECT pid, threads FROM processes ORDER BY pid") == [[100, 2], [200, 1]]


def test_stacks_are_those_of_collapsed(known: Path, tmp_path: Path) -> None:
    for options, unit, column in (
        ([], "samples", "samples"),
        (["--full-filenames"], "us", "cast(round(total_s * 1e6) AS INT)"),
    ):
        command = [FATHOM, "export", "-f", "collapsed", "--unit", unit, *options, known]
        wanted = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
        found = rows(
            known, f"SELECT stack, sum({column}) FROM stacks GROUP BY stack HAVING sum({column}) > 0", *options
        )
        assert sorted(f"{stack} {n}" for stack, n in found) == sorted(wanted) != []


def test_nodes_are_one_tree(known: Path) -> None:
    nodes = {row["id"]: row for row in table(known, "nodes")}
    (root,) = [row for row in nodes.values() if row["parent_id"] is None]
    assert root["total_s"] == pytest.approx(10) and root["total_wait_s"] == pytest.approx(0.3) and root["depth"] == 0
    for row in nodes.values():
        below = [other for other in nodes.values() if other["parent_id"] == row["id"]]
        assert row["total_s"] == pytest.approx(row["self_s"] + sum(other["total_s"] for other in below))
        assert all(other["depth"] == row["depth"] + 1 for other in below)
    assert sum(row["samples"] for row in nodes.values()) == 10000
    # A function's total is that of its outermost nodes.
    outermost = """WITH RECURSIVE up(id, at, function_id) AS (
        SELECT id, parent_id, function_id FROM nodes UNION ALL
        SELECT up.id, n.parent_id, up.function_id FROM up JOIN nodes n ON n.id = up.at)
        SELECT f.name, f.total_s, (SELECT sum(n.total_s) FROM nodes n WHERE n.function_id = f.id AND NOT EXISTS
        (SELECT 1 FROM up JOIN nodes a ON a.id = up.at WHERE up.id = n.id AND a.function_id = f.id)) FROM functions f"""
    for name, total_s, sum_s in rows(known, outermost):
        assert total_s == pytest.approx(sum_s or 0), name


@pytest.mark.skipif(PYTHON is None, reason="no Python to run")
def test_waits_and_allocations_add_up(sampled: Path) -> None:
    by_kind = dict(rows(sampled, "SELECT kind, sum(total_s) FROM waits GROUP BY kind"))
    ((gil_wait_s, wait_s, alloc_bytes),) = rows(sampled, "SELECT gil_wait_s, wait_s, alloc_bytes FROM meta")
    assert by_kind.get("gil_wait", 0) == pytest.approx(gil_wait_s, abs=1e-8)
    assert by_kind["wait"] == pytest.approx(wait_s, abs=1e-8) and wait_s >= 0.1
    assert rows(sampled, "SELECT sum(alloc_bytes) FROM allocations") == [[alloc_bytes]]
    # By line they are what lines are charged.
    for column, source in (
        ("wait_s", "total_s) FROM waits WHERE kind = 'wait' AND"),
        ("alloc_bytes", "alloc_bytes) FROM allocations WHERE"),
    ):
        for file, line, value in rows(sampled, f"SELECT file, line, {column} FROM lines WHERE {column} > 0"):
            ((charged,),) = rows(sampled, f"SELECT sum({source} file = '{file}' AND line = {line}")
            assert charged == pytest.approx(value, abs=1e-8), (file, line)
    slept = rows(sampled, "SELECT wait_s FROM lines WHERE source = 'time.sleep(0.2)'")
    assert len(slept) == 1 and slept[0][0] >= 0.1


@pytest.mark.skipif(PYTHON is None, reason="no Python to run")
def test_files_have_the_text_of_the_sources(sampled: Path) -> None:
    ((text, length),) = rows(sampled, "SELECT text, bytes FROM files WHERE kind = 'source' AND path LIKE '%app.py'")
    assert text == textwrap.dedent(PROGRAM) and length == len(text)
    ((build_id,),) = rows(
        sampled, "SELECT build_id FROM files WHERE path LIKE '%/libc.so.6' AND kind = 'image' LIMIT 1"
    )
    assert re.fullmatch("[0-9a-f]{40}", build_id)


# ---- looked up and joined: as a plain copy of the tables answers ----


@pytest.fixture(scope="module")
def copy(known: Path, tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("copy") / "known.sqlite"
    subprocess.run([FATHOM, "export", "-f", "sqlite", "-o", path, known], check=True)
    return path


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT name, self_s FROM functions WHERE id = 1",
        "SELECT count(*) FROM functions WHERE id = '1'",
        "SELECT count(*) FROM functions WHERE id = 1.0 OR name = 'work'",
        "SELECT count(*) FROM functions WHERE line = -0.0",
        "SELECT count(*) FROM functions WHERE name = 5 OR name IS NULL OR id = NULL OR id = x'00'",
        "SELECT count(*) FROM functions WHERE name = 'WORK' COLLATE NOCASE",
        "SELECT count(*) FROM functions a JOIN functions b USING (file)",
        "SELECT l.line, f.name, l.total_s FROM lines l JOIN functions f ON f.id = l.function_id ORDER BY 1, 2, 3",
        "SELECT a.id, count(b.id) FROM nodes a LEFT JOIN nodes b ON b.parent_id = a.id GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM stacks k WHERE k.stack = (SELECT stack FROM stacks WHERE id = k.id)",
        "SELECT kind, count(*) FROM samples WHERE stack_id IN (SELECT id FROM stacks WHERE samples > 400) GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM threads WHERE name = 'MainThread'",
        "SELECT * FROM columns WHERE table_name = 'lines' AND name = 'line'",
    ],
)
def test_a_lookup_finds_what_a_copy_has(known: Path, copy: Path, statement: str) -> None:
    with sqlite3.connect(copy) as database:
        wanted = [list(row) for row in database.execute(statement)]
    assert rows(known, statement) == wanted


def test_an_export_is_a_database_with_all_tables(known: Path, copy: Path, tmp_path: Path) -> None:
    assert copy.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(copy) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        for each in described():
            names = [c[1] for c in database.execute(f"PRAGMA table_info({each['name']})")]
            assert names == [c["name"] for c in each["columns"]]
            wanted = rows(known, f"SELECT * FROM {each['name']}")
            assert len(wanted) == database.execute(f"SELECT count(*) FROM {each['name']}").fetchone()[0]
        assert database.execute("SELECT count(*), sum(weight_s) FROM samples").fetchall()[0] == pytest.approx(
            (10300, 10.3)
        )
    with open(tmp_path / "piped", "wb") as file:  # a stream, and the same bytes
        subprocess.run([FATHOM, "export", "-f", "sqlite", known], stdout=file, check=True)
    assert (tmp_path / "piped").read_bytes() == copy.read_bytes()


def test_an_export_that_has_no_room_leaves_nothing(known: Path, tmp_path: Path) -> None:
    env = clean_env({"TMPDIR": str(tmp_path / "missing")})
    command = [FATHOM, "export", "-f", "sqlite", "-o", tmp_path / "x.sqlite", known]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=env)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "TMPDIR" in done.stderr
    assert list(tmp_path.iterdir()) == []
    tight = ["sh", "-c", 'ulimit -f 16; "$@"', "sh", *command]
    done = subprocess.run(tight, stderr=subprocess.PIPE, text=True, env=clean_env({"TMPDIR": str(tmp_path)}))
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "temporary file" in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


# ---- nothing but reading, within bounds ----


@pytest.mark.parametrize(
    "statement, says",
    [
        ("DROP TABLE functions", "give one SELECT"),
        ("DELETE FROM functions", "may not be modified"),
        ("INSERT INTO functions (id) VALUES (1)", "give one SELECT"),
        ("CREATE TABLE t AS SELECT 1", "give one SELECT"),
        ("CREATE TEMP TABLE t AS SELECT 1", "give one SELECT"),
        ("CREATE VIRTUAL TABLE t USING fathom", "give one SELECT"),
        ("BEGIN", "give one SELECT"),
        ("VACUUM INTO '{folder}/copy'", "give one SELECT"),
        ("ATTACH '{folder}/other' AS other", "ATTACH is not allowed"),
        ("DETACH main", "give one SELECT"),
        ("PRAGMA query_only = 0", "only the PRAGMAs"),
        ("PRAGMA temp_store_directory = '{folder}'", "only the PRAGMAs"),
        ("PRAGMA hard_heap_limit = 0", "only the PRAGMAs"),
        ("SELECT load_extension('{folder}/x.so')", "functions of files"),
        ("SELECT fts3_tokenizer('simple')", "o"),
        ("SELECT writefile('{folder}/x', 'y')", "o"),
        ("SELECT readfile('/etc/passwd')", "o"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT 1; DROP TABLE functions", "one statement"),
        ("SELECT 1; nonsense", "one statement"),
        ("", "there is no statement"),
        ("-- nothing", "there is no statement"),
        ("SELECT", "incomplete input"),
        ("SELECT 'x", "unrecognized token"),
        ("SELECT " + "1+" * 60000 + "1", "longer than"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "p"),
        ("SELECT zeroblob(1000000000)", "too big"),
    ],
    ids=lambda value: value[:30],
)
def test_a_statement_only_reads(known: Path, tmp_path: Path, statement: str, says: str) -> None:
    before = known.read_bytes()
    done = ask(known, statement.format(folder=tmp_path), code=2)
    assert done.stdout == "" and done.stderr.startswith("fathom: ") and done.stderr.count("\n") == 1
    assert says in done.stderr and len(done.stderr) < 400
    assert list(tmp_path.iterdir()) == [] and known.read_bytes() == before


def test_tables_of_sqlite_itself_can_be_asked(known: Path) -> None:
    assert rows(known, "SELECT value FROM json_each('[1, 2]')") == [[1], [2]]
    assert rows(known, "SELECT name FROM pragma_table_info('cpus')") == [["cpu"], ["samples"], ["cpu_s"]]
    assert rows(known, "PRAGMA table_info(cpus)")[0][:3] == [0, "cpu", "INTEGER"]


@pytest.mark.parametrize("statement", ["SELECT 1;", "SELECT 1 -- so", "WITH x AS (SELECT 1) SELECT * FROM x ;; "])
def test_what_stands_around_a_statement_is_no_second_one(known: Path, statement: str) -> None:
    assert rows(known, statement) == [[1]]


def test_time_is_bounded(known: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    begin = time.monotonic()
    done = ask(known, endless, "--timeout", "0.3", code=1)
    assert time.monotonic() - begin < 30 and "longer than 0.3 s" in done.stderr and done.stdout == ""
    # A single function that takes too long is ended from outside of SQLite.
    slow = "SELECT instr(hex(zeroblob(9000000)), hex(zeroblob(4500000)) || '1')"
    begin = time.monotonic()
    done = ask(known, slow, "--timeout", "0.3", code=1)
    assert time.monotonic() - begin < 50 and "--timeout" in done.stderr


def test_memory_is_bounded(known: Path) -> None:
    hungry = "SELECT a.t_s FROM samples a, nodes b ORDER BY b.id, a.t_s DESC"
    for statement in (hungry, "SELECT length(group_concat(k.stack)) FROM stacks k, samples s"):
        done = ask(known, statement, "--max-memory", "2M", code=1)
        assert "--max-memory" in done.stderr and done.stdout == ""


@pytest.mark.parametrize(
    "statement, says",
    [
        ("SELECT self_ms FROM functions", "no such column: self_ms; did you mean self_s?"),
        ("SELECT f.nam FROM functions f", "no such column: f.nam; did you mean name?"),
        ("SELECT wall FROM meta", "no such column: wall; did you mean wall_s?"),
        ("SELECT own_s FROM functions", "no such column: own_s; the table zones has own_s"),
        ("SELECT * FROM function", "no such table: function; did you mean functions?"),
        ("SELECT * FROM lnies", "no such table: lnies; did you mean lines?"),
        ("SELECT * FROM quatsch", "no such table: quatsch; 'fathom query --tables' lists"),
        ('SELECT * FROM functions WHERE name = "work"', "a text needs single quotes: 'work'"),
        ("SELECT nosuch(1)", "no such function: nosuch"),
        ("SELECT * FORM functions", 'near "FORM": syntax error'),
    ],
)
def test_a_wrong_statement_gets_the_nearest_name(known: Path, statement: str, says: str) -> None:
    assert says in ask(known, statement, code=2).stderr
    # It is wrong whatever the capture, which is not even read.
    broken = known.with_name("broken.fathom")
    broken.write_bytes(b"no capture")
    assert says in ask(broken, statement, code=2).stderr


def test_wrong_use_is_one_line(known: Path, tmp_path: Path) -> None:
    for words, says in (
        ([known], "one SELECT"),
        ([known, "SELECT 1", "--json", "--csv"], "one of --json"),
        ([known, "SELECT 1", "--max-memory", "much"], "--max-memory"),
        ([known, "SELECT 1", "--timeout", "-1"], "timeout"),
    ):
        done = subprocess.run([FATHOM, "query", *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert "there is no" in ask(tmp_path / "missing", "SELECT 1", code=1).stderr
    assert "the profile itself" in ask(known, "SELECT 1", "-o", str(known), code=1).stderr
    assert rows(known, "SELECT count(*) FROM samples") == [[10300]]
    assert "/missing/" in ask(known, "SELECT 1", "-o", str(tmp_path / "missing" / "x"), code=1).stderr
    assert "No space" in ask(known, "SELECT 1", "-o", "/dev/full", code=1).stderr


def test_rows_beyond_the_limit_are_counted(known: Path) -> None:
    done = ask(known, "SELECT t_s FROM samples", "--csv")
    assert len(done.stdout.splitlines()) == 51 and "the first 50 of 10300 rows" in done.stderr
    done = ask(known, "SELECT t_s FROM samples", "--csv", "-n", "3")
    assert len(done.stdout.splitlines()) == 4 and "the first 3 of 10300 rows" in done.stderr
    many = "SELECT a.id FROM nodes a, samples b, samples c"
    done = ask(known, many, "--json")
    assert "of more than 100050 rows" in done.stderr
    answer = json.loads(done.stdout)
    assert len(answer["rows"]) == 50 and answer["has_more"] and answer["rows_left_out"] == 100000
    # Time runs out while rows are counted: what was asked for is there.
    slow = "SELECT 1 UNION ALL SELECT * FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n)"
    done = ask(known, slow, "--csv", "-n", "1", "--timeout", "0.2", code=1)
    assert "longer than" in done.stderr and done.stdout == ""
    for options in ([], ["-n", "10300"], ["-n", "0"]):
        assert ask(known, "SELECT t_s FROM samples LIMIT 10300" if options else "SELECT 1", *options).stderr == ""


def test_an_empty_table_says_how_it_fills(known: Path) -> None:
    for name, says in (
        ("zones", "--trace"),
        ("allocations", "--memory"),
        ("blocks", "--memory"),
        ("traced_lines", "-l"),
    ):
        done = ask(known, f"SELECT count(*) FROM {name}")
        assert says in done.stderr and done.stderr.count("\n") == 1
    assert ask(known, "SELECT count(*) FROM leaks").stderr == ""


# ---- how it is written ----


def test_people_get_columns_that_fit(known: Path) -> None:
    out = ask(known, "SELECT name, file, self_s, id FROM functions ORDER BY self_s DESC", "--width", "60").stdout
    lines = out.splitlines()
    assert re.match(r"name +file +self_s +id$", lines[0]) and set(lines[1]) == {"-", " "}
    assert all(len(line) <= 60 for line in lines)
    points = {re.search(r"\d\.\d{3}  +\d+$", line).start() for line in lines[2:]}  # type: ignore[union-attr]
    assert len(points) == 1, "numbers are set to the right, with as many decimals each"
    wide = ask(known, "SELECT * FROM functions", "-n", "2", "--width", "80").stdout.splitlines()
    assert wide[0] == "row 1" and all(len(line) <= 80 for line in wide) and re.match(r"  self_s +\d", wide[10])
    assert "row 2" in wide
    assert ask(known, "SELECT 1 AS n WHERE 0").stdout == "n\n-\n"
    assert ask(known, "SELECT NULL AS n, 'x' AS t").stdout == "n  t\n-  -\n   x\n"
    long = ask(known, "SELECT t_s, kind FROM samples", "-n", "2500").stdout.splitlines()
    assert len(long) == 2502 and len({len(line.split()[0]) for line in long[2:]}) == 1  # more than a page


def test_csv_and_json_and_markdown_hold_the_same(known: Path) -> None:
    statement = "SELECT name, self_s, line, NULL AS gap, x'ff00' AS bytes FROM functions ORDER BY self_s DESC, name"
    wanted = rows(known, statement)
    (head, *found) = csv.reader(io.StringIO(ask(known, statement, "--csv").stdout))
    assert head == ["name", "self_s", "line", "gap", "bytes"]
    assert [[n, float(s), int(line), None if e == "" else e, b] for n, s, line, e, b in found] == wanted
    marked = ask(known, statement, "--markdown").stdout.splitlines()
    assert marked[:2] == ["| name | self_s | line | gap | bytes |", "|---|--:|--:|---|---|"]
    cells = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in marked[2:]]
    assert [[n, float(s), int(line)] for n, s, line, _, _ in cells] == [row[:3] for row in wanted]
    answer = json.loads(ask(known, statement, "--json").stdout)
    assert [c["type"] for c in answer["columns"]] == ["TEXT", "REAL", "INTEGER", None, None]
    assert rows(known, "SELECT 2.0, 2, 1e300 * 1e300, 'a' || char(0) || 'b'") == [[2.0, 2, None, "a\0b"]]
    assert "[2.0,2," in ask(known, "SELECT 2.0, 2, 1", "--json").stdout


def test_hostile_names_break_out_of_no_format(tmp_path: Path) -> None:
    path = tmp_path / "hostile.fathom"
    subprocess.run([BUILD / "tests" / "hostile_profile", path], check=True)
    statement = "SELECT name, file, module, full_name FROM functions UNION ALL SELECT stack, '', '', '' FROM stacks"
    names = [row[0] for row in rows(path, statement)]
    assert any("\x1b" in name for name in names) and any("|" in name for name in names)
    n_functions = rows(path, "SELECT count(*) FROM functions")[0][0]
    for options in (["--csv"], ["--markdown"], [], ["--width", "1000"]):
        out = ask(path, statement, "-n", "0", *options).stdout
        assert not [
            hex(ord(c)) for c in out if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or 0x2028 <= ord(c) < 0x202F
        ]
        if options:
            assert len(out.splitlines()) == len(names) + (1 if options == ["--csv"] else 2)
    found = list(csv.reader(io.StringIO(ask(path, statement, "-n", "0", "--csv").stdout)))
    assert {len(row) for row in found} == {4} and not [row for row in found if row[0][:1] in tuple("=+-@")]
    # In SQL they are what they are.
    exact = rows(path, "SELECT count(*) FROM functions a JOIN functions b ON a.name = b.name AND a.id = b.id")
    assert exact == [[n_functions]]
    subprocess.run([FATHOM, "export", "-f", "sqlite", "-o", tmp_path / "x.sqlite", path], check=True)
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        assert [row[0] for row in database.execute("SELECT name FROM functions")] == names[:n_functions]


def test_tables_are_listed_with_their_meaning(known: Path) -> None:
    listed = subprocess.run([FATHOM, "query", "--tables"], stdout=subprocess.PIPE, text=True, check=True).stdout
    tables = described()
    assert len({each["name"] for each in tables}) == len(tables) >= 20
    for each in tables:
        assert f"{each['name']}: {each['meaning']}\n" in listed
        for column in each["columns"]:
            assert re.search(rf"^  {column['name']} +{column['type']} +{re.escape(column['meaning'])}$", listed, re.M)
            assert ("NULL" in column["meaning"]) <= column["may_be_null"], (each["name"], column)
            assert not column["name"].endswith("_s") or column["type"] == "REAL"
    assert [row[0] for row in rows(known, "SELECT name FROM sqlite_schema")] == [each["name"] for each in tables]
    assert [[c["table_name"], c["name"]] for c in table(known, "columns")] == [
        [each["name"], column["name"]] for each in tables for column in each["columns"]
    ]


# ---- from Python ----


def test_the_types_in_python_are_those_of_the_program() -> None:
    spec = importlib.util.spec_from_file_location("gen_query_tables", ROOT / "scripts" / "gen_query_tables.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "python" / "fathom" / "_tables.py").read_text()
    assert written == module.source(described()), "scripts/gen_query_tables.py build/fathom > python/fathom/_tables.py"


@pytest.mark.skipif(PYTHON is None, reason="no Python to run")
def test_python_has_every_table_with_values_of_their_types(sampled: Path, traced: Path) -> None:
    types = {"INTEGER": int, "REAL": float, "TEXT": str}
    for path in (sampled, traced):
        capture = package.open(path)
        for each in described():
            found = getattr(capture, each["name"])
            assert (
                found.columns
                == tuple(c["name"] for c in each["columns"])
                == (found[0]._fields if found else found.columns)
            )
            for column, index in zip(each["columns"], range(100)):
                values = {type(row[index]) for row in found}
                assert values <= {types[column["type"]], *([type(None)] if column["may_be_null"] else [])}, (
                    each["name"],
                    column,
                )
    assert [f.name for f in capture.functions[:3]] == [
        row[0] for row in capture.query("SELECT name FROM functions LIMIT 3")
    ]
    assert len(capture.samples) == capture.meta[0].samples and capture.lines is capture.lines


def test_python_says_what_went_wrong(known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = package.open(known)
    with pytest.raises(package.QueryError, match=r"^no such column: x; ") as caught:
        capture.query("SELECT x FROM functions")
    assert "\n" not in str(caught.value)
    with pytest.raises(package.QueryError, match="longer than 0.2 s"):
        capture.query(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", timeout=0.2
        )
    with pytest.raises(FileNotFoundError, match="missing"):
        package.open(tmp_path / "missing")
    for name in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    for method, name in (("to_pandas", "pandas"), ("to_polars", "polars"), ("to_arrow", "pyarrow")):
        with pytest.raises(ImportError, match=rf"^{method}\(\) needs {name}: python -m pip install {name}$"):
            getattr(capture.lines, method)()


FRAMES = "SELECT name, self_s, line, nullif(line, 11) AS gap, line AS line, 1.5 AS real FROM functions ORDER BY id"


def test_pandas_gets_typed_columns(known: Path) -> None:
    pandas = pytest.importorskip("pandas")
    found = package.open(known).query(FRAMES)
    frame = found.to_pandas()
    assert list(frame.columns) == ["name", "self_s", "line", "gap", "line_2", "real"] and len(frame) == len(found)
    assert frame["self_s"].dtype == "float64" and frame["line"].dtype == "Int64"
    assert frame["self_s"].sum() == pytest.approx(10) and list(frame["name"]) == [row[0] for row in found]
    empty = package.open(known).blocks.to_pandas()
    assert isinstance(empty, pandas.DataFrame) and len(empty) == 0 and empty["size_bytes"].dtype == "Int64"


def test_polars_gets_typed_columns(known: Path) -> None:
    polars = pytest.importorskip("polars")
    found = package.open(known).query(FRAMES)
    frame = found.to_polars()
    assert frame.columns == ["name", "self_s", "line", "gap", "line_2", "real"] and frame.height == len(found)
    assert frame.schema["self_s"] == polars.Float64 and frame.schema["line"] == polars.Int64
    assert frame["self_s"].sum() == pytest.approx(10)
    assert package.open(known).blocks.to_polars().schema["size_bytes"] == polars.Int64


def test_arrow_gets_typed_columns(known: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    found = package.open(known).query(FRAMES)
    arrow = found.to_arrow()
    assert arrow.column_names == ["name", "self_s", "line", "gap", "line_2", "real"] and arrow.num_rows == len(found)
    assert arrow.schema.field("self_s").type == pyarrow.float64() and arrow.schema.field("line").type == pyarrow.int64()
    assert sum(arrow.column("self_s").to_pylist()) == pytest.approx(10)
    assert package.open(known).blocks.to_arrow().schema.field("size_bytes").type == pyarrow.int64()


# ---- the page ----


def examples() -> Iterator[str]:
    text = (ROOT / "docs" / "query.md").read_text()
    for block in re.findall(r"```sql\n(.*?)```", text, re.S):
        yield from (statement.strip() for statement in re.split(r";\s*$", block, flags=re.M) if statement.strip())


@pytest.mark.skipif(PYTHON is None, reason="no Python to run")
def test_the_statements_of_the_page_give_rows(sampled: Path, traced: Path, tmp_path: Path, build: Path) -> None:
    leak = leaking(tmp_path, build)
    statements = list(examples())
    assert len(statements) >= 10
    for statement in statements:
        found: Optional[str] = None
        for capture in (sampled, traced, leak):
            done = ask(capture, statement)
            found = found or next(iter(done.stdout.splitlines()[2:]), None)
        assert found, statement


def test_the_page_names_every_table() -> None:
    text = (ROOT / "docs" / "query.md").read_text()
    assert [each["name"] for each in described() if f"`{each['name']}`" not in text] == []
    assert os.path.exists(ROOT / "docs" / "decisions" / "0016-queries-are-sqlite.md")
