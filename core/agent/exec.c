// SPDX-License-Identifier: Apache-2.0
// Programs that the target starts. Variables of the environment lead them to the capture, and they
// inherit these; but one that is given an environment of its own (env= of subprocess, os.execve),
// or whose parent has set another PYTHONPATH, would be lost. So these functions add what is missing
// to what is given. Where it was the agent that had to be added, it takes itself out again when it
// is there (start.c): the program sees what it was given. An environment that has our variables but
// not the agent was made so on purpose, and is left alone. A process that has put itself into a
// sandbox (sandbox.c) starts programs without us: its filter stands before our first call in them.
// So does one that cannot open the agent any more.
//
// They may run in the child of a fork or vfork: locks may be held there that nobody will ever give
// back, and memory may be the parent's. So nothing is written but the stack and pages of our own,
// and nothing is called that could take a lock.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/memory.h"
#include "base/compiler.h"
#include "base/system_call.h"
#include "sigsafe/base/state.h"
#include "wire/wire.h"

#define FOLDER_NAME "/_startup"
// What goes on the caller's stack, which may be the least that a thread can have: libc's own functions take as much.
// More gets pages of its own.
#define MAX_STACK_BYTES 2048u

// What a Python reads when it starts: python/fathom/_startup. The last one joins by itself, the
// others want the agent preloaded.
static const char *const leads[] = { "FATHOM_STARTUP", "FATHOM_STARTUP_TRACE", "FATHOM_STARTUP_JOIN" };
enum { LEAD_JOIN = 2, N_LEADS = FM_ARRAY_LEN(leads), N_ADDED = N_LEADS + 4 };

// Written when nothing is started, or by who holds the GIL. "" or NULL = nothing to add.
static char *lead_entries[N_LEADS];      // of our environment, kept: the program may clear it (env -i)
static char folder[FM_AGENT_PATH_BYTES]; // of start-up files, first in PYTHONPATH
static char agent[FM_AGENT_PATH_BYTES];  // last in LD_PRELOAD
static char ring[sizeof(FM_WIRE_ENV "=") + sizeof(fm_sig.ring_path)]; // an entry of the environment
// The capture is of the whole program, and every child gets the agent. A Python that traces itself
// has its Pythons join by start-up files: the agent is for those that do not read them
// (isolated.c).
static bool is_for_all;

// This process and its forks follow nothing any more; and the one child that shares a memory which
// is not its own (vfork), or does not know that it is a child.
static _Atomic bool has_left;
static _Atomic pid_t child_that_left;

typedef int (*exec_fn)(const char *, char *const[], char *const[]);
typedef int (*spawn_fn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
			char *const[], char *const[]);
typedef int (*fexec_fn)(int, char *const[], char *const[]);
static exec_fn real_exec, real_exec_by_path;
static fexec_fn real_fexec;
static spawn_fn real_spawn, real_spawnp;

// In our constructor; earlier only where another library's starts a program.
void fm_agent_exec_resolve(void)
{
	real_exec = (exec_fn)fm_agent_next_symbol("execve");
	real_exec_by_path = (exec_fn)fm_agent_next_symbol("execvpe");
	real_fexec = (fexec_fn)fm_agent_next_symbol("fexecve");
	real_spawn = (spawn_fn)fm_agent_next_symbol("posix_spawn");
	real_spawnp = (spawn_fn)fm_agent_next_symbol("posix_spawnp");
}

bool fm_agent_exec_is_followed(void)
{
	return folder[0] != 0;
}

// The entry "NAME=value"; NULL when there is none.
static char *find(char *const *env, const char *name)
{
	size_t len = strlen(name);
	for (; env && *env; env++)
		if (!strncmp(*env, name, len) && (*env)[len] == '=')
			return *env;
	return NULL;
}

static const char *value_of(const char *entry)
{
	return entry ? strchr(entry, '=') + 1 : "";
}

static void know_agent(void)
{
	Dl_info own; // by the path it was preloaded by: a program may have put another behind it
	if (dladdr((const void *)fm_agent_exec_start, &own) && own.dli_fname && own.dli_fname[0] == '/') {
		snprintf(agent, sizeof(agent), "%s", own.dli_fname);
		snprintf(ring, sizeof(ring), FM_WIRE_ENV "=%s", fm_sig.ring_path);
	}
}

