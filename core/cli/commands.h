// The commands, one file each: cmd_<name>.c. Listed in the table of main.c.
#pragma once

#include "cli/cli.h"

int fm_cmd_record(int argc, char **argv);
