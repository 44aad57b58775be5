// Zones of C++ code, by their own macros and by Tracy's.
#include <TracyCompat.h>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace {

TracyLockableN(std::mutex, guard, "guard");

template <typename T> T twice(T value)
{
	ZoneScopedN("twice");
	return value + value;
}

void throws(int i)
{
	ZoneScoped;
	ZoneValue(i);
	std::lock_guard<LockableBase(std::mutex)> hold(guard);
	LockMark(guard);
	throw std::runtime_error("left by an exception");
}

} // namespace

extern "C" void tracy_work(int n)
{
	FATHOM_ZONE("outer");
	for (int i = 0; i < n; i++) {
		ZoneScopedNC("round", 0xff0000);
		twice(i);
		twice(i * 0.5);
		try {
			throws(i);
		} catch (const std::runtime_error &) {
			TracyMessageL("caught");
		}
		TracyPlot("round", (int64_t)i);
		FrameMark;
	}
	TracyMessage("finished", 8);
}

extern "C" void tracy_thread(int n)
{
	std::thread([n] {
		tracy::SetThreadName("tracy-thread");
		tracy_work(n);
	}).join();
}
