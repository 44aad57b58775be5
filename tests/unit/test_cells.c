// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "base/str.h"
#include "render/shared/nb_cells.h"

TEST(rows_are_read_in_order)
{
	struct fm_str rest = fm_str_of("1\tok\t0.500000\t0.250000\timport os\n"
				       "2\tfailed\t12.000000\t0.000000\tx = 1\ty\n"
				       "3\tok\t0.1\t0.1\t");
	struct fm_nb_cell cell;
	CHECK(fm_nb_cells_next(&rest, &cell));
	CHECK_EQ(cell.number, 1);
	CHECK(cell.wall_s == 0.5 && cell.cpu_s == 0.25);
	CHECK_STR(cell.status, "ok");
	CHECK_STR(cell.first_line, "import os");
	CHECK(fm_nb_cells_next(&rest, &cell));
	CHECK_STR(cell.status, "failed");
	CHECK_STR(cell.first_line, "x = 1\ty");
	CHECK(fm_nb_cells_next(&rest, &cell));
	CHECK_STR(cell.first_line, "");
	CHECK(!fm_nb_cells_next(&rest, &cell));
}

TEST(damaged_rows_are_passed_over)
{
	struct fm_str rest =
		fm_str_of("\n\t\t\t\t\nx\tok\t1\t1\ta\n1\tok\tnan\t1\ta\n1\tok\t1\t-1\ta\n1\tok\t1\n"
			  "99999999999999999999\tok\t1\t1\ta\n1\tok\t1\t1e400\ta\n7\tok\t1\t1\tgood\n8\tok");
	struct fm_nb_cell cell;
	CHECK(fm_nb_cells_next(&rest, &cell));
	CHECK_EQ(cell.number, 7);
	CHECK(!fm_nb_cells_next(&rest, &cell));
}

TEST_MAIN()
