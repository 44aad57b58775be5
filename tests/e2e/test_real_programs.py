# SPDX-License-Identifier: Apache-2.0
"""Programs as people have them, with the libraries they use. Each measures itself what the report must say.

CPU time of a piece of code, by the thread's own clock around it, is the truth that a sampled figure is held against: at 1 kHz and half a second
its standard error is below 5 %, plus the time since the last sample.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Dict, List

import pytest
from guest import FATHOM, LONG, clean_env, default_signals, run, some_pythons
from runs import BURN, Results, fathom_run, one_python, python_with

pytestmark = pytest.mark.statistical

each_python = True  # conftest: chosen here


def near(seconds: float) -> Any:
    return pytest.approx(seconds, rel=0.12, abs=0.05)


def told(results: Results) -> Dict[str, Any]:
    """What the program printed last."""
    assert results.done.returncode == 0, results.done.stderr
    found: Dict[str, Any] = json.loads(results.done.stdout.splitlines()[-1])
    return found


NUMPY = """
import json, time
import numpy as np
spent = {"hot": 0.0, "all": 0.0}
def step(state, kernel):
    start = time.thread_time()
    state = np.tanh(state @ kernel)      # the hot line
    spent["hot"] += time.thread_time() - start
    return state
def analyse(state):
    return sorted(float(x) for x in state[0])[:10]
def simulate(n):
    rng = np.random.default_rng(1)
    state, kernel = rng.normal(size=(300, 300)), rng.normal(size=(300, 300))
    for i in range(n):
        state = step(state, kernel)
        analyse(state)
start = time.thread_time()
while time.thread_time() - start < 1.0: simulate(20)
spent["all"] = time.thread_time() - start
print(json.dumps(spent))
"""


def test_numpy_simulation(tmp_path: Path) -> None:
    """Native time is charged to the line that called it."""
    script = tmp_path / "simulation.py"
    script.write_text(NUMPY)
    env = clean_env({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})
    results = fathom_run(tmp_path, [script], python=python_with("numpy"), env=env)
    spent = told(results)
    line = NUMPY.splitlines().index("    state = np.tanh(state @ kernel)      # the hot line") + 1
    mine = [row for row in results.report["lines"] if row["file"] == str(script)]
    hot = max(mine, key=lambda row: row["total_s"])
    assert hot["line"] == line and hot["function"] == "step"
    assert hot["total_s"] == near(spent["hot"])
    assert hot["native_s"] > 0.9 * hot["total_s"]
    assert results.capture.seconds("simulate") == near(spent["all"])


ASYNCIO = (
    BURN
    + """
import asyncio, json
served = 0.0
async def serve(reader, writer):
    global served
    while await reader.readline():
        start = time.thread_time()
        burn(0.004)
        served += time.thread_time() - start
        writer.write(b"pong\\n"); await writer.drain()
    writer.close()
async def client(port, n):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for i in range(n):
        writer.write(b"ping\\n"); await reader.readline(); await asyncio.sleep(0.001)
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(client(port, 25) for _ in range(6)))
    server.close()
start = time.thread_time()
asyncio.run(main())
print(json.dumps({"served": served, "all": time.thread_time() - start}))
"""
)


def test_asyncio_client_and_server(tmp_path: Path) -> None:
    script = tmp_path / "pingpong.py"
    script.write_text(ASYNCIO)
    for python in one_python(newest=True):
        results = fathom_run(tmp_path, [script], python=python.path)
        spent = told(results)
        assert results.capture.seconds("serve") == near(spent["served"])
        assert results.capture.seconds("main") <= spent["all"]
        assert results.report["cpu_s"] >= 0.9 * spent["all"]


POOL = (
    BURN
    + """
import json, multiprocessing, sys
def work(n):
    start = time.thread_time()
    burn(0.06)
    return time.thread_time() - start
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(3) as pool:
        print(json.dumps({"work": sum(pool.map(work, range(12), chunksize=1))}))
