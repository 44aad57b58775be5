"""Allocates what is known once it is told to (SIGUSR1): keeps 40 blocks of 500,000 bytes, and makes and drops 3,000 of 20,000."""

import signal
import sys
import time

is_told = False
kept = []


def tell(*_: object) -> None:
    global is_told
    is_told = True


signal.signal(signal.SIGUSR1, tell)
print("ready", flush=True)
while not is_told:
    time.sleep(0.005)
for _ in range(40):
    kept.append(bytearray(500_000))  # line: kept
for _ in range(3_000):
    bytearray(20_000)  # line: dropped
print("done", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    time.sleep(0.005)
