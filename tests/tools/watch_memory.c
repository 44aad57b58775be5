// SPDX-License-Identifier: Apache-2.0
// Runs a program with the agent and prints what the agent says of its memory, without the
// collector: one line per record.
//   watch_memory AGENT MEAN_BYTES FLAGS -- PROGRAM [ARGUMENTS...]      FLAGS: enum fm_wire_flags
//
//   alloc pid=.. tid=.. time=.. id=.. addr=.. size=.. weight=.. domain=.. | frame;frame;...   innermost first
//   free pid=.. tid=.. time=.. id=..
//   thread pid=.. tid=.. samples=.. dropped=.. free_dropped=.. cycles=..
//   process pid=.. hooks=..
//   end status=..
// A Python frame is name:line, a native one a number, an error "error N".
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collect/shared/shared.h"
#include "pyabi/lines.h"
#include "pyabi/row.h"

struct code {
	uint32_t pid, id, first_line, table_len;
	uint8_t kind;
	char *name;
	uint8_t *table;
};

struct slot {
	uint64_t definitions_read, head; // of this round
	uint64_t stack[65536];           // outermost first
	uint32_t n_stack;
};

static struct fm_shared shared;
static struct code *codes;
static size_t n_codes, codes_cap;
static struct slot *slots[FM_WIRE_N_SLOTS];
static bool is_seen[FM_WIRE_N_PROCESSES];

static void take_code(uint32_t pid, const struct fm_wire_code *rec)
{
	if (n_codes == codes_cap) {
		codes_cap = codes_cap ? codes_cap * 2 : 1024;
		codes = realloc(codes, codes_cap * sizeof(*codes));
	}
	struct code *c = &codes[n_codes++];
	*c = (struct code){ .pid = pid, .id = rec->id, .first_line = rec->first_line, .kind = rec->line_table_kind };
	c->name = strndup((const char *)rec->bytes, rec->name_len);
	c->table_len = rec->line_table_len;
	c->table = malloc(c->table_len + 1);
	memcpy(c->table, rec->bytes + rec->name_len + rec->qualname_len + rec->filename_len, c->table_len);
}

static void print_python(uint32_t pid, uint32_t id, uint32_t off)
{
	for (size_t i = n_codes; i-- > 0;)
		if (codes[i].pid == pid && codes[i].id == id) {
			uint32_t line = codes[i].first_line;
			if (off)
				line = fm_pyabi_line(codes[i].kind, codes[i].table, codes[i].table_len, line, off - 1);
			printf("%s:%u", codes[i].name, line);
			return;
		}
	printf("code %u", id);
}

static void print_frame(uint32_t pid, uint64_t frame)
{
	uint64_t value = frame & ((1ull << FM_WIRE_FRAME_SHIFT) - 1);
	if (frame >> FM_WIRE_FRAME_SHIFT == FM_WIRE_FRAME_PYTHON)
		print_python(pid, (uint32_t)(value >> 32), (uint32_t)value);
	else if (frame >> FM_WIRE_FRAME_SHIFT == FM_WIRE_FRAME_ERROR)
		printf("error %llu", (unsigned long long)value);
	else
		printf("%#llx", (unsigned long long)value);
}

static bool take_stack(struct slot *s, uint32_t n_frames, uint32_t n_shared, const uint64_t *frames)
{
	if (n_shared > n_frames || n_shared > s->n_stack || n_frames > 65536)
		return false;
	s->n_stack = n_frames;
	for (uint32_t i = n_shared; i < n_frames; i++)
		s->stack[i] = frames[n_frames - 1 - i];
	return true;
}

static void take(uint32_t idx, uint32_t pid, uint32_t tid, const struct fm_wire_record *rec)
{
	struct slot *s = slots[idx];
	if (rec->type == FM_WIRE_SAMPLE) {
		const struct fm_wire_sample *sample = (const void *)rec;
		if (!take_stack(s, sample->n_frames, sample->n_shared, sample->frames))
			printf("bad sample\n");
	} else if (rec->type == FM_WIRE_ALLOC) {
		const struct fm_wire_alloc *a = (const void *)rec;
		if (!take_stack(s, a->n_frames, a->n_shared, a->frames)) {
			printf("bad alloc\n");
			return;
		}
		printf("alloc pid=%u tid=%u time=%llu id=%llu addr=%llu size=%llu weight=%llu domain=%u | ", pid, tid,
		       (unsigned long long)a->time_ns, (unsigned long long)a->id, (unsigned long long)a->addr,
		       (unsigned long long)a->size, (unsigned long long)a->weight, a->domain);
		for (uint32_t i = s->n_stack; i-- > 0;) {
			print_frame(pid, s->stack[i]);
			putchar(i ? ';' : '\n');
		}
		if (!s->n_stack)
			putchar('\n');
	} else if (rec->type == FM_WIRE_FREED) {
		const struct fm_wire_free *f = (const void *)rec;
		printf("free pid=%u tid=%u time=%llu id=%llu\n", pid, tid, (unsigned long long)f->time_ns,
		       (unsigned long long)f->id);
	}
}

