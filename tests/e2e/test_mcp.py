# SPDX-License-Identifier: Apache-2.0
"""fathom mcp: the tools of a coding agent, asked by the protocol's own client and by clients that mean no good."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import pytest
from capture import BUILD, Python

FATHOM = BUILD / "fathom"
MAX_ANSWER = 40_000  # 16 KB of text, as JSON
MAX_RSS = 64 << 20

BURN = """
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
print("begun")
burn(0.4)
"""


class Client:
    """Writes any line, and reads answers."""

    def __init__(self, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [str(FATHOM), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd
        )

    def send(self, line: Any) -> None:
        assert self.process.stdin
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def answer(self) -> Dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert len(line) < MAX_ANSWER
        found: Dict[str, Any] = json.loads(line)
        assert found.pop("jsonrpc") == "2.0"
        return found

    def request(self, method: str, params: Optional[Dict[str, Any]] = None, number: Any = 1) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})

    def ask(self, method: str, params: Optional[Dict[str, Any]] = None, number: Any = 1) -> Dict[str, Any]:
        self.request(method, params, number)
        found = self.answer()
        assert found["id"] == number
        return found

    def start(self, number: int, tool: str, **arguments: Any) -> None:
        self.request("tools/call", {"name": tool, "arguments": arguments}, number)

    def call(self, tool: str, **arguments: Any) -> Dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def text(self, tool: str, **arguments: Any) -> str:
        result = self.call(tool, **arguments)["result"]
        text: str = result["content"][0]["text"]
        return text

    def highest_rss(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) << 10

    def children(self) -> List[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(word) for word in listed.split()]

    def end(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(10)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = Client(tmp_path)
    yield made
    assert made.highest_rss() < MAX_RSS
    assert made.end() == 0
    assert made.process.stderr and made.process.stderr.read() == b""


@pytest.fixture
def known(build: Path, tmp_path: Path) -> str:
    subprocess.run([build / "tests" / "known_profile", tmp_path / "known.fathom"], check=True)
    return "known.fathom"


def test_official_client_measures_changes_and_checks(some_python: Python, tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp", reason="the protocol's own client is not installed")
    jsonschema = pytest.importorskip("jsonschema")
    for name, text in {"slow.py": BURN, "fast.py": BURN.replace("0.4", "0.1")}.items():
        (tmp_path / name).write_text(text)
    server = mcp.StdioServerParameters(command=str(FATHOM), args=["mcp"], cwd=str(tmp_path))

    async def use() -> None:
        async with mcp.stdio_client(server) as (reader, writer), mcp.ClientSession(reader, writer) as session:
            hello = await session.initialize()
            assert hello.server_info.name == "fathom" and "run" in hello.instructions
            tools = {tool.name: tool.input_schema for tool in (await session.list_tools()).tools}
            assert {"run", "report", "focus", "diff", "check"} <= set(tools) <= {
                "run", "report", "focus", "query", "diff", "check",
            }  # fmt: skip
            for schema in tools.values():
                jsonschema.Draft202012Validator.check_schema(schema)

            async def call(name: str, is_error: bool = False, **arguments: Any) -> str:
                jsonschema.validate(arguments, tools[name])
                result = await session.call_tool(name, arguments)
                assert result.is_error is is_error, result
                text: str = result.content[0].text
                return text

            def folder(text: str) -> str:
                return str(re.findall(r"All of it is in (.*)/profile_results.txt", text)[0])

            ran = await call("run", target="slow.py", python=some_python.path, time_limit_s=30)
            assert ran.startswith("begun\n") and "`burn`" in ran and "```python" in ran
            base = folder(ran)
            assert (tmp_path / base / "profile.fathom").exists()
            new = folder(await call("run", target="fast.py", arguments=["--x"], python=some_python.path))
            assert await call("report", capture=base) in ran + "\n"
            assert "`burn (slow.py:" in await call("focus", capture=base, what="slow.py:1")
            assert "may be one of these" in await call("focus", True, capture=base, what="brun")
            assert "| burn" in (await call("diff", base=base, new=new)).replace("`", "").replace("slow.py:3 ", "| ")
            assert "within the limit" in await call("check", base=base, new=new)
            assert "grew by" in await call("check", True, base=new, new=base, max_slowdown_pct=10)

        if hasattr(mcp, "Client"):  # which begins without a handshake
            async with mcp.Client(mcp.stdio_client(server)) as session:
                assert session.protocol_version == "2026-07-28"
                assert "run" in [tool.name for tool in (await session.list_tools()).tools]

    asyncio.run(use())


@pytest.mark.parametrize(
    "wanted, given",
    [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25")]
    + [("2025-03-26", "2025-11-25"), ("1999-01-01", "2025-11-25")],
)
def test_versions_are_agreed_upon(client: Client, wanted: str, given: str) -> None:
    result = client.ask("initialize", {"protocolVersion": wanted, "capabilities": {}})["result"]
    assert result["protocolVersion"] == given and result["capabilities"] == {"tools": {}}


def request(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping", **members}).encode()


HOSTILE = {
    "no JSON": (b"{", None, -32700),
    "bytes": (bytes(range(1, 10)) + bytes(range(11, 256)), None, -32700),
    "a NUL": (b"\0", None, -32700),
    "half a string": (b'{"jsonrpc": "2.0", "id": 1, "method": "ping', None, -32700),
    "two values": (b"{} {}", None, -32700),
    "nested": (b"[" * 100_000, None, -32700),
    "nested id": (b'{"jsonrpc":"2.0","method":"ping","id":' + b"[" * 20 + b"]" * 20 + b"}", None, -32600),
    "a batch": (b"[" + request() + b"," + request() + b"]", None, -32600),
    "an empty batch": (b"[]", None, -32600),
    "a number": (b"1", None, -32600),
    "no version": (b'{"id": 7, "method": "ping"}', 7, -32600),
    "version 1": (request(jsonrpc="1.0"), 7, -32600),
    "no method": (b'{"jsonrpc": "2.0", "id": 7}', 7, -32600),
    "method is a number": (request(method=5), 7, -32600),
    "id is null": (request(id=None), None, -32600),
    "id is half a number": (request(id=1.5), None, -32600),
    "id is huge": (request(id=1e300), None, -32600),
    "id is text": (request(id='"\n\x1b', method="x"), '"\n\x1b', -32601),
    "unknown method": (request(method="resources/list"), 7, -32601),
    "params are a list": (request(params=[1]), 7, -32602),
    "version of tomorrow": (request(params={"_meta": {"io.modelcontextprotocol/protocolVersion": "9"}}), 7, -32022),
    "initialize without version": (request(method="initialize"), 7, -32602),
    "too long": (request(method="x" * (300 << 10)), None, -32600),
}
CALLS: Dict[str, Dict[str, Any]] = {
    "no such tool": {"name": "format_disk", "arguments": {}},
    "tool is a list": {"name": ["run"]},
    "no arguments": {"name": "run"},
    "arguments are text": {"name": "run", "arguments": "x"},
    "target is a number": {"name": "run", "arguments": {"target": 1}},
    "unknown argument": {"name": "run", "arguments": {"target": "x", "shell": True}},
    "arguments hold a number": {"name": "run", "arguments": {"target": "x", "arguments": ["a", 1]}},
    "a NUL": {"name": "run", "arguments": {"target": "x\0y"}},
    "limit is text": {"name": "run", "arguments": {"target": "x", "time_limit_s": "1"}},
    "limit is negative": {"name": "run", "arguments": {"target": "x", "time_limit_s": -1}},
    "repeat is a half": {"name": "run", "arguments": {"target": "x", "repeat": 1.5}},
    "flag is text": {"name": "report", "arguments": {"capture": "x", "detailed": "yes"}},
    "one capture": {"name": "diff", "arguments": {"base": "x"}},
}


def test_hostile_lines_are_answered_as_the_protocol_says(client: Client) -> None:
    for what, (line, number, code) in HOSTILE.items():
        client.send(line)
        found = client.answer()
        assert (found["id"], found["error"]["code"]) == (number, code), (what, found)
    for what, params in CALLS.items():
        assert client.ask("tools/call", params)["error"]["code"] == -32602, what
    # What asks for nothing is not answered, whatever it is.
    for line in (b"", b"  \r", request(method="notifications/initialized").replace(b'"id": 7, ', b"")):
        client.send(line)
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}})
    client.send({"jsonrpc": "2.0", "method": "no/such", "params": [1]})
    client.send({"jsonrpc": "2.0", "id": 3, "result": {}})
    assert client.ask("ping", number="last") == {"id": "last", "result": {}}


def test_a_line_without_end_takes_no_memory(client: Client) -> None:
    assert client.process.stdin
    for _ in range(100):
        client.process.stdin.write(b"[1," * (1 << 18))
    client.send(b"")
    assert client.answer()["error"]["code"] == -32600
    assert client.ask("ping")["result"] == {}
    assert client.highest_rss() < 16 << 20
    client.send(b"[" + b"0," * 131_000)  # the most that is read into a tree
    assert client.answer()["error"]["code"] == -32700


def test_words_of_the_client_are_no_options(client: Client, known: str) -> None:
    for text in (
        client.text("run", target="--help"),
        client.text("report", capture="--explain"),
        client.text("run", target="--help", module=True),
    ):
        assert "Options:" not in text and "exit code" in text, text
    assert "no function or line" in client.text("focus", capture=known, what="--json")
    assert client.text("focus", capture=known, what="App.work").startswith("### `App.work`")


def test_answers_are_bounded_and_say_what_was_cut(client: Client, some_python: Python, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "print('first')\nfor i in range(50000): print('x' * 99)\nprint('\\x1b[31mlast')\n"
    )
    text = client.text("run", target="loud.py", python=some_python.path)
    assert len(text) < 17_000 and text.startswith("first\nxxx")
    cut = re.findall(r"\[(\d+) bytes were cut out here\]", text)
    assert len(cut) == 1 and 4_980_000 < int(cut[0]) < 5_000_000
    assert "\x1b" not in text and "profile_results.txt" in text


def wait_until(is_so: Any, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def sleeper(tmp_path: Path, some_python: Python) -> Dict[str, Any]:
    """Arguments of a run that would take an hour; it leaves its process id."""
    (tmp_path / "sleep.py").write_text(
        "import os, sys, time\nopen(sys.argv[1], 'w').write(str(os.getpid()))\ntime.sleep(3600)\n"
    )
    return {"target": "sleep.py", "python": some_python.path}


def pid_of(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text())
    return int(path.read_text())


def is_gone(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def test_cancelled_calls_end_and_are_not_answered(client: Client, tmp_path: Path, sleeper: Dict[str, Any]) -> None:
    for number in range(4):
        client.start(number, "run", **sleeper, arguments=[f"{number}.pid"])
    pids = [pid_of(tmp_path / f"{number}.pid") for number in range(4)]
    assert client.ask("ping", number="now")["result"] == {}, "it answers while programs run"
    client.start(5, "run", **sleeper, arguments=["5.pid"])
    busy = client.answer()
    assert busy["id"] == 5 and busy["error"]["code"] == -32000 and "4 calls" in busy["error"]["message"]
    for number in range(4):
        params = {"requestId": number, "reason": "changed my mind"}
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    for pid in pids:
        wait_until(lambda: is_gone(pid))  # noqa: B023
    wait_until(lambda: not client.children())
    assert client.ask("ping", number="then")["result"] == {}, "none of the four has answered"


def test_what_a_cancelled_program_has_begun_ends_with_it(client: Client, tmp_path: Path, some_python: Python) -> None:
    """Its child does not hear what the program is asked, and has its own output."""
    (tmp_path / "parent.py").write_text(
        "import subprocess, time\nchild = subprocess.Popen(['sleep', '3600'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "open('child.pid', 'w').write(str(child.pid))\ntime.sleep(3600)\n"
    )
    client.start(1, "run", target="parent.py", python=some_python.path)
    pid = pid_of(tmp_path / "child.pid")
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    wait_until(lambda: not client.children())
    wait_until(lambda: is_gone(pid))


def test_queries_are_answered_as_markdown_and_only_read(client: Client, known: str, tmp_path: Path) -> None:
    before = (tmp_path / known).read_bytes()
    sql = "SELECT name, kind FROM functions ORDER BY self_s DESC, name"
    answer = client.text("query", capture=known, sql=sql, limit=1)  # which has the notes of standard error, too
    printed = subprocess.run(
        [FATHOM, "query", "--markdown", "-n", "1", known, sql], cwd=tmp_path, stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    assert answer.startswith(printed) and printed.startswith("| name | kind |\n|---|---|\n| ")
    assert "the first 1 of " in answer, "it says that there are more"
    assert "no such table: function; did you mean functions?" in client.text(
        "query", capture=known, sql="SELECT * FROM function"
    )
    for hostile in (
        "DELETE FROM functions",
        "ATTACH 'x.db' AS x",
        "SELECT load_extension('x')",
        "--tables",
        "PRAGMA data_version",
    ):
        answer = client.text("query", capture=known, sql=hostile)
        assert "[exit code 2]" in answer, answer
    wide = client.text("query", capture=known, sql="SELECT replace(hex(zeroblob(500000)), '0', 'x') FROM functions")
    assert len(wide) < 17_000 and "bytes were cut out here" in wide
    assert (tmp_path / known).read_bytes() == before and sorted(os.listdir(tmp_path)) == [known]


def test_a_time_limit_ends_the_program_and_leaves_a_report(client: Client, sleeper: Dict[str, Any]) -> None:
    text = client.text("run", **sleeper, arguments=["x.pid"], time_limit_s=0.5)
    assert "Ended by signal 15" in text and "profile_results.txt" in text
    assert "[exit code 143]" in text


def test_all_that_runs_ends_with_the_client(tmp_path: Path, sleeper: Dict[str, Any]) -> None:
    client = Client(tmp_path)
    client.start(1, "run", **sleeper, arguments=["x.pid"])
    pid = pid_of(tmp_path / "x.pid")
    assert client.end() == 0
    wait_until(lambda: is_gone(pid))
    killed = Client(tmp_path)
    killed.start(1, "run", **sleeper, arguments=["y.pid"])
    pid = pid_of(tmp_path / "y.pid")
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.process.wait(10)
    wait_until(lambda: is_gone(pid))
