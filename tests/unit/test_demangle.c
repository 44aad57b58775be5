// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "base/mem.h"
#include "symbolize/parts.h"

static const struct {
	const char *symbol, *name, *full; // full NULL: as name
} cases[] = {
	// C, and what compilers append
	{ "plain", "plain", NULL },
	{ "work.cold", "work", NULL },
	{ "work.part.0.isra.1", "work", NULL },
	{ "memcpy@@GLIBC_2.14", "memcpy", NULL },
	{ "sin@plt", "sin@plt", NULL },
	{ "_ZN1a1bEv@plt", "a::b@plt", "a::b()@plt" },
	{ "@plt", "@plt", NULL },
	{ ".hidden", ".hidden", NULL },
	{ "_", "_", NULL },
	{ "_Z", "_Z", NULL },
	{ "", "", NULL },
	// C++
	{ "_ZN5numpy6kernel3dotEPKdS2_m", "numpy::kernel::dot",
	  "numpy::kernel::dot(double const*, double const*, unsigned long)" },
	{ "_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<...>::push_back",
	  "std::vector<int, std::allocator<int> >::push_back(int&&)" },
	{ "_Z3maxIiET_S0_S0_", "max<int>", "int max<int>(int, int)" },
	{ "_ZN1a1bEv.constprop.0", "a::b", "a::b()" },
	{ "_ZlsRSoRKSs", "operator<<", "operator<<(std::ostream&, std::string const&)" },
	{ "_ZN12_GLOBAL__N_13runEv", "(anonymous namespace)::run", "(anonymous namespace)::run()" },
	{ "_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()", "main::{lambda()#1}::operator()() const" },
	// Rust: legacy and v0, hashes gone
	{ "_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place", NULL },
	{ "_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$4into17h0123456789abcdefE",
	  "<T as core::convert::Into<U>>::into", NULL },
	{ "_RNvC6_123foo3bar", "123foo::bar", NULL },
	{ "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar", NULL },
	{ "_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>", NULL },
	// PyO3
	{ "_ZN7mycrate22__pyfunction_transform17h0123456789abcdefE", "mycrate::transform (PyO3)",
	  "mycrate::__pyfunction_transform" },
	{ "_ZN7mycrate4Tree20__pymethod_insert__17h0123456789abcdefE", NULL, NULL }, // a wrong length stays as it is
	{ "_ZN7mycrate4Tree19__pymethod_insert__17h0123456789abcdefE", "mycrate::Tree::insert (PyO3)",
	  "mycrate::Tree::__pymethod_insert__" },
	// Cython
	{ "__pyx_pw_5numpy_6random_8_mt19937_1foo", "numpy.random._mt19937.foo (Cython)",
	  "__pyx_pw_5numpy_6random_8_mt19937_1foo" },
	{ "__pyx_pw_5numpy_6random_8_mt19937_7MT19937_5jumped", "numpy.random._mt19937.MT19937.jumped (Cython)",
	  "__pyx_pw_5numpy_6random_8_mt19937_7MT19937_5jumped" },
	{ "__pyx_pf_5numpy_6random_8_mt19937_7MT19937___init__", "numpy.random._mt19937.MT19937.__init__ (Cython)",
	  "__pyx_pf_5numpy_6random_8_mt19937_7MT19937___init__" },
	{ "__pyx_pf_4mine_first", "mine.first (Cython)", "__pyx_pf_4mine_first" },
	{ "__pyx_pf_4mine_3Foo_bar", "mine.Foo.bar (Cython)", "__pyx_pf_4mine_3Foo_bar" },
	{ "__pyx_pf_4mine_4some_function", "mine.some_function (Cython)", "__pyx_pf_4mine_4some_function" },
	{ "__pyx_pw_4mine_3foo_bar", "mine.foo_bar (Cython)", "__pyx_pw_4mine_3foo_bar" },
	{ "__pyx_pw_4mine_5outer_1inner", "mine.outer.inner (Cython)", "__pyx_pw_4mine_5outer_1inner" },
	{ "__pyx_f_5numpy_6random_7_common_disc", "numpy.random._common.disc (Cython)",
	  "__pyx_f_5numpy_6random_7_common_disc" },
	{ "__pyx_fuse_0__pyx_f_5scipy_6linalg_3lu", NULL, NULL },
	{ "__pyx_fuse_1__pyx_pw_4mine_7scale", "mine.scale (Cython)", "__pyx_fuse_1__pyx_pw_4mine_7scale" },
	{ "__pyx_pymod_exec__mt19937", "_mt19937 module body (Cython)", "__pyx_pymod_exec__mt19937" },
	{ "__pyx_tp_dealloc_4mine_Tree", "mine.Tree.__del__ (Cython)", "__pyx_tp_dealloc_4mine_Tree" },
	{ "__pyx_pw_", "__pyx_pw_", NULL },
	{ "__pyx_pw_nothing", "__pyx_pw_nothing", NULL },
	{ "__pyx_pw_99999999999999999999_x", "__pyx_pw_99999999999999999999_x", NULL },
	{ "__Pyx_PyObject_Call", "__Pyx_PyObject_Call", NULL },
};

