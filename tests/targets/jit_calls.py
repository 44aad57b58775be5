"""Calls through code that jit_emitter.c makes: Python, machine code, Python ...

jit_calls.py EMITTER SECONDS object PATH: an object file, loaded as a compiler would.
jit_calls.py EMITTER SECONDS HOW NAME [HOW NAME]...: py_main calls each in turn, which calls py_back, which spins for a moment.
"""

import ctypes
import os
import sys
import time

emitter = ctypes.PyDLL(sys.argv[1])
CALLBACK = ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
JIT = ctypes.PYFUNCTYPE(ctypes.c_uint64, CALLBACK, ctypes.c_void_p)
emitter.jit_make.restype = JIT
emitter.jit_make.argtypes = [ctypes.c_int, ctypes.c_char_p]
emitter.jit_remake.restype = JIT
emitter.jit_remake.argtypes = [JIT, ctypes.c_char_p]
emitter.jit_load.restype = JIT
emitter.jit_load.argtypes = [ctypes.c_char_p, ctypes.c_char_p]


def py_back(arg):
    total = 0
    for i in range(2000):
        total += i
    return total


def py_call(code, seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        code(back, None)


def py_main(seconds, wanted):
    for how, name in wanted:
        code = emitter.jit_make(how, name.encode())
        py_call(code, seconds)


def py_remake(seconds):
    code = emitter.jit_make(0, b"first_code")
    py_call(code, seconds)
    code = emitter.jit_remake(code, b"second_code")
    time.sleep(0.3)  # until the change was noticed: between two looks samples cannot be told apart
    py_call(code, seconds)


def py_fork(seconds):
    code = emitter.jit_make(1, b"inherited_code")
    child = os.fork()
    if child == 0:
        py_call(code, seconds)
        os._exit(0)
    os.waitpid(child, 0)


back = CALLBACK(py_back)
if sys.argv[3] == "remake":
    py_remake(float(sys.argv[2]))
elif sys.argv[3] == "object":
    py_call(emitter.jit_load(sys.argv[4].encode(), b"object_outer"), float(sys.argv[2]))
elif sys.argv[3] == "fork":
    py_fork(float(sys.argv[2]))
else:
    py_main(float(sys.argv[2]), [(int(sys.argv[i]), sys.argv[i + 1]) for i in range(3, len(sys.argv), 2)])
emitter.jit_clean()
