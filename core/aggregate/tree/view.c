// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/view.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/children.h"
#include "symbolize/names.h"

bool fm_view_shows_class(const struct fm_view_options *options, unsigned class)
{
	if (class == FM_CLASS_GIL_WAIT || class == FM_CLASS_WAIT)
		return options->idle && !options->gil_only;
	if (options->gil_only)
		return class == FM_CLASS_PYTHON || class == FM_CLASS_GC;
	return true;
}

// The interpreter's own image; or the small program in front of it where it is a library.
static bool is_interpreter(const struct fm_image *image)
{
	struct fm_str name = fm_name_base(image->path);
	return image->flags & FM_IMAGE_IS_PYTHON ||
	       (image->flags & FM_IMAGE_IS_MAIN && name.len >= 6 && !memcmp(name.p, "python", 6));
}

// By image: it may host Python, and is worth showing outside of it. To be freed.
static bool *find_hosts(const struct fm_profile *profile)
{
	bool *is_host = fm_alloc(profile->images.n + 1);
	for (size_t i = 0; i < profile->images.n; i++) {
		const struct fm_image *image = &profile->images.items[i];
		is_host[i] = image->flags & FM_IMAGE_IS_NAMED; // whoever wrote these names has chosen what to show
		is_host[i] = is_host[i] ||
			     (!is_interpreter(image) && !(image->flags & (FM_IMAGE_HAS_NO_FILE | FM_IMAGE_IS_VDSO)) &&
			      !fm_name_is_go_between(image->path));
	}
	return is_host;
}

// What each stack holds, told by the frames' kinds alone: nothing is named yet.
static void mark_kinds(struct fm_view *v, const struct fm_profile *profile)
{
	bool *is_host = find_hosts(profile);
	for (size_t s = 1; s < v->n_stacks; s++) {
		const struct fm_stack *stack = &profile->stacks.items[s];
		v->stack_flags[s] = v->stack_flags[stack->parent];
		if (stack->frame_id >= profile->frames.n)
			continue;
		const struct fm_frame *frame = &profile->frames.items[stack->frame_id];
		uint8_t kind = frame->kind;
		if (kind == FM_FRAME_NATIVE && frame->ref < profile->images.n && is_host[frame->ref])
			v->stack_flags[s] |= FM_STACK_HAS_HOST;
		if (kind == FM_FRAME_PYTHON)
			v->stack_flags[s] |= FM_STACK_HAS_PYTHON;
		else if (kind == FM_FRAME_ERROR)
			v->stack_flags[s] |= FM_STACK_HAS_ERROR;
		else if (kind == FM_FRAME_WORKERS)
			v->stack_flags[s] |= FM_STACK_IS_WORKER;
	}
	free(is_host);
}

static void use(struct fm_view *v, uint32_t stack)
{
	if (stack < v->n_stacks)
		v->stack_flags[stack] |= FM_STACK_USED | FM_STACK_IS_END |
					 (v->stack_flags[stack] & FM_STACK_HAS_PYTHON ? 0 : FM_STACK_IS_WHOLE);
}

static void mark_used(struct fm_view *v, const struct fm_profile *profile, const struct fm_tally *tally)
{
	for (size_t i = 0; i < tally->cells.n; i++)
		use(v, tally->cells.items[i].stack_id);
	for (size_t i = 0; i < tally->memory.blocks.n; i++)
		use(v, tally->memory.blocks.items[i].stack_id);
	for (size_t i = 0; i < tally->memory.copies.n; i++)
		use(v, tally->memory.copies.items[i].stack_id);
	for (size_t i = 0; i < profile->sites.n; i++)
		use(v, profile->sites.items[i].stack_id);
	for (size_t s = v->n_stacks; s-- > 1;)
		v->stack_flags[profile->stacks.items[s].parent] |=
			v->stack_flags[s] & (FM_STACK_USED | FM_STACK_IS_WHOLE);
}

struct builder {
	struct fm_view *view;
	const struct fm_profile *profile;
	const struct fm_view_options *options;
	struct fm_symbolizer *symbolizer;
	struct fm_children tree;
	uint64_t *last_place; // by frame id: of its outermost function as it was added last; 0 = not yet
	uint32_t *whole;      // by stack id: its node with nothing folded, for FM_STACK_IS_WHOLE
	bool *is_ours;        // by code id
	bool *is_agent;       // by image id
	// By stack id without Python: its node with the interpreter's frames folded, once somebody
	// asked for it.
	uint32_t *outside;
};

// The frame's functions below the parent; the node of the innermost.
static uint32_t add_frame(struct builder *b, uint32_t parent, uint32_t frame_id)
{
	uint32_t n;
	const struct fm_place *places = fm_symbolizer_places(b->symbolizer, frame_id, &n);
	for (uint32_t i = 0; i < n; i++) {
		struct fm_place place = places[i];
		if (b->options->no_line_numbers)
			place.line = 0;
		else if (b->options->by_function)
			place.line = fm_symbolizer_function(b->symbolizer, place.function_id)->line;
		if (!i && frame_id < b->profile->frames.n)
			b->last_place[frame_id] = fm_children_place(place.function_id, place.line, place.is_inlined);
		parent = fm_children_get(&b->tree, parent, place.function_id, place.line, place.is_inlined);
	}
	return parent;
}

