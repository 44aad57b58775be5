# SPDX-License-Identifier: Apache-2.0
"""Less than the usual: system calls that a container's rules forbid."""

import ctypes
import errno
import platform
import struct
from typing import Callable, Dict

import pytest

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of the filter's little machine (linux/bpf_common.h)
ALLOW, FAIL_WITH = 0x7FFF0000, 0x00050000

# By their numbers on x86-64.
CALLS: Dict[str, int] = {
    "ptrace": 101,
    "perf_event_open": 298,
    "process_vm_readv": 310,
    "kcmp": 312,
    "sched_setattr": 314,
    "memfd_create": 319,
    "pidfd_open": 434,
    "close_range": 436,
}


def forbid(*names: str, error: int = errno.EPERM) -> Callable[[], None]:
    """For preexec_fn: from now on, and in all that is started, these calls fail."""
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of system calls are x86-64's")

    def statement(code: int, value: int, if_true: int = 0) -> bytes:
        return struct.pack("=HBBI", code, if_true, 0, value)

    program = [statement(LOAD, 0)]  # the call's number
    for i, name in enumerate(names):
        program.append(statement(JUMP_IF_EQUAL, CALLS[name], len(names) - i))
    program += [statement(RETURN, ALLOW), statement(RETURN, FAIL_WITH | error)]
    code = ctypes.create_string_buffer(b"".join(program), 8 * len(program))
    filter_ = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)), 16)
    libc = ctypes.CDLL(None, use_errno=True)

    def apply() -> None:
        keep = code  # noqa: F841: the filter refers to it by its address
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, filter_, 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp")

    return apply
