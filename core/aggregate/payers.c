#include "aggregate/payers.h"

// Parents come first, so one pass inherits downwards.
struct fm_payer *fm_payers_find(const struct fm_view *view, const struct fm_symbolizer *symbolizer)
{
	struct fm_payer *payers = fm_alloc(view->nodes.n * sizeof(*payers));
	for (uint32_t i = 1; i < view->nodes.n; i++) {
		const struct fm_node *node = &view->nodes.items[i];
		const struct fm_function *f = fm_symbolizer_function(symbolizer, node->function_id);
		struct fm_payer caller = payers[node->parent];
		payers[i] = caller;
		if (f->kind != FM_FRAME_PYTHON)
			continue;
		payers[i].own = i + 1;
		// What start-up files and libraries generate and execute has no file of its own either.
		bool has_file = !f->file.len || f->file.p[0] != '<';
		if (!f->is_library && (has_file || !caller.own || caller.own == caller.user))
			payers[i].user = i + 1;
	}
	return payers;
}
