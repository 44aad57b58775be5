#!/usr/bin/env python3
"""Bytes per line: a program whose lines allocate what is known by construction, and what fathom, scalene and memray say of it. See README.md."""

import argparse
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import measure, prepare, setup, tables, tools  # noqa: E402
from harness.prepare import BENCH, say  # noqa: E402

PROGRAM = "bytes_lines"
MB = 1e6


def memray_argv(*options):
    """Python's small objects come out of arenas, which memray takes for the allocation unless it is told to look at the objects."""

    def argv(job):
        run = [job.python, "-m", "memray", "run", "-q", "-f", *options, "-o", job.path("profile.bin")]
        return [*run, job.script, *job.args]

    return argv


def all_tools():
    objects = "--trace-python-allocators"
    return [
        tools.Tool("fathom_default", tools.fathom_default_argv, "fathom", about="sampled, with the time profile"),
        tools.Tool("fathom_exact", tools.fathom_argv("--memory=exact"), "fathom", about="--memory=exact"),
        tools.Tool(
            "scalene",
            tools.module("scalene", "run", "--memory", "-o", "{out}/profile.json"),
            "scalene",
            about="--memory",
        ),
        tools.Tool("memray", memray_argv(), "memray", about="as it comes"),
        tools.Tool("memray_objects", memray_argv(objects), "memray", about=objects),
        tools.Tool("memray_native", memray_argv(objects, "--native"), "memray", about=objects + " --native"),
    ]


# ---- what each tool says: {line number of the program: bytes allocated} ----


def fathom_lines(job):
    report = tools.fathom_report(job)
    if "error" in report:
        raise ValueError(report["error"])
    return {row["line"]: row["alloc_bytes"] for row in report["lines"] if is_program(row["file"], job)}


def scalene_lines(job):
    with open(job.path("profile.json")) as file:
        profile = json.load(file)
    found = {}
    for path, facts in profile["files"].items():
        if is_program(path, job):
            for row in facts["lines"]:
                found[row["lineno"]] = row["n_malloc_mb"] * (1 << 20)  # its MB are MiB
    return found


# Runs in the venv's Python. Each allocation goes to the innermost line of the program, as the others do it.
DUMP_MEMRAY = """
import collections, json, os, sys
from memray import FileReader
sums = collections.Counter()
reader = FileReader(sys.argv[1])
for record in reader.get_allocation_records():
    if record.size:
        for _, path, line in record.stack_trace():
            if os.path.basename(path) == sys.argv[2]:
                sums[line] += record.size
                break
print(json.dumps(sums))
"""


def memray_lines(job):
    command = [job.python, "-c", DUMP_MEMRAY, job.path("profile.bin"), os.path.basename(job.script)]
    status, out, err = prepare.call(command, timeout=600)
    if status != 0:
        raise ValueError(prepare.last_line(err))
    return {int(line): size for line, size in json.loads(out).items()}


def is_program(path, job):
    return os.path.basename(path) == os.path.basename(job.script)


READERS = {"fathom": fathom_lines, "scalene": scalene_lines, "memray": memray_lines}


# ---- running and judging ----


def read_truth(path):
    for line in prepare.read_text(path).splitlines():
        at = line.find("TRUTH {")
        if at >= 0:
            return json.loads(line[at + 6 :])
    return None


def run_once(context, tool, seconds, folder, timeout):
    """{"told": {mark: bytes}, ...} or {"error": line}, with the tool's name."""
    out_dir = os.path.join(folder, tool.name)
    os.makedirs(out_dir)
    job = tools.Job(context, os.path.join(BENCH, "truth", PROGRAM + ".py"), ["%g" % seconds], out_dir)
    outcome = measure.run(tool.argv(job), prepare.target_env(context.built), out_dir, timeout)
    result = {"tool": tool.name, "wall_s": outcome.get("wall_s"), "output_bytes": tool.output_bytes(job)}
    try:
        truth = read_truth(job.path("stdout.txt"))
        if truth is None:
            raise ValueError(outcome.get("error", "the program did not tell its truth"))
        lines = READERS[tool.name.split("_")[0]](job)
        result["true"] = truth["ns"]
        result["told"] = {mark: lines.get(truth["also"][mark], 0) for mark in truth["ns"]}
    except (ValueError, KeyError, OSError, TypeError) as problem:
        result["error"] = str(problem)[:160] if isinstance(problem, ValueError) else "its output lacks %s" % problem
        say("line_bytes: %s: %s" % (tool.name, result["error"]))
    return result


def cell(told, true):
    """Megabytes, and how far off."""
    if not true:
        return "%.1f" % (told / MB)
    return "%.1f (%+.1f %%)" % (told / MB, (told - true) * 100 / true)


def table(results):
    """Rows are lines, columns tools; the last rows are the sum of what is off, the time and the file."""
    good = [r for r in results if "error" not in r]
    if not good:
        return "none of the tools could be asked"
    true = good[0]["true"]
    rows = [[mark, "%.1f" % (size / MB)] + [cell(r["told"][mark], size) for r in good] for mark, size in true.items()]
    total = sum(true.values())
    off = [sum(abs(r["told"][mark] - size) for mark, size in true.items()) for r in good]
    rows.append(["on a wrong line, or missing", ""] + ["%.1f %%" % (100 * bytes_off / total) for bytes_off in off])
    rows.append(["wall s", ""] + ["%.2f" % r["wall_s"] for r in good])
    rows.append(["file MB", ""] + ["%.2f" % (r["output_bytes"] / MB) for r in good])
    text = tables.grid(["line", "true MB"] + [r["tool"] for r in good], rows)
    for result in results:
        if "error" in result:
            text += "\nfailed: %s: %s" % (result["tool"], result["error"])
    return text


def measure_all(context, wanted, seconds, timeout):
    folder = tempfile.mkdtemp(prefix="fathom-bytes-")
    try:
        return [run_once(context, tool, seconds, folder, timeout) for tool in wanted]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(argv=None):
    every = all_tools()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="how much work: 4 is 2 GB in 260,000 blocks")
    setup.add_options(parser, "comma-separated; default all: " + ",".join(tool.name for tool in every))
    options = parser.parse_args(argv)
    wanted = setup.pick_tools(parser, options, every)
    context = setup.Context(options, wanted, also=["numpy"])
    if "native" in context.missing:
        sys.exit("line_bytes: the program needs its C part: " + context.missing["native"])
    for name, why in context.unavailable:
        say("line_bytes: not available: %s: %s" % (name, why))
    measure.become_subreaper()
    results = measure_all(context, context.available(wanted), options.seconds, options.timeout)
    print(table(results))
    if options.json:
        setup.write_json(options.json, dict(context.facts("fathom.line_bytes/1"), results=results))
    return 0


if __name__ == "__main__":
    setup.end(main)
