// SPDX-License-Identifier: Apache-2.0
// A test runner in one header. Each TEST runs in a forked child, so a crash is one red line and not
// the end.
//   TEST(truncated_file_keeps_whole_records) { CHECK(n == 3); CHECK_EQ(a, b); }
//   TEST_MAIN()
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct test_case {
	const char *name;
	void (*run)(void);
};

#define TEST(test_name)                                                                                       \
	static void test_##test_name(void);                                                                   \
	static const struct test_case case_##test_name = { #test_name, test_##test_name };                    \
	static const struct test_case *const entry_##test_name __attribute__((used, section("test_cases"))) = \
		&case_##test_name;                                                                            \
	static void test_##test_name(void)

#define CHECK(cond)                                                                 \
	do {                                                                        \
		if (!(cond)) {                                                      \
			printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
			fflush(stdout);                                             \
			_exit(1);                                                   \
		}                                                                   \
	} while (0)

#define CHECK_EQ(a, b)                                                                               \
	do {                                                                                         \
		intmax_t a_ = (intmax_t)(a), b_ = (intmax_t)(b);                                     \
		if (a_ != b_) {                                                                      \
			printf("%s:%d: %s is %jd, %s is %jd\n", __FILE__, __LINE__, #a, a_, #b, b_); \
			fflush(stdout);                                                              \
			_exit(1);                                                                    \
		}                                                                                    \
	} while (0)

#define CHECK_STR(str, expected)                                                                                   \
	do {                                                                                                       \
		struct fm_str s_ = (str);                                                                          \
		if (s_.len != strlen(expected) || memcmp(s_.p, expected, s_.len)) {                                \
			printf("%s:%d: %s is \"%.*s\", not \"%s\"\n", __FILE__, __LINE__, #str, (int)s_.len, s_.p, \
			       expected);                                                                          \
			fflush(stdout);                                                                            \
			_exit(1);                                                                                  \
		}                                                                                                  \
	} while (0)

#define TEST_MAIN()                                                                                       \
	extern const struct test_case *const __start_test_cases[], *const __stop_test_cases[];            \
	int main(int argc, char **argv)                                                                   \
	{                                                                                                 \
		unsigned n_passed = 0, n_failed = 0;                                                      \
		for (const struct test_case *const *c = __start_test_cases; c < __stop_test_cases; c++) { \
			if (argc > 1 && !strstr((*c)->name, argv[1]))                                     \
				continue;                                                                 \
			fflush(stdout);                                                                   \
			pid_t pid = fork();                                                               \
			if (pid == 0) {                                                                   \
				(*c)->run();                                                              \
				exit(0); /* not _exit: lets LeakSanitizer speak */                        \
			}                                                                                 \
			int status = 0;                                                                   \
			waitpid(pid, &status, 0);                                                         \
			if (status == 0) {                                                                \
				n_passed++;                                                               \
			} else {                                                                          \
				n_failed++;                                                               \
				printf("FAILED %s (status 0x%x)\n", (*c)->name, (unsigned)status);        \
			}                                                                                 \
		}                                                                                         \
		printf("%u passed, %u failed\n", n_passed, n_failed);                                     \
		return n_failed != 0;                                                                     \
	}
