// SPDX-License-Identifier: Apache-2.0
// Reads the table _Py_DebugOffsets with which CPython 3.13 and later describe their own layout.
//
// It lies at the start of _PyRuntime: the cookie, PY_VERSION_HEX, then 64-bit offsets and sizes in
// sections. The sections differ by minor version, so a table can only be read by somebody who knows
// that version: a newer one is refused, never guessed. So are alphas and betas, whose tables moved
// between pre-releases without saying so.
//
// The bytes are untrusted (another process wrote them, or something else lies where we looked).
// Everything is checked here, once, so that whoever walks frames needs no checks of offsets.
//
// To add a version: copy the newest layout, put in the sections its pycore_debug_offsets.h has, set
// the static_assert to the new sizeof, add a line to versions[]. docs/cpython-support.md says what
// else to look at.
#include <assert.h>
#include <string.h>

#include "pyabi/pyabi.h"

struct offsets_313 {
	uint8_t cookie[8];
	uint64_t version, free_threaded;
	struct {
		uint64_t size, finalizing, interpreters_head;
	} runtime;
	struct {
		uint64_t size, id, next, threads_head, gc, imports_modules, sysdict, builtins, ceval_gil;
		uint64_t gil, gil_enabled, gil_locked, gil_holder;
	} interp;
	struct {
		uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status;
	} thread;
	struct {
		uint64_t size, previous, executable, instr_ptr, localsplus, owner;
	} frame;
	struct {
		uint64_t size, filename, name, qualname, line_table, first_line;
		uint64_t argcount, local_names, local_kinds, bytecode;
	} code;
	struct {
		uint64_t size, type;
	} object;
	struct {
		uint64_t size, name, repr, flags;
	} type;
	struct {
		uint64_t size, items, n_items;
	} tuple, list;
	struct {
		uint64_t size, keys, values;
	} dict;
	struct {
		uint64_t size, value;
	} real;
	struct {
		uint64_t size, tag, digits;
	} integer;
	struct {
		uint64_t size, length, data;
	} bytes;
	struct {
		uint64_t size, state, length, ascii_size;
	} str;
	struct {
		uint64_t size, collecting;
	} gc;
};
static_assert(sizeof(struct offsets_313) == 584, "sizeof(_Py_DebugOffsets) in 3.13");

// 3.14: thread-local bytecode of free-threaded builds, sets, generators, and what sys.remote_exec
// needs.
struct offsets_314 {
	uint8_t cookie[8];
	uint64_t version, free_threaded;
	struct {
		uint64_t size, finalizing, interpreters_head;
	} runtime;
	struct {
		uint64_t size, id, next, threads_head, threads_main, gc, imports_modules, sysdict, builtins, ceval_gil;
		uint64_t gil, gil_enabled, gil_locked, gil_holder, code_generation, tlbc_generation;
	} interp;
	struct {
		uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status;
	} thread;
	struct {
		uint64_t size, previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index;
	} frame;
	struct {
		uint64_t size, filename, name, qualname, line_table, first_line;
		uint64_t argcount, local_names, local_kinds, bytecode, tlbc;
	} code;
	struct {
		uint64_t size, type;
	} object;
	struct {
		uint64_t size, name, repr, flags;
	} type;
	struct {
		uint64_t size, items, n_items;
	} tuple, list;
	struct {
		uint64_t size, used, table, mask;
	} set;
	struct {
		uint64_t size, keys, values;
	} dict;
	struct {
		uint64_t size, value;
	} real;
	struct {
		uint64_t size, tag, digits;
	} integer;
	struct {
		uint64_t size, length, data;
	} bytes;
	struct {
		uint64_t size, state, length, ascii_size;
	} str;
	struct {
		uint64_t size, collecting;
	} gc;
	struct {
		uint64_t size, name, frame, frame_state;
	} generator;
	struct {
		uint64_t next, prev;
	} list_node;
	struct {
		uint64_t eval_breaker, support, enabled, pending_call, script_path, script_path_size;
	} debugger;
};
static_assert(sizeof(struct offsets_314) == 760, "sizeof(_Py_DebugOffsets) in 3.14");

