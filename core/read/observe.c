// SPDX-License-Identifier: Apache-2.0
#include "read/observe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define BLOCK_SAMPLES 64 // so that small inputs fill several
#else
#define BLOCK_SAMPLES 4096
#endif
#define BLOCKS 8 // in all a megabyte: it stays in the cache that both cores share

struct block {
	uint32_t n;
	struct fm_sample samples[BLOCK_SAMPLES];
};

struct fm_sample_queue {
	const struct fm_observer *observers;
	size_t n_observers;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; // guards what follows, but for the blocks: each is one side's at a time
	pthread_cond_t changed;
	uint64_t n_filled, n_emptied;
	bool is_ending;
	struct block *filling; // the reader's own
	struct block blocks[BLOCKS];
};

static void hand_out(const struct fm_sample_queue *q, const struct block *b)
{
	for (size_t i = 0; i < q->n_observers && b->n; i++)
		if (q->observers[i].on_samples)
			q->observers[i].on_samples(q->observers[i].ctx, b->samples, b->n);
}

static void *run(void *ctx)
{
	struct fm_sample_queue *q = ctx;
	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (q->n_filled == q->n_emptied && !q->is_ending)
			pthread_cond_wait(&q->changed, &q->lock);
		if (q->n_filled == q->n_emptied)
			break;
		const struct block *b = &q->blocks[q->n_emptied % BLOCKS];
		pthread_mutex_unlock(&q->lock);
		hand_out(q, b);
		pthread_mutex_lock(&q->lock);
		q->n_emptied++;
		pthread_cond_signal(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

struct fm_sample_queue *fm_sample_queue_begin(const struct fm_observer *observers, size_t n)
{
	struct fm_sample_queue *q = fm_realloc_array(NULL, 1, sizeof(*q));
	memset(q, 0, offsetof(struct fm_sample_queue, blocks)); // not the blocks: small captures touch the first alone
	q->observers = observers;
	q->n_observers = n;
	q->filling = &q->blocks[0];
	q->filling->n = 0;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
	return q;
}

// A thread is worth its start when there is more than one block.
static void hand_over(struct fm_sample_queue *q)
{
	if (!q->has_thread)
		q->has_thread = pthread_create(&q->thread, NULL, run, q) == 0;
	if (!q->has_thread) {
		hand_out(q, q->filling);
		q->filling->n = 0;
		return;
	}
	pthread_mutex_lock(&q->lock);
	q->n_filled++;
	pthread_cond_signal(&q->changed);
	while (q->n_filled - q->n_emptied == BLOCKS)
		pthread_cond_wait(&q->changed, &q->lock);
	pthread_mutex_unlock(&q->lock);
	q->filling = &q->blocks[q->n_filled % BLOCKS];
	q->filling->n = 0;
}

void fm_sample_queue_put(struct fm_sample_queue *q, const struct fm_sample *samples, uint32_t n)
{
	while (n) {
		uint32_t part = FM_MIN(n, BLOCK_SAMPLES - q->filling->n);
		memcpy(&q->filling->samples[q->filling->n], samples, part * sizeof(*samples));
		q->filling->n += part;
		samples += part;
		n -= part;
		if (q->filling->n == BLOCK_SAMPLES)
			hand_over(q);
	}
}

void fm_sample_queue_end(struct fm_sample_queue *q)
{
	if (q->has_thread) {
		pthread_mutex_lock(&q->lock);
		q->is_ending = true;
		pthread_cond_signal(&q->changed);
		pthread_mutex_unlock(&q->lock);
		pthread_join(q->thread, NULL);
	}
	hand_out(q, q->filling); // the last, which is not full
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->changed);
	free(q);
}

static void tell(const struct fm_observer *o, const struct fm_profile *profile, struct fm_event *event)
{
	if (event->type != FM_EVENT_TRACE) {
		o->on_event(o->ctx, profile, event);
		return;
	}
	struct fm_zone_batch own = *event->trace; // it is taken apart by whoever looks at it
	o->on_event(o->ctx, profile, &(struct fm_event){ .type = FM_EVENT_TRACE, .trace = &own });
}

enum fm_err fm_reader_run(struct fm_reader *r, const struct fm_observer *observers, size_t n_observers)
{
	struct fm_event event;
	struct fm_sample_queue *queue = fm_sample_queue_begin(observers, n_observers);
	enum fm_err err;
	while (!(err = fm_reader_next(r, &event))) {
		if (event.type == FM_EVENT_SAMPLE) {
			uint32_t n;
			const struct fm_sample *samples = fm_reader_samples(r, &n);
			fm_sample_queue_put(queue, samples, n);
			continue;
		}
		for (size_t i = 0; i < n_observers; i++)
			if (observers[i].on_event)
				tell(&observers[i], fm_reader_profile(r), &event);
	}
	fm_sample_queue_end(queue);
	return err == FM_E_END ? FM_OK : err;
}

enum fm_err fm_reader_replay(const struct fm_reader *first, const struct fm_observer *o, struct fm_diag *diag)
{
	struct fm_reader *r;
	enum fm_err err = fm_reader_open_again(first, o->on_samples != NULL, o->on_event != NULL, &r, diag);
	if (err)
		return err;
	struct fm_event event;
	while (!(o->is_done && o->is_done(o->ctx)) && !(err = fm_reader_next(r, &event))) {
		if (event.type != FM_EVENT_SAMPLE) {
			o->on_event(o->ctx, fm_reader_profile(r), &event);
			continue;
		}
		uint32_t n;
		const struct fm_sample *samples = fm_reader_samples(r, &n);
		o->on_samples(o->ctx, samples, n);
	}
	fm_reader_close(r);
	return !err || err == FM_E_END
		       ? FM_OK
		       : fm_diag_set(diag, err, "cannot read %s: %s", fm_reader_path(first), fm_err_text(err));
}
