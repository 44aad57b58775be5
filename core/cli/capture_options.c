#include "cli/capture_options.h"

#include <string.h>

#include "cli/name_frames.h"

// Above this the kernel's signal delivery alone would take the whole of a CPU.
#define MAX_RATE_HZ 100000u

enum fm_err fm_capture_flags_apply(const struct fm_capture_flags *flags, struct fm_capture_options *ret,
				   struct fm_diag *diag)
{
	if (flags->rate_hz < 1 || flags->rate_hz > MAX_RATE_HZ)
		return fm_diag_set(diag, FM_E_USAGE,
				   "--rate wants a number from 1 to 100000 (samples per second), not %llu",
				   (unsigned long long)flags->rate_hz);
	if (flags->max_overhead_pct > 100)
		return fm_diag_set(diag, FM_E_USAGE, "--max-overhead wants a percentage from 0 (no limit) to 100");
	ret->rate_hz = (uint32_t)flags->rate_hz;
	ret->at_end = fm_name_frames;
	ret->engine = !strcmp(flags->engine, "perf")     ? FM_ENGINE_PERF
		      : !strcmp(flags->engine, "ticker") ? FM_ENGINE_TICKER
							 : 0;
	ret->native = flags->native;
	ret->kernel = flags->kernel;
	if (flags->kernel && !ret->engine)
		ret->engine = FM_ENGINE_TICKER; // perf does not see system time as such
	ret->children = flags->children;
	ret->max_overhead = flags->max_overhead_pct / 100;
	ret->duration_s = flags->duration_s;
	return FM_OK;
}
