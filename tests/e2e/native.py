# SPDX-License-Identifier: Apache-2.0
"""Builds the native targets, and judges stacks against call chains that are known by construction."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence, Tuple

from capture import TARGETS, Capture

NO_TABLES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]

# name of the library: source, compiler options
LIBRARIES: Dict[str, Tuple[str, List[str]]] = {
    "c_O0": ("ext_c.c", ["-O0"]),
    "c_O2": ("ext_c.c", ["-O2", "-Wl,-z,lazy"]),
    "c_O2now": ("ext_c.c", ["-O2", "-Wl,-z,now", "-fno-plt"]),
    "c_omit": ("ext_c.c", ["-O1", "-fomit-frame-pointer"]),
    "c_O3avx2": ("ext_c.c", ["-O3", "-mavx2"]),
    "c_stripped": ("ext_c.c", ["-O2", "-s"]),
    "c_framepointer0": ("ext_c.c", ["-O0", *NO_TABLES]),
    "c_framepointer2": ("ext_c.c", ["-O2", "-fno-omit-frame-pointer", *NO_TABLES]),
    "c_debugframe": ("ext_c.c", ["-O2", "-g", *NO_TABLES]),
    "c_noindex": ("ext_c.c", ["-O2", "-Wl,--no-eh-frame-hdr"]),
    "cpp_O0": ("ext_cpp.cpp", ["-O0"]),
    "cpp_O2": ("ext_cpp.cpp", ["-O2"]),
    "cpp_O3avx2": ("ext_cpp.cpp", ["-O3", "-mavx2"]),
    # Without symbols a function's cold part has no name of its own.
    "cpp_stripped": ("ext_cpp.cpp", ["-O2", "-s", "-fno-reorder-blocks-and-partition"]),
    "asm_plain": ("ext_asm.S", []),
    "rust_0": ("ext_rust.rs", ["-C", "opt-level=0"]),
    "rust_3": ("ext_rust.rs", ["-C", "opt-level=3", "-C", "panic=unwind"]),
}

# What every sample inside a library's chain looks like, outermost first: a common part, then one of several ends.
PYTHON = ["py_main", "py_loop", "py_outer", "py_middle", "py_inner"]
CHAINS: Dict[str, Tuple[List[str], List[List[str]]]] = {
    "c": (
        ["py_main", "py_loop", "py_outer", "c_enter", "c_mid", "py_middle", "c_deep", "c_inner", "py_inner", "c_spin"],
        [
            ["c_work"],
            ["c_tail", "c_work"],
            ["c_large", "c_work"],
            ["c_jump", "c_work"],
            ["c_sort", "c_compare", "c_work"],
            ["c_clock"],
            ["c_signal", "c_handler", "c_work"],
            ["c_alternate", "c_handler", "c_work"],
            ["c_fiber"],
            *[["c_jump", *["c_jumper"] * n, "c_work"] for n in range(1, 7)],
        ],
    ),
    "cpp": (
        [
            "py_main",
            "py_loop",
            "py_outer",
            "cpp_enter",
            "cpp_apply",
            "visit",
            "py_middle",
            "cpp_deep",
            "visit",
            "py_inner",
            "cpp_spin",
        ],
        [["cpp_work"], ["cpp_catcher", "cpp_work"], ["cpp_sort", "cpp_less", "cpp_work"]]
        + [["cpp_catcher", *["cpp_thrower"] * n, "~Cleaner", "cpp_work"] for n in range(1, 6)],
    ),
    "asm": (
        [
            "py_main",
            "py_loop",
            "py_outer",
            "asm_enter",
            "asm_mid",
            "py_middle",
            "asm_deep",
            "asm_inner",
            "py_inner",
            "asm_spin",
        ],
        [["asm_work"]],
    ),
    "rust": (
        [
            "py_main",
            "py_loop",
            "py_outer",
            "rust_enter",
            "rust_call",
            "py_middle",
            "rust_deep",
            "rust_call",
            "py_inner",
            "rust_spin",
        ],
        [["rust_work"], ["rust_sort", "rust_work"], ["rust_catcher"]]
        + [["rust_catcher", *["rust_panicker"] * n, "rust_drop", "rust_work"] for n in range(1, 6)],
    ),
}
# A fiber's stack ends where the fiber began; what lies below it is Python's alone.
FIBER = [*PYTHON, "c_fiber_main", "c_work"]
THREAD = ["cpp_thread_main", "cpp_work"]


def compile_libraries(folder: Path, names: Sequence[str]) -> Tuple[List[Path], List[str]]:
    """The libraries that this machine can build, and a line for each compiler that it lacks."""
    built, missing = [], []
    for name in names:
        source, options = LIBRARIES[name]
        compiler = {".c": "cc", ".S": "cc", ".cpp": "c++", ".rs": "rustc"}[Path(source).suffix]
        out = folder / (name + ".so")
        if not shutil.which(compiler):
            missing.append(f"{name}: no {compiler} here")
            continue
        shared = (
            ["--crate-type", "cdylib", "-C", "prefer-dynamic=no"]
            if compiler == "rustc"
            else ["-shared", "-fPIC", "-pthread"]
        )
        subprocess.run([compiler, *shared, *options, str(TARGETS / source), "-o", str(out)], check=True, cwd=folder)
        built.append(out)
    return built, missing


def plain_name(label: str) -> str:
    """`(anonymous)::cpp_apply<int>(int) [clone] (lib.so)` -> cpp_apply"""
    name = re.sub(r" \([^()]*\)$", "", label)
    name = re.sub(r"\(.*|<.*| \[clone.*|\.(cold|part|constprop|isra)\b.*", "", name)
    return name.split("::")[-1].split(" ")[-1]


class Verdict(NamedTuple):
    n: int
    n_broken: int
    reasons: "Counter[str]"
    wrong: "Counter[str]"


def is_error(label: str) -> bool:
    return label.startswith("[") and not label.endswith(")")


def own_part(labels: List[str]) -> List[str]:
    """Of a worker's stack, what is its own: the rest is the line that it works for."""
    return labels[labels.index("[worker threads]") + 1 :] if "[worker threads]" in labels else labels


