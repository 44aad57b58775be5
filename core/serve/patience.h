// Whoever connects has to say within a while what they want. libmicrohttpd's own limit begins again with every byte, so one byte a minute
// keeps a connection, and some dozens of them keep everybody else out.
#pragma once

#include <microhttpd.h>
#include <pthread.h>
#include <stdint.h>

#define FM_PATIENCE_CONNECTIONS 96 // a browser opens six; more tabs share them

struct fm_patience {
	pthread_mutex_t lock; // of all below
	struct fm_visitor {
		int fd;            // of a connection; -1 = none
		uint64_t until_ns; // its question is to be whole by then; 0 = it is
	} visitors[FM_PATIENCE_CONNECTIONS];
};

void fm_patience_init(struct fm_patience *p);
void fm_patience_deinit(struct fm_patience *p);

// For MHD_OPTION_NOTIFY_CONNECTION, with the fm_patience as its argument.
void fm_patience_notify(void *cls, struct MHD_Connection *connection, void **socket_context,
			enum MHD_ConnectionNotificationCode what);
// The connection's question is whole; and: its answer is sent, the next question may come.
void fm_patience_heard(struct fm_patience *p, struct MHD_Connection *connection);
void fm_patience_again(struct fm_patience *p, struct MHD_Connection *connection);
// Hangs up on those whose time is over. To be called now and then.
void fm_patience_look(struct fm_patience *p, uint64_t now_ns);
