# SPDX-License-Identifier: Apache-2.0
"""Runs when a Python starts under `fathom run`, or below a traced program: Python's `site` imports it, because fathom puts this folder first on
PYTHONPATH.

It takes every trace of itself away, sets up what was asked for (_fathom_start), and lets the user's own sitecustomize run. Nothing here
may keep the program from starting, whatever Python it is: plain syntax, no imports but what every start has loaded.
"""

import sys

try:
    import _fathom_start

    _fathom_start.start()
except Exception:
    pass  # another Python than we know, say. The program matters more; fathom's report tells that nothing was watched

# The user's own, if there is one: it takes this module's place. If not, this import fails just as it would have without us.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401
