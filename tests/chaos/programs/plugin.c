/* A plugin that is loaded, calls back through frames of its own, and is unloaded. */
typedef long (*callback)(long);

__attribute__((noinline)) static long nest(callback call, long depth, long n)
{
	volatile long kept = n;
	if (depth > 0)
		return nest(call, depth - 1, n) + kept - n;
	for (volatile long i = 0; i < 3000; i++)
		kept += i & 1;
	return call(n) + kept - n;
}

long plugin_call(callback call, long depth, long n)
{
	return nest(call, depth, n) + 1;
}
