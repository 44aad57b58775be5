# Generators: their frames live on the heap and are linked and unlinked at every step.
# from library: work
import oracle


def innermost(n):
    for i in range(n):
        got = yield i
        if got:
            echo(got)  # calls: echo


def echo(value):
    return value


def middle(n):
    yield from innermost(n)  # calls: innermost


def outer(n):
    yield from middle(n)  # calls: middle
    yield from middle(n)  # calls: middle


def stop_early(n):
    try:
        for i in range(n):
            yield i
    finally:
        cleanup()  # calls: cleanup


def cleanup():
    return None


def squares(n):
    return sum(i * i for i in range(n))  # calls: <genexpr>


def drive():
    g = outer(20)  # calls: outer
    next(g)  # calls: outer
    for _ in range(10):
        g.send("x")  # calls: outer
    g.close()  # calls: outer, middle, innermost


def consume():
    for _ in outer(20): pass  # calls: outer


def thrown():
    g = stop_early(5)  # calls: stop_early
    next(g)  # calls: stop_early
    try:
        g.throw(ValueError)  # calls: stop_early
    except ValueError:
        pass


def abandon():
    g = stop_early(5)  # calls: stop_early
    next(g)  # calls: stop_early
    del g  # calls: stop_early


def work():
    for _ in range(20):
        drive()  # calls: drive
        consume()  # calls: consume
        thrown()  # calls: thrown
        abandon()  # calls: abandon
        squares(20)  # calls: squares


oracle.run(work)  # calls: library
