"""Gets a signal whose handler raises just while the agent is loaded into it. Says what it caught when standard input ends."""

import _thread
import signal
import sys
import threading
import time

NAMES = {"SIGINT": signal.SIGINT, "SIGUSR1": signal.SIGUSR1, "SIGUSR2": signal.SIGUSR2}
signum = NAMES[sys.argv[2]]
n_sent = 0
EVENT, OF = sys.argv[3:]  # an audit event, and a part of what it is about


class Urgent(Exception):
    pass


class Bell:
    def ring(self, signum: int, _: object) -> None:
        raise Urgent


def ring(*_: object) -> None:
    raise Urgent


def hook(event: str, arguments: "tuple[object, ...]") -> None:
    global n_sent
    if event == EVENT and OF in repr(arguments) and not n_sent:
        n_sent += 1
        _thread.start_new_thread(signal.raise_signal, (signum,))
        time.sleep(0.05)  # it comes now


signal.signal(signal.SIGUSR1, Bell().ring)
signal.signal(signal.SIGUSR2, ring)
sys.addaudithook(hook)
is_over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
print("ready", flush=True)
caught = []


def work() -> None:
    while not is_over.is_set():
        sum(range(100))


# Not with the loop inside the `try`: on 3.13 the jump back, at which signals are handled, is outside of what it covers.
while not is_over.is_set():
    try:
        work()
    except (Urgent, KeyboardInterrupt) as error:
        caught.append(type(error).__name__)
print("sent", n_sent, "caught", caught)
