"""uWSGI embeds Python, forks workers and runs threads in them."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

APP = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(sum(i * i for i in range(int(environ["QUERY_STRING"])))).encode()]
"""
with open("shop.py", "w") as file:
    file.write(APP)
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
program = os.path.join(os.path.dirname(sys.executable), "uwsgi")
command = [program, "--http-socket", f"127.0.0.1:{port}", "--module", "shop", "--master", "--processes", "2"]
command += ["--threads", "2", "--enable-threads", "--die-on-term", "--virtualenv", sys.prefix, "--disable-logging"]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/?1", timeout=30).read()
            break
        except OSError:
            time.sleep(0.1)
    answers = [urllib.request.urlopen(f"http://127.0.0.1:{port}/?{n}", timeout=60).read() for n in range(20000, 20060)]
    print(len(answers), answers[-1])
finally:
    server.send_signal(signal.SIGTERM)
    print(server.wait(60))
