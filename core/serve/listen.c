// SPDX-License-Identifier: Apache-2.0
#include "serve/serve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "aggregate/tree/view.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "serve/session.h"

// A server that just ended may hold its port for a moment, for those who watched its program's end.
#define PATIENCE_NS 1500000000u
#define TRY_NS 50000000l
#define LOOK_MS 100
// What the system may hold for one viewer that does not read: some ten messages. It would take
// megabytes.
#define SEND_BYTES (128 << 10)
// Those who were told of the end come back for the last figures within this. Who did not read it by
// then, will not.
#define LINGER_NS 700000000u
#define STREAMS_NS 1000000000u
// However busy a page is: nothing keeps the port longer.
#define LONGEST_LINGER_NS 30000000000u
// The program that is watched comes first.
#define NICENESS 10

static bool is_this_machine(const char *host)
{
	return !strcasecmp(host, "localhost") || !strcmp(host, "127.0.0.1");
}

enum fm_err fm_listen_parse(const char *text, struct fm_listen_place *ret, struct fm_diag *diag)
{
	struct fm_listen_place place = { .host = "127.0.0.1", .is_loopback = true };
	const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
	size_t host_len = colon ? (size_t)(colon - text) : 0;
	char *end;
	unsigned long port = strtoul(digits, &end, 10);
	if (*digits < '0' || *digits > '9' || *end || port > UINT16_MAX || host_len >= sizeof(place.host))
		return fm_diag_set(diag, FM_E_USAGE,
				   "'%.100s' is not an address to listen on; give PORT or HOST:PORT, such as 8086",
				   text);
	if (host_len >= 2 && text[0] == '[' && text[host_len - 1] == ']') {
		text++;
		host_len -= 2;
	}
	if (host_len) {
		memcpy(place.host, text, host_len);
		place.host[host_len] = 0;
		place.is_loopback = is_this_machine(place.host);
	}
	place.port = (uint16_t)port;
	*ret = place;
	return FM_OK;
}

void fm_listen_name(const struct fm_listen_place *place, char *ret, size_t cap)
{
	bool is_anywhere = !strcmp(place->host, "0.0.0.0") || !strcmp(place->host, "::");
	if (!is_anywhere || gethostname(ret, cap))
		snprintf(ret, cap, "%s", place->host);
	ret[cap - 1] = 0;
}

static int try_once(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, room = SEND_BYTES;
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)); // connections inherit it
	if (!bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, SOMAXCONN))
		return fd;
	int why = errno;
	close(fd);
	errno = why;
	return -1;
}

enum fm_err fm_listen_bind(struct fm_listen_place *place, int *ret_socket, struct fm_diag *diag)
{
	char digits[8];
	snprintf(digits, sizeof(digits), "%u", place->port);
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found;
	const char *host = place->is_loopback ? "127.0.0.1" : place->host;
	int why = getaddrinfo(host, digits, &hints, &found);
	if (why)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot listen at '%s': %s", place->host, gai_strerror(why));
	uint64_t until_ns = fm_now_ns() + PATIENCE_NS;
	int fd = try_once(found);
	while (fd < 0 && errno == EADDRINUSE && fm_now_ns() < until_ns) {
		nanosleep(&(struct timespec){ .tv_nsec = TRY_NS }, NULL);
		fd = try_once(found);
	}
	int error = errno;
	freeaddrinfo(found);
	if (fd < 0)
		return fm_diag_set(diag, FM_E_REFUSED, "cannot listen at %s port %u: %s%s", place->host, place->port,
				   strerror(error), error == EADDRINUSE ? "; choose another with --listen" : "");
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	if (!getsockname(fd, (struct sockaddr *)&at, &len))
		place->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
							     : ((struct sockaddr_in *)&at)->sin_port);
	*ret_socket = fd;
	return FM_OK;
}

// True once: the collector has ended.
static bool is_collector_gone(int collector)
{
	struct pollfd end = { .fd = collector, .events = POLLIN };
	return poll(&end, 1, LOOK_MS) > 0;
}

static void wait_for_end(struct fm_session *s, int collector)
{
	while (!fm_tail_is_over(s->tail)) {
		if (is_collector_gone(collector))
			fm_tail_set_over(s->tail);
		fm_timeouts_poll(&s->timeouts, fm_now_ns());
	}
	atomic_store(&s->is_over, true);
	fm_served_set_growing(s->captures, false);
	if (!fm_session_was_asked(s))
		return;
	// Streams tell of the end and close; the page then asks once more for the whole.
	uint64_t since_ns = fm_now_ns();
	for (;;) {
		uint64_t now_ns = fm_now_ns();
		uint64_t quiet_since_ns = FM_MAX(atomic_load(&s->asked_ns), since_ns);
		uint32_t n_streams = atomic_load(&s->n_live), n_asking = atomic_load(&s->n_asking);
		bool is_quiet = n_asking <= n_streams && now_ns - FM_MIN(quiet_since_ns, now_ns) > LINGER_NS;
		bool is_told = !n_streams || now_ns - since_ns > STREAMS_NS;
		if ((is_quiet && is_told) || now_ns - since_ns > LONGEST_LINGER_NS)
			return;
		fm_timeouts_poll(&s->timeouts, now_ns);
		nanosleep(&(struct timespec){ .tv_nsec = TRY_NS }, NULL);
	}
}

enum fm_err fm_listen_serve(const struct fm_listen_options *o, struct fm_diag *diag)
{
	char name[sizeof(o->place.host)];
	fm_listen_name(&o->place, name, sizeof(name));
	struct fm_session s = { .port = o->place.port, .host = o->place.is_loopback ? NULL : name };
	const struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	snprintf(s.token, sizeof(s.token), "%s", o->token);
	enum fm_err err = fm_served_open(o->path, NULL, &view, &s.captures, diag);
	if (err)
		return err;
	setpriority(PRIO_PROCESS, 0, NICENESS);
	fm_served_set_growing(s.captures, true);
	s.tail = fm_tail_create(o->path);
	struct MHD_Daemon *daemon = fm_daemon_start(&s, o->place.port, o->socket);
	if (daemon) {
		wait_for_end(&s, o->collector);
		fm_daemon_stop(&s, daemon);
	} else {
		err = fm_diag_set(diag, FM_E_REFUSED, "cannot serve: %s", strerror(errno));
	}
	fm_tail_destroy(s.tail);
	fm_served_close(s.captures);
	return err;
}
