// SPDX-License-Identifier: Apache-2.0
#include "symbolize/python_scopes.h"

#include "test.h"

// What the source's scope of that name in that line is called; "" when that is not known.
static void check(const char *source, uint32_t line, const char *name, const char *expected)
{
	struct fm_python_scopes s;
	struct fm_buf found = { 0 };
	fm_python_scopes_read(&s, fm_str_of(source));
	bool is_found = fm_python_scopes_qualname(&s, line, fm_str_of(name), &found);
	CHECK_EQ(is_found, expected[0] != 0);
	CHECK_STR(((struct fm_str){ (const char *)found.data, (uint32_t)found.len }), expected);
	fm_buf_deinit(&found);
	fm_python_scopes_deinit(&s);
}

TEST(methods_have_their_class_and_inner_functions_their_outer_one)
{
	const char *source = "class A(B):\n"
			     "    x = 1\n"
			     "\n"
			     "# a comment at the left margin ends nothing\n"
			     "    def m(self):\n"
			     "        def inner(): pass\n"
			     "        class C:\n"
			     "            def n(self): return 1\n"
			     "    async def a(self): pass\n"
			     "    class D: y = [i for i in z]\n"
			     "def f(): pass\n";
	check(source, 1, "A", "A");
	check(source, 5, "m", "A.m");
	check(source, 6, "inner", "A.m.<locals>.inner");
	check(source, 8, "n", "A.m.<locals>.C.n");
	check(source, 9, "a", "A.a");
	check(source, 10, "<listcomp>", "A.D.<listcomp>");
	check(source, 11, "f", "f");
}

TEST(a_line_without_such_a_definition_is_not_known)
{
	check("def f():\n    pass\n", 2, "f", "");
	check("def f():\n    pass\n", 1, "g", "");
	check("", 1, "f", "");
	check("def", 1, "f", "");
	check("s = 'def f(): pass'\n", 1, "f", "");
	check("'''\ndef f(): pass\n'''\n", 2, "f", "");
	check("# def f(): pass\n", 1, "f", "");
}

TEST(a_decorated_one_begins_with_its_first_decorator)
{
	const char *source = "class A:\n"
			     "    @one(lambda: 0,\n"
			     "         2)\n"
			     "    # why\n"
			     "    @two\n"
			     "    async def m(self): pass\n";
	check(source, 2, "m", "A.m");
	check(source, 6, "m", "");
	check(source, 2, "<lambda>", "A.<lambda>");
}

TEST(strings_of_all_kinds_hide_what_is_in_them)
{
	const char *source = "class A:\n"
			     "    a = \"class B:\\\"\"; b = 'it''s \\' (['\n"
			     "    c = r'\\'; d = rb'''(\n"
			     "class C:\n"
			     "'''\n"
			     "    e = '\\\n"
			     "('\n"
			     "    def m(self): pass\n";
	check(source, 8, "m", ""); // r'\' runs on: the quote behind a backslash does not end it
	const char *right = "class A:\n"
			    "    a = \"class B:\\\"\"; b = 'it''s \\' (['\n"
			    "    c = r'\\\\'; d = rb'''(\n"
			    "class C:\n"
			    "'''\n"
			    "    e = '\\\n"
			    "('\n"
			    "    def m(self): pass\n";
	check(right, 8, "m", "A.m");
}

TEST(continued_lines_are_one_statement)
{
	const char *source = "class A:\n"
			     "    def m(self, x=(1,\n"
			     "2), y={3:\n"
			     "4}) \\\n"
			     "-> int:\n"
			     "        return [\n"
			     "i for i in y\n"
			     "]\n"
			     "    z = 1 + \\\n"
			     "2\n"
			     "    def n(self): pass\r\n";
	check(source, 2, "m", "A.m");
	check(source, 6, "<listcomp>", "A.m.<locals>.<listcomp>");
	check(source, 11, "n", "A.n");
}

TEST(lambdas_and_comprehensions_are_inside_each_other_as_the_compiler_sees_it)
{
	check("f = lambda x, y=lambda: 1: lambda: 2\n", 1, "<lambda>", "");
	check("f = lambda x: (\n  lambda: 2)\n", 2, "<lambda>", "<lambda>.<locals>.<lambda>");
	check("f(lambda: 0,\n  lambda: 1)\n", 2, "<lambda>", "<lambda>");
	check("def f():\n    return {a: [\nb for b in a] for a in c}\n", 2, "<dictcomp>", "f.<locals>.<dictcomp>");
	check("def f():\n    return {a: [\nb for b in a] for a in c}\n", 2, "<listcomp>",
	      "f.<locals>.<dictcomp>.<listcomp>");
	check("[a for a in (\nb for b in c)]\n", 1, "<genexpr>", "<genexpr>"); // the first iterable is outside
	check("[a for x in y for a in (\nb for b in c)]\n", 1, "<genexpr>", "<listcomp>.<genexpr>");
	check("{a if b else\n(lambda: 0) for a in y if (\nlambda: 1)}\n", 2, "<lambda>", "<setcomp>.<lambda>");
	check("{a if b else\n(lambda: 0) for a in y if (\nlambda: 1)}\n", 3, "<lambda>", "<setcomp>.<lambda>");
	check("class A:\n    def m(self, f=lambda: 0): pass\n", 2, "<lambda>", "A.<lambda>");
	check("if lambda: x: y = lambda: 1\n", 1, "<lambda>", "<lambda>");
}

TEST(fields_of_format_strings_are_code)
{
	check("def f():\n    return f'{{ {\", \".join(x for x in y)!r:>{w}} }}'\n", 2, "<genexpr>",
	      "f.<locals>.<genexpr>");
	check("def f():\n    return '{x for x in y}'\n", 2, "<setcomp>", "");
	check("class A:\n    s = rf'\\N{{x}}{[\"}\" for x in y]}'\n    def m(self): pass\n", 3, "m", "A.m");
	check("class A:\n    s = f'\\N{BULLET}{'\n    def m(self): pass\n", 3, "m", "A.m");
}

TEST(what_is_declared_global_is_the_modules)
{
	const char *source = "def f():\n    global g, H\n    def g(): pass\n    class H:\n        def m(self): pass\n"
			     "    def i(): pass\n";
	check(source, 3, "g", "g");
	check(source, 5, "m", "H.m");
	check(source, 6, "i", "f.<locals>.i");
}

TEST(several_of_one_name_in_a_line_are_told_only_if_they_are_called_alike)
{
	check("class A: f = lambda: 0; g = lambda: 1\n", 1, "<lambda>", "A.<lambda>");
	check("f = lambda: (lambda: 0)\n", 1, "<lambda>", "");
}

TEST(what_nests_too_deeply_is_read_up_to_there)
{
	struct fm_buf text = { 0 };
	fm_buf_str(&text, "def f(): pass\n");
	for (int i = 0; i < 100000; i++)
		fm_buf_str(&text, "((lambda:[lambda:");
	check((const char *)text.data, 1, "f", "f");
	fm_buf_deinit(&text);
}

TEST_MAIN()
