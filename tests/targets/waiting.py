"""Waits in known places and says how long, as the thread itself sees it: {line's name: seconds}.

What a thread waits is the time that passes less what it runs and less what it is ready to run but has no CPU.
"""

import asyncio
import ctypes
import json
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Tuple

LIBC = ctypes.CDLL(None)  # lets go of the GIL around calls
HOLDING = ctypes.PyDLL(None)  # keeps it
truth: Dict[str, float] = {}


def ready_s() -> float:
    with open("/proc/thread-self/schedstat") as f:
        return int(f.read().split()[1]) * 1e-9


def clocks() -> Tuple[float, float, float]:
    return time.monotonic(), time.thread_time(), ready_s()


def measure(name: str, function: Callable[..., Any], *args: Any, least_s: float = 0) -> None:
    before = clocks()
    function(*args)
    wall, cpu, ready = (b - a for a, b in zip(before, clocks()))
    assert wall >= least_s, f"{name} came back after {wall} s"
    truth[name] = truth.get(name, 0) + wall - cpu - ready


def sleep_short(s: float) -> None:
    time.sleep(s)  # line: sleep_short


def sleep_long(s: float) -> None:
    time.sleep(s)  # line: sleep_long


def wait_select(s: float) -> None:
    r, w = os.pipe()
    select.select([r], [], [], s)  # line: select
    os.close(r), os.close(w)


def wait_poll(s: float) -> None:
    r, w = os.pipe()
    poller = select.poll()
    poller.register(r, select.POLLIN)
    assert poller.poll(s * 1000) == []  # line: poll
    os.close(r), os.close(w)


def wait_epoll(s: float) -> None:
    with select.epoll() as poller:
        assert poller.poll(s) == []  # line: epoll


def wait_lock(s: float) -> None:
    lock = threading.Lock()
    lock.acquire()
    timer = threading.Timer(s, lock.release)
    timer.start()
    lock.acquire()  # line: lock
    timer.join()


def wait_queue(s: float) -> None:
    q: "queue.Queue[int]" = queue.Queue()
    timer = threading.Timer(s, q.put, [1])
    timer.start()
    q.get()  # line: queue
    timer.join()


def wait_child(child: "subprocess.Popen[bytes]") -> None:
    child.wait()  # line: child


def wait_socket(s: float) -> None:
    a, b = socket.socketpair()
    timer = threading.Timer(s, b.send, [b"x"])
    timer.start()
    a.recv(1)  # line: recv
    timer.join()
    a.close(), b.close()


def wait_asyncio(s: float) -> None:
    async def idle() -> None:
        await asyncio.sleep(s)

    asyncio.run(idle())  # line: asyncio


def usleep_releasing(s: float) -> None:
    assert LIBC.usleep(int(s * 1e6)) == 0  # line: usleep


def usleep_holding(s: float) -> None:
    assert HOLDING.usleep(int(s * 1e6)) == 0  # line: usleep_holding


def many_short(s: float) -> None:
    end = time.monotonic() + s
    while time.monotonic() < end:
        time.sleep(0.002)  # line: many_short


def everything(s: float) -> None:
    measure("sleep_short", sleep_short, s, least_s=s)
    measure("sleep_long", sleep_long, 2 * s, least_s=2 * s)
    measure("select", wait_select, s, least_s=s)
    measure("poll", wait_poll, s, least_s=s)
    measure("epoll", wait_epoll, s, least_s=s)
    measure("lock", wait_lock, s)
    measure("queue", wait_queue, s)
    measure("child", wait_child, subprocess.Popen(["sleep", str(s)]))
    measure("recv", wait_socket, s)
    measure("asyncio", wait_asyncio, s)
    measure("usleep", usleep_releasing, s, least_s=s)
    measure("usleep_holding", usleep_holding, s, least_s=s)
    measure("many_short", many_short, 2 * s)


def spin(n: int) -> int:
    total = 0
    for i in range(n):
        total += i * i  # line: spin
    return total


def contend(s: float) -> None:
    """Two threads that want the GIL all the time: each has it half of the time."""
    end = time.monotonic() + s

    def work(name: str) -> None:
        def until_end() -> None:
            while time.monotonic() < end:
                spin(1000)

        measure(name, until_end)

    threads = [threading.Thread(target=work, args=["gil%d" % i]) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()  # line: join


def fork(s: float) -> None:
    """Waits in a child that is a copy of this process, in a thread of the child, and in a new Python."""
    pid = os.fork()
    if pid == 0:
        thread = threading.Thread(target=sleep_long, args=[2 * s])
        thread.start()
        sleep_short(s)
        thread.join()
        os._exit(0)
    os.waitpid(pid, 0)  # line: waitpid
    subprocess.run([sys.executable, __file__, "alone", str(s)], check=True, stdout=subprocess.DEVNULL)


def idle_threads(n: float) -> None:
    """Threads that do nothing but wait, from their first moment to the end."""
    stop = threading.Event()
    for _ in range(int(n)):
        threading.Thread(target=stop.wait, daemon=True).start()
    time.sleep(3)  # line: main
    stop.set()


def restless_threads(n: float) -> None:
    """Threads that sleep again and again: of so many no look can see every sleep. Each knows by the kernel's account how long it waited."""
    waits: List[float] = []
    readies: List[float] = []

    def restless() -> None:
        start = time.monotonic()
        for _ in range(60):
            time.sleep(0.02)
            sum(range(3000))
        with open("/proc/thread-self/schedstat") as f:
            had_cpu, was_ready, _ = map(int, f.read().split())
        waits.append(time.monotonic() - start - (had_cpu + was_ready) * 1e-9)
        readies.append(was_ready * 1e-9)

    threads = [threading.Thread(target=restless) for _ in range(int(n))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    truth["restless"] = sum(waits)
    truth["ready"] = sum(readies)


def alone(s: float) -> None:
    measure("sleep_short", sleep_short, s, least_s=s)


if __name__ == "__main__":
    measure("all", globals()[sys.argv[1]], float(sys.argv[2]))
    print(json.dumps(truth))
