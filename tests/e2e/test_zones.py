# SPDX-License-Identifier: Apache-2.0
"""Zones of C and C++ code: counted exactly, nested rightly, on every thread, however the agent comes into the process."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from capture import BUILD, ROOT, TARGETS

INCLUDE = ROOT / "include"
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}, "PYTHONPATH": str(ROOT / "python")}


def compile_target(source: str, output: Path, options: List[str]) -> Path:
    compiler = shutil.which("g++" if source.endswith(".cpp") else "gcc")
    if compiler is None:
        pytest.skip("no compiler for %s here" % source)
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-I", str(INCLUDE), *options, str(TARGETS / source)]
    done = subprocess.run([*command, "-o", str(output), "-lpthread"], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return output


def library(folder: Path, source: str, *options: str) -> str:
    return str(compile_target(source, folder / (source + ".so"), ["-O2", "-shared", "-fPIC", *options]))


def traced(tmp_path: Path, program: str, *options: str) -> Path:
    (tmp_path / "program.py").write_text(program)
    output = tmp_path / "t.fathom"
    command = [sys.executable, "-m", "fathom", "-o", str(output), "--quiet", *options, str(tmp_path / "program.py")]
    subprocess.run(command, env=ENV, check=True, timeout=60)
    return output


def zones_of(profile: Path) -> Dict[str, int]:
    text = subprocess.run(
        [BUILD / "fathom", "export", "-f", "csv", profile], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    return {row["name"]: int(row["calls"]) for row in csv.DictReader(text.splitlines()) if row["kind"] == "zone"}


def timeline_of(profile: Path) -> List[Dict[str, Any]]:
    out = profile.with_suffix(".json")
    subprocess.run([BUILD / "fathom", "export", "-f", "chrometrace", "-o", out, profile], check=True)
    loaded = json.loads(out.read_text())
    events: List[Dict[str, Any]] = loaded["traceEvents"] if isinstance(loaded, dict) else loaded
    return events


@pytest.mark.parametrize(
    "source, options",
    [
        ("zones.c", ["-std=c99", "-Wpedantic"]),
        ("zones.c", ["-std=c99", "-DFATHOM_DISABLE"]),
        ("tracy_c.c", ["-std=c99", "-Wpedantic"]),
        ("tracy_c.c", ["-std=c99", "-DFATHOM_DISABLE"]),
        ("zones.cpp", ["-std=c++11"]),
        ("zones.cpp", ["-std=c++17", "-DFATHOM_DISABLE"]),
        ("zones.cpp", ["-x", "c++", "-std=c++20", "-Wshadow"]),
    ],
    ids=str,
)
def test_headers_compile_without_a_warning(tmp_path: Path, source: str, options: List[str]) -> None:
    made = library(tmp_path, source, *options)
    names = subprocess.run(["nm", "-D", made], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert ("fathom_api_slot_v1" in names) == ("-DFATHOM_DISABLE" not in options)


def test_zones_of_c_are_counted_and_nested(tmp_path: Path) -> None:
    made = library(tmp_path, "zones.c", "-fvisibility=default")
    profile = traced(
        tmp_path,
        "import ctypes\n"
        "z = ctypes.CDLL(%r)\n"
        "def caller():\n    z.zones_work(50)\n"
        "caller()\nz.zones_texts(30)\nz.zones_threads(4, 1000)\n" % made,
    )
    truth = {"zones_work": 5, "step": 4050, "leaf": 4050, "text 0": 10, "text 1": 10, "text 2": 10}
    assert zones_of(profile) == truth
    events = timeline_of(profile)
    check_nesting(events)
    instants = [event["name"] for event in events if event["ph"] in ("i", "I")]
    assert instants.count("even") == 25 + 4 * 500 and instants.count("text 2") == 10
    counters = [event for event in events if event["ph"] == "C"]
    assert len([event for event in counters if event["name"] == "i"]) == 4050


def check_nesting(events: List[Dict[str, Any]]) -> None:
    """Every zone lies in the one that its source says, on its thread; marks and Python functions, too."""
    parents = {"leaf": "step", "step": "zones_work", "even": "leaf"}
    stacks: Dict[Any, List[str]] = {}
    n_checked = 0
    for event in events:
        if event.get("tid", 0) >= 1 << 30:
            continue  # the samples' own rows
        stack = stacks.setdefault(event.get("tid"), [])
        if event["ph"] in "Bi" and event["name"] in parents:
            assert stack[-1] == parents[event["name"]]
            n_checked += 1
        if event["ph"] == "B":
            stack.append(event["name"])
            if event["name"] == "zones_work" and len(stack) > 1:
                assert stack[-2] == "caller"
        elif event["ph"] == "E":
            stack.pop()
    assert n_checked == 4050 + 4050 + 25 + 4 * 500


def test_code_marked_for_tracy(tmp_path: Path) -> None:
    made = library(tmp_path, "zones.cpp"), library(tmp_path, "tracy_c.c")
    profile = traced(
        tmp_path,
        "import ctypes\n"
        "cpp, c = ctypes.CDLL(%r), ctypes.CDLL(%r)\n"
        "cpp.tracy_work(10); cpp.tracy_thread(5); c.tracy_c_work(4)\n" % made,
        "-p",  # zones are recorded where calls are not
    )
    truth = {"outer": 2, "round": 15, "twice": 30, "throws": 15, "tracy_c_work": 1, "c round": 4}
    assert zones_of(profile) == truth
    instants = [event["name"] for event in timeline_of(profile) if event["ph"] in ("i", "I")]
    counts = {name: instants.count(name) for name in ("frame", "caught", "finished", "c done")}
    assert counts == {"frame": 19, "caught": 15, "finished": 2, "c done": 1}


def line_with(source: str, text: str) -> int:
    lines = [i for i, line in enumerate((TARGETS / source).read_text().splitlines(), 1) if text in line]
    assert len(lines) == 1, text
    return lines[0]


def test_zones_say_where_they_begin(tmp_path: Path) -> None:
    """File and line of every macro that begins one, in each output; texts made at run time have none."""
    made = library(tmp_path, "zones.c"), library(tmp_path, "zones.cpp"), library(tmp_path, "tracy_c.c")
    profile = traced(
        tmp_path,
        "import ctypes\nc, cpp, tracy = map(ctypes.CDLL, %r)\n"
        "c.zones_work(3); c.zones_texts(3); cpp.tracy_work(2); tracy.tracy_c_work(2)\n" % (made,),
        "-p",
    )
    begins = {
        "zones_work": ("zones.c", "FATHOM_FUNCTION_ZONE"),
        "step": ("zones.c", 'fathom_begin("step")'),
        "leaf": ("zones.c", 'FATHOM_ZONE("leaf")'),
        "outer": ("zones.cpp", 'FATHOM_ZONE("outer")'),
        "twice": ("zones.cpp", 'ZoneScopedN("twice")'),  # of two instances: one zone
        "throws": ("zones.cpp", "ZoneScoped;"),
        "c round": ("tracy_c.c", 'TracyCZoneN(round, "c round", 1)'),
    }
    truth = {name: (str(TARGETS / source), line_with(source, text)) for name, (source, text) in begins.items()}
    truth["text 0"] = ("", 0)
    report = subprocess.run([BUILD / "fathom", "report", "--json", profile], stdout=subprocess.PIPE, check=True).stdout
    functions = json.loads(report)["calls"]["functions"]
    of_json = {f["name"]: (f["file"], f["line"]) for f in functions if f["kind"] == "zone"}
    assert {name: of_json[name] for name in truth} == truth
    of_timeline = {event["name"]: event.get("loc") for event in timeline_of(profile) if event["ph"] == "B"}
    table = [BUILD / "fathom", "report", "--top", "50", "--width", "200", profile]
    text = subprocess.run(table, stdout=subprocess.PIPE, check=True, text=True).stdout
    for name, (file, line) in truth.items():
        assert "%s (zone%s)" % (name, ", %s:%d" % (Path(file).name, line) if file else "") in text
        assert of_timeline[name] == ("%s:%d" % (file, line) if file else None)


LATE = """
import ctypes, sys, time
z = ctypes.CDLL(%r)
z.zones_work(5)  # looks for the agent, which is not there
z.zones_endless()  # never waits for the GIL, and goes on through starts and ends
import fathom
for i in range(6):
    profiler = fathom.Profiler("late%%d.fathom" %% i)
    with profiler:
        z.zones_work(i + 1)
        before = z.zones_count()
        while z.zones_count() - before < 500: time.sleep(0.001)
        time.sleep(0.2 if i == 5 else 0)  # names of threads are looked at now and then
    z.zones_work(100) if i == 0 else None
    profiler.close()
    z.zones_work(7)