static void walk(uint32_t idx, uint64_t from, uint64_t to, bool is_code)
{
	const struct fm_wire_owner *owner = &shared.owners[idx];
	while (from < to) {
		const struct fm_wire_record *rec =
			(const void *)(fm_shared_ring(&shared, idx) + from % FM_WIRE_RING_BYTES);
		if (rec->size < sizeof(*rec)) {
			printf("bad record\n");
			return;
		}
		if (is_code && rec->type == FM_WIRE_CODE)
			take_code(owner->pid, (const void *)rec);
		else if (!is_code)
			take(idx, owner->pid, owner->tid, rec);
		from += rec->size;
	}
}

// Definitions of all rings first: a stack may name a code that another thread told of.
static void drain(void)
{
	for (int is_code = 1; is_code >= 0; is_code--)
		for (uint32_t i = 0; i < shared.n_slots; i++) {
			if (atomic_load_explicit(&shared.owners[i].state, memory_order_acquire) != FM_WIRE_LIVE)
				continue;
			struct fm_wire_slot *slot = fm_shared_slot(&shared, i);
			if (!slots[i])
				slots[i] = calloc(1, sizeof(*slots[i]));
			if (is_code)
				slots[i]->head = atomic_load_explicit(&slot->head, memory_order_acquire);
			uint64_t tail = atomic_load(&slot->tail);
			if (slots[i]->head <= tail)
				continue;
			walk(i, tail, slots[i]->head, is_code);
			if (!is_code)
				atomic_store_explicit(&slot->tail, slots[i]->head, memory_order_release);
		}
}

// A thread that is gone gives its slot back, as with the collector; at the end all do.
static void close_slots(bool is_end)
{
	for (uint32_t i = 0; i < shared.n_slots; i++) {
		struct fm_wire_owner *owner = &shared.owners[i];
		struct fm_wire_slot *slot = fm_shared_slot(&shared, i);
		if (atomic_load(&owner->state) != FM_WIRE_LIVE || atomic_load(&slot->head) != atomic_load(&slot->tail))
			continue;
		char path[64];
		snprintf(path, sizeof(path), "/proc/%u/task/%u", owner->pid, owner->tid);
		if (!is_end && access(path, F_OK) == 0)
			continue;
		if (atomic_load(&slot->head) != atomic_load(&slot->tail))
			continue; // it wrote once more and ended
		printf("thread pid=%u tid=%u samples=%llu dropped=%llu free_dropped=%llu cycles=%llu\n", owner->pid,
		       owner->tid, (unsigned long long)slot->n_alloc_samples, (unsigned long long)slot->n_alloc_dropped,
		       (unsigned long long)slot->n_free_dropped, (unsigned long long)slot->alloc_cycles);
		free(slots[i]);
		slots[i] = NULL;
		fm_shared_free_slot(&shared, i);
	}
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++) {
		struct fm_wire_process *p = &shared.processes[i];
		if (atomic_load(&p->state) != FM_WIRE_LIVE)
			continue;
		bool is_gone = is_end || (kill((pid_t)p->pid, 0) != 0 && is_seen[i]);
		is_seen[i] = true; // gone for a whole round: its threads' slots are closed
		if (!is_gone)
			continue;
		uint32_t hooks = p->memory_hooks & ~(uint32_t)FM_WIRE_HOOKS_ENDED; // which there were, while it ran
		printf("process pid=%u hooks=%u\n", p->pid, hooks);
		is_seen[i] = false;
		atomic_store(&p->state, FM_WIRE_FREE);
	}
}

int main(int argc, char **argv)
{
	struct fm_diag diag;
	int status = 0;
	if (argc < 6 || strcmp(argv[4], "--")) {
		fprintf(stderr, "usage: watch_memory AGENT MEAN_BYTES FLAGS -- PROGRAM [ARGUMENTS...]\n");
		return 2;
	}
	if (fm_shared_init(&shared, &diag)) {
		fprintf(stderr, "%s\n", diag.text);
		return 1;
	}
	shared.header->beat_ns = 0; // nobody beats here: however long we do not run, the agent goes on
	shared.header->rate_hz = 1000;
	shared.header->engine = FM_ENGINE_TICKER;
	shared.header->memory = FM_WIRE_MEMORY_SAMPLED;
	shared.header->alloc_mean_bytes = strtoull(argv[2], NULL, 0);
	shared.header->flags = (uint32_t)strtoul(argv[3], NULL, 0);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("LD_PRELOAD", argv[1], 1);
		setenv(FM_WIRE_ENV, shared.env_value, 1);
		execvp(argv[5], argv + 5);
		_exit(127);
	}
	for (bool is_over = false; !is_over;) {
		struct timespec nap = { .tv_nsec = 5000000 };
		nanosleep(&nap, NULL);
		is_over = waitpid(pid, &status, WNOHANG) == pid;
		drain();
		close_slots(is_over);
	}
	printf("end status=%d\n", status);
	return 0;
}
