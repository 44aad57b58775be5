"""asyncio: producers and consumers over a queue, many short tasks, a little computing between the awaits."""

import asyncio

import common


def compute(n):
    x = 0
    for i in range(150):
        x += i * n & 0xFF
    return x


async def producer(items, count):
    for i in range(count):
        await items.put(compute(i))
        if i % 8 == 0:
            await asyncio.sleep(0)
    await items.put(None)


async def consumer(items):
    total = 0
    while True:
        item = await items.get()
        if item is None:
            return total
        total += item + compute(item & 7)


async def short(n):
    await asyncio.sleep(0)
    return compute(n)


async def unit():
    items = asyncio.Queue(maxsize=16)
    await asyncio.gather(producer(items, 64), consumer(items), *[short(n) for n in range(32)])


async def units_in_turn(units):
    for _ in range(units):
        await unit()


def body(units):
    asyncio.run(units_in_turn(units))


if __name__ == "__main__":
    common.run("asyncio_mix", 700, body)
