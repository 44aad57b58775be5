// SPDX-License-Identifier: Apache-2.0
#include "cli/options/groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/captures/name_frames.h"
#include "format/redact.h"

// Above this the kernel's signal delivery alone would take the whole of a CPU.
#define MAX_RATE_HZ 100000u

// --precision 0: one allocated byte in 128 KiB is sampled; each step halves or doubles that. Finer
// than 1 KiB would cost more than counting everything, coarser than 128 MiB says nothing.
#define MEAN_BYTES (128u << 10)
#define MIN_MEAN_BYTES (1u << 10)
#define MAX_MEAN_BYTES (128u << 20)
#define MAX_PRECISION 10
// Some hundred million events, which take a report some minutes.
#define LOG_BYTES ((uint64_t)1 << 30)

uint64_t fm_size_parse(const char *text)
{
	char *end;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	unsigned shift = *end == 'k' || *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	if (end == text || *text == '-' || errno || (*end && (!shift || end[1])) || n > UINT64_MAX >> shift)
		return 0;
	return n << shift;
}

static enum fm_err apply_memory_log(const struct fm_capture_flags *flags, struct fm_capture_options *ret,
				    struct fm_diag *diag)
{
	ret->log_bytes = 0;
	if (!flags->memory_log)
		return FM_OK;
	if (flags->is_cpu || (flags->memory && strcmp(flags->memory, "exact")))
		return fm_diag_set(diag, FM_E_USAGE,
				   "--memory-log records every allocation: leave out %s, or give --memory=exact",
				   flags->is_cpu ? "--cpu" : "--memory");
	ret->memory = FM_WIRE_MEMORY_EXACT;
	ret->log_bytes = *flags->memory_log ? fm_size_parse(flags->memory_log) : LOG_BYTES;
	if (!ret->log_bytes)
		return fm_diag_set(diag, FM_E_USAGE, "--memory-log wants a size such as 512M or 4G, not '%s'",
				   flags->memory_log);
	return FM_OK;
}

static enum fm_err apply_memory(const struct fm_capture_flags *flags, struct fm_capture_options *ret,
				struct fm_diag *diag)
{
	if (flags->is_cpu && flags->memory)
		return fm_diag_set(diag, FM_E_USAGE, "--cpu means no memory: give one of --cpu and --memory");
	if (flags->precision < -MAX_PRECISION || flags->precision > MAX_PRECISION)
		return fm_diag_set(diag, FM_E_USAGE, "--precision wants a number from -10 (coarse) to 10 (fine)");
	ret->precision = (int)flags->precision;
	ret->memory = FM_WIRE_MEMORY_OFF;
	bool is_exact = flags->memory && !strcmp(flags->memory, "exact");
	if (flags->memory && *flags->memory && strcmp(flags->memory, "sampled") && !is_exact)
		return fm_diag_set(diag, FM_E_USAGE, "--memory is sampled or exact, not '%s'", flags->memory);
	if (flags->memory || (flags->is_memory_wanted && !flags->is_cpu))
		ret->memory = is_exact ? FM_WIRE_MEMORY_EXACT : FM_WIRE_MEMORY_SAMPLED;
	uint64_t mean = flags->precision > 0 ? (uint64_t)MEAN_BYTES >> flags->precision
					     : (uint64_t)MEAN_BYTES << -flags->precision;
	ret->alloc_mean_bytes = FM_MIN(FM_MAX(mean, MIN_MEAN_BYTES), MAX_MEAN_BYTES);
	return apply_memory_log(flags, ret, diag);
}

enum fm_err fm_capture_flags_apply(const struct fm_capture_flags *flags, struct fm_capture_options *ret,
				   struct fm_diag *diag)
{
	if (flags->rate_hz < 1 || flags->rate_hz > MAX_RATE_HZ)
		return fm_diag_set(diag, FM_E_USAGE,
				   "--rate wants a number from 1 to 100000 (samples per second), not %llu",
				   (unsigned long long)flags->rate_hz);
	if (flags->max_overhead_pct > 100)
		return fm_diag_set(diag, FM_E_USAGE, "--max-overhead wants a percentage from 0 (no limit) to 100");
	static struct fm_redact *rules; // until the program ends, as its writers may
	if (flags->is_redacted || flags->redact_also) {
		enum fm_err err = fm_redact_create(flags->redact_also, &rules, diag);
		if (err)
			return err;
		ret->redact = rules;
	}
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
	return apply_memory(flags, ret, diag);
}

#define MAX_TOP 1000000u
#define MAX_WIDTH 1000u

void fm_text_flags_apply(const struct fm_text_flags *flags, struct fm_view_options *view)
{
	view->n_top = (unsigned)FM_MIN(flags->n_top, (uint64_t)MAX_TOP);
	view->width = (unsigned)FM_MIN(flags->width, (uint64_t)MAX_WIDTH);
	view->color = flags->color[1] == 'u' ? -1 : flags->color[0] == 'a'; // auto, always, never
}
