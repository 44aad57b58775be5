# SPDX-License-Identifier: Apache-2.0
"""Programs that use signals, stacks and descriptors of their own behave as they do without Fathom."""

import functools
import os
import re
import subprocess
import textwrap
from pathlib import Path
from typing import List

import pytest
from capture import Python
from guest import clean_env, compile_target, engines, report, run, some_pythons, under

each_python = True  # conftest: chosen here
ENGINES = engines()
SAME = [
    "urg_sigaction",
    "urg_signal",
    "urg_restart",
    "other_handlers",
    "trap_handler",
    "trap_default",
    "signalfd",
    "sigwait_all",
    "blocked",
    "small_stack",
    "alt_stack",
    "alt_stack_nested",
    "close_all",
]


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_target(tmp_path_factory.mktemp("signals"), "signals", ["signals.c"])


@functools.lru_cache(maxsize=None)
def bare_run(program: Path, what: str) -> "subprocess.CompletedProcess[str]":
    """Without Fathom it is the same with every engine."""
    return run([program, what])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", SAME)
def test_same(what: str, engine: str, signals: Path, tmp_path: Path) -> None:
    profile, stack_use = tmp_path / "p.fathom", tmp_path / "used"
    bare = bare_run(signals, what)
    env = clean_env({"STACK_USE_FILE": str(stack_use)})
    done = run([*under(profile, "--engine", engine, "-r", "5k", "--max-overhead", "0"), signals, what], env=env)
    bare_code = 128 - bare.returncode if bare.returncode < 0 else bare.returncode
    if (what, engine) == ("close_all", "perf"):  # the event is a descriptor, far above all others
        assert done.stdout == "open=1\nfirst=3\n"
    else:
        assert done.stdout == bare.stdout
    assert (done.stderr, done.returncode) == (bare.stderr, bare_code)
    result = report(profile)
    if what not in ("blocked", "signalfd", "sigwait_all"):
        assert result["samples"] >= 20, "it was not sampled, so nothing was shown"
    if (what, engine) == ("close_all", "perf"):  # the ticker goes on where the event ended
        assert any("the ticker continued" in c["why"] for c in result["coverage"]), result["coverage"]
        assert result["samples"] >= 100
    if what == "blocked" and engine == "ticker":
        assert any("thread" in c["what"] and "block" in c["why"] for c in result["coverage"]), result["coverage"]
    if what == "alt_stack":
        used = int(stack_use.read_text())
        print(f"{engine}: a signal frame and our handler used {used} bytes of the alternate stack")
        assert 0 < used <= 8192


def test_daemon(signals: Path, tmp_path: Path) -> None:
    """A program that leaves its parent lives on after Fathom has ended."""
    out = tmp_path / "daemon"
    os.mkfifo(out)
    done = run([*under(tmp_path / "p.fathom"), signals, "daemon", out])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert out.read_text() == "alive\n"
    assert any("child process" in c["what"] for c in report(tmp_path / "p.fathom")["coverage"])


PROGRAMS = {
    "sigurg": """
        import os, signal, time
        seen = []
        assert signal.getsignal(signal.SIGURG) == signal.SIG_DFL
        signal.signal(signal.SIGURG, lambda s, f: seen.append(s))
        for _ in range(50):
            os.kill(os.getpid(), signal.SIGURG)
            t = time.perf_counter() + 0.003
            while time.perf_counter() < t: pass
        print(len(seen), signal.signal(signal.SIGURG, signal.SIG_DFL) is not None)
        """,
    "itimer": """
        import signal, time
        counts = {}
        def handler(s, f): counts[s] = counts.get(s, 0) + 1
        for which, sig in ((signal.ITIMER_PROF, signal.SIGPROF), (signal.ITIMER_REAL, signal.SIGALRM),
                           (signal.ITIMER_VIRTUAL, signal.SIGVTALRM)):
            signal.signal(sig, handler)
            signal.setitimer(which, 0.02, 0.02)
            # by what came, not by the clock: a busy machine delivers fewer
            end = time.monotonic() + 20
            while counts.get(sig, 0) < 10 and time.monotonic() < end: pass
            signal.setitimer(which, 0)
            print(sig.name, counts[sig] >= 10)
        signal.signal(signal.SIGALRM, handler)
        n = counts[signal.SIGALRM]
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        signal.pause()
        print("pause", counts[signal.SIGALRM] - n)
        """,
    "ctrl_c_wakes_sleep": """
        import os, signal, threading, time
        for i in range(20):
            begin = time.monotonic()
            try:
                threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
                time.sleep(5)
                print("not woken")
            except KeyboardInterrupt:
                print("interrupted", time.monotonic() - begin < 2)
        """,
    "faulthandler": """
        import faulthandler, signal, sys, time
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1, all_threads=False, chain=False)
        def inner():
            signal.raise_signal(signal.SIGUSR1)
        inner()
        faulthandler.dump_traceback_later(0.2, exit=False)
        def busy():
            t = time.monotonic() + 0.5
            while time.monotonic() < t: pass
        time.sleep(0.4)
        faulthandler.cancel_dump_traceback_later()
        busy()
        print("end")
        """,
    "segfault": """
        import ctypes, faulthandler, time
        faulthandler.enable()
        t = time.monotonic() + 0.2
        while time.monotonic() < t: pass
        ctypes.string_at(0)
        """,
    "asyncio": """
        import asyncio, signal, os
        async def work(i):
            for _ in range(20):
                await asyncio.sleep(0.002)
                sum(range(5000))
            return i
        async def main():
            got = []
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGUSR1, got.append, 1)
            os.kill(os.getpid(), signal.SIGUSR1)
            done = await asyncio.gather(*(work(i) for i in range(20)))
            process = await asyncio.create_subprocess_exec("echo", "child", stdout=asyncio.subprocess.PIPE)
            out, _ = await process.communicate()
            print(sum(done), got, out)
        asyncio.run(main())
        """,
    "close_all": """
        import os, time
        os.closerange(3, 4096)
        t = time.monotonic() + 0.2
        while time.monotonic() < t: pass
        print(os.open("/dev/null", os.O_RDONLY))
        """,
    "fork_without_warning": """
        import os, sys, time
        pid = os.fork()
        if pid == 0:
            os._exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if sys.version_info >= (3, 9) else 5)
        """,
}


def plain(text: str) -> str:
    """Thread ids differ from run to run."""
    return re.sub(r"0x[0-9a-f]{8,}", "0x", text)


# Which thread takes a Ctrl-C is the scheduler's choice where the machine is crowded, and so whether it wakes the main one.
CHANCE = {"ctrl_c_wakes_sleep"}


@pytest.mark.parametrize(
    "what", [pytest.param(name, marks=pytest.mark.statistical if name in CHANCE else ()) for name in PROGRAMS]
)
@pytest.mark.parametrize("python", some_pythons(), ids=str)
def test_python_same(what: str, python: Python, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAMS[what]))
    command: List[str] = [python.path, "-W", "error", str(script)]
    bare = run(command)
    if what not in ("segfault", "faulthandler"):
        assert bare.returncode == 0, bare.stderr
    done = run([*under(tmp_path / "p.fathom", "-r", "2k"), *command])
    bare_code = 128 - bare.returncode if bare.returncode < 0 else bare.returncode
    assert (done.stdout, plain(done.stderr), done.returncode) == (bare.stdout, plain(bare.stderr), bare_code)
