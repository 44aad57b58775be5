#include "aggregate/sample_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SAMPLES 4096
#define BLOCKS 8 // in all a megabyte: it stays in the cache that both cores share

struct block {
	uint32_t n;
	struct fm_sample samples[BLOCK_SAMPLES];
};

// Of a large capture neither last_cell nor cells fit the cache: samples wait in a queue while what they need is fetched.
#define AHEAD 16

struct fm_sample_queue {
	struct fm_tally *tally;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; // guards what follows, but for the blocks: each is one side's at a time
	pthread_cond_t changed;
	uint64_t n_filled, n_counted;
	bool is_ending;
	struct block *filling; // the reader's own
	struct block blocks[BLOCKS];
};

static void fetch(const struct fm_tally *t, const struct fm_sample *s)
{
	if (s->stack_id < t->last_cell.n)
		__builtin_prefetch(&t->last_cell.items[s->stack_id]);
}

static void fetch_cell(const struct fm_tally *t, const struct fm_sample *s)
{
	if (s->stack_id < t->last_cell.n && t->last_cell.items[s->stack_id])
		__builtin_prefetch(&t->cells.items[t->last_cell.items[s->stack_id] - 1], 1);
}

static void count(struct fm_tally *t, const struct block *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		if (i + AHEAD < b->n)
			fetch(t, &b->samples[i + AHEAD]);
		if (i + AHEAD / 2 < b->n)
			fetch_cell(t, &b->samples[i + AHEAD / 2]);
		fm_tally_add(t, &b->samples[i]);
	}
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
		count(q->tally, b);
		pthread_mutex_lock(&q->lock);
		q->n_counted++;
		pthread_cond_signal(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

struct fm_sample_queue *fm_sample_queue_begin(struct fm_tally *t)
{
	struct fm_sample_queue *q = fm_realloc_array(NULL, 1, sizeof(*q));
	memset(q, 0, offsetof(struct fm_sample_queue, blocks)); // not the blocks: small captures touch the first alone
	q->tally = t;
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
		count(q->tally, q->filling);
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

void fm_sample_queue_put(struct fm_sample_queue *q, const struct fm_sample *sample)
{
	q->filling->samples[q->filling->n++] = *sample;
	if (FM_UNLIKELY(q->filling->n == BLOCK_SAMPLES))
		hand_over(q);
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
	count(q->tally, q->filling); // the last, which is not full
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->changed);
	free(q);
}
