"""The rows of the tables: how each tool is started, and what it tells about its own samples."""

import glob
import json
import os
import re

from . import prepare


class Job:
    """One thing to run: a workload under a tool."""

    def __init__(self, context, script, args, out_dir):
        self.python = context.venv.python
        self.bin = context.venv.bin
        self.fathom = context.fathom
        self.fathom_via = context.fathom_via
        self.built = context.built
        self.script = script
        self.args = args
        self.out = out_dir

    def path(self, name):
        return os.path.join(self.out, name)

    @property
    def target(self):
        return [self.python, self.script] + self.args


class Tool:
    """A row of the tables.

    needs: a package of the venv, "fathom", "empty" or None.
    share: the part of the full work that a slow tool gets. Its cost is compared per iteration, and SLOW_ROUNDS rounds
    are enough for it: its ratio is far above the noise.
    table: the name it has in the table of normalized execution times.
    """

    def __init__(self, name, argv, needs=None, samples=None, rate_hz=0, clock="", share=1.0, table=None, about=""):
        self.name = name
        self.argv = argv
        self.needs = needs
        self.samples = samples
        self.rate_hz = rate_hz
        self.clock = clock
        self.share = share
        self.table = table
        self.about = about

    def output_bytes(self, job):
        """What the tool left on disk, without our own two text files."""
        total = 0
        for folder, _, files in os.walk(job.out):
            for name in files:
                path = os.path.join(folder, name)
                if os.path.basename(path) not in ("stdout.txt", "stderr.txt", "empty.txt"):
                    total += os.path.getsize(path)
        return total


def printed(job):
    """All that was printed, without colours."""
    text = prepare.read_text(job.path("stdout.txt")) + prepare.read_text(job.path("stderr.txt"))
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# How many samples a tool got, of how many asked, and the share it calls bad itself. {} when it does not tell.
# What was asked of a sampler of CPU time is its rate times the CPU seconds that the target itself counted.


def fathom_profile(job):
    found = [job.path("profile.fathom")] + sorted(glob.glob(job.path("results/*/*/profile.fathom")))
    return next((path for path in reversed(found) if os.path.exists(path)), None)


def fathom_report(job):
    """The profile as `fathom report --json` tells it, or {"error": line}."""
    path = fathom_profile(job)
    if path is None:
        return {"error": "no profile.fathom was written"}
    status, out, err = prepare.call([job.fathom, "report", "--json", path], timeout=300)
    if status != 0:
        return {"error": "fathom report: exit %d: %s" % (status, prepare.last_line(err))}
    try:
        return json.loads(out)
    except ValueError as error:
        return {"error": "fathom report --json is not JSON: %s" % error}


def fathom_samples(job, rate_hz, run):
    report = fathom_report(job)
    if "error" in report:
        return {"note": report["error"]}
    got, dropped = report.get("samples", 0) - report.get("wait_samples", 0), report.get("dropped", 0)
    return {
        "got": got,
        "asked": rate_hz * run["process_cpu_s"],
        "reported_cpu_s": report.get("cpu_s"),
        "bad_share": (dropped + report.get("failed_unwinds", 0)) / max(1, got + dropped),
        "dropped": dropped,
        "failed_unwinds": report.get("failed_unwinds", 0),
        "engine": report.get("engine"),
        "overhead_s": report.get("overhead_s"),
        "handler_median_ns": report.get("handler_median_ns"),
    }


def empty_samples(job, rate_hz, run):
    facts = {}
    for line in prepare.read_text(job.path("empty.txt")).splitlines():
        key, _, value = line.partition(" ")
        facts[key] = value
    if "failed" in facts:
        return {"error": "the kernel refused: " + facts["failed"]}
    if int(facts.get("hits", 0)) == 0:
        return {"error": "the handler was never called"}
    return {
        "got": int(facts["hits"]),
        "sent": int(facts.get("sent", facts["hits"])),
        "asked": rate_hz * run["process_cpu_s"],
    }


