# SPDX-License-Identifier: Apache-2.0
"""The viewer's page in a real browser: every view, hostile data, and what a frame costs with a million nodes."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, List, Tuple

import pytest

IS_LONG = bool(os.environ.get("FATHOM_TEST_LONG"))
PICTURES = Path(__file__).parents[1] / "web" / "check_pictures.mjs"


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if not found:
        pytest.skip("node is not installed")
    version = subprocess.run([found, "--version"], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    if int(version.strip().lstrip("v").split(".")[0]) < 18:
        pytest.skip(f"node {version.strip()} is older than 18, which the page's tools need")
    return found


@pytest.fixture(scope="module")
def page(root: Path, node: str) -> Path:
    """web/dist/index.html, built from what is in web/ now."""
    web = root / "web"
    if not (web / "node_modules" / "vite").exists():
        pytest.skip("the page's tools are not installed (npm ci, in web/)")
    built = web / "dist" / "index.html"
    sources = [p for p in web.rglob("*") if p.is_file() and not {"node_modules", "dist", "test"} & set(p.parts)]
    if not built.exists() or built.stat().st_mtime < max(p.stat().st_mtime for p in sources):
        run([node, web / "node_modules" / "vite" / "bin" / "vite.js", "build"], cwd=web)
    return built


@pytest.fixture(scope="module")
def made(root: Path, node: str, page: Path, tmp_path_factory) -> Callable[[str], Path]:
    """made(kind) -> a page with a capture made by arithmetic inside, its report beside it as .json."""
    folder = tmp_path_factory.mktemp("pages")

    def make(kind: str) -> Path:
        out = folder / f"{kind}.html"
        if not out.exists():
            run([node, root / "web" / "test" / "run.mjs", "make", kind, page, out])
        return out

    return make


def run(command, **options) -> str:
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=180,
        **options,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout
    return done.stdout


def check(root: Path, node: str, *args) -> str:
    return run([node, root / "tests" / "web" / "check_viewer.mjs", *args])


def test_the_arithmetic_of_the_page(root, node, page):
    run([node, root / "web" / "test" / "run.mjs"])


def test_the_page_is_one_file_under_a_strict_policy(root, page):
    text = page.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy and policy.group(1).startswith("default-src 'none'; script-src 'sha256-"), "no policy"
    assert "unsafe" not in policy.group(1) and "http" not in policy.group(1)
    assert not re.search(r"<(script|link|img|iframe)[^>]*\s(src|href)=\"(?!data:,)", text), "the page loads something"
    assert text.count("<!--fathom-bundle-->") == 1
    sources = "".join(p.read_text() for p in (root / "web" / "src").rglob("*.ts*"))
    # A page that saves itself reads its own markup; none is ever made of text.
    assert not re.search(
        r"innerHTML|outerHTML\s*\+?=[^=]|insertAdjacentHTML|document\.write|\beval\(|new Function", sources
    )


@pytest.mark.parametrize("kind", ["shop"] + (["threads"] if IS_LONG else []))
def test_every_view_of_a_capture(root, node, made, kind):
    made_page = made(kind)
    check(root, node, "views", made_page, made_page.with_suffix(".json"), "--sizes")


def test_a_comparison(root, node, made):
    check(root, node, "diff", made("diff"))


def test_keys_links_and_search(root, node, made):
    check(root, node, "hands", made("shop"))


def test_the_run_above_every_view(root, node, made):
    check(root, node, "workbench", made("shop"))


def test_what_stands_out_leads_to_its_proof(root, node, made):
    check(root, node, "verdicts", made("verdicts"))


@pytest.fixture(scope="module")
def looks(root: Path, node: str, made) -> str:
    """What was said of pictures of every view: four widths, both themes (all of both with FATHOM_TEST_LONG)."""
    quick = [] if IS_LONG else ["--quick"]
    command = [node, PICTURES, root / "tests" / "web" / "approved", made("shop"), made("diff"), made("two"), *quick]
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=400
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert re.search(r"^\d+ pictures, \d+ texts;", done.stdout, re.M), done.stdout
    return done.stdout


def test_every_text_can_be_read_and_nothing_is_off_the_screen(looks):
    """Every text stands out by 4.5 to 1."""
    failed = [line for line in looks.splitlines() if line.startswith("failed:") and "approved" not in line]
    assert not failed, looks


def test_every_view_looks_as_approved(looks):
    skipped = re.search(r"^skipped: (.*)", looks, re.M)
    if skipped:
        pytest.skip(skipped.group(1))
    assert "approved" not in looks, looks


def check_figures(root: Path, node: str, *args) -> int:
    """How many figures of the page were compared with what the program says."""
    said = run([node, root / "tests" / "web" / "check_figures.mjs", *args])
    return int(re.search(r"(\d+) figures compared", said).group(1))


def tree_of(fathom: Path, profile: Path) -> Path:
    """The call tree as the terminal has it."""
    out = profile.with_suffix(".tree")
    out.write_text(run([fathom, "report", "--tree", "--width", "400", profile], env={**os.environ, "LC_ALL": "C"}))
    return out


@pytest.mark.parametrize("seed", [7] + ([11, 12, 13] if IS_LONG else []))
def test_every_figure_of_random_captures(root, node, page, fathom, build, tmp_path, seed):
    """Each number and percentage of every view is the report's, to half a unit of its last digit."""
    profile, report, out = (tmp_path / f"random.{kind}" for kind in ("fathom", "json", "html"))
    options = ["--seed", str(seed), "--threads", str(seed % 5 + 2), "--stacks", "300", "--memory", "2000"]
    run([build / "tests" / "gen_profile", profile, "20000", *options])
    report.write_bytes(subprocess.run([fathom, "report", "--json", profile], stdout=subprocess.PIPE, check=True).stdout)
    run([fathom, "view", "--html", out, profile])
    assert check_figures(root, node, out, report, tree_of(fathom, profile)) > 500


