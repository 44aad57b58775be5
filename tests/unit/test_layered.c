// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <math.h>

#include "base/compiler.h"
#include "render/export/layered.h"

#define GAP_X 20.0
#define GAP_Y 50.0

static void add_boxes(struct fm_layered *g, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fm_vec_push(&g->boxes, (struct fm_layered_box){ .width = 60 + i % 7 * 20, .height = 40 });
}

static void add_line(struct fm_layered *g, uint32_t from, uint32_t to, double weight)
{
	fm_vec_push(&g->lines, (struct fm_layered_line){ .from = from, .to = to, .weight = weight });
}

// What has to hold of every drawing.
static void check_drawing(const struct fm_layered *g)
{
	for (size_t i = 0; i < g->boxes.n; i++) {
		const struct fm_layered_box *a = &g->boxes.items[i];
		CHECK(a->x - a->width / 2 > -0.01 && a->x + a->width / 2 + a->room_right < g->width + 0.01);
		CHECK(a->y - a->height / 2 > -0.01 && a->y + a->height / 2 < g->height + 0.01);
		for (size_t k = 0; k < i; k++) {
			const struct fm_layered_box *b = &g->boxes.items[k];
			if (fabs(a->y - b->y) >= a->height)
				continue;
			const struct fm_layered_box *left = a->x < b->x ? a : b, *right = a->x < b->x ? b : a;
			CHECK(left->x + left->width / 2 + left->room_right + GAP_X <=
			      right->x - right->width / 2 + 0.01);
		}
	}
	for (size_t i = 0; i < g->lines.n; i++) {
		const struct fm_layered_line *l = &g->lines.items[i];
		if (l->from == l->to)
			continue;
		const struct fm_layered_box *from = &g->boxes.items[l->from], *to = &g->boxes.items[l->to];
		CHECK(l->is_back ? to->layer < from->layer : from->layer < to->layer);
		CHECK_EQ(l->n, abs((int)to->layer - (int)from->layer) + 1);
		const struct fm_layered_point *first = &g->points.items[l->first], *last = first + l->n - 1;
		double side = l->is_back ? -1 : 1;
		CHECK(fabs(first->x - from->x) < 0.01 && fabs(first->y - from->y - side * from->height / 2) < 0.01);
		CHECK(fabs(last->x - to->x) < 0.01 && fabs(last->y - to->y + side * to->height / 2) < 0.01);
	}
}

TEST(callers_stand_above_what_they_call)
{
	struct fm_layered g = { 0 };
	add_boxes(&g, 5);
	add_line(&g, 0, 1, 3);
	add_line(&g, 0, 2, 2);
	add_line(&g, 1, 3, 1);
	add_line(&g, 2, 3, 1);
	add_line(&g, 0, 3, 1); // passes a layer
	add_line(&g, 3, 4, 1);
	fm_layered_place(&g, GAP_X, GAP_Y);
	check_drawing(&g);
	CHECK_EQ(g.boxes.items[3].layer, 2);
	CHECK_EQ(g.boxes.items[4].layer, 3);
	CHECK_EQ(g.lines.items[4].n, 3);
	CHECK(fabs(g.height - (4 * 40 + 3 * GAP_Y)) < 0.01);
	fm_layered_deinit(&g);
}

TEST(cycles_and_recursion_have_an_end)
{
	struct fm_layered g = { 0 };
	add_boxes(&g, 4);
	g.boxes.items[1].room_right = 50;
	add_line(&g, 0, 1, 3);
	add_line(&g, 1, 1, 2); // to itself
	add_line(&g, 1, 2, 2);
	add_line(&g, 2, 3, 1);
	add_line(&g, 3, 1, 1); // back up
	fm_layered_place(&g, GAP_X, GAP_Y);
	check_drawing(&g);
	CHECK(g.lines.items[4].is_back && !g.lines.items[0].is_back && !g.lines.items[2].is_back);
	fm_layered_deinit(&g);

	struct fm_layered ring = { 0 }; // nobody is the first
	add_boxes(&ring, 3);
	for (uint32_t i = 0; i < 3; i++)
		add_line(&ring, i, (i + 1) % 3, 1);
	fm_layered_place(&ring, GAP_X, GAP_Y);
	check_drawing(&ring);
	CHECK_EQ(ring.lines.items[0].is_back + ring.lines.items[1].is_back + ring.lines.items[2].is_back, 1);
	fm_layered_deinit(&ring);
}

// 0 calls 1 and 2, which call 3 and 4: drawn without thought, 1-4 and 2-3 would cross.
TEST(lines_are_uncrossed)
{
	struct fm_layered g = { 0 };
	add_boxes(&g, 5);
	add_line(&g, 0, 1, 1);
	add_line(&g, 0, 2, 1);
	add_line(&g, 1, 4, 1);
	add_line(&g, 2, 3, 1);
	fm_layered_place(&g, GAP_X, GAP_Y);
	check_drawing(&g);
	CHECK((g.boxes.items[1].x < g.boxes.items[2].x) == (g.boxes.items[4].x < g.boxes.items[3].x));
	fm_layered_deinit(&g);
}

TEST(parts_stand_side_by_side)
{
	struct fm_layered g = { 0 };
	add_boxes(&g, 5);
	add_line(&g, 0, 1, 1);
	add_line(&g, 2, 3, 9);
	fm_layered_place(&g, GAP_X, GAP_Y);
	check_drawing(&g);
	CHECK(g.boxes.items[2].x < g.boxes.items[0].x && g.boxes.items[0].x < g.boxes.items[4].x);
	fm_layered_deinit(&g);
}

TEST(any_graph_can_be_drawn)
{
	uint32_t random = 1;
	for (unsigned round = 0; round < 60; round++) {
		struct fm_layered g = { 0 };
		unsigned n = 1 + round;
		add_boxes(&g, n);
		for (unsigned i = 0; i < round * 2; i++) {
			random = random * 1664525 + 1013904223;
			uint32_t from = (random >> 8) % n;
			random = random * 1664525 + 1013904223;
			add_line(&g, from, (random >> 8) % n, (random >> 20) / 4096.0);
		}
		fm_layered_place(&g, GAP_X, GAP_Y);
		check_drawing(&g);
		fm_layered_deinit(&g);
	}
	struct fm_layered empty = { 0 };
	fm_layered_place(&empty, GAP_X, GAP_Y);
	CHECK_EQ((int)empty.width, 0);
	fm_layered_deinit(&empty);
}

TEST_MAIN()