// What was kept before stays where it is: somebody may be about to start a program by it.
static void keep_leads(bool is_any)
{
	for (unsigned i = 0; i < N_LEADS; i++) {
		const char *entry = is_any ? find(environ, leads[i]) : NULL;
		lead_entries[i] = entry ? strdup(entry) : NULL;
	}
}

bool fm_agent_exec_follow(const char *startup_folder)
{
	size_t len = strlen(startup_folder);
	if (len >= sizeof(folder))
		return false;
	memcpy(folder, startup_folder, len + 1);
	keep_leads(len > 0);
	if (len && fm_sig.is_late) { // the program's calls do not come here by themselves
		know_agent();
		fm_agent_bind_prepare();
		fm_agent_bind_all();
	}
	return true;
}

bool fm_agent_find_startup(char ret[static FM_AGENT_PATH_BYTES])
{
	// The folder stands first (cli/run/startup.c, _follow.py).
	bool is_led = find(environ, leads[0]) || find(environ, leads[LEAD_JOIN]);
	const char *first = value_of(is_led ? find(environ, "PYTHONPATH") : NULL);
	size_t len = strcspn(first, ":"), name_len = strlen(FOLDER_NAME);
	if (len >= FM_AGENT_PATH_BYTES || len <= name_len || memcmp(first + len - name_len, FOLDER_NAME, name_len) != 0)
		return false;
	memcpy(ret, first, len);
	ret[len] = 0;
	return true;
}

void fm_agent_exec_start(void)
{
	know_agent();
	keep_leads(true);
	is_for_all = find(environ, leads[0]) || !find(environ, leads[LEAD_JOIN]);
	if (!fm_agent_find_startup(folder))
		folder[0] = 0;
}

static bool has_part(const char *list, const char *part)
{
	size_t len = strlen(part);
	for (; list; list = strchr(list, ':') ? strchr(list, ':') + 1 : NULL)
		if (!strncmp(list, part, len) && (list[len] == ':' || !list[len]))
			return true;
	return false;
}

// A list with colons in between, without a part of it. The result may overwrite the list; returns
// its end.
static char *copy_without(char *to, const char *list, const char *part)
{
	size_t part_len = strlen(part);
	char *start = to;
	while (*list) {
		size_t len = strcspn(list, ":");
		const char *next = list + len + (list[len] == ':');
		if (len != part_len || memcmp(list, part, len) != 0) {
			if (to > start)
				*to++ = ':';
			memmove(to, list, len);
			to += len;
		}
		list = next;
	}
	*to = 0;
	return to;
}

static bool is_lead(const char *entry)
{
	if (!strncmp(entry, FM_WIRE_ENV "=", sizeof(FM_WIRE_ENV)) ||
	    !strncmp(entry, FM_WIRE_ENV_GIVEN "=", sizeof(FM_WIRE_ENV_GIVEN)))
		return true;
	for (unsigned i = 0; i < N_LEADS; i++)
		if (!strncmp(entry, leads[i], strlen(leads[i])) && entry[strlen(leads[i])] == '=')
			return true;
	return false;
}

// What leads to us in the program's own environment: libc's system() and popen() pass it on without
// asking us. No lock is taken, and the program's list of entries stays as it is.
static void leave_environ(void)
{
	for (char *const *env = environ; env && *env; env++)
		if (is_lead(*env))
			*strchr(*env, '=') = 0; // an entry without a value: no name leads here
	char *preload = find(environ, "LD_PRELOAD"), *python_path = find(environ, "PYTHONPATH");
	if (preload && agent[0])
		copy_without(strchr(preload, '=') + 1, value_of(preload), agent);
	if (python_path && folder[0])
		copy_without(strchr(python_path, '=') + 1, value_of(python_path), folder);
}

void fm_agent_exec_leave(void)
{
	if ((uint32_t)getpid() != fm_sig.pid) {
		atomic_store(&child_that_left, getpid());
		return;
	}
	if (!atomic_exchange(&has_left, true))
		leave_environ();
}

