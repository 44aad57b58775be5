// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tally/sample_queue.h"

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

#define AHEAD 16 // runs that are fetched while those before them are counted

struct fm_sample_queue {
	struct fm_tally *tally;
	const struct fm_observer *observer;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; // guards what follows, but for the blocks: each is one side's at a time
	pthread_cond_t changed;
	uint64_t n_filled, n_counted;
	bool is_ending;
	struct block *filling; // the reader's own
	struct block blocks[BLOCKS];
};

static bool is_same(const struct fm_sample *a, const struct fm_sample *b)
{
	return a->stack_id == b->stack_id && a->thread_id == b->thread_id && a->class == b->class;
}

static void count(struct fm_sample_queue *q, const struct block *b)
{
	struct fm_tally *t = q->tally;
	const struct fm_sample *s = b->samples;
	uint32_t first[BLOCK_SAMPLES + 1], n = 0; // of each run of the same
	for (uint32_t i = 0; i < b->n; i++)
		if (!i || !is_same(&s[i - 1], &s[i]))
			first[n++] = i;
	first[n] = b->n;
	for (uint32_t k = 0; k < n; k++) {
		if (k + AHEAD < n)
			fm_tally_fetch_slot(t, &s[first[k + AHEAD]]);
		if (k + AHEAD / 2 < n)
			fm_tally_fetch_cell(t, &s[first[k + AHEAD / 2]]);
		fm_tally_add(t, &s[first[k]], first[k + 1] - first[k]);
	}
	if (q->observer && b->n)
		q->observer->see_samples(q->observer->ctx, s, b->n);
}

static void *run(void *ctx)
{
	struct fm_sample_queue *q = ctx;
	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (q->n_filled == q->n_counted && !q->is_ending)
			pthread_cond_wait(&q->changed, &q->lock);
		if (q->n_filled == q->n_counted)
			break;
		const struct block *b = &q->blocks[q->n_counted % BLOCKS];
		pthread_mutex_unlock(&q->lock);
		count(q, b);
		pthread_mutex_lock(&q->lock);
		q->n_counted++;
		pthread_cond_signal(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

struct fm_sample_queue *fm_sample_queue_begin(struct fm_tally *t, const struct fm_observer *observer)
{
	struct fm_sample_queue *q = fm_realloc_array(NULL, 1, sizeof(*q));
	memset(q, 0, offsetof(struct fm_sample_queue, blocks)); // not the blocks: small captures touch the first alone
	q->tally = t;
	q->observer = observer;
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
		count(q, q->filling);
		q->filling->n = 0;
		return;
	}
	pthread_mutex_lock(&q->lock);
	q->n_filled++;
	pthread_cond_signal(&q->changed);
	while (q->n_filled - q->n_counted == BLOCKS)
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
	count(q, q->filling); // the last, which is not full
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->changed);
	free(q);
}
