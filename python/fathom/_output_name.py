# SPDX-License-Identifier: Apache-2.0
"""Names of output files that become another one for each run, as `fathom record -o` has them (core/cli/project/output_name.c)."""

import os

RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def _stamp() -> str:
    import time  # by most names not needed

    return time.strftime("%Y%m%d_%H%M%S", time.gmtime())


def _rank() -> str:
    for name in RANKS:
        rank = os.environ.get(name, "")
        if rank.isascii() and rank.isdigit():
            return rank
    raise ValueError("%r in a file's name is the rank, and there is none: " + ", ".join(RANKS) + " are not set; use %p")


def expand(name: str) -> str:
    """%p: this process; %t: the time, UTC; %r: the rank that mpirun or srun gave; %%: a percent sign. ValueError: another letter, or no rank."""
    parts = name.split("%")
    result = parts.pop(0)
    while parts:
        part = parts.pop(0)
        if not part and parts:  # two in a row
            result += "%" + parts.pop(0)
        elif part[:1] == "p":
            result += str(os.getpid()) + part[1:]
        elif part[:1] == "t":
            result += _stamp() + part[1:]
        elif part[:1] == "r":
            result += _rank() + part[1:]
        else:
            raise ValueError(
                "in a file's name stand %p for the process id, %t for the time, %r for the rank, and %% for a percent sign; "
                "nothing else may follow a percent sign"
            )
    return result
