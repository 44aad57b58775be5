// The C++ part of storm.c: an exception thrown through so many frames, each with a destructor to run on the way.
#include <stdexcept>
#include <string>

namespace {
struct counter {
	int &n;
	explicit counter(int &count) : n(count) {}
	~counter() { n++; }
};

__attribute__((noinline)) void descend(int depth, int &n_unwound)
{
	if (depth == 0)
		throw std::runtime_error("bottom " + std::to_string(n_unwound));
	counter c(n_unwound);
	descend(depth - 1, n_unwound);
}
} // namespace

extern "C" int storm_throw(int depth)
{
	int n_unwound = 0;
	try {
		descend(depth, n_unwound);
	} catch (const std::runtime_error &e) {
		return e.what()[0] == 'b' ? n_unwound : -1;
	}
	return -1;
}
