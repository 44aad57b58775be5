"""How run.py, accuracy.py and line_bytes.py begin and end: their common options, what is there to run with, where output goes."""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time

from . import measure, prepare, tools


def add_options(parser, profilers_help):
    parser.add_argument("--profilers", help=profilers_help)
    parser.add_argument("--engines", action="store_true", help="also fathom with each engine forced")
    parser.add_argument("--python", default=sys.executable, help="the Python to run with (default: this one)")
    parser.add_argument("--fathom", help="the fathom program (default: build/fathom, then PATH)")
    parser.add_argument(
        "--fathom-via", choices=("run", "record"), default="run", help="which command captures (default run)"
    )
    parser.add_argument("--timeout", type=float, default=180, help="seconds after which a run is ended (default 180)")
    parser.add_argument("--json", metavar="OUT", help="write all raw numbers there")
    parser.add_argument("--refresh", action="store_true", help="make the venv anew")
    parser.add_argument("--keep", metavar="DIR", help="keep what the profilers wrote below DIR")


def pick(parser, kind, given, known, default):
    """The named ones among known, in known's order."""
    if not given:
        return default
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in known:
            parser.error("no %s named %s; there are: %s" % (kind, name, ", ".join(known)))
    return [name for name in known if name in names]


def pick_tools(parser, options, every, always=()):
    """The profilers asked for, in the order of `every`."""
    default = [tool.name for tool in every if options.engines or tool.name not in tools.EXTRA_ENGINES]
    names = set(pick(parser, "profiler", options.profilers, [tool.name for tool in every], default)) | set(always)
    return [tool for tool in every if tool.name in names]


class Context:
    """What is there to run with, and what is not."""

    def __init__(self, options, wanted, also=()):
        """also: packages that what is run needs beside the rows' own."""
        needed = {thing.needs for thing in wanted} | set(also)
        self.venv = prepare.Venv(os.path.abspath(shutil.which(options.python) or options.python))
        self.venv.prepare([package for package in prepare.PACKAGES if package in needed], options.refresh)
        self.built, self.missing = prepare.compile_parts()
        self.fathom, why = prepare.find_fathom(options.fathom)
        self.fathom_via = options.fathom_via
        self.missing.update(self.venv.missing)
        if not self.fathom:
            self.missing["fathom"] = why
        self.unavailable = [(thing.name, self.lacks(thing.needs)) for thing in wanted if self.lacks(thing.needs)]

    def lacks(self, needs):
        """Why a row or workload cannot run here, or ""."""
        if needs == "empty":
            return self.missing.get("empty_program", "") or self.missing.get("empty_library", "")
        return self.missing.get(needs, "")

    def available(self, wanted):
        return [thing for thing in wanted if not self.lacks(thing.needs)]

    def facts(self, schema):
        return {
            "schema": schema,
            "date": time.strftime("%Y-%m-%d"),
            "machine": prepare.machine_facts(),
            "python": self.venv.version,
            "versions": self.venv.versions,
        }


@contextlib.contextmanager
def folder_for_output(options, prefix):
    """Where profilers write: --keep, or a folder that is gone afterwards. Their orphans become ours to count."""
    measure.become_subreaper()
    folder = options.keep or tempfile.mkdtemp(prefix=prefix)
    try:
        yield os.path.abspath(folder)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


def write_json(path, facts):
    with open(path, "w") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")


def end(main):
    """Runs main() and ends the program as it says."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our tables left; nothing to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
