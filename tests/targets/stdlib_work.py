"""Time in the native parts of the standard library, and in numpy where there is one: stdlib_work.py SECONDS [USE...]"""

import hashlib
import json
import re
import sys
import time
import zlib


def use_zlib():
    zlib.compress(bytes(range(256)) * 400)


def use_re():
    re.sub(r"(\w+)@(\w+)\.com", r"\2", "someone@example.com and other words " * 200)


def use_json():
    json.loads(json.dumps([{"a": n, "b": str(n)} for n in range(500)]))


def use_hashlib():
    for name in ("sha1", "sha256", "sha512", "md5"):
        hashlib.new(name, b"x" * 100000).digest()
    hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 200)


def use_sqlite():
    import sqlite3

    db = sqlite3.connect(":memory:")
    db.execute("create table t (a integer, b text)")
    db.executemany("insert into t values (?, ?)", [(n, str(n)) for n in range(1000)])
    db.create_function("twice", 1, lambda x: 2 * x)
    db.execute("select sum(twice(a)), b from t group by b order by b desc").fetchall()


def use_ssl():
    import ssl

    a, b, c, d = ssl.MemoryBIO(), ssl.MemoryBIO(), ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    try:
        client.wrap_bio(a, b).do_handshake()
    except ssl.SSLWantReadError:
        pass
    del c, d


def use_numpy():
    import numpy

    m = numpy.ones((300, 300))
    (m @ m).sum()
    numpy.linalg.solve(m + numpy.eye(300), m)


def main(seconds, names):
    for use in (use_zlib, use_re, use_json, use_hashlib, use_sqlite, use_ssl, use_numpy):
        if names and use.__name__ not in names:
            continue
        try:
            use()
        except ImportError as e:
            print("without %s: %s" % (use.__name__, e))
            continue
        end = time.process_time() + seconds
        while time.process_time() < end:
            use()


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
