# Time split 5 : 10 : 25 : 60 over functions, in pure Python; two of them share a callee.
import truth


def helper(n):
    total = 0
    for i in range(n):
        total += i
    return total


def five(n):
    for _ in range(n):
        helper(20)


def ten(n):
    for _ in range(n):
        helper(50)


def quarter(n):
    items = []
    for i in range(n):
        items.append(i * i)
    items.clear()  # what a frame still holds at its end is freed after it, on its caller's account


def most(n):
    total = 0.0
    for i in range(n):
        total = total * 0.5 + i


path, seconds, _ = truth.arguments()
truth.run_slices({"five": (five, 5), "ten": (ten, 10), "quarter": (quarter, 25), "most": (most, 60)}, seconds)
truth.write(path)
