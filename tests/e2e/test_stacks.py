# SPDX-License-Identifier: Apache-2.0
"""Native stacks are whole, and merged with Python's in the order in which the calls were made."""

import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, List, Tuple

import pytest
from capture import FRAME_ERROR, FRAME_NATIVE, Capture, Python, find_pythons, record
from native import LIBRARIES, TARGETS, compile_libraries, is_error, judge, own_part, plain_name
from runs import python_with

SECONDS = 0.1  # of CPU, for each library: some 500 samples
WHOLE_SHARE = 0.995
OPTIONS = ["--rate", "5k", "--max-overhead", "0"]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: Any) -> Tuple[List[Path], List[str]]:
    return compile_libraries(tmp_path_factory.mktemp("native"), list(LIBRARIES))


def check_outermost(capture: Capture) -> None:
    """A stack without a reason reaches the start of its thread: its outermost frame is native, as only an end of unwinding is.

    A fiber ends where it began; the Python frames that were there before it are outside of it.
    """
    frames, stacks = capture.frames, capture.stacks
    has_error, outermost = [False], [-1]
    for parent, frame in stacks[1:]:
        has_error.append(has_error[parent] or frames[frame].kind == FRAME_ERROR)
        outermost.append(frame if parent == 0 else outermost[parent])
    bad = [s for s in capture.samples if not has_error[s.stack] and frames[outermost[s.stack]].kind != FRAME_NATIVE]
    n_fiber = sum(
        n for labels, n in capture.collapsed() if any("context" in x or "c_fiber" in x or "(libc" in x for x in labels)
    )
    assert len(bad) <= n_fiber, f"{len(bad)} of {len(capture.samples)} samples begin with a Python frame"


def check(capture: Capture, expected: List[str], record_property: Any) -> None:
    check_outermost(capture)
    found = judge(capture)
    report = []
    for name in expected:
        assert name in found, f"no sample in {name}"
        v = found[name]
        report.append(f"{name}: {v.n} samples, {v.n_broken} not whole {dict(v.reasons) or ''}")
    record_property("stacks", report)
    print("\n".join(report))
    for name in expected:
        assert not found[name].wrong, f"{name}: " + "\n".join(
            f"{n} x {what}" for what, n in found[name].wrong.most_common(5)
        )
    for language in sorted({name.partition("_")[0] for name in expected}):
        group = [found[name] for name in expected if name.partition("_")[0] == language]
        n, n_broken = sum(v.n for v in group), sum(v.n_broken for v in group)
        assert n > 100, f"{language}: only {n} samples"
        assert n_broken <= (1 - WHOLE_SHARE) * n, f"{language}: {n_broken} of {n} not whole\n" + "\n".join(report)


@pytest.mark.statistical  # there is a sample in each of 0.1 s
def test_stacks_through_native_code_are_whole(
    python: Python, libraries: Any, tmp_path: Path, record_property: Any
) -> None:
    paths, missing = libraries
    capture = record(tmp_path / "p.fathom", TARGETS / "chain.py", [SECONDS, *paths], OPTIONS, python)
    check(capture, [path.stem for path in paths], record_property)
    if missing:
        pytest.skip("all right, but without " + "; ".join(missing))


# glibc before 2.35 does not tell which library a pc is in; sigsafe/unwind/loaded.c does. With this, it does so here, too.
@pytest.fixture
def older_libc(monkeypatch: pytest.MonkeyPatch) -> Python:
    monkeypatch.setenv("FATHOM_LOADER_LIST", "1")
    return find_pythons()[-1]


@pytest.mark.statistical
def test_stacks_through_native_code_are_whole_with_an_older_libc(
    older_libc: Python, libraries: Any, tmp_path: Path, record_property: Any
) -> None:
    paths, _ = libraries
    capture = record(tmp_path / "p.fathom", TARGETS / "chain.py", [SECONDS, *paths], OPTIONS, older_libc)
    check(capture, [path.stem for path in paths], record_property)


