"""Lines whose bytes are known by construction: what each asks of its allocator is counted from sizes, not measured.

Loops run over repeat(), which makes no objects, so that nothing but the marked lines allocates. sys.getsizeof() of a bytes, str or list object is
what CPython asks for it; an array's data is what numpy asks for; the C library counts itself.
"""

import sys
from itertools import repeat

import truth

# fmt: off


def small_objects(n):
    for _ in repeat(None, n):
        bytes(300)  # (line small objects)


def lists(n):
    for _ in repeat(None, n):
        [None] * 1000  # noqa: B018 (line lists)


def strings(n, count):
    for _ in repeat(None, n):
        "x" * count  # noqa: B018 (line strings)


def large_blocks(n):
    for _ in repeat(None, n):
        bytearray(4 << 20)  # (line large blocks)


def nothing(n):
    flag = True
    for _ in repeat(None, n):
        flag = not flag  # (line nothing)
    return flag


def arrays(numpy, n):
    for _ in repeat(None, n):
        numpy.empty(125000)  # (line numpy arrays)


def kept_arrays(numpy, n):
    return [
        numpy.zeros(25000)  # (line arrays that stay)
        for _ in repeat(None, n)
    ]


def native(library, n, size):
    library.bench_allocate(n, size)  # (line C extension)


def main():
    scale = truth.seconds() / 4.0
    n = {"small": int(200000 * scale), "lists": int(20000 * scale), "strings": int(5000 * scale), "blocks": int(20 * scale) + 1,
         "arrays": int(500 * scale) + 1, "kept": int(200 * scale) + 1, "native": int(30000 * scale) + 1}
    library = truth.native_library()[1]
    sizes = {
        "small objects": n["small"] * sys.getsizeof(bytes(300)),
        "lists": n["lists"] * 8 * 1000,  # the head comes from a list of free ones
        "strings": n["strings"] * sys.getsizeof("x" * 100000),
        "nothing": 0,
        "large blocks": n["blocks"] * sys.getsizeof(bytearray(4 << 20)),
        "C extension": n["native"] * 20000,
    }
    small_objects(n["small"])
    nothing(int(2000000 * scale))
    lists(n["lists"])
    strings(n["strings"], 100000)
    large_blocks(n["blocks"])
    native(library, n["native"], 20000)
    try:
        import numpy
    except ImportError:
        numpy = None
    if numpy:
        head = numpy.empty(0).__sizeof__()
        arrays(numpy, n["arrays"])
        stay = kept_arrays(numpy, n["kept"])
        sizes["numpy arrays"] = n["arrays"] * (125000 * 8 + head)
        sizes["arrays that stay"] = len(stay) * (25000 * 8 + head)
    truth.tell("bytes", sizes, truth.line_marks(__file__))


if __name__ == "__main__":
    main()
