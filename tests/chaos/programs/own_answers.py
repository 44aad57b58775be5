"""Classes and objects that answer for their own names, and count who asks: metaclasses, a proxy, an alias."""

import sys
import weakref

scale = float(sys.argv[1])
asked = {}


class Meta(type):
    def __getattribute__(cls, name):
        asked[name] = asked.get(name, 0) + 1
        return super().__getattribute__(name)


class Named(type):
    @property
    def __module__(cls):
        asked["module property"] = asked.get("module property", 0) + 1
        raise ValueError("nobody asks a class for its module")


class Items(list, metaclass=Meta):
    pass


class Plain(dict, metaclass=Named):
    pass


class Proxied:
    def __call__(self):
        return 1

    def __getattr__(self, name):
        asked["proxied " + name] = asked.get("proxied " + name, 0) + 1
        raise AttributeError(name)


items, plain, proxied = Items(), Plain(), Proxied()
total = 0
for i in range(int(20000 * scale)):
    items.append(i)
    plain.setdefault(i, i)
    proxy = weakref.proxy(proxied)
    total += proxy() + len(Items((1, 2))) + len(Plain(a=1))
    if hasattr(list, "__class_getitem__"):
        total += len(list[Items]((1, 2)))
print(total, sorted(asked.items()))