// 3.15: what its own sampler wants: the GIL per thread, exceptions, the collector's frame and
// statistics, attribute tables.
struct offsets_315 {
	uint8_t cookie[8];
	uint64_t version, free_threaded;
	struct {
		uint64_t size, finalizing, interpreters_head;
	} runtime;
	struct {
		uint64_t size, id, next, threads_head, threads_main, gc, imports_modules, sysdict, builtins, ceval_gil;
		uint64_t gil, gil_enabled, gil_locked, gil_holder, code_generation, tlbc_generation;
	} interp;
	struct {
		uint64_t size, prev, next, interp, current_frame, base_frame;
		uint64_t last_profiled_frame, last_profiled_frame_seq, thread_id, native_thread_id;
		uint64_t datastack_chunk, status;
		uint64_t holds_gil, gil_requested, current_exception, exc_state;
	} thread;
	struct {
		uint64_t value;
	} exc_item;
	struct {
		uint64_t size, previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index;
	} frame;
	struct {
		uint64_t size, filename, name, qualname, line_table, first_line;
		uint64_t argcount, local_names, local_kinds, bytecode, tlbc;
	} code;
	struct {
		uint64_t size, type;
	} object;
	struct {
		uint64_t size, name, repr, flags, basic_size, dict_offset;
	} type;
	struct {
		uint64_t size, cached_keys;
	} heap_type;
	struct {
		uint64_t size, items, n_items;
	} tuple, list;
	struct {
		uint64_t size, used, table, mask;
	} set;
	struct {
		uint64_t size, keys, values;
	} dict;
	struct {
		uint64_t size, value;
	} real;
	struct {
		uint64_t size, tag, digits;
	} integer;
	struct {
		uint64_t size, length, data;
	} bytes;
	struct {
		uint64_t size, state, length, ascii_size, compact_size;
	} str;
	struct {
		uint64_t size, collecting, frame, stats_size, stats;
	} gc;
	struct {
		uint64_t size, name, frame, frame_state;
	} generator;
	struct {
		uint64_t next, prev;
	} list_node;
	struct {
		uint64_t eval_breaker, support, enabled, pending_call, script_path, script_path_size;
	} debugger;
};
static_assert(sizeof(struct offsets_315) == 888, "sizeof(_Py_DebugOffsets) in 3.15");
static_assert(sizeof(struct offsets_315) <= FM_PY_DEBUG_OFFSETS_BYTES, "callers read this much of _PyRuntime");

// What a row takes from the table as it stands: field of the row, its place, the size it must fit
// into, its own width.
#define ROW_FIELDS(X)                                             \
	X(ts_interp, thread.interp, thread.size, 8)               \
	X(ts_thread_id, thread.thread_id, thread.size, 8)         \
	X(ts_next, thread.next, thread.size, 8)                   \
	X(ts_native_id, thread.native_thread_id, thread.size, 8)  \
	X(ts_current_frame, thread.current_frame, thread.size, 8) \
	X(frame_previous, frame.previous, frame.size, 8)          \
	X(frame_code, frame.executable, frame.size, 8)            \
	X(frame_lasti, frame.instr_ptr, frame.size, 8)            \
	X(frame_owner, frame.owner, frame.size, 1)                \
	X(code_name, code.name, code.size, 8)                     \
	X(code_qualname, code.qualname, code.size, 8)             \
	X(code_filename, code.filename, code.size, 8)             \
	X(code_first_line, code.first_line, code.size, 4)         \
	X(code_line_table, code.line_table, code.size, 8)         \
	X(code_bytecode, code.bytecode, code.size, 2)             \
	X(object_type, object.type, object.size, 8)               \
	X(str_length, str.length, str.size, 8)                    \
	X(str_state, str.state, str.size, 4)                      \
	X(bytes_size, bytes.length, bytes.size, 8)                \
	X(bytes_data, bytes.data, bytes.size, 1)

#define COUNT_ONE(...) +1
enum { N_ROW_FIELDS = 0 ROW_FIELDS(COUNT_ONE) };

struct slot {
	uint16_t row_at;            // a uint16_t within struct fm_py_row
	uint16_t value_at, size_at; // within the table
	uint16_t width;
};

// Where the rest lies that needs arithmetic.
struct layout {
	uint16_t size;
	uint16_t interp_size, interp_gc, gc_size, gc_collecting;
	uint16_t runtime_size, interpreters_head, interp_next, threads_head, modules, ceval_gil;
	uint16_t str_size, ascii_size, compact_size; // compact_size 0: not told before 3.15
	struct slot tlbc[2]; // free-threaded builds only; none in 3.13, which has no thread-local bytecode
	struct slot slots[N_ROW_FIELDS];
};

