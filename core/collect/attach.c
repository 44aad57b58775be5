// The recorder knows processes by the shared memory in which their agents write. Here nobody writes: the process's entry is filled in by
// the collector itself, and everything else (threads, waiting, run-time code, its end) goes its usual way.
#include "collect/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "collect/descriptors.h"
#include "collect/meta.h"
#include "collect/process_memory.h"
#include "collect/punctual.h"
#include "collect/recorder.h"
#include "collect/remote.h"
#include "collect/waiting.h"
#include "format/writer.h"

#define FLUSH_NS 100000000u
#define MAX_COMMAND_BYTES 65536u

static volatile sig_atomic_t is_asked_to_stop;

static void on_signal(int sig)
{
	(void)sig;
	is_asked_to_stop = 1;
}

struct attach {
	const struct fm_attach_options *options;
	struct fm_shared shared;
	struct fm_writer *writer;
	struct fm_recorder *recorder;
	uint64_t start_ns;
};

static enum fm_err check_permission(uint32_t pid, struct fm_diag *diag)
{
	char path[64], text[8];
	snprintf(path, sizeof(path), "/proc/%u/task/%u/syscall", pid, pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "there is no process %u", pid);
	if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
		return fm_diag_set(diag, FM_E_REFUSED,
				   "may not look into process %u: %s; run as its user with "
				   "kernel.yama.ptrace_scope=0, or as root",
				   pid, strerror(errno));
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fm_process_is_over(pidfd, pid))
		return fm_diag_set(diag, FM_E_NOT_FOUND, "process %u has ended, and its parent has not asked how yet",
				   pid);
	return FM_OK;
}

static size_t read_proc(uint32_t pid, const char *name, char *to, size_t cap)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	for (ssize_t n; fd >= 0 && len < cap && (n = read(fd, to + len, cap - len)) > 0;)
		len += (size_t)n;
	return len;
}

// What an agent would have told of itself: who it is, by a record in the ring of its first thread.
static void tell_exec_name(struct attach *a)
{
	static char command[MAX_COMMAND_BYTES];
	char path[64], exe[4096];
	snprintf(path, sizeof(path), "/proc/%u/exe", a->options->pid);
	ssize_t exe_len = readlink(path, exe, sizeof(exe));
	exe_len = exe_len < 0 ? 0 : exe_len;
	size_t command_len = read_proc(a->options->pid, "cmdline", command, sizeof(command));
	struct fm_wire_exec_name *rec = (void *)fm_shared_ring(&a->shared, 0);
	rec->exe_len = (uint32_t)exe_len;
	rec->command_len = (uint32_t)command_len;
	memcpy(rec->bytes, exe, (size_t)exe_len);
	memcpy(rec->bytes + exe_len, command, command_len);
	rec->rec.type = FM_WIRE_EXEC_NAME;
	rec->rec.size = (uint32_t)((sizeof(*rec) + (size_t)exe_len + command_len + 7) & ~(size_t)7);
	struct fm_wire_slot *slot = fm_shared_slot(&a->shared, 0);
	slot->start_ns = a->start_ns;
	atomic_store(&slot->head, rec->rec.size);
	struct fm_wire_owner *owner = &a->shared.owners[0];
	owner->pid = owner->tid = a->options->pid;
	atomic_store(&owner->state, FM_WIRE_LIVE);
}

static uint32_t parent_of(uint32_t pid)
{
	char text[1024];
	size_t n = read_proc(pid, "stat", text, sizeof(text) - 1);
	unsigned parent = 0;
	text[n] = 0;
	const char *after_name = strrchr(text, ')');
	return after_name && sscanf(after_name + 1, " %*c %u", &parent) == 1 ? parent : 0;
}

static void enter_process(struct attach *a)
{
	struct fm_wire_process *entry = &a->shared.processes[0];
	struct fm_remote_files *files = fm_remote_files_create();
	struct fm_remote *remote = fm_remote_create(a->options->pid, files, NULL, 0);
	uint64_t pc;
	uint32_t hexversion;
	entry->pid = a->options->pid;
	entry->parent_pid = parent_of(a->options->pid);
	entry->engine = FM_ENGINE_TICKER;
	entry->start_ns = a->start_ns;
	if (fm_remote_find_python(remote, &pc, &hexversion)) {
		atomic_store(&entry->python_pc, pc);
		atomic_store(&entry->python_version, hexversion);
		atomic_store(&entry->is_free_threaded, fm_remote_is_free_threaded(remote));
		atomic_store(&entry->python, FM_WIRE_PYTHON_KNOWN);
	}
	fm_remote_destroy(remote);
	fm_remote_files_destroy(files);
	tell_exec_name(a);
	atomic_store(&entry->state, FM_WIRE_LIVE);
}

