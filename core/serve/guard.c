#include "serve/guard.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/compiler.h"

bool fm_guard_make_token(char ret[static FM_TOKEN_CHARS + 1])
{
	uint8_t bytes[FM_TOKEN_CHARS / 2];
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return false;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

bool fm_guard_token_is_right(const char *given, const char token[static FM_TOKEN_CHARS + 1])
{
	if (!given || strlen(given) != FM_TOKEN_CHARS)
		return false;
	uint8_t differs = 0;
	for (size_t i = 0; i < FM_TOKEN_CHARS; i++)
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

bool fm_guard_origin_is_ours(const char *origin, uint16_t port)
{
	return !origin || is_ours(origin, "http://", port);
}
