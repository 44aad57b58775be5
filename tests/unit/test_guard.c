// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "serve/guard.h"
#include "serve/serve.h"
#include "serve/session.h"

TEST(only_our_own_names_pass_on_loopback)
{
	CHECK(fm_guard_host_is_ours("127.0.0.1:80", 80) && fm_guard_host_is_ours("LocalHost:80", 80));
	CHECK(!fm_guard_host_is_ours("127.0.0.1:81", 80) && !fm_guard_host_is_ours("evil.example:80", 80));
	CHECK(!fm_guard_host_is_ours(NULL, 80) && !fm_guard_host_is_ours("127.0.0.1", 80));
}

TEST(other_machines_may_say_the_name_or_a_number)
{
	static const char *const fine[] = { "box:8086", "BOX:8086", "10.0.0.7:8086", "[fe80::1]:8086",
					    "localhost:8086" };
	static const char *const wrong[] = { "box",
					     "box:8087",
					     "evil.example:8086",
					     "box.evil.example:8086",
					     "10.0.0.7.a:8086",
					     "[fe80::1:8086",
					     ":8086",
					     "8086",
					     "" };
	for (size_t i = 0; i < FM_ARRAY_LEN(fine); i++)
		CHECK(fm_guard_host_is_known(fine[i], "box", 8086));
	for (size_t i = 0; i < FM_ARRAY_LEN(wrong); i++)
		CHECK(!fm_guard_host_is_known(wrong[i], "box", 8086));
	CHECK(!fm_guard_host_is_known(NULL, "box", 8086));
	CHECK(fm_guard_origin_is_host(NULL, "box:1") && fm_guard_origin_is_host("http://box:1", "box:1"));
	CHECK(!fm_guard_origin_is_host("https://box:1", "box:1") && !fm_guard_origin_is_host("null", "box:1"));
	CHECK(!fm_guard_origin_is_host("http://evil.example", "box:1"));
}

// Whether the guard takes a connection that a child makes as this user for ours.
static bool is_us(int listening, uint16_t port, uid_t uid)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int hold[2];
	CHECK_EQ(pipe(hold), 0);
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(hold[1]);
		int fd = setuid(uid) ? -1 : socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)))
			_exit(1);
		_exit(read(hold[0], &byte, 1) != 0); // until it was looked at
	}
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	int fd = accept(listening, (struct sockaddr *)&peer, &len);
	CHECK(fd >= 0);
	bool is_ours = fm_guard_peer_is_us((const struct sockaddr *)&peer, port);
	close(hold[0]);
	close(hold[1]);
	close(fd);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	return is_ours;
}

TEST(a_connection_is_ours_if_we_own_its_other_end)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	alarm(30); // a child that cannot connect
	CHECK(fd >= 0 && !bind(fd, (const struct sockaddr *)&at, sizeof(at)) && !listen(fd, 1));
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	uint16_t port = ntohs(at.sin_port);
	CHECK(is_us(fd, port, geteuid()));
	if (geteuid() == 0) // nobody else can be somebody else
		CHECK(!is_us(fd, port, 65534));
	struct sockaddr_in nobody = at; // nobody has the port that we listen on as a client
	CHECK(!fm_guard_peer_is_us((const struct sockaddr *)&nobody, port));
	close(fd);
}

TEST(a_token_is_right_or_wrong_as_a_whole)
{
	char token[FM_TOKEN_CHARS + 1] = "", chosen[FM_TOKEN_CHARS + 1] = "long-enough";
	CHECK(!fm_guard_token_is_right("", token) && !fm_guard_token_is_right(NULL, token)); // none was made
	CHECK(fm_guard_make_token(token) && strlen(token) == FM_TOKEN_CHARS && fm_guard_token_is_right(token, token));
	CHECK(!fm_guard_token_is_right("", token) && !fm_guard_token_is_right("long-enough", token));
	CHECK(fm_guard_token_is_right("long-enough", chosen) && !fm_guard_token_is_right("long-enougH", chosen));
	CHECK(!fm_guard_token_is_right("long-enough-", chosen) && !fm_guard_token_is_right("long", chosen));
	CHECK(fm_guard_token_is_fit("long-enough") && fm_guard_token_is_fit(token));
	CHECK(!fm_guard_token_is_fit("short") && !fm_guard_token_is_fit("with a space") &&
	      !fm_guard_token_is_fit("a\r\nb: c12"));
}

TEST(a_place_is_a_port_or_a_host_and_a_port)
{
	struct fm_listen_place p;
	CHECK_EQ(fm_listen_parse("8086", &p, NULL), FM_OK);
	CHECK(p.port == 8086 && p.is_loopback && !strcmp(p.host, "127.0.0.1"));
	CHECK_EQ(fm_listen_parse("localhost:1", &p, NULL), FM_OK);
	CHECK(p.port == 1 && p.is_loopback);
	CHECK_EQ(fm_listen_parse("0.0.0.0:65535", &p, NULL), FM_OK);
	CHECK(p.port == 65535 && !p.is_loopback);
	CHECK_EQ(fm_listen_parse("[::1]:5", &p, NULL), FM_OK);
	CHECK(p.port == 5 && !strcmp(p.host, "::1"));
	static const char *const wrong[] = { "", "x", "65536", "-1", "host:", "host:1x", ":", "1:2:x", " 8086" };
	for (size_t i = 0; i < FM_ARRAY_LEN(wrong); i++)
		CHECK_EQ(fm_listen_parse(wrong[i], &p, NULL), FM_E_USAGE);
}

TEST(a_server_ends_when_its_page_is_gone_with_or_without_a_word)
{
	const uint64_t s = 1000000000;
	struct fm_session session = { 0 };
	CHECK(!fm_session_is_left(&session, 3600 * s)); // nobody came yet: the address may be on its way by mail
	session.n_live = 1;
	session.asked_ns = 10 * s;
	CHECK(!fm_session_is_left(&session, 7200 * s)); // a page that is looked at asks nothing for hours
	session.n_live = 0;
	session.left_ns = 7200 * s; // killed
	CHECK(!fm_session_is_left(&session, 7259 * s));
	CHECK(fm_session_is_left(&session, 7261 * s));
	session.asked_ns = 7250 * s; // another that holds no stream
	CHECK(!fm_session_is_left(&session, 7261 * s) && fm_session_is_left(&session, 7311 * s));
	session.n_asking = 1; // and still reads its answer
	CHECK(!fm_session_is_left(&session, 7311 * s));
	session.n_asking = 0;
	session.bye_ns = 7260 * s; // closed in order
	CHECK(!fm_session_is_left(&session, 7261 * s) && fm_session_is_left(&session, 7263 * s));
	session.n_live = 1; // the other tab stays
	CHECK(!fm_session_is_left(&session, 7263 * s));
}

TEST_MAIN()
