"""Has no room for code of others: cramped.py SECONDS depth|audit|files."""

import resource
import sys
import time

until = time.monotonic() + float(sys.argv[1])
is_armed = False


def deepest(n):
    try:
        return deepest(n + 1)
    except RecursionError:
        return n


def spend(n):
    if n > 0:
        return spend(n - 1)
    total = 0
    for _ in range(20):
        total += sum(range(20000))
    return total


def hook(event, args):
    if is_armed and event in ("compile", "exec", "open"):
        raise RuntimeError("not allowed: " + event)


held = []
if sys.argv[2] == "audit":
    sys.addaudithook(hook)
    depth = 0
elif sys.argv[2] == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    while len(held) < 30:
        held.append(open("/dev/null", "rb"))
    depth = 0
else:
    depth = deepest(0) - (0 if sys.version_info >= (3, 12) else 3)
print("ready", flush=True)
is_armed = True
while time.monotonic() < until:
    spend(depth)
print("well")
