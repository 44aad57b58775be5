// SPDX-License-Identifier: Apache-2.0
#include "serve/session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/live/now.h"
#include "base/clock.h"
#include "render/json/now_json.h"

struct fm_tail {
	char *path;
	pthread_mutex_t lock; // guards everything below
	struct fm_reader *reader;
	struct fm_recent recent;
	struct fm_namer *namer;
	bool is_over, is_told; // is_told: the latest answer says so
	uint64_t made_ns, cost_ns;
	struct fm_answer latest;
};

struct fm_tail *fm_tail_create(const char *path)
{
	struct fm_tail *t = fm_alloc(sizeof(*t));
	t->path = fm_strdup_n(path, strlen(path));
	pthread_mutex_init(&t->lock, NULL);
	fm_recent_init(&t->recent);
	return t;
}

void fm_tail_destroy(struct fm_tail *t)
{
	if (!t)
		return;
	fm_namer_destroy(t->namer);
	fm_recent_deinit(&t->recent);
	fm_reader_close(t->reader);
	pthread_mutex_destroy(&t->lock);
	free(t->latest.data);
	free(t->path);
	free(t);
}

static void read_on(struct fm_tail *t, uint64_t now_ns)
{
	struct fm_diag diag;
	if (!t->reader) {
		if (fm_reader_open(t->path, &t->reader, &diag))
			return; // not yet
		fm_reader_follow(t->reader);
		t->namer = fm_namer_create(fm_reader_profile(t->reader));
	}
	fm_recent_set_now(&t->recent, now_ns);
	struct fm_event ev;
	while (fm_reader_next(t->reader, &ev) == FM_OK) {
		if (ev.type == FM_EVENT_SAMPLE)
			fm_recent_sample(&t->recent, &ev.sample);
		else if (ev.type == FM_EVENT_TRACE)
			fm_recent_trace(&t->recent, fm_reader_profile(t->reader), ev.trace);
	}
	t->is_over |= fm_reader_has_end(t->reader);
}

// When the last of its processes ended, as far as is known.
static uint64_t ended_ns(const struct fm_profile *p, uint64_t now_ns)
{
	uint64_t last_ns = 0;
	for (size_t i = 0; i < p->processes.n; i++)
		last_ns = FM_MAX(last_ns, p->processes.items[i].end_ns);
	return last_ns ? FM_MIN(last_ns, now_ns) : now_ns;
}

static void write_answer(struct fm_tail *t, uint64_t now_ns)
{
	struct fm_answer answer = { 0 };
	FILE *out = open_memstream(&answer.data, &answer.len);
	if (!out)
		return; // out of memory: the last answer stays
	const struct fm_now_facts facts = { .has_ended = t->is_over,
					    .file_bytes = t->reader ? fm_reader_bytes_read(t->reader) : 0,
					    .cost_ns = t->cost_ns };
	const struct fm_profile *p = t->reader ? fm_reader_profile(t->reader) : NULL;
	if (p && p->processes.n) { // before, nothing is known, not even since when
		struct fm_now now;
		fm_now_build(&now, &t->recent, p, t->namer, t->is_over ? ended_ns(p, now_ns) : now_ns, t->is_over);
		fm_now_json(out, &now, &t->recent, p, &facts);
		fm_now_deinit(&now);
	} else {
		fm_now_json(out, NULL, NULL, NULL, &facts);
	}
	if (fclose(out)) {
		free(answer.data);
		return;
	}
	free(t->latest.data);
	t->latest = answer;
	t->is_told = t->is_over;
}

struct fm_answer fm_tail_now(struct fm_tail *t)
{
	pthread_mutex_lock(&t->lock);
	uint64_t now_ns = fm_now_ns();
	if (!t->latest.data || (!t->is_told && now_ns - t->made_ns >= FM_TAIL_FRESH_NS)) {
		uint64_t before_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
		read_on(t, now_ns);
		write_answer(t, now_ns);
		t->cost_ns += fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
		t->made_ns = now_ns;
	}
	struct fm_answer copy = { fm_strdup_n(t->latest.data ? t->latest.data : "{}", t->latest.len), t->latest.len };
	pthread_mutex_unlock(&t->lock);
	return copy;
}

bool fm_tail_is_over(struct fm_tail *t)
{
	pthread_mutex_lock(&t->lock);
	bool is_over = t->is_over;
	pthread_mutex_unlock(&t->lock);
	return is_over;
}

void fm_tail_set_over(struct fm_tail *t)
{
	pthread_mutex_lock(&t->lock);
	t->is_over = true;
	t->made_ns = 0;
	pthread_mutex_unlock(&t->lock);
}
