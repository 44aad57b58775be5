// SPDX-License-Identifier: Apache-2.0
#include "serve/session.h"

#include "base/compiler.h"

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
