# SPDX-License-Identifier: Apache-2.0
"""Calls one function: what run_job() starts under fathom. The folder named by its argument holds the function and takes its value."""

import os
import pickle
import sys
from typing import Any


def main(folder: str) -> int:
    from multiprocessing import spawn

    with open(os.path.join(folder, "job"), "rb") as file:
        prepared, work = pickle.load(file)
    os.environ["FATHOM_JOB"] = "1"
    try:
        spawn.prepare(pickle.loads(prepared))  # sys.path, sys.argv, cwd, and the caller's script as __main__
        target, args = pickle.loads(work)
    finally:
        del os.environ["FATHOM_JOB"]
    value: Any = target(*args)
    with open(os.path.join(folder, "value.part"), "wb") as file:
        pickle.dump(value, file)
    os.rename(os.path.join(folder, "value.part"), os.path.join(folder, "value"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
