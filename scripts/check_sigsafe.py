#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What runs at signal time, and in the hooks in front of allocators, calls only what is listed with a reason.

    scripts/check_sigsafe.py BUILD                checks the signal-time archive and the hooks' objects of BUILD
    scripts/check_sigsafe.py --objects FILE...    checks these objects or archives as signal-time code
    scripts/check_sigsafe.py --hooks BUILD FILE...    checks these objects as hooks, beside the signal-time archive of BUILD

It catches what eyes do not: a memset born from a zeroing loop, __tls_get_addr born from a plain __thread under -fPIC, and, by
disassembling, a call through a pointer. A list has one line for each thing allowed:

    symbol      reason      an outside symbol that may be used
    *function   reason      this function may call through a pointer
    *file.c     reason      every function of this file may
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, FrozenSet, List, NamedTuple, Set, Tuple

ROOT = Path(__file__).resolve().parent.parent
SIGSAFE_LIST = ROOT / "core/sigsafe/allowed_symbols.txt"
HOOKS_LIST = ROOT / "core/agent/allowed_hook_symbols.txt"
# The functions that stand in front of allocators and copies. Resolving the real ones at start is another file's job.
HOOKS = ("memory_malloc", "memory_python", "memory_copy", "memory_maps", "memory_arrow")
# Thread-locals that the loader has to be asked for. initial-exec and local-exec have other relocations.
DYNAMIC_TLS = re.compile(r"R_X86_64_(TLSGD|TLSLD|GOTPC32_TLSDESC|TLSDESC\w*)|R_AARCH64_TLS(GD|LD|DESC)\w*")
INDIRECT = re.compile(r"\t(?:notrack |bnd )*(?:call|jmp)q?\s+\*|\t(?:blr|br)\s+x(?!30)")


class Code(NamedTuple):
    undefined: Dict[str, str]  # symbol: the first object that uses it
    defined: Set[str]
    outside: List[str]  # signal-time functions that are not in section fm_sigsafe
    indirect: Dict[Tuple[str, str], str]  # (file, function) that calls through a pointer: the instruction
    dynamic_tls: List[str]


def output(*command: str) -> List[str]:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def read_code(files: List[str]) -> Code:
    code = Code({}, set(), [], {}, [])
    for line in output("nm", "-A", *files):
        place, kind, symbol = re.match(r"(.*?):(?:[0-9a-f]+| +) (\w) (\S+)", line).groups()  # type: ignore[union-attr]
        if kind in "UwW" and not re.match(r".*:[0-9a-f]+ ", line):
            code.undefined.setdefault(symbol, place.split(":")[-1])
        else:
            code.defined.add(symbol)
    is_room = False  # of core/sigsafe itself, and not of a file that it shares with others
    for line in output("objdump", "-t", *files):
        if ":     file format " in line:
            is_room = "/core_sigsafe_" in line
        symbol = re.match(r"[0-9a-f]+ .{6}F (\S+)\t[0-9a-f]+ (?:\.hidden )?(\S+)$", line)
        if symbol and (is_room or symbol[2].startswith("fm_sig_")) and symbol[1] != "fm_sigsafe":
            code.outside.append(f"{symbol[2]} lies in {symbol[1]}: mark it FM_SIGSAFE")
    file = function = ""
    for line in output("objdump", "-dr", "--no-show-raw-insn", *files):
        start = re.match(r"[0-9a-f]+ <(.+)>:$", line)
        if line.endswith(("file format elf64-x86-64", "file format elf64-littleaarch64")):
            file = re.sub(r".*?(?:core_[a-z]+_)?(\w+\.c)\.o$", r"\1", line.split(": ")[0])
        elif start:
            function = start.group(1)
        elif DYNAMIC_TLS.search(line):
            code.dynamic_tls.append(f"{function} reaches a thread-local through the loader:{line.split(':', 1)[1]}")
        elif INDIRECT.search(line):
            code.indirect.setdefault((file, function), line.split(":", 1)[1].strip())
    return code


def read_list(path: Path, wrong: List[str]) -> Set[str]:
    allowed = set()
    for line in path.read_text().splitlines():
        fields = line.split(None, 1)
        if not fields or line.startswith("#"):
            continue
        allowed.add(fields[0])
        if len(fields) == 1:
            wrong.append(f"{path.relative_to(ROOT)} lists {fields[0]} without a reason")
    return allowed


def check(files: List[str], list_path: Path, is_sigsafe: bool, checked: FrozenSet[str] = frozenset()) -> List[str]:
    """What is wrong, a line each. Beside what is listed, names that were checked may be used: the signal-time code's, by hooks."""
    wrong: List[str] = []
    allowed = read_list(list_path, wrong)
    code = read_code(files)
    name = list_path.relative_to(ROOT)
    for symbol, place in sorted(code.undefined.items()):
        if symbol not in code.defined | checked | allowed:
            wrong.append(f"{place} uses {symbol}, which {name} does not list")
    for (file, function), call in sorted(code.indirect.items()):
        if not allowed & {"*" + function.split(".")[0], "*" + file}:
            wrong.append(f"{function} calls through a pointer ({call}), which {name} does not list")
    return wrong + (code.outside if is_sigsafe else []) + code.dynamic_tls


def signal_time(build: Path) -> List[str]:
    return [str(path) for path in (build / "libfathom-sigsafe.a.p").glob("*.o")]


def check_hooks(build: Path, hooks: List[str]) -> List[str]:
    return check(hooks, HOOKS_LIST, False, frozenset(read_code(signal_time(build)).defined))


def main(arguments: List[str]) -> int:
    if arguments[:1] == ["--objects"]:
        wrong = check(arguments[1:], SIGSAFE_LIST, True)
        n_files = len(arguments) - 1
    elif arguments[:1] == ["--hooks"]:
        wrong = check_hooks(Path(arguments[1]), arguments[2:])
        n_files = len(arguments) - 2
    else:
        build = Path(arguments[0])
        hooks = [str(build / "_agent.abi3.so.p" / f"core_agent_{name}.c.o") for name in HOOKS]
        agent = [str(path) for path in (build / "_agent.abi3.so.p").glob("*.o")]
        wrong = check(signal_time(build), SIGSAFE_LIST, True) + check_hooks(build, hooks)
        wrong += [line for line in read_code(agent).dynamic_tls if line not in wrong]
        n_files = len(signal_time(build)) + len(agent)
    for line in wrong:
        print("check-sigsafe: " + line)
    if not wrong:
        print(f"check-sigsafe: {n_files} objects, all that they call is listed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
