#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the viewer's page from web/ and writes it as a C source: the program carries it, no user needs Node.

Usage: build_page.py WEB OUT.c
       build_page.py --ask WEB        says in one line when there will be no page, and why
       build_page.py --dist           called by `meson dist`: puts the built page among the sources that are given away

Runs on every build and does nothing when nothing changed. Node is the one on PATH, or the one that scripts/bootstrap.sh brought into
.venv. Without one, or when npm cannot get what the page is made with, the page is left empty, one line says so, and `fathom view`
tells the user.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, Optional

NODE_MIN = 18  # as web/package.json says
RETRY_S = 3600  # what npm could not get is not asked for on every build, unless something else is wanted now


def say(text: str) -> None:
    print(f"build_page: {text}", flush=True)


def sources(web: Path) -> Iterator[Path]:
    for path in web.rglob("*"):
        parts = path.relative_to(web).parts
        if parts[0] not in ("node_modules", "dist", "test", ".npm-failed") and path.is_file():
            yield path


def find_node(web: Path) -> Optional[Path]:
    """The folder of a Node that the page can be made with, and of its npm."""
    places = [Path(node).parent for node in [shutil.which("node")] if node]
    for place in [*places, web.parent / ".venv" / "bin"]:
        if not (place / "npm").exists():
            continue
        try:
            version = subprocess.run(
                [str(place / "node"), "--version"], stdout=subprocess.PIPE, universal_newlines=True
            )
        except OSError:
            continue
        number = re.match(r"v(\d+)", version.stdout)
        if number and int(number.group(1)) >= NODE_MIN:
            return place
    return None


def run_npm(web: Path, node: Path, *args: str) -> Optional[str]:
    """None when it went well, else the line that says why."""
    path = os.pathsep.join([str(node), os.environ.get("PATH", "")])
    try:
        done = subprocess.run(
            [str(node / "npm"), *args], cwd=web, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            universal_newlines=True, timeout=600,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "it took more than ten minutes"
    lines = [line.strip() for line in done.stdout.replace("npm error", "").splitlines()]
    reasons = [line for line in lines if line and not line.startswith(("code ", "npm warn", ">"))]
    return None if done.returncode == 0 else (reasons or ["no reason given"])[0]


def install(web: Path, node: Path) -> Optional[str]:
    lock, stamp, failed = web / "package-lock.json", web / "node_modules" / ".installed", web / ".npm-failed"
    if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
        return None
    wanted = (web / "package.json").read_bytes() + lock.read_bytes()
    if failed.exists() and failed.read_bytes() == wanted and time.time() - failed.stat().st_mtime < RETRY_S:
        return f"npm failed less than an hour ago; remove {failed} to try again now"
    why = run_npm(web, node, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    if why:
        failed.write_bytes(wanted)
        return f"npm ci: {why}"
    stamp.write_bytes(lock.read_bytes())
    if failed.exists():
        failed.unlink()
    return None


def digest(web: Path) -> str:
    """Of all that the page is made from; times tell nothing where files were unpacked from an archive."""
    all_of_it = hashlib.sha256()
    for path in sorted(sources(web)):
        all_of_it.update(f"{path.relative_to(web)}\n{path.stat().st_size}\n".encode() + path.read_bytes())
    return all_of_it.hexdigest()


def find_page(web: Path) -> Optional[Path]:
    """The page, if it is there and made from these sources: built here, or given away with them."""
    page, made_from = web / "dist" / "index.html", web / "dist" / "made-from"
    if not page.exists():
        return None
    if made_from.exists() and made_from.read_text().strip() == digest(web):
        return page
    newest = max(path.stat().st_mtime for path in sources(web))
    return page if page.stat().st_mtime >= newest and not made_from.exists() else None


def why_no_page(web: Path) -> Optional[str]:
    if (web / "dist" / "index.html").exists() or find_node(web):
        return None
    return f"Node {NODE_MIN} or newer, with npm, is not installed"


def give_away() -> int:
    source, target = (Path(os.environ[name], "web") for name in ("MESON_SOURCE_ROOT", "MESON_DIST_ROOT"))
    page = build(source)
    if not page:
        say("the sources would lack the viewer's page, and whoever builds them would need Node")
        return 1
    (target / "dist").mkdir()
    (target / "dist" / "index.html").write_bytes(page)
    (target / "dist" / "made-from").write_text(digest(target) + "\n")
    return 0


def build(web: Path) -> bytes:
    page = web / "dist" / "index.html"
    if not (web / "package.json").exists():
        return b""
    found = find_page(web)
    if found:
        return found.read_bytes()
    why: Optional[str] = f"Node {NODE_MIN} or newer, with npm, is not installed"
    node = find_node(web)
    if node:
        why = install(web, node)
        if not why and (why := run_npm(web, node, "run", "build")):
            say(f"the page cannot be built: {why}")
            sys.exit(1)  # broken sources are an error; missing tools are not
        made_from = web / "dist" / "made-from"
        if not why and made_from.exists():
            made_from.unlink()
    if why and page.exists():
        say(f"the viewer's page stays as it was built last: {why}")
    elif why:
        say(f"the viewer's page is left out: {why}")
    return page.read_bytes() if page.exists() else b""


def as_c(page: bytes) -> str:
    lines = ['#include "render/shared/page.h"', "", "const char fm_page[] ="]
    for at in range(0, len(page), 96):
        text = ""
        for byte in page[at : at + 96]:
            char = chr(byte)
            plain = 0x20 <= byte < 0x7F and char not in '"\\?'
            text += char if plain else f"\\{byte:03o}"
        lines.append(f'\t"{text}"')
    if not page:
        lines.append('\t""')
    return "\n".join(lines) + f";\nconst size_t fm_page_len = {len(page)};\n"


def tell_terminal(line: str) -> None:
    """pip shows nothing of a build that goes well, and who waits for one might rather get Node first."""
    if "PIP_BUILD_TRACKER" in os.environ or "PIP_REQ_TRACKER" in os.environ:
        try:
            with open("/dev/tty", "w") as terminal:
                terminal.write(f"\nbuild_page: {line}\n")
        except OSError:  # nobody is there
            pass


def main() -> int:
    if sys.argv[1] == "--dist":
        return give_away()
    if sys.argv[1] == "--ask":
        why = why_no_page(Path(sys.argv[2]))
        if why:
            line = f"{why}: Fathom will be built without the viewer's page (fathom view, --html, report.html)"
            print(line)
            tell_terminal(line)
        return 0
    web, out = Path(sys.argv[1]), Path(sys.argv[2])
    if web.exists():  # several build folders share it; held until this ends
        fcntl.flock(os.open(web, os.O_RDONLY), fcntl.LOCK_EX)
    text = as_c(build(web))
    if not out.exists() or out.read_text() != text:
        out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
