# SPDX-License-Identifier: Apache-2.0
"""The viewer's server and those who mean it no good: requests that lie about where they end, that are too large or never end. Nothing of the capture gets
out without the token, and whoever asks properly is answered meanwhile and afterwards."""

import contextlib
import random
import re
import socket
import subprocess
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Iterator, List

import load
import pytest
from capture import BUILD
from test_serve import Server

N_CONNECTIONS = 96  # core/serve/timeouts.h
FIRST_S = 10  # and how long a question may take


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("hostile") / "known.fathom"
    subprocess.run([BUILD / "tests" / "known_profile", path], check=True)
    server = Server("--no-open", path)
    yield server
    assert server.process.poll() is None  # whatever came: it is still there
    server.end()


def say(server: Server, request: bytes, seconds: float = 5) -> bytes:
    """Everything that comes back until the other end hangs up, or says nothing for a while."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as s:
        answer = b""
        try:
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
            while True:
                part = s.recv(65536)
                if not part:
                    return answer
                answer += part
        except OSError:  # it hung up on the rest, or is silent
            return answer


def statuses(answer: bytes) -> List[int]:
    return [int(n) for n in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


def head(server: Server, line: str, *more: str, token: bool = False) -> bytes:
    lines = [line, f"Host: 127.0.0.1:{server.port}", *more]
    if token:
        lines.append(f"X-Fathom-Token: {server.token}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def is_well(server: Server) -> bool:
    return server.ask("/api/bundle").status == 200


def is_answered(server: Server) -> bool:
    try:
        return is_well(server)
    except (OSError, HTTPException):
        return False


@pytest.mark.parametrize(
    "framing",
    [
        ["Content-Length: 4", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 4"],
        ["Content-Length: 0", "Content-Length: 200"],
        ["Content-Length: 200", "Content-Length: 0"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding : chunked"],
        ["Content-Length: +4"],
        ["Content-Length: -1"],
        ["Content-Length: 4, 4"],
        ["Content-Length: 99999999999999999999999"],
        ["Content-Length: 0x10"],
        [" Content-Length: 4"],
    ],
    ids=lambda v: "_".join(v),
)
def test_a_request_inside_another(server: Server, framing: List[str]) -> None:
    """Where the first ends is disputed; what comes inside of it, without a token, is answered by nothing of worth."""
    inner = head(server, "GET /api/bundle HTTP/1.1")
    for body in (b"0\r\n\r\n" + inner, inner, b"4\r\nabcd\r\n0\r\n\r\n" + inner, b"fffffffffffffffff\r\n" + inner):
        answer = say(server, head(server, "GET /api/nothing HTTP/1.1", *framing, token=True) + body, 2)
        assert 200 not in statuses(answer) and b"FMVIEW1" not in answer, answer[:500]
    assert is_well(server)


def test_two_in_a_row_each_need_the_token(server: Server) -> None:
    right, wrong = head(server, "GET /api/bundle HTTP/1.1", token=True), head(server, "GET /api/bundle HTTP/1.1")
    assert statuses(say(server, right + right)) == [200, 200]
    assert statuses(say(server, right + wrong)) == [200, 401]
    assert statuses(say(server, wrong + right)) == [401]  # who asks wrongly has to come again


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:{p}.evil.example", "127.0.0.1:{p}@evil.example", "evil.example@127.0.0.1:{p}", "127.1:{p}", "0:{p}",
     "[::1]:{p}", "127.0.0.1:0{p}", "127.0.0.1:{p}/", "localhost:{p}, evil.example"],
)  # fmt: skip
def test_names_that_look_like_ours(server: Server, host: str) -> None:
    request = f"GET / HTTP/1.1\r\nHost: {host.format(p=server.port)}\r\n\r\n".encode()
    answer = say(server, request)
    assert 200 not in statuses(answer) and b"<!doctype" not in answer


def test_no_host_at_all(server: Server) -> None:
    for request in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    ):
        answer = say(server, request)
        assert 200 not in statuses(answer) and b"<!doctype" not in answer


def test_whole_addresses_are_no_way_around(server: Server) -> None:
    for target in (
        "http://evil.example/api/bundle",
        f"http://127.0.0.1:{server.port}/api/bundle",
        "*",
        "evil.example:443",
    ):
        for method in ("GET", "CONNECT", "OPTIONS"):
            assert 200 not in statuses(say(server, head(server, f"{method} {target} HTTP/1.1", token=True)))


def test_too_much(server: Server) -> None:
    """Answered with a refusal, or hung up on; and it does not grow by what is sent."""

    def resident_kb() -> int:
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())[1])  # type: ignore[index]

    assert is_well(server)
    before = resident_kb()
    for request in (
        head(server, "GET /" + "a" * 1_000_000 + " HTTP/1.1", token=True),
        head(server, "GET /api/source?file=" + "%2e" * 300_000 + " HTTP/1.1", token=True),
        head(server, "GET / HTTP/1.1", "X: " + "a" * 1_000_000),
        head(server, "GET / HTTP/1.1", *[f"X-{i}: {i}" for i in range(50_000)]),
        head(server, "GET / HTTP/1.1", "X: 1\r\n" + " more\r\n" * 50_000),
        b"G" * 1_000_000,
        b"\r\n" * 500_000,
    ):
        assert all(s >= 400 for s in statuses(say(server, request)))
    body = head(server, "POST /api/nothing HTTP/1.1", "Content-Length: 50000000") + b"x" * 50_000_000
    assert statuses(say(server, body, 30)) in ([], [404])
    # 200,000 threads: more than may be asked for, but within no header's limit.
    many = ",".join(["1"] * 3000)
    assert statuses(say(server, head(server, f"GET /api/bundle?threads={many} HTTP/1.1", token=True)))[:1] in (
        [200],
        [414],
        [431],
    )
    assert is_well(server)
    assert resident_kb() - before < 30_000


def test_rubbish(server: Server) -> None:
    rng = random.Random(7)
    right = head(server, "GET /api/bundle HTTP/1.1", "Accept: */*", "Cookie: a=b; c=d")
    for _ in range(150):
        request = bytearray(right)
        for _ in range(rng.choice([1, 2, 8])):
            request[rng.randrange(len(request))] = rng.randrange(256)
        answer = say(server, bytes(request), 2)
        assert 200 not in statuses(answer), request  # no token was in it
    assert is_well(server)


def test_answers_are_not_split(server: Server) -> None:
    answer = say(server, head(server, "GET /api/source?file=a%0d%0aX-Evil:%201%0d%0a%0d%0a HTTP/1.1", token=True))
    headers = answer.partition(b"\r\n\r\n")[0]
    assert statuses(answer) == [404] and b"evil" not in headers.lower()


def is_gone(s: socket.socket) -> bool:
    """The other end hung up: now, without waiting for it."""
    timeout = s.gettimeout()
    s.setblocking(False)
    try:
        while s.recv(1 << 20):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        s.settimeout(timeout)


def connections(server: Server, request: bytes, n: int) -> List[socket.socket]:
    made = []
    for _ in range(n):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        s.sendall(request)
        made.append(s)
    return made


@pytest.mark.parametrize("kind", ["half_a_line", "half_a_body", "silent", "unread_page"])
def test_who_has_no_token_keeps_nobody_out(server: Server, kind: str) -> None:
    """All places taken, and again and again: each proper question is answered at once, long before anybody's time is over."""
    request = {
        "half_a_line": b"GET /api/bund",
        "half_a_body": head(server, "POST /api/bye HTTP/1.1", "Content-Length: 400"),
        "silent": b"",
        "unread_page": 20 * head(server, "GET / HTTP/1.1"),
    }[kind]
    taken: List[socket.socket] = []
    for _ in range(3):
        taken += connections(server, request, N_CONNECTIONS)
        assert is_well(server)
    # Those who came first went first, and no more of them than had to.
    gone = [is_gone(s) for s in taken]
    assert all(gone[:N_CONNECTIONS]), gone
    for s in taken:
        s.close()