// What an environment lacks, or has too much.
struct lack {
	char *entries[N_ADDED];
	unsigned n;
	bool has_no_agent, has_no_folder;
	bool is_leaving;                   // nothing is to lead to us
	bool is_sandboxed;                 // and a filter may not list the call that maps pages
	const char *preload, *python_path; // its own, or NULL
	size_t n_given, text_bytes;
};

static bool is_isolated_python(char *const argv[])
{
	const char *name = argv && argv[0] ? strrchr(argv[0], '/') : NULL;
	name = name ? name + 1 : argv && argv[0] ? argv[0] : "";
	return !strncmp(name, "python", 6) && fm_agent_is_isolated(argv);
}

// An entry that has a part which is to go.
static const char *entry_with(char *const *env, const char *name, const char *part)
{
	const char *entry = part[0] ? find(env, name) : NULL;
	return entry && has_part(value_of(entry), part) ? entry : NULL;
}

static struct lack look_at_leaving(char *const *env)
{
	struct lack l = { .preload = entry_with(env, "LD_PRELOAD", agent),
			  .python_path = entry_with(env, "PYTHONPATH", folder) };
	l.text_bytes = (l.preload ? strlen(l.preload) + 1 : 0) + (l.python_path ? strlen(l.python_path) + 1 : 0);
	l.is_leaving = l.preload || l.python_path;
	for (; env && env[l.n_given]; l.n_given++)
		l.is_leaving |= is_lead(env[l.n_given]);
	return l;
}

// The program may have got another root (chroot, a namespace) or fewer rights: the loader would complain on its
// standard error of an agent that it cannot open. By the real user, as the kernel has it: where that is not the
// effective one the loader takes no such path, and says nothing.
static bool is_out_of_reach(void)
{
	if (!agent[0])
		return false;
	long err = fm_system_call(SYS_faccessat, AT_FDCWD, (long)agent, R_OK, 0);
	return err == -ENOENT || err == -ENOTDIR || err == -EACCES || err == -ELOOP;
}

static struct lack look_at(char *const argv[], char *const *env)
{
	struct lack l = { 0 };
	bool is_sandboxed =
		atomic_load(&has_left) || (atomic_load(&child_that_left) && atomic_load(&child_that_left) == getpid());
	if (is_sandboxed || is_out_of_reach()) {
		l = look_at_leaving(env);
		l.is_sandboxed = is_sandboxed;
		return l;
	}
	// A program may pass on what tells of the capture. If it leaves LD_PRELOAD out it means it;
	// if it has one of its own, that is beside us.
	const char *preload = find(env, "LD_PRELOAD");
	bool is_led = false, is_told = find(env, FM_WIRE_ENV);
	bool is_preloaded = is_told && (!preload || has_part(value_of(preload), agent));
	bool is_wanted = is_for_all || (folder[0] && lead_entries[LEAD_JOIN] && is_isolated_python(argv));
	if (is_wanted && ring[0] && agent[0] && !is_preloaded) {
		l.has_no_agent = is_preloaded = true;
		if (!is_told)
			l.entries[l.n++] = ring;
		l.entries[l.n++] = FM_WIRE_ENV_GIVEN "=1";
		l.preload = preload;
		l.text_bytes += sizeof("LD_PRELOAD=:") + strlen(agent) + strlen(value_of(l.preload));
	}
	for (unsigned i = 0; i < N_LEADS; i++) {
		char *ours = folder[0] ? lead_entries[i] : NULL;
		if (!ours || (i != LEAD_JOIN && !is_preloaded))
			continue;
		is_led = true;
		if (!find(env, leads[i]))
			l.entries[l.n++] = ours;
	}
	const char *python_path = find(env, "PYTHONPATH");
	if (is_led && !has_part(value_of(python_path), folder)) {
		l.has_no_folder = true;
		l.python_path = python_path;
		l.text_bytes += sizeof("PYTHONPATH=:") + strlen(folder) + strlen(value_of(python_path));
	}
	while (env && env[l.n_given])
		l.n_given++;
	return l;
}