z.zones_endless()
"""


def test_captures_that_begin_later_see_zones(tmp_path: Path) -> None:
    made = library(tmp_path, "zones.c")
    (tmp_path / "program.py").write_text(LATE % made)
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=ENV, check=True, timeout=60)
    for i in range(6):
        zones = zones_of(tmp_path / ("late%d.fathom" % i))
        n = i + 1 + (100 if i == 0 else 0)  # a zone needs a capture, not a trace of calls
        assert zones["step"] == n, "nothing from between the captures"
        assert zones["leaf"] >= n + 490, "and those of the endless thread"
    events = timeline_of(tmp_path / "late5.fathom")
    threads = [event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"]
    assert "zone-maker" in threads, threads


def test_a_program_of_c_alone(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(
        '#include "%s"\nint main(void) { zones_work(20); zones_threads(2, 30); return 0; }\n' % (TARGETS / "zones.c")
    )
    program = compile_target(str(tmp_path / "main.c"), tmp_path / "main", ["-O1"])
    subprocess.run([program], check=True)
    subprocess.run([BUILD / "fathom", "record", "-o", tmp_path / "t.fathom", "--", program], check=True)
    assert zones_of(tmp_path / "t.fathom") == {"zones_work": 3, "step": 80, "leaf": 80}


def test_a_zone_is_no_place_to_be_cancelled_at(tmp_path: Path) -> None:
    """A thread that somebody has cancelled leaves at its next call that says so; its first zone, which finds room for it, is none."""
    (tmp_path / "main.c").write_text(
        """
        #include <fathom.h>
        #include <pthread.h>
        #include <stdio.h>
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static volatile int is_cancelled;
        static void *work(void *arg)
        {
            pthread_mutex_lock(&lock);
            while (!is_cancelled)
                ;
            { FATHOM_ZONE("held"); }
            pthread_mutex_unlock(&lock);
            pthread_testcancel();
            return arg;
        }
        int main(void)
        {
            pthread_t thread;
            void *how;
            pthread_create(&thread, NULL, work, NULL);
            pthread_cancel(thread);
            is_cancelled = 1;
            pthread_join(thread, &how);
            printf("%s, %s\\n", how == PTHREAD_CANCELED ? "cancelled" : "not", pthread_mutex_trylock(&lock) ? "held" : "free");
            return 0;
        }
        """
    )
    program = compile_target(str(tmp_path / "main.c"), tmp_path / "main", ["-O1", "-pthread"])
    for command in ([], [BUILD / "fathom", "record", "-o", tmp_path / "t.fathom", "--"]):
        done = subprocess.run([*command, program], stdout=subprocess.PIPE, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "cancelled, free\n")
    assert zones_of(tmp_path / "t.fathom") == {"held": 1}


def test_where_the_headers_are() -> None:
    code = "import fathom; print(fathom.include_path())"
    path = subprocess.run([sys.executable, "-c", code], env=ENV, stdout=subprocess.PIPE, text=True).stdout.strip()
    assert Path(path, "fathom.h").is_file() and Path(path, "TracyCompat.h").is_file()
