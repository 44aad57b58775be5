#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "render/page.h"
#include "serve/browser.h"
#include "serve/routes.h"
#include "serve/serve.h"

#define MAX_CONNECTIONS 32 // a browser opens six; more tabs share them
#define IDLE_SECONDS 60
#define GRACE_NS 2000000000ull // a reloaded page says bye first and asks again soon after
#define LOOK_NS 200000000l

// The page names its own scripts and styles by hash; the same policy goes out as a header, which a page cannot have taken
// out of it, and with what only a header can say.
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

static bool is_page_gone(struct fm_session *s)
{
	uint64_t bye_ns = atomic_load(&s->bye_ns);
	return bye_ns && fm_now_ns() - bye_ns > GRACE_NS && !atomic_load(&s->n_live);
}

static void *prepare(void *ctx)
{
	struct fm_session *s = ctx;
	fm_served_prepare(s->captures);
	atomic_store(&s->is_prepared, true);
	return NULL;
}

static void wait_for_end(struct fm_session *s, const sigset_t *ends)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	while (!is_page_gone(s)) {
		int signal = sigtimedwait(ends, NULL, &look);
		if (signal > 0)
			break;
	}
	atomic_store(&s->is_stopping, true);
}

// An address with a NUL in it is not the one before the NUL: made into one that is in no table.
static size_t unescape(void *cls, struct MHD_Connection *connection, char *text)
{
	size_t len = MHD_http_unescape(text);
	if (memchr(text, 0, len))
		memset(text, '?', len);
	return len;
}

static struct MHD_Daemon *start(struct fm_session *s, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct MHD_Daemon *daemon =
		MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, port,
				 NULL, NULL, fm_routes_answer, s, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
				 MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
				 (unsigned)IDLE_SECONDS, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_END);
	const union MHD_DaemonInfo *info = daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
	s->port = info ? info->port : 0;
	return daemon;
}

enum fm_err fm_serve(const struct fm_serve_options *o, struct fm_diag *diag)
{
	if (!fm_page_len)
		return fm_diag_set(diag, FM_E_UNSUPPORTED,
				   "this fathom was built without the viewer's page; install Node and npm and build it "
				   "again, or use 'fathom export -f speedscope'");
	struct fm_session s = { 0 };
	if (!fm_guard_make_token(s.token))
		return fm_diag_set(diag, FM_E_REFUSED, "the system gives no random numbers: %s", strerror(errno));
	enum fm_err err = fm_served_open(o->path, o->base_path, &o->view, &s.captures, diag);
	if (err)
		return err;
	// Blocked before the server's threads exist, so that they inherit it: only wait_for_end() hears of these.
	sigset_t ends, before;
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ends, &before);
	char *policy = make_policy();
	s.policy = policy;
	struct MHD_Daemon *daemon = start(&s, o->port);
	if (!daemon) {
		err = fm_diag_set(diag, FM_E_REFUSED, "cannot listen on 127.0.0.1 port %u: %s%s", o->port,
				  strerror(errno), o->port ? "; choose another with --port" : "");
	} else {
		char url[128];
		snprintf(url, sizeof(url), "http://127.0.0.1:%u/#token=%s", s.port, s.token);
		printf("%s\n", url);
		fflush(stdout);
		fm_say("the viewer is at the address above; close the page or press Ctrl-C to end");
		if (o->opens_browser)
			fm_open_in_browser(url);
		pthread_t preparing; // while the browser starts
		bool is_preparing = pthread_create(&preparing, NULL, prepare, &s) == 0;
		wait_for_end(&s, &ends);
		if (is_preparing && !atomic_load(&s.is_prepared))
			_exit(0); // Ctrl-C does not wait until a large capture is read; there is nothing to put in order
		MHD_stop_daemon(daemon);
		if (is_preparing)
			pthread_join(preparing, NULL);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	fm_served_close(s.captures);
	free(policy);
	return err;
}