def test_every_figure_of_a_real_capture(root, node, page, fathom, capture, tmp_path):
    profile, report = capture
    out = tmp_path / "real.html"
    run([fathom, "view", "--html", out, profile])
    assert check_figures(root, node, out, report, tree_of(fathom, profile)) > 300


def test_hostile_data_runs_nothing_and_hangs_nothing(root, node, made):
    check(root, node, "hostile", made("hostile"))


def test_a_frame_costs_its_pixels(root, node, made):
    """Asserts on the CPU time of the page's main thread, which a busy machine does not change."""
    print(check(root, node, "scale", made("big" if IS_LONG else "medium")))


@pytest.fixture(scope="module")
def capture(fathom: Path, root: Path, tmp_path_factory) -> Tuple[Path, Path]:
    """A real capture of fifty threads, and its report."""
    listing = subprocess.run([str(fathom), "export", "--list"], stdout=subprocess.PIPE, universal_newlines=True).stdout
    if "\nhtml" not in listing:
        pytest.skip("this fathom has no page to put captures into")
    return recorded(fathom, tmp_path_factory.mktemp("real"), REAL)


def recorded(fathom: Path, folder: Path, program: str, *options: str) -> Tuple[Path, Path]:
    """The capture of a program that this Python runs, and its report."""
    profile, report, target = (folder / f"real.{kind}" for kind in ("fathom", "json", "py"))
    target.write_text(program)
    run([fathom, "record", *options, "-o", profile, "--", sys.executable, target])
    with report.open("w") as out:
        subprocess.run([str(fathom), "report", "--json", str(profile)], stdout=out, check=True)
    return profile, report


REAL = """\
import json, re, threading, time

def crunch(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total

def text(n):
    return re.findall(r"[0-9]+", " ".join(json.dumps({"a": i, "b": [i, i]}) for i in range(n)))

def worker():
    for _ in range(2):
        crunch(40000)
        time.sleep(0.05)

threads = [threading.Thread(target=worker, name=f"worker-{i}") for i in range(49)]
for t in threads:
    t.start()
text(60000)
for t in threads:
    t.join()
"""


def test_every_view_of_a_real_capture_in_one_file(root, node, page, fathom, capture, tmp_path):
    profile, report = capture
    out = tmp_path / "real.html"
    run([fathom, "view", "--html", out, profile])
    check(root, node, "views", out, report)


def test_memory_in_the_page(root, node, page, fathom, build, tmp_path):
    """Blocks that are held, leaked and copied: each has its metric, and the page's sums are the report's."""
    script = ["run 30", "meta memory sampled", "sample 0 21 1"]
    for i in range(280):
        script += [f"alloc 0 21 {i / 10} {i + 1} 4000 135000 0", f"alloc 1 22 {i / 10} {i + 1001} 90000 200000 0"]
        script.append(f"free 0 {i / 10 + 0.02} {i + 1001}")
    script.append(f"alloc 0 23 6 0 {1 << 20} {8 << 20} 5")
    profile, report, out = (tmp_path / f"memory.{kind}" for kind in ("fathom", "json", "html"))
    subprocess.run([build / "tests" / "memory_profile", profile], input="\n".join(script).encode() + b"\n", check=True)
    said = subprocess.run([fathom, "report", "--json", profile], stdout=subprocess.PIPE, check=True).stdout
    # Until 9.95 s: a hundred blocks of each kind; of the second at most one at a time.
    in_range = {"from": 0, "to": 9.95, "alloc": 100 * 335000, "peak": 100 * 135000 + 200000, "lines": 2}
    report.write_text(json.dumps(dict(json.loads(said), range=in_range)))
    run([fathom, "view", "--html", out, profile])
    check(root, node, "memory", out, report)
    with Served(fathom, profile) as url:
        check(root, node, "memory", url, report)


