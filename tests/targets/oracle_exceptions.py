# Exceptions thrown through many levels, caught, chained, thrown again.
# from library: work
import oracle


class Odd(Exception):
    def __init__(self, text):
        Exception.__init__(self, text)


class Even(Exception):
    def __init__(self, text):
        Exception.__init__(self, text)


def raise_odd():
    raise Odd("odd")  # calls: __init__


def raise_even():
    raise Even("even")  # calls: __init__


def down_odd(n):
    if n:
        down_odd(n - 1)  # calls: down_odd
    else:
        raise_odd()  # calls: raise_odd


def down_even(n):
    try:
        if n:
            down_even(n - 1)  # calls: down_even
        else:
            raise_even()  # calls: raise_even
    finally:
        note()  # calls: note


def note():
    return None


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, *what):
        return after(what)  # calls: after


def after(what):
    return what[0] is Even


def catch_odd():
    try:
        down_odd(15)  # calls: down_odd
    except Odd:
        handled()  # calls: handled


def handled():
    return 1


def catch_even():
    with Manager():  # calls: __enter__, __exit__
        down_even(15)  # calls: down_even, __exit__


def chain():
    try:
        try:
            down_odd(3)  # calls: down_odd
        except Odd as e:
            raise Even("from") from e  # calls: __init__
    except Even:
        handled()  # calls: handled


def work():
    for _ in range(30):
        catch_odd()  # calls: catch_odd
        catch_even()  # calls: catch_even
        chain()  # calls: chain


oracle.run(work)  # calls: library
