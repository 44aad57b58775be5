# SPDX-License-Identifier: Apache-2.0
"""The checks that guard the house must themselves catch what they are there for."""

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Set

import pytest

SIGSAFE_FLAGS = "-fno-builtin -fno-tree-loop-distribute-patterns -fno-stack-protector -ftls-model=initial-exec".split()


def run(command: List[str], **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)  # type: ignore


def check_includes(root: Path, tree: Path, files: Dict[str, str]) -> "subprocess.CompletedProcess[str]":
    for name, text in files.items():
        path = tree / "core" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return run([sys.executable, str(root / "scripts" / "check_includes.py"), str(tree)])


@pytest.mark.parametrize(
    "name, line",
    [
        ("read/a.c", '#include "collect/drain.h"'),
        ("base/a.h", '#include "format/model.h"'),
        ("sigsafe/a.c", '#include "base/mem.h"'),
        ("sigsafe/a.c", '#include "image/elf.h"'),
        ("cli/a.c", '#  include "agent/start.h"'),
        ("agent/a.c", "#include <Python.h>"),
        ("render/a.c", "#include <elfutils/libdw.h>"),
        ("attic/a.c", ""),
    ],
)
def test_wrong_include_is_caught(root: Path, tmp_path: Path, name: str, line: str) -> None:
    result = check_includes(root, tmp_path, {name: "// first line\n" + line + "\n"})
    assert result.returncode == 1
    assert name in result.stdout


def test_right_includes_pass(root: Path, tmp_path: Path) -> None:
    files = {
        "read/a.c": '#include <stdio.h>\n#include "format/model.h"\n#include "read/a.h"\n#include "base/mem.h"\n',
        "sigsafe/a.c": '#include <elf.h>\n#include "wire/ring.h"\n#include "pyabi/row.h"\n#include "sigsafe.h"\n',
    }
    result = check_includes(root, tmp_path, files)
    assert result.returncode == 0, result.stdout


BAD_OBJECTS = {
    "memset born from a loop": (
        "void fm_sig_f(char *p, int n) { for (int i = 0; i < n; i++) p[i] = 0; }",
        [],
        "memset",
    ),
    "tls through a call": (
        "extern __thread int v; int fm_sig_f(void) { return v; }",
        ["-fno-builtin"],
        "__tls_get_addr",
    ),
    "direct call": (
        "void *malloc(unsigned long); void *fm_sig_f(void) { return malloc(1); }",
        SIGSAFE_FLAGS,
        "malloc",
    ),
    # What was there until its fault was found: CPython's accessor asks the loader for a thread-local, and the loader allocates.
    "call through a pointer": (
        "struct py { void *(*current_thread_state)(void); } fm_sig_py; void *fm_sig_f(void) { return fm_sig_py.current_thread_state(); }",
        SIGSAFE_FLAGS,
        "fm_sig_f calls through a pointer",
    ),
    "outside the section": (
        'int fm_sig_elsewhere(void) __attribute__((section(".text"))); int fm_sig_elsewhere(void) { return 1; }',
        SIGSAFE_FLAGS,
        "fm_sig_elsewhere lies in .text",
    ),
}

# A function of ours that was not checked may call anything: the name alone does not make it safe.
BAD_HOOK = "void fm_agent_bind_all(void); void hook(void) { fm_agent_bind_all(); }"


def compile_sigsafe(tmp_path: Path, code: str, flags: List[str]) -> Path:
    source, target = tmp_path / "unit.c", tmp_path / "unit.o"
    source.write_text(code.replace("fm_sig_f(", '__attribute__((section("fm_sigsafe"))) fm_sig_f(') + "\n")
    compiled = run(["gcc", "-O3", "-fPIC", *flags, "-c", str(source), "-o", str(target)])
    assert compiled.returncode == 0, compiled.stdout
    return target


@pytest.mark.parametrize("what", list(BAD_OBJECTS))
def test_unsafe_object_is_caught(root: Path, tmp_path: Path, what: str) -> None:
    code, flags, named = BAD_OBJECTS[what]
    result = run([str(root / "scripts" / "check_sigsafe.py"), "--objects", str(compile_sigsafe(tmp_path, code, flags))])
    assert result.returncode == 1, result.stdout
    assert named in result.stdout


