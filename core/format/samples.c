#include "format/samples.h"

#include "format/record.h"

enum { TIMES, STACKS, WEIGHTS, PLACES };

// The caller reserved room: a sample may be written per microsecond, so no bounds are asked per byte.
static inline uint8_t *put_varint_unchecked(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

void fm_samples_put(struct fm_buf *out, struct fm_buf columns[4], const struct fm_sample *samples, const uint32_t *order,
		    uint32_t n)
{
	enum { MAX_VARINT_BYTES = 10 };
	uint8_t *pos[4];
	for (unsigned i = 0; i < 4; i++) {
		columns[i].len = 0;
		fm_buf_reserve(&columns[i], (size_t)n * MAX_VARINT_BYTES);
		pos[i] = columns[i].data;
	}
	const struct fm_sample *first = &samples[order[0]];
	uint64_t base_ns = first->time_ns - first->weight_ns;
	uint64_t previous_ns = base_ns;
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_sample *s = &samples[order[i]];
		// While a thread runs without a pause, time passes as fast as its weight adds up: what is left over is small.
		// Unsigned arithmetic wraps and wraps back, so even a clock that steps backwards survives.
		int64_t rest_ns = (int64_t)(s->time_ns - previous_ns - s->weight_ns);
		previous_ns = s->time_ns;
		pos[TIMES] = put_varint_unchecked(pos[TIMES], ((uint64_t)rest_ns << 1) ^ (uint64_t)(rest_ns >> 63));
		pos[STACKS] = put_varint_unchecked(pos[STACKS], s->stack_id);
		pos[WEIGHTS] = put_varint_unchecked(pos[WEIGHTS], s->weight_ns);
		pos[PLACES] = put_varint_unchecked(pos[PLACES], (uint64_t)s->cpu << FM_SAMPLE_CLASS_BITS | s->class);
	}
	fm_buf_varint(out, first->thread_id);
	fm_buf_varint(out, n);
	fm_buf_varint(out, base_ns);
	for (unsigned i = 0; i < 4; i++) {
		columns[i].len = (size_t)(pos[i] - columns[i].data);
		fm_buf_varint(out, columns[i].len);
	}
	for (unsigned i = 0; i < 4; i++)
		fm_buf_bytes(out, columns[i].data, columns[i].len);
}

enum fm_err fm_samples_get(struct fm_cursor *body, struct fm_sample_batch *ret)
{
	struct fm_sample_batch b = { 0 };
	b.thread_id = fm_record_get_id(body);
	b.n_left = fm_record_get_id(body);
	b.time_ns = fm_cursor_varint(body);
	uint64_t lens[4];
	for (unsigned i = 0; i < 4; i++)
		lens[i] = fm_cursor_varint(body);
	struct fm_cursor *columns[4] = { &b.times, &b.stacks, &b.weights, &b.places };
	for (unsigned i = 0; i < 4; i++) {
		const uint8_t *p = fm_cursor_bytes(body, lens[i]);
		if (!body->err && lens[i] < b.n_left)
			fm_cursor_fail(body, FM_E_CORRUPT);
		if (body->err)
			return body->err;
		*columns[i] = fm_cursor_over(p, (size_t)lens[i]);
	}
	*ret = b;
	return FM_OK;
}

enum fm_err fm_sample_batch_decode(struct fm_sample_batch *batch, struct fm_sample *ret, uint32_t cap, uint32_t *ret_n)
{
	// A local copy: the compiler may then keep the four positions in registers.
	struct fm_sample_batch b = *batch;
	uint32_t n = FM_MIN(cap, b.n_left);
	uint64_t worst_stack = 0, worst_place = 0, worst_class = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t weight_ns = fm_cursor_varint(&b.weights);
		b.time_ns += (uint64_t)fm_cursor_svarint(&b.times) + weight_ns;
		uint64_t stack = fm_cursor_varint(&b.stacks);
		uint64_t place = fm_cursor_varint(&b.places);
		uint64_t class = place & ((1u << FM_SAMPLE_CLASS_BITS) - 1);
		worst_stack |= stack;
		worst_place |= place;
		worst_class = FM_MAX(worst_class, class);
		ret[i] = (struct fm_sample){
			.thread_id = b.thread_id,
			.stack_id = (uint32_t)stack,
			.time_ns = b.time_ns,
			.weight_ns = weight_ns,
			.cpu = (uint16_t)(place >> FM_SAMPLE_CLASS_BITS),
			.class = (uint8_t)class,
		};
	}
	enum fm_err err = b.times.err ? b.times.err : b.stacks.err ? b.stacks.err : b.weights.err ? b.weights.err : b.places.err;
	if (err)
		return err;
	// One question for the whole run. Classes index arrays further on, so an unknown one must not pass.
	if (worst_stack > UINT32_MAX || worst_place >> FM_SAMPLE_CLASS_BITS > UINT16_MAX || worst_class >= FM_N_CLASSES)
		return FM_E_CORRUPT;
	b.n_left -= n;
	*batch = b;
	*ret_n = n;
	return FM_OK;
}
