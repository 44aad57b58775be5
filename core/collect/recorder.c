// Definitions (code objects, images) and samples travel through different threads' rings, so the order between rings matters:
// an agent publishes a definition before any sample that uses it. Reading therefore goes in three steps: note how far each
// ring is; read the definitions of every ring as far as it is by then; read the samples up to the notes. A sample within the
// notes finds its definitions read.
#include "collect/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "collect/jit.h"
#include "collect/rows.h"
#include "collect/take_trace.h"

// Larger source files are left out of the profile; the report then reads them from disk.
#define MAX_SOURCE_BYTES (1 << 20)
// A thread's end is noticed this often.
#define LIVENESS_NS 50000000u

struct image_range {
	uint64_t start, end, bias;
	uint64_t from_ns; // seen then; until a later one takes some of its addresses
	uint32_t image_id;
};

// What the collector knows of one process image. exec and fork make new ones.
struct recorded_process {
	bool is_used;
	uint32_t pid, process_id;
	int pidfd;
	struct fm_process_info info;
	struct fm_buf exe, command;
	char version[24];
	bool is_named;
	FM_VEC(uint32_t) code_ids;         // wire id -> writer id + 1
	FM_VEC(struct image_range) images; // in the order they came, also those that were unloaded since
	FM_VEC(uint64_t) replaced_ns;      // when an image came to addresses that another one had
	struct fm_map frames;              // pc -> writer frame id, for samples within:
	uint64_t frames_from_ns, frames_until_ns;
	uint32_t frames_epoch; // grows when addresses come to mean something else
	struct fm_jit *jit;
};

struct recorded_slot {
	bool is_used;
	uint32_t process_idx, tid, thread_id;
	uint64_t definitions_read; // ring position
	uint64_t noted_head;
	char name[32];
	uint32_t epoch;          // of the process's frames, when the stacks below were made
	FM_VEC(uint32_t) stacks; // stack id by depth of the last sample, outermost first
	FM_VEC(uint64_t) wire;   // the same stack as the ring had it; RAW_IS_EXACT marks an interrupted pc
};

// Bit 63 of a wire frame is free: kinds are few.
#define RAW_IS_EXACT (1ull << 63)

struct exit_status {
	uint32_t pid;
	int code, signal;
};

struct fm_recorder {
	struct fm_shared *shared;
	struct fm_writer *writer;
	struct fm_rows *rows;
	struct fm_take_trace *trace;
	struct recorded_process processes[FM_WIRE_N_PROCESSES];
	struct recorded_slot slots[FM_WIRE_N_SLOTS];
	struct fm_intern sources; // file names whose text was looked for
	uint64_t liveness_ns;
	struct fm_recorder_totals totals;
	FM_VEC(struct exit_status) exits;
};

struct fm_recorder *fm_recorder_create(struct fm_shared *shared, struct fm_writer *writer,
				       const struct fm_trace_limits *limits)
{
	struct fm_recorder *r = fm_alloc(sizeof(*r));
	r->shared = shared;
	r->writer = writer;
	r->rows = fm_rows_create(shared);
	r->trace = fm_take_trace_create(shared, writer, limits);
	return r;
}

static void process_deinit(struct recorded_process *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	fm_buf_deinit(&p->exe);
	fm_buf_deinit(&p->command);
	fm_vec_deinit(&p->code_ids);
	fm_vec_deinit(&p->images);
	fm_vec_deinit(&p->replaced_ns);
	fm_map_deinit(&p->frames);
	fm_jit_end(p->jit);
	*p = (struct recorded_process){ .pidfd = -1 };
}

