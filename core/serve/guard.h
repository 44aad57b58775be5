// SPDX-License-Identifier: Apache-2.0
// Who may ask: pure checks of what a request says about itself.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FM_TOKEN_CHARS 32

// FM_TOKEN_CHARS random hexadecimal digits and a NUL. False: the system gave no randomness.
bool fm_guard_make_token(char ret[static FM_TOKEN_CHARS + 1]);
// Takes equally long for every wrong token of the right length. NULL is wrong, and so is everything
// while token is "".
bool fm_guard_token_is_right(const char *given, const char token[static FM_TOKEN_CHARS + 1]);

// The Host header names this server. A page elsewhere that made its own name point here (DNS
// rebinding) says another name. NULL is wrong.
bool fm_guard_host_is_ours(const char *host, uint16_t port);
// The same for a server that listens to other machines, too: also the name it was told to listen
// at, and any address in numbers, which no name server had a say in.
bool fm_guard_host_is_known(const char *host, const char *name, uint16_t port);
// A browser says where a request comes from; nothing (NULL) is what other programs say. Ours is the
// host that it asks.
bool fm_guard_origin_is_ours(const char *origin, uint16_t port);
bool fm_guard_origin_is_host(const char *origin, const char *host);
// What people may choose as a token: FM_TOKEN_LEAST to FM_TOKEN_CHARS letters, digits, '-' and '_'.
#define FM_TOKEN_LEAST 8
bool fm_guard_token_is_fit(const char *token);

// The other end of a loopback connection belongs to the user who runs this process, as the kernel's
// table of connections says. False when it cannot be told.
struct sockaddr;
bool fm_guard_peer_is_us(const struct sockaddr *peer, uint16_t port);