def py_spy_samples(job, rate_hz, run):
    found = re.search(r"Samples: (\d+) Errors: (\d+)", printed(job))
    if not found:
        return {}
    got, errors = int(found.group(1)), int(found.group(2))
    return {"got": got, "asked": rate_hz * run["wall_s"], "bad_share": errors / max(1, got + errors)}


def austin_samples(job, rate_hz, run):
    text = printed(job)
    found = re.search(r"Error rate : (\d+)/(\d+)", text)
    if not found:
        return {}
    bad, got = int(found.group(1)), int(found.group(2))
    return {"got": got, "asked": rate_hz * run["wall_s"], "bad_share": bad / max(1, got)}


def pyinstrument_samples(job, rate_hz, _run):
    try:
        with open(job.path("profile.json")) as file:
            head = file.read(2000)
    except OSError:
        return {}
    got = re.search(r'"sample_count": *(\d+)', head)
    duration = re.search(r'"duration": *([0-9.]+)', head)
    if not got or not duration:
        return {}
    return {"got": int(got.group(1)), "asked": rate_hz * float(duration.group(1))}


def fathom_argv(*options):
    def argv(job):
        if job.fathom_via == "record":
            record = [job.fathom, "record", "-o", job.path("profile.fathom")]
            return record + [option for option in options if option != "--cpu"] + ["--"] + job.target
        run = [job.fathom, "run", "--quiet", "--output-dir", job.path("results"), "--python", job.python]
        return run + list(options) + [job.script] + job.args

    return argv


def fathom_default_argv(job):
    """As it comes: time, memory and waiting."""
    return fathom_argv(*(["--memory"] if job.fathom_via == "record" else []))(job)


def empty_argv(engine, rate_hz):
    def argv(job):
        parts = [job.built["empty_program"], engine, str(rate_hz), job.built["empty_library"], job.path("empty.txt")]
        return parts + job.target

    return argv


def module(name, *options):
    return lambda job: [job.python, "-m", name] + [o.format(out=job.out) for o in options] + [job.script] + job.args


def program(name, *options):
    return lambda job: (
        [os.path.join(job.bin, name)] + [o.format(out=job.out) for o in options] + [job.script] + job.args
    )


def around(name, *options):
    """A program that is given the whole command to start."""
    return lambda job: [os.path.join(job.bin, name)] + [o.format(out=job.out) for o in options] + job.target


def fathom_tool(name, rate_hz, *options, **more):
    return Tool(
        name,
        fathom_argv("--cpu", "--rate", "10k" if rate_hz == 10000 else str(rate_hz), *options),
        "fathom",
        fathom_samples,
        rate_hz=rate_hz,
        clock="cpu",
        table=name,
        **more,
    )


def line_profiler_argv(job):
    return [
        os.path.join(job.bin, "kernprof"),
        "-q",
        "-l",
        "-p",
        job.script,
        "-o",
        job.path("profile.lprof"),
        job.script,
    ] + job.args


