// A static function that only a full symbol table or debug information names, below an exported one.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t __attribute__((noinline)) hidden_work(uint64_t x)
{
	for (int i = 0; i < 640000; i++)
		x = x * 6364136223846793005u + 1442695040888963407u; // LINE hidden
	return x;
}

uint64_t exported_work(uint64_t x);
uint64_t __attribute__((noinline)) exported_work(uint64_t x)
{
	return hidden_work(x) + 1; // LINE exported
}

#ifndef LIBRARY
int main(int argc, char **argv)
{
	uint64_t sum = 0, n = argc > 1 ? strtoull(argv[1], NULL, 10) : 400;
	for (uint64_t i = 0; i < n; i++)
		sum += exported_work(sum); // LINE main
	printf("%d\n", (int)(sum & 1));
	return 0;
}
#endif
