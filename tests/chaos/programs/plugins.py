"""A plugin is loaded, called and unloaded, again and again, by turns at other addresses; another thread walks through it meanwhile.

chaos: needs plugin
chaos: case one one
chaos: case threads threads
"""

import _ctypes
import ctypes
import os
import shutil
import sys
import tempfile
import threading

scale = float(sys.argv[1])
source = os.path.join(os.environ["CHAOS_HELPERS"], "plugin.so")
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)


@CALLBACK
def called(n):
    return sum(i for i in range(n % 40))


def reload(folder, name, rounds):
    paths = [os.path.join(folder, "%s%d.so" % (name, i)) for i in range(3)]
    for path in paths:
        shutil.copy(source, path)
    total = 0
    for i in range(rounds):
        handle = _ctypes.dlopen(paths[i % 3], 0)
        function = ctypes.CFUNCTYPE(ctypes.c_long, CALLBACK, ctypes.c_long, ctypes.c_long)(
            _ctypes.dlsym(handle, "plugin_call")
        )
        for k in range(4):
            total += function(called, 5 + k, i)
        _ctypes.dlclose(handle)
    totals.append(total)


totals = []
with tempfile.TemporaryDirectory(dir=".") as folder:
    folder = os.path.abspath(folder)
    if sys.argv[2] == "one":
        reload(folder, "a", int(7000 * scale))
    else:
        threads = [threading.Thread(target=reload, args=(folder, name, int(2000 * scale))) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
print(sum(totals))