def all_tools():
    """Every row, in the order of the tables."""
    return [
        Tool("baseline", lambda job: job.target, about="no profiler"),
        Tool(
            "null", lambda job: job.target, about="the baseline again, as if it were a profiler: what is left is noise"
        ),
        Tool(
            "empty_ticker",
            empty_argv("ticker", 1000),
            "empty",
            empty_samples,
            rate_hz=1000,
            clock="cpu",
            about="empty handler, 1 kHz, signals from another process",
        ),
        Tool(
            "empty_perf",
            empty_argv("perf", 1000),
            "empty",
            empty_samples,
            rate_hz=1000,
            clock="cpu",
            about="empty handler, 1 kHz, perf_event sigtrap",
        ),
        fathom_tool("fathom", 1000, about="Python and native stacks, 1 kHz of CPU time"),
        Tool(
            "fathom_default",
            fathom_default_argv,
            "fathom",
            fathom_samples,
            rate_hz=1000,
            clock="cpu",
            about="as `fathom run` comes: time, memory and waiting",
        ),
        fathom_tool("fathom_no_native", 1000, "--no-native", about="Python stacks only, 1 kHz"),
        fathom_tool("fathom_10k", 10000, about="Python and native stacks, 10 kHz"),
        fathom_tool("fathom_ticker", 1000, "--engine", "ticker", about="as fathom, engine forced"),
        fathom_tool("fathom_perf", 1000, "--engine", "perf", about="as fathom, engine forced"),
        Tool(
            "py_spy",
            around("py-spy", "record", "-f", "raw", "-o", "{out}/profile.txt", "--"),
            "py-spy",
            py_spy_samples,
            rate_hz=100,
            clock="wall",
            table="py_spy",
            about="as it comes: 100 Hz",
        ),
        Tool(
            "py_spy_1k",
            around("py-spy", "record", "-r", "1000", "-f", "raw", "-o", "{out}/profile.txt", "--"),
            "py-spy",
            py_spy_samples,
            rate_hz=1000,
            clock="wall",
            about="1 kHz",
        ),
        Tool(
            "py_spy_native_1k",
            around("py-spy", "record", "--native", "-r", "1000", "-f", "raw", "-o", "{out}/profile.txt", "--"),
            "py-spy",
            py_spy_samples,
            rate_hz=1000,
            clock="wall",
            about="1 kHz asked, native stacks",
        ),
        Tool(
            "austin_1k",
            around("austin", "-i", "1ms", "-o", "{out}/profile.austin"),
            "austin-dist",
            austin_samples,
            rate_hz=1000,
            clock="wall",
            about="1 kHz",
        ),
        Tool(
            "scalene",
            module("scalene", "run", "--cpu-only", "-o", "{out}/profile.json"),
            "scalene",
            table="scalene",
            rate_hz=100,
            clock="wall",
            about="CPU only, 100 Hz",
        ),
        Tool(
            "scalene_memory",
            module("scalene", "run", "--memory", "-o", "{out}/profile.json"),
            "scalene",
            rate_hz=100,
            clock="wall",
            about="CPU and memory",
        ),
        Tool(
            "pyinstrument",
            module("pyinstrument", "-r", "json", "-o", "{out}/profile.json"),
            "pyinstrument",
            pyinstrument_samples,
            rate_hz=1000,
            clock="wall",
            share=0.5,
            table="pyinstrument",
            about="1 kHz, main thread",
        ),
        Tool(
            "pprofile_stat",
            module("pprofile", "--statistic", "0.01", "-o", "{out}/profile.txt"),
            "pprofile",
            table="pprofile_stat",
            rate_hz=100,
            clock="wall",
            about="100 Hz",
        ),
        Tool("cProfile", module("cProfile", "-o", "{out}/profile.pstats"), share=0.5, table="cProfile"),
        Tool(
            "yappi_wallclock",
            module("yappi", "-c", "wall", "-o", "{out}/profile.pstats"),
            "yappi",
            share=0.3,
            table="yappi_wallclock",
        ),
        Tool(
            "yappi_cpu",
            module("yappi", "-c", "cpu", "-o", "{out}/profile.pstats"),
            "yappi",
            share=0.1,
            table="yappi_cpu",
        ),
        Tool(
            "line_profiler",
            line_profiler_argv,
            "line_profiler",
            share=0.05,
            table="line_profiler",
            about="all functions of the script",
        ),
        Tool("Profile", module("profile", "-o", "{out}/profile.pstats"), share=0.1, table="Profile"),
        Tool(
            "pprofile_det", module("pprofile", "-o", "{out}/profile.txt"), "pprofile", share=0.05, table="pprofile_det"
        ),
        Tool(
            "viztracer",
            module("viztracer", "--quiet", "-o", "{out}/profile.json"),
            "viztracer",
            share=0.1,
            about="every call, ring of a million events",
        ),
        Tool(
            "memray",
            module("memray", "run", "-q", "-f", "-o", "{out}/profile.bin"),
            "memray",
            share=0.5,
            about="allocations",
        ),
    ]


SLOW_ROUNDS = 3
EXTRA_ENGINES = ("fathom_ticker", "fathom_perf")  # only with --engines
