#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C file of core/ goes through the aarch64 cross compiler's front end, where one is installed (gcc-aarch64-linux-gnu).

Libraries' headers come from this machine: they are the same for both, and nothing is linked.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict

COMPILER = "aarch64-linux-gnu-gcc"
FOREIGN = ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]


def check(entry: Dict[str, str]) -> str:
    """What the compiler says of one file; "" when it has nothing to say."""
    kept = [w for w in shlex.split(entry["command"]) if w[:2] in ("-I", "-D", "-f") or w[:5] == "-std="]
    kept = [w for w in kept if not w.startswith("-fcf-protection")]  # x86 only
    command = [COMPILER, "-fsyntax-only", "-w", *kept, *FOREIGN, entry["file"]]
    return subprocess.run(command, cwd=entry["directory"], stderr=subprocess.PIPE, text=True).stderr


def main() -> int:
    if not shutil.which(COMPILER):
        print(f"check-aarch64: no {COMPILER} here, left out")
        return 0
    entries = json.loads((Path(sys.argv[1]) / "compile_commands.json").read_text())
    ours = [e for e in entries if "/core/" in e["file"] and e["file"].endswith(".c")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = [text for text in pool.map(check, ours) if text]
    print("".join(said), end="")
    print(f"check-aarch64: {len(ours)} files, {len(said)} do not compile")
    return 1 if said or not ours else 0


if __name__ == "__main__":
    sys.exit(main())
