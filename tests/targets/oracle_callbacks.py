# Python called back by C: from map, sorted, reduce, re.sub, and from the slots of types.
# from library: work, replace, reduce_one
import functools
import re

import oracle


def twice(x):
    return plus(x, x)  # calls: plus


def plus(a, b):
    return a + b


def sort_key(x):
    return -x


def reduce_one(a, b):
    return plus(a, b)  # calls: plus


def replace(match):
    return upper(match.group(0))  # calls: upper


def upper(text):
    return text.upper()


class Number:
    def __init__(self, n):
        self.n = n

    def __lt__(self, other):
        return less(self.n, other.n)  # calls: less

    def __hash__(self):
        return hashed(self.n)  # calls: hashed

    def __eq__(self, other):
        return self.n == other.n

    def __getattr__(self, name):
        return missing(name)  # calls: missing

    def __iter__(self):
        return iter([self.n])

    def __call__(self, x):
        return plus(self.n, x)  # calls: plus


def less(a, b):
    return a < b


def hashed(n):
    return hash(n)


def missing(name):
    return name


def work():
    numbers = list(range(30))
    list(map(twice, numbers))  # calls: twice
    sorted(numbers, key=sort_key)  # calls: sort_key
    functools.reduce(reduce_one, numbers)  # calls: reduce_one, library
    re.sub("[a-z]", replace, "some text with letters")  # calls: replace, library
    objects = [Number(n % 7) for n in numbers]  # calls: __init__, <listcomp>
    sorted(objects)  # calls: __lt__
    {o: 1 for o in objects}  # calls: __hash__, __eq__, <dictcomp>
    objects[0].absent  # calls: __getattr__
    sum(objects[1])  # calls: __iter__
    list(map(objects[2], numbers))  # calls: __call__
    list(filter(lambda x: twice(x) > 10, numbers))  # calls: <lambda>, twice


oracle.run(work)  # calls: library
