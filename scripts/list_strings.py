#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints every sentence that a user can see: string literals of two words and more, by file. Usage: list_strings.py [--check FILE]

tests/sentences.txt keeps the list, so that a reviewer finds new sentences in one place and reads them as prose: subject, verb, object, the field's words, and for
an error the remedy. --check says whether FILE is still true; `make sentences` writes it anew.
"""

import ast
import re
import sys
from pathlib import Path
from typing import Iterator, List, Tuple

ROOT = Path(__file__).resolve().parent.parent
C_ROOMS = ["agent", "base", "cli", "collect", "format", "image", "import", "read", "render", "serve", "symbolize"]
# A comment, a character, or a string with what stands right behind it: C joins strings that stand side by side.
C_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])'|((?:\"(?:\\.|[^\"\\\n])*\"\s*|PRI[udx]64\s*)+)", re.S)
C_STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"|(PRI[udx]64)')
NOT_SAID = re.compile(r"^\s*#\s*include[^\n]*$|^__asm__\(.*?\);$", re.M | re.S)  # names of files, assembly
WORDS = re.compile(r"[A-Za-z]{2,}[,:;']?s? +[a-z(]{1,}")
MARKUP = re.compile(r"^[<.#@{]|;base64|[{};]\s*$|://www|^\s*(?:SELECT|import|def|static) ")


def of_c(path: Path) -> Iterator[str]:
    for match in C_TOKEN.finditer(NOT_SAID.sub("", path.read_text())):
        if match.group(1):
            yield "".join(text or "%N" for text, _ in C_STRING.findall(match.group(1))).replace('\\"', '"')


def of_python(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value.replace("\n", "\\n")


def sentences() -> Iterator[Tuple[str, List[str]]]:
    files = [path for room in C_ROOMS for path in (ROOT / "core" / room).rglob("*.[ch]")]
    files += (ROOT / "python" / "fathom").rglob("*.py")
    for path in sorted(files):
        found = of_python(path) if path.suffix == ".py" else of_c(path)
        kept = [text for text in found if WORDS.search(text) and not MARKUP.search(text)]
        if kept:
            yield str(path.relative_to(ROOT)), kept


def listed() -> str:
    return "".join(f"{name}\n" + "".join(f"    {text}\n" for text in texts) for name, texts in sentences())


def main(arguments: List[str]) -> int:
    if arguments[:1] != ["--check"]:
        sys.stdout.write(listed())
        return 0
    if Path(arguments[1]).read_text() == listed():
        return 0
    print(
        f"{arguments[1]} lacks sentences that the code has, or has others: read the new ones as prose, then 'make sentences' writes it anew"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
