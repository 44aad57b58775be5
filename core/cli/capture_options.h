// Options that `run` and `record` share: what to capture and how.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "collect/capture.h"

struct fm_capture_flags {
	uint64_t rate_hz;
	double duration_s, max_overhead_pct;
	const char *engine;
	bool native, children, kernel;
	bool is_cpu;            // --cpu: time only
	bool is_memory_wanted;  // when neither --cpu nor --memory says
	const char *memory;     // --memory[=exact]; "" = sampled, NULL = not given
	const char *memory_log; // --memory-log[=BYTES]; NULL = not given
	int64_t precision;
	const char *listen, *token; // --listen [HOST:]PORT, --token; NULL = not given
};

#define FM_CAPTURE_FLAGS_DEFAULT                                                                            \
	{                                                                                                   \
		.rate_hz = 1000, .max_overhead_pct = 10, .engine = "auto", .native = true, .children = true \
	}

// Checks the values and fills what the collector wants but argv and output_path. One line in diag when a value is wrong.
FM_MUST_CHECK enum fm_err fm_capture_flags_apply(const struct fm_capture_flags *flags, struct fm_capture_options *ret,
						 struct fm_diag *diag);
