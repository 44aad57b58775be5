# A second interpreter in the same thread: frames of two interpreters on one C stack.
# from library: work
import importlib

import oracle

INNER = """
def sub_leaf(n):
    return n + 1

def sub_entry(n):
    return sub_leaf(n)

for i in range(200):
    sub_entry(i)
"""


def find():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return importlib.import_module(name)  # calls: library
        except ImportError:
            pass
    return None


def beside(n):
    return beside_leaf(n)  # calls: beside_leaf


def beside_leaf(n):
    return n


def work():
    for i in range(100):
        beside(i)  # calls: beside
    if interpreters:
        interpreters.run_string(other, INNER)  # calls: library


interpreters = find()  # calls: find
other = interpreters.create() if interpreters else None  # calls: library
oracle.run(work)  # calls: library
