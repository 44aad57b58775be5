// SPDX-License-Identifier: Apache-2.0
// `fathom view`: serves until the page is closed, or a signal says so.
#include "serve/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"
#include "render/shared/page.h"
#include "serve/session.h"

#define LOOK_NS 200000000l

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
	while (!fm_session_is_left(s, fm_now_ns())) {
		fm_timeouts_poll(&s->timeouts, fm_now_ns());
		int signal = sigtimedwait(ends, NULL, &look);
		if (signal > 0)
			break;
	}
	atomic_store(&s->is_stopping, true);
}

enum fm_err fm_serve(const struct fm_serve_options *o, struct fm_diag *diag)
{
	if (!fm_page_len)
		return fm_diag_set(diag, FM_E_UNSUPPORTED,
				   "this fathom was built without the viewer's page; install Node and npm and build it "
				   "again, or use 'fathom export -f speedscope'");
	struct fm_session s = { 0 };
	if (!fm_guard_make_token(s.token))
		return fm_diag_set(diag, FM_E_REFUSED, "the system provides no random numbers: %s", strerror(errno));
	enum fm_err err = fm_served_open(o->path, o->base_path, &o->view, &s.captures, diag);
	if (err)
		return err;
	// Blocked before the server's threads exist, so that they inherit it: only wait_for_end()
	// hears of these.
	sigset_t ends, before;
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ends, &before);
	struct MHD_Daemon *daemon = fm_daemon_start(&s, o->port, -1);
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
		if (is_preparing && !atomic_load(&s.is_prepared)) {
			pthread_detach(preparing);
			_exit(0); // Ctrl-C does not wait until a large capture is read; there is nothing to put in
				  // order
		}
		fm_daemon_stop(&s, daemon);
		if (is_preparing)
			pthread_join(preparing, NULL);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	fm_served_close(s.captures);
	return err;
}

#define GRACE_NS 2000000000ull  // a reloaded page says bye first and asks again soon after
#define ALONE_NS 60000000000ull // a browser that crashed, or a laptop that was closed, says nothing

bool fm_session_is_left(struct fm_session *s, uint64_t now_ns)
{
	uint64_t bye_ns = atomic_load(&s->bye_ns), left_ns = atomic_load(&s->left_ns);
	if (atomic_load(&s->n_live))
		return false;
	if (bye_ns)
		return now_ns > bye_ns + GRACE_NS;
	// Whoever asks without holding a stream is there, too, as long as they ask.
	uint64_t last_ns = FM_MAX(left_ns, atomic_load(&s->asked_ns));
	return left_ns && !atomic_load(&s->n_asking) && now_ns > last_ns + ALONE_NS;
}

bool fm_session_was_asked(struct fm_session *s)
{
	return atomic_load(&s->n_asking) || atomic_load(&s->asked_ns);
}
