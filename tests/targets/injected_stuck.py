"""Has a thread in a system call that nothing interrupts: its child cannot begin before somebody opens a FIFO. Says how long the main thread
stood still at most, in milliseconds, when standard input ends."""

import ctypes
import os
import sys
import tempfile
import threading
import time

folder = tempfile.mkdtemp()
fifo = os.path.join(folder, "fifo")
os.mkfifo(fifo)
over = []


def spawn() -> None:
    """By ctypes, which lets go of the GIL. The child holds none of our pipes open, should we be killed."""
    lib, actions, pid = ctypes.CDLL(None), ctypes.create_string_buffer(256), ctypes.c_int()
    lib.posix_spawn_file_actions_init(actions)
    for fd in range(3):
        lib.posix_spawn_file_actions_addclose(actions, fd)
    lib.posix_spawn_file_actions_addopen(actions, 9, fifo.encode(), os.O_RDONLY, 0)
    words, nothing = (ctypes.c_char_p * 2)(b"true", None), (ctypes.c_char_p * 1)(None)
    lib.posix_spawn(ctypes.byref(pid), b"/bin/true", actions, None, words, nothing)
    os.waitpid(pid.value, 0)


stuck = threading.Thread(target=spawn)
stuck.start()
threading.Thread(target=lambda: over.append(sys.stdin.read()), daemon=True).start()
time.sleep(0.3)
print("ready", flush=True)
longest, last = 0.0, time.monotonic()
while not over:
    time.sleep(0.001)
    now = time.monotonic()
    longest, last = max(longest, now - last), now
os.close(os.open(fifo, os.O_WRONLY))
stuck.join()
os.remove(fifo)
os.rmdir(folder)
print(round(longest * 1000))
