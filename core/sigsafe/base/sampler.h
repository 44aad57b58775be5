// SPDX-License-Identifier: Apache-2.0
// Which of many blocks of bytes to look at, so that sums over the few tell of all: one byte in
// `mean` is drawn (a Poisson process along the bytes asked for), the block that holds it is taken,
// and it stands for size / P(taken) bytes. Large blocks are always taken. The expected sum of the
// weights is the number of bytes, whatever the sizes are.
//
// Integers only: a hook must not touch the program's floating-point flags.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Above this many samples per second a thread draws half as often, below an eighth of it again
// twice as often.
#define FM_SIG_SAMPLES_PER_SECOND 2000u
// Who asks for a finer mean than this asks for more samples, in the same measure, up to so many: a
// sample takes some microseconds.
#define FM_SIG_USUAL_MEAN_BYTES (128u << 10)
#define FM_SIG_MOST_PER_SECOND (16 * FM_SIG_SAMPLES_PER_SECOND)
// Up to this many, small blocks are drawn more often than was asked for: they cost next to nothing,
// and slow growth is seen sooner.
#define FM_SIG_FREE_PER_SECOND (FM_SIG_SAMPLES_PER_SECOND / 8)

struct fm_sig_sampler {
	uint64_t left; // bytes until the next look; a size above it leaves the fast path. Smaller than `certain`
	uint64_t mean; // in use since the last draw; 0 = not started
	uint64_t certain;
	uint64_t base_mean, base_certain;
	uint64_t random;
	uint64_t window_start_ns;
	uint32_t most_per_second;
	uint32_t n_in_window, n_certain; // taken since then, and those of them that are always taken
	uint8_t shift, certain_shift;    // mean = base_mean << (shift + pressure), and so for certain
	uint8_t n_finer;                 // shift at the mean that was asked for
	bool is_cut_off;                 // `left` ends at `certain`, before the byte that was drawn
};

// n_finer: how often the mean may be halved below what is asked for, while few samples come of it.
void fm_sig_sampler_start(struct fm_sig_sampler *s, uint64_t mean, uint64_t certain, unsigned n_finer, uint64_t seed);

// For a size above s->left: the weight of a block that is taken, 0 for one that is not. After a
// taken block fm_sig_sampler_next() has to follow.
uint64_t fm_sig_sampler_take(struct fm_sig_sampler *s, uint64_t size);

// Draws the next byte. The mean may change here, at a time that depends on the past only: weights
// stay unbiased. pressure: how often to double it beyond what the thread's own rate asks for.
void fm_sig_sampler_next(struct fm_sig_sampler *s, uint64_t now_ns, unsigned pressure);

// size / (1 - exp(-size / mean)), rounded.
uint64_t fm_sig_sampler_weight(uint64_t size, uint64_t mean);
