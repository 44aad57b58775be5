# SPDX-License-Identifier: Apache-2.0
"""Watching a program while it runs: what is told, to whom, and that the program does not care who watches."""

import http.client
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

import pytest
from capture import BUILD, ROOT, Python
from tracing import ALL, FEW, LONG

FATHOM = BUILD / "fathom"
each_python = True  # conftest: chosen here

# Three quarters of the CPU time in heavy(), by its own clock; steps of a zone and a counter that are the same number; two threads.
PROGRAM = """
import signal, sys, threading, time, fathom
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
def spin(cpu_s):
    end = time.thread_time() + cpu_s
    while time.thread_time() < end: pass
def heavy(): spin(0.015)
def light(): spin(0.005)
def sleeper():
    while True: time.sleep(0.05)
threading.Thread(target=sleeper, daemon=True).start()
fathom.mark("begun")
end, steps = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    with fathom.zone("step"):
        heavy(); light()
    steps += 1
    fathom.counter("steps", steps)
    time.sleep(0.02)  # half of a CPU is for the other tests
sys.exit(3)
"""


def environment() -> Dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FATHOM_"))}
    env["PYTHONPATH"] = str(ROOT / "python")
    return env


class Watched:
    """A program that runs and listens; `port` and `token` are what it said on stderr."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        how: str = "record",
        listen: str = "0",
        options: Sequence[str] = (),
        python: Optional[Python] = None,
    ) -> None:
        script = folder / "watched.py"
        script.write_text(PROGRAM)
        self.profile = folder / f"watched-{time.monotonic_ns()}.fathom"
        self.stderr = self.profile.with_suffix(".err")
        interpreter = python.path if python else sys.executable
        head = [str(FATHOM), "record", "-o", str(self.profile), "--listen", listen, *options, "--", interpreter]
        if how == "run":
            head = [str(FATHOM), "run", "--quiet", "--cpu", "--output-dir", str(folder / "results"), "--listen", listen]
            head += [*options, "--python", interpreter]
        elif how == "trace":
            head = [interpreter, "-m", "fathom", "-q", "-o", str(self.profile), "--listen", listen, *options]
        with self.stderr.open("w") as err:
            self.process = subprocess.Popen([*head, str(script), str(seconds)], stderr=err, env=environment())
        self.port, self.token = 0, ""
        until = time.monotonic() + 30
        while not self.port and time.monotonic() < until and self.process.poll() is None:
            match = re.search(r"http://\S+?:(\d+)/#token=([\w-]+)&view=live", self.stderr.read_text())
            if match:
                self.port, self.token = int(match[1]), match[2]
            time.sleep(0.02)

    def ask(self, path: str = "/api/now", **headers: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest("GET", path, skip_host="host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.body = answer.read()  # type: ignore[attr-defined]
        connection.close()
        return answer

    def now(self) -> Dict[str, Any]:
        answer = self.ask()
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def begun(self, window_s: float = 0) -> Dict[str, Any]:
        """The first that has something to tell, of so many seconds."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            now = self.now()
            if now["state"] != "starting" and now["window_s"] >= window_s:
                return now
            time.sleep(0.2)
        raise AssertionError("it does not begin")

    def server(self) -> int:
        """The process that serves."""
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"serve-live" in words and str(self.profile).encode() in words:
                return int(entry.name)
        raise AssertionError("nobody serves")

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def live(*args: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(FATHOM), "live", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=60, env=environment(), **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Iterator[Watched]:
    """One that runs for as long as these tests need."""
    w = Watched(tmp_path_factory.mktemp("live"), 300)
    assert w.port, w.stderr.read_text()
    w.begun(5)
    yield w
    w.end()


def functions(now: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    return {f["name"]: f for f in now["functions"]}


@pytest.mark.statistical
def test_what_is_told_is_true(watched):
    now = watched.now()
    assert now["schema"] == "fathom.live/1" and now["state"] == "running" and now["window_s"] == 5
    assert now["command"][-2:] == [str(watched.profile.parent / "watched.py"), "300"]
    hot = functions(now)
    whole = hot["heavy"]["total_s"] + hot["light"]["total_s"]
    # 15 ms of 20 by the thread's own clock. On a busy machine a window has some 500 samples of 25 steps, of which it may cut two.
    assert 0.65 < hot["heavy"]["total_s"] / whole < 0.85
    assert hot["spin"]["total_s"] == pytest.approx(whole, rel=0.1) and hot["spin"]["self_s"] > 0
    assert now["functions"][0]["self_s"] > max(f["self_s"] for f in now["functions"]) - 0.05
    threads = {t["name"]: t for t in now["threads"]}
    assert (
        threads["main"]["state"] in ("python", "native", "system", "gil waiting", "waiting")
        and threads["main"]["tid"] == now["pid"]
    )
    classes = [threads["main"][k] for k in ("python_s", "native_s", "system_s", "gc_s")]
    assert threads["main"]["cpu_s"] == pytest.approx(sum(classes), abs=1e-5)  # each is told in microseconds
    assert sum(threads["main"]["busy"]) * 0.25 == pytest.approx(threads["main"]["cpu_s"], abs=0.1)
    other = next(t for t in now["threads"] if t["name"] != "main")
    assert other["cpu_s"] < 0.2 and other["wait_s"] + other["gil_wait_s"] > 2.5
    # A zone of 20 ms of CPU time each, and one counter that counts them.
    step = {z["name"]: z for z in now["zones"]}["step"]
    assert step["mean_s"] >= 0.0195 and step["max_s"] >= step["mean_s"]
    steps = {c["name"]: c for c in now["counters"]}["steps"]
    values = [v for v in steps["values"] if v is not None]
    assert values == sorted(values) and len(values) > 3
    # The first value is the last of its bucket, which has room for thirteen steps.
    assert -1 <= step["n"] - (values[-1] - values[0]) <= 14
    assert [m["text"] for m in now["marks"]] == ["begun"]


@pytest.mark.statistical
def test_once_in_the_terminal_and_for_scripts(watched):
    text = live("--once", watched.port)
    assert text.returncode == 0 and text.stderr == ""
    assert re.search(r"THREADS.*\n *main .*\n", text.stdout) and "\033" not in text.stdout
    assert "heavy (watched.py:" in text.stdout and re.search(r"\nstep +\d", text.stdout) and "begun" in text.stdout
    answer = live("--once", "--json", f"127.0.0.1:{watched.port}")
    assert json.loads(answer.stdout)["state"] == "running"
    address = f"http://127.0.0.1:{watched.port}/#token={watched.token}&view=live"
    assert json.loads(live("--once", "--json", address).stdout)["pid"] == json.loads(answer.stdout)["pid"]


def test_once_waits_for_something_to_show(tmp_path):
    """It listens before its program begins: nothing is known of it then."""
    watched = Watched(tmp_path, 20)
    try:
        now = json.loads(live("--once", "--json", watched.port).stdout)
    finally:
        watched.end()
    assert now["samples"] + now["wait_samples"] > 0 and now["threads"], now


def test_the_screen_of_a_terminal(watched):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(str(FATHOM), ["fathom", "live", str(watched.port)])
    seen, until = b"", time.monotonic() + 30
    while seen.count(b"THREADS") < 2 and time.monotonic() < until:
        if select.select([fd], [], [], 0.2)[0]:
            seen += os.read(fd, 65536)
    assert seen.startswith(b"\033[?1049h") and seen.count(b"THREADS") >= 2 and b"heavy" in seen
    os.write(fd, b"q")
    while time.monotonic() < until:
        try:
            seen += os.read(fd, 65536)
        except OSError:  # the other end is closed
            break
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 0
    assert b"\033[?1049l" in seen


def test_the_page_and_its_data_come_from_the_same_server(watched):
    assert watched.ask("/").body.startswith(b"<!doctype html>")
    bundle = watched.ask("/api/bundle")
    assert bundle.status == 200 and b'"live":true' in bundle.body[:20000]


def test_who_is_answered(watched):
    """On its own machine, its own user needs no token; what comes by way of another site's page does not pass."""
    host = f"127.0.0.1:{watched.port}"
    assert watched.ask().status == 200
    assert watched.ask(X_Fathom_Token=watched.token).status == 200
    for wrong in ("evil.example", f"evil.example:{watched.port}", "127.0.0.1:1", f"10.0.0.1:{watched.port}"):
        assert watched.ask(host=wrong).status == 403
    assert watched.ask(Origin="http://evil.example").status == 403
    assert watched.ask(Origin=f"http://{host}").status == 200
    assert watched.ask(Sec_Fetch_Site="cross-site").status == 401
    assert watched.ask(Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_of_the_machine_need_the_token(watched):
    def status_as_nobody(**headers: str) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                os.setuid(65534)
                os._exit(watched.ask(**headers).status // 100)
            finally:
                os._exit(0)
        return os.WEXITSTATUS(os.waitpid(pid, 0)[1])

    assert status_as_nobody() == 4
    assert status_as_nobody(X_Fathom_Token=watched.token) == 2


@pytest.mark.statistical
def test_viewers_that_never_read_change_nothing(watched):
    def resident_kib() -> int:
        status = Path(f"/proc/{watched.server()}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+)", status)
        assert match
        return int(match[1])

    before, first = resident_kib(), watched.now()
    sockets = []
    for _ in range(8):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", watched.port))
        s.sendall(f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{watched.port}\r\n\r\n".encode())
        sockets.append(s)
    time.sleep(4)
    now = watched.now()
    # The collector goes on writing, others are answered, and what was not read does not pile up: each has one message waiting, and a
    # thread's stack.
    assert now["samples"] > first["samples"] and now["elapsed_s"] > first["elapsed_s"] + 3
    assert resident_kib() - before < 32 << 10
    for s in sockets:
        s.close()


@pytest.mark.parametrize("how", ["record", "run"])
def test_it_is_followed_to_its_end_and_those_who_do_not_read_do_not_hold_it_up(tmp_path, how):
    w = Watched(tmp_path, 300, how=how)
    mute = socket.create_connection(("127.0.0.1", w.port))
    mute.sendall(f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{w.port}\r\n\r\n".encode())
    viewer = subprocess.Popen([str(FATHOM), "live", "--json", str(w.port)], stdout=subprocess.PIPE, text=True)
    assert viewer.stdout
    lines: List[Dict[str, Any]] = []
    is_told = False
    for text in viewer.stdout:
        lines += [json.loads(text)] if '"starting"' not in text else []
        if len(lines) > 2 and lines[-1]["marks"] and not is_told:
            w.process.send_signal(signal.SIGTERM)  # which the program, once it has begun, takes for its end
            is_told = True
    viewer.stdout.close()
    assert viewer.wait(timeout=30) == 0 and w.process.wait(timeout=30) == 3
    assert len(lines) > 3 and all(a["elapsed_s"] <= b["elapsed_s"] for a, b in zip(lines, lines[1:-1]))
    assert 0 < lines[-1]["elapsed_s"] <= lines[-2]["elapsed_s"] + 30  # when it ended, not when that was told
    assert [line["state"] for line in lines[:-1]] == ["running"] * (len(lines) - 1)
    assert lines[-1]["state"] == "ended" and lines[-1]["exit"] == {"code": 3, "signal": None}
    # What was told last is what the file has.
    profile = w.profile if how == "record" else next((tmp_path / "results").rglob("profile.fathom"))
    report = json.loads(
        subprocess.run([FATHOM, "report", "--json", profile], stdout=subprocess.PIPE, check=True).stdout
    )
    assert report["samples"] == lines[-1]["samples"]
    # One who does not read keeps neither the server nor the port: the next run can have it.
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", w.port)):
                break
        time.sleep(0.1)
    assert time.monotonic() < until
    mute.close()


@pytest.mark.statistical
@pytest.mark.parametrize("python", ALL if LONG else FEW[-1:], ids=str)
def test_a_traced_program(tmp_path, python):
    w = Watched(tmp_path, 60, how="trace", python=python)
    assert w.port, w.stderr.read_text()
    now = w.begun(4)
    hot, zones = functions(now), {z["name"]: z for z in now["zones"]}
    assert now["is_traced"] and now["trace_events"] > 0
    # One heavy() and one light() in each step; a window may cut a step in two.
    assert abs(hot["heavy"]["calls"] - zones["step"]["n"]) <= 2 and abs(hot["light"]["calls"] - zones["step"]["n"]) <= 2
    assert 0.6 < hot["spin"]["own_s"] / now["window_s"] <= 1.01
    spans = [s for s in now["spans"] if s[4] == "step" and s[3] > 0]
    assert len(spans) > 2 and all(s[3] >= 0.0195 for s in spans)
    assert "step" in next(t for t in now["threads"] if t["name"] == "main")["zones"] or zones["step"]["n"] > 0
    w.end()


def test_waits_for_the_program_and_comes_back_after_a_drop(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    viewer = subprocess.Popen(
        [str(FATHOM), "live", "--json", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert viewer.stdout and viewer.stderr
    assert "waiting for a program to listen" in viewer.stderr.readline()  # nobody is there yet
    first = Watched(tmp_path, 60, listen=str(port))
    assert json.loads(viewer.stdout.readline())["state"] in ("starting", "running")
    pid = first.begun()["pid"]
    os.kill(first.server(), signal.SIGKILL)  # the viewer's connection breaks off; the program does not notice
    second = Watched(tmp_path, 300, listen=str(port))
    for line in viewer.stdout:
        now = json.loads(line)
        if now.get("pid") not in (None, 0, pid):
            break
    assert now["state"] in ("running", "ended")
    assert first.process.poll() is None
    second.begun()
    second.process.send_signal(signal.SIGTERM)
    viewer.communicate(timeout=60)
    assert viewer.returncode == 0  # the second one has ended
    second.process.wait(timeout=30)
    first.end()
    for stream in (viewer.stdout, viewer.stderr):
        stream.close()


def test_nobody_there_is_one_line():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    for options in (["--once"], []):
        done = live(*options, "--wait", "0.5", port)
        assert done.returncode == 1 and done.stdout == ""
        assert f"nothing listens at 127.0.0.1 port {port}" in done.stderr


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n"
EVENTS, JSON = HEAD % b"text/event-stream", HEAD % b"application/json"
RUBBISH = {
    "no_http": b"\x00\xffSSH-2.0-OpenSSH_9.2\r\n",
    "no_http_and_a_blank_line": b"hello\r\n\r\nhello\r\n\r\n",
    "half_a_word": b"HT",
    "endless_head": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10000,
    "a_page": HEAD % b"text/html" + b"<html>hello</html>\n\n",
    "no_type": b"HTTP/1.1 200 OK\r\n\r\n{}",
    "nothing": b"%(head)s",
    "no_json": b"%(head)sevent: now\ndata: {\n\n",
    "other_json": b'%(head)sevent: now\ndata: {"schema": "other/1"}\n\n',
    "no_events": b"%(head)s" + bytes(range(1, 256)) * 20 + b"\n\n",
    "endless_event": b"%(head)s" + b"x" * (17 << 20),
}


class Liar:
    """Answers each question with the same bytes, and hangs up."""

    def __init__(self, answer: bytes) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port, self.answer = self.listener.getsockname()[1], answer
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                try:
                    question = peer.recv(65536)
                    is_stream = question.startswith(b"GET /api/live")
                    peer.sendall(self.answer.replace(b"%(head)s", EVENTS if is_stream else JSON))
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(65536):
                        pass
                except OSError:
                    pass

    def end(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


# --open asks for the head only: what the page makes of the rest, it says itself.
WAYS = [[], ["--json"], ["--once"], ["--once", "--json"], ["--open"]]
LIES = [
    (kind, way) for kind, answer in RUBBISH.items() for way in WAYS if way != ["--open"] or b"%(head)s" not in answer
]


@pytest.mark.parametrize("kind, options", LIES, ids=lambda v: v if isinstance(v, str) else " ".join(v) or "stream")
def test_a_server_that_is_not_ours_is_one_line(kind, options):
    liar = Liar(RUBBISH[kind])
    try:
        done = live(*options, "--wait", "1", liar.port)
    finally:
        liar.end()
    assert done.returncode == 1 and done.stdout == "", done
    assert done.stderr.count("\n") == 1 and len(done.stderr) < 300
    assert "the server there is not Fathom" in done.stderr


def test_other_machines_need_the_token(tmp_path):
    w = Watched(tmp_path, 60, listen="0.0.0.0:0", options=["--token", "open-sesame"])
    text = w.stderr.read_text()
    match = re.search(r"fathom live --token open-sesame \S+:(\d+)'", text)
    assert match, text
    w.port = int(match[1])
    assert w.ask().status == 401
    assert w.ask(X_Fathom_Token="open-sesamE").status == 401
    assert w.ask(X_Fathom_Token="open-sesame").status == 200
    assert w.ask(X_Fathom_Token="open-sesame", host=f"10.1.2.3:{w.port}").status == 200
    assert w.ask(X_Fathom_Token="open-sesame", host=f"evil.example:{w.port}").status == 403
    wrong = live("--once", "--token", "wrong-token", w.port)
    assert wrong.returncode == 1 and wrong.stderr.count("\n") == 1 and "--token" in wrong.stderr
    assert live("--once", "--json", "--token", "open-sesame", w.port).returncode == 0
    w.end()


@pytest.mark.parametrize("how", ["record", "trace"])
def test_a_port_in_use_is_one_line_and_the_program_runs(tmp_path, how):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        w = Watched(tmp_path, 0.1, how=how, listen=str(port))
        assert w.process.wait(timeout=60) == 3
    said = [line for line in w.stderr.read_text().splitlines() if line.startswith("fathom: ")]
    assert len(said) == 1 and f"port {port}" in said[0] and "the program runs" in said[0]
    assert w.profile.stat().st_size > 0


PROFILER = """
import sys, warnings, fathom
warnings.simplefilter("always")
profiler, late = fathom.Profiler("p.fathom", listen=sys.argv[1]), fathom.Profiler(listen=0)
def work():
    with late:
        return sys.stdin.readline()
with profiler:
    work()
profiler.close()
with late, late:
    work()
"""


def test_a_profiler_lets_itself_be_watched(tmp_path):
    script, err = tmp_path / "t.py", tmp_path / "err"
    script.write_text(PROFILER)
    command = [sys.executable, str(script), "0"]
    with err.open("w") as stderr, subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=stderr, env=environment(), cwd=tmp_path
    ) as process:
        for n in (1, 2):  # the second time it is the other one's own capture
            until, found = time.monotonic() + 30, []
            while len(found) < n and time.monotonic() < until and process.poll() is None:
                found = re.findall(r"'fathom live (\d+)'", err.read_text())
                time.sleep(0.02)
            now = {"state": "starting"}
            while now["state"] == "starting" and time.monotonic() < until:
                now = json.loads(live("--once", "--json", found[n - 1]).stdout)
            assert now["pid"] == process.pid and now["state"] == "running"
            process.stdin.write(b"on\n")
            process.stdin.flush()
    assert process.returncode == 0
    assert err.read_text().count("nobody can watch") == 0 and (tmp_path / "p.fathom").exists()


def test_a_profiler_that_cannot_be_watched_says_so(tmp_path):
    script = tmp_path / "t.py"
    script.write_text(PROFILER)

    def run(listen: object) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(script), str(listen)]
        return subprocess.run(command, input="\n\n", capture_output=True, text=True, env=environment(), cwd=tmp_path)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run(taken.getsockname()[1])
    assert done.returncode == 0 and done.stderr.count("the program runs, but nobody can watch") == 1, done.stderr
    assert (tmp_path / "p.fathom").exists()
    done = run("nowhere")
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("RuntimeError: "), done.stderr
    script.write_text(
        "import fathom\nlate = fathom.Profiler(listen=0)\nwith fathom.Profiler():\n    with late, late: pass\n"
    )
    assert run("").stderr.count("a capture runs already that nobody can watch") == 1


def test_wrong_usage_is_said_before_anything_runs(tmp_path):
    target = tmp_path / "t.py"
    target.write_text("print('ran')")
    for command in (
        [str(FATHOM), "run", "--listen", "nowhere", str(target)],
        [str(FATHOM), "run", "--listen", "0", "--repeat", "2", str(target)],
        [str(FATHOM), "record", "--listen", "1:2:x", "--", sys.executable, str(target)],
        [str(FATHOM), "record", "--listen", "0", "--token", "short", "--", sys.executable, str(target)],
        [sys.executable, "-m", "fathom", "--listen", "70000", str(target)],
        [str(FATHOM), "live", "x:y"],
        [str(FATHOM), "live", "--token", "a b", "1"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=tmp_path)
        assert done.returncode == 2 and "ran" not in done.stdout and done.stderr.count("\n") == 1, done


def test_nobody_listens_unless_asked_to(tmp_path):
    script = tmp_path / "t.py"
    script.write_text("import time; time.sleep(1)")
    profile = tmp_path / "p.fathom"
    process = subprocess.Popen([str(FATHOM), "record", "-o", str(profile), "--", sys.executable, str(script)])
    time.sleep(0.6)
    words = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
    assert not [w for w in words if b"serve-live" in w and str(profile).encode() in w]
    assert process.wait(timeout=30) == 0
