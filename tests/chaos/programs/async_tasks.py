"""asyncio: many tasks that wait for one another, are cancelled and time out, from stacks of different depth."""

import asyncio
import sys

scale = float(sys.argv[1])


async def nest(depth, n):
    if depth:
        return await nest(depth - 1, n)
    await asyncio.sleep(0)
    return n


async def cancelled():
    task = asyncio.ensure_future(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return 1


async def main():
    total = 0
    for i in range(max(1, int(220 * scale))):
        total += sum(await asyncio.gather(*(nest(d + i, d) for d in range(0, 120, 3))))
        total += await cancelled()
    return total


print(asyncio.run(main()))
