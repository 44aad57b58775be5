// SPDX-License-Identifier: Apache-2.0
#include "symbolize/parts.h"

#include <string.h>
#include <sys/syscall.h>

#include "test.h"

TEST(names_are_those_of_this_system)
{
	CHECK(!strcmp(fm_x86_syscall_name(0), "read"));
#if defined(__x86_64__)
	CHECK(!strcmp(fm_x86_syscall_name(SYS_epoll_wait), "epoll_wait"));
	CHECK(!strcmp(fm_x86_syscall_name(SYS_futex), "futex"));
#endif
}

TEST(numbers_that_are_none_have_no_name)
{
	CHECK(!fm_x86_syscall_name(1000));
	CHECK(!fm_x86_syscall_name(UINT64_MAX));
	CHECK(!fm_x86_syscall_name(335)); // a hole
}

TEST_MAIN()
