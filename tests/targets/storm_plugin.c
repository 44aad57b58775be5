// A library that storm.c opens and closes all the time.
int storm_plugin_sum(int n);
int storm_plugin_sum(int n)
{
	volatile int sum = 0;
	for (int i = 0; i < n; i++)
		sum += i;
	return sum;
}
