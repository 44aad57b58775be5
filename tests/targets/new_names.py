"""Functions with long random names, each called once: whoever records them has much to write. Says "ready" first."""

import os

print("ready", flush=True)
while True:
    name = "f" + os.urandom(500).hex()
    space = {}  # type: ignore[var-annotated]
    exec("def %s():\n for _ in range(20000): pass" % name, space)
    space[name]()