RELOADED = """
volatile unsigned long sink;
__attribute__((noinline, noipa)) void NAME_work(long n)
{
	for (long i = 0; i < n; i++)
		sink += (unsigned long)i * FACTOR;
}
__attribute__((noinline)) void NAME_outer(long n)
{
	NAME_work(n);
	__asm__ volatile("");
}
"""


@pytest.mark.statistical
def test_libraries_that_take_turns_at_one_address(python: Python, tmp_path: Path) -> None:
    check_turns(python, tmp_path)


@pytest.mark.statistical
def test_libraries_that_take_turns_with_an_older_libc(older_libc: Python, tmp_path: Path) -> None:
    check_turns(older_libc, tmp_path)


def check_turns(python: Python, tmp_path: Path) -> None:
    paths = []
    for factor, name in enumerate(("alpha", "bravo", "delta"), 3):
        source = tmp_path / (name + ".c")
        source.write_text(RELOADED.replace("NAME", name).replace("FACTOR", str(factor)))
        paths.append(tmp_path / (name + ".so"))
        # Different ways to unwind: rows that outlive their library lead astray.
        options = [["-O2"], ["-O0"], ["-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]][factor - 3]
        subprocess.run(["cc", "-shared", "-fPIC", *options, str(source), "-o", str(paths[-1])], check=True)
    capture = record(tmp_path / "p.fathom", TARGETS / "reload.py", [1.0, *paths], OPTIONS, python)
    counts = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", capture.run.stdout)}
    assert counts["loaded"] > 100 and counts["shared"] > 1, capture.run.stdout
    n_inside, n_broken, wrong = 0, 0, Counter()  # type: ignore[var-annotated]
    for labels, n in capture.collapsed():
        names = [plain_name(label) for label in labels]
        owner = [name[3:] for name in names if name in ("py_alpha", "py_bravo", "py_delta")]
        native = [name for name in names if re.fullmatch(r"(alpha|bravo|delta)_(outer|work)", name)]
        if not owner:
            continue
        n_inside += n
        if any(is_error(label) for label in labels):
            n_broken += n
        elif native not in ([], [owner[0] + "_outer"], [owner[0] + "_outer", owner[0] + "_work"]):
            wrong[";".join(labels)] += n
    assert n_inside > 500
    assert not wrong, wrong.most_common(5)
    # One library has no tables of its own: until its rows are published, at each load anew, it is walked by its code.
    print(f"{n_inside} samples inside, {n_broken} not whole, {counts}")
    assert n_broken <= 0.02 * n_inside


def busy_rate(capture: Capture) -> float:
    """Samples per CPU second of the two threads that work."""
    busy = sorted(capture.report["threads"], key=lambda thread: -float(thread["cpu_s"]))[:2]
    return float(sum(t["samples"] for t in busy) / sum(t["cpu_s"] for t in busy))


@pytest.mark.pythons(15)  # the ticker asks the kernel, not Python
@pytest.mark.statistical
def test_only_running_threads_get_signals(python: Python, tmp_path: Path) -> None:
    options = ["--rate", "1000", "--max-overhead", "0", "--engine", "ticker"]
    capture = record(tmp_path / "p.fathom", TARGETS / "idle_threads.py", [1.0, 158], options, python)
    found: "Counter[str]" = Counter()
    for labels, n in capture.collapsed():
        found.update({name: n for name in set(map(plain_name, labels)) & {"busy_one", "busy_two", "idle"}})
    assert min(found["busy_one"], found["busy_two"]) > 0.1 * sum(found.values()), found
    # A thread that starts or ends runs for a moment; one that waits is not sampled.
    assert found["idle"] < 158
    # One running thread at a time, by the GIL, and now and then a second one about to wait; all of them would be 160.
    meta = dict(line.split("|")[1:3] for line in capture.raw["meta"])
    assert int(meta["n_signals"]) < 3 * 1000 * capture.report["wall_s"], meta


@pytest.mark.pythons(15)
@pytest.mark.statistical
def test_waiting_threads_do_not_cost_others_their_samples(python: Python, tmp_path: Path) -> None:
    """Even while these hand each other the GIL. Compared with the same program without them at the same time: what else the machine does
    costs samples in both."""
    options = ["--rate", "1000", "--max-overhead", "0", "--engine", "ticker"]

    def capture(n_idle: int) -> Capture:
        return record(tmp_path / f"{n_idle}.fathom", TARGETS / "idle_threads.py", [1.5, n_idle], options, python)

    with ThreadPoolExecutor() as pool:
        crowded, alone = pool.map(busy_rate, pool.map(capture, (158, 0)))
    # More than was asked for is nothing to hold on to.
    assert crowded > 0.7 * min(alone, 1000), "samples per CPU second with 158 idle threads, and without"


def check_uses(capture: Capture, record_property: Any) -> "Counter[str]":
    check_outermost(capture)
    samples: "Counter[str]" = Counter()
    reasons: "Counter[str]" = Counter()
    for labels, n in capture.collapsed():
        use = ([name for name in map(plain_name, labels) if name.startswith("use_")] or ["start"])[0]
        samples[use] += n
        labels = own_part(labels)
        at = [i for i, label in enumerate(labels) if is_error(label)]
        if at:
            reasons[f"{use}: {labels[at[0]]} below {labels[at[0] + 1] if at[0] + 1 < len(labels) else 'nothing'}"] += n
    record_property("samples", dict(samples))
    record_property("reasons", dict(reasons))
    print(dict(samples), dict(reasons), capture.run.stdout)
    assert sum(reasons.values()) <= (1 - WHOLE_SHARE) * sum(samples.values()), reasons.most_common(10)
    return samples


def test_native_parts_of_the_standard_library(python: Python, tmp_path: Path, record_property: Any) -> None:
    check_uses(record(tmp_path / "p.fathom", TARGETS / "stdlib_work.py", [0.25], OPTIONS, python), record_property)


@pytest.mark.statistical
def test_numpy_with_its_assembly_kernels_and_threads(tmp_path: Path, record_property: Any) -> None:
    """OpenBLAS's kernels have no unwind information at all."""
    program = [TARGETS / "stdlib_work.py", 1.0, "use_numpy"]
    capture = record(tmp_path / "p.fathom", python_with("numpy"), program, OPTIONS)
    samples = check_uses(capture, record_property)
    assert samples["use_numpy"] > 500


def test_before_the_program_begins(fathom: Path, tmp_path: Path) -> None:
    """What libraries do when they are loaded is called by the loader, whose entry has no unwind information: nobody called that."""
    source, library = tmp_path / "early.c", tmp_path / "early.so"
    source.write_text(
        "#include <time.h>\n"
        "static volatile unsigned n;\n"
        "__attribute__((noinline)) static void spin(void) { for (unsigned i = 0; i < 100000; i++) n += i; }\n"
        "__attribute__((noinline)) void early_work(void) { while (clock() < CLOCKS_PER_SEC * 6 / 10) spin(); n++; }\n"
        "__attribute__((constructor)) static void begin(void) { early_work(); n++; }\n"
    )
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    out = tmp_path / "p.fathom"
    command = ["env", f"LD_PRELOAD={library}", "true"]
    done = subprocess.run([fathom, "record", *OPTIONS, "-o", out, "--", *command], check=True)
    capture = Capture(out, done)
    early = [(labels, n) for labels, n in capture.collapsed() if any("early_work" in x for x in labels)]
    assert sum(n for _, n in early) > 100
    assert not any(is_error(x) for labels, _ in early for x in labels), early[:3]
    assert capture.report["failed_unwinds"] == 0
