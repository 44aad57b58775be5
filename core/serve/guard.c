// SPDX-License-Identifier: Apache-2.0
#include "serve/guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/kernel.h"

bool fm_guard_make_token(char ret[static FM_TOKEN_CHARS + 1])
{
	uint8_t bytes[FM_TOKEN_CHARS / 2];
	if (fm_getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return false;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

bool fm_guard_token_is_right(const char *given, const char token[static FM_TOKEN_CHARS + 1])
{
	size_t len = strlen(token);
	if (!given || !len || strlen(given) != len)
		return false;
	uint8_t differs = 0;
	for (size_t i = 0; i < len; i++)
		differs |= (uint8_t)(given[i] ^ token[i]);
	return !differs;
}

static bool is_ours(const char *text, const char *prefix, uint16_t port)
{
	static const char *const names[] = { "127.0.0.1", "localhost" };
	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++) {
		char ours[64];
		snprintf(ours, sizeof(ours), "%s%s:%u", prefix, names[i], port);
		if (!strcasecmp(text, ours))
			return true;
	}
	return false;
}

bool fm_guard_host_is_ours(const char *host, uint16_t port)
{
	return host && is_ours(host, "", port);
}

bool fm_guard_host_is_known(const char *host, const char *name, uint16_t port)
{
	const char *colon = host ? strrchr(host, ':') : NULL;
	char digits[8], text[256];
	snprintf(digits, sizeof(digits), ":%u", port);
	if (!colon || strcmp(colon, digits) || (size_t)(colon - host) >= sizeof(text))
		return false;
	memcpy(text, host, (size_t)(colon - host));
	text[colon - host] = 0;
	if (!strcasecmp(text, name) || fm_guard_host_is_ours(host, port))
		return true;
	struct in6_addr number;
	size_t len = strlen(text);
	if (text[0] == '[' && text[len - 1] == ']') {
		text[len - 1] = 0;
		return inet_pton(AF_INET6, text + 1, &number) == 1;
	}
	return inet_pton(AF_INET, text, &number) == 1;
}

bool fm_guard_origin_is_host(const char *origin, const char *host)
{
	return !origin || (!strncasecmp(origin, "http://", 7) && !strcasecmp(origin + 7, host));
}

bool fm_guard_token_is_fit(const char *token)
{
	size_t len = strspn(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
	return !token[len] && len >= FM_TOKEN_LEAST && len <= FM_TOKEN_CHARS;
}

bool fm_guard_peer_is_us(const struct sockaddr *peer, uint16_t port)
{
	if (peer->sa_family != AF_INET)
		return false;
	const struct sockaddr_in *in = (const void *)peer;
	_cleanup_fclose_ FILE *table = fopen("/proc/net/tcp", "re");
	char line[256];
	while (table && fgets(line, sizeof(line), table)) {
		unsigned from, from_port, to, to_port, uid;
		// Addresses as the machine's own numbers, ports as everybody's.
		if (sscanf(line, " %*u: %x:%x %x:%x %*x %*x:%*x %*x:%*x %*x %u", &from, &from_port, &to, &to_port,
			   &uid) == 5 &&
		    from == in->sin_addr.s_addr && from_port == ntohs(in->sin_port) && to_port == port &&
		    to == htonl(INADDR_LOOPBACK))
			return uid == geteuid();
	}
	return false;
}

bool fm_guard_origin_is_ours(const char *origin, uint16_t port)
{
	return !origin || is_ours(origin, "http://", port);
}
