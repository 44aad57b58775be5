"""Three threads call a function that does nothing, and keep the GIL for 50 ms each. Tells the longest time that one stood."""

import sys
import threading
import time

sys.setswitchinterval(0.05)
end = time.monotonic() + float(sys.argv[1])
longest = 0.0
is_over = False


def nothing():
    pass


def call():
    global longest
    last = time.monotonic()
    while not is_over and last < end:
        for _ in range(1000):
            nothing()
        now = time.monotonic()
        longest = max(longest, now - last)
        last = now


def listen():
    global is_over
    sys.stdin.read()
    is_over = True


threads = [threading.Thread(target=target) for target in (call, call, listen)]
for thread in threads:
    thread.start()
print("ready", flush=True)
call()
for thread in threads:
    thread.join()
print("longest %.2f" % longest)
