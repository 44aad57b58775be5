"""What a run needs before it can measure: a private venv with the peers, the C parts, facts about the machine."""

import json
import os
import platform
import shutil
import subprocess
import sys
import venv

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(BENCH)
BUILD = os.path.join(ROOT, "build-bench")

# Package -> what to try in turn. Austin 4's wheels want a newer C library than some machines have; 3.7 does not.
PACKAGES = {
    "py-spy": ["py-spy"],
    "scalene": ["scalene"],
    "pyinstrument": ["pyinstrument"],
    "austin-dist": ["austin-dist", "austin-dist<4"],
    "memray": ["memray"],
    "viztracer": ["viztracer"],
    "line_profiler": ["line_profiler"],
    "yappi": ["yappi"],
    "pprofile": ["pprofile"],
    "numpy": ["numpy"],
    "pyperformance": ["pyperformance"],
}

# Installing is not the same as working: each is asked to start once.
PROBES = {
    "py-spy": ["{bin}/py-spy", "--version"],
    "scalene": ["{python}", "-c", "import scalene.__main__"],
    "pyinstrument": ["{python}", "-c", "import pyinstrument.low_level.stat_profile"],
    "austin-dist": ["{bin}/austin", "--version"],
    "memray": ["{python}", "-c", "import memray._memray"],
    "viztracer": ["{python}", "-c", "import viztracer.snaptrace"],
    "line_profiler": ["{python}", "-c", "import line_profiler._line_profiler"],
    "yappi": ["{python}", "-c", "import _yappi"],
    "pprofile": ["{python}", "-c", "import pprofile"],
    "numpy": ["{python}", "-c", "import numpy"],
    "pyperformance": ["{python}", "-c", "import pyperformance"],
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def last_line(text, limit=160):
    """The line of an error text that says most: the last one naming an error, or else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if "error" in line.lower() or "not found" in line.lower():
            return line[:limit]
    return lines[-1][:limit] if lines else "no message"


def call(argv, timeout=300, env=None):
    """Exit status and all output of a helper command. Never raises: a missing program is a status, too."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            env=env,
        )
    except subprocess.TimeoutExpired:
        return 124, "", "error: no answer within %d s" % timeout
    except OSError as error:
        return 127, "", "error: %s: %s" % (argv[0], error.strerror)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def python_version(python):
    status, out, err = call([python, "-c", "import platform; print(platform.python_version())"], timeout=30)
    if status != 0:
        sys.exit("bench: %s does not start: %s" % (python, last_line(err)))
    return out.strip()


