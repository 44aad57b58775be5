# SPDX-License-Identifier: Apache-2.0
"""What is written about Fathom holds against the program: its options, its commands, and the links between pages."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Set

import pytest
from capture import BUILD, ROOT

PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *ROOT.glob("docs/**/*.md"),
    ]
)
FOR_USERS = [page for page in PAGES if page.parent.name != "decisions" and page.name != "CHANGELOG.md"]
TRACER = "python -m fathom"


def call(command: str, *args: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "fathom"] if command == TRACER else [str(BUILD / "fathom"), *command.split()]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run([*words, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def help_of(command: str) -> str:
    done = call(command, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.lru_cache(maxsize=None)
def commands() -> Dict[str, str]:
    """The help text of each command, by its name."""
    names = re.findall(r"^  ([a-z]+) ", help_of(""), re.M)
    assert "run" in names and "report" in names
    return {name: help_of(name) for name in [*names, TRACER]}


def options_of(text: str) -> Set[str]:
    """Long ones, as the list of a help text has them."""
    rows = re.findall(r"^ +((?:-\w, )?--[a-z][a-z-]*)", text, re.M)
    return {row.split()[-1] for row in rows} | {"--help"}


def names_listed_by(command: str) -> Set[str]:
    return {line.split()[0] for line in call(command, "--list").stdout.splitlines()}


def test_the_table_of_formats_is_what_the_program_lists() -> None:
    """A name, "`collapsed`, `raw`" or "`chrometrace`, read as `chrome`"; what is read of it; what is written; who opened it; in which test."""
    text = (ROOT / "docs" / "formats.md").read_text()
    table = text[text.index("| format | read | written |") :].partition("\n\n")[0].splitlines()[2:]
    read, written = names_listed_by("import"), names_listed_by("export")
    said_read, said_written = set(), set()
    for row in table:
        names, of_read, of_written, consumer, tests = (cell.strip() for cell in row.strip()[1:-1].split("|"))
        outside, _, inside = names.partition(", read as ")
        out_names, in_names = re.findall("`(.+?)`", outside), re.findall("`(.+?)`", inside or outside)
        if of_read:
            said_read |= set(in_names) & read if len(in_names) > 1 else set(in_names)
        if of_written:
            said_written |= set(out_names)
        assert of_read or of_written, row
        assert consumer or set(out_names) <= {"text", "calls", "markdown"}, f"nobody opened it: {row}"
        for name in re.findall(r"`(test_\w+\.py)`", tests):
            assert (ROOT / "tests" / "e2e" / name).exists(), name
        assert "`test_" in tests, row
    assert said_read == read
    assert said_written == written


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_is_in_the_docs(name: str) -> None:
    text = "\n".join(page.read_text() for page in FOR_USERS)
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) | {"--help"}
    missing = options_of(commands()[name]) - written
    assert not missing, f"no page of docs/ names these options of '{name}': {sorted(missing)}"


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_help_has_examples(name: str) -> None:
    text = commands()[name]
    examples = text.partition("Examples:\n")[2].splitlines()
    assert examples and all(len(line) < 130 and line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("name", ["", TRACER, "run", "report"])
def test_a_bare_command_says_where_help_is(name: str) -> None:
    done = call(name)
    assert done.returncode == 2 and not done.stdout
    assert "--help' has" in done.stderr.splitlines()[-1], done.stderr
    assert not name or done.stderr.count("\n") == 1


def shown_commands(text: str) -> List[str]:
    """`fathom ...` and `python -m fathom ...` as blocks and spans of code show them, without what follows in a pipe."""
    code = "\n".join(re.findall(r"^(?:```.*?^```|    \S.*?$)", text, re.M | re.S) + re.findall(r"`([^`\n]+)`", text))
    found = re.findall(r"(?:^|\s)((?:python3? -m )?fathom [a-z-].*)$", code, re.M)
    return [re.split(r"\s+#|[|;&>`]|\s--\s", line)[0] for line in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_pages_show_exist(page: Path) -> None:
    wrong = []
    for line in shown_commands(page.read_text()):
        words = line.split()
        is_traced = words[0].startswith("python") and words[3:] and words[3] not in commands()
        name = TRACER if is_traced else words[words.index("fathom") + 1] if "fathom" in words[:-1] else ""
        if name not in commands():
            continue  # prose, or a flag of its own such as --version
        known = options_of(commands()[name])
        for word in words[words.index("fathom") + 1 :]:
            if re.search(r"\.(py|ipynb)$|^-m$|^\./", word):
                break  # what follows is the program's own
            if re.match(r"--[a-z]", word) and re.match(r"--[a-z-]+", word)[0] not in known:  # type: ignore[index]
                wrong.append(f"{line}: {name} has no {word}")
    assert not wrong, "\n".join(wrong)


def anchors(page: Path) -> Set[str]:
    """As forges make them out of headings."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert not wrong, wrong
