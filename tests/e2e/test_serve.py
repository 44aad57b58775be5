# SPDX-License-Identifier: Apache-2.0
"""The viewer's server: who is answered, what is answered, and when it ends."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Iterator, Optional

import pytest
from capture import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests" / "reader"))
from fathom_view import Bundle  # noqa: E402

FATHOM, TOOLS = BUILD / "fathom", BUILD / "tests"


class Server:
    def __init__(self, *args: object) -> None:
        env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
        self.process = subprocess.Popen(
            [str(FATHOM), "view", *map(str, args)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        assert self.process.stdout and self.process.stderr
        line = self.process.stdout.readline()
        if not line:
            why = self.process.stderr.read()
            self.process.wait()
            if "without the viewer's page" in why:
                pytest.skip("the program was built where Node could not be had")
            raise AssertionError(why)
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#token=([0-9a-f]{32})\n", line)
        assert match, line
        self.port, self.token = int(match[1]), match[2]

    def ask(self, path: str, method: str = "GET", token: Optional[str] = "", **headers: str):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host="host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if token is not None:
            connection.putheader("X-Fathom-Token", token or self.token)
        connection.endheaders()
        response = connection.getresponse()
        response.body = response.read()
        connection.close()
        return response

    def bundle(self, path: str = "/api/bundle") -> Bundle:
        answer = self.ask(path)
        assert answer.status == 200, answer.body
        return Bundle(answer.body)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=60)
        assert "Sanitizer" not in said, said  # of FATHOM_BUILD=build-asan and build-tsan


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("serve") / "known.fathom"
    subprocess.run([TOOLS / "known_profile", path], check=True)
    return path


@pytest.fixture(scope="module")
def server(known) -> Iterator[Server]:
    server = Server("--no-open", known, known)
    yield server
    server.end()


def test_page_and_its_headers(server):
    page = server.ask("/", token=None)
    assert page.status == 200 and page.body.startswith(b"<!doctype html>")
    assert page.getheader("Content-Type") == "text/html; charset=utf-8"
    assert page.getheader("X-Content-Type-Options") == "nosniff"
    assert page.getheader("Cache-Control") == "no-store"
    policy = page.getheader("Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http:" not in policy and "*" not in policy
    assert server.token.encode() not in page.body  # the page holds no secret: anyone may ask for it


def test_only_the_token_opens_the_data(server):
    for token in (None, "0" * 32, server.token[:-1], server.token + "0", server.token.upper() + "x"):
        for path, method in (("/api/bundle", "GET"), ("/api/diff", "GET"), ("/api/live", "GET"), ("/api/bye", "POST"),
                             ("/api/source?file=/home/user/app.py", "GET")):  # fmt: skip
            answer = server.ask(path, method, token=token)
            assert answer.status == 401 and len(answer.body) < 200
    assert server.ask("/api/bundle?token=" + server.token, token=None).status == 401
    assert server.ask("/api/bundle").status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
)
def test_other_hosts_are_refused(server, host):
    answer = server.ask("/", host=host.format(port=server.port))
    assert answer.status in (400, 403)
    assert b"<!doctype" not in answer.body


def test_both_names_of_this_machine_are_taken(server):
    for name in ("127.0.0.1", "localhost", "LOCALHOST"):
        assert server.ask("/api/bundle", host=f"{name}:{server.port}").status == 200


def test_other_origins_are_refused(server):
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{server.port}"):
        assert server.ask("/api/bundle", Origin=origin).status == 403
    assert server.ask("/api/bundle", Origin=f"http://127.0.0.1:{server.port}").status == 200


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/etc/passwd", "/api/../etc/passwd", "/api/",
     "/api", "/api/bundle/", "/api/bundle/../../x", "/index.html", "/favicon.ico", "/api/bundle%00", "/\\..\\x",
     "/api/source/../../etc/passwd"],
)  # fmt: skip
def test_no_other_address_has_an_answer(server, path):
    answer = server.ask(path)
    assert answer.status == 404 and answer.body == b"there is nothing at this address"


@pytest.mark.parametrize("name", ["/etc/passwd", "../../etc/passwd", "file:///etc/passwd", "", "/home/user/app.py%00"])
def test_source_knows_only_what_the_capture_keeps(server, name):
    assert server.ask("/api/source?file=" + name).status == 404


def test_source_as_it_was(server):
    answer = server.ask("/api/source?file=/home/user/app.py")
    assert answer.status == 200 and b"kernel(self.data)" in answer.body
    assert answer.getheader("Content-Type") == "text/plain; charset=utf-8"
    assert server.ask("/api/source").status == 400


def test_other_methods_are_refused(server):
    for path in ("/", "/api/bundle", "/api/live"):
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"):
            assert server.ask(path, method).status == 405
    assert server.ask("/api/bye", "GET").status == 405


def test_bundle_packed_or_not(server):
    packed = server.ask("/api/bundle", Accept_Encoding="gzip, br")
    plain = server.ask("/api/bundle")
    assert packed.getheader("Content-Encoding") == "gzip" and plain.getheader("Content-Encoding") is None
    assert len(packed.body) < len(plain.body)
    a, b = Bundle(packed.body), Bundle(plain.body)
    assert a.head == b.head and a.columns == b.columns
    assert a.head["can_diff"] and not a.head["live"]


def test_a_range_of_time_and_threads(server):
    """tests/support/known.h: the main thread is in class Python for 4 s, then native for 3 s."""
    b = server.bundle("/api/bundle?from_s=3&to_s=5&threads=0")
    # Samples are taken at the end of the millisecond that they stand for.
    assert round(b.head["report"]["time"]["python_s"], 3) == 1.001
    assert round(b.head["report"]["time"]["native_s"], 3) == 0.999
    assert b.head["report"]["samples"] == sum(b["cell.n"]) == 2000
    assert set(b["cell.thread"]) == {0}
    assert "sample.time_s" not in b.columns
    others = server.bundle("/api/bundle?not_threads=0")
    assert set(others["cell.thread"]) == {1, 2} and sum(others["cell.n"]) == 1500
    assert {others.name(f) for f in others["node.function"][1:]} >= {"known_kernel", "[no unwind information]"}
    assert "dumps" not in {others.name(f) for f in others["func_row.function"]}
    nothing = server.bundle("/api/bundle?from_s=1000")
    assert sum(nothing["cell.n"]) == 0 and nothing.n("node") == 1
    assert server.bundle("/api/bundle?from_s=&to_s=&threads=&not_threads=").head["report"]["samples"] == 10300


def test_memory_of_threads_and_ranges(tmp_path):
    """Memory keeps to the threads and to the time asked for."""
    path, mib = tmp_path / "memory.fathom", 1 << 20
    script = f"run 10\nmeta memory sampled\nsample 0 11 1\nsample 1 12 2\nalloc 0 11 1 1 {4 * mib} {4 * mib} 0\n"
    script += f"alloc 1 12 5 2 {5 * mib} {5 * mib} 0\nfree 0 6 1\nalloc 0 13 7 3 {2 * mib} {2 * mib} 0\n"
    subprocess.run([TOOLS / "memory_profile", path], input=script, text=True, check=True)
    server = Server("--no-open", path)
    whole = server.bundle()

    def heap(b: Bundle, column: str) -> dict:
        if "heap.node" not in b.columns:
            return {}
        names = [b.name(b["node.function"][n]) for n in b["heap.node"]]
        return {name: v / mib for name, v in zip(names, b[f"heap.{column}"]) if v}

    assert heap(whole, "alloc") == {"at_11": 4, "at_12": 5, "at_13": 2}
    assert heap(whole, "peak") == {"at_11": 4, "at_12": 5}
    assert heap(server.bundle("/api/bundle?threads=1"), "alloc") == {"at_12": 5}
    part = server.bundle("/api/bundle?threads=1&to_s=1")
    assert heap(part, "alloc") == {} and sum(part["cell.n"]) == 0
    assert "memory.time_s" in whole.columns and "memory.time_s" not in part.columns
    # What was allocated in the range; what was held when most was: the first block is freed after 6 s.
    for query, alloc, peak in (
        ("from_s=0.5&to_s=2", {"at_11": 4}, {"at_11": 4}),
        ("from_s=2&to_s=4", {}, {"at_11": 4}),
        ("from_s=4&to_s=6.5", {"at_12": 5}, {"at_11": 4, "at_12": 5}),
        ("from_s=6.5&to_s=9", {"at_13": 2}, {"at_12": 5, "at_13": 2}),
    ):
        b = server.bundle("/api/bundle?" + query)
        assert (heap(b, "alloc"), heap(b, "peak")) == (alloc, peak), query
    # The page has the same as sums by time.
    grain = whole.head["limits"]["block_grain_s"]
    assert 0 < grain < 0.02
    rows = {whole.name(whole["node.function"][r["node"]]): r for r in whole.rows("block")}
    born = {"at_11": 1, "at_12": 5, "at_13": 7}
    assert {n: r["bytes"] / mib for n, r in rows.items()} == heap(whole, "alloc")
    for name, row in rows.items():
        assert row["born"] * grain <= born[name] < (row["born"] + 1) * grain
    assert rows["at_11"]["died"] * grain <= 6 < (rows["at_11"]["died"] + 1) * grain
    assert rows["at_12"]["died"] == 65535
    server.end()


def zone_truth(request_count: int, from_ns: int, to_ns: int) -> dict:
    """tests/tools/gen_trace.c, by its formula: how many zones of each depth overlap a range, and their durations."""
    found: dict = {depth: [0, 0] for depth in range(4)}

    def add(depth: int, begin: int, length: int) -> None:
        if begin < to_ns and (begin + length > from_ns or begin >= from_ns):
            found[depth][0] += 1
            found[depth][1] += length

    end = 0
    for r in range(request_count):
        at = r * 110000 + r // 1000 * 1000000
        end = at + 110000
        if at >= to_ns or end <= from_ns:
            continue
        add(1, at, 109000)
        for s in range(10):
            add(2, at + s * 10900, 10000)
            for k in range(9):
                jitter = (r * 73856093 ^ s * 19349663 ^ k * 83492791) % 97
                add(3, at + s * 10900 + 100 + k * 1100, 1000 + jitter)
    add(0, 0, end)
    return {d: tuple(v) for d, v in found.items() if v[0]}


def test_zones_of_a_range_are_counted_whatever_the_width(tmp_path):
    """Every zone of a range is in exactly one row of the answer, at any width; close up each has its own."""
    path, n_requests = tmp_path / "trace.fathom", 3000
    subprocess.run([TOOLS / "gen_trace", path, str(2 * 101 * n_requests), "--threads", "2"], check=True)
    server = Server("--no-open", path)
    whole = server.bundle()
    limits = whole.head["limits"]
    assert limits["zones"] == 2 * (101 * n_requests + 1) == sum(whole["zone.n"])
    assert whole.n("zone") <= 50000 and limits["zone_pixels"] >= 512 and limits["zones_left_out"] == 0
    for from_ns, to_ns, pixels in (
        (0, 10**9, 1000), (10**6, 30 * 10**6, 300), (50 * 10**6, 51 * 10**6, 1500), (109 * 10**6, 112 * 10**6, 1),
        (12345678, 12345679, 100), (200 * 10**6, 200 * 10**6 + 50000, 2000),
    ):  # fmt: skip
        b = server.bundle(f"/api/zones?from_s={from_ns / 1e9!r}&to_s={to_ns / 1e9!r}&pixels={pixels}")
        n = b["zone.n"] if "zone.n" in b.columns else [1] * b.n("zone")
        busy = b["zone.busy_s"] if "zone.n" in b.columns else b["zone.duration_s"]
        for thread in (0, 1):
            seen: dict = {}
            for t, d, count, s in zip(b["zone.thread"], b["zone.depth"], n, busy):
                if t == thread:
                    was = seen.get(d, (0, 0))
                    seen[d] = (was[0] + count, was[1] + round(s * 1e9))
            assert seen == zone_truth(n_requests, from_ns, to_ns), (from_ns, to_ns, pixels)
        assert b.head["limits"]["zones_merged"] == sum(c for c in n if c > 1)
        assert b.n("zone") <= 2 * 4 * (2 * pixels + 2)
    close = server.bundle("/api/zones?from_s=0.0001&to_s=0.0002&pixels=1000&threads=1")
    assert "zone.n" not in close.columns and set(close["zone.thread"]) == {1}
    for query in ("", "pixels=0", "pixels=x", "pixels=1e9", "pixels=10&from_s=x"):
        assert server.ask("/api/zones?" + query).status == 400
    server.end()


def test_no_trace_no_zones(server):
    assert server.ask("/api/zones?pixels=100").status == 404


@pytest.mark.parametrize(
    "query", ["from_s=x", "from_s=-1", "to_s=nan", "to_s=1e999", "threads=a", "threads=1,,2", "threads=-1",
              "threads=99999999999999999999", "threads=1&not_threads=2", "from_s=1x"],
)  # fmt: skip
def test_wrong_questions_get_one_sentence(server, query):
    answer = server.ask("/api/bundle?" + query)
    assert answer.status == 400 and b"\n" not in answer.body


def test_threads_that_are_not_there_have_nothing(server):
    assert sum(server.bundle("/api/bundle?threads=4000000000")["cell.n"]) == 0


def test_diff(server, known):
    b = server.bundle("/api/diff")
    assert b.head["diff"] and b["cell.weight_s"] == b["cell.base_s"]
    alone = Server("--no-open", known)
    assert alone.ask("/api/diff").status == 404
    alone.end()


def test_listens_on_loopback_only(server):
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    local = [r[1] for r in rows if r[3] == "0A" and int(r[1].split(":")[1], 16) == server.port]
    assert local == [f"0100007F:{server.port:04X}"]


def test_many_ask_at_once(server):
    wrong = []

    def ask(i: int) -> None:
        b = server.bundle(f"/api/bundle?from_s={i % 4}")
        if sum(b["cell.n"]) != b.head["report"]["samples"]:
            wrong.append(i)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_rubbish_and_silence_do_not_hold_it_up(server):
    rng = os.urandom
    open_sockets = []
    for i in range(20):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        s.sendall(rng(200) if i % 2 else b"GET / HTTP/1.1\r\nHost: ")
        open_sockets.append(s)
    assert server.ask("/api/bundle").status == 200
    for s in open_sockets:
        s.close()


def test_ends_when_the_page_closes(known):
    server = Server("--no-open", known)
    assert server.ask("/api/bye", "POST").status == 200
    assert server.process.wait(timeout=30) == 0


def test_a_reload_is_no_end(known):
    """A page that is loaded again says bye first, then asks; the server is still there for it."""
    server = Server("--no-open", known)
    server.ask("/api/bye", "POST")
    server.bundle()
    time.sleep(3)
    assert server.process.poll() is None
    server.end()


def test_another_open_page_keeps_it(known):
    server = Server("--no-open", known)
    stream = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    stream.sendall(
        f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-Fathom-Token: {server.token}\r\n\r\n".encode()
    )
    assert b"200 OK" in stream.recv(4096)
    server.ask("/api/bye", "POST")
    time.sleep(3)
    assert server.process.poll() is None
    stream.close()
    assert server.process.wait(timeout=30) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ends_on_signals(known, number):
    server = Server("--no-open", known)
    server.process.send_signal(number)
    assert server.process.wait(timeout=30) == 0


def test_follows_a_capture_that_grows(known, tmp_path):
    whole = known.read_bytes()
    path = tmp_path / "growing.fathom"
    path.write_bytes(whole[: len(whole) // 2])
    server = Server("--no-open", path)
    before = server.bundle()
    assert before.head["live"]
    stream = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    stream.sendall(
        f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-Fathom-Token: {server.token}\r\n\r\n".encode()
    )
    said = stream.recv(4096)
    path.write_bytes(whole)
    while b"event: update" not in said:
        more = stream.recv(4096)
        assert more
        said += more
    after = server.bundle()
    assert after.head["report"]["samples"] == 10300 > before.head["report"]["samples"]
    assert not after.head["live"]
    stream.close()
    server.end()


def test_port_that_is_taken(known):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [FATHOM, "view", "--no-open", "--port", str(port), known],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    if "without the viewer's page" in done.stderr:
        pytest.skip("the program was built where Node could not be had")
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(
        rf"fathom: cannot listen on 127.0.0.1 port {port}: .*; choose another with --port\n", done.stderr
    )


def test_opens_a_browser_where_there_is_a_display(known, tmp_path):
    opener = tmp_path / "xdg-open"
    opener.write_text(f'#!/bin/sh\necho "$1" >{tmp_path}/asked.tmp && mv {tmp_path}/asked.tmp {tmp_path}/asked\n')
    opener.chmod(0o755)
    env = {**os.environ, "DISPLAY": ":7", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        [FATHOM, "view", known], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )
    url = process.stdout.readline()
    if not url:
        pytest.skip("the program was built where Node could not be had")
    deadline = time.time() + 30
    while not (tmp_path / "asked").exists():
        assert time.time() < deadline
        time.sleep(0.05)
    assert (tmp_path / "asked").read_text() == url
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_wrong_names_are_said(tmp_path):
    for args in (["nothing.fathom"], []):
        done = subprocess.run(
            [FATHOM, "view", *args], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert done.returncode == (1 if args else 2)
        assert done.stderr.startswith("fathom: ") and done.stderr.count("\n") == 1
