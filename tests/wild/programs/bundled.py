"""What is made into a program of its own: threads, a pool of processes, the standard library's extensions."""

import decimal
import hashlib
import json
import multiprocessing
import sqlite3
import threading
import zlib


def work(n):
    return hashlib.sha256(json.dumps(list(range(n))).encode()).hexdigest()


def main():
    multiprocessing.freeze_support()
    results = {}
    threads = [threading.Thread(target=lambda n=n: results.update({n: work(2000 + n)})) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        again = pool.map(work, range(2000, 2020))
    base = sqlite3.connect(":memory:")
    base.execute("create table t (k integer, v text)")
    base.executemany("insert into t values (?, ?)", sorted(results.items()))
    (total,) = base.execute("select count(distinct v) from t").fetchone()
    tree = build(11)
    print(
        total,
        again == [results[n] for n in range(20)],
        size(tree),
        zlib.crc32(again[3].encode()),
        decimal.Decimal(2).sqrt(),
    )


def build(depth):
    return [build(depth - 1) for _ in range(2)] if depth else []


def size(node):
    return 1 + sum(size(child) for child in node)


if __name__ == "__main__":
    main()
