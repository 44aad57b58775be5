#include "aggregate/payers.h"

#include <stdlib.h>

// What millions of nodes ask of their functions, small enough for the cache.
enum { PYTHON = 1, OWN = 2, HAS_FILE = 4 };

static uint8_t *kinds_of_functions(const struct fm_symbolizer *symbolizer)
{
	uint32_t n = fm_symbolizer_n_functions(symbolizer);
	uint8_t *kinds = fm_alloc(n + 1);
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_function *f = fm_symbolizer_function(symbolizer, i);
		if (f->kind != FM_FRAME_PYTHON ||
		    f->is_ours) // for what Fathom itself does its caller pays, if there is one
			continue;
		kinds[i] = PYTHON | (f->is_library ? 0 : OWN);
		if (!f->file.len || f->file.p[0] != '<')
			kinds[i] |= HAS_FILE;
	}
	return kinds;
}

// Parents come first, so one pass inherits downwards.
struct fm_payer *fm_payers_find(const struct fm_view *view, const struct fm_symbolizer *symbolizer)
{
	struct fm_payer *payers = fm_alloc(view->nodes.n * sizeof(*payers));
	uint8_t *kinds = kinds_of_functions(symbolizer);
	for (uint32_t i = 1; i < view->nodes.n; i++) {
		const struct fm_node *node = &view->nodes.items[i];
		struct fm_payer caller = payers[node->parent];
		uint8_t kind = kinds[node->function_id];
		payers[i] = caller;
		if (kind & PYTHON)
			payers[i].own = i + 1;
		// What start-up files and libraries generate and execute has no file of its own either.
		if (kind & OWN && (kind & HAS_FILE || !caller.own || caller.own == caller.user))
			payers[i].user = i + 1;
	}
	free(kinds);
	return payers;
}
