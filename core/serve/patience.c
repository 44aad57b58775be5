#include "serve/patience.h"

#include <sys/socket.h>

#include "base/clock.h"
#include "base/compiler.h"

// A whole question fits one packet, and comes at once.
#define FIRST_NS 10000000000u
// A browser keeps its connections for later; after a minute of silence they are closed anyway (daemon.c).
#define NEXT_NS 75000000000u

void fm_patience_init(struct fm_patience *p)
{
	pthread_mutex_init(&p->lock, NULL);
	for (size_t i = 0; i < FM_ARRAY_LEN(p->visitors); i++)
		p->visitors[i] = (struct fm_visitor){ .fd = -1 };
}

void fm_patience_deinit(struct fm_patience *p)
{
	pthread_mutex_destroy(&p->lock);
}

static struct fm_visitor *find_free(struct fm_patience *p)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(p->visitors); i++)
		if (p->visitors[i].fd < 0)
			return &p->visitors[i];
	return NULL;
}

// The end is told before the descriptor is closed: while a visitor is in the table, the descriptor is its own.
void fm_patience_notify(void *cls, struct MHD_Connection *connection, void **socket_context,
			enum MHD_ConnectionNotificationCode what)
{
	struct fm_patience *p = cls;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	pthread_mutex_lock(&p->lock);
	struct fm_visitor *visitor = what == MHD_CONNECTION_NOTIFY_STARTED ? find_free(p) : *socket_context;
	if (visitor && what == MHD_CONNECTION_NOTIFY_STARTED && info)
		*visitor = (struct fm_visitor){ info->connect_fd, fm_now_ns() + FIRST_NS };
	else if (visitor)
		visitor->fd = -1;
	*socket_context = what == MHD_CONNECTION_NOTIFY_STARTED ? visitor : NULL;
	pthread_mutex_unlock(&p->lock);
}

static void set_until(struct fm_patience *p, struct MHD_Connection *connection, uint64_t until_ns)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct fm_visitor *visitor = info ? info->socket_context : NULL;
	if (!visitor)
		return;
	pthread_mutex_lock(&p->lock);
	visitor->until_ns = until_ns;
	pthread_mutex_unlock(&p->lock);
}

void fm_patience_heard(struct fm_patience *p, struct MHD_Connection *connection)
{
	set_until(p, connection, 0);
}

void fm_patience_again(struct fm_patience *p, struct MHD_Connection *connection)
{
	set_until(p, connection, fm_now_ns() + NEXT_NS);
}

void fm_patience_look(struct fm_patience *p, uint64_t now_ns)
{
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < FM_ARRAY_LEN(p->visitors); i++) {
		struct fm_visitor *v = &p->visitors[i];
		if (v->fd >= 0 && v->until_ns && now_ns > v->until_ns)
			shutdown(v->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&p->lock);
}
