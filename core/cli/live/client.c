// SPDX-License-Identifier: Apache-2.0
#include "cli/live/live.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define CONNECT_MS 3000
#define HEAD_MS 20000 // the first answer may have to read a large capture
#define MAX_HEAD_BYTES 16384u
#define MAX_MESSAGE_BYTES ((size_t)16 << 20) // a hundred times what a server of ours says at once
#define READ_BYTES 65536u

void fm_live_disconnect(struct fm_live_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	fm_buf_deinit(&c->in);
	*c = (struct fm_live_client){ .fd = -1 };
}

static bool wait_for(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t until_ns = fm_now_ns() + (uint64_t)timeout_ms * 1000000u;
	for (;;) {
		int n = poll(&p, 1, timeout_ms);
		if (n >= 0 || errno != EINTR)
			return n > 0;
		if (fm_now_ns() >= until_ns)
			return false;
	}
}

static int connect_to(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	int error = 0;
	socklen_t len = sizeof(error);
	bool is_there = connect(fd, at->ai_addr, at->ai_addrlen) == 0;
	if (!is_there && errno == EINPROGRESS && wait_for(fd, POLLOUT, CONNECT_MS))
		is_there = !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) && !error;
	if (is_there)
		return fd;
	close(fd);
	return -1;
}

bool fm_live_read(struct fm_live_client *c)
{
	if (c->pos) { // what was taken makes room
		memmove(c->in.data, c->in.data + c->pos, c->in.len - c->pos);
		c->in.len -= c->pos;
		c->pos = 0;
	}
	fm_buf_reserve(&c->in, READ_BYTES + 1);
	ssize_t n = read(c->fd, c->in.data + c->in.len, READ_BYTES);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->in.len += (size_t)n;
	c->in.data[c->in.len] = 0;
	return n > 0;
}

// The end of the answer's head, or NULL while it is not there.
static const char *head_end(const struct fm_live_client *c)
{
	return c->in.len ? memmem(c->in.data, c->in.len, "\r\n\r\n", 4) : NULL;
}

static enum fm_err lost(struct fm_live_client *c, struct fm_diag *diag)
{
	fm_live_disconnect(c);
	return fm_diag_set(diag, FM_E_NOT_FOUND, "the connection was lost");
}

enum fm_err fm_live_not_ours(struct fm_live_client *c, struct fm_diag *diag)
{
	fm_live_disconnect(c);
	return fm_diag_set(diag, FM_E_REFUSED,
			   "the server there is not Fathom; use the port that was given to --listen");
}

// What has come so far may still become the head of an answer.
static bool may_be_head(const struct fm_live_client *c)
{
	static const char begin[] = "HTTP/1.";
	size_t len = FM_MIN(c->in.len, sizeof(begin) - 1);
	return c->in.len <= MAX_HEAD_BYTES && (!len || !memcmp(c->in.data, begin, len));
}

// Our server says of each of its answers what it is.
static bool has_type(struct fm_live_client *c, const char *type)
{
	const char *head = (const char *)c->in.data;
	const char *found = memmem(head, c->pos, "\r\nContent-Type: ", 16);
	size_t len = strlen(type);
	return found && (size_t)(head + c->pos - (found + 16)) > len && !memcmp(found + 16, type, len);
}

static enum fm_err read_head(struct fm_live_client *c, const char *type, struct fm_diag *diag)
{
	uint64_t until_ns = fm_now_ns() + (uint64_t)HEAD_MS * 1000000u;
	while (!head_end(c)) {
		bool is_over = fm_now_ns() > until_ns || !wait_for(c->fd, POLLIN, HEAD_MS) || !fm_live_read(c);
		if (!may_be_head(c) || (is_over && c->in.len)) // ours comes in one piece
			return fm_live_not_ours(c, diag);
		if (is_over)
			return lost(c, diag);
	}
	unsigned status = 0;
	if (sscanf((const char *)c->in.data, "HTTP/1.%*1[01] %3u", &status) != 1)
		return fm_live_not_ours(c, diag);
	c->pos = (size_t)(head_end(c) - (const char *)c->in.data) + 4;
	if (status == 200)
		return has_type(c, type) ? FM_OK : fm_live_not_ours(c, diag);
	if (status == 503) // of a program that has just ended; the next may be about to start
		return lost(c, diag);
	struct fm_str words = FM_STR_LIT("");
	if (fm_live_read_all(c, CONNECT_MS, &words))
		words = FM_STR_LIT("");
	if (status == 401)
		fm_diag_set(diag, FM_E_REFUSED,
			    "the token is missing or wrong; give the one that the program printed with --token");
	else
		fm_diag_set(diag, FM_E_REFUSED, "the server answered %u: %.*s", status, (int)FM_MIN(words.len, 200u),
			    words.p);
	fm_live_disconnect(c);
	return FM_E_REFUSED;
}

