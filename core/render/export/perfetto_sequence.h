// SPDX-License-Identifier: Apache-2.0
// One row of a Perfetto trace: its packets are a sequence of their own, which has its own table of
// names and counts time from packet to packet. So a call is some thirty bytes.
#pragma once

#include <stdio.h>

#include "base/hash.h"
#include "render/export/proto.h"
#include "render/export/slices.h"

struct fm_perfetto_sequence {
	uint32_t id; // 0: not begun
	uint64_t last_ns;
	struct fm_map slices;           // kind and id of a slice -> iid of its name << 32 | iid of its place
	struct fm_intern names, places; // iid - 1
};

struct fm_perfetto {
	FILE *out;
	struct fm_analysis *a;
	uint64_t origin_ns;
	bool has_calls;
	// By number: of thread N 3N, of its samples 3N + 1; of process N's memory 3N + 2.
	FM_VEC(struct fm_perfetto_sequence) sequences;
	struct fm_intern counters;               // process and name; its index makes the track
	struct fm_buf packet, part, entry, text; // while one is put together
};

// Its id is set.
void fm_perfetto_sequence_begin(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t track_uuid);
void fm_perfetto_sequence_deinit(struct fm_perfetto_sequence *s);

void fm_perfetto_slice(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t ns, struct fm_slice slice);
void fm_perfetto_end(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t ns);
void fm_perfetto_instant(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t ns, struct fm_str text);
void fm_perfetto_count(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t ns, uint64_t track_uuid,
		       double value);

// Writes what is in x->packet.
void fm_perfetto_put_packet(struct fm_perfetto *x);
