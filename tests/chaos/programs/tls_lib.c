/* A library with a thread-local variable, as many extension modules have. Copies of it are loaded by the dozen. */
static __thread long counter = 1;
static __thread char room[200];

long touch(long n)
{
	counter += n;
	room[n % 200]++;
	return counter;
}
