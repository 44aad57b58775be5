#include "aggregate/view.h"

#include <stdlib.h>
#include <string.h>

bool fm_view_shows_class(const struct fm_view_options *options, unsigned class)
{
	if (class == FM_CLASS_GIL_WAIT || class == FM_CLASS_WAIT)
		return options->idle && !options->gil_only;
	if (options->gil_only)
		return class == FM_CLASS_PYTHON || class == FM_CLASS_GC;
	return true;
}

static uint32_t child_of(struct fm_view *v, uint32_t parent, uint32_t function_id, uint32_t line)
{
	// Two 32-bit halves and a parent do not fit one key: the place is numbered first.
	bool is_new;
	uint64_t *label = fm_map_at(&v->labels, (uint64_t)function_id << 32 | line, &is_new);
	if (is_new)
		*label = v->labels.n;
	uint64_t *node = fm_map_at(&v->children, (uint64_t)parent << 32 | *label, &is_new);
	if (is_new) {
		*node = v->nodes.n;
		fm_vec_push(&v->nodes, (struct fm_node){ parent, function_id, line, v->nodes.items[parent].depth + 1 });
	}
	return (uint32_t)*node;
}

static void mark_used(struct fm_view *v, const struct fm_profile *profile, const struct fm_tally *tally)
{
	for (size_t i = 0; i < tally->cells.n; i++)
		if (tally->cells.items[i].stack_id < v->n_stacks)
			v->stack_flags[tally->cells.items[i].stack_id] |= FM_STACK_USED;
	for (size_t s = v->n_stacks; s-- > 1;)
		if (v->stack_flags[s] & FM_STACK_USED)
			v->stack_flags[profile->stacks.items[s].parent] |= FM_STACK_USED;
}

struct builder {
	struct fm_view *view;
	const struct fm_view_options *options;
	struct fm_symbolizer *symbolizer;
	uint32_t *whole; // by stack id: its node with nothing folded; used as long as no Python frame was met
};

static uint32_t add_frame(struct builder *b, uint32_t parent, struct fm_place place)
{
	uint32_t line = place.line;
	if (b->options->no_line_numbers)
		line = 0;
	else if (b->options->by_function)
		line = fm_symbolizer_function(b->symbolizer, place.function_id)->line;
	return child_of(b->view, parent, place.function_id, line);
}

static void add_stack(struct builder *b, uint32_t id, const struct fm_stack *stack)
{
	struct fm_view *v = b->view;
	uint8_t inherited = v->stack_flags[stack->parent] & (FM_STACK_HAS_PYTHON | FM_STACK_HAS_ERROR);
	struct fm_place place = fm_symbolizer_place(b->symbolizer, stack->frame_id);
	const struct fm_function *f = fm_symbolizer_function(b->symbolizer, place.function_id);
	uint8_t kind = f->kind;
	bool is_plumbing = f->is_plumbing;
	if (kind == FM_FRAME_PYTHON)
		inherited |= FM_STACK_HAS_PYTHON;
	if (kind == FM_FRAME_ERROR)
		inherited |= FM_STACK_HAS_ERROR;
	v->stack_flags[id] |= inherited;

	if (b->options->native_all) {
		v->stack_node[id] = add_frame(b, v->stack_node[stack->parent], place);
		return;
	}
	if (!(inherited & FM_STACK_HAS_PYTHON))
		b->whole[id] = add_frame(b, b->whole[stack->parent], place);
	bool is_hidden = kind == FM_FRAME_NATIVE &&
			 (b->options->python_only || is_plumbing || !(inherited & FM_STACK_HAS_PYTHON));
	uint32_t parent = v->stack_node[stack->parent];
	v->stack_node[id] = is_hidden ? parent : add_frame(b, parent, place);
}

void fm_view_build(struct fm_view *v, const struct fm_profile *profile, const struct fm_tally *tally,
		   struct fm_symbolizer *symbolizer, const struct fm_view_options *options)
{
	*v = (struct fm_view){ .n_stacks = FM_MAX(profile->stacks.n, (size_t)1) };
	v->stack_node = fm_alloc(v->n_stacks * sizeof(*v->stack_node));
	v->stack_flags = fm_alloc(v->n_stacks);
	fm_vec_push(&v->nodes, (struct fm_node){ 0 });
	mark_used(v, profile, tally);

	struct builder b = { v, options, symbolizer, fm_alloc(v->n_stacks * sizeof(uint32_t)) };
	for (size_t s = 1; s < v->n_stacks; s++)
		if (v->stack_flags[s] & FM_STACK_USED)
			add_stack(&b, (uint32_t)s, &profile->stacks.items[s]);
	// While building, stack_node held the folded place for what comes above. A stack that stayed without Python shows whole.
	for (size_t s = 1; !options->native_all && s < v->n_stacks; s++)
		if ((v->stack_flags[s] & (FM_STACK_USED | FM_STACK_HAS_PYTHON)) == FM_STACK_USED)
			v->stack_node[s] = b.whole[s];
	free(b.whole);
	fm_map_deinit(&v->labels);
	fm_map_deinit(&v->children);
}

void fm_view_deinit(struct fm_view *v)
{
	fm_vec_deinit(&v->nodes);
	free(v->stack_node);
	free(v->stack_flags);
	fm_map_deinit(&v->labels);
	fm_map_deinit(&v->children);
	*v = (struct fm_view){ 0 };
}
