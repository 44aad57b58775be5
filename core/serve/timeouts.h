// SPDX-License-Identifier: Apache-2.0
// Whoever connects has to say within a while what they want, and does not keep others out
// meanwhile.
//
// libmicrohttpd's own limit begins again with every byte, so one byte a minute keeps a connection;
// and when all connections are taken, it turns newcomers away, whoever it is that has them. Here
// the newcomer is let in, and whoever has been there longest without the token has to go.
#pragma once

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define FM_PATIENCE_PLACES 96 // a browser opens six; more tabs share them
// One who has to go has a thread, which takes a moment to end.
#define FM_PATIENCE_LEAVING 64
#define FM_PATIENCE_CONNECTIONS (FM_PATIENCE_PLACES + FM_PATIENCE_LEAVING)

struct fm_timeouts {
	pthread_mutex_t lock; // of all below
	struct fm_visitor {
		int fd;            // of a connection; -1 = none
		uint64_t since_ns; // when it came; of a trusted one, when it was last answered
		uint64_t until_ns; // its question is to be whole by then; 0 = it is
		bool is_trusted;   // it asked with the token
		bool is_leaving;   // it was hung up on
	} visitors[FM_PATIENCE_CONNECTIONS];
};

void fm_timeouts_init(struct fm_timeouts *p);
void fm_timeouts_deinit(struct fm_timeouts *p);

// For MHD_OPTION_NOTIFY_CONNECTION, with the fm_timeouts as its argument.
void fm_timeouts_notify(void *cls, struct MHD_Connection *connection, void **socket_context,
			enum MHD_ConnectionNotificationCode what);
// The connection's question is whole; it may be asked; and: its answer is sent, the next question
// may come.
void fm_timeouts_heard(struct fm_timeouts *p, struct MHD_Connection *connection);
void fm_timeouts_trust(struct fm_timeouts *p, struct MHD_Connection *connection);
void fm_timeouts_again(struct fm_timeouts *p, struct MHD_Connection *connection);
// Hangs up on those whose time is over. To be called now and then.
void fm_timeouts_poll(struct fm_timeouts *p, uint64_t now_ns);
