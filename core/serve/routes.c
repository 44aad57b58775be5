// SPDX-License-Identifier: Apache-2.0
#include "serve/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "render/shared/page.h"

#define MAX_THREADS_ASKED 100000u
#define MAX_PIXELS_ASKED 16384 // two screens of 8K

struct request {
	struct fm_session *session;
	struct MHD_Connection *connection;
};

static const char *header(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static const char *argument(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

// zstd takes a tenth of gzip's time; browsers know it since 2024.
static enum fm_packing packing_for(const struct request *r)
{
	const char *encodings = header(r, "Accept-Encoding");
	return !encodings                  ? FM_PLAIN
	       : strstr(encodings, "zstd") ? FM_ZSTD
	       : strstr(encodings, "gzip") ? FM_GZIP
					   : FM_PLAIN;
}

// Sends and lets go of the response. Every answer forbids the browser to guess its type, to keep
// it, and to show it in another page.
static enum MHD_Result finish(const struct request *r, unsigned status, struct MHD_Response *response, const char *type)
{
	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "Content-Security-Policy", r->session->policy);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
	if (status >= MHD_HTTP_BAD_REQUEST)
		MHD_add_response_header(response, "Connection", "close"); // who asks wrongly has to come again
	enum MHD_Result result = MHD_queue_response(r->connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result say(const struct request *r, unsigned status, const char *text)
{
	return finish(r, status,
		      MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY),
		      "text/plain; charset=utf-8");
}

static enum MHD_Result hand_over(const struct request *r, struct fm_answer answer, enum fm_packing packing,
				 const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(answer.len, answer.data, MHD_RESPMEM_MUST_FREE);
	if (response && packing != FM_PLAIN)
		MHD_add_response_header(response, "Content-Encoding", packing == FM_ZSTD ? "zstd" : "gzip");
	return finish(r, MHD_HTTP_OK, response, type);
}

static enum MHD_Result refuse(const struct request *r, enum fm_err err, const struct fm_diag *diag)
{
	return say(r, err == FM_E_NOT_FOUND ? MHD_HTTP_NOT_FOUND : MHD_HTTP_INTERNAL_SERVER_ERROR, diag->text);
}

static enum MHD_Result answer_page(const struct request *r)
{
	return finish(r, MHD_HTTP_OK,
		      MHD_create_response_from_buffer(fm_page_len, (void *)(uintptr_t)fm_page, MHD_RESPMEM_PERSISTENT),
		      "text/html; charset=utf-8");
}

static bool parse_seconds(const char *text, double *ret)
{
	if (!text || !*text)
		return true;
	char *end;
	*ret = strtod(text, &end);
	return !*end && isfinite(*ret) && *ret >= 0;
}

// "1,2,3"
static bool parse_threads(const char *text, struct fm_question *q)
{
	while (text && *text) {
		char *end;
		unsigned long id = strtoul(text, &end, 10);
		if (end == text || (*end && *end != ',') || *text < '0' || *text > '9' || id > UINT32_MAX ||
		    q->threads.n == MAX_THREADS_ASKED)
			return false;
		fm_vec_push(&q->threads, (uint32_t)id);
		text = *end ? end + 1 : end;
	}
	return true;
}

static bool parse_question(const struct request *r, struct fm_question *q)
{
	const char *threads = argument(r, "threads"), *not_threads = argument(r, "not_threads");
	q->has_threads = threads && *threads;
	return parse_seconds(argument(r, "from_s"), &q->from_s) && parse_seconds(argument(r, "to_s"), &q->to_s) &&
	       !(q->has_threads && not_threads && *not_threads) &&
	       parse_threads(q->has_threads ? threads : not_threads, q);
}

static enum MHD_Result answer_bundle(const struct request *r)
{
	struct fm_question q = { 0 };
	enum MHD_Result result;
	if (!parse_question(r, &q)) {
		result = say(r, MHD_HTTP_BAD_REQUEST,
			     "from_s and to_s must be seconds; threads or not_threads (one of them) must be numbers "
			     "separated by commas");
	} else {
		struct fm_answer answer;
		struct fm_diag diag;
		enum fm_packing packing = packing_for(r);
		enum fm_err err = fm_served_bundle(r->session->captures, &q, packing, &answer, &diag);
		result = err ? refuse(r, err, &diag) : hand_over(r, answer, packing, "application/octet-stream");
	}
	fm_vec_deinit(&q.threads);
	return result;
}

static enum MHD_Result answer_zones(const struct request *r)
{
	struct fm_question q = { 0 };
	double pixels = 0;
	enum MHD_Result result;
	if (!parse_question(r, &q) || !parse_seconds(argument(r, "pixels"), &pixels) || pixels < 1 ||
	    pixels > MAX_PIXELS_ASKED) {
		result = say(r, MHD_HTTP_BAD_REQUEST,
			     "pixels must be a number from 1 to 16384; from_s and to_s must be seconds; threads must "
			     "be numbers separated by commas");
	} else {
		struct fm_answer answer;
		struct fm_diag diag;
		enum fm_packing packing = packing_for(r);
		enum fm_err err = fm_served_zones(r->session->captures, &q, (uint32_t)pixels, packing, &answer, &diag);
		result = err ? refuse(r, err, &diag) : hand_over(r, answer, packing, "application/octet-stream");
	}
	fm_vec_deinit(&q.threads);
	return result;
}

static enum MHD_Result answer_diff(const struct request *r)
{
	struct fm_answer answer;
	struct fm_diag diag;
	enum fm_packing packing = packing_for(r);
	enum fm_err err = fm_served_diff(r->session->captures, packing, &answer, &diag);
	return err ? refuse(r, err, &diag) : hand_over(r, answer, packing, "application/octet-stream");
}

static enum MHD_Result answer_source(const struct request *r)
{
	struct fm_answer answer;
	struct fm_diag diag;
	const char *name = argument(r, "file");
	if (!name)
		return say(r, MHD_HTTP_BAD_REQUEST, "name the file as the bundle does: source?file=NAME");
	enum fm_err err = fm_served_source(r->session->captures, name, &answer, &diag);
	return err ? refuse(r, err, &diag) : hand_over(r, answer, FM_PLAIN, "text/plain; charset=utf-8");
}

static enum MHD_Result say_over(const struct request *r)
{
	return say(r, MHD_HTTP_SERVICE_UNAVAILABLE, "the program has ended");
}

static enum MHD_Result answer_live(const struct request *r)
{
	if (atomic_load(&r->session->is_over))
		return say_over(r);
	return finish(r, MHD_HTTP_OK, fm_live_response(r->session), "text/event-stream");
}

static enum MHD_Result answer_now(const struct request *r)
{
	if (!r->session->tail)
		return say(r, MHD_HTTP_NOT_FOUND,
			   "this server watches no program; start one with 'fathom run --listen 8086'");
	if (atomic_load(&r->session->is_over))
		return say_over(r);
	return hand_over(r, fm_tail_now(r->session->tail), false, "application/json; charset=utf-8");
}

static enum MHD_Result answer_bye(const struct request *r)
{
	atomic_store(&r->session->bye_ns, fm_now_ns());
	return say(r, MHD_HTTP_OK, "");
}

static const struct {
	const char *url, *method;
	enum MHD_Result (*answer)(const struct request *r);
	bool wants_token; // the page itself holds nothing of the capture, and learns the token from its own address
} routes[] = {
	{ "/", "GET", answer_page, false },          { "/api/bundle", "GET", answer_bundle, true },
	{ "/api/diff", "GET", answer_diff, true },   { "/api/source", "GET", answer_source, true },
	{ "/api/live", "GET", answer_live, true },   { "/api/bye", "POST", answer_bye, true },
	{ "/api/zones", "GET", answer_zones, true }, { "/api/now", "GET", answer_now, true },
};

// It was addressed to us, not to a name that somebody made point here, and no page of another site
// asks.
static bool is_for_us(const struct request *r)
{
	const struct fm_session *s = r->session;
	const char *host = header(r, MHD_HTTP_HEADER_HOST), *origin = header(r, "Origin");
	if (!s->host)
		return fm_guard_host_is_ours(host, s->port) && fm_guard_origin_is_ours(origin, s->port);
	return fm_guard_host_is_known(host, s->host, s->port) && fm_guard_origin_is_host(origin, host);
}

// A running program that is watched on its own machine is open to its own user: whoever owns the
// other end of the connection could read its memory, too. A browser that asks because of another
// site's page says so, and is not meant.
static bool is_permitted(const struct request *r)
{
	const struct fm_session *s = r->session;
	if (fm_guard_token_is_right(header(r, "X-Fathom-Token"), s->token))
		return true;
	const char *site = header(r, "Sec-Fetch-Site");
	if (!s->tail || s->host || (site && strcmp(site, "same-origin")))
		return false;
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	return info && fm_guard_peer_is_us(info->client_addr, s->port);
}

enum MHD_Result fm_routes_answer(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
				 const char *version, const char *upload_data, size_t *upload_data_size,
				 void **request_state)
{
	static char seen; // its address marks a request whose head was seen
	const struct request r = { cls, connection };
	if (!*request_state) {
		*request_state = &seen;
		atomic_fetch_add(&r.session->n_asking, 1);
		return MHD_YES; // the body, if there is one, comes next
	}
	if (*upload_data_size) { // nobody has anything to tell us
		*upload_data_size = 0;
		return MHD_YES;
	}
	fm_timeouts_heard(&r.session->timeouts, connection);
	if (!is_for_us(&r))
		return say(&r, MHD_HTTP_FORBIDDEN,
			   r.session->host ? "this server does not answer to this name; use its numeric address"
					   : "this server answers to 127.0.0.1 and localhost only");
	for (size_t i = 0; i < FM_ARRAY_LEN(routes); i++) {
		if (strcmp(url, routes[i].url) != 0)
			continue;
		if (strcmp(method, routes[i].method) != 0)
			return say(&r, MHD_HTTP_METHOD_NOT_ALLOWED, "method not allowed");
		if (routes[i].wants_token && !is_permitted(&r))
			return say(&r, MHD_HTTP_UNAUTHORIZED,
				   r.session->tail
					   ? "the token is missing or wrong; the program that listens printed it"
					   : "the token is missing or wrong; open the address that fathom view "
					     "printed");
		if (routes[i].wants_token)
			fm_timeouts_trust(&r.session->timeouts, connection);
		if (routes[i].answer != answer_bye && routes[i].wants_token)
			atomic_store(&r.session->bye_ns, 0); // a reloaded page says bye, and then asks again
		return routes[i].answer(&r);
	}
	return say(&r, MHD_HTTP_NOT_FOUND, "there is nothing at this address");
}

void fm_routes_finished(void *cls, struct MHD_Connection *connection, void **request_state,
			enum MHD_RequestTerminationCode why)
{
	struct fm_session *s = cls;
	if (!*request_state)
		return;
	fm_timeouts_again(&s->timeouts, connection);
	atomic_store(&s->asked_ns, fm_now_ns());
	atomic_fetch_sub(&s->n_asking, 1);
}
