#!/usr/bin/env python3
"""Generates and compiles a C++ extension module with much debug information: many units, templates, inlined calls.

    make_big_extension.py --megabytes 500 --jobs 2 OUTDIR

Writes OUTDIR/bigdwarf.so with a function for Python, `work(n)`, that spends its time in functions of many units. The module needs no Python
headers: it speaks the stable ABI through its few symbols. One unit has about 2 MB of DWARF; units are compiled from a few
different sources over and over under other names, so that size is a matter of time only.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

UNIT = r"""
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace unit_@N@ {

template <int I> struct Tag { static constexpr int value = I; };

template <class T, int I> struct Kernel {
	std::vector<T> data = std::vector<T>(64, T(I));
	inline T scale(T x) const { return x * T(1.0001) + T(Tag<I>::value); }
	inline T smooth(T x) const { return std::sqrt(std::fabs(scale(x)) + T(1)); }
	__attribute__((noinline)) T run(int n)
	{
		T sum = 0;
		for (int i = 0; i < n; i++) {
			for (auto &x : data)
				x = smooth(x + sum);
			sum += std::accumulate(data.begin(), data.end(), T(0)) / T(1e6);
		}
		return sum;
	}
};

template <int I> struct Store {
	std::map<std::string, std::tuple<int, double, std::array<char, I + 1>>> ordered;
	std::unordered_map<int, std::variant<int, double, std::string, std::array<int, I + 1>>> hashed;
	std::set<std::pair<int, std::string>> names;
	std::function<double(double)> f = [this](double x) { return x + ordered.size(); };
	__attribute__((noinline)) void add(int i)
	{
		ordered[std::to_string(i)] = {};
		hashed[i] = std::to_string(i);
		names.insert({ i, "n" });
		auto sorted = std::vector<std::string>{ "b", "a" };
		std::sort(sorted.begin(), sorted.end());
	}
};

@BODY@

} // namespace unit_@N@

extern "C" double unit_@N@_work(int n)
{
	double sum = 0;
@CALLS@
	return sum;
}
"""

MAIN = r"""
#include <cstddef>
struct PyObject;
struct PyMethodDef { const char *name; PyObject *(*f)(PyObject *, PyObject *); int flags; const char *doc; };
struct PyModuleDef_Base { size_t refcount; void *type; void *init; size_t index; void *copy; };
struct PyModuleDef { PyModuleDef_Base base; const char *name, *doc; size_t size; PyMethodDef *methods; void *slots, *traverse, *clear, *free; };
extern "C" {
PyObject *PyModule_Create2(PyModuleDef *, int);
PyObject *PyFloat_FromDouble(double);
long PyLong_AsLong(PyObject *);
@DECLARE@
static PyObject *work(PyObject *, PyObject *arg)
{
	long n = PyLong_AsLong(arg);
	double sum = 0;
	for (long i = 0; i < n; i++) {
@CALLS@
	}
	return PyFloat_FromDouble(sum);
}
static PyMethodDef methods[] = { { "work", work, 8, "" }, { nullptr, nullptr, 0, nullptr } };
static PyModuleDef module = { { 1, nullptr, nullptr, 0, nullptr }, "bigdwarf", "", (size_t)-1, methods, nullptr, nullptr, nullptr, nullptr };
PyObject *PyInit_bigdwarf(void) { return PyModule_Create2(&module, 1013); }
}
"""


def dwarf_bytes(path: Path) -> int:
    out = subprocess.run(["readelf", "-SW", path], check=True, capture_output=True, text=True).stdout
    total = 0
    for line in out.splitlines():
        fields = line.split("]", 1)[-1].split()
        if fields and fields[0].startswith(".debug"):
            total += int(fields[4], 16)
    return total


def write_unit(folder: Path, n: int, instances: int) -> Path:
    body = "\n".join(f"template struct Store<{i}>;" for i in range(instances))
    calls = "\n".join(f"\t{{ static unit_{n}::Kernel<double, {i}> k; sum += k.run(n); }}" for i in range(6))
    path = folder / f"unit_{n}.cpp"
    path.write_text(UNIT.replace("@N@", str(n)).replace("@BODY@", body).replace("@CALLS@", calls))
    return path


def compile_unit(compiler: str, path: Path) -> Path:
    out = path.with_suffix(".o")
    if not out.exists():
        loose = path.with_suffix(".loose.o")
        subprocess.run(
            [compiler, "-std=c++17", "-O1", "-g", "-fPIC", "-fno-gnu-unique", "-c", path, "-o", loose], check=True
        )
        # Template instances lie in groups of which the linker keeps one: copies of this unit must not lose theirs.
        subprocess.run(["ld", "-r", "--force-group-allocation", loose, "-o", out], check=True)
        subprocess.run(["objcopy", f"--keep-global-symbol={path.stem}_work", out], check=True)
    return out


def clone_unit(folder: Path, made: Path, n: int) -> Path:
    """The unit again under another name: its one exported symbol renamed, the rest local."""
    out = folder / f"unit_{n}.o"
    if not out.exists():
        original = made.stem.split("_")[1]
        subprocess.run(
            [
                "objcopy",
                f"--redefine-sym=unit_{original}_work=unit_{n}_work",
                f"--keep-global-symbol=unit_{n}_work",
                made,
                out,
            ],
            check=True,
        )
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500, help="of DWARF sections, about")
    parser.add_argument("--instances", type=int, default=10, help="template instances per unit")
    parser.add_argument("--compiled", type=int, default=4, help="units compiled for real; the others are copies")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("outdir", type=Path)
    args = parser.parse_args()
    folder = args.outdir / "units"
    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        sources = [write_unit(folder, n, args.instances) for n in range(args.compiled)]
        objects = list(pool.map(lambda p: compile_unit(args.compiler, p), sources))
        # Strings, and of copies most others, are shared when linking (measured: 0.44 of the objects' DWARF stays).
        per_unit = sum(map(dwarf_bytes, objects)) / len(objects) * 0.44
        n_units = max(args.compiled, round(args.megabytes * 1e6 / per_unit))
        rest = range(args.compiled, n_units)
        objects += list(pool.map(lambda n: clone_unit(folder, objects[n % args.compiled], n), rest))
    declare = "\n".join(f"double unit_{n}_work(int);" for n in range(n_units))
    calls = "\n".join(f"\t\tsum += unit_{n}_work(40);" for n in range(n_units))
    (folder / "main.cpp").write_text(MAIN.replace("@DECLARE@", declare).replace("@CALLS@", calls))
    out = args.outdir / "bigdwarf.so"
    (folder / "objects.txt").write_text("\n".join(map(str, objects)))
    subprocess.run(
        [
            args.compiler,
            "-O1",
            "-g",
            "-fPIC",
            "-shared",
            folder / "main.cpp",
            f"@{folder / 'objects.txt'}",
            "-o",
            out,
            "-Wl,--build-id",
        ],
        check=True,
    )
    print(f"{out}: {n_units} units, {dwarf_bytes(out) / 1e6:.0f} MB of DWARF")
    return 0


if __name__ == "__main__":
    sys.exit(main())
