// SPDX-License-Identifier: Apache-2.0
#include "serve/session.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define STEP_MS 100u
#define FILE_STEPS 10u // a second between two looks at a file: a page draws it no faster
#define NOW_STEPS 5u   // half a second for what a program does now
#define BLOCK_BYTES ((size_t)32 << 10)

struct stream {
	struct fm_session *session;
	uint64_t version;
	unsigned n_messages;
	bool is_last;
	struct fm_buf text; // the message on its way, sent up to pos
	size_t pos;
};

static void look_at_file(struct stream *s)
{
	uint64_t version = fm_served_version(s->session->captures);
	if (version && version != s->version)
		fm_buf_str(&s->text, "event: update\ndata: {}\n\n");
	s->version = version ? version : s->version;
}

// Only what is newest is told, and only when all before it was taken: a viewer that reads slowly
// hears less often, and nothing queues up for it.
static void make_message(struct stream *s)
{
	s->text.len = s->pos = 0;
	struct fm_tail *tail = s->session->tail;
	if (!tail || s->n_messages % (FILE_STEPS / NOW_STEPS) == 1)
		look_at_file(s);
	if (tail) {
		struct fm_answer now = fm_tail_now(tail);
		fm_buf_str(&s->text, "event: now\ndata: ");
		fm_buf_bytes(&s->text, now.data, now.len);
		fm_buf_str(&s->text, "\n\n");
		free(now.data);
		s->is_last = fm_tail_is_over(tail);
		if (s->is_last)
			fm_buf_str(&s->text, "event: end\ndata: {}\n\n");
	}
	if (!s->text.len)
		fm_buf_str(&s->text, ": here\n\n");
	s->n_messages++;
}

// Each connection has a thread of its own, so that this one may wait.
static ssize_t next_event(void *cls, uint64_t pos, char *buf, size_t max)
{
	struct stream *s = cls;
	if (s->pos == s->text.len) {
		if (s->is_last)
			return MHD_CONTENT_READER_END_OF_STREAM;
		unsigned steps = !pos ? 0 : s->session->tail ? NOW_STEPS : FILE_STEPS; // the first one at once
		for (unsigned i = 0; i <= steps; i++) {
			if (atomic_load(&s->session->is_stopping))
				return MHD_CONTENT_READER_END_OF_STREAM;
			if (i < steps)
				nanosleep(&(struct timespec){ .tv_nsec = STEP_MS * 1000000L }, NULL);
		}
		make_message(s);
	}
	size_t len = FM_MIN(s->text.len - s->pos, max);
	memcpy(buf, s->text.data + s->pos, len);
	s->pos += len;
	return (ssize_t)len;
}

static void end_stream(void *cls)
{
	struct stream *s = cls;
	if (atomic_fetch_sub(&s->session->n_live, 1) == 1)
		atomic_store(&s->session->left_ns, fm_now_ns());
	fm_buf_deinit(&s->text);
	free(s);
}

struct MHD_Response *fm_live_response(struct fm_session *session)
{
	struct stream *s = fm_alloc(sizeof(*s));
	*s = (struct stream){ .session = session, .version = fm_served_version(session->captures) };
	atomic_fetch_add(&session->n_live, 1);
	atomic_store(&session->left_ns, 0);
	struct MHD_Response *response =
		MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, next_event, s, end_stream);
	if (!response)
		end_stream(s);
	return response;
}
