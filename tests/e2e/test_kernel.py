# SPDX-License-Identifier: Apache-2.0
"""--kernel: system time ends in the kernel's own functions, where the system permits looking at them."""

from pathlib import Path
from typing import Any

import pytest
from capture import Capture, Python, find_pythons

READS = """
import os, time
def read_zeros():
    fd = os.open("/dev/zero", os.O_RDONLY)
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        os.read(fd, 1 << 20)
def count():
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        sum(range(10000))
read_zeros()
count()
"""


def names_are_shown() -> bool:
    first = Path("/proc/kallsyms").read_text(errors="replace").split(" ", 1)[0]
    return int(first or "0", 16) != 0


def test_functions_of_the_kernel(profile: Any, python: Python, tmp_path: Path) -> None:
    if python != find_pythons()[-1]:
        pytest.skip("the kernel is the same under every Python: one is enough")
    script = tmp_path / "reads.py"
    script.write_text(READS)
    capture: Capture = profile(str(script), options=["--kernel"], python=python)
    refused = [c["why"] for c in capture.report["coverage"] if c["what"] == "functions of the kernel"]
    if refused:
        assert "kernel.perf_event_paranoid" in refused[0] or "perf_event_open" in refused[0]
        pytest.skip(refused[0])
    if not names_are_shown():
        pytest.skip("the system hides the kernel's addresses")
    inside = other = total = 0
    for labels, n in capture.collapsed():
        names = [label.rsplit(" (", 1)[0] for label in labels]
        if "count" in names:  # what makes no system calls but those of the loop has no kernel function inside
            continue
        if "read_zeros" in names and labels[-1].endswith("([kernel])"):
            total += n
            if "read_zero" in names:  # the driver of /dev/zero
                inside += n
                other += "read" not in names  # a chain of this call joined to a sample of the next one
                assert names.index("read_zeros") < names.index("vfs_read") < names.index("read_zero")
    print(f"{inside} of {total} samples reach the driver")
    # A call of 1 MiB lasts about as long as the period: by chance some intervals hold no chain (1/e of them at worst).
    assert total > 100
    assert inside > 0.5 * total
    assert other < 0.05 * total