enum fm_err fm_live_connect(struct fm_live_client *c, const struct fm_listen_place *place, enum fm_live_question what,
			    const char *token, struct fm_diag *diag)
{
	char digits[8];
	snprintf(digits, sizeof(digits), "%u", place->port);
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *found;
	int why = getaddrinfo(place->host, digits, &hints, &found);
	if (why)
		return fm_diag_set(diag, FM_E_REFUSED, "cannot find '%s': %s", place->host, gai_strerror(why));
	*c = (struct fm_live_client){ .fd = -1 };
	for (const struct addrinfo *at = found; at && c->fd < 0; at = at->ai_next)
		c->fd = connect_to(at);
	freeaddrinfo(found);
	if (c->fd < 0)
		return fm_diag_set(diag, FM_E_NOT_FOUND,
				   "nothing listens at %s port %u; start the program with --listen %u", place->host,
				   place->port, place->port);
	struct fm_buf question = { 0 };
	fm_buf_printf(&question, "GET %s HTTP/1.0\r\nHost: ", // 1.0: the answer is not cut into chunks
		      what == FM_LIVE_STREAM ? "/api/live" : "/api/now");
	fm_buf_printf(&question, strchr(place->host, ':') ? "[%s]:%u\r\n" : "%s:%u\r\n", place->host, place->port);
	if (token && *token)
		fm_buf_printf(&question, "X-Fathom-Token: %s\r\n", token);
	fm_buf_str(&question, "\r\n");
	ssize_t n = send(c->fd, question.data, question.len, MSG_NOSIGNAL); // far less than a socket takes at once
	bool is_sent = n == (ssize_t)question.len;
	fm_buf_deinit(&question);
	return is_sent ? read_head(c, what == FM_LIVE_STREAM ? "text/event-stream" : "application/json", diag)
		       : lost(c, diag);
}

enum fm_err fm_live_read_all(struct fm_live_client *c, int timeout_ms, struct fm_str *ret)
{
	uint64_t until_ns = fm_now_ns() + (uint64_t)timeout_ms * 1000000u;
	while (c->in.len < MAX_MESSAGE_BYTES && fm_now_ns() < until_ns && wait_for(c->fd, POLLIN, timeout_ms))
		if (!fm_live_read(c)) {
			*ret = (struct fm_str){ (const char *)c->in.data + c->pos, (uint32_t)(c->in.len - c->pos) };
			return FM_OK;
		}
	return c->in.len < MAX_MESSAGE_BYTES ? FM_E_IO : FM_E_CORRUPT;
}

// The line's rest after the prefix, or nothing.
static bool is_field(struct fm_str line, const char *name, struct fm_str *ret)
{
	size_t len = strlen(name);
	if (line.len < len || memcmp(line.p, name, len))
		return false;
	*ret = (struct fm_str){ line.p + len, line.len - (uint32_t)len };
	return true;
}

enum fm_err fm_live_next(struct fm_live_client *c, struct fm_live_event *ret)
{
	const char *from = (const char *)c->in.data + c->pos;
	size_t len = c->in.len - c->pos;
	const char *end = len ? memmem(from, len, "\n\n", 2) : NULL;
	if (!end)
		return len > MAX_MESSAGE_BYTES ? FM_E_CORRUPT : FM_E_NOT_FOUND;
	*ret = (struct fm_live_event){ FM_STR_LIT(""), FM_STR_LIT("") };
	for (const char *line = from; line < end;) { // one line for each, that is all our server says
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		stop = stop ? stop : end;
		struct fm_str text = { line, (uint32_t)(stop - line) };
		if (!is_field(text, "event: ", &ret->name) && !is_field(text, "data: ", &ret->data) && *line != ':')
			return FM_E_CORRUPT;
		line = stop + 1;
	}
	c->pos += (size_t)(end - from) + 2;
	return FM_OK;
}
