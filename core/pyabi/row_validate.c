// SPDX-License-Identifier: Apache-2.0
// Rows that cannot be true are refused before anybody reads memory by them.
#include "pyabi/pyabi.h"

#define LAST FM_PY_NEWEST_MINOR

// Room for the structures to grow (3.15's largest field in use: thread state 152, frame 78, code
// 232, object head 72), yet small enough that an address plus an offset stays in the neighbourhood
// of a true object.
enum { THREAD_MAX = 1024, CFRAME_MAX = 64, FRAME_MAX = 256, CODE_MAX = 512, OBJECT_MAX = 256, GC_MAX = 1 << 20 };

enum { MAY_BE_0 = 1, FREE_THREADED_ONLY = 2 };

// A field is needed from minor first to minor last, and must be 0 in all others.
static const struct rule {
	uint16_t at, max;
	uint8_t align, first, last, flags;
} rules[] = {
#define RULE(field, ...)                                       \
	{                                                      \
		offsetof(struct fm_py_row, field), __VA_ARGS__ \
	}
	RULE(ts_interp, THREAD_MAX, 8, 8, LAST, 0),
	RULE(ts_thread_id, THREAD_MAX, 8, 8, LAST, 0),
	RULE(ts_next, THREAD_MAX, 8, 8, LAST, 0),
	RULE(ts_native_id, THREAD_MAX, 8, 11, LAST, 0),
	RULE(ts_frame, THREAD_MAX, 8, 8, 10, 0),
	RULE(ts_cframe, THREAD_MAX, 8, 10, 12, 0),
	RULE(ts_current_frame, THREAD_MAX, 8, 13, LAST, 0),
	RULE(ts_datastack_top, THREAD_MAX, 8, 11, 12, 0),
	RULE(cframe_current_frame, CFRAME_MAX, 8, 11, 12, MAY_BE_0),
	RULE(cframe_previous, CFRAME_MAX, 8, 10, 12, 0),
	RULE(frame_previous, FRAME_MAX, 8, 8, LAST, 0),
	RULE(frame_code, FRAME_MAX, 8, 8, LAST, MAY_BE_0),
	RULE(frame_lasti, FRAME_MAX, 4, 8, LAST, 0),
	RULE(frame_is_entry, FRAME_MAX, 1, 11, 11, 0),
	RULE(frame_owner, FRAME_MAX, 1, 11, LAST, 0),
	RULE(frame_tlbc_index, FRAME_MAX, 4, 14, LAST, FREE_THREADED_ONLY),
	RULE(code_name, CODE_MAX, 8, 8, LAST, 0),
	RULE(code_qualname, CODE_MAX, 8, 11, LAST, 0),
	RULE(code_filename, CODE_MAX, 8, 8, LAST, 0),
	RULE(code_first_line, CODE_MAX, 4, 8, LAST, 0),
	RULE(code_line_table, CODE_MAX, 8, 8, LAST, 0),
	RULE(code_flags, CODE_MAX, 4, 11, 11, 0),
	RULE(code_bytecode, CODE_MAX, 2, 11, LAST, 0),
	RULE(code_tlbc, CODE_MAX, 8, 14, LAST, FREE_THREADED_ONLY),
	RULE(interp_eval_frame, THREAD_MAX, 8, 8, 8, 0),
	RULE(object_type, OBJECT_MAX, 8, 8, LAST, 0),
	RULE(str_length, OBJECT_MAX, 8, 8, LAST, 0),
	RULE(str_state, OBJECT_MAX, 4, 8, LAST, 0),
	RULE(str_ascii_data, OBJECT_MAX, 4, 8, LAST, 0),
	RULE(str_compact_data, OBJECT_MAX, 4, 8, LAST, 0),
	RULE(bytes_size, OBJECT_MAX, 8, 8, LAST, 0),
	RULE(bytes_data, OBJECT_MAX, 1, 8, LAST, 0),
#undef RULE
};

static int obeys(const struct fm_py_row *row, const struct rule *rule)
{
	uint16_t off = *(const uint16_t *)((const uint8_t *)row + rule->at);
	int is_needed = row->minor >= rule->first && row->minor <= rule->last &&
			(!(rule->flags & FREE_THREADED_ONLY) || row->is_free_threaded);
	if (!is_needed)
		return off == 0;
	return off <= rule->max && off % rule->align == 0 && (off != 0 || (rule->flags & MAY_BE_0));
}

