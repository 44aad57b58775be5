#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which failed tests may be tried again: second_tries.py LIST FAILURES.json ...

FAILURES are what tests/e2e/conftest.py writes: by test, why its failure is final, or nothing. Only tests marked as statistical may be tried
again, and none of them in which a process crashed or hung. LIST gets their names. The exit status is 1 if a failure is final.
"""

import json
import sys
from pathlib import Path
from typing import Dict

# Some tests in a hundred are off by chance; of those marked, more than so many at once have a common cause, and a second try would hide it.
MAX_SECOND_TRIES = 8


def main() -> int:
    list_path = Path(sys.argv[1])
    failures: Dict[str, str] = {}
    for path in map(Path, sys.argv[2:]):
        if path.exists():
            failures.update(json.loads(path.read_text()))
    final = {name: why for name, why in failures.items() if why}
    may = sorted(set(failures) - set(final))
    for name in sorted(final):
        print(f"final: {name}: {final[name]}")
    if len(may) > MAX_SECOND_TRIES:
        print(
            f"{len(may)} statistical tests failed, more than {MAX_SECOND_TRIES}: that is no chance, and none is tried again"
        )
        final.update(dict.fromkeys(may, "too many"))
        may = []
    print(f"second tries: {len(may)} (at most {MAX_SECOND_TRIES})")
    list_path.write_text("".join(name + "\n" for name in may))
    return 1 if final else 0


if __name__ == "__main__":
    sys.exit(main())