// "NAME=first:second", or one of them if the other is empty. Returns where the next text goes.
static char *put_list(char *text, const char *name, const char *first, const char *second)
{
	text = stpcpy(stpcpy(stpcpy(text, name), "="), first);
	if (*first && *second)
		text = stpcpy(text, ":");
	return stpcpy(text, second) + 1;
}

static char *const *fill_leaving(const struct lack *l, char *const *env, char **entries, char *text)
{
	char **next = entries;
	for (; env && *env; env++) {
		if (is_lead(*env))
			continue;
		*next++ = *env;
		if (*env != l->preload && *env != l->python_path)
			continue;
		size_t name_len = (size_t)(value_of(*env) - *env);
		char *end = copy_without(text + name_len, value_of(*env), *env == l->preload ? agent : folder);
		if (end == text + name_len) {
			next--; // we were all that was in it
			continue;
		}
		memcpy(text, *env, name_len);
		next[-1] = text;
		text = end + 1;
	}
	*next = NULL;
	return entries;
}

static char *const *fill(const struct lack *l, char *const *env, char **entries, char *text)
{
	if (l->is_leaving)
		return fill_leaving(l, env, entries, text);
	char **next = entries;
	for (; env && *env; env++)
		if (*env != l->preload && *env != l->python_path)
			*next++ = *env;
	for (unsigned i = 0; i < l->n; i++)
		*next++ = l->entries[i];
	if (l->has_no_agent) {
		*next++ = text;
		text = put_list(text, "LD_PRELOAD", value_of(l->preload), agent);
	}
	if (l->has_no_folder) {
		*next++ = text;
		put_list(text, "PYTHONPATH", folder, value_of(l->python_path));
	}
	*next = NULL;
	return entries;
}

// Pages for a large environment. A child of vfork is in its parent's memory, which has them for good when the child's
// exec succeeds: they are the next one's, by a variable of the thread, which the two share. Who left them is another
// process than who finds them, or they are in use: by a call that a signal's handler has interrupted.
struct pages {
	void *start;
	size_t bytes;
	pid_t pid;
};
static __thread struct pages left_pages;

static struct pages take_pages(size_t bytes)
{
	pid_t pid = getpid();
	struct pages pages = left_pages;
	if (pages.pid != pid && pages.bytes >= bytes) {
		pages.pid = left_pages.pid = pid;
		return pages;
	}
	if (pages.pid != pid && pages.start)
		fm_system_call(SYS_munmap, (long)pages.start, (long)pages.bytes, 0, 0);
	bytes = (bytes + 4095) & ~(size_t)4095;
	long start =
		fm_system_call6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	left_pages = (unsigned long)start < -4095ul ? (struct pages){ (void *)start, bytes, pid } : (struct pages){ 0 };
	return left_pages;
}

static void give_pages(struct pages pages)
{
	if (!pages.start)
		return;
	if (left_pages.start == pages.start)
		left_pages = (struct pages){ 0 };
	fm_system_call(SYS_munmap, (long)pages.start, (long)pages.bytes, 0, 0);
}

static size_t bytes_for(const struct lack *l)
{
	return l->n || l->has_no_folder || l->is_leaving
		       ? (l->n_given + N_ADDED + 1) * sizeof(char *) + l->text_bytes + 1
		       : 0;
}

// Where the list of entries and the texts go; NULL, and there is nothing to change, or no room for it.
static char *const *fill_room(const struct lack *l, char *const *env, void *room)
{
	char **entries = room;
	return room ? fill(l, env, entries, (char *)(entries + l->n_given + N_ADDED + 1)) : env;
}

// On the caller's stack, where there is little to change; and always after a process has put itself into a sandbox,
// whose filter may not list the call that maps pages.
#define WITH_OURS(ret, pages, argv, env)                                                       \
	struct lack lack_of_env = look_at(argv, env);                                          \
	size_t room_bytes = bytes_for(&lack_of_env);                                           \
	bool is_on_stack = room_bytes <= MAX_STACK_BYTES || lack_of_env.is_sandboxed;          \
	struct pages(pages) = is_on_stack ? (struct pages){ 0 } : take_pages(room_bytes);      \
	void *room = is_on_stack && room_bytes ? __builtin_alloca(room_bytes) : (pages).start; \
	char *const *(ret) = fill_room(&lack_of_env, env, room)

