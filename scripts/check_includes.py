#!/usr/bin/env python3
"""Checks that no room of core/ includes what it may not (ARCHITECTURE.md). Usage: check_includes.py [ROOT]"""

import re
import sys
from pathlib import Path
from typing import Dict, Iterator, Set, Tuple

EVERYTHING_BUT_THE_TARGET_SIDE = "wire pyabi image format collect read symbolize aggregate render serve base"

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
        "read": "format base",
        "symbolize": "image pyabi read base",
        "aggregate": "read symbolize base",
        "render": "aggregate read base",
        "serve": "render aggregate read base",
        "cli": EVERYTHING_BUT_THE_TARGET_SIDE,
    }.items()
}

# Headers that sigsafe (and agent) may include although not the whole room: plain structs, constants, pure functions.
PLAIN = re.compile(r"wire/.*|pyabi/(row|pyabi|greenlet)\.h|image/\w*rows?\.h|base/(compiler|err|atomic|clock)\.h")

# The vocabulary of a profile (classes, frame kinds, reasons): bare enums that every room but base may speak.
VOCABULARY = {"format/model.h"}

# Headers from outside libc, and the rooms that may know of them. Python.h is in no room: offsets come from pyabi.
FOREIGN: Dict[str, Set[str]] = {
    r"zstd.*\.h": {"format", "read", "render"},
    r"(elfutils/.*|libelf\.h|gelf\.h|dwarf\.h)": {"image"},
    r"(libiberty/.*|demangle\.h)": {"symbolize"},
    r"zlib\.h": {"render"},
    r"microhttpd\.h": {"serve"},
    r"Python\.h": set(),
}

# Known exceptions: (file, header): reason and what would end it.
DEBT: Dict[Tuple[str, str], str] = {}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)


def wrong_includes(core: Path) -> Iterator[str]:
    for path in sorted(core.rglob("*.[ch]")):
        room, name = path.relative_to(core).parts[0], str(path.relative_to(core))
        if room not in ROOMS:
            yield f"{path}: '{room}' is no room; add it to scripts/check_includes.py and ARCHITECTURE.md"
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
                allowed = other == room or other in ROOMS[room] or bool(plain) or spoken
            if not allowed:
                yield f"{path}:{line}: room '{room}' may not include {header}"


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    wrong = list(wrong_includes(root / "core"))
    for line in wrong:
        print(line)
    print(f"check-includes: {len(wrong)} wrong, {len(DEBT)} known exceptions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
