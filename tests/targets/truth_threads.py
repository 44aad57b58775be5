# Four threads that use different amounts of CPU, and one that sleeps. The truth is each thread's own clock, by its number.
import sys
import threading
import time

import truth

path, seconds, _ = truth.arguments()
stop = threading.Event()


def busy(share):
    end = int(seconds * share * 1e9)
    while time.thread_time_ns() < end:
        sum(range(2000))
    truth.truth[str(threading.get_native_id())] = time.thread_time_ns()


def sleeper():
    while not stop.wait(0.05):
        pass
    truth.truth["sleeper %d" % threading.get_native_id()] = time.thread_time_ns()


sys.setswitchinterval(0.001)
waiting = threading.Thread(target=sleeper)
waiting.start()
threads = [threading.Thread(target=busy, args=(share,)) for share in (0.1, 0.2, 0.3, 0.4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
stop.set()
waiting.join()
truth.write(path)
