// The allocator hooks: what the agent's memory files say to each other.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// memory.c: maps the tables and installs what has to be installed. Called once, with the process in the table.
void fm_agent_memory_start(void);
// From where a program sets its signals up, which Python does once it has chosen its allocators: PYTHONMALLOC, -X dev and the
// like replace all of them, our hooks too.
void fm_agent_memory_check_python(void);
// In a forked child: its memory is its own, and begins with none.
void fm_agent_memory_fork(bool is_followed);

// memory_malloc.c: finds the functions that ours stand in front of. True when a program's malloc is ours.
bool fm_agent_malloc_resolve(void);
// memory_maps.c, memory_copy.c: the same for theirs.
void fm_agent_maps_resolve(void);
bool fm_agent_copy_resolve(void);

// memory_python.c: puts our hooks in front of Python's allocators, unless they are there already. False without Python. Called
// before the interpreter starts, or when it is known that no other thread runs.
bool fm_agent_python_hook(void);

// The next definition of a function after ours; NULL when there is none.
void *fm_agent_next_symbol(const char *name);