void fm_recorder_destroy(struct fm_recorder *r)
{
	for (size_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (r->processes[i].is_used)
			process_deinit(&r->processes[i]);
	for (size_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		fm_vec_deinit(&r->slots[i].stacks);
		fm_vec_deinit(&r->slots[i].wire);
	}
	fm_intern_deinit(&r->sources);
	fm_vec_deinit(&r->exits);
	fm_rows_destroy(r->rows);
	fm_take_trace_destroy(r->trace);
	free(r);
}

// ---- processes ----

static void describe_process(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_process *entry)
{
	uint32_t version = atomic_load(&entry->python_version);
	p->version[0] = 0;
	if (atomic_load(&entry->python) != FM_WIRE_PYTHON_NONE) {
		if (version & 0xffff)
			snprintf(p->version, sizeof(p->version), "%u.%u.%u", version >> 24, version >> 16 & 0xff,
				 version >> 8 & 0xff);
		else
			snprintf(p->version, sizeof(p->version), "%u.%u", version >> 24, version >> 16 & 0xff);
	}
	p->info = (struct fm_process_info){
		.pid = entry->pid,
		.parent_pid = entry->parent_pid,
		.start_ns = entry->start_ns,
		.exe = { p->exe.data ? (const char *)p->exe.data : "", (uint32_t)p->exe.len },
		.command = { p->command.data ? (const char *)p->command.data : "", (uint32_t)p->command.len },
		.python_version = fm_str_of(p->version),
		.engine = fm_str_of(entry->engine == FM_ENGINE_PERF ? "perf" : "ticker"),
	};
}

static struct recorded_process *open_process(struct fm_recorder *r, uint32_t idx)
{
	struct recorded_process *p = &r->processes[idx];
	const struct fm_wire_process *entry = &r->shared->processes[idx];
	if (p->is_used)
		return p;
	*p = (struct recorded_process){ .is_used = true, .pid = entry->pid };
	p->pidfd = (int)syscall(SYS_pidfd_open, entry->pid, 0);
	describe_process(r, p, entry);
	p->process_id = fm_writer_process(r->writer, &p->info);
	p->jit = fm_jit_create(p->pid, entry->parent_pid, idx, p->process_id, r->shared, r->rows, r->writer);
	r->totals.n_processes++;
	return p;
}

static void update_process(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_process *entry)
{
	char before[sizeof(p->version)];
	memcpy(before, p->version, sizeof(before));
	describe_process(r, p, entry);
	if (!p->is_named && !strcmp(before, p->version))
		return;
	p->is_named = false;
	fm_writer_process_update(r->writer, p->process_id, &p->info);
}

// How a process ended, as far as anybody outside its parent can tell: the last field of a zombie's stat.
static void read_zombie_exit(uint32_t pid, int *ret_code, int *ret_signal)
{
	char path[32], text[1024];
	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	const char *state = strrchr(text, ')');
	const char *last = strrchr(text, ' ');
	if (!state || state[1] != ' ' || state[2] != 'Z' || !last)
		return;
	int status = atoi(last + 1);
	*ret_signal = status & 0x7f;
	*ret_code = *ret_signal ? -1 : status >> 8;
}

static void end_process(struct fm_recorder *r, uint32_t idx)
{
	struct recorded_process *p = &r->processes[idx];
	struct fm_wire_process *entry = &r->shared->processes[idx];
	int code = -1, signal = 0;
	bool is_known = false;
	for (size_t i = 0; i < r->exits.n; i++)
		if (r->exits.items[i].pid == p->pid) {
			code = r->exits.items[i].code;
			signal = r->exits.items[i].signal;
			is_known = true;
		}
	if (!is_known)
		read_zombie_exit(p->pid, &code, &signal);
	update_process(r, p, entry);
	if (atomic_load(&entry->python) == FM_WIRE_PYTHON_UNKNOWN) {
		char what[96];
		snprintf(what, sizeof(what), "Python frames of process %u", p->pid);
		char why[128];
		snprintf(why, sizeof(why), "Python %s is not known to this Fathom; native frames only", p->version);
		fm_writer_coverage(r->writer, fm_str_of(what), fm_str_of(why));
		r->totals.n_unknown_python++;
	}
	fm_writer_process_end(r->writer, p->process_id, fm_now_ns(), code, signal);
	process_deinit(p);
	fm_rows_forget_process(r->rows, idx);
	fm_take_trace_end_process(r->trace, idx);
	entry->pid = 0;
	atomic_store_explicit(&entry->state, FM_WIRE_FREE, memory_order_release);
}

void fm_recorder_set_exit(struct fm_recorder *r, uint32_t pid, int exit_code, int exit_signal)
{
	fm_vec_push(&r->exits, (struct exit_status){ pid, exit_code, exit_signal });
}

static void forget_frames(struct recorded_process *p)
{
	fm_map_deinit(&p->frames);
	p->frames_epoch++;
}

// ---- definitions ----

static void keep_source(struct fm_recorder *r, const struct recorded_process *p, struct fm_str filename)
{
	bool is_new;
	fm_intern_id(&r->sources, filename, &is_new);
	if (!is_new || filename.len == 0 || filename.p[0] == '<' || filename.len > 4000)
		return;
	char path[4096];
	if (filename.p[0] == '/')
		snprintf(path, sizeof(path), "%.*s", (int)filename.len, filename.p);
	else
		snprintf(path, sizeof(path), "/proc/%u/cwd/%.*s", p->pid, (int)filename.len, filename.p);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_SOURCE_BYTES)
		return;
	_cleanup_free_ char *text = fm_alloc((size_t)st.st_size + 1);
	ssize_t n = pread(fd, text, (size_t)st.st_size, 0);
	if (n > 0)
		fm_writer_source(r->writer, filename, (struct fm_str){ text, (uint32_t)n });
}

