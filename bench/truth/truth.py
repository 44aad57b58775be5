"""What the truth programs share. Each measures its own split by the CPU clock of its threads while it runs."""

import json
import os
import sys
from time import perf_counter, thread_time_ns  # noqa: F401 (used by the programs)


def seconds():
    """How long to run, from the command line."""
    return float(sys.argv[1]) if len(sys.argv) > 1 else 4.0


def period_ns():
    """The beat of the lockstep program, from the command line: the sampler's own period."""
    return int(sys.argv[2]) if len(sys.argv) > 2 else 1000000


def native_library():
    import ctypes

    path = os.environ.get("FATHOM_BENCH_NATIVE", "")
    if not os.path.exists(path):
        sys.exit(
            "native.so is not built: start this program through bench/accuracy.py, or set FATHOM_BENCH_NATIVE to it"
        )
    libraries = ctypes.CDLL(path), ctypes.PyDLL(path)  # without and with the GIL held
    for library in libraries:
        library.bench_spin_for.argtypes = [ctypes.c_int64]
        library.bench_spin_for.restype = ctypes.c_int64
        library.bench_spin.argtypes = [ctypes.c_uint64]
        library.bench_spin.restype = ctypes.c_uint64
        library.bench_allocate.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
    return libraries


def marked_lines(path):
    """{line number: 0} of the lines marked "(line X)". Read from the text: some tools replace the function object."""
    with open(path) as source:
        return {
            number: 0 for number, line in enumerate(source, 1) if "(line " in line and line.lstrip()[0] not in "#\"'"
        }


def line_marks(path):
    """{mark: line number} of the lines marked "(line MARK)"."""
    marks = {}
    with open(path) as source:
        for number, line in enumerate(source, 1):
            if "# " in line and "(line " in line:
                marks[line.split("(line ")[1].split(")")[0]] = number
    return marks


def tell(kind, spent, also=None):
    """kind: "functions" or "lines"; spent: {name or line number: ns}; also: {callee: the function it belongs to}.

    "bytes": {mark: bytes}, and also: {mark: line number}.
    """
    print("TRUTH " + json.dumps({"kind": kind, "ns": spent, "also": also or {}}), flush=True)
