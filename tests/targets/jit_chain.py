"""Python -> Rust -> C++ -> run-time code -> Python, with no Python frame in between.

jit_chain.py SECONDS RUST CPP EMITTER
"""

import ctypes
import functools
import sys
import time

rust, cpp, emitter = (ctypes.PyDLL(path) for path in sys.argv[2:5])
CALLBACK = ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
JIT = ctypes.PYFUNCTYPE(ctypes.c_uint64, CALLBACK, ctypes.c_void_p)
emitter.jit_make.restype = JIT
emitter.jit_make.argtypes = [ctypes.c_int, ctypes.c_char_p]
for function in (rust.rust_enter, cpp.cpp_enter):
    function.argtypes = [ctypes.py_object]
    function.restype = None


def py_inner(arg):
    total = 0
    for i in range(1000):
        total += i
    return total


def py_outer(seconds, call):
    end = time.process_time() + seconds
    while time.process_time() < end:
        rust.rust_enter(call)


back = CALLBACK(py_inner)
code = emitter.jit_make(0, b"jit_middle")
py_outer(float(sys.argv[1]), functools.partial(cpp.cpp_enter, functools.partial(code, back, None)))
emitter.jit_clean()