// How frames are chained follows from the version.
static int has_its_kinds(const struct fm_py_row *row)
{
	switch (row->minor) {
	case 8:
	case 9:
		return row->frames == FM_PY_FRAMES_OBJECTS && row->lasti == FM_PY_LASTI_BYTES &&
		       row->line_table == FM_PY_LINES_LNOTAB;
	case 10:
		return row->frames == FM_PY_FRAMES_OBJECTS_CFRAME && row->lasti == FM_PY_LASTI_UNITS &&
		       row->line_table == FM_PY_LINES_310;
	case 11:
		return row->frames == FM_PY_FRAMES_ENTRY_FLAG && row->lasti == FM_PY_LASTI_POINTER &&
		       row->line_table == FM_PY_LINES_311;
	case 12:
		return row->frames == FM_PY_FRAMES_SHIM_CFRAME && row->lasti == FM_PY_LASTI_POINTER &&
		       row->line_table == FM_PY_LINES_311;
	default:
		return row->frames == FM_PY_FRAMES_SHIM && row->lasti == FM_PY_LASTI_POINTER &&
		       row->line_table == FM_PY_LINES_311;
	}
}

static int are_apart(const uint16_t *offs, unsigned n, unsigned width)
{
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < i; j++)
			if (offs[i] < offs[j] + width && offs[j] < offs[i] + width)
				return 0;
	return 1;
}

// Two fields in one place: a table read by the wrong layout, or no table at all.
static int has_no_overlap(const struct fm_py_row *row)
{
	const uint16_t in_frame[] = { row->frame_previous, row->frame_code, row->frame_lasti };
	const uint16_t in_code[] = { row->code_name, row->code_filename, row->code_line_table, row->code_qualname };
	const uint16_t in_thread[] = { row->ts_interp, row->ts_thread_id,
				       row->minor >= 13   ? row->ts_current_frame
				       : row->minor >= 11 ? row->ts_cframe
							  : row->ts_frame };
	// code_qualname is 0 up to 3.10, where an object's head is: apart from the rest in any
	// case.
	return are_apart(in_frame, FM_ARRAY_LEN(in_frame), 8) && are_apart(in_code, FM_ARRAY_LEN(in_code), 8) &&
	       are_apart(in_thread, FM_ARRAY_LEN(in_thread), 8);
}

static int has_true_strings(const struct fm_py_row *row)
{
	return row->str_kind_shift < 30 && row->str_kind_mask == 7u << row->str_kind_shift &&
	       row->str_compact_mask == 1u << (row->str_kind_shift + 3) &&
	       row->str_ascii_mask == 1u << (row->str_kind_shift + 4) && row->str_length < row->str_state &&
	       row->str_state < row->str_ascii_data && row->str_ascii_data < row->str_compact_data &&
	       row->bytes_size < row->bytes_data;
}

static int has_true_gc(const struct fm_py_row *row)
{
	uint32_t used = row->minor == 8 ? row->runtime_gc_collecting : row->interp_gc_collecting;
	uint32_t other = row->minor == 8 ? row->interp_gc_collecting : row->runtime_gc_collecting;
	return used && used <= GC_MAX && used % 4 == 0 && other == 0;
}

static int has_true_lists(const struct fm_py_row *row)
{
	uint32_t gil = row->minor <= 11 ? row->runtime_gil : row->interp_gil;
	uint32_t other = row->minor <= 11 ? row->interp_gil : row->runtime_gil;
	return row->runtime_interpreters && row->runtime_interpreters <= GC_MAX && row->runtime_interpreters % 8 == 0 &&
	       row->interp_threads && row->interp_threads <= GC_MAX && row->interp_threads % 8 == 0 &&
	       row->interp_modules && row->interp_modules <= GC_MAX && row->interp_modules % 8 == 0 &&
	       row->interp_next <= GC_MAX && row->interp_next % 8 == 0 && row->interp_next != row->interp_threads &&
	       gil && gil <= GC_MAX && gil % 8 == 0 && other == 0 && (row->minor <= 11) == (row->runtime_current != 0);
}

enum fm_err fm_pyabi_row_validate(const struct fm_py_row *row)
{
	if (row->minor < FM_PY_OLDEST_MINOR || row->minor > FM_PY_NEWEST_MINOR)
		return FM_E_UNSUPPORTED;
	if (row->is_free_threaded > (row->minor >= 13))
		return FM_E_CORRUPT;
	for (unsigned i = 0; i < FM_ARRAY_LEN(rules); i++)
		if (!obeys(row, &rules[i]))
			return FM_E_CORRUPT;
	// The walkers clear these bits from pointers to objects, which are aligned to 8 at least.
	if (row->executable_tag_mask > 7)
		return FM_E_CORRUPT;
	if (row->minor >= 11 && (row->first_shim_owner == 0 || row->generator_owner >= row->first_shim_owner))
		return FM_E_CORRUPT;
	int is_true = has_its_kinds(row) && has_true_lists(row) && has_no_overlap(row) && has_true_strings(row) &&
		      has_true_gc(row);
	return is_true ? FM_OK : FM_E_CORRUPT;
}
