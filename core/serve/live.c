#include "serve/live.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

#define STEP_MS 100u
#define STEPS 10u // a second between two looks: a page draws no faster

struct stream {
	struct fm_session *session;
	uint64_t version;
};

// Each connection has a thread of its own, so that this one may wait.
static ssize_t next_event(void *cls, uint64_t pos, char *buf, size_t max)
{
	struct stream *s = cls;
	for (unsigned i = 0; i < (pos ? STEPS : 1u); i++) { // the first line at once: the page knows that it is heard
		if (atomic_load(&s->session->is_stopping))
			return MHD_CONTENT_READER_END_OF_STREAM;
		if (pos)
			nanosleep(&(struct timespec){ .tv_nsec = STEP_MS * 1000000L }, NULL);
	}
	uint64_t version = fm_served_version(s->session->captures);
	const char *text = version && version != s->version ? "event: update\ndata: {}\n\n" : ": here\n\n";
	s->version = version ? version : s->version;
	size_t len = FM_MIN(strlen(text), max);
	memcpy(buf, text, len);
	return (ssize_t)len;
}

static void end_stream(void *cls)
{
	struct stream *s = cls;
	atomic_fetch_sub(&s->session->n_live, 1);
	free(s);
}

struct MHD_Response *fm_live_response(struct fm_session *session)
{
	struct stream *s = fm_alloc(sizeof(*s));
	*s = (struct stream){ session, fm_served_version(session->captures) };
	atomic_fetch_add(&session->n_live, 1);
	struct MHD_Response *response =
		MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, next_event, s, end_stream);
	if (!response)
		end_stream(s);
	return response;
}
