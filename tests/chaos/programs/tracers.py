"""A program that traces itself, by every way there is, ends generators, raises at its recursion limit, and changes its own code.

chaos: case trace trace
chaos: case profile profile
chaos: case monitoring monitoring from=3.12
chaos: case recursion recursion
chaos: case codes codes
chaos: case generators generators
chaos: case threads threads
chaos: case audit audit
chaos: limited
"""

import contextlib
import gc
import sys
import threading
import types

SCALE = float(sys.argv[1])
N = int(200 * SCALE) + 1
counts = {}


def note(what, n=1):
    counts[what] = counts.get(what, 0) + n


def leaf(n):
    total = 0
    for i in range(n):
        total += i
    return total


def numbers(n):
    try:
        for i in range(n):
            yield leaf(i)
    finally:
        note("ended")


def inner(n):
    try:
        return sum(numbers(n)) + len([leaf(i) for i in range(3)])
    except ZeroDivisionError:
        return 0


def raises(n):
    if n:
        raises(n - 1)
    raise ValueError(n)


def work(n):
    total = 0
    for i in range(n):
        total += inner(i % 7)
        try:
            raises(i % 5)
        except ValueError as error:
            total += len(error.args)
    return total


def tracer(frame, event, arg):
    if frame.f_code.co_filename == __file__:
        note("trace " + event)
        frame.f_trace_opcodes = event == "call" and frame.f_code.co_name == "leaf"
        if frame.f_code.co_name == "raises":
            frame.f_trace_lines = False
        return tracer
    return None


def profiler(frame, event, arg):
    # From 3.12 on setprofile() itself returns under the profiler where another tool asks for calls of C.
    if frame.f_code.co_filename == __file__ and arg is not sys.setprofile:
        note("profile " + event)


def failing(frame, event, arg):
    if frame.f_code.co_name == "leaf":
        raise KeyError("a tracer that fails")
    return failing


def run_trace():
    for _ in range(N // 4 + 1):
        sys.settrace(tracer)
        work(5)
        sys.settrace(None)
        sys.settrace(failing)
        try:
            work(3)
        except KeyError:
            note("failed " + str(sys.gettrace()))
        sys.settrace(None)
        work(3)


def run_profile():
    for _ in range(N // 4 + 1):
        sys.setprofile(profiler)
        work(5)
        sys.setprofile(None)
        work(5)
        import cProfile

        p = cProfile.Profile()
        p.enable()
        work(3)
        p.disable()
        p.create_stats()
        note("profiled", sum(v[0] for k, v in p.stats.items() if k[0] == __file__))


def run_monitoring():
    m = sys.monitoring
    e = m.events

    def on(*args):
        if args[0].co_filename == __file__:
            note("event")

    def once(*args):
        note("once")
        return m.DISABLE

    for _ in range(N // 4 + 1):
        m.use_tool_id(2, "own")
        m.register_callback(2, e.PY_START, on)
        m.register_callback(2, e.PY_RETURN, on)
        m.register_callback(2, e.PY_UNWIND, on)
        m.register_callback(2, e.LINE, once)
        m.set_events(2, e.PY_START | e.PY_RETURN | e.PY_UNWIND)
        m.set_local_events(2, leaf.__code__, e.LINE)
        work(4)
        m.restart_events()
        work(2)
        m.set_local_events(2, leaf.__code__, 0)
        m.set_events(2, 0)
        m.free_tool_id(2)
        work(2)
        for tool in (0, 1, 2, 5):
            m.use_tool_id(tool, "all")
            m.set_events(tool, e.PY_START | e.CALL | e.BRANCH | e.JUMP)
            m.register_callback(tool, e.CALL, lambda *args: None)
        work(1)
        for tool in (0, 1, 2, 5):
            m.set_events(tool, 0)
            m.free_tool_id(tool)


def down(n):
    return down(n + 1)


def depth_reached(n):
    try:
        return depth_reached(n + 1)
    except RecursionError:
        return n


class Odd:
    def __getattr__(self, name):
        return getattr(self, name + "x")

    def __repr__(self):
        return repr([self])

    def __eq__(self, other):
        return self == [other]

    __hash__ = None


def run_recursion():
    depths = set()
    for _ in range(N // 4 + 1):
        for limit in (60, 200, 1000, 2000):
            sys.setrecursionlimit(limit)
            for odd in (lambda: down(0), lambda: Odd().a, lambda: repr(Odd()), lambda: Odd() == Odd()):
                try:
                    odd()
                except RecursionError:
                    note("recursion")
            depths.add((limit, depth_reached(0)))
            work(1)
        sys.setrecursionlimit(1000)
    note("depths", len(depths))


def template(n):
    return n * 2


def run_codes():
    total = 0
    for i in range(N * 4):
        space = {}
        exec(
            compile("def f%d(n):\n    return sum(x for x in range(n)) + %d\n" % (i, i), "made%d" % (i % 7), "exec"),
            space,
        )
        total += space["f%d" % i](5)
        template.__code__ = template.__code__.replace(co_name="t%d" % i, co_consts=(None, i % 3 + 2))
        total += template(3)
        if i % 5 == 0:
            del space
            gc.collect(0)
        f = types.FunctionType(template.__code__.replace(co_filename="elsewhere%d" % i), {})
        total += f(1)
    note("codes", total)


def run_generators():
    for i in range(N):
        half = [numbers(9) for _ in range(5)]
        for g in half:
            next(g)
        half[0].close()
        half.append(half)
        loop = {"g": half[2]}
        loop["me"] = loop
        del half, loop, g
        if i % 3 == 0:
            gc.collect()

        async def coroutine():
            async for _ in agen():
                pass

        async def agen():
            try:
                for k in range(3):
                    yield leaf(k)
            finally:
                note("agen")

        c = coroutine()
        try:
            c.send(None)
        except StopIteration:
            note("sent")
        a = agen()
        with contextlib.suppress(StopIteration):
            a.__anext__().send(None)
        del a, c

        def thrown():
            try:
                yield 1
            except KeyError:
                yield 2
            finally:
                note("thrown")

        t = thrown()
        next(t)
        note("got", t.throw(KeyError("x")))
        del t


def run_threads():
    for _ in range(N // 20 + 1):
        go = threading.Event()

        def body(go=go):
            go.wait()
            work(20)

        threads = [threading.Thread(target=body) for _ in range(4)]
        for t in threads:
            t.start()
        if hasattr(threading, "settrace_all_threads"):
            threading.settrace_all_threads(lambda *args: None)
            threading.setprofile_all_threads(lambda *args: None)
        threading.settrace(lambda *args: None)
        go.set()
        work(5)
        for t in threads:
            t.join()
        if hasattr(threading, "settrace_all_threads"):
            threading.settrace_all_threads(None)
            threading.setprofile_all_threads(None)
        threading.settrace(None)
        note("rounds")


def run_audit():
    def hook(event, args):
        if event in (
            "exec",
            "compile",
            "code.__new__",
            "sys.settrace",
            "sys.setprofile",
            "sys.monitoring.register_callback",
        ):
            note("audit " + event)
        if event == "exec" and armed:
            raise RuntimeError("not allowed")

    armed = False
    sys.addaudithook(hook)
    for _ in range(N):
        exec("x = 1", {})
        armed = True
        try:
            exec("x = 1", {})
        except RuntimeError:
            note("refused")
        armed = False
        work(2)


globals()["run_" + sys.argv[2]]()
counts.pop("agen", None)
print(sorted(counts.items()))