static bool is_ours(const struct builder *b, uint32_t frame_id)
{
	if (b->options->native_all || frame_id >= b->profile->frames.n)
		return false;
	const struct fm_frame *frame = &b->profile->frames.items[frame_id];
	return frame->kind == FM_FRAME_PYTHON && frame->ref < b->profile->codes.n && b->is_ours[frame->ref];
}

// The node below which Fathom's own code shows.
static uint32_t add_ours(struct builder *b, uint32_t parent)
{
	return fm_children_get(&b->tree, parent, fm_symbolizer_ours(b->symbolizer), 0, false);
}

static bool is_hidden(const struct builder *b, uint8_t flags, uint32_t frame_id)
{
	if (b->options->native_all || frame_id >= b->profile->frames.n)
		return false;
	const struct fm_frame *frame = &b->profile->frames.items[frame_id];
	if (frame->kind == FM_FRAME_WORKERS)
		return b->options->python_only;
	if (frame->kind != FM_FRAME_NATIVE)
		return false;
	if (b->options->python_only || !(flags & FM_STACK_HAS_PYTHON))
		return true;
	uint32_t image_flags = frame->ref < b->profile->images.n ? b->profile->images.items[frame->ref].flags : 0;
	if (image_flags & FM_IMAGE_IS_JIT) {
		uint32_t n;
		const struct fm_place *places = fm_symbolizer_places(b->symbolizer, frame_id, &n);
		return fm_symbolizer_function(b->symbolizer, places[0].function_id)->is_plumbing;
	}
	// Hooks stand between a call and whom it calls, as the interpreter does.
	return (image_flags & FM_IMAGE_IS_PYTHON) || (frame->ref < b->profile->images.n && b->is_agent[frame->ref]);
}

// The node of a stack without Python, as what hosts the Python below it. Few stacks have one: each
// is looked up once.
static uint32_t add_outside(struct builder *b, uint32_t id)
{
	const struct fm_stack *stacks = b->profile->stacks.items;
	FM_VEC(uint32_t) path = { 0 };
	for (; id && !b->outside[id]; id = stacks[id].parent)
		fm_vec_push(&path, id);
	uint32_t node = id ? b->outside[id] : 0;
	for (size_t i = path.n; i-- > 0;) {
		uint32_t frame_id = stacks[path.items[i]].frame_id;
		const struct fm_frame *f = &b->profile->frames.items[frame_id];
		bool is_folded = f->kind == FM_FRAME_NATIVE && f->ref < b->profile->images.n &&
				 is_interpreter(&b->profile->images.items[f->ref]);
		node = is_folded ? node : add_frame(b, node, frame_id);
		b->outside[path.items[i]] = node;
	}
	fm_vec_deinit(&path);
	return node;
}

// What the outermost Python frame is called from, when that is worth showing.
static uint32_t host_of(struct builder *b, uint32_t id, uint32_t parent)
{
	uint32_t outer = b->profile->stacks.items[id].parent;
	uint8_t here = b->view->stack_flags[id], above = b->view->stack_flags[outer];
	bool is_outermost = here & FM_STACK_HAS_PYTHON && !(above & FM_STACK_HAS_PYTHON);
	bool is_shown = above & FM_STACK_HAS_HOST && !b->options->native_all && !b->options->python_only;
	return is_outermost && is_shown ? add_outside(b, outer) : parent;
}

// A folded frame is not even named: the interpreter's symbols are read only when they are shown.
static void add_stack(struct builder *b, uint32_t id, const struct fm_stack *stack)
{
	struct fm_view *v = b->view;
	uint8_t flags = v->stack_flags[id];
	if ((flags & FM_STACK_IS_WHOLE) && !b->options->native_all)
		b->whole[id] = add_frame(b, b->whole[stack->parent], stack->frame_id);
	uint32_t parent = host_of(b, id, v->stack_node[stack->parent]);
	bool is_below_ours = v->stack_flags[stack->parent] & FM_STACK_IS_OURS;
	if (is_ours(b, stack->frame_id) || (is_below_ours && is_hidden(b, flags, stack->frame_id))) {
		v->stack_node[id] = parent;
		v->stack_flags[id] |= FM_STACK_IS_OURS;
	} else if (is_hidden(b, flags, stack->frame_id)) {
		v->stack_node[id] = parent;
	} else {
		bool is_python = stack->frame_id < b->profile->frames.n &&
				 b->profile->frames.items[stack->frame_id].kind == FM_FRAME_PYTHON;
		v->stack_node[id] =
			add_frame(b, is_below_ours && !is_python ? add_ours(b, parent) : parent, stack->frame_id);
	}
}

// Of a large capture none of this fits the cache: what a stack needs is fetched in steps while
// those before it are added.
#define AHEAD 16

