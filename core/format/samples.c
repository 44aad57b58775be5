// SPDX-License-Identifier: Apache-2.0
#include "format/samples.h"

#include "format/record.h"

void fm_samples_put(struct fm_buf *out, struct fm_buf *scratch, const struct fm_sample *samples, const uint32_t *order,
		    uint32_t n)
{
	scratch->len = 0;
	fm_buf_reserve(scratch, (size_t)n * FM_N_COLUMNS * sizeof(uint64_t));
	uint64_t *times = (uint64_t *)(void *)scratch->data; // from malloc: aligned
	uint64_t *stacks = times + n, *weights = stacks + n, *places = weights + n;
	const struct fm_sample *first = &samples[order[0]];
	uint64_t base_ns = first->time_ns - first->weight_ns;
	uint64_t previous_ns = base_ns;
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_sample *s = &samples[order[i]];
		// While a thread runs without a pause, time passes as fast as its weight adds up:
		// what is left over is small. Unsigned arithmetic wraps and wraps back, so even a
		// clock that steps backwards survives.
		int64_t rest_ns = (int64_t)(s->time_ns - previous_ns - s->weight_ns);
		previous_ns = s->time_ns;
		times[i] = ((uint64_t)rest_ns << 1) ^ (uint64_t)(rest_ns >> 63);
		stacks[i] = s->stack_id;
		weights[i] = s->weight_ns;
		places[i] = (uint64_t)s->cpu << FM_SAMPLE_CLASS_BITS | s->class;
	}
	fm_buf_varint(out, first->thread_id);
	fm_buf_varint(out, n);
	fm_buf_varint(out, base_ns);
	fm_column_put(out, times, n, 0);
	fm_column_put(out, stacks, n, 0);
	fm_column_put(out, weights, n, 0);
	fm_column_put(out, places, n, 1); // one byte at least, so that a record's length bounds its number of samples
}

enum fm_err fm_samples_get(struct fm_cursor *body, struct fm_sample_batch *ret)
{
	struct fm_sample_batch b = { 0 };
	b.thread_id = fm_record_get_id(body);
	b.n = fm_record_get_id(body);
	b.time_ns = fm_cursor_varint(body);
	for (unsigned i = 0; i < FM_N_COLUMNS; i++)
		b.columns[i] = fm_column_get(body, b.n, i == FM_COLUMN_PLACE);
	if (body->err)
		return body->err;
	*ret = b;
	return FM_OK;
}

enum fm_err fm_sample_batch_decode(struct fm_sample_batch *batch, struct fm_sample *ret, uint32_t *ret_n)
{
	uint64_t values[FM_N_COLUMNS][FM_SAMPLE_RUN];
	uint32_t n = FM_MIN(batch->n - batch->pos, (uint32_t)FM_SAMPLE_RUN);
	for (unsigned i = 0; i < FM_N_COLUMNS; i++)
		fm_column_decode(&batch->columns[i], batch->n, batch->pos, n, values[i]);
	uint64_t all_stacks = 0, all_places = 0, worst_class = 0, time_ns = batch->time_ns;
	uint32_t thread_id = batch->thread_id;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t rest = values[FM_COLUMN_TIME][i];
		uint64_t weight_ns = values[FM_COLUMN_WEIGHT][i];
		uint64_t stack = values[FM_COLUMN_STACK][i];
		uint64_t place = values[FM_COLUMN_PLACE][i];
		uint64_t class = place & ((1u << FM_SAMPLE_CLASS_BITS) - 1);
		time_ns += ((rest >> 1) ^ -(rest & 1)) + weight_ns;
		all_stacks |= stack;
		all_places |= place;
		worst_class = FM_MAX(worst_class, class);
		ret[i].thread_id = thread_id;
		ret[i].stack_id = (uint32_t)stack;
		ret[i].time_ns = time_ns;
		ret[i].weight_ns = weight_ns;
		ret[i].cpu = (uint16_t)(place >> FM_SAMPLE_CLASS_BITS);
		ret[i].class = (uint8_t) class;
	}
	// One question for the whole run. Classes index arrays further on, so an unknown one must
	// not pass.
	if (all_stacks > UINT32_MAX || all_places >> FM_SAMPLE_CLASS_BITS > UINT16_MAX || worst_class >= FM_N_CLASSES)
		return FM_E_CORRUPT;
	batch->time_ns = time_ns;
	batch->pos += n;
	*ret_n = n;
	return FM_OK;
}
