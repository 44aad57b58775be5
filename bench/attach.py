#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A running program observed from outside, by fathom, py-spy and austin: rate got, what it costs, and stacks that cannot be.

    python3 bench/attach.py [--python PATH] [--seconds 3] [--rounds 3] [--rates 100,1000] [--threads 1,50,200]

One thread of the program works in functions of which it is known who calls whom; the others wait. Each tool looks at it for SECONDS, with
as long a stretch without any before and after: the slowdown is the work done per second in its stretch against the mean of both, and the
median over the rounds. A tool that falls behind takes longer, and its rate is of that. A stack cannot be when a frame has a caller in it
that it never has. CPU of the observer: seconds per second.
"""

import argparse
import collections
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from harness import prepare

PROGRAM = """
import sys, threading, time
over = threading.Event()
def wait():
    over.wait()
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=wait, daemon=True).start()
n = 0
def leaf_a(): return sum(range(60))
def leaf_b(): return len(str(list(range(40))))
def mid_a():
    for _ in range(5): leaf_a()
def mid_b():
    for _ in range(5): leaf_b()
def top_a(): mid_a()
def top_b(): mid_b()
def work():
    global n
    while True:
        top_a()
        top_b()
        n += 1
def tell():
    for _ in sys.stdin:
        print(n, flush=True)
threading.Thread(target=tell, daemon=True).start()
print("ready", flush=True)
work()
"""
# Who may call whom, among the program's own functions.
CALLERS = {
    "leaf_a": "mid_a",
    "leaf_b": "mid_b",
    "mid_a": "top_a",
    "mid_b": "top_b",
    "top_a": "work",
    "top_b": "work",
    "work": "<module>",
}


class Program:
    def __init__(self, python, n_threads):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([python, "-c", PROGRAM, str(n_threads)], stdin=pipe, stdout=pipe)
        assert self.process.stdout.readline() == b"ready\n"
        time.sleep(0.3)

    def done(self):
        """How much work, and when."""
        self.process.stdin.write(b"?\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()), time.monotonic()

    def rate(self, what, *arguments):
        """Work per second while what(*arguments) runs, how long that took, and what it returned."""
        n, since = self.done()
        result = what(*arguments)
        after, until = self.done()
        return (after - n) / (until - since), until - since, result

    def end(self):
        self.process.kill()
        self.process.wait()


def names_of(stack, pattern):
    names = [re.match(pattern, frame) for frame in stack]
    return [match.group(1) for match in names if match]


def read_collapsed(path, pattern, skipped=0):
    """[(names of functions, outermost first; count)]"""
    stacks = []
    with open(path, errors="replace") as file:
        for line in file:
            stack, _, count = line.rstrip("\n").rpartition(" ")
            if stack and not line.startswith("#") and count.isdigit():
                stacks.append((names_of(stack.split(";")[skipped:], pattern), int(count)))
    return stacks


def judge(stacks):
    """Samples of the thread that works, and how many of them cannot be."""
    good = bad = 0
    for names, count in stacks:
        own = [name.rsplit(".", 1)[-1] for name in names if name.rsplit(".", 1)[-1] in CALLERS or name == "<module>"]
        if "work" not in own and not set(own) & set(CALLERS):
            continue
        is_right = all(CALLERS.get(inner) == outer for outer, inner in zip(own, own[1:])) and own[0] == "<module>"
        good, bad = good + count * is_right, bad + count * (not is_right)
    return good, bad


def fathom(program, pid, rate, seconds, folder):
    path = os.path.join(folder, "fathom.txt")
    command = [program, "record", "-p", str(pid), "-r", str(rate), "-d", str(seconds), "-f", "raw", "-F", "-o", path]
    return command, lambda: read_collapsed(path, r"([\w.<>]+)")


def py_spy(program, pid, rate, seconds, folder):
    path = os.path.join(folder, "py-spy.txt")
    command = [program, "record", "-p", str(pid), "-r", str(rate), "-d", str(seconds), "-f", "raw", "-F", "-o", path]
    return command, lambda: read_collapsed(path, r"([\w.<>]+)")


def py_spy_native(program, pid, rate, seconds, folder):
    command, read = py_spy(program, pid, rate, seconds, folder)
    return [*command, "--native"], read


def austin(program, pid, rate, seconds, folder):
    path = os.path.join(folder, "austin.txt")
    command = [program, "-p", str(pid), "-i", str(1000000 // rate), "-x", str(seconds), "-o", path]
    # Each line is one look, and its number microseconds.
    return command, lambda: [(names, 1) for names, _ in read_collapsed(path, r".*?:([\w.<>]+):\d+$", 2)]


def observe(command):
    """Runs a tool. What it said, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        said = subprocess.CompletedProcess(command, 124, "error: not through after two minutes")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return said, cpu_s


def measure(tool, path, python, n_threads, rate, options, folder):
    slower, bad, cpu, got, seen = [], 0, [], [], 0
    program = Program(python, n_threads)
    for _ in range(options.rounds):
        command, read = tool(path, program.process.pid, rate, options.seconds, folder)
        before, *_ = program.rate(time.sleep, options.seconds)
        during, took_s, (said, cpu_s) = program.rate(observe, command)
        after, *_ = program.rate(time.sleep, options.seconds)
        if said.returncode:
            program.end()
            return {"failed": prepare.last_line(said.stdout)}
        good, wrong = judge(read())
        slower.append(1 - during / statistics.mean([before, after]))
        cpu.append(cpu_s / took_s)
        got.append((good + wrong) / took_s)
        bad, seen = bad + wrong, seen + good + wrong
    program.end()
    middle = statistics.median
    return {"got": middle(got), "slower": middle(slower), "bad": bad, "seen": seen, "cpu": middle(cpu)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--fathom")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", default="100,1000")
    parser.add_argument("--threads", default="1,50,200")
    options = parser.parse_args()
    peers = prepare.Venv(os.path.abspath(shutil.which(options.python) or options.python))
    peers.prepare(["py-spy", "austin-dist"])
    own, why = prepare.find_fathom(options.fathom)
    tools = collections.OrderedDict()
    tools["fathom"] = (fathom, own)
    tools["py-spy"] = (py_spy, os.path.join(peers.bin, "py-spy"))
    tools["py-spy --native"] = (py_spy_native, os.path.join(peers.bin, "py-spy"))
    tools["austin"] = (austin, os.path.join(peers.bin, "austin"))
    for package, reason in peers.missing.items():
        print("not available: %s: %s" % (package, reason))
    if not own:
        sys.exit("bench: %s" % why)
    print("Python %s, %s; load %.1f on %d CPUs" % (peers.version, peers.versions, os.getloadavg()[0], os.cpu_count()))
    print("%-16s %7s %6s %9s %8s %12s %8s" % ("tool", "threads", "asked", "got a s", "slower", "impossible", "own CPU"))
    with tempfile.TemporaryDirectory() as folder:
        for n_threads in map(int, options.threads.split(",")):
            for rate in map(int, options.rates.split(",")):
                for name, (tool, path) in tools.items():
                    if not os.path.exists(path):
                        continue
                    r = measure(tool, path, options.python, n_threads, rate, options, folder)
                    head = "%-16s %7d %6d" % (name, n_threads, rate)
                    if "failed" in r:
                        print("%s failed: %s" % (head, r["failed"]), flush=True)
                        continue
                    row = (r["got"], 100 * r["slower"], r["bad"], r["seen"], 100 * r["cpu"])
                    print(head + " %9.0f %6.1f %% %5d of %5d %6.1f %%" % row, flush=True)


if __name__ == "__main__":
    main()