"""
)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_pool(method: str, tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    results = fathom_run(tmp_path, [script, method], python=some_pythons()[-1].path)
    assert results.capture.seconds("work") == near(told(results)["work"])
    workers = {t["pid"] for t in results.report["threads"] if t["cpu_s"] > 0.05}
    assert len(workers) >= 3  # the pool's, beside the main process
    # The line of code that starts a worker is nobody's own.
    assert "<string>" not in (results.folder / "profile_results.txt").read_text()


def test_code_given_to_python_is_the_users_own(tmp_path: Path) -> None:
    """By -c, which is also how pools start their workers."""
    code = BURN + "burn(0.3)"
    results = fathom_run(tmp_path, [some_pythons()[-1].path, "-X", "utf8", "-c", code])
    assert results.done.returncode == 0, results.done.stderr
    assert "burn" in (text := (results.folder / "profile_results.txt").read_text()) and "<string>" in text


FLASK = (
    BURN
    + """
import itertools, threading
from flask import Flask, jsonify
app = Flask(__name__)
numbers = itertools.count()
lock, spent = threading.Lock(), {"render": 0.0, "requests": 0}
def render():
    start = time.thread_time()
    burn(0.012)
    with lock:
        spent["render"] += time.thread_time() - start; spent["requests"] += 1
@app.route("/page")
def page():
    if next(numbers) == 3: app.logger.error("a record of the app")
    render()
    return "ok"
@app.route("/spent")
def get_spent(): return jsonify(spent)
"""
)


def test_flask_under_load(tmp_path: Path) -> None:
    """A server as it is run: requests come from outside, and a signal ends it."""
    python = python_with("flask")
    (tmp_path / "shop.py").write_text(FLASK)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command: List[Any] = [FATHOM, "run", "-q", "--output-dir", tmp_path / "results", "--python", python]
    command += ["-m", "flask", "--app", "shop", "run", "--port", str(port)]
    with open(tmp_path / "said", "wb") as said:
        server = subprocess.Popen(
            command, cwd=tmp_path, stdout=said, stderr=said, env=clean_env(), preexec_fn=default_signals
        )
    try:
        url = "http://127.0.0.1:%d" % port
        for _ in range(300):
            try:
                urllib.request.urlopen(url + "/spent", timeout=5).read()
                break
            except OSError:
                time.sleep(0.1)
        end = time.monotonic() + (10 if LONG else 2)
        problems: List[str] = []

        def load() -> None:
            done = 0
            while time.monotonic() < end or done < 8:  # on a busy machine two seconds are few requests
                done += 1
                if urllib.request.urlopen(url + "/page", timeout=30).read() != b"ok":
                    problems.append("wrong answer")

        clients = [threading.Thread(target=load) for _ in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        spent = json.loads(urllib.request.urlopen(url + "/spent", timeout=30).read())
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    assert code == 128 + signal.SIGTERM and not problems, (tmp_path / "said").read_text()
    (folder,) = (tmp_path / "results" / "flask").iterdir()
    results = Results(folder, subprocess.CompletedProcess(command, code, "", ""))
    assert spent["requests"] > 20
    # A thread for each request: what each did after its last sample, half a millisecond of twelve, is not seen.
    assert 0.75 * spent["render"] < results.capture.seconds("render") < 1.05 * spent["render"]
    assert results.capture.seconds("page") >= 0.9 * results.capture.seconds("render")
    assert [r.message for r in results.records if r.level == "ERROR"] == ["a record of the app"]
    assert results.report["exit"]["signal"] == signal.SIGTERM


PREFORK = (
    BURN
    + """
import os, signal, socket, sys
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen(64)
def answer(connection):
    start = time.thread_time()
    burn(0.03)
    connection.sendall(b"%d %f" % (os.getpid(), time.thread_time() - start)); connection.close()
def serve():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True: answer(listener.accept()[0])
workers = []
for _ in range(3):
    pid = os.fork()
    if pid == 0: serve()
    workers.append(pid)
def stop(*_):
    for pid in workers: os.kill(pid, signal.SIGTERM)
    for pid in workers: os.waitpid(pid, 0)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print(listener.getsockname()[1], flush=True)