#define SLOT(row_field, path, size_path, width) \
	{ offsetof(struct fm_py_row, row_field), offsetof(LAYOUT, path), offsetof(LAYOUT, size_path), width },
#define LAYOUT_COMMON                                                                                         \
	.size = sizeof(LAYOUT), .interp_size = offsetof(LAYOUT, interp.size),                                 \
	.interp_gc = offsetof(LAYOUT, interp.gc), .gc_size = offsetof(LAYOUT, gc.size),                       \
	.runtime_size = offsetof(LAYOUT, runtime.size),                                                       \
	.interpreters_head = offsetof(LAYOUT, runtime.interpreters_head),                                     \
	.interp_next = offsetof(LAYOUT, interp.next), .threads_head = offsetof(LAYOUT, interp.threads_head),  \
	.modules = offsetof(LAYOUT, interp.imports_modules), .ceval_gil = offsetof(LAYOUT, interp.ceval_gil), \
	.gc_collecting = offsetof(LAYOUT, gc.collecting), .str_size = offsetof(LAYOUT, str.size),             \
	.ascii_size = offsetof(LAYOUT, str.ascii_size), .slots = { ROW_FIELDS(SLOT) }
#define LAYOUT_TLBC \
	.tlbc = { SLOT(frame_tlbc_index, frame.tlbc_index, frame.size, 4) SLOT(code_tlbc, code.tlbc, code.size, 8) }

// Where the places of sys.remote_exec() are told.
struct exec_layout {
	uint16_t thread_size, interp_size, runtime_size, finalizing, main_thread, enabled, eval_breaker;
	uint16_t support, pending_call, script_path, script_path_size;
};
#define EXEC_LAYOUT                                                                                           \
	{                                                                                                     \
		offsetof(LAYOUT, thread.size), offsetof(LAYOUT, interp.size), offsetof(LAYOUT, runtime.size), \
			offsetof(LAYOUT, runtime.finalizing), offsetof(LAYOUT, interp.threads_main),          \
			offsetof(LAYOUT, debugger.enabled), offsetof(LAYOUT, debugger.eval_breaker),          \
			offsetof(LAYOUT, debugger.support), offsetof(LAYOUT, debugger.pending_call),          \
			offsetof(LAYOUT, debugger.script_path), offsetof(LAYOUT, debugger.script_path_size),  \
	}

#define LAYOUT struct offsets_313
static const struct layout layout_313 = { LAYOUT_COMMON };
#undef LAYOUT

#define LAYOUT struct offsets_314
static const struct layout layout_314 = { LAYOUT_COMMON, LAYOUT_TLBC };
static const struct exec_layout exec_314 = EXEC_LAYOUT;
#undef LAYOUT

#define LAYOUT struct offsets_315
static const struct layout layout_315 = {
	LAYOUT_COMMON,
	LAYOUT_TLBC,
	.compact_size = offsetof(LAYOUT, str.compact_size),
};
static const struct exec_layout exec_315 = EXEC_LAYOUT;
#undef LAYOUT

// What the table does not tell. Owners are CPython's enum _frameowner: 3.13 calls 3 CSTACK; 3.14
// calls it INTERPRETER and has CSTACK as 4; 3.15 has only 3. Tags are those of _PyStackRef
// (pycore_stackref.h): 3.13 keeps a plain pointer there.
static const struct version {
	uint8_t minor, executable_tag_mask, first_shim_owner, generator_owner;
	const struct layout *layout;
	const struct exec_layout *exec; // NULL before 3.14
} versions[] = {
	{ 15, 3, 3, 1, &layout_315, &exec_315 },
	{ 14, 3, 3, 1, &layout_314, &exec_314 },
	{ 13, 0, 3, 1, &layout_313, NULL },
};

#define COOKIE "xdebugpy"
#define VERSION_AT 8
#define FREE_THREADED_AT 16

// PY_VERSION_HEX is 0xMMmmppLs; level L: 0xA alpha, 0xB beta, 0xC candidate, 0xF final. Layouts
// stand from the first candidate on.
#define LEVEL_CANDIDATE 0xC

// No structure of CPython's that we read is larger, but for the interpreter state (0.2 to 0.4 MB).
#define STRUCT_SIZE_MAX 4096
#define INTERP_SIZE_MAX (16u << 20)

