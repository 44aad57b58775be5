"""Every way to start another process, each with about the same CPU time to burn.

Prints "WAY PID PARENT CPU_SECONDS" for each.

Usage: children.py SECONDS [OTHER_PYTHON]
"""

import multiprocessing
import os
import subprocess
import sys
import time

BURN = (
    "import os, sys, time\n"
    "def burn(way, seconds):\n"
    "    while time.process_time() < seconds:\n"
    "        sum(range(300))\n"
    "    sys.stdout.write('%s %d %d %.6f\\n' % (way, os.getpid(), os.getppid(), time.process_time()))\n"
    "    sys.stdout.flush()\n"
)
exec(BURN)


def start_python(way, seconds, python=sys.executable):
    return [python, "-c", BURN + "burn(%r, %r)" % (way, seconds)]


def main():
    seconds = float(sys.argv[1])
    for method in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=burn, args=("multiprocessing." + method, seconds))  # noqa: F821
        process.start()
        process.join()
        assert process.exitcode == 0
    subprocess.run(start_python("subprocess", seconds), check=True)
    pid = os.fork()
    if pid == 0:
        other = sys.argv[2] if len(sys.argv) > 2 else sys.executable
        os.execv(other, start_python("fork+exec", seconds, other))
    os.waitpid(pid, 0)
    pid = os.fork()
    if pid == 0:
        burn("fork", time.process_time() + seconds)  # noqa: F821
        os._exit(0)
    os.waitpid(pid, 0)
    pid = os.posix_spawn(sys.executable, start_python("posix_spawn", seconds), os.environ)
    os.waitpid(pid, 0)
    # A shell and two programs that are not Python.
    subprocess.run("head -c 60000000 /dev/zero | sha256sum >/dev/null", shell=True, check=True)
    burn("parent", time.process_time() + seconds)  # noqa: F821
    sys.exit(21)


if __name__ == "__main__":
    main()