while True: signal.pause()
"""
)


def test_a_server_that_forks_workers(tmp_path: Path) -> None:
    """As gunicorn and its kin: workers are forked once and serve until the first process is told to stop."""
    (tmp_path / "prefork.py").write_text(PREFORK)
    command: List[Any] = [
        FATHOM,
        "run",
        "-q",
        "--output-dir",
        tmp_path / "results",
        "--python",
        some_pythons()[-1].path,
    ]
    server = subprocess.Popen(
        [*command, tmp_path / "prefork.py"], stdout=subprocess.PIPE, env=clean_env(), preexec_fn=default_signals
    )
    try:
        assert server.stdout
        port = int(server.stdout.readline())
        answers: List[bytes] = []

        def ask() -> None:
            for _ in range(6):
                with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                    answers.append(connection.makefile("rb").read())

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    assert code == 0 and len(answers) == 24
    spent: Dict[int, float] = {}
    for text in answers:
        pid, seconds = text.split()
        spent[int(pid)] = spent.get(int(pid), 0.0) + float(seconds)
    (folder,) = (tmp_path / "results" / "prefork").iterdir()
    results = Results(folder, subprocess.CompletedProcess(command, code, "", ""))
    assert results.capture.seconds("answer") == near(sum(spent.values()))
    ends = {p["pid"]: p["exit"]["signal"] for p in results.report["processes"]}
    assert len(ends) == 4 and all(pid in ends for pid in spent), ends
    cpu = {pid: sum(t["cpu_s"] for t in results.report["threads"] if t["pid"] == pid) for pid in spent}
    for pid, seconds in spent.items():
        assert seconds - 0.02 <= cpu[pid] <= seconds + 0.2, (cpu, spent)


PYTEST = (
    BURN
    + """
import warnings
def slow(): burn(0.3)
def test_slow(): slow()
def test_wrong(): assert 1 == 2
def test_warns(): warnings.warn("by a test")
"""
)


def test_pytest_itself(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_things.py").write_text(PYTEST)
    args = ["pytest", "-q", "-p", "no:cacheprovider", "tests"]
    bare = run([sys.executable, "-m", *args], cwd=tmp_path)
    results = fathom_run(tmp_path, ["-m", *args], python=sys.executable, cwd=tmp_path)
    assert results.done.returncode == bare.returncode == 1

    def without_times(text: str) -> List[str]:
        return [line.partition(" in ")[0] for line in text.splitlines()]

    assert without_times(results.done.stdout) == without_times(bare.stdout)
    assert results.folder.parent.name == "pytest"
    (slow,) = [f for f in results.report["functions"] if f["name"] == "slow"]
    assert slow["total_s"] == near(0.3) and slow["file"] == str(tests / "test_things.py")


def test_odd_names(tmp_path: Path) -> None:
    """Blanks, quotes and letters beyond ASCII in folders, names and arguments."""
    folder = tmp_path / "mein ordner 'ä' \u65e5\u672c"
    folder.mkdir()
    script = folder / "prüf \u2603.py"
    script.write_text(
        BURN + "import sys, logging\ndef größe(): burn(0.2)\ngröße()\nlogging.warning('hö')\nprint(sys.argv)\n"
    )
    for python in one_python():
        argv = [os.path.relpath(script, tmp_path), "ein \u2603", "'"]
        env = clean_env({"LC_ALL": "C.UTF-8"})
        results = fathom_run(tmp_path, argv, python=python.path, cwd=tmp_path, env=env)
        assert results.done.returncode == 0, results.done.stderr
        assert results.done.stdout == repr(argv) + "\n"
        assert results.folder.parent.name == "prüf \u2603"
        (found,) = [f for f in results.report["functions"] if f["name"] == "größe"]
        assert found["total_s"] == near(0.2) and found["file"].endswith("prüf \u2603.py")
        (record,) = results.records
        assert record.message == "hö" and record.file.endswith("prüf \u2603.py")
        assert "sum(range(2000))" in (results.folder / "profile_results.txt").read_text()
