"""Reads from each tool's own output how it split the time over the functions or lines of a truth program.

Every reader returns a Split: shares of any unit by label, and the number of samples behind them where there are such.
"""

import json
import os
import pstats
import re

from . import prepare, tools


class Split:
    def __init__(self, weights, n_samples=None, misplaced=None):
        self.weights = weights
        self.n_samples = n_samples
        self.misplaced = (
            misplaced  # share of time put on the wrong side of Python | native, where the tool separates them
        )


class Labels:
    """What to look for: names of functions, or lines of one file."""

    def __init__(self, truth, script):
        self.by_line = truth["kind"] == "lines"
        self.names = set(truth["ns"])
        self.also = truth.get("also", {})
        self.file = os.path.basename(script)

    def of_frame(self, name, file, line):
        """The label that a frame stands for, or None."""
        if os.path.basename(file) != self.file:
            return None
        key = str(line) if self.by_line else name
        return key if key in self.names else None

    def of_stack(self, frames):
        """The label of the innermost frame that has one. frames: (name, file, line), outermost first."""
        for frame in reversed(frames):
            label = self.of_frame(*frame)
            if label:
                return label
        return None


def from_stacks(labels, stacks):
    """stacks: (frames, weight) one by one, weight in any unit."""
    weights, n = dict.fromkeys(labels.names, 0.0), 0
    for frames, weight, count in stacks:
        label = labels.of_stack(frames)
        if label:
            weights[label] += weight
            n += count
    return Split(weights, n)


def read_fathom(job, labels):
    report = tools.fathom_report(job)
    if "error" in report:
        raise ValueError(report["error"])
    weights = dict.fromkeys(labels.names, 0.0)
    right = wrong = 0.0
    rows = report["lines"] if labels.by_line else report["functions"]
    for row in rows:
        if row.get("kind", "python") != "python":
            continue
        label = labels.of_frame(row.get("name", "").rsplit(".", 1)[-1], row["file"], row["line"])
        if not label:
            continue
        weights[label] += row["total_s"]
        is_native = label.startswith("c_")
        right += row["native_s"] if is_native else row["python_s"]
        wrong += row["python_s"] if is_native else row["native_s"]
    misplaced = wrong / (right + wrong) if right + wrong and not labels.by_line else None
    return Split(weights, report["samples"], misplaced)


def read_py_spy(job, labels):
    def stacks():
        with open(job.path("profile.txt"), errors="replace") as file:
            for line in file:
                stack, _, count = line.rstrip("\n").rpartition(" ")
                frames = [re.match(r"(.*) \((.*?)(?::(\d+))?\)$", frame) for frame in stack.split(";")]
                yield [(f.group(1), f.group(2), int(f.group(3) or 0)) for f in frames if f], int(count), int(count)

    return from_stacks(labels, stacks())


def read_austin(job, labels):
    def stacks():
        with open(job.path("profile.austin"), errors="replace") as file:
            for line in file:
                stack, _, weight = line.rstrip("\n").rpartition(" ")
                if line.startswith("#") or not weight.isdigit():
                    continue
                frames = [frame.rsplit(":", 2) for frame in stack.split(";")[2:]]
                yield [(f[1], f[0], f[2]) for f in frames if len(f) == 3], int(weight), 1

    return from_stacks(labels, stacks())


def read_pyinstrument(job, labels):
    if labels.by_line:
        return None
    with open(job.path("profile.json")) as file:
        profile = json.load(file)
    weights = dict.fromkeys(labels.names, 0.0)
    todo = [profile["root_frame"]]
    while todo:
        frame = todo.pop()
        label = labels.of_frame(frame["function"], frame["file_path"], 0)
        if label:
            weights[label] += frame["time"]
        todo += frame["children"]
    return Split(weights, profile.get("sample_count"))


def read_scalene(job, labels):
    with open(job.path("profile.json")) as file:
        profile = json.load(file)
    weights = dict.fromkeys(labels.names, 0.0)
    right = wrong = 0.0
    for path, facts in profile["files"].items():
        for row in facts["lines"] if labels.by_line else facts["functions"]:
            name = row["line"].strip()
            label = labels.of_frame(labels.also.get(name, name), path, row["lineno"])
            if not label:
                continue
            python, native = row["n_cpu_percent_python"], row["n_cpu_percent_c"]
            weights[label] += python + native + row["n_sys_percent"]
            is_native = label.startswith("c_")
            right += native if is_native else python
            wrong += python if is_native else native
    return Split(weights, None, wrong / (right + wrong) if right + wrong and not labels.by_line else None)


def read_pstats(job, labels):
    if labels.by_line:
        return None
    weights = dict.fromkeys(labels.names, 0.0)
    for (path, _, name), (_, _, _, cumulative, _) in pstats.Stats(job.path("profile.pstats")).stats.items():
        label = labels.of_frame(name.rsplit(".", 1)[-1], path, 0)
        if label:
            weights[label] += cumulative
    return Split(weights)


# Runs in the venv's Python, which has the class that the file pickles.
DUMP_LPROF = """
import json, pickle, sys
stats = pickle.load(open(sys.argv[1], 'rb'))
print(json.dumps([[path, name, lines] for (path, _, name), lines in stats.timings.items()]))
"""


def read_line_profiler(job, labels):
    status, out, err = prepare.call([job.python, "-c", DUMP_LPROF, job.path("profile.lprof")])
    if status != 0:
        raise ValueError(prepare.last_line(err))
    weights = dict.fromkeys(labels.names, 0.0)
    for path, name, lines in json.loads(out):
        for line, _, time in lines:
            label = labels.of_frame(name, path, line)
            if label:
                weights[label] += time
    return Split(weights)


def read_viztracer(job, labels):
    if labels.by_line:
        return None
    with open(job.path("profile.json")) as file:
        events = json.load(file)["traceEvents"]
    weights = dict.fromkeys(labels.names, 0.0)
    for event in events:
        found = re.match(r"(.*) \((.*):(\d+)\)$", event.get("name", "")) if event.get("ph") == "X" else None
        label = labels.of_frame(*found.groups()) if found else None
        if label:
            weights[label] += event["dur"]
    return Split(weights)


READERS = {
    "fathom": read_fathom,
    "fathom_no_native": read_fathom,
    "fathom_10k": read_fathom,
    "fathom_ticker": read_fathom,
    "fathom_perf": read_fathom,
    "py_spy": read_py_spy,
    "py_spy_1k": read_py_spy,
    "py_spy_native_1k": read_py_spy,
    "austin_1k": read_austin,
    "austin_cpu_1k": read_austin,
    "scalene": read_scalene,
    "pyinstrument": read_pyinstrument,
    "cProfile": read_pstats,
    "yappi_wallclock": read_pstats,
    "yappi_cpu": read_pstats,
    "line_profiler": read_line_profiler,
    "viztracer": read_viztracer,
}