def test_a_trace_larger_than_the_page(root, node, page, fathom, build, tmp_path):
    """Half a million calls: drawn together in the whole picture, one by one close up."""
    profile, out = tmp_path / "trace.fathom", tmp_path / "trace.html"
    run([build / "tests" / "gen_trace", profile, "500000"])
    run([fathom, "view", "--html", out, profile])
    assert out.stat().st_size < 5e6
    check(root, node, "trace", out)
    with Served(fathom, profile) as url:
        check(root, node, "trace", url)


def test_a_copied_link_opens_in_the_same_browser(root, node, page, fathom, capture):
    with Served(fathom, capture[0]) as url:
        check(root, node, "tabs", url)


def test_every_view_of_a_real_capture_from_the_server(root, node, page, fathom, capture):
    profile, report = capture
    with Served(fathom, profile) as url:
        check(root, node, "views", url, report)


NUMPY = """\
import numpy as np

kept = []

def remember(n):
    kept.append([float(i) for i in range(n)])

def multiply(n):
    a = np.random.rand(n, n)
    for _ in range(6):
        a = a @ a.copy()
        a /= a.max()
    return a

for _ in range(8):
    multiply(400)
    remember(60000)
"""


def test_time_and_memory_of_a_numpy_program(root, node, page, fathom, tmp_path):
    if subprocess.run([sys.executable, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("numpy is not installed in the Python that runs the tests")
    profile, report = recorded(fathom, tmp_path, NUMPY, "--memory")
    if json.loads(report.read_text())["memory"]["mode"] == "off":
        pytest.skip("this build's agent does not watch allocations")
    out = tmp_path / "numpy.html"
    run([fathom, "view", "--html", out, profile])
    check(root, node, "memory", out, report)
    with Served(fathom, profile) as url:
        check(root, node, "views", url, report)


TRACED = """\
import time
import fathom

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

for step in range(20):
    with fathom.zone("step"):
        fib(12)
    fathom.mark(f"done {step}")
    fathom.counter("steps", step)
    end = time.perf_counter() + 0.01
    while time.perf_counter() < end:
        pass
"""


def test_every_view_of_a_traced_program(root, node, page, fathom, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(root / "python"))
    profile, report = recorded(fathom, tmp_path, TRACED, "--trace")
    out = tmp_path / "traced.html"
    run([fathom, "view", "--html", out, profile])
    check(root, node, "views", out, report)
    assert check_figures(root, node, out, report) > 100
    with Served(fathom, profile) as url:
        check(root, node, "views", url, report)


def test_two_real_captures_compared(root, node, page, fathom, capture, tmp_path):
    profile, report = capture
    slower = tmp_path / "slower.fathom"
    target = tmp_path / "real.py"
    target.write_text(REAL.replace("40000", "120000"))
    run([fathom, "record", "-o", slower, "--", sys.executable, target])
    out = tmp_path / "diff.html"
    run([fathom, "view", "--html", out, profile, slower])
    check(root, node, "diff", out)
    check(root, node, "difftime", out)
    said = subprocess.run([fathom, "diff", "--json", profile, slower], stdout=subprocess.PIPE, check=True).stdout
    changes = tmp_path / "diff.json"
    changes.write_bytes(said)
    trees = [tree_of(fathom, p) for p in (profile, slower)]
    assert check_figures(root, node, "--diff", out, changes, *trees) > 50
    with Served(fathom, profile, slower) as url:
        check(root, node, "diff", url)
    assert json.loads(report.read_text())["cpu_s"] > 0


ZONES = """\
import time
import fathom

def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

for step in range(40):
    with fathom.zone("parse"):
        spin(PARSE)
    if step % 4 == 0:
        with fathom.zone("same"):
            spin(0.004)
for _ in range(7):
    with fathom.zone("ONLY_HERE"):
        spin(0.001)
"""


def zones_in(report: Path) -> dict:
    return {f["name"]: f for f in json.loads(report.read_text())["calls"]["functions"] if f["kind"] == "zone"}


def test_zones_of_two_programs(root, node, page, fathom, tmp_path, monkeypatch):
    """A zone that takes 2 ms in the one and 3 ms in the other: each figure is that of the capture's own report."""
    monkeypatch.setenv("PYTHONPATH", str(root / "python"))
    made = []
    for name, parse in [("gone", "0.002"), ("fresh", "0.003")]:
        folder = tmp_path / name
        folder.mkdir()
        program = ZONES.replace("PARSE", parse).replace("ONLY_HERE", name)
        made.append(recorded(fathom, folder, program, "--trace"))
    (base, base_report), (new, new_report) = made
    before, after = zones_in(base_report), zones_in(new_report)
    assert {name: z["calls"] for name, z in before.items()} == {"parse": 40, "same": 10, "gone": 7}
    assert {name: z["calls"] for name, z in after.items()} == {"parse": 40, "same": 10, "fresh": 7}
    # Of 40 one had its CPU to the end.
    assert 0.002 <= before["parse"]["min_s"] < 0.0025 and 0.003 <= after["parse"]["min_s"] < 0.0035
    out = tmp_path / "zones.html"
    run([fathom, "view", "--html", out, base, new])
    assert check_figures(root, node, "--zones", out, base_report, new_report) > 80


def events(zones: List[Tuple[str, int, int]]) -> str:
    """Trace events, one after the other: (name, how many, microseconds)."""
    slices, at = [], 1000
    for name, n, length in zones:
        for _ in range(n):
            slices.append({"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": at, "dur": length})
            at += length + 10
    return json.dumps(slices)


def test_zones_of_two_captures_whose_lengths_are_known(root, node, page, fathom, tmp_path):
    """To the microsecond: percentiles and their changes are what the arithmetic says, in a file and from the server."""
    known = {
        "base": [("parse", 90, 2000), ("parse", 10, 8000), ("same", 50, 100), ("gone", 5, 700)],
        "new": [("parse", 40, 3000), ("parse", 10, 8000), ("same", 50, 100), ("fresh", 1, 1)],
    }
    captures, reports = [], []
    for name, zones in known.items():
        (tmp_path / f"{name}.json").write_text(events(zones))
        run([fathom, "import", "-o", tmp_path / f"{name}.fathom", tmp_path / f"{name}.json"])
        captures.append(tmp_path / f"{name}.fathom")
        reports.append(tmp_path / f"{name}.report")
        said = subprocess.run([fathom, "report", "--json", captures[-1]], stdout=subprocess.PIPE, check=True).stdout
        reports[-1].write_bytes(said)
    before, after = map(zones_in, reports)
    assert {n: z["calls"] for n, z in before.items()} == {"parse": 100, "same": 50, "gone": 5}
    assert {n: z["calls"] for n, z in after.items()} == {"parse": 50, "same": 50, "fresh": 1}
    assert [z["parse"]["total_s"] for z in (before, after)] == pytest.approx([0.26, 0.2])
    assert [z["parse"]["p50_s"] for z in (before, after)] == pytest.approx([0.002, 0.003], rel=0.07)
    assert [z["parse"]["p99_s"] for z in (before, after)] == pytest.approx([0.008, 0.008], rel=0.07)
    out = tmp_path / "zones.html"
    run([fathom, "view", "--html", out, *captures])
    assert check_figures(root, node, "--zones", out, *reports) > 80
    with Served(fathom, *captures) as url:
        assert check_figures(root, node, "--zones", url, *reports) > 80


@pytest.mark.statistical  # a collector that has no CPU for seconds writes nothing, and its capture looks like one that was cut off
def test_a_page_of_a_growing_capture_grows(root, node, page, fathom, capture, tmp_path):
    profile = tmp_path / "live.fathom"
    target = tmp_path / "long.py"
    target.write_text(
        "import time\nend = time.time() + 600\nwhile time.time() < end:\n    sum(range(100000))\n    time.sleep(0.01)\n"
    )
    recording = subprocess.Popen(
        [str(fathom), "record", "-o", str(profile), "--", shutil.which("python3"), str(target)]
    )
    try:
        for _ in range(100):
            if profile.exists() and profile.stat().st_size > 4096:
                break
            time.sleep(0.1)
        with Served(fathom, profile) as url:
            check(root, node, "live", url)
    finally:
        recording.terminate()
        recording.wait(timeout=20)


def test_the_live_view_of_a_program_that_listens(root, node, page, capture, tmp_path):
    from test_live import Watched

    watched = Watched(tmp_path, 120)
    assert watched.port, watched.stderr.read_text()
    try:
        check(root, node, "watch", f"http://127.0.0.1:{watched.port}/#token={watched.token}&view=live")
    finally:
        watched.end()


class Served:
    """The address that `fathom view` prints, while it runs."""

    def __init__(self, fathom: Path, *profiles: Path) -> None:
        self.command: List[str] = [str(fathom), "view", "--no-open", *map(str, profiles)]

    def __enter__(self) -> str:
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True
        )
        assert self.process.stdout
        lines: Iterator[str] = iter(self.process.stdout.readline, "")
        for line in lines:
            match = re.search(r"http://\S+", line)
            if match:
                return match.group(0)
        raise AssertionError("fathom view printed no address")

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)
        if self.process.stdout:
            self.process.stdout.close()
