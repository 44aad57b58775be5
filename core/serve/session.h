// SPDX-License-Identifier: Apache-2.0
// One run of the server, shared by its threads, and its parts: the end of a capture that grows, the
// HTTP server, the table of addresses, the stream of events.
#pragma once

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "serve/guard.h"
#include "serve/served.h"
#include "serve/timeouts.h"

// The end of a capture that is still written: read on when somebody asks, answered in the words of
// fathom.live/1.
//
// Nothing is read while nobody asks, and several who ask share one answer. So viewers cost the
// machine what one of them costs, and one that reads slowly or not at all is never waited for by
// the others, nor by the collector, which only writes its file.
struct fm_tail;
// The file need not be there yet.
struct fm_tail *fm_tail_create(const char *path);
void fm_tail_destroy(struct fm_tail *t); // NULL is fine
// What the program does now, as JSON in one line; at most FM_TAIL_FRESH_NS old. From any thread.
#define FM_TAIL_FRESH_NS 200000000u
struct fm_answer fm_tail_now(struct fm_tail *t);
// Nothing will follow: the capture is whole (known only after fm_tail_now()), or its collector is
// gone.
bool fm_tail_is_over(struct fm_tail *t);
void fm_tail_set_over(struct fm_tail *t); // the collector is gone; what it wrote last is still read

struct fm_session {
	struct fm_served *captures; // locks itself
	struct fm_tail *tail;       // of a program that runs, locks itself; NULL when a file is looked at
	const char *host;           // that it listens at, for others than this machine; NULL = loopback
	_Atomic uint16_t port;      // of loopback it is known when the server runs already
	char token[FM_TOKEN_CHARS + 1];
	struct fm_timeouts timeouts; // from fm_daemon_start() to fm_daemon_stop()
	const char *policy;          // Content-Security-Policy; made before the first request
	_Atomic bool is_prepared;    // written by the thread that makes the first answer
	_Atomic bool is_over; // the program has ended and who watched was told: whoever comes now means the next one
	_Atomic bool is_stopping;  // written by the main thread, read by the streams of /api/live
	_Atomic uint32_t n_live;   // open streams
	_Atomic uint64_t left_ns;  // when the last of them ended; 0 = none has, or another began since
	_Atomic uint32_t n_asking; // questions whose answers are not all sent yet
	_Atomic uint64_t asked_ns; // when the last one was
	_Atomic uint64_t bye_ns;   // when a page said that it closes; 0 = it did not, or another question came since
};

// The page said goodbye, or none has been connected for a minute. Before the first one comes the
// server waits for ever.
bool fm_session_is_left(struct fm_session *s, uint64_t now_ns);
// Somebody has asked something, or is just asking.
bool fm_session_was_asked(struct fm_session *s);

// The HTTP server itself: its threads, its limits, and the policy that its pages are sent with.

// On a socket that listens already, which it takes over; or with socket -1 on loopback at that port
// (0 = any free one). Fills the session's port and policy. NULL with errno set: refused.
struct MHD_Daemon *fm_daemon_start(struct fm_session *s, uint16_t port, int socket);
void fm_daemon_stop(struct fm_session *s, struct MHD_Daemon *daemon);

// The table of addresses, and the answer to each.

// For MHD_start_daemon(); cls is the struct fm_session.
enum MHD_Result fm_routes_answer(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
				 const char *version, const char *upload_data, size_t *upload_data_size,
				 void **request_state);
// The same for MHD_OPTION_NOTIFY_COMPLETED.
void fm_routes_finished(void *cls, struct MHD_Connection *connection, void **request_state,
			enum MHD_RequestTerminationCode why);

// The stream that tells a page, or fathom live, what is new.

// Server-sent events: `update` whenever the file changed, otherwise a comment every second, which
// finds out that a page is gone. Of a program that runs also `now` twice a second (fathom.live/1),
// and `end` as the last one.
struct MHD_Response *fm_live_response(struct fm_session *session);
