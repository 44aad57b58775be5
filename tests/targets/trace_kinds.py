"""Every way in which a Python function comes to be called, a known number of times each: `import trace_kinds; trace_kinds.run(n)`.

Interpreters have shortcuts for most of them, which tracing must not fall through.
"""


class Simple:
    def __init__(self, n):
        self.n = n


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n


class Derived(Simple):
    def __init__(self, n):
        super().__init__(n)


class Catching:
    def __getattribute__(self, name):
        return 1


class Missing:
    def __getattr__(self, name):
        return 1


class Object:
    @property
    def value(self):
        return 1

    def __getitem__(self, i):
        return 1

    def __call__(self):
        return 1

    def __iter__(self):
        return self.two()

    def two(self):
        yield 1
        yield 2

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def __add__(self, other):
        return self

    def __eq__(self, other):
        return True

    def __bool__(self):
        return True

    def __len__(self):
        return 3

    def __contains__(self, x):
        return True

    def __setattr__(self, name, value):
        pass

    def __delattr__(self, name):
        pass

    def defaults(self, a=1, b=2):
        return a

    def star(self, *args, **kwargs):
        return args

    @classmethod
    def of_class(cls):
        return 1

    @staticmethod
    def static():
        return 1


async def inner():
    return 1


async def outer():
    return await inner()


async def numbers():
    yield 1


async def loop():
    async for _ in numbers():
        pass


def drive(coroutine):
    try:
        coroutine.send(None)
    except StopIteration:
        pass


def run(n):
    """The truth, by the last part of names."""
    catching, missing, o = Catching(), Missing(), Object()
    args, kwargs = (1,), {"b": 3}
    for i in range(n):
        Simple(i), Slotted(i), Derived(i)
        catching.anything, missing.anything, o.value, o[i], o()
        for _ in o:
            pass
        with o:
            pass
        o + o, o == o, len(o), 1 in o
        if o:
            pass
        o.attribute = 1
        del o.attribute
        o.defaults(), o.defaults(2), o.defaults(b=2), o.defaults(*args, **kwargs)
        o.star(1, 2), o.star(*args, **kwargs)
        o.of_class(), Object.of_class(), o.static()
        list(x for x in args)
        (lambda: 1)()
        drive(outer()), drive(loop())
    once = "__getattribute__ __getattr__ value __getitem__ __call__ __iter__ two __enter__ __exit__ __add__ __eq__ __bool__"
    once += " __len__ __contains__ __setattr__ __delattr__ static <genexpr> <lambda> inner outer numbers loop"
    truth = {name: n for name in once.split()}
    truth.update({"__init__": 4 * n, "defaults": 4 * n, "star": 2 * n, "of_class": 2 * n, "drive": 2 * n})
    return truth
