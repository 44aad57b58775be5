"""Loads, calls and unloads libraries in turn; each takes the addresses of the one before. reload.py SECONDS A.so B.so ...

A library X.so has X_outer(n). It is called by a function py_X, so every stack says itself which library it must be in.
"""

import ctypes
import os
import sys
import time

import _ctypes

addresses = {}


def make(path):
    name = os.path.basename(path).partition(".")[0]
    scope = {}
    exec("def py_%s(function):\n    function(100000)\n" % name, scope)
    return name, path, scope["py_" + name]


def use(name, path, caller):
    library = ctypes.CDLL(path)
    function = getattr(library, name + "_outer")
    addresses.setdefault(ctypes.cast(function, ctypes.c_void_p).value, set()).add(name)
    caller(function)
    _ctypes.dlclose(library._handle)


if __name__ == "__main__":
    users = [make(path) for path in sys.argv[2:]]
    end = time.process_time() + float(sys.argv[1])
    n = 0
    while time.process_time() < end:
        use(*users[n % len(users)])
        n += 1
    shared = max(len(names) for names in addresses.values())
    print("loaded=%d shared=%d" % (n, shared))