static void take_code(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_code *rec)
{
	uint64_t total = (uint64_t)rec->name_len + rec->qualname_len + rec->filename_len + rec->line_table_len;
	if (rec->rec.size < sizeof(*rec) || total > rec->rec.size - sizeof(*rec) || rec->id >= FM_WIRE_NO_CODE) {
		r->totals.n_bad_records++;
		return;
	}
	const char *at = (const char *)rec->bytes;
	struct fm_code_info code = { .first_line = rec->first_line, .line_table_kind = rec->line_table_kind };
	code.name = (struct fm_str){ at, rec->name_len };
	code.qualname = (struct fm_str){ at + rec->name_len, rec->qualname_len };
	code.filename = (struct fm_str){ at + rec->name_len + rec->qualname_len, rec->filename_len };
	code.line_table = (struct fm_str){ code.filename.p + rec->filename_len, rec->line_table_len };
	if (code.qualname.len == 0)
		code.qualname = code.name; // up to 3.10 the interpreter has no better one
	fm_vec_grow_to(&p->code_ids, (size_t)rec->id + 1);
	p->code_ids.items[rec->id] = fm_writer_code(r->writer, &code) + 1;
	keep_source(r, p, code.filename);
}

static void take_image(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_image *rec)
{
	if (rec->rec.size < sizeof(*rec) ||
	    (uint64_t)rec->path_len + rec->build_id_len > rec->rec.size - sizeof(*rec)) {
		r->totals.n_bad_records++;
		return;
	}
	struct fm_str path = { (const char *)rec->bytes, rec->path_len };
	struct fm_str build_id = { (const char *)rec->bytes + rec->path_len, rec->build_id_len };
	if (rec->flags & FM_IMAGE_IS_VDSO)
		path = FM_STR_LIT("[vdso]");
	uint32_t id = fm_writer_image(r->writer, path, build_id, rec->flags);
	bool is_replacing = false;
	for (size_t i = p->images.n; i-- > 0 && !is_replacing;) {
		const struct image_range *have = &p->images.items[i];
		if (have->start >= rec->end || rec->start >= have->end)
			continue;
		if (have->start == rec->start && have->end == rec->end && have->image_id == id)
			return; // told by two threads at once, or again after a dlclose
		is_replacing = true;
	}
	if (is_replacing)
		fm_vec_push(&p->replaced_ns, rec->time_ns);
	fm_vec_push(&p->images, (struct image_range){ rec->start, rec->end, rec->bias, rec->time_ns, id });
	forget_frames(p);
	p->frames_from_ns = p->frames_until_ns = 0;
	fm_writer_mapping(r->writer, p->process_id, id, rec->start, rec->end, rec->bias);
	if (!(rec->flags & FM_IMAGE_IS_VDSO))
		fm_rows_publish(r->rows, (uint32_t)(p - r->processes), rec, path);
}

