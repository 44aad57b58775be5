# Many tasks of one event loop, coroutines within coroutines, an asynchronous generator and a context manager.
# from library: work, main, client, server, ticks, called_soon, __anext__
import asyncio

import oracle


async def leaf(n):
    await asyncio.sleep(0)  # calls: library
    return count(n)  # calls: count


def count(n):
    return n + 1


async def middle(n):
    return await leaf(n)  # calls: leaf


async def client(queue):
    for i in range(5):
        await middle(i)  # calls: middle
        await queue.put(i)  # calls: library


async def server(queue, n):
    for _ in range(n):
        got = await queue.get()  # calls: library
        count(got)  # calls: count


async def ticks(n):
    for i in range(n):
        await asyncio.sleep(0)  # calls: library
        yield i


class Lock:
    async def __aenter__(self):
        await leaf(1)  # calls: leaf

    async def __aexit__(self, *what):
        await leaf(2)  # calls: leaf


def called_soon():
    count(1)  # calls: count


async def main():
    queue = asyncio.Queue()  # calls: library
    tasks = [asyncio.ensure_future(client(queue)) for _ in range(20)]  # calls: client, library, <listcomp>
    tasks.append(asyncio.ensure_future(server(queue, 100)))  # calls: server, library
    asyncio.get_running_loop().call_soon(called_soon)  # calls: library
    async for _ in ticks(5): pass  # calls: ticks, library
    async with Lock():  # calls: __aenter__, __aexit__
        await leaf(3)  # calls: leaf, __aexit__
    await asyncio.gather(*tasks)  # calls: library


def work():
    loop.run_until_complete(main())  # calls: main, library


loop = asyncio.new_event_loop()  # calls: library
oracle.run(work)  # calls: library
loop.close()  # calls: library
