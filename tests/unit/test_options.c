// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <limits.h>

#include "base/compiler.h"
#include "base/str.h"
#include "cli/options/options.h"

static struct {
	bool json, native;
	const char *out, *memory, *unit;
	uint64_t rate;
	int64_t precision;
	double seconds;
} got;

static const struct fm_option options[] = {
	{ "json", 'j', FM_OPT_FLAG, &got.json, NULL, "for machines" },
	{ "no-native", 'p', FM_OPT_NO_FLAG, &got.native, NULL, "Python frames only" },
	{ "output", 'o', FM_OPT_TEXT, &got.out, "FILE", "where to write" },
	{ "memory", 0, FM_OPT_OPTIONAL_TEXT, &got.memory, "exact", "memory too" },
	{ "unit", 0, FM_OPT_CHOICE, &got.unit, "samples|us", "what to count" },
	{ "rate", 'r', FM_OPT_UINT, &got.rate, "HZ", "samples a second" },
	{ "precision", 0, FM_OPT_INT, &got.precision, "N", "finer or coarser" },
	{ "duration", 'd', FM_OPT_REAL, &got.seconds, "S", "how long" },
	{ "idle", 'i', FM_OPT_IGNORED, NULL, NULL, NULL },
	{ 0 },
};

static bool parse(bool stop_at_first_operand, struct fm_operands *ops, int *exit_code, const char *line)
{
	static char text[512];
	static char *argv[32];
	int argc = 0;
	snprintf(text, sizeof(text), "%s", line);
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	memset(&got, 0, sizeof(got));
	got.native = true;
	const struct fm_usage usage = { .command = "test",
					.operands = "FILE",
					.about = "A test.",
					.options = options,
					.stop_at_first_operand = stop_at_first_operand,
					.number_letter = 'j',
					.number_option = "rate",
					.min_operands = 1,
					.max_operands = UINT_MAX,
					.missing_operand = "name a file" };
	return fm_options_parse(&usage, argc, argv, ops, exit_code);
}

TEST(every_spelling_of_a_value_is_understood)
{
	struct fm_operands ops;
	int code;
	static const char *const lines[] = { "test --output x.json --rate 250 F", "test --output=x.json -r250 F",
					     "test -o x.json -r 250 F", "test F -ox.json -r=250",
					     "test -jo x.json F --rate=250" };
	for (size_t i = 0; i < FM_ARRAY_LEN(lines); i++) {
		CHECK(parse(false, &ops, &code, lines[i]));
		CHECK_STR(fm_str_of(got.out), "x.json");
		CHECK_EQ(got.rate, 250);
		CHECK_EQ(ops.n, 1);
		CHECK_STR(fm_str_of(ops.v[0]), "F");
	}
}

TEST(kinds_store_what_they_say)
{
	struct fm_operands ops;
	int code;
	CHECK(parse(false, &ops, &code,
		    "test -jpi --memory=exact --unit us --rate 10k --precision -3 --duration 1.5 F"));
	CHECK(got.json && !got.native);
	CHECK_STR(fm_str_of(got.memory), "exact");
	CHECK_STR(fm_str_of(got.unit), "us");
	CHECK_EQ(got.rate, 10000);
	CHECK_EQ(got.precision, -3);
	CHECK(got.seconds == 1.5);
	CHECK(parse(false, &ops, &code, "test --memory F"));
	CHECK_STR(fm_str_of(got.memory), ""); // the optional value is never the next argument
	CHECK_EQ(ops.n, 1);
}

TEST(what_follows_the_target_belongs_to_it)
{
	struct fm_operands ops;
	int code;
	CHECK(parse(true, &ops, &code, "test -j script.py --json -o x -- -r"));
	CHECK(got.json && !got.out);
	CHECK_EQ(ops.n, 6);
	CHECK_STR(fm_str_of(ops.v[1]), "--json");
	CHECK_STR(fm_str_of(ops.v[4]), "--");
	CHECK(ops.v[6] == NULL);
	CHECK(parse(true, &ops, &code, "test -j -- -m mod"));
	CHECK_EQ(ops.n, 2);
	CHECK_STR(fm_str_of(ops.v[0]), "-m");
}

TEST(wrong_usage_is_refused_with_exit_code_2)
{
	struct fm_operands ops;
	static const char *const lines[] = { "test --jsn F",
					     "test -x F",
					     "test F -o",
					     "test --json=1 F",
					     "test --unit ms F",
					     "test",
					     "test --rate -1 F",
					     "test --rate 1x F",
					     "test --rate 99999999999999999999 F",
					     "test --duration nan F",
					     "test --precision 1.5 F",
					     "test --unit= F" };
	for (size_t i = 0; i < FM_ARRAY_LEN(lines); i++) {
		int code = -1;
		CHECK(!parse(false, &ops, &code, lines[i]));
		CHECK_EQ(code, FM_EXIT_USAGE);
	}
}

TEST(help_names_every_option_within_the_width)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	const struct fm_usage usage = { .command = "test",
					.operands = "FILE",
					.about = "A test of the help that is long enough to be "
						 "wrapped somewhere before the end.",
					.options = options,
					.examples = "  fathom test F\n" };
	fm_options_help(&usage, f, 60);
	fclose(f);
	CHECK(strstr(text, "  -o, --output FILE"));
	CHECK(strstr(text, "--memory[=exact]"));
	CHECK(strstr(text, "--unit samples|us"));
	CHECK(!strstr(text, "--idle"));
	CHECK(strstr(text, "  -h, --help"));
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		CHECK(strcspn(line, "\n") <= 60);
	free(text);
}

TEST(choices_are_taken_in_any_case)
{
	struct fm_operands ops;
	int code;
	CHECK(parse(false, &ops, &code, "test --unit US F"));
	CHECK_STR(fm_str_of(got.unit), "us");
	CHECK(parse(false, &ops, &code, "test --unit=Samples F"));
	CHECK_STR(fm_str_of(got.unit), "samples");
	CHECK(!parse(false, &ops, &code, "test --unit USX F"));
}

TEST(a_flag_with_a_number_behind_it_is_another_option)
{
	struct fm_operands ops;
	int code;
	static const char *const lines[] = { "test -j 999 F", "test -j999 F", "test -pj 999 F" };
	for (size_t i = 0; i < FM_ARRAY_LEN(lines); i++) {
		CHECK(parse(true, &ops, &code, lines[i]));
		CHECK_EQ(got.rate, 999);
		CHECK(!got.json);
		CHECK_EQ(ops.n, 1);
	}
	CHECK(parse(true, &ops, &code, "test -j F 999"));
	CHECK(got.json && !got.rate);
	CHECK_EQ(ops.n, 2);
}

TEST(options_behind_a_target_are_seen)
{
	char *behind[] = { "7", "--its-own", "--rate=5", "--json" }, *none[] = { "--its-own", "--", "--json" };
	CHECK_STR(fm_str_of(fm_options_misplaced(options, behind, 4)), "--rate=5");
	CHECK(!fm_options_misplaced(options, none, 3));
	char *hidden[] = { "--idle", "-j" }; // one that help does not name, and a letter, which any program may have
	CHECK(!fm_options_misplaced(options, hidden, 2));
}

TEST_MAIN()
