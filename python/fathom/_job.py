# SPDX-License-Identifier: Apache-2.0
"""Calls one function: what run_job() starts under fathom. Its arguments: the agent, and the folder that holds the function and takes its value.

The capture is of the call: what this process does before and behind it (imports, pickles) is no part of it. So the agent is told first of all, and by
the shortest way.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
TYPE_CHECKING = False  # typing is an import
if TYPE_CHECKING:
    from typing import Any


def load_agent(path: str) -> "Any":
    sys.path.insert(0, os.path.join(_HERE, "_startup"))
    import _fathom_trace  # type: ignore[import-not-found]

    del sys.path[0], sys.modules["_fathom_trace"]
    return _fathom_trace._load(path)


def main(agent: "Any", folder: str) -> int:
    import pickle
    from multiprocessing import spawn

    with open(os.path.join(folder, "job"), "rb") as file:
        prepared, work = pickle.load(file)
    os.environ["FATHOM_JOB"] = "1"
    try:
        spawn.prepare(pickle.loads(prepared))  # sys.path, sys.argv, cwd, and the caller's script as __main__
        target, args = pickle.loads(work)
    finally:
        del os.environ["FATHOM_JOB"]
    agent.set_outside(0)
    try:
        value = target(*args)
    finally:
        agent.set_outside(1)
    with open(os.path.join(folder, "value.part"), "wb") as file:
        pickle.dump(value, file)
    os.rename(os.path.join(folder, "value.part"), os.path.join(folder, "value"))
    return 0


if __name__ == "__main__":
    its_agent = load_agent(sys.argv[1])
    its_agent.set_outside(1)
    sys.exit(main(its_agent, sys.argv[2]))
