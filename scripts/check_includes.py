#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no room of core/ includes what it may not (ARCHITECTURE.md). Usage: check_includes.py [ROOT]"""

import re
import sys
from pathlib import Path
from typing import Dict, Iterator, Set, Tuple

EVERYTHING_BUT_THE_TARGET_SIDE = "wire pyabi image format import collect read symbolize aggregate render serve base"

# room: the rooms whose headers it may include, beside its own.
ROOMS: Dict[str, Set[str]] = {
    room: set(allowed.split())
    for room, allowed in {
        "base": "",
        "wire": "base",
        "pyabi": "base",
        "image": "base",
        "sigsafe": "",  # only PLAIN below
        "agent": "sigsafe wire pyabi base",  # of image only PLAIN
        "format": "base",
        "collect": "wire format pyabi image base",
        "import": "format image base",
        "read": "format base",
        "symbolize": "image pyabi read base",
        "aggregate": "read symbolize base",
        "render": "aggregate read base",
        "serve": "render aggregate read base",
        "cli": EVERYTHING_BUT_THE_TARGET_SIDE,
    }.items()
}

# Rooms with rooms inside: each with the others of the same room whose headers it may include. Files right below the room may include all of
# them. No two may include each other, in any number of steps.
SUB_ROOMS: Dict[str, Dict[str, Set[str]]] = {
    room: {sub: set(allowed.split()) for sub, allowed in subs.items()}
    for room, subs in {
        "sigsafe": {
            "base": "",
            "unwind": "base",
            "python": "base unwind",
            "memory": "base unwind python",
            "tick": "base unwind python",
        },
        "collect": {
            "process": "",
            "shared": "process",
            "registry": "process shared",
            "jit": "process shared",
            "remote": "process shared",
            "ingest": "process shared registry jit remote",
            "observe": "process shared registry remote ingest",
            "capture": "process shared registry jit remote ingest observe",
        },
        "aggregate": {
            "tally": "",
            "tree": "tally",
            "heap": "tally tree",
            "trace": "",
            "analysis": "tally tree heap trace",
            "live": "tally trace",
            "compare": "tally tree analysis",
        },
        "render": {
            "shared": "",
            "text": "shared",
            "json": "shared",
            "bundle": "shared json",
            "export": "shared bundle",
            "query": "shared json",
        },
        "cli": {
            "project": "",
            "captures": "",
            "options": "project captures",
            "run": "project captures options",
            "live": "options",
            "mcp": "",
            "commands": "project captures options run live mcp",
        },
    }.items()
}

# Headers that sigsafe (and agent) may include although not the whole room: plain structs, constants, pure functions.
PLAIN = re.compile(
    r"wire/.*|pyabi/(row|pyabi|objects|exports|greenlet|opcodes)\.h|image/(\w*rows?|dwarf_regs|x86_code)\.h|base/(compiler|err|atomic|clock|random|repeatable|system_call|utf8_encode)\.h"
)

# The vocabulary of a profile (classes, frame kinds, reasons): bare enums that every room but base may speak.
VOCABULARY = {"format/model.h"}

# Headers from outside libc, and the rooms that may know of them. Python.h is in no room: offsets come from pyabi.
FOREIGN: Dict[str, Set[str]] = {
    r"zstd.*\.h": {"format", "import", "read", "render"},
    r"(elfutils/.*|libelf\.h|gelf\.h)": {"image"},
    r"dwarf\.h": {"image", "sigsafe"},  # of elfutils, but only the standard's numbers
    r"(libiberty/.*|demangle\.h)": {"symbolize"},
    r"zlib\.h": {"import", "render"},
    r"microhttpd\.h": {"serve"},
    r"sqlite3\.h": {"render"},
    r"Python\.h": set(),
}

# Known exceptions: (file, header): reason and what would end it.
DEBT: Dict[Tuple[str, str], str] = {}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)


def may_include(room: str, sub: str, header: str) -> bool:
    """Whether a file of core/room/sub ("" = right below the room) may include this header of the same room."""
    parts = header.split("/")
    other = parts[1] if len(parts) > 2 else ""
    return sub in ("", other) or other in SUB_ROOMS.get(room, {}).get(sub, set())


def has_order(subs: Dict[str, Set[str]]) -> bool:
    left = dict(subs)
    while left:
        lowest = [sub for sub, allowed in left.items() if not allowed & set(left)]
        if not lowest:
            return False
        for sub in lowest:
            del left[sub]
    return True


def wrong_includes(core: Path) -> Iterator[str]:
    for room, subs in SUB_ROOMS.items():
        if not has_order(subs):
            yield f"the rooms inside of '{room}' may include each other in a circle"
    for path in sorted(core.rglob("*.[ch]")):
        parts, name = path.relative_to(core).parts, str(path.relative_to(core))
        room, sub = parts[0], parts[1] if len(parts) > 2 else ""
        if room not in ROOMS:
            yield f"{path}: '{room}' is no room; add it to scripts/check_includes.py and ARCHITECTURE.md"
            continue
        if sub and sub not in SUB_ROOMS.get(room, {}):
            yield f"{path}: '{sub}' is no room of '{room}'; add it to scripts/check_includes.py and ARCHITECTURE.md"
            continue
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            quote, header = match.groups()
            line = text.count("\n", 0, match.start(1)) + 1
            if (name, header) in DEBT:
                continue
            if quote == "<":
                allowed = all(room in rooms for pattern, rooms in FOREIGN.items() if re.fullmatch(pattern, header))
            else:
                other = header.split("/")[0] if "/" in header else room
                plain = room in ("sigsafe", "agent") and PLAIN.fullmatch(header)
                spoken = header in VOCABULARY and room != "base"
                allowed = (
                    other in ROOMS[room] or bool(plain) or spoken or (other == room and may_include(room, sub, header))
                )
            if not allowed:
                yield f"{path}:{line}: room '{room}{'/' if sub else ''}{sub}' may not include {header}"


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    wrong = list(wrong_includes(root / "core"))
    for line in wrong:
        print(line)
    print(f"check-includes: {len(wrong)} wrong, {len(DEBT)} known exceptions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