static void write_opening(struct attach *a)
{
	char text[MAX_COMMAND_BYTES];
	size_t n = read_proc(a->options->pid, "cmdline", text, sizeof(text));
	while (n && text[n - 1] == 0)
		n--;
	fm_writer_meta(a->writer, "command", (struct fm_str){ text, (uint32_t)n });
	fm_meta_origin(a->writer);
	fm_writer_meta(a->writer, "mode", FM_STR_LIT("attached"));
	fm_writer_meta(a->writer, "engine", FM_STR_LIT("attach"));
	fm_meta_uint(a->writer, "rate_hz", a->options->rate_hz);
	fm_writer_coverage(a->writer, FM_STR_LIT("the program before and after, and its child processes"),
			   FM_STR_LIT("Fathom was attached to this one process while it ran"));
	if (!a->options->may_stop)
		fm_writer_coverage(a->writer, FM_STR_LIT("threads that run"),
				   FM_STR_LIT("--nonblocking: only threads that wait can be read without a stop"));
}

static enum fm_err begin(struct attach *a, const struct fm_waiting_options *looks, struct fm_diag *diag)
{
	enum fm_err err = check_permission(a->options->pid, diag);
	if (err)
		return err;
	if ((err = fm_shared_init(&a->shared, diag)) ||
	    (err = fm_writer_open(a->options->output_path, &a->writer, diag)))
		return err;
	fm_writer_redact(a->writer, a->options->redact);
	a->shared.header->rate_hz = a->options->rate_hz;
	a->shared.header->flags = a->options->native ? 0 : FM_WIRE_NO_NATIVE;
	a->start_ns = fm_now_ns();
	write_opening(a);
	if (a->options->on_open) {
		fm_writer_flush(a->writer);
		a->options->on_open(a->options->output_path, a->options->on_open_arg);
	}
	a->recorder = fm_recorder_create(&a->shared, a->writer, &(struct fm_trace_limits){ 0 });
	fm_waiting_set(fm_recorder_waiting(a->recorder), looks);
	enter_process(a);
	fm_ask_for_punctuality(0);
	fm_descriptors_raise();
	return FM_OK;
}

static enum fm_err end(struct attach *a, enum fm_err err, struct fm_diag *diag)
{
	if (a->recorder && !err) {
		struct fm_recorder_totals totals;
		fm_recorder_finish(a->recorder, &totals);
		fm_meta_uint(a->writer, "wall_ns", fm_now_ns() - a->start_ns);
		fm_meta_uint(a->writer, "overhead_ns", totals.held_ns);
		fm_meta_uint(a->writer, "collector_cpu_ns", fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
		fm_meta_uint(a->writer, "waiting_cpu_ns", totals.waiting_cpu_ns);
		fm_meta_uint(a->writer, "waiting_gap_ns", totals.waiting_gap_ns);
		fm_writer_flush(a->writer);
		if (a->options->at_end)
			a->options->at_end(a->writer, a->options->at_end_arg);
	}
	if (a->writer) {
		char path[4096];
		if (!err && fm_writer_has_moved(a->writer, path, sizeof(path)))
			fm_say("%s was renamed while it was written; the profile is whole, as %s",
			       a->options->output_path, path);
		enum fm_err close_err = fm_writer_close(a->writer, err ? NULL : diag);
		err = err ? err : close_err;
	}
	if (a->recorder)
		fm_recorder_destroy(a->recorder);
	fm_shared_deinit(&a->shared);
	return err;
}

enum fm_err fm_attach_run(const struct fm_attach_options *options, struct fm_diag *diag)
{
	struct attach a = { .options = options, .shared = { .published_fd = -1, .fd = -1 } };
	struct fm_waiting_options looks = { .samples_running = options->may_stop, .cpu_percent = options->cpu_percent };
	enum fm_err err = begin(&a, &looks, diag);
	if (err)
		return end(&a, err, diag);
	struct sigaction act = { .sa_handler = on_signal };
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	uint64_t period_ns = 1000000000u / FM_MAX(options->rate_hz, 1u), random = a.start_ns | 1;
	uint64_t next_ns = a.start_ns, flush_ns = a.start_ns + FLUSH_NS, end_ns = UINT64_MAX;
	if (options->duration_s > 0)
		end_ns = a.start_ns + (uint64_t)(options->duration_s * 1e9);
	while (!is_asked_to_stop && fm_now_ns() < end_ns) {
		// Uniform in half a period to one and a half: no beat of the program can stay in step with that.
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		next_ns = FM_MAX(next_ns + period_ns / 2 + random % (period_ns + 1), fm_now_ns());
		fm_sleep_until_ns(next_ns);
		fm_recorder_drain(a.recorder);
		if (fm_now_ns() >= flush_ns) {
			flush_ns = fm_now_ns() + FLUSH_NS;
			if (fm_writer_flush(a.writer))
				break; // looking on would be for nothing
		}
		if (!fm_recorder_n_alive(a.recorder))
			break;
	}
	return end(&a, FM_OK, diag);
}

enum fm_err fm_attach_once(const struct fm_attach_options *options, struct fm_diag *diag)
{
	struct attach a = { .options = options, .shared = { .published_fd = -1, .fd = -1 } };
	struct fm_waiting_options looks = { .samples_running = options->may_stop,
					    .tells_all = true,
					    .cpu_percent = 100 };
	enum fm_err err = begin(&a, &looks, diag);
	if (!err)
		fm_recorder_drain(a.recorder);
	return end(&a, err, diag);
}
