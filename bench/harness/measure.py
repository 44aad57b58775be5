"""Runs one command and measures its whole process tree."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import threading
import time

from . import prepare

PR_SET_CHILD_SUBREAPER = 36
# Peak memory is read this often. Every run pays the same few dozen microseconds for it, the bare one, too.
RSS_HZ = 10


def become_subreaper():
    """Orphans of a run come to us, so their CPU time is counted and they can be ended."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


def peak_rss(pid):
    try:
        with open("/proc/%d/status" % pid) as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Watch(threading.Thread):
    """Peak memory of each process below pid, and the end of a run that takes too long."""

    def __init__(self, pid, timeout_s):
        super().__init__(daemon=True)
        self.root = pid
        self.timeout_s = timeout_s
        self.peaks = {}
        self.timed_out = False
        self.over = threading.Event()

    def run(self):
        deadline = time.monotonic() + self.timeout_s
        while not self.over.wait(1.0 / RSS_HZ):
            todo = [self.root]
            while todo:
                pid = todo.pop()
                todo += children_of(pid)
                self.peaks[pid] = max(self.peaks.get(pid, 0), peak_rss(pid))
            if time.monotonic() > deadline:
                self.timed_out = True
                end_group(self.root)
                return


def end_group(pid):
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def bench_line(path):
    """What the workload said of itself: the last BENCH line, or None."""
    found = None
    with open(path, errors="replace") as file:
        for line in file:
            at = line.find("BENCH {")
            if at >= 0:
                with contextlib.suppress(ValueError):
                    found = json.loads(line[at + 6 :])
    return found


def reap_all(first):
    """Waits for the run's first process and what it left behind. Returns its exit status and the CPU seconds of all."""
    status, cpu_s, patience = None, 0.0, 200
    while True:
        try:
            pid, wait_status, usage = os.wait4(-1, 0 if status is None else os.WNOHANG)
        except ChildProcessError:
            return status, cpu_s
        if pid == 0:  # left behind and still alive, in a session of its own: 2 s, then the run is over without it
            patience -= 1
            if patience == 0:
                return status, cpu_s
            time.sleep(0.01)
            continue
        cpu_s += usage.ru_utime + usage.ru_stime
        if pid == first:
            status = wait_status
            end_group(first)  # a helper that outlives its profiler must not run into the next measurement


def run(argv, env, out_dir, timeout_s):
    """One measured run. The result has "error" (one line) when there is nothing to measure."""
    stdout, stderr = os.path.join(out_dir, "stdout.txt"), os.path.join(out_dir, "stderr.txt")
    with open(stdout, "wb") as out, open(stderr, "wb") as err:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=env,
                cwd=out_dir,
                start_new_session=True,
            )
        except OSError as error:
            return {"error": "%s: %s" % (argv[0], error.strerror)}
        watch = Watch(process.pid, timeout_s)
        watch.start()
        status, cpu_s = reap_all(process.pid)
        wall_s = time.perf_counter() - start
        process.returncode = status  # reaped here, not by subprocess
        watch.over.set()
        watch.join()

    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    result = {"wall_s": wall_s, "tree_cpu_s": cpu_s, "exit": code}
    facts = bench_line(stdout)
    if watch.timed_out:
        result["error"] = "no end within %d s" % timeout_s
    elif facts is None:
        result["error"] = "exit %d: %s" % (code, prepare.last_line(prepare.read_text(stderr)))
    else:
        result.update({key: facts[key] for key in ("body_s", "body_cpu_s", "process_cpu_s", "iterations")})
        result["target_rss_bytes"] = facts["peak_rss_kib"] * 1024
        others = {pid: peak for pid, peak in watch.peaks.items() if pid != facts["pid"]}
        result["profiler_rss_bytes"] = sum(others.values())
        if code != 0:
            result["note"] = "exit %d" % code
    return result
