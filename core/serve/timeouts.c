// SPDX-License-Identifier: Apache-2.0
#include "serve/timeouts.h"

#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"

// A whole question fits one packet, and comes at once.
#define FIRST_NS 10000000000u
// A browser keeps its connections for later; after a minute of silence they are closed anyway
// (daemon.c).
#define NEXT_NS 75000000000u
// For a thread to see that its connection was shut down, and to end.
#define LEAVE_NS 1000000l

void fm_timeouts_init(struct fm_timeouts *p)
{
	pthread_mutex_init(&p->lock, NULL);
	for (size_t i = 0; i < FM_ARRAY_LEN(p->visitors); i++)
		p->visitors[i] = (struct fm_visitor){ .fd = -1 };
}

void fm_timeouts_deinit(struct fm_timeouts *p)
{
	pthread_mutex_destroy(&p->lock);
}

static struct fm_visitor *find_free(struct fm_timeouts *p)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(p->visitors); i++)
		if (p->visitors[i].fd < 0)
			return &p->visitors[i];
	return NULL;
}

static void hang_up(struct fm_visitor *v)
{
	v->is_leaving = true;
	shutdown(v->fd, SHUT_RDWR);
}

// Who has to go for one more: the oldest without the token, whether their question is half or their
// answer unread; then whoever asked properly and has been silent longest, as a browser's
// connections are. NULL: all of them are being answered, and may be.
static struct fm_visitor *find_dispensable(struct fm_timeouts *p)
{
	struct fm_visitor *found = NULL;
	for (size_t i = 0; i < FM_ARRAY_LEN(p->visitors); i++) {
		struct fm_visitor *v = &p->visitors[i];
		if (v->fd < 0 || v->is_leaving || (v->is_trusted && !v->until_ns))
			continue;
		bool is_less = !found || (found->is_trusted && !v->is_trusted);
		bool is_equal = found && found->is_trusted == v->is_trusted;
		if (is_less || (is_equal && v->since_ns < found->since_ns))
			found = v;
	}
	return found;
}

static unsigned count_staying(const struct fm_timeouts *p)
{
	unsigned n = 0;
	for (size_t i = 0; i < FM_ARRAY_LEN(p->visitors); i++)
		n += p->visitors[i].fd >= 0 && !p->visitors[i].is_leaving;
	return n;
}

// True: somebody has to go for this one, who may be itself.
static bool let_in(struct fm_timeouts *p, struct fm_visitor *visitor, int fd)
{
	bool is_full = count_staying(p) >= FM_PATIENCE_PLACES;
	struct fm_visitor *dispensable = is_full ? find_dispensable(p) : NULL;
	uint64_t now_ns = fm_now_ns();
	*visitor = (struct fm_visitor){ .fd = fd, .since_ns = now_ns, .until_ns = now_ns + FIRST_NS };
	if (is_full)
		hang_up(dispensable ? dispensable : visitor);
	return is_full;
}

// The end is told before the descriptor is closed: while a visitor is in the table, the descriptor
// is its own.
void fm_timeouts_notify(void *cls, struct MHD_Connection *connection, void **socket_context,
			enum MHD_ConnectionNotificationCode what)
{
	struct fm_timeouts *p = cls;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	bool is_start = what == MHD_CONNECTION_NOTIFY_STARTED, was_full = false;
	pthread_mutex_lock(&p->lock);
	struct fm_visitor *visitor = is_start ? find_free(p) : *socket_context;
	if (visitor && is_start && info)
		was_full = let_in(p, visitor, info->connect_fd);
	else if (visitor)
		visitor->fd = -1;
	*socket_context = is_start ? visitor : NULL;
	pthread_mutex_unlock(&p->lock);
	if (was_full) // the thread that lets in waits until the one that has to go could: it never runs ahead of them
		      // all
		nanosleep(&(struct timespec){ .tv_nsec = LEAVE_NS }, NULL);
}

static struct fm_visitor *visitor_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info ? info->socket_context : NULL;
}

void fm_timeouts_heard(struct fm_timeouts *p, struct MHD_Connection *connection)
{
	struct fm_visitor *visitor = visitor_of(connection);
	if (!visitor)
		return;
	pthread_mutex_lock(&p->lock);
	visitor->until_ns = 0;
	pthread_mutex_unlock(&p->lock);
}

void fm_timeouts_trust(struct fm_timeouts *p, struct MHD_Connection *connection)
{
	struct fm_visitor *visitor = visitor_of(connection);
	if (!visitor)
		return;
	pthread_mutex_lock(&p->lock);
	visitor->is_trusted = true;
	pthread_mutex_unlock(&p->lock);
}

void fm_timeouts_again(struct fm_timeouts *p, struct MHD_Connection *connection)
{
	struct fm_visitor *visitor = visitor_of(connection);
	if (!visitor)
		return;
	pthread_mutex_lock(&p->lock);
	if (visitor->is_trusted) // otherwise a question a second, which anybody may ask, would keep a place
		visitor->since_ns = fm_now_ns();
	visitor->until_ns = fm_now_ns() + NEXT_NS;
	pthread_mutex_unlock(&p->lock);
}

void fm_timeouts_poll(struct fm_timeouts *p, uint64_t now_ns)
{
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < FM_ARRAY_LEN(p->visitors); i++) {
		struct fm_visitor *v = &p->visitors[i];
		if (v->fd >= 0 && v->until_ns && now_ns > v->until_ns)
			hang_up(v);
	}
	pthread_mutex_unlock(&p->lock);
}