static void take_exec_name(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_exec_name *rec)
{
	if (rec->rec.size < sizeof(*rec) || (uint64_t)rec->exe_len + rec->command_len > rec->rec.size - sizeof(*rec)) {
		r->totals.n_bad_records++;
		return;
	}
	p->exe.len = p->command.len = 0;
	uint32_t command_len = rec->command_len;
	while (command_len && rec->bytes[rec->exe_len + command_len - 1] == 0)
		command_len--;
	fm_buf_bytes(&p->exe, rec->bytes, rec->exe_len);
	fm_buf_bytes(&p->command, rec->bytes + rec->exe_len, command_len);
	p->is_named = true;
	(void)r;
}

// ---- samples ----

// Makes p->frames good for samples of this time: libraries may come and go at one address while rings wait to be read.
static void select_frames(struct recorded_process *p, uint64_t time_ns)
{
	if (FM_LIKELY(p->replaced_ns.n == 0) || (time_ns >= p->frames_from_ns && time_ns < p->frames_until_ns))
		return;
	p->frames_from_ns = 0;
	p->frames_until_ns = UINT64_MAX;
	for (size_t i = 0; i < p->replaced_ns.n; i++) {
		uint64_t at = p->replaced_ns.items[i];
		if (at <= time_ns)
			p->frames_from_ns = FM_MAX(p->frames_from_ns, at);
		else
			p->frames_until_ns = FM_MIN(p->frames_until_ns, at);
	}
	forget_frames(p);
}

static uint32_t native_frame(struct fm_recorder *r, struct recorded_process *p, uint64_t lookup_pc, uint64_t time_ns)
{
	uint64_t *known = fm_map_find(&p->frames, lookup_pc);
	if (known)
		return (uint32_t)*known;
	const struct image_range *image = NULL;
	for (size_t i = p->images.n; i-- > 0;) {
		const struct image_range *range = &p->images.items[i];
		if (lookup_pc < range->start || lookup_pc >= range->end)
			continue;
		image = range; // the first one there ever was, unless:
		if (range->from_ns <= time_ns)
			break;
	}
	uint32_t image_id = image ? image->image_id : fm_jit_image(p->jit, lookup_pc);
	uint32_t id =
		fm_writer_frame(r->writer, FM_FRAME_NATIVE, image_id, image ? lookup_pc - image->bias : lookup_pc);
	if (image_id != FM_NO_ID) // else its memory may be too new to be known
		*fm_map_at(&p->frames, lookup_pc, NULL) = id;
	return id;
}

static uint32_t resolve_frame(struct fm_recorder *r, struct recorded_process *p, uint64_t frame, bool is_exact,
			      uint64_t time_ns)
{
	uint64_t kind = frame >> FM_WIRE_FRAME_SHIFT;
	if (kind == FM_WIRE_FRAME_NATIVE)
		return native_frame(r, p, frame - (is_exact ? 0 : 1), time_ns);
	if (kind == FM_WIRE_FRAME_PYTHON) {
		uint32_t code = frame >> 32 & ((1u << FM_WIRE_CODE_BITS) - 1);
		uint32_t id = code < p->code_ids.n ? p->code_ids.items[code] : 0;
		return fm_writer_frame(r->writer, FM_FRAME_PYTHON, id ? id - 1 : FM_NO_ID, (uint32_t)frame);
	}
	if (kind == FM_WIRE_FRAME_SYSCALL) {
		uint32_t kernel = fm_writer_image(r->writer, FM_STR_LIT("[kernel]"), (struct fm_str){ "", 0 },
						  FM_IMAGE_IS_KERNEL);
		return fm_writer_frame(r->writer, FM_FRAME_NATIVE, kernel, frame & (FM_WIRE_N_SYSCALLS - 1));
	}
	return fm_writer_frame(r->writer, FM_FRAME_ERROR, 0, frame & 0xffff);
}

