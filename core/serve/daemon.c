// SPDX-License-Identifier: Apache-2.0
#include "serve/session.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "render/shared/page.h"

#define IDLE_SECONDS 60 // also for whoever asks and then does not read

// The page names its own scripts and styles by hash; the same policy goes out as a header, which a
// page cannot have taken out of it, and with what only a header can say.
static char *make_policy(void)
{
	static const char begin[] = "http-equiv=\"Content-Security-Policy\" content=\"";
	const char *at = memmem(fm_page, fm_page_len, begin, sizeof(begin) - 1);
	const char *end = at ? strchr(at + sizeof(begin) - 1, '"') : NULL;
	struct fm_buf policy = { 0 };
	if (end)
		fm_buf_bytes(&policy, at + sizeof(begin) - 1, (size_t)(end - at) - (sizeof(begin) - 1));
	else
		fm_buf_str(&policy, "default-src 'none'");
	fm_buf_str(&policy, "; frame-ancestors 'none'");
	return (char *)policy.data;
}

// An address with a NUL in it is not the one before the NUL: made into one that is in no table.
static size_t unescape(void *cls, struct MHD_Connection *connection, char *text)
{
	size_t len = MHD_http_unescape(text);
	if (memchr(text, 0, len))
		memset(text, '?', len);
	return len;
}

struct MHD_Daemon *fm_daemon_start(struct fm_session *s, uint16_t port, int socket)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct MHD_OptionItem where[] = {
		{ MHD_OPTION_SOCK_ADDR, 0, &address },
		{ MHD_OPTION_END, 0, NULL },
	};
	if (socket >= 0)
		where[0] = (struct MHD_OptionItem){ MHD_OPTION_LISTEN_SOCKET, socket, NULL };
	char *policy = make_policy();
	s->policy = policy;
	fm_timeouts_init(&s->timeouts);
	struct MHD_Daemon *daemon = MHD_start_daemon(
		MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, port, NULL, NULL,
		fm_routes_answer, s, MHD_OPTION_ARRAY, where, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)FM_PATIENCE_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
		MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED, fm_routes_finished, s,
		MHD_OPTION_NOTIFY_CONNECTION, fm_timeouts_notify, &s->timeouts, MHD_OPTION_END);
	if (!daemon) {
		fm_timeouts_deinit(&s->timeouts);
		free(policy);
		s->policy = NULL;
		return NULL;
	}
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
	if (socket < 0) // of a socket that came from elsewhere, the session knows it
		s->port = info ? info->port : 0;
	return daemon;
}

void fm_daemon_stop(struct fm_session *s, struct MHD_Daemon *daemon)
{
	atomic_store(&s->is_stopping, true);
	MHD_stop_daemon(daemon);
	fm_timeouts_deinit(&s->timeouts);
	free((void *)(uintptr_t)s->policy);
	s->policy = NULL;
}
