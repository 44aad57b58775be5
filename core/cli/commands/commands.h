// SPDX-License-Identifier: Apache-2.0
// The commands of the table in main.c, one file each.
#pragma once

int fm_cmd_check(int argc, char **argv);
int fm_cmd_diff(int argc, char **argv);
int fm_cmd_collect_for(int argc, char **argv);
int fm_cmd_doctor(int argc, char **argv);
int fm_cmd_dump(int argc, char **argv);
int fm_cmd_export(int argc, char **argv);
int fm_cmd_live(int argc, char **argv);
int fm_cmd_top(int argc, char **argv);
int fm_cmd_record(int argc, char **argv);
int fm_cmd_report(int argc, char **argv);
int fm_cmd_run(int argc, char **argv);
int fm_cmd_serve_live(int argc, char **argv);
int fm_cmd_view(int argc, char **argv);