TEST(names_are_what_people_write)
{
	struct fm_arena arena;
	fm_arena_init(&arena);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct fm_pretty p = fm_demangle(&arena, fm_str_of(cases[i].symbol));
		if (!cases[i].name)
			continue;
		CHECK_STR(p.name, cases[i].name);
		CHECK_STR(p.full, cases[i].full ? cases[i].full : cases[i].name);
	}
	fm_arena_deinit(&arena);
}

TEST(only_long_argument_lists_are_shortened)
{
	static const char *const names[][2] = {
		{ "f<int>", "f<int>" },
		{ "std::map<std::string, std::vector<int> >::find", "std::map<...>::find" },
		{ "a<bbbbbbbbbbbbbbbbbbbbbbbbbb>::c<dddddddddddddddddddddddd>", "a<...>::c<...>" },
		{ "operator<", "operator<" },
		{ "operator<< <std::char_traits<char> >", "operator<< <std::char_traits<char> >" },
		{ "x::operator-><aaaaaaaaaaaaaaaaaaaaaaaaaaa>", "x::operator-><...>" },
		{ "my_operator<aaaaaaaaaaaaaaaaaaaaaaaaaaa>", "my_operator<...>" },
		{ "<alloc::vec::Vec<alloc::string::String> as core::ops::Drop>::drop",
		  "<alloc::vec::Vec<...> as core::ops::Drop>::drop" },
		{ "core::slice::<impl [T]>::sort_unstable_by_key", "core::slice::<impl [T]>::sort_unstable_by_key" },
		{ "fold::<u64, closure_that_is_rather_long>", "fold::<...>" },
		{ "f<decltype(a->b), and_something_more_after>", "f<...>" },
		{ "unbalanced<aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "unbalanced<aaaaaaaaaaaaaaaaaaaaaaaaaaaaa" },
		{ ">>>", ">>>" },
		{ "<", "<" },
	};
	struct fm_arena arena;
	fm_arena_init(&arena);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		CHECK_STR(fm_demangle_shorten(&arena, fm_str_of(names[i][0]), 20), names[i][1]);
	fm_arena_deinit(&arena);
}

TEST(any_bytes_are_borne)
{
	struct fm_arena arena;
	uint32_t rng = 7;
	for (unsigned round = 0; round < 20000; round++) {
		fm_arena_init(&arena);
		char bytes[96];
		const char *seed = cases[round % (sizeof(cases) / sizeof(*cases))].symbol;
		size_t len = strlen(seed);
		memcpy(bytes, seed, len + 1);
		for (unsigned i = 0; i < 3 && len; i++) {
			rng = rng * 1664525 + 1013904223;
			bytes[(rng >> 8) % len] = (char)("0123456789_<>ZNEIRSL.$@"[(rng >> 3) % 23]);
		}
		fm_demangle(&arena, (struct fm_str){ bytes, (uint32_t)len });
		fm_arena_deinit(&arena);
	}
}

TEST_MAIN()
