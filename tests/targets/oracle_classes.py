# Classes made and filled: bodies, metaclasses, __init_subclass__, __set_name__, descriptors, properties, super().
# from library: work
import oracle


class Field:
    def __set_name__(self, owner, name):
        self.name = named(name)  # calls: named

    def __get__(self, obj, owner):
        return self if obj is None else fetch(obj, self.name)  # calls: fetch

    def __set__(self, obj, value):
        store(obj, self.name, value)  # calls: store


def named(name):
    return "_" + name


def fetch(obj, name):
    return obj.__dict__[name]


def store(obj, name, value):
    obj.__dict__[name] = value


class Meta(type):
    def __new__(cls, name, bases, space, **options):
        return super().__new__(cls, name, bases, space)  # calls: __set_name__, __init_subclass__

    def __init__(cls, name, bases, space, **options):
        super().__init__(name, bases, space)

    def __call__(cls, *args):
        return super().__call__(*args)  # calls: __init__, __new__


class Base(metaclass=Meta):  # calls: Base, __new__, __init__
    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        register(cls)  # calls: register

    def __init__(self, value):
        self.value = value


def register(cls):
    return cls.__name__


def make():
    class Child(Base):  # calls: Child, __new__, __init__
        field = Field()
        other = Field()

        def __init__(self, value):
            super().__init__(value)  # calls: __init__
            self.field = value  # calls: __set__

        @property
        def double(self):
            return twice(self.field)  # calls: twice, __get__

    return Child


def twice(x):
    return x + x


def work():
    cls = make()  # calls: make
    for i in range(10):
        made = cls(i)  # calls: __call__
        made.double  # calls: double


oracle.run(work)  # calls: library
