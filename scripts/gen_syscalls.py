#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints core/symbolize/x86_syscalls.c from the C compiler's <asm/unistd_64.h>. Usage: gen_syscalls.py > core/symbolize/x86_syscalls.c"""

import re
import subprocess

HEAD = """// Made by scripts/gen_syscalls.py from <asm/unistd_64.h>. Numbers are for ever; new ones are added at the end.
#include "symbolize/parts.h"

#include <stddef.h>

#include "base/compiler.h"

static const char *const names[] = {"""
TAIL = """};

const char *fm_x86_syscall_name(uint64_t number)
{
	return number < FM_ARRAY_LEN(names) ? names[number] : NULL;
}"""


def main() -> None:
    source = "#include <asm/unistd_64.h>\n"
    text = subprocess.run(
        ["cc", "-E", "-dM", "-x", "c", "-"], input=source, stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    found = {int(number): name for name, number in re.findall(r"^#define __NR_(\w+) (\d+)$", text, re.MULTILINE)}
    print(HEAD)
    for number, name in sorted(found.items()):
        print(f'\t[{number}] = "{name}",')
    print(TAIL)


if __name__ == "__main__":
    main()
