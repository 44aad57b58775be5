# Two pairs of functions that alternate as fast as they can; their frames and code objects lie at the same addresses in turn.
# from library: work
import oracle


def left_leaf():
    return 1


def right_leaf():
    return 2


def left():
    return left_leaf()  # calls: left_leaf


def right():
    return right_leaf()  # calls: right_leaf


class Left:
    def leaf(self):
        return left_leaf()  # calls: left_leaf

    def walk(self):
        return self.leaf()  # calls: leaf


class Right:
    def leaf(self):
        return right_leaf()  # calls: right_leaf

    def walk(self):
        return self.leaf()  # calls: leaf


def work():
    a, b = Left(), Right()
    for _ in range(300):
        left()  # calls: left
        right()  # calls: right
        a.walk()  # calls: walk
        b.walk()  # calls: walk
        (lambda: left_leaf())()  # calls: <lambda>, left_leaf
        left(); right()  # calls: left, right


oracle.run(work)  # calls: library