static void fetch(const struct builder *b, size_t s)
{
	const struct fm_stack *stacks = b->profile->stacks.items;
	const uint32_t *node_of = b->view->stack_node;
	if (s + 3 * AHEAD >= b->view->n_stacks)
		return;
	__builtin_prefetch(&node_of[stacks[s + 3 * AHEAD].parent]);
	fm_children_fetch(&b->tree, node_of[stacks[s + 2 * AHEAD].parent]);
	if (stacks[s + AHEAD].frame_id < b->profile->frames.n)
		fm_children_fetch_child(&b->tree, node_of[stacks[s + AHEAD].parent],
					b->last_place[stacks[s + AHEAD].frame_id]);
}

// Whoever walks down the tree shall walk through memory.
static void order_nodes(struct builder *b)
{
	struct fm_view *v = b->view;
	const struct fm_growing_node *grown = b->tree.nodes.items;
	size_t n = b->tree.nodes.n;
	uint32_t *place = fm_children_places(&b->tree);
	fm_vec_reserve(&v->nodes, n);
	v->nodes.n = n;
	for (size_t i = 0; i < n; i++)
		v->nodes.items[place[i]] = (struct fm_node){ place[grown[i].parent], grown[i].function_id,
							     grown[i].line, grown[i].depth, grown[i].is_inlined };
	for (size_t s = 1; s < v->n_stacks; s++)
		v->stack_node[s] = place[v->stack_node[s]];
	free(place);
}

void fm_view_build(struct fm_view *v, const struct fm_profile *profile, const struct fm_tally *tally,
		   struct fm_symbolizer *symbolizer, const struct fm_view_options *options)
{
	*v = (struct fm_view){ .n_stacks = FM_MAX(profile->stacks.n, (size_t)1) };
	v->stack_node = fm_alloc(v->n_stacks * sizeof(*v->stack_node));
	v->stack_flags = fm_alloc(v->n_stacks);
	mark_kinds(v, profile);
	mark_used(v, profile, tally);

	struct builder b = { .view = v,
			     .profile = profile,
			     .options = options,
			     .symbolizer = symbolizer,
			     .last_place = fm_alloc((profile->frames.n + 1) * sizeof(uint64_t)),
			     .whole = fm_alloc(v->n_stacks * sizeof(uint32_t)),
			     .is_ours = fm_alloc(profile->codes.n + 1),
			     .is_agent = fm_alloc(profile->images.n + 1),
			     .outside = fm_alloc(v->n_stacks * sizeof(uint32_t)) };
	for (size_t i = 0; i < profile->codes.n; i++)
		b.is_ours[i] = fm_name_is_ours(profile->codes.items[i].filename);
	for (size_t i = 0; i < profile->images.n; i++)
		b.is_agent[i] = fm_name_is_agent(profile->images.items[i].path);
	fm_children_init(&b.tree, v->n_stacks);
	for (size_t s = 1; s < v->n_stacks; s++) {
		fetch(&b, s);
		if (v->stack_flags[s] & FM_STACK_USED)
			add_stack(&b, (uint32_t)s, &profile->stacks.items[s]);
	}
	// While building, stack_node held the folded place for what comes above. A stack that
	// stayed without Python shows whole.
	for (size_t s = 1; !options->native_all && s < v->n_stacks; s++)
		if ((v->stack_flags[s] & (FM_STACK_IS_WHOLE | FM_STACK_HAS_PYTHON)) == FM_STACK_IS_WHOLE)
			v->stack_node[s] = b.whole[s];
	for (size_t s = 1; s < v->n_stacks; s++) // the same for those that end in what is ours
		if ((v->stack_flags[s] & (FM_STACK_IS_OURS | FM_STACK_IS_END)) == (FM_STACK_IS_OURS | FM_STACK_IS_END))
			v->stack_node[s] = add_ours(&b, v->stack_node[s]);
	free(b.is_ours);
	free(b.is_agent);
	free(b.whole);
	free(b.outside);
	free(b.last_place);
	order_nodes(&b);
	fm_children_deinit(&b.tree);
}

void fm_view_deinit(struct fm_view *v)
{
	fm_vec_deinit(&v->nodes);
	free(v->stack_node);
	free(v->stack_flags);
	*v = (struct fm_view){ 0 };
}

void fm_path_deinit(struct fm_path *p)
{
	fm_vec_deinit(&p->nodes);
}

uint32_t fm_path_move(struct fm_path *p, const struct fm_view *view, uint32_t node)
{
	uint32_t depth = view->nodes.items[node].depth, n_old = (uint32_t)p->nodes.n;
	fm_vec_reserve(&p->nodes, depth);
	p->nodes.n = depth;
	// Equal nodes at equal depth have equal parents: the first match from the leaf on means all
	// further out match, too.
	for (; depth > 0; depth--) {
		if (depth <= n_old && p->nodes.items[depth - 1] == node)
			break;
		p->nodes.items[depth - 1] = node;
		node = view->nodes.items[node].parent;
	}
	return depth;
}
