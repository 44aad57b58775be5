#include "aggregate/payers.h"

// Parents come first, so one pass inherits downwards.
struct fm_payer *fm_payers_find(const struct fm_view *view, const struct fm_symbolizer *symbolizer)
{
	struct fm_payer *payers = fm_alloc(view->nodes.n * sizeof(*payers));
	for (uint32_t i = 1; i < view->nodes.n; i++) {
		const struct fm_node *node = &view->nodes.items[i];
		const struct fm_function *f = fm_symbolizer_function(symbolizer, node->function_id);
		payers[i] = payers[node->parent];
		if (f->kind == FM_FRAME_PYTHON) {
			payers[i].own = i + 1;
			if (!f->is_library)
				payers[i].user = i + 1;
		}
	}
	return payers;
}
