// One thread's row of calls in a file of trace events.
#pragma once

#include <stdint.h>

#include "base/json.h"
#include "read/reader.h"

struct fm_zone_track {
	struct fm_json *j;
	uint64_t pid, tid, origin_ns;
	uint64_t depth, end_ns;
};

void fm_zone_track_add(struct fm_zone_track *track, const struct fm_profile *p, struct fm_zone_batch *batch);
void fm_zone_track_end(struct fm_zone_track *track);
