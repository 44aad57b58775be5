// SPDX-License-Identifier: Apache-2.0
#include "import/summed.h"

struct fm_summed fm_summed_python(struct fm_import *in, struct fm_str name, struct fm_str file, uint32_t line)
{
	uint32_t frame = fm_import_python_frame(in, name, file, line, line), code = FM_NO_ID;
	uint8_t kind;
	uint64_t value;
	if (fm_writer_get_frame(in->w, frame, &kind, &code, &value))
		code = FM_NO_ID; // the file cannot be written any more
	// Without a line and a source it is a function of C, whoever gave it the name of a module.
	bool is_python = line || fm_import_is_python_file(file);
	return (struct fm_summed){ fm_zone_ref_of(FM_ZONE_ENTER, code), fm_writer_stack(in->w, FM_ROOT_STACK, frame),
				   is_python ? FM_CLASS_PYTHON : FM_CLASS_NATIVE };
}

struct fm_summed fm_summed_native(struct fm_import *in, struct fm_str name, struct fm_str library, struct fm_str symbol,
				  struct fm_str file, uint32_t line)
{
	uint32_t frame = fm_import_native_frame(in, library, symbol, file, line);
	uint32_t id =
		fm_writer_trace_place(in->w, FM_NAME_FUNCTION, fm_import_name(in, name), fm_import_name(in, file), 0);
	return (struct fm_summed){ fm_zone_ref_of(FM_ZONE_BEGIN, id), fm_writer_stack(in->w, FM_ROOT_STACK, frame),
				   fm_import_class_of(in, frame) };
}

void fm_summed_put(struct fm_import *in, const struct fm_call_sum *sum)
{
	fm_writer_call_sum(in->w, sum);
	in->n_events++;
}

void fm_summed_own(struct fm_import *in, uint32_t thread_id, uint32_t stack_id, uint8_t class, uint64_t own_ns)
{
	if (own_ns)
		fm_import_sample(in, thread_id, stack_id, class,
				 (own_ns + FM_IMPORT_SAMPLE_NS - 1) / FM_IMPORT_SAMPLE_NS, own_ns);
}

void fm_summed_missing(struct fm_import *in)
{
	fm_import_missing(in, "stacks",
			  "the file has sums per function and per pair of caller and callee: in trees each function is "
			  "alone, and its total is in the table of calls");
	fm_import_missing(
		in, "when anything ran",
		"the file has sums, not samples: Fathom shows own times one after the other, in pieces of 1 ms");
}
