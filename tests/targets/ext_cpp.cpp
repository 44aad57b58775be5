// C++ between Python frames (chain.py): templates, virtual calls, exceptions, std::sort with a callback, std::thread.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" void *PyObject_CallFunctionObjArgs(void *callable, ...);

#define LINK __attribute__((noinline, noipa, visibility("default")))
#define NO_TAIL_CALL() __asm__ volatile("")

static volatile uint64_t sink;

LINK void cpp_work(long n)
{
	uint64_t x = sink;
	for (long i = 0; i < n; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	sink = x;
}

template <typename F>
LINK void cpp_apply(F f)
{
	f();
	NO_TAIL_CALL();
}

struct Shape {
	virtual ~Shape() = default;
	virtual void visit(void *callback) = 0;
};

struct Circle : Shape {
	LINK void visit(void *callback) override
	{
		sink = sink + reinterpret_cast<uintptr_t>(PyObject_CallFunctionObjArgs(callback, nullptr));
	}
};

struct Cleaner {
	LINK ~Cleaner() { cpp_work(3000); } // runs while the stack is unwound for an exception
};

LINK void cpp_thrower(int depth)
{
	Cleaner cleaner;
	if (depth == 0)
		throw std::runtime_error(std::string("expected"));
	cpp_thrower(depth - 1);
	NO_TAIL_CALL();
}

LINK void cpp_catcher()
{
	try {
		cpp_thrower(4);
	} catch (const std::exception &) {
		cpp_work(500);
	}
}

LINK bool cpp_less(int a, int b)
{
	cpp_work(10);
	return a < b;
}

LINK void cpp_sort()
{
	std::vector<int> values;
	for (int i = 0; i < 100; i++)
		values.push_back(i * 37 % 100);
	std::sort(values.begin(), values.end(), cpp_less);
}

LINK void cpp_thread_main(long n)
{
	for (int i = 0; i < 10; i++)
		cpp_work(n);
}

extern "C" LINK void *cpp_enter(void *callback)
{
	std::function<void()> call = [callback] {
		std::unique_ptr<Shape> shape(new Circle);
		shape->visit(callback);
	};
	cpp_apply(call);
	return nullptr;
}

extern "C" LINK void *cpp_deep(void *callback)
{
	try {
		std::unique_ptr<Shape> shape(new Circle);
		shape->visit(callback);
	} catch (...) {
	}
	return nullptr;
}

extern "C" LINK void *cpp_spin(long rounds)
{
	for (long i = 0; i < rounds; i++) {
		cpp_work(1000);
		cpp_catcher();
		cpp_sort();
		std::thread worker(cpp_thread_main, 500);
		cpp_work(1000);
		worker.join();
	}
	NO_TAIL_CALL();
	return nullptr;
}