class Venv:
    """.venv-bench/pyX.Y with what could be installed; .missing says why the rest could not."""

    def __init__(self, python):
        self.base_python = python
        self.version = python_version(python)
        self.path = os.path.join(ROOT, ".venv-bench", "py" + ".".join(self.version.split(".")[:2]))
        self.bin = os.path.join(self.path, "bin")
        self.python = os.path.join(self.bin, "python")
        self.stamp = os.path.join(self.path, "bench-packages.json")
        self.versions = {}
        self.missing = {}

    def prepare(self, wanted, refresh=False):
        known = {}
        if not refresh and os.path.exists(self.stamp):
            with open(self.stamp) as stamp:
                known = json.load(stamp)
            if known.get("python") != self.version:
                known = {}
        if not known:
            shutil.rmtree(self.path, ignore_errors=True)
            say("bench: making %s for Python %s" % (os.path.relpath(self.path, ROOT), self.version))
            self._create()
            known = {"python": self.version, "packages": {}}
        for package in wanted:
            if package not in known["packages"]:
                known["packages"][package] = self._install(package)
                with open(self.stamp, "w") as stamp:
                    json.dump(known, stamp, indent=1)
        for package in wanted:
            facts = known["packages"][package]
            if facts["version"]:
                self.versions[package] = facts["version"]
            else:
                self.missing[package] = facts["reason"]

    def _create(self):
        if os.path.realpath(self.base_python) == os.path.realpath(sys.executable):
            try:
                venv.create(self.path, with_pip=True)
            except (OSError, subprocess.CalledProcessError) as error:
                sys.exit("bench: cannot make the venv: %s (on Debian: apt install python3-venv)" % error)
            return
        status, _, err = call([self.base_python, "-m", "venv", self.path])
        if status != 0:
            sys.exit("bench: cannot make the venv: %s (on Debian: apt install python3-venv)" % last_line(err))

    def _install(self, package):
        reason = ""
        for spec in PACKAGES[package]:
            say("bench: installing %s" % spec)
            pip = [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--prefer-binary", spec]
            status, _, err = call(pip, timeout=600)
            if status == 0:
                probe = [word.format(bin=self.bin, python=self.python) for word in PROBES[package]]
                status, _, err = call(probe, timeout=60)
            if status == 0:
                return {"version": self._version(package), "reason": ""}
            reason = reason or last_line(err)
        call([self.python, "-m", "pip", "uninstall", "-q", "-y", package])
        return {"version": "", "reason": reason}

    def _version(self, package):
        code = "import importlib.metadata as m; print(m.version(%r))" % package
        return call([self.python, "-c", code], timeout=60)[1].strip() or "unknown"


def compile_parts():
    """Builds the C parts. Returns {part: path or None} and {part: why not}."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    parts = {
        "native": (["-shared", "-fPIC"], "workloads/native.c", "native.so"),
        "empty_library": (["-shared", "-fPIC", "-DEMPTY_LIBRARY"], "empty_handler.c", "libempty.so"),
        "empty_program": ([], "empty_handler.c", "empty_handler"),
    }
    built, missing = {}, {}
    os.makedirs(BUILD, exist_ok=True)
    for part, (flags, source, product) in parts.items():
        source, product = os.path.join(BENCH, source), os.path.join(BUILD, product)
        if not compiler:
            missing[part] = "no C compiler (set CC)"
            continue
        if not os.path.exists(product) or os.path.getmtime(product) < os.path.getmtime(source):
            status, _, err = call([compiler, "-O2", "-Wall", "-Wextra"] + flags + ["-o", product, source])
            if status != 0:
                missing[part] = "cc: " + last_line(err)
                continue
        built[part] = product
    return built, missing


def find_fathom(given):
    """Path of the fathom program, or None and the reason."""
    candidates = [given] if given else [os.path.join(ROOT, "build", "fathom"), shutil.which("fathom")]
    for path in candidates:
        if path and os.access(path, os.X_OK):
            return os.path.abspath(path), ""
    if given:
        return None, "%s is not a program" % given
    return None, "no build/fathom and none on PATH (build it with `make`, or pass --fathom PATH)"


def target_env(built):
    """The environment of every run, profiled or not."""
    env = dict(os.environ)
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "LD_PRELOAD"):
        env.pop(name, None)
    env.update(
        {
            # glibc moves these two thresholds by what a program happens to free first. A wrapper's own start-up is
            # enough to shift them, and then the heap is trimmed and faulted in again all the time: up to 1.4x with no
            # profiler at all.
            "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
            "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
            "FATHOM_BENCH_NATIVE": built.get("native", ""),
        }
    )
    return env


def read_text(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def machine_facts():
    cpuinfo = read_text("/proc/cpuinfo")
    model = next((line.split(":", 1)[1].strip() for line in cpuinfo.splitlines() if line.startswith("model name")), "")
    flags = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "").split()
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "hypervisor": "hypervisor" in flags,
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "perf_event_paranoid": read_text("/proc/sys/kernel/perf_event_paranoid").strip(),
        "load_average_at_start": os.getloadavg()[0],
        "bench_python": platform.python_version(),
    }


def steal_ticks():
    """(stolen, all) clock ticks of the whole machine since boot: what the hypervisor gave to others."""
    fields = [int(n) for n in read_text("/proc/stat").split("\n", 1)[0].split()[1:]]
    return (fields[7], sum(fields[:8])) if len(fields) > 7 else (0, 0)
