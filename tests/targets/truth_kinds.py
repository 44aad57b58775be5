# Python against native, by construction: C functions that Python calls, some of them the interpreter's own, and what bytecode does by itself.
import json
import re

import truth

path, seconds, _ = truth.arguments()
numbers = [(i * 7919) % 100003 for i in range(20000)]
text = json.dumps([i / 7919 for i in range(4000)])
words = "the quick brown fox 12345 jumps over the lazy dog " * 400
pattern = re.compile(r"[a-z]+o[a-z]*\b|\d+")
block = "x" * 50000


class Thing:
    def __init__(self):
        self.a = self
        self.b = 1

    def method(self, x):
        return x


thing = Thing()


def add(x, y):
    return x


def sorting(n):
    for _ in range(n): sorted(numbers)  # line: sorting


def loading(n):
    for _ in range(n): json.loads(text)  # line: loading


def matching(n):
    for _ in range(n): pattern.findall(words)  # line: matching


def joining(n):
    for _ in range(n): ",".join(map(str, numbers))  # line: joining


def attributes(n):
    for _ in range(n): thing.a.a.a.a.a.a.a.b  # line: attributes


def calls(n):
    for _ in range(n): add(1, 2); thing.method(1)  # line: calls


def objects(n):
    for i in range(n): [i, i, i]; (i, n); {i: n}; i * 1.5 + i  # line: objects


def copies(n):
    for _ in range(n): block + block  # line: copies


work = {f.__name__: (f, 1) for f in (sorting, loading, matching, joining, attributes, calls, objects, copies)}
truth.run_slices(work, seconds)
truth.write(path)
