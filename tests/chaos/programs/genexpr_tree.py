"""A recursive function with a generator expression at each node: frames begin and end at every depth."""

import sys

scale = float(sys.argv[1])


class Node:
    def __init__(self, depth, width):
        self.children = [Node(depth - 1, width) for _ in range(width)] if depth else []


def size(node):
    return 1 + sum(size(c) for c in node.children)


def chain(n):
    node = Node(0, 0)
    for _ in range(n):
        parent = Node(0, 0)
        parent.children = [node]
        node = parent
    return node


sys.setrecursionlimit(5000)
tree, line = Node(9, 2), chain(300)
print(sum(size(tree) + size(line) for _ in range(max(1, int(600 * scale)))))