static uint64_t read_u64(const uint8_t *p)
{
	uint64_t v = 0;
	for (unsigned i = 8; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static int is_within(uint64_t off, uint64_t width, uint64_t size)
{
	return size >= width && off <= size - width;
}

static int read_slots(const uint8_t *table, const struct slot *slots, unsigned n, struct fm_py_row *row)
{
	for (unsigned i = 0; i < n; i++) {
		const struct slot *slot = &slots[i];
		uint64_t off = read_u64(table + slot->value_at), size = read_u64(table + slot->size_at);
		if (size > STRUCT_SIZE_MAX || !is_within(off, slot->width, size))
			return 0;
		*(uint16_t *)((uint8_t *)row + slot->row_at) = (uint16_t)off;
	}
	return 1;
}

static int read_gc(const uint8_t *table, const struct layout *layout, struct fm_py_row *row)
{
	uint64_t interp_size = read_u64(table + layout->interp_size), gc_size = read_u64(table + layout->gc_size);
	uint64_t gc = read_u64(table + layout->interp_gc), collecting = read_u64(table + layout->gc_collecting);
	if (interp_size > INTERP_SIZE_MAX || !is_within(gc, gc_size, interp_size) || !is_within(collecting, 4, gc_size))
		return 0;
	row->interp_gc_collecting = (uint32_t)(gc + collecting);
	return 1;
}

static int read_lists(const uint8_t *table, const struct layout *layout, struct fm_py_row *row)
{
	uint64_t runtime_size = read_u64(table + layout->runtime_size);
	uint64_t interp_size = read_u64(table + layout->interp_size);
	uint64_t head = read_u64(table + layout->interpreters_head), next = read_u64(table + layout->interp_next);
	uint64_t threads = read_u64(table + layout->threads_head), gil = read_u64(table + layout->ceval_gil);
	uint64_t modules = read_u64(table + layout->modules);
	if (runtime_size > INTERP_SIZE_MAX || interp_size > INTERP_SIZE_MAX || !is_within(head, 8, runtime_size) ||
	    !is_within(next, 8, interp_size) || !is_within(threads, 8, interp_size) ||
	    !is_within(gil, 8, interp_size) || !is_within(modules, 8, interp_size))
		return 0;
	row->interp_modules = (uint32_t)modules;
	row->runtime_interpreters = (uint32_t)head;
	row->interp_next = (uint32_t)next;
	row->interp_threads = (uint32_t)threads;
	row->interp_gil = (uint32_t)gil;
	return 1;
}

// Characters follow the structure a string uses: PyASCIIObject, or PyCompactUnicodeObject, which
// adds a length and a pointer. PyUnicodeObject adds one more pointer, so its size gives the second
// one where the table does not.
static int read_str(const uint8_t *table, const struct layout *layout, struct fm_py_row *row)
{
	uint64_t size = read_u64(table + layout->str_size), ascii = read_u64(table + layout->ascii_size);
	if (size > STRUCT_SIZE_MAX || size < 24 || ascii != size - 24)
		return 0;
	if (layout->compact_size && read_u64(table + layout->compact_size) != size - 8)
		return 0;
	row->str_ascii_data = (uint16_t)ascii;
	row->str_compact_data = (uint16_t)(size - 8);
	return 1;
}

// The bit fields of PyASCIIObject.state. Free-threaded builds from 3.14 on give "interned" a byte
// of its own, to set it atomically; everything after it moves from bit 2 to bit 8.
static void set_str_state(struct fm_py_row *row)
{
	unsigned shift = row->is_free_threaded && row->minor >= 14 ? 8 : 2;
	row->str_kind_shift = shift;
	row->str_kind_mask = 7u << shift;
	row->str_compact_mask = 1u << (shift + 3);
	row->str_ascii_mask = 1u << (shift + 4);
}

int fm_pyabi_has_debug_offsets(const uint8_t *runtime, size_t len)
{
	return len >= FREE_THREADED_AT + 8 && memcmp(runtime, COOKIE, 8) == 0;
}

// The version whose table this is, all of which is there.
static enum fm_err find_version(const uint8_t *runtime, size_t len, const struct version **ret,
				uint32_t *ret_hexversion)
{
	if (!fm_pyabi_has_debug_offsets(runtime, len))
		return FM_E_UNSUPPORTED;
	uint64_t hex = read_u64(runtime + VERSION_AT);
	if (hex > UINT32_MAX || read_u64(runtime + FREE_THREADED_AT) > 1)
		return FM_E_CORRUPT;
	*ret_hexversion = (uint32_t)hex;
	if (hex >> 24 != 3 || (hex >> 4 & 0xf) < LEVEL_CANDIDATE)
		return FM_E_UNSUPPORTED;
	for (unsigned i = 0; i < FM_ARRAY_LEN(versions); i++)
		if (versions[i].minor == (hex >> 16 & 0xff)) {
			*ret = &versions[i];
			return len < versions[i].layout->size ? FM_E_TRUNCATED : FM_OK;
		}
	return FM_E_UNSUPPORTED;
}

enum fm_err fm_pyabi_remote_exec(const uint8_t *runtime, size_t len, struct fm_py_remote_exec *ret)
{
	const struct version *version;
	uint32_t hexversion;
	enum fm_err err = find_version(runtime, len, &version, &hexversion);
	if (err || !version->exec)
		return err ? err : FM_E_UNSUPPORTED;
	const struct exec_layout *at = version->exec;
	uint64_t thread_size = read_u64(runtime + at->thread_size), interp_size = read_u64(runtime + at->interp_size);
	uint64_t support = read_u64(runtime + at->support), path_size = read_u64(runtime + at->script_path_size);
	uint64_t pending = read_u64(runtime + at->pending_call), path = read_u64(runtime + at->script_path);
	uint64_t breaker = read_u64(runtime + at->eval_breaker);
	uint64_t main_thread = read_u64(runtime + at->main_thread), enabled = read_u64(runtime + at->enabled);
	uint64_t runtime_size = read_u64(runtime + at->runtime_size), end = read_u64(runtime + at->finalizing);
	if (thread_size > STRUCT_SIZE_MAX || interp_size > INTERP_SIZE_MAX || runtime_size > INTERP_SIZE_MAX ||
	    !is_within(end, 8, runtime_size) || support > thread_size || path_size > STRUCT_SIZE_MAX ||
	    !is_within(breaker, 8, thread_size) || !is_within(pending, 4, thread_size - support) ||
	    !is_within(path, path_size, thread_size - support) || !is_within(main_thread, 8, interp_size) ||
	    !is_within(enabled, 4, interp_size))
		return FM_E_CORRUPT;
	*ret = (struct fm_py_remote_exec){
		.runtime_finalizing = (uint32_t)end,
		.interp_main_thread = (uint32_t)main_thread,
		.interp_enabled = (uint32_t)enabled,
		.eval_breaker = (uint16_t)breaker,
		.pending_call = (uint16_t)(support + pending),
		.script_path = (uint16_t)(support + path),
		.script_path_size = (uint16_t)path_size,
	};
	return FM_OK;
}

enum fm_err fm_pyabi_row_from_debug_offsets(const uint8_t *runtime, size_t len, struct fm_py_row *ret,
					    uint32_t *ret_hexversion)
{
	const struct version *version;
	enum fm_err found = find_version(runtime, len, &version, ret_hexversion);
	if (found)
		return found;
	const struct layout *layout = version->layout;
	uint64_t free_threaded = read_u64(runtime + FREE_THREADED_AT);

	struct fm_py_row row = {
		.minor = version->minor,
		.is_free_threaded = (uint8_t)free_threaded,
		.frames = FM_PY_FRAMES_SHIM,
		.lasti = FM_PY_LASTI_POINTER,
		.line_table = FM_PY_LINES_311,
		.first_shim_owner = version->first_shim_owner,
		.generator_owner = version->generator_owner,
		.executable_tag_mask = version->executable_tag_mask,
	};
	if (!read_slots(runtime, layout->slots, FM_ARRAY_LEN(layout->slots), &row))
		return FM_E_CORRUPT;
	int has_tlbc = free_threaded && layout->tlbc[0].width;
	if (has_tlbc && !read_slots(runtime, layout->tlbc, FM_ARRAY_LEN(layout->tlbc), &row))
		return FM_E_CORRUPT;
	if (!read_gc(runtime, layout, &row) || !read_lists(runtime, layout, &row) || !read_str(runtime, layout, &row))
		return FM_E_CORRUPT;
	set_str_state(&row);

	enum fm_err err = fm_pyabi_row_validate(&row);
	if (!err)
		*ret = row;
	return err;
}