static void take_sample(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			const struct fm_wire_sample *rec)
{
	uint64_t n_new = (uint64_t)rec->n_frames - rec->n_shared;
	if (rec->rec.size < sizeof(*rec) || rec->n_shared > rec->n_frames || rec->n_shared > s->wire.n ||
	    n_new * 8 > rec->rec.size - sizeof(*rec)) {
		r->totals.n_bad_records++;
		return;
	}
	select_frames(p, rec->time_ns);
	s->wire.n = rec->n_shared;
	for (uint64_t i = n_new; i-- > 0;) // outermost first
		fm_vec_push(&s->wire, rec->frames[i] | (i == rec->leaf_idx || i == rec->exact_idx ? RAW_IS_EXACT : 0));
	// What is shared with the last sample has its stacks already, unless its addresses have changed their meaning since.
	s->stacks.n = s->epoch == p->frames_epoch ? rec->n_shared : 0;
	s->epoch = p->frames_epoch;
	uint32_t stack = s->stacks.n ? s->stacks.items[s->stacks.n - 1] : FM_ROOT_STACK;
	while (s->stacks.n < s->wire.n) {
		uint64_t wire = s->wire.items[s->stacks.n];
		uint32_t frame = resolve_frame(r, p, wire & ~RAW_IS_EXACT, (wire & RAW_IS_EXACT) != 0, rec->time_ns);
		stack = fm_writer_stack(r->writer, stack, frame);
		fm_vec_push(&s->stacks, stack);
	}
	struct fm_sample sample = {
		.thread_id = s->thread_id,
		.stack_id = stack,
		.time_ns = rec->time_ns,
		.weight_ns = rec->weight_ns,
		.cpu = rec->cpu,
		.class = rec->class,
	};
	fm_writer_sample(r->writer, &sample);
	r->totals.n_samples++;
}

// ---- rings ----

typedef void (*take_fn)(struct fm_recorder *, struct recorded_process *, struct recorded_slot *,
			const struct fm_wire_record *);

static void take_definition(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			    const struct fm_wire_record *rec)
{
	if (rec->type == FM_WIRE_CODE)
		take_code(r, p, (const void *)rec);
	else if (rec->type == FM_WIRE_IMAGE)
		take_image(r, p, (const void *)rec);
	else if (rec->type == FM_WIRE_EXEC_NAME)
		take_exec_name(r, p, (const void *)rec);
	else if (rec->type == FM_WIRE_TRACE_NAME && !fm_take_trace_name(r->trace, s->process_idx, rec))
		r->totals.n_bad_records++;
}

static void take_event(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
		       const struct fm_wire_record *rec)
{
	if (rec->type == FM_WIRE_SAMPLE)
		take_sample(r, p, s, (const void *)rec);
}

// Walks the records in [from, to). The memory is the target's to damage: a size that cannot be ends the walk at to.
static void walk_ring(struct fm_recorder *r, uint32_t idx, uint64_t from, uint64_t to, take_fn take)
{
	struct recorded_slot *s = &r->slots[idx];
	struct recorded_process *p = &r->processes[s->process_idx];
	const uint8_t *ring = fm_shared_ring(r->shared, idx);
	if (to - from > FM_WIRE_RING_BYTES)
		return;
	while (from < to) {
		const struct fm_wire_record *rec = (const void *)(ring + from % FM_WIRE_RING_BYTES);
		uint32_t size = rec->size;
		if (size < sizeof(*rec) || size % 8 || size > to - from ||
		    from % FM_WIRE_RING_BYTES + size > FM_WIRE_RING_BYTES) {
			r->totals.n_bad_records++;
			return;
		}
		take(r, p, s, rec);
		from += size;
	}
}

