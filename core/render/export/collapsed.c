// SPDX-License-Identifier: Apache-2.0
// Collapsed stacks: "outermost;...;innermost COUNT", one line per distinct stack.
#include <inttypes.h>
#include <stdlib.h>

#include "aggregate/analysis/leaves.h"
#include "aggregate/tree/view.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"

// The line being written and where each frame of the path ends in it, so that the next stack reuses
// what it shares.
struct line {
	struct fm_buf text, label;
	FM_VEC(size_t) ends;
	size_t prefix_len; // processes and thread
};

static void append_label(struct line *line)
{
	fm_label_collapsed(&line->text, (struct fm_str){ (const char *)line->label.data, (uint32_t)line->label.len });
	line->label.len = 0;
}

static void append_processes(struct line *line, const struct fm_analysis *a, uint32_t process_id)
{
	uint32_t chain[FM_LABEL_MAX_PROCESSES];
	for (unsigned n = fm_label_process_chain(a, process_id, chain); n-- > 0;) {
		fm_label_process(&line->label, a, chain[n]);
		append_label(line);
	}
}

static void begin_group(struct line *line, const struct fm_analysis *a, uint32_t group)
{
	line->text.len = 0;
	uint32_t process = a->options.threads ? fm_label_process_of(a, group) : group;
	if (a->options.processes && process < a->profile->processes.n)
		append_processes(line, a, process);
	if (a->options.threads) {
		fm_label_thread(&line->label, a, group);
		append_label(line);
	}
	line->prefix_len = line->text.len;
}

enum fm_err fm_write_collapsed(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct fm_leaves leaves;
	fm_leaves_of(&leaves, a, &a->options);
	struct line line = { 0 };
	struct fm_path path = { 0 };
	for (size_t i = 0; i < leaves.items.n; i++) {
		const struct fm_leaf *leaf = &leaves.items.items[i];
		bool is_new_group = i == 0 || leaf->group != leaves.items.items[i - 1].group;
		if (is_new_group) {
			begin_group(&line, a, leaf->group);
			path.nodes.n = 0;
		}
		uint32_t kept = fm_path_move(&path, &a->view, leaf->node);
		line.text.len = kept ? line.ends.items[kept - 1] : line.prefix_len;
		line.ends.n = kept;
		for (uint32_t d = kept; d < path.nodes.n; d++) {
			const struct fm_node *node = &a->view.nodes.items[path.nodes.items[d]];
			fm_label_frame(&line.label, a, node);
			append_label(&line);
			fm_vec_push(&line.ends, line.text.len);
		}
		bool is_us = a->options.unit_us && a->options.metric == FM_METRIC_TIME;
		uint64_t count = is_us ? (leaf->weight_ns + 500) / 1000 : leaf->n;
		if (!count)
			continue;
		if (line.text.len)
			fwrite(line.text.data, 1, line.text.len, out);
		else
			fputs("[no frames]", out);
		fprintf(out, " %" PRIu64 "\n", count);
	}
	fm_path_deinit(&path);
	fm_leaves_deinit(&leaves);
	fm_buf_deinit(&line.text);
	fm_buf_deinit(&line.label);
	fm_vec_deinit(&line.ends);
	return FM_OK;
}
