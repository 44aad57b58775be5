// SPDX-License-Identifier: Apache-2.0
// One run of the server, shared by its threads.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "serve/served.h"
#include "serve/tail.h"
#include "serve/guard.h"
#include "serve/timeouts.h"

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
