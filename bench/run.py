#!/usr/bin/env python3
"""Runs workloads bare, under fathom and under its peers, by turns, and prints what each costs. See README.md."""

import argparse
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import line_bytes  # noqa: E402
from harness import measure, prepare, setup, tables, tools  # noqa: E402
from harness.prepare import BENCH, say  # noqa: E402

MEMORY_ROWS = {"fathom_default", "scalene_memory", "memray"}  # one of them chosen: bytes per line are shown, too
QUICK = ("calls", "loop", "native_ext", "threads")


class Workload:
    def __init__(self, name, needs=None, pyperformance="", loops=0):
        self.name = name
        self.needs = needs
        self.pyperformance = pyperformance
        self.loops = loops

    def script(self, venv):
        if not self.pyperformance:
            return os.path.join(BENCH, "workloads", self.name + ".py")
        library = "python" + ".".join(venv.version.split(".")[:2])
        parts = (
            venv.path,
            "lib",
            library,
            "site-packages",
            "pyperformance",
            "data-files",
            "benchmarks",
            "bm_" + self.pyperformance,
        )
        # Run from a folder of our own: Scalene leaves out what lies in site-packages, and would have nothing to do.
        copy = os.path.join(prepare.BUILD, "pyperformance", os.path.basename(venv.path), self.pyperformance)
        if not os.path.exists(copy):
            shutil.copytree(os.path.join(*parts), copy)
        return os.path.join(copy, "run_benchmark.py")

    def arguments(self, scale):
        """(command line, environment) for a part of the full work."""
        if self.pyperformance:
            loops = max(1, round(self.loops * scale))
            return [], {"PYTHONPATH": os.path.join(BENCH, "standin"), "FATHOM_BENCH_LOOPS": str(loops)}
        return ["%.6g" % scale], {}


# Units are chosen so that a bare body takes 1.5 to 2 s at scale 1 on a current machine.
WORKLOADS = [
    Workload("calls"),
    Workload("loop"),
    Workload("deep"),
    Workload("native_ext", "native"),
    Workload("numpy_mix", "numpy"),
    Workload("threads", "native"),
    Workload("threads160"),
    Workload("alloc"),
    Workload("asyncio_mix"),
    Workload("pp_richards", "pyperformance", "richards", 26),
    Workload("pp_deltablue", "pyperformance", "deltablue", 400),
]


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="few workloads, small, 3 rounds: does it work, not what does it cost"
    )
    parser.add_argument("--rounds", type=int, help="how often each pair runs (default 5; with --quick 3)")
    parser.add_argument("--scale", type=float, help="part of the full work (default 0.5; with --quick 0.2)")
    parser.add_argument("--workloads", help="comma-separated; default all: " + ",".join(w.name for w in WORKLOADS))
    setup.add_options(parser, "comma-separated rows; the baseline, null and the empty handlers always run")
    parser.add_argument("--list", action="store_true", help="name workloads and profilers, and end")
    options = parser.parse_args(argv)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.scale is not None and not 0 < options.scale <= 100:
        parser.error("--scale must be above 0 and at most 100")
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.scale = options.scale or (0.2 if options.quick else 0.5)
    return parser, options


def run_once(context, options, tool, workload, number, folder):
    scale = options.scale * tool.share
    arguments, extra = workload.arguments(scale)
    out_dir = os.path.join(folder, "%s.%s.%d" % (workload.name, tool.name, number))
    os.makedirs(out_dir)
    job = tools.Job(context, workload.script(context.venv), arguments, out_dir)
    env = dict(prepare.target_env(context.built), **extra)
    result = measure.run(tool.argv(job), env, out_dir, options.timeout)
    if "error" not in result:
        result["output_bytes"] = tool.output_bytes(job)
        if tool.samples:
            samples = tool.samples(job, tool.rate_hz, result)
            if "error" in samples:
                result["error"] = samples["error"]
            result["samples"] = samples
    result.update(round=number, tool=tool.name, workload=workload.name)
    if not options.keep:
        shutil.rmtree(out_dir, ignore_errors=True)
    return result