static void open_slot(struct fm_recorder *r, uint32_t idx)
{
	const struct fm_wire_owner *owner = &r->shared->owners[idx];
	struct recorded_slot *s = &r->slots[idx];
	struct recorded_process *p = open_process(r, owner->process_idx);
	s->is_used = true;
	s->process_idx = owner->process_idx;
	s->tid = owner->tid;
	s->definitions_read = 0;
	s->name[0] = 0;
	s->stacks.n = s->wire.n = 0;
	s->thread_id = fm_writer_thread(r->writer, p->process_id, owner->tid, fm_shared_slot(r->shared, idx)->start_ns);
}

// Threads rename themselves when it suits them; what they are called now is written when it is news.
static void name_thread(struct fm_recorder *r, struct recorded_slot *s)
{
	char path[64], name[sizeof(s->name)] = "";
	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", r->processes[s->process_idx].pid, s->tid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, name, sizeof(name) - 1) : 0;
	while (n > 0 && name[n - 1] == '\n')
		n--;
	name[n > 0 ? n : 0] = 0;
	if (n <= 0 || !strcmp(name, s->name))
		return;
	memcpy(s->name, name, sizeof(name));
	fm_writer_thread_name(r->writer, s->thread_id, fm_str_of(name));
}

static void close_slot(struct fm_recorder *r, uint32_t idx)
{
	struct recorded_slot *s = &r->slots[idx];
	struct fm_wire_slot *slot = fm_shared_slot(r->shared, idx);
	uint64_t n_dropped = atomic_load(&slot->n_dropped);
	r->totals.n_dropped += n_dropped;
	r->totals.n_failed += atomic_load(&slot->n_failed);
	r->totals.n_restarted += atomic_load(&slot->n_restarted);
	fm_cost_add_slot(&r->totals.cost, slot);
	fm_take_trace_end_thread(r->trace, idx);
	fm_writer_thread_end(r->writer, s->thread_id, fm_now_ns(), atomic_load(&slot->cpu_ns), n_dropped);
	s->is_used = false;
	s->stacks.n = s->wire.n = 0;
	fm_shared_free_slot(r->shared, idx);
}

static bool is_process_gone(const struct recorded_process *p)
{
	if (p->pidfd < 0)
		return true; // it was gone before we could look
	struct pollfd poller = { .fd = p->pidfd, .events = POLLIN };
	return poll(&poller, 1, 0) > 0;
}

static bool is_thread_gone(const struct recorded_process *p, uint32_t tid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/task/%u", p->pid, tid);
	return access(path, F_OK) != 0 && errno == ENOENT;
}

// True when another entry of the same pid came later: the process has called exec.
static bool was_replaced(const struct fm_recorder *r, uint32_t idx)
{
	const struct fm_wire_process *entry = &r->shared->processes[idx];
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++) {
		const struct fm_wire_process *other = &r->shared->processes[i];
		if (i != idx && other->pid == entry->pid && other->start_ns > entry->start_ns &&
		    atomic_load_explicit(&other->state, memory_order_acquire) == FM_WIRE_LIVE)
			return true;
	}
	return false;
}

