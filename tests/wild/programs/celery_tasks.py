"""A worker with forked processes takes tasks from a folder and leaves results in another."""

import os
import signal
import subprocess
import sys

from celery import Celery, group

base = os.path.join(os.getcwd(), "queue")
for name in ("in", "done", "results"):
    os.makedirs(os.path.join(base, name), exist_ok=True)
app = Celery("celery_tasks", broker="filesystem://", backend="file://" + os.path.join(base, "results"))
queues = {"data_folder_in": os.path.join(base, "in"), "data_folder_out": os.path.join(base, "in")}
app.conf.update(
    broker_transport_options={**queues, "control_folder": os.path.join(base, "done")}, task_ignore_result=False
)


@app.task
def divisors(n):
    return sum(i for i in range(1, n + 1) if n % i == 0)


if __name__ == "__main__":
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "celery_tasks",
        "worker",
        "-c",
        "2",
        "-P",
        "prefork",
        "-l",
        "ERROR",
    ]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        import celery_tasks  # the tasks are named after the module, not after __main__

        jobs = group(celery_tasks.divisors.s(1000 + i) for i in range(60)).apply_async()
        print(sum(jobs.get(timeout=600, interval=0.1)))
    finally:
        worker.send_signal(signal.SIGTERM)
        print(worker.wait(120))