def run_all(context, options, chosen_tools, chosen_workloads, folder):
    """All pairs, round by round. Each round starts the list of tools at another place: no tool is always first."""
    runs, failures = [], {}
    for workload in chosen_workloads:  # once, not counted: compiles the .pyc files and warms the disk cache
        run_once(context, options, chosen_tools[0], workload, -1, folder)
    for number in range(options.rounds):
        for workload in chosen_workloads:
            shift = (number * 5) % len(chosen_tools)
            for tool in chosen_tools[shift:] + chosen_tools[:shift]:
                pair = (tool.name, workload.name)
                if failures.get(pair, 0) >= 2 or (tool.share < 1 and number >= tools.SLOW_ROUNDS):
                    continue
                result = run_once(context, options, tool, workload, number, folder)
                runs.append(result)
                if "error" in result:
                    failures[pair] = failures.get(pair, 0) + 1
                    say("bench: %s on %s: %s" % (tool.name, workload.name, result["error"]))
                elif sys.stderr.isatty():
                    print(
                        "\r\x1b[Kround %d/%d %s %s" % (number + 1, options.rounds, workload.name, tool.name),
                        end="",
                        file=sys.stderr,
                        flush=True,
                    )
        if sys.stderr.isatty():
            say("")
    return runs


def print_tables(facts, runs, chosen_tools, unavailable):
    table = tables.summarize(runs)
    machine = facts["machine"]
    print(
        "# Bench: Python %s, %s, %d cores%s, kernel %s; %d rounds, scale %g\n"
        % (
            facts["python"],
            machine["cpu"],
            machine["cores"],
            ", virtual machine" if machine["hypervisor"] else "",
            machine["kernel"],
            facts["rounds"],
            facts["scale"],
        )
    )
    print(
        "Load at start %.2f, stolen by the hypervisor %.1f %%, took %.0f s."
        % (machine["load_average_at_start"], facts["steal_share"] * 100, facts["took_s"])
    )
    for name, version in sorted(facts["versions"].items()):
        print("%s %s" % (name, version), end="; ")
    print("\n")
    for workload, rows in table.items():
        print(tables.workload_table(workload, rows) + "\n")
    print("## Wall ratio of the body, medians\n")
    print(tables.wall_matrix(table, [tool.name for tool in chosen_tools if tool.name != "baseline"]) + "\n")
    print("## Cost at 1 kHz with native frames against the bar\n")
    print(tables.cost_bar(table) + "\n")
    print("## Normalized execution time (geometric mean over the workloads)\n")
    print(tables.normalized(table, chosen_tools) + "\n")
    for name, why in unavailable:
        print("not available: %s: %s" % (name, why))
    return table


def main(argv=None):
    parser, options = parse_arguments(argv)
    every = tools.all_tools()
    if options.list:
        print("workloads: " + " ".join(w.name for w in WORKLOADS))
        for tool in every:
            print("%-18s %s" % (tool.name, tool.about))
        return 0
    wanted_tools = setup.pick_tools(parser, options, every, ("baseline", "null", "empty_ticker", "empty_perf"))
    known = {w.name: w for w in WORKLOADS}
    quick = [name for name in known if not options.quick or name in QUICK]
    wanted_workloads = [known[name] for name in setup.pick(parser, "workload", options.workloads, list(known), quick)]

    context = setup.Context(options, wanted_tools + wanted_workloads)
    for name, why in context.unavailable:
        say("bench: not available: %s: %s" % (name, why))
    chosen_tools = context.available(wanted_tools)
    chosen_workloads = context.available(wanted_workloads)
    if not chosen_workloads:
        sys.exit("bench: none of the workloads can run here")

    facts = dict(
        context.facts("fathom.bench/1"),
        rounds=options.rounds,
        scale=options.scale,
        unavailable=[{"name": name, "why": why} for name, why in context.unavailable],
    )
    if facts["machine"]["load_average_at_start"] > facts["machine"]["cores"] / 2:
        say(
            "bench: the machine is busy (load %.1f): the figures will be noise"
            % facts["machine"]["load_average_at_start"]
        )
    stolen, ticks = prepare.steal_ticks()
    start = time.monotonic()
    with setup.folder_for_output(options, "fathom-bench-") as folder:
        runs = run_all(context, options, chosen_tools, chosen_workloads, folder)
    stolen_now, ticks_now = prepare.steal_ticks()
    facts["took_s"] = time.monotonic() - start
    facts["steal_share"] = (stolen_now - stolen) / max(1, ticks_now - ticks)
    table = print_tables(facts, runs, chosen_tools, context.unavailable)
    facts["line_bytes"] = []
    if MEMORY_ROWS & {tool.name for tool in chosen_tools} and not context.lacks("native"):
        facts["line_bytes"] = line_bytes.measure_all(
            context, context.available(line_bytes.all_tools()), 1.0 if options.quick else 4.0, options.timeout
        )
        print("## Bytes per line: what is true by construction, and what each tool says\n")
        print(line_bytes.table(facts["line_bytes"]))
    if options.json:
        setup.write_json(options.json, dict(facts, runs=runs, summary=table))
    return 0


if __name__ == "__main__":
    setup.end(main)
