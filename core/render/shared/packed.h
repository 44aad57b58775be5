// SPDX-License-Identifier: Apache-2.0
// Streams that change what is written to them on its way to another stream: gzip, and base64.
// Closing one writes its end and leaves the other open. Write errors stay in the stream below;
// fclose() tells of them, too.
#pragma once

#include <stdio.h>

// level: 1 (fast) to 9 (small).
FILE *fm_packed_gzip(FILE *to, int level);
FILE *fm_packed_base64(FILE *to);

// Bytes packed by zstd, for the caller to free(); NULL and a length of 0 when memory is short.
char *fm_packed_zstd(const char *bytes, size_t len, int level, size_t *ret_len);
