// One run of the server, shared by its threads.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "serve/served.h"
#include "serve/guard.h"

struct fm_session {
	struct fm_served *captures; // locks itself
	uint16_t port;
	char token[FM_TOKEN_CHARS + 1];
	const char *policy;       // Content-Security-Policy; made before the first request
	_Atomic bool is_prepared; // written by the thread that makes the first answer
	_Atomic bool is_stopping; // written by the main thread, read by the streams of /api/live
	_Atomic uint32_t n_live;  // open streams
	_Atomic uint64_t bye_ns;  // when a page said that it closes; 0 = it did not, or another question came since
};
