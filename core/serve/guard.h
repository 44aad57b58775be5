// Who may ask: pure checks of what a request says about itself.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FM_TOKEN_CHARS 32

// FM_TOKEN_CHARS random hexadecimal digits and a NUL. False: the system gave no randomness.
bool fm_guard_make_token(char ret[static FM_TOKEN_CHARS + 1]);
// Takes equally long for every wrong token of the right length. NULL is wrong.
bool fm_guard_token_is_right(const char *given, const char token[static FM_TOKEN_CHARS + 1]);

// The Host header names this server. A page elsewhere that made its own name point here (DNS rebinding) says another
// name. NULL is wrong.
bool fm_guard_host_is_ours(const char *host, uint16_t port);
// A browser says where a request comes from; nothing (NULL) is what other programs say.
bool fm_guard_origin_is_ours(const char *origin, uint16_t port);