static void read_rings(struct fm_recorder *r)
{
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		if (atomic_load_explicit(&r->shared->owners[i].state, memory_order_acquire) != FM_WIRE_LIVE)
			continue;
		if (!r->slots[i].is_used)
			open_slot(r, i);
		fm_take_trace_note(r->trace, i);
		r->slots[i].noted_head =
			atomic_load_explicit(&fm_shared_slot(r->shared, i)->head, memory_order_acquire);
	}
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct recorded_slot *s = &r->slots[i];
		if (!s->is_used)
			continue;
		uint64_t head = atomic_load_explicit(&fm_shared_slot(r->shared, i)->head, memory_order_acquire);
		walk_ring(r, i, s->definitions_read, head, take_definition);
		s->definitions_read = head;
	}
	fm_take_trace_calibrate(r->trace);
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct recorded_slot *s = &r->slots[i];
		if (!s->is_used)
			continue;
		const struct recorded_process *p = &r->processes[s->process_idx];
		fm_take_trace_read(r->trace, i, s->process_idx, s->thread_id, p->code_ids.items, p->code_ids.n);
		struct fm_wire_slot *slot = fm_shared_slot(r->shared, i);
		uint64_t tail = atomic_load_explicit(&slot->tail, memory_order_relaxed); // ours
		if (tail == s->noted_head)
			continue;
		walk_ring(r, i, tail, s->noted_head, take_event);
		// Release: we are done with these bytes, the owner may overwrite them.
		atomic_store_explicit(&slot->tail, s->noted_head, memory_order_release);
	}
	fm_take_trace_settle(r->trace);
}

// Ends threads and processes that are gone. What they wrote last has been read: they were seen gone before read_rings ran.
static void bury(struct fm_recorder *r, const bool *is_gone)
{
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct recorded_slot *s = &r->slots[i];
		if (s->is_used && (is_gone[s->process_idx] || is_thread_gone(&r->processes[s->process_idx], s->tid))) {
			struct fm_wire_slot *slot = fm_shared_slot(r->shared, i);
			if (atomic_load(&slot->tail) == atomic_load(&slot->head) && fm_take_trace_is_read(r->trace, i))
				close_slot(r, i);
		}
	}
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++) {
		if (!r->processes[i].is_used || !is_gone[i])
			continue;
		bool has_slots = false;
		for (uint32_t j = 0; j < FM_WIRE_N_SLOTS; j++)
			has_slots |= r->slots[j].is_used && r->slots[j].process_idx == i;
		if (!has_slots)
			end_process(r, i);
	}
}

void fm_recorder_drain(struct fm_recorder *r)
{
	uint64_t now_ns = fm_now_ns();
	bool look = now_ns >= r->liveness_ns;
	bool is_gone[FM_WIRE_N_PROCESSES] = { false };
	if (look) {
		r->liveness_ns = now_ns + LIVENESS_NS;
		for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
			if (atomic_load_explicit(&r->shared->processes[i].state, memory_order_acquire) ==
			    FM_WIRE_LIVE) {
				struct recorded_process *p = open_process(r, i);
				is_gone[i] = is_process_gone(p) || was_replaced(r, i);
			}
	}
	read_rings(r);
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (r->processes[i].is_used && fm_jit_look(r->processes[i].jit))
			forget_frames(&r->processes[i]);
	if (!look)
		return;
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++)
		if (r->slots[i].is_used)
			name_thread(r, &r->slots[i]);
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (r->processes[i].is_used && !is_gone[i])
			update_process(r, &r->processes[i], &r->shared->processes[i]);
	bury(r, is_gone);
}

uint32_t fm_recorder_n_alive(const struct fm_recorder *r)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		n += r->processes[i].is_used && !is_process_gone(&r->processes[i]);
	return n;
}

void fm_recorder_finish(struct fm_recorder *r, struct fm_recorder_totals *ret)
{
	r->liveness_ns = 0;
	fm_recorder_drain(r);
	r->totals.n_processes_alive = fm_recorder_n_alive(r);
	read_rings(r); // what still runs is cut off here
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++)
		if (r->slots[i].is_used)
			close_slot(r, i);
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (r->processes[i].is_used)
			end_process(r, i);
	if (fm_rows_n_left_out(r->rows))
		fm_writer_coverage(r->writer, FM_STR_LIT("native frames of some libraries"),
				   FM_STR_LIT("their .debug_frame is too large; stacks through them may be cut"));
	fm_take_trace_finish(r->trace);
	r->totals.trace = *fm_take_trace_totals(r->trace);
	*ret = r->totals;
}