def test_helper_of_the_room_outside_the_section_is_caught(root: Path, tmp_path: Path) -> None:
    code = "__attribute__((noinline, noipa)) static int helper(int n) { return n + 1; } int fm_sig_f(int n) { return helper(n); }"
    target = compile_sigsafe(tmp_path, code, SIGSAFE_FLAGS).rename(tmp_path / "core_sigsafe_tick_unit.c.o")
    result = run([str(root / "scripts" / "check_sigsafe.py"), "--objects", str(target)])
    assert result.returncode == 1, result.stdout
    assert "helper lies in .text" in result.stdout


@pytest.mark.parametrize("function, status", [("fm_agent_bind_all", 1), ("fm_sig_fault_check", 0)])
def test_hook_calls_what_was_checked(root: Path, build: Path, tmp_path: Path, function: str, status: int) -> None:
    code = BAD_HOOK.replace("fm_agent_bind_all", function)
    target = compile_sigsafe(tmp_path, code, SIGSAFE_FLAGS)
    result = run([str(root / "scripts" / "check_sigsafe.py"), "--hooks", str(build), str(target)])
    assert result.returncode == status, result.stdout
    assert (f"uses {function}" in result.stdout) == bool(status)


def test_safe_object_passes(root: Path, tmp_path: Path) -> None:
    code = BAD_OBJECTS["memset born from a loop"][0]
    target = compile_sigsafe(tmp_path, code, SIGSAFE_FLAGS)
    result = run([str(root / "scripts" / "check_sigsafe.py"), "--objects", str(target)])
    assert result.returncode == 0, result.stdout