def test_who_comes_again_at_once_keeps_nobody_out(server: Server) -> None:
    """150 threads, each with half a line, and with another as soon as it is hung up on."""
    is_over = threading.Event()
    n_made = [0] * 150

    def insist(i: int) -> None:
        while not is_over.is_set():
            try:
                with socket.create_connection(("127.0.0.1", server.port), timeout=1) as s:
                    s.sendall(b"GET /api/bund")
                    n_made[i] += 1
                    s.recv(1)
            except OSError:
                pass

    threads = [threading.Thread(target=insist, args=(i,)) for i in range(len(n_made))]
    for t in threads:
        t.start()
    try:
        while sum(n_made) < 2 * N_CONNECTIONS:  # all places are taken by now
            time.sleep(0.01)
        answered = sum(is_answered(server) for _ in range(20))
    finally:
        is_over.set()
        for t in threads:
            t.join()
    assert answered == 20


def test_who_has_the_token_stays(server: Server) -> None:
    """A stream that is being read is never the one that has to go."""
    watching = connections(server, head(server, "GET /api/live HTTP/1.1", token=True), 3)
    for s in watching:
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    taken = connections(server, b"GET /", 2 * N_CONNECTIONS)
    assert is_well(server)
    assert not any(is_gone(s) for s in watching)
    for s in watching + taken:
        s.close()


def test_those_who_never_finish_are_hung_up_on(server: Server) -> None:
    """Fewer than there are places, each with a byte now and then: they go when their time is over."""
    request = head(server, "GET / HTTP/1.1", "X-Slow: " + "a" * 400)
    unfinished = head(server, "POST /api/bye HTTP/1.1", "Content-Length: 400")
    slow = connections(server, request[:20], 20) + connections(server, unfinished, 20)
    start = time.monotonic()
    staying = slow
    while staying:
        assert time.monotonic() - start < FIRST_S + (load.longer(20) or 20)
        for s in staying:
            with contextlib.suppress(OSError):
                s.sendall(b"x")
        time.sleep(0.5)
        staying = [s for s in staying if not is_gone(s)]
        assert is_well(server)
    assert time.monotonic() - start > FIRST_S - 2
    for s in slow:
        s.close()
