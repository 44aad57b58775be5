"""Processes of another program start Pythons that work for this one."""

import os
import tempfile

import ray

with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        object_store_memory=80 << 20,
        _temp_dir=os.path.join(folder, "r"),
    )

    @ray.remote
    def squares(n):
        return sum(i * i for i in range(n))

    @ray.remote
    class Counter:
        def __init__(self):
            self.total = 0

        def add(self, n):
            self.total += n
            return self.total

    counter = Counter.remote()
    print(ray.get([squares.remote(20000 + i) for i in range(40)])[-1])
    print(ray.get([counter.add.remote(i) for i in range(100)])[-1])
    ray.shutdown()
