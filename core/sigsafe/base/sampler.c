// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/sampler.h"

#include "base/compiler.h"

#include "sigsafe/base/sigsafe.h"

// Rates are judged over this time: 100 samples at the limit, so that a thread which begins with a
// burst is slowed down soon.
#define WINDOW_NS 50000000u
// No mean grows beyond 2^MAX_SHIFT times what was asked for: 128 KiB then are 128 TiB.
#define MAX_SHIFT 30u

#define ONE_62 (1ull << 62)

static FM_SIGSAFE uint64_t multiply(uint64_t a, uint64_t b, unsigned shift)
{
	return (uint64_t)((unsigned __int128)a * b >> shift);
}

// exp(-x) with 62 fraction bits. x64 is x / 64 with as many; x is below 44.
static FM_SIGSAFE uint64_t exp_minus(uint64_t x64)
{
	// Taylor's series of exp(-x / 64), its argument below 0.69, then squared six times.
	uint64_t sum = ONE_62, term = ONE_62;
	for (unsigned n = 1; n <= 16; n++) {
		term = multiply(term, x64, 62) / n;
		sum = n & 1 ? sum - term : sum + term;
	}
	for (unsigned i = 0; i < 6; i++)
		sum = multiply(sum, sum, 62);
	return sum;
}

FM_SIGSAFE uint64_t fm_sig_sampler_weight(uint64_t size, uint64_t mean)
{
	if (size == 0 || size / 44 >= mean)
		return size;    // exp(-44) is nothing
	if (size < mean / 1024) // the first terms of size / (1 - exp(-x)) = mean (1 + x / 2 + x^2 / 12 - x^4 / 720 ...)
		return mean + size / 2 + size * (size / 12) / mean;
	unsigned k = (unsigned)__builtin_clzll(size) - 1;
	uint64_t x = (size << k) / mean; // size / mean * 2^k
	uint64_t x64 = k <= 56 ? x << (56 - k) : x >> (k - 56);
	uint64_t p = (ONE_62 - exp_minus(x64)) >> 30; // 32 fraction bits; at least 2^22
	// size * 2^32 / p in two steps, because it may be longer than a word.
	return (size / p << 32) + ((size % p << 32) + p / 2) / p;
}

static FM_SIGSAFE uint64_t random_word(uint64_t *state)
{
	// splitmix64: every state is a good one, and neighbouring seeds give unlike sequences.
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

// An exponentially distributed distance with this mean, rounded down: -ln(u) * mean.
static FM_SIGSAFE uint64_t draw(struct fm_sig_sampler *s)
{
	uint64_t u = random_word(&s->random) | 1;
	unsigned n_zeros = (unsigned)__builtin_clzll(u);
	// log2 of the leading part, from 1 to 2, bit by bit: squaring doubles a logarithm.
	uint64_t m = u << n_zeros, log2_part = 0;
	for (unsigned i = 0; i < 40; i++) {
		m = multiply(m, m, 64);
		log2_part <<= 1;
		if (m >> 63)
			log2_part |= 1;
		else
			m <<= 1;
	}
	uint64_t minus_log2 = ((uint64_t)(n_zeros + 1) << 40) - log2_part;
	uint64_t minus_ln = multiply(minus_log2, 0xb17217f7d1cf79acu, 64); // ln 2 with 64 fraction bits
	return multiply(s->mean, minus_ln, 40);
}

// Sets out for a byte that lies `at` bytes from here. What lies beyond the size that is always
// taken is drawn when one gets there: the process has no memory, and every such size then is above
// `left`, which spares the fast path a comparison.
static FM_SIGSAFE void set_out(struct fm_sig_sampler *s, uint64_t at)
{
	s->is_cut_off = at >= s->certain;
	s->left = s->is_cut_off ? s->certain - 1 : at;
}

static FM_SIGSAFE uint32_t most_per_second(uint64_t mean)
{
	uint32_t most = FM_SIG_SAMPLES_PER_SECOND;
	for (; mean && mean < FM_SIG_USUAL_MEAN_BYTES && most < FM_SIG_MOST_PER_SECOND; mean *= 2)
		most *= 2;
	return most;
}

FM_SIGSAFE void fm_sig_sampler_start(struct fm_sig_sampler *s, uint64_t mean, uint64_t certain, unsigned n_finer,
				     uint64_t seed)
{
	s->base_mean = s->mean = mean >> n_finer; // the finest first: a busy thread is slowed down within some samples
	s->n_finer = (uint8_t)n_finer;
	s->most_per_second = most_per_second(mean);
	s->base_certain = s->certain = certain;
	s->random = seed;
	s->window_start_ns = 0;
	s->n_in_window = s->n_certain = 0;
	s->shift = s->certain_shift = 0;
	set_out(s, draw(s));
}

FM_SIGSAFE uint64_t fm_sig_sampler_take(struct fm_sig_sampler *s, uint64_t size)
{
	if (size >= s->certain) {
		s->n_certain++;
		return size;
	}
	if (s->is_cut_off) {
		uint64_t beyond = size - (s->left + 1), at = draw(s);
		if (at >= beyond) {
			set_out(s, at - beyond);
			return 0;
		}
	}
	return fm_sig_sampler_weight(size, s->mean);
}

FM_SIGSAFE void fm_sig_sampler_next(struct fm_sig_sampler *s, uint64_t now_ns, unsigned pressure)
{
	uint64_t passed_ns = now_ns - s->window_start_ns;
	uint32_t most = (uint32_t)((uint64_t)s->most_per_second * WINDOW_NS / 1000000000u);
	s->n_in_window++;
	uint32_t n_small = s->n_in_window - s->n_certain;
	uint32_t most_free = (uint32_t)((uint64_t)FM_SIG_FREE_PER_SECOND * WINDOW_NS / 1000000000u);
	bool is_too_many = s->n_in_window > most, is_too_fine = s->shift < s->n_finer && n_small > most_free;
	if (passed_ns >= WINDOW_NS || is_too_many || is_too_fine) {
		// What is too many gets rarer: large blocks stay certain in a crowd of small ones.
		uint8_t *too_many = !is_too_fine && 2 * s->n_certain > s->n_in_window ? &s->certain_shift : &s->shift;
		if ((is_too_many || is_too_fine) && passed_ns < WINDOW_NS) {
			*too_many += *too_many < MAX_SHIFT;
		} else if (s->n_in_window < most / 8) {
			// Below what was asked for only where hardly any sample comes: the next
			// step doubles them.
			s->shift -= s->shift > s->n_finer || (s->shift > 0 && n_small < 2);
			s->certain_shift -= s->certain_shift > 0;
		}
		s->window_start_ns = now_ns;
		s->n_in_window = s->n_certain = 0;
	}
	s->mean = s->base_mean << FM_MIN(s->shift + pressure, MAX_SHIFT);
	s->certain = s->base_certain << FM_MIN(s->certain_shift + pressure, MAX_SHIFT);
	set_out(s, draw(s));
}