def test_poisoned_name_stops_the_compiler(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text('#include <stdlib.h>\n#include "sigsafe/base/sigsafe.h"\nvoid *f(void) { return malloc(1); }\n')
    result = run(["gcc", "-I", str(root / "core"), "-c", str(source), "-o", str(tmp_path / "a.o")])
    assert result.returncode != 0
    assert 'poisoned "malloc"' in result.stdout


@pytest.fixture
def agent(root: Path, build: Path) -> Path:
    path = build / "_agent.abi3.so"
    if not path.exists() and not list((root / "core" / "agent").glob("*.c")):
        pytest.skip("core/agent has no sources")
    assert path.exists(), "core/agent has sources but the agent was not built"
    return path


def test_agent_needs_libc_only(agent: Path) -> None:
    dynamic = run(["readelf", "-dW", str(agent)]).stdout
    needed = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2"}
    assert "NOW" in dynamic, "a lazily bound symbol would be resolved inside a handler"


# Functions that came after glibc 2.17, which the wheel is for; base/kernel.h has those by number that are needed.
YOUNGER = (
    "arc4random close_range copy_file_range execveat explicit_bzero getcpu getdents64 getentropy getrandom gettid "
    "memfd_create mlock2 pidfd_getfd pidfd_open pidfd_send_signal preadv2 pthread_clockjoin_np pthread_cond_clockwait "
    "pthread_mutex_clocklock pwritev2 reallocarray renameat2 statx strlcat strlcpy tgkill timespec_getres"
).split()


def test_nothing_younger_than_the_oldest_libc(build: Path) -> None:
    """`make wheel` is no part of `make test`, and what it is built for is not this machine's."""
    for name in ("fathom", "_agent.abi3.so"):
        lines = run(["nm", "-D", "--undefined-only", str(build / name)]).stdout.splitlines()
        wanted = {line.split()[-1].split("@")[0] for line in lines}
        assert len(wanted) > 50 and not wanted & set(YOUNGER), name


CALL = re.compile(r"\bSYS_([a-z]\w*)")


def calls_for_every_cpu(text: str) -> Set[str]:
    """Names of system calls that a source uses where neither `#if defined(__x86_64__)` nor `#ifdef SYS_...` asked first."""
    found: Set[str] = set()
    asked: List[bool] = []
    for line in text.splitlines():
        words = line.split("//")[0].split()
        if words and words[0].startswith("#if"):
            asked.append("__x86_64__" in line and "!" not in line or "SYS_" in line)
        elif words and words[0] in ("#else", "#elif"):
            asked[-1] = "__x86_64__" in line
        elif words and words[0] == "#endif":
            asked.pop()
        elif not any(asked):
            found.update(CALL.findall(" ".join(words)))
    return found


def calls_of_younger_cpus() -> Set[str]:
    """The table that aarch64 and all younger ones share; the kernel's headers have it on every machine."""
    wanted = ["-D__ARCH_WANT_%s" % name for name in ("RENAMEAT", "NEW_STAT", "SET_GET_RLIMIT", "TIME32_SYSCALLS")]
    command = ["cc", "-E", "-dM", "-U__BITS_PER_LONG", "-D__BITS_PER_LONG=64", *wanted, "-x", "c", "-"]
    done = run(command, input="#include <asm-generic/unistd.h>\n")
    return set(re.findall(r"^#define __NR_(\w+)", done.stdout, re.M))


def test_system_calls_are_those_of_every_cpu(root: Path) -> None:
    """scripts/check_aarch64.py sees more, on the few machines that have a compiler for aarch64."""
    table = calls_of_younger_cpus()
    assert len(table) > 250 and "ppoll" in table and "poll" not in table
    used = {}
    for path in sorted((root / "core").rglob("*.[ch]")):
        if not path.name.startswith("x86"):
            used[str(path.relative_to(root))] = calls_for_every_cpu(path.read_text())
    assert len(set().union(*used.values())) > 30
    assert {name: calls - table for name, calls in used.items() if calls - table} == {}


def test_a_system_call_of_one_cpu_is_noticed() -> None:
    guarded = "#if defined(__x86_64__)\nint a = SYS_poll;\n#else\nint a = SYS_ppoll;\n#endif\n#ifdef SYS_select\nint b = SYS_select;\n#endif\n"
    assert calls_for_every_cpu(guarded) == {"ppoll"}
    assert calls_for_every_cpu(guarded + "int c = SYS_pause; // SYS_poll\n") == {"ppoll", "pause"}
    assert "pause" not in calls_of_younger_cpus()


def lines_for_one_cpu(text: str) -> int:
    """Of the longest stretch behind `#if defined(__x86_64__)`."""
    longest, begun, depth = 0, -1, 0
    for i, line in enumerate(text.splitlines()):
        if line.startswith("#if"):
            depth += 1
            if begun < 0 and "defined(__x86_64__)" in line and "!" not in line:
                begun, outside = i, depth
        elif line.startswith(("#else", "#elif", "#endif")):
            if begun >= 0 and depth == outside:
                longest, begun = max(longest, i - begun - 1), -1
            depth -= line.startswith("#endif")
    return longest


def test_code_for_one_cpu_is_in_files_that_say_so(root: Path) -> None:
    """Registers, relocations and single instructions may stand beside what other CPUs have for them."""
    found = {path: lines_for_one_cpu(path.read_text()) for path in (root / "core").rglob("*.[ch]")}
    assert max(lines for path, lines in found.items() if path.name.startswith("x86")) > 300
    assert {str(p): n for p, n in found.items() if n > 24 and not p.name.startswith("x86")} == {}


def test_agent_shows_only_what_its_map_lists(root: Path, agent: Path) -> None:
    listed = (root / "core" / "agent" / "agent.map").read_text().split("global:")[1].split("local:")[0]
    symbols = run(["nm", "-D", "--defined-only", str(agent)]).stdout.splitlines()
    exported = {line.split()[-1].split("@")[0] for line in symbols}
    assert exported <= set(listed.replace(";", " ").split())


def fake_machine(tmp_path: Path, names: List[str]) -> Dict[str, str]:
    """An environment whose PATH holds only these commands of this machine."""
    for name in names:
        found = shutil.which(name)
        assert found, name
        (tmp_path / name).symlink_to(found)
    return {"PATH": str(tmp_path), "HOME": str(tmp_path), "CI": "true"}


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """The scripts alone, so that a bootstrap under test cannot touch the real .venv."""
    copy = tmp_path / "checkout"
    shutil.copytree(root / "scripts", copy / "scripts")
    return copy


BASIC_COMMANDS = ["bash", "env", "dirname", "sort", "head", "awk", "mktemp", "rm", "cmp", "id", "tail", "grep", "cut"]


@pytest.mark.parametrize("sudo", ["sudo ", ""], ids=["sudo", "none"])
def test_bootstrap_without_rights_prints_the_one_line_to_run(checkout: Path, tmp_path: Path, sudo: str) -> None:
    machine = tmp_path / "bin"
    machine.mkdir()
    environment = fake_machine(machine, [c for c in BASIC_COMMANDS if c != "id"])
    commands = {"id": "echo 1000", "apt-get": "exit 99", "apt-cache": "exit 1"}
    if sudo:
        commands["sudo"] = "exit 1"  # asks for a password
    for name, text in commands.items():
        (machine / name).write_text("#!/bin/sh\n%s\n" % text)
        (machine / name).chmod(stat.S_IRWXU)
    result = run(["bash", "scripts/bootstrap.sh", "demo"], cwd=checkout, env=environment, stdin=subprocess.DEVNULL)
    assert result.returncode == 1, result.stdout
    (line,) = result.stdout.splitlines()
    assert (": %sapt-get update && %sapt-get install -y" % (sudo, sudo)) in line
    assert ("as root" in line) == (not sudo)
    assert "ninja-build" in line and "python3" in line


@pytest.mark.parametrize("has_runtime", [True, False], ids=["to_be_had", "not_to_be_had"])
def test_bootstrap_of_fuzz_brings_compiler_and_runtime(checkout: Path, tmp_path: Path, has_runtime: bool) -> None:
    """At the first go, although the runtime's package is named after a compiler that is not there yet; or says at once what is missing."""
    machine, asked, llvm = tmp_path / "bin", tmp_path / "asked", tmp_path / "lib"
    script = checkout / "scripts" / "bootstrap.sh"
    script.write_text(script.read_text().replace("/usr/lib/llvm-", str(llvm / "llvm-")))
    machine.mkdir()
    environment = fake_machine(machine, [c for c in BASIC_COMMANDS if c not in ("id", "env")] + ["chmod", "mkdir"])
    clang, runtime = machine / "clang", llvm / "llvm-14/lib/clang/14/lib/linux"
    commands = {name: "exit 0" for name in ("gcc", "ninja", "pkg-config", "python3")}
    commands.update(
        {
            "id": "echo 0",
            "env": 'shift; exec "$@"',
            "apt-cache": "exit 1",
            "meson": "echo 1.3.0",
            "apt-get": f"""echo "$*" >>{asked}
case "$*" in
*" clang") printf '#!/bin/sh\\necho 14.0.6\\n' >{clang}; chmod 700 {clang};;
*" libclang-rt-14-dev") {"true" if has_runtime else "exit 1"}; mkdir -p {runtime}; : >{runtime}/libclang_rt.fuzzer.a;;
esac""",
        }
    )
    for name, text in commands.items():
        write_program(machine / name, text)
    result = run(["bash", "scripts/bootstrap.sh", "fuzz"], cwd=checkout, env=environment, stdin=subprocess.DEVNULL)
    installs = [line.split()[-1] for line in asked.read_text().splitlines() if " install " in line]
    assert installs == ["clang", "libclang-rt-14-dev"], result.stdout
    assert result.returncode == (0 if has_runtime else 1), result.stdout
    if not has_runtime:
        assert "apt could not install libclang-rt-14-dev" in result.stdout.splitlines()[-1]


def test_bootstrap_is_silent_when_all_is_there(root: Path) -> None:
    environment = {**os.environ, "CI": "true"}
    result = run(["scripts/bootstrap.sh", "demo"], cwd=root, env=environment, stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stdout) == (0, "")


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n%s\n" % text)
    path.chmod(stat.S_IRWXU)


def test_page_is_made_with_a_node_that_can(root: Path, tmp_path: Path) -> None:
    """Ubuntu 22.04 has a Node of 2018: the build goes on without the page, and with it where bootstrap brought a newer one."""
    web, out = tmp_path / "web", tmp_path / "page.c"
    web.mkdir()
    for name in ("package.json", "package-lock.json"):
        (web / name).write_text("{}")
    write_program(tmp_path / "bin" / "node", "echo v12.22.9")
    write_program(tmp_path / "bin" / "npm", "exit 1")
    environment = {"PATH": "%s:/usr/bin:/bin" % (tmp_path / "bin")}
    command = [sys.executable, str(root / "scripts" / "build_page.py"), str(web), str(out)]
    result = run(command, env=environment)
    assert result.returncode == 0 and result.stdout.count("\n") == 1 and "Node 18" in result.stdout, result.stdout
    assert "fm_page_len = 0;" in out.read_text()
    write_program(tmp_path / ".venv" / "bin" / "node", "echo v24.1.0")
    npm = (
        'mkdir -p dist node_modules; test "$1" = ci || test "$(node --version)" = v24.1.0 && echo page >dist/index.html'
    )
    write_program(tmp_path / ".venv" / "bin" / "npm", npm)
    result = run(command, env=environment)
    assert (result.returncode, result.stdout) == (0, "")
    assert "fm_page_len = 5;" in out.read_text()


def test_doctor_says_that_the_page_is_missing(build: Path, tmp_path: Path) -> None:
    """The program of this build, linked anew with the page that a machine without Node makes."""
    commands = run(["ninja", "-C", str(build), "-t", "commands", "fathom"]).stdout.splitlines()
    link = shlex.split(next(line for line in reversed(commands) if " -o fathom " in line))
    (tmp_path / "page.c").write_text(
        "#include <stddef.h>\nconst unsigned char fm_page[1];\nconst size_t fm_page_len = 0;\n"
    )
    assert run(["cc", "-c", "-o", str(tmp_path / "page.o"), str(tmp_path / "page.c")]).returncode == 0
    program = tmp_path / "fathom"
    link[link.index("fathom")] = str(program)
    link.insert(1, str(tmp_path / "page.o"))  # before the archive that has the other
    done = run(link, cwd=build)
    assert done.returncode == 0, done.stdout
    for command, is_there in ((build / "fathom", True), (program, False)):
        (line,) = [line for line in run([str(command), "doctor"]).stdout.splitlines() if "viewer's page" in line]
        assert ("in this build" in line) == is_there and ("Node 18" in line) != is_there, line


def test_no_links_in_the_repository(root: Path) -> None:
    """One that somebody made on a machine of theirs points at nothing elsewhere."""
    listed = run(["git", "ls-files", "-s"], cwd=root)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000")] == []


def test_every_file_of_the_package_is_known_as_our_own(root: Path) -> None:
    """By their names they are folded out of stacks (core/symbolize/names.c)."""
    text = (root / "core" / "symbolize" / "names.c").read_text()
    package = root / "python" / "fathom"
    named = {p.name for p in package.glob("*.py")}
    assert named and {name for name in named if '"%s"' % name not in text} == set()
    assert {p.relative_to(package).parts[0] for p in package.rglob("*.py") if p.parent != package} == {"_startup"}


def test_planted_faults_have_a_place(root: Path) -> None:
    """scripts/mutate.py finds the text of each of its faults, once."""
    space: Dict[str, Any] = {}
    exec((root / "tests" / "mutants.py").read_text(), space)
    lost = [what for what, file, text, _, _ in space["MUTANTS"] if (root / file).read_text().count(text) != 1]
    assert lost == [] and len(space["MUTANTS"]) >= 40


def test_new_sentences_are_listed(root: Path) -> None:
    """tests/sentences.txt has every sentence that a user can see: a reviewer reads new ones there."""
    result = run(
        [sys.executable, str(root / "scripts" / "list_strings.py"), "--check", str(root / "tests" / "sentences.txt")]
    )
    assert result.returncode == 0, result.stdout


def test_a_new_sentence_is_noticed(root: Path, tmp_path: Path) -> None:
    old = tmp_path / "sentences.txt"
    text = (root / "tests" / "sentences.txt").read_text()
    old.write_text(text.replace("    unknown error\n", ""))
    result = run([sys.executable, str(root / "scripts" / "list_strings.py"), "--check", str(old)])
    assert result.returncode == 1 and "read the new ones" in result.stdout