def is_prefix(names: List[str], chain: List[str]) -> bool:
    return names == chain[: len(names)]


def judge(capture: Capture) -> Dict[str, Verdict]:
    """By library: samples inside its chain, those with a reason instead of a whole stack, and those that tell a wrong story."""
    found: Dict[str, Verdict] = {}
    known = {n for base, ends in CHAINS.values() for n in base + sum(ends, [])} | set(FIBER + THREAD)
    for whole, n in capture.collapsed():
        labels = own_part(whole)
        if any(plain_name(label) == "py_warm_up" for label in whole):
            continue
        libraries = [m[1] for m in (re.search(r"\((\w+)\.so\)$", label) for label in labels) if m and m[1] in LIBRARIES]
        # With debug information a frame names its source file: only one library has any.
        if not libraries and any("(ext_c.c" in label for label in labels):
            libraries = ["c_debugframe"]
        if not libraries:
            continue
        verdict = found.setdefault(libraries[0], Verdict(0, 0, Counter(), Counter()))
        names = [name for name in map(plain_name, labels) if name in known]
        prefix = libraries[0].partition("_")[0]
        base, ends = CHAINS[prefix]
        errors = [label for label in labels if is_error(label)]
        is_right = (
            any(is_prefix(names, base + end) for end in ends)
            or is_prefix(names, THREAD)
            or ("c_fiber_main" in names and is_prefix(names, FIBER))
        )
        # A new fiber's first return address is its function's very beginning: looked up as a return address, it is the one before.
        is_right |= plain_name(labels[-1]) in ("swapcontext", "setcontext", "makecontext") and is_prefix(
            names[:5], PYTHON
        )
        found[libraries[0]] = verdict._replace(n=verdict.n + n, n_broken=verdict.n_broken + (n if errors else 0))
        if errors:
            at = labels.index(errors[0])
            verdict.reasons[f"{errors[0]} below {labels[at + 1] if at + 1 < len(labels) else 'nothing'}"] += n
        elif not is_right and any(label.startswith("_Unwind_R") for label in labels):
            # libgcc is installing the registers of the frame that catches: what it saved of its callers is overwritten already.
            found[libraries[0]] = found[libraries[0]]._replace(n_broken=found[libraries[0]].n_broken + n)
            verdict.reasons["frames skipped below _Unwind_Resume or _Unwind_RaiseException"] += n
        elif not is_right:
            verdict.wrong[";".join(names) + "   of   " + ";".join(labels)] += n
    return found
