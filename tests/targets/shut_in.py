"""Puts up a filter of system calls that ends it for opening a file: at once, or (later) at a line on standard input, after which it says
"up". Works until standard input ends. HOW: ctypes, which asks libc itself, or a library that has shut_in()."""

import ctypes
import struct
import sys
import threading
from typing import List

when, how = sys.argv[1:3]
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
OPENAT, KILL, ALLOW = 257, 0x80000000, 0x7FFF0000  # x86-64
PROGRAM = [(0x20, 0, 0, 0), (0x15, 0, 1, OPENAT), (0x06, 0, 0, KILL), (0x06, 0, 0, ALLOW)]

code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in PROGRAM))
filter_ = ctypes.create_string_buffer(struct.pack("@HP", len(PROGRAM), ctypes.addressof(code)), 16)
libc = ctypes.CDLL(None)
kept = ctypes.CDLL("libgcc_s.so.1")  # which the end of a thread opens up to 3.8
library = None if how == "ctypes" else ctypes.CDLL(how)


def shut_in() -> None:
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit(77)
    failed = library.shut_in(filter_) if library else libc.prctl(PR_SET_SECCOMP, MODE_FILTER, filter_, 0, 0)
    if failed:
        sys.exit(77)


if when == "now":
    shut_in()
over: List[int] = []
lines: List[str] = []


def read() -> None:
    for line in sys.stdin:
        lines.append(line)
    over.append(1)


threading.Thread(target=read, daemon=True).start()
print("ready", flush=True)
n = 0
while not over:
    n += sum(range(1000)) > 0
    if lines and when == "later":
        lines.clear()
        shut_in()
        print("up", flush=True)
print("well")
