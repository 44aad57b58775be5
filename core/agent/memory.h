// SPDX-License-Identifier: Apache-2.0
// The allocator hooks: what the agent's memory files say to each other.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dl_phdr_info;

// memory.c: maps the tables and installs what has to be installed. Called once for each capture,
// with the process in the table; for a late one with the GIL held.
void fm_agent_memory_start(void);
// The end of a late capture, with the GIL held: allocators and slots are the program's again.
void fm_agent_memory_stop(void);
// From where a program sets its signals up, which Python does once it has chosen its allocators:
// PYTHONMALLOC, -X dev and the like replace all of them, our hooks too. It sets them back when it
// ends, after the exit functions and before it destroys its modules.
void fm_agent_memory_check_python(void);
// True from then on.
bool fm_agent_memory_knows_python(void);
// In a forked child: its memory is its own, and begins with none.
void fm_agent_memory_fork(bool is_followed);

// memory_malloc.c: finds the functions that ours stand in front of. True when a program's malloc is
// ours.
bool fm_agent_malloc_resolve(void);
// memory_maps.c, memory_copy.c: the same for theirs.
void fm_agent_maps_resolve(void);
bool fm_agent_copy_resolve(void);

// memory_python.c: puts our hooks in front of Python's allocators, unless they are there already.
// False without Python. Called before the interpreter starts, or when it is known that no other
// thread runs.
bool fm_agent_python_hook(void);
// Takes them away, where nobody has put another allocator on top meanwhile. With the GIL held.
void fm_agent_python_unhook(void);
// Takes them away while fn runs, with the GIL held. What threads without the GIL do with
// PyMem_RawMalloc meanwhile is not seen.
void fm_agent_python_without_hooks(void (*fn)(void *arg), void *arg);

// memory_answers.c: from now on sys._debugmallocstats tells of the allocators behind ours. With the
// GIL held, once there is a sys.
void fm_agent_answer_stats(void);

// Our functions by the names that programs know them by, the last one NULL. Their addresses are had
// from here: where the agent was not preloaded, the names themselves are bound to libc's.
struct fm_agent_hook {
	const char *name;
	void *ours;
	void *theirs; // NULL: the next definition after ours
};
extern const struct fm_agent_hook fm_agent_malloc_hooks[], fm_agent_map_hooks[], fm_agent_copy_hooks[],
	fm_agent_library_hooks[], fm_agent_exec_hooks[], fm_agent_signal_hooks[], fm_agent_signal_wait_hooks[],
	fm_agent_sandbox_hooks[], fm_agent_arrow_hooks[], fm_agent_answer_hooks[];
// For their files: a function under a name that is ours alone, and its line in such a table.
#if __has_attribute(copy)
#define OURS(fn) static __typeof__(fn) fm_ours_##fn __attribute__((alias(#fn), copy(fn)))
#else
#define OURS(fn) static __typeof__(fn) fm_ours_##fn __attribute__((alias(#fn)))
#endif
#define HOOK(fn)                                \
	{                                       \
#fn, (void *)fm_ours_##fn, NULL \
	}

// memory_bind.c: points the slots of libraries that the loader bound past us at our functions, and
// back. prepare finds what ours stand in front of. Allocators and copies only while memory is
// watched; signals while we hold the tick's (late.c). True when calls of malloc come to us by it
// that did not before. unbind: all but signals; those by unbind_signals, when ours is the program's
// again.
void fm_agent_bind_prepare(void);
bool fm_agent_bind_all(void);
void fm_agent_unbind_all(void);
void fm_agent_unbind_signals(void);
// False for an image that has nothing mapped.
bool fm_agent_image_range(const struct dl_phdr_info *info, uintptr_t *ret_start, uintptr_t *ret_end);

// The next definition of a function after ours; NULL when there is none.
void *fm_agent_next_symbol(const char *name);
