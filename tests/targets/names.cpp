// Templates and inlining. Compiled with -O2 -g; every call below main that is not marked noinline is inlined.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace shop {

template <class Key, class Value> struct Shelf {
	std::vector<std::pair<Key, Value>> items;

	inline __attribute__((always_inline)) uint64_t mix(uint64_t x) const
	{
		// one line, as the loop's own instructions are sampled, too
		for (int i = 0; i < 64; i++) x = x * 6364136223846793005u + 1442695040888963407u; // LINE mix
		return x;
	}

	__attribute__((noinline)) uint64_t count(uint64_t n) const
	{
		uint64_t sum = items.size();
		for (uint64_t i = 0; i < n; i++)
			sum ^= mix(sum + i); // LINE count
		return sum;
	}
};

} // namespace shop

int main(int argc, char **argv)
{
	shop::Shelf<std::string, std::vector<int>> shelf;
	uint64_t sum = 0, n = argc > 1 ? strtoull(argv[1], nullptr, 10) : 400;
	for (uint64_t i = 0; i < n; i++)
		sum += shelf.count(10000 + (sum & 1)); // LINE main
	printf("%d\n", (int)(sum & 1));
	return 0;
}
