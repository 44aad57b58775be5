#!/usr/bin/env python3
"""Programs that know their own split of CPU time, under fathom and its peers: how far off is each? See README.md."""

import argparse
import json
import math
import os
import shutil
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import measure, prepare, setup, splits, tables, tools  # noqa: E402
from harness.prepare import BENCH, say  # noqa: E402

PROGRAMS = ("mixed", "calls_native", "lines_python", "lines_native", "four_threads", "lockstep")


def own_tools():
    """Rows that matter for accuracy only, beside those of the cost tables."""
    sleepless = tools.around("austin", "-s", "-i", "1ms", "-o", "{out}/profile.austin")
    return [
        tools.Tool(
            "austin_cpu_1k",
            sleepless,
            "austin-dist",
            tools.austin_samples,
            rate_hz=1000,
            clock="cpu",
            about="1 kHz, idle threads left out",
        )
    ]


def read_truth(path):
    with open(path, errors="replace") as file:
        for line in file:
            at = line.find("TRUTH {")
            if at >= 0:
                return json.loads(line[at + 6 :])
    return None


def compare(truth, split):
    """Largest error over the labels in points, and one standard error of sampling at the label where it is largest."""
    true_total, told_total = sum(truth["ns"].values()), sum(split.weights.values())
    if told_total <= 0:
        raise ValueError("the profile has none of the program's functions or lines")
    error = sigma = 0.0
    shares = {}
    for label, ns in truth["ns"].items():
        expected, told = ns / true_total, split.weights[label] / told_total
        shares[label] = {"true": expected, "told": told}
        error = max(error, abs(told - expected) * 100)
        if split.n_samples:
            sigma = max(sigma, 100 * math.sqrt(expected * (1 - expected) / split.n_samples))
    return {
        "error_points": error,
        "sigma_points": sigma or None,
        "shares": shares,
        "samples": split.n_samples,
        "misplaced_points": None if split.misplaced is None else split.misplaced * 100,
    }


def run_once(context, options, tool, name, folder, number):
    out_dir = os.path.join(folder, "%s.%s.%d" % (name, tool.name, number))
    os.makedirs(out_dir)
    script = os.path.join(BENCH, "truth", name + ".py")
    arguments = ["%g" % options.seconds]
    if name == "lockstep":
        arguments.append(str(1000000000 // tool.rate_hz))
    job = tools.Job(context, script, arguments, out_dir)
    # No BENCH line comes from these programs, so the measurement's only verdict used here is "did it end in time".
    outcome = measure.run(tool.argv(job), prepare.target_env(context.built), out_dir, options.timeout)
    result = {"tool": tool.name, "program": name, "round": number}
    try:
        truth = read_truth(job.path("stdout.txt")) if os.path.exists(job.path("stdout.txt")) else None
        if truth is None:
            raise ValueError(outcome.get("error", "the program did not tell its truth"))
        split = splits.READERS[tool.name](job, splits.Labels(truth, script))
        if split is None:
            result["skipped"] = "the tool has no lines"
        else:
            result.update(compare(truth, split))
    except (ValueError, KeyError, OSError, TypeError, IndexError) as problem:
        text = str(problem)[:160]
        result["error"] = text if isinstance(problem, ValueError) else "its output lacks %s" % text
        say("accuracy: %s on %s: %s" % (tool.name, name, result["error"]))
    if not options.keep:
        shutil.rmtree(out_dir, ignore_errors=True)
    return result


def cell(results, key="error_points"):
    values = [r[key] for r in results if r.get(key) is not None]
    if not values:
        return "failed" if any("error" in r for r in results) else "-"
    text = "%.1f" % statistics.median(values)
    if len(values) > 1:
        text += " (max %.1f)" % max(values)
    sigmas = [r["sigma_points"] for r in results if r.get("sigma_points")] if key == "error_points" else []
    return text + (" s%.1f" % statistics.median(sigmas) if sigmas else "")


def print_table(results, chosen, programs):
    rows = []
    for tool in chosen:
        mine = [[r for r in results if r["tool"] == tool.name and r["program"] == name] for name in programs]
        if any(mine):
            mixed = [r for r in results if r["tool"] == tool.name and r["program"] == "mixed"]
            rows.append(
                [tool.name, tool.clock or "every call"] + [cell(m) for m in mine] + [cell(mixed, "misplaced_points")]
            )
    print("## Largest error over the functions or lines of each program, in points\n")
    print(tables.grid(["profiler", "clock"] + list(programs) + ["Python|native"], rows))
    for reason in dict.fromkeys(
        "%s on %s: %s" % (r["tool"], r["program"], r["error"]) for r in results if "error" in r
    ):
        print("failed: " + reason)
    print(
        "\nsX.X is one standard error of random sampling with that many samples; errors below 3 of them mean nothing."
    )
    print("Truth is CPU time: a sampler of wall time is off in four_threads by what the waiting threads get.")
    print("Python|native: share of the time in mixed that was put on the wrong side, where a tool tells them apart.")


def main(argv=None):
    every = [tool for tool in tools.all_tools() + own_tools() if tool.name in splits.READERS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each run (default 8)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each pair runs (default 1)")
    parser.add_argument("--programs", help="comma-separated; default all: " + ",".join(PROGRAMS))
    setup.add_options(parser, "comma-separated; default all: " + ",".join(tool.name for tool in every))
    options = parser.parse_args(argv)
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be above 0")
    programs = setup.pick(parser, "program", options.programs, list(PROGRAMS), list(PROGRAMS))
    wanted = setup.pick_tools(parser, options, every)

    context = setup.Context(options, wanted)
    if "native" in context.missing:
        sys.exit("accuracy: the truth programs need their C part: " + context.missing["native"])
    for name, why in context.unavailable:
        say("accuracy: not available: %s: %s" % (name, why))
    chosen = context.available(wanted)

    results = []
    with setup.folder_for_output(options, "fathom-accuracy-") as folder:
        for number in range(options.rounds):
            for name in programs:
                for tool in chosen:
                    if name == "lockstep" and not tool.rate_hz:
                        continue  # nothing to be in step with
                    results.append(run_once(context, options, tool, name, folder, number))
    print_table(results, chosen, programs)
    if options.json:
        setup.write_json(
            options.json, dict(context.facts("fathom.accuracy/1"), seconds=options.seconds, results=results)
        )
    return 0


if __name__ == "__main__":
    setup.end(main)
