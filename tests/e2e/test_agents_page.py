# SPDX-License-Identifier: Apache-2.0
"""docs/agents.md: every command of it, in its order, on a program as it speaks of; and what it says of the tools."""

import json
import re
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest
from capture import BUILD, ROOT, Python
from runs import user_env

PAGE = ROOT / "docs" / "agents.md"
MAX_PAGE = 6000
SLOW = """
def parse(words):
    found = []
    for word in words * 40:
        if word not in found:
            found.append(word)
    return found
print(len(parse([str(n) for n in range(600)])))
"""
BETTER = SLOW.replace("found = []", "found = {}").replace("found.append(word)", "found[word] = True")


def commands() -> List[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


def test_the_page_is_short() -> None:
    assert PAGE.stat().st_size < MAX_PAGE


@pytest.mark.statistical
def test_the_loop_works_as_the_page_says(some_python: Python, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "fathom").symlink_to(BUILD / "fathom")
    env = {**user_env(), "FATHOM_PYTHON": some_python.path, "PATH": f"{tools}:{user_env()['PATH']}"}
    script = tmp_path / "slow.py"
    script.write_text(SLOW.lstrip())
    folders: Dict[str, str] = {}
    answers = {}
    assert sum(line.startswith("fathom") for line in commands()) == len(commands()) >= 6
    for line in commands():
        if line.startswith("fathom run") and folders:
            script.write_text(BETTER.lstrip())
        words = re.sub(r"\b(BASE|NEW)\b", lambda m: folders[m[1]], line)
        done = subprocess.run(words, shell=True, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (0, b""), line
        assert len(done.stdout) <= 9000, line
        answers[line] = done.stdout.decode()
        if line.startswith("fathom run"):
            found = re.findall(r"^All of it is in (.*)/profile_results.txt$", answers[line], re.M)
            folders["NEW" if folders else "BASE"] = found[0]
    texts = list(answers.values())
    assert "`if word not in found:`" in texts[0] or "if word not in found:" in texts[0]
    assert "### `parse`" in answers["fathom report --markdown --focus parse BASE"]
    assert "slow.py:4`" in answers["fathom report --markdown --focus slow.py:4 BASE"]
    assert "`slow.py:4` `if word not in found:`" in answers["fathom diff --markdown BASE NEW"]
    assert "within the limit" in texts[-1]


def test_the_tools_are_as_the_page_says(tmp_path: Path) -> None:
    text = PAGE.read_text()
    server = json.loads(re.findall(r"^```json\n(.*?)^```", text, re.M | re.S)[0])["mcpServers"]["fathom"]
    assert server == {"command": "fathom", "args": ["mcp"]}
    rows = re.findall(r"^\| `(\w+)` \| (`.*?) \|", text, re.M)
    said = {name: set(re.findall(r"`(\w+)`", arguments)) for name, arguments in rows}
    asked = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n'
    done = subprocess.run([BUILD / "fathom", "mcp"], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    tools = {
        tool["name"]: set(tool["inputSchema"]["properties"]) for tool in json.loads(done.stdout)["result"]["tools"]
    }
    assert said == tools