static int run(exec_fn *real, const char *path, char *const argv[], char *const env[])
{
	if (!*real)
		fm_agent_exec_resolve();
	WITH_OURS(extended, pages, argv, env);
	int ret = *real ? (*real)(path, argv, extended) : (int)syscall(SYS_execve, path, argv, extended);
	give_pages(pages);
	return ret;
}

static int spawn(spawn_fn *real, pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		 const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
	if (!*real)
		fm_agent_exec_resolve();
	if (!*real)
		return ENOSYS;
	WITH_OURS(extended, pages, argv, env);
	int err = (*real)(pid, path, actions, attributes, argv, extended);
	give_pages(pages);
	return err;
}

FM_EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	return run(&real_exec, path, argv, env);
}

FM_EXPORT int execv(const char *path, char *const argv[])
{
	return run(&real_exec, path, argv, environ);
}

FM_EXPORT int execvp(const char *file, char *const argv[])
{
	return run(&real_exec_by_path, file, argv, environ);
}

FM_EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
	return run(&real_exec_by_path, file, argv, env);
}

FM_EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
	if (!real_fexec)
		fm_agent_exec_resolve();
	if (!real_fexec) {
		errno = ENOSYS;
		return -1;
	}
	WITH_OURS(extended, pages, argv, env);
	int ret = real_fexec(fd, argv, extended);
	give_pages(pages);
	return ret;
}

// The arguments up to the NULL that ends them, on the caller's stack. The list stands behind that
// NULL afterwards.
static size_t count(const char *first, va_list list)
{
	size_t n = 0;
	for (const char *arg = first; arg; arg = va_arg(list, const char *))
		n++;
	return n;
}

#define WITH_ARGUMENTS(argv, first, list)                                                                   \
	va_list counted;                                                                                    \
	va_start(list, first);                                                                              \
	va_copy(counted, list);                                                                             \
	size_t n_arguments = count(first, counted);                                                         \
	va_end(counted);                                                                                    \
	char **argv = __builtin_alloca((n_arguments + 1) * sizeof(char *));                                 \
	argv[0] = (char *)(first);                                                                          \
	for (size_t i_argument = 1; i_argument <= n_arguments; i_argument++) /* with the NULL at its end */ \
	argv[i_argument] = va_arg(list, char *)

FM_EXPORT int execl(const char *path, const char *first, ...)
{
	va_list list;
	WITH_ARGUMENTS(argv, first, list);
	va_end(list);
	return run(&real_exec, path, argv, environ);
}

FM_EXPORT int execlp(const char *file, const char *first, ...)
{
	va_list list;
	WITH_ARGUMENTS(argv, first, list);
	va_end(list);
	return run(&real_exec_by_path, file, argv, environ);
}

FM_EXPORT int execle(const char *path, const char *first, ...)
{
	va_list list;
	WITH_ARGUMENTS(argv, first, list);
	char *const *env = va_arg(list, char *const *);
	va_end(list);
	return run(&real_exec, path, argv, env);
}

FM_EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
			  const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
			  char *const env[restrict])
{
	return spawn(&real_spawn, pid, path, actions, attributes, argv, env);
}

FM_EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file, const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
			   char *const env[restrict])
{
	return spawn(&real_spawnp, pid, file, actions, attributes, argv, env);
}

OURS(execve);
OURS(execv);
OURS(execvp);
OURS(execvpe);
OURS(execl);
OURS(execlp);
OURS(execle);
OURS(fexecve);
OURS(posix_spawn);
OURS(posix_spawnp);
const struct fm_agent_hook fm_agent_exec_hooks[] = {
	HOOK(execve), HOOK(execv),   HOOK(execvp),      HOOK(execvpe),      HOOK(execl),    HOOK(execlp),
	HOOK(execle), HOOK(fexecve), HOOK(posix_spawn), HOOK(posix_spawnp), { NULL, NULL },
};
