"""Something to load the agent into again and again: threads that allocate, read and write, start and end, children that are forked, and
a main thread that waits for locks. Checks its own results, until standard input ends; then says what went wrong, and which names it has."""

import hashlib
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from typing import Callable, Dict, List

is_over = threading.Event()
wrong: List[str] = []
rounds: Dict[str, int] = {}


def repeat(name: str, turn: Callable[[], bool]) -> threading.Thread:
    def loop() -> None:
        while not is_over.is_set():
            try:
                is_right = turn()
            except BaseException as error:
                wrong.append("%s: %r" % (name, error))
                raise
            if not is_right:
                wrong.append(name)
            rounds[name] = rounds.get(name, 0) + 1

    thread = threading.Thread(target=loop, name=name)
    thread.start()
    return thread


def allocate() -> bool:
    blocks = [bytearray(b"%d" % i * 50) for i in range(2000)]
    texts = {str(i): [i] * 5 for i in range(500)}
    return sum(map(len, blocks)) == 344500 and sum(map(sum, texts.values())) == 623750


def read_and_write() -> bool:
    with tempfile.TemporaryFile() as file:
        data = os.urandom(20000)
        file.write(data)
        file.seek(0)
        is_right = file.read() == data
    out, into = os.pipe()
    os.write(into, data[:3000])
    is_right &= os.read(out, 3000) == data[:3000]
    os.close(out)
    os.close(into)
    return is_right


def start_and_end() -> bool:
    got: List[str] = []
    threads = [threading.Thread(target=lambda i=i: got.append(hashlib.sha256(b"%d" % i).hexdigest())) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.002)
    return len(got) == 4


def fork() -> bool:
    pid = os.fork()
    if pid == 0:
        os._exit(sum(range(200)) % 100)
    time.sleep(0.02)
    return os.waitpid(pid, 0)[1] == (sum(range(200)) % 100) << 8


n_urgent = 0


def count(*_: object) -> None:
    global n_urgent
    n_urgent += 1


def names() -> List[str]:
    return sorted(globals()) + sorted(sys.modules)


def wait_for_end() -> None:
    sys.stdin.read()
    is_over.set()


warnings.simplefilter("ignore")  # of forks beside threads, which 3.12 advises against
signal.signal(signal.SIGUSR1, count)
last = threading.Thread(target=wait_for_end, name="stdin")
threads = [repeat(f.__name__, f) for f in (allocate, read_and_write, start_and_end)]
before: List[str] = []
before = names()
print("ready", flush=True)
last.start()
while not is_over.wait(0.5):
    if not fork():
        wrong.append("fork")
for thread in threads:
    thread.join()
after = [name for name in names() if name not in before]
busy = all(rounds.get(name) for name in ("allocate", "read_and_write", "start_and_end"))
print("wrong", wrong, "busy", busy, "names", after, "threads", threading.active_count() - last.is_alive())
