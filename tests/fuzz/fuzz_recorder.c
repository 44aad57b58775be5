// SPDX-License-Identifier: Apache-2.0
// Rings, trace rings and tables of the shared memory as a target with a wild pointer may leave
// them, drained into a profile that must be readable. The input is a list of steps: a byte that
// says what, then what it needs (see step()). The process of the rings is a child that sleeps.
//
// The shared memory is made once and put back to how it was after each input: to make it, to touch
// it for the first time and to give it back takes longer than all that is tested. The child has few
// mappings, and the recorder reads them again for each input.
#include "fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/ingest/recorder.h"
#include "read/reader.h"
#include "wire/trace.h"

#define N_SLOTS 2u
#define N_SITES 256u
#define SCRIBBLED_BYTES (FM_WIRE_FRAME_TABLES_OFFSET + 64 * sizeof(struct fm_wire_frame_table))

struct rig {
	struct fm_shared shared;
	struct fm_wire_header header; // as it was at first
	uint32_t pid;                 // of the child
	struct fm_registry *registry;
	struct fm_writer *writer;
	struct fm_recorder *recorder;
	struct fm_wire_trace *trace; // of slot 0
	bool is_scribbled;
};

struct input {
	const uint8_t *at, *end;
};

static uint8_t byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint32_t start_child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int null = open("/dev/null", O_RDWR);
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		execlp("sleep", "sleep", "infinity", (char *)NULL);
		_exit(1);
	}
	FUZZ_CHECK(pid > 0);
	return (uint32_t)pid;
}

static void make(struct rig *rig)
{
	struct fm_diag diag;
	FUZZ_CHECK(fm_shared_init(&rig->shared, &diag) == FM_OK);
	memcpy(&rig->header, rig->shared.header, sizeof(rig->header));
	rig->registry = fm_registry_create(&rig->shared);
	rig->pid = start_child();
	if (rig->shared.header->trace_clock) {
		void *p = mmap(NULL, FM_WIRE_TRACE_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, rig->shared.fd,
			       (off_t)FM_WIRE_TRACE_OFFSET);
		rig->trace = p == MAP_FAILED ? NULL : p;
	}
}

// Whatever the input wrote, and the recorder did not clear because it made no sense.
static void clear(struct rig *rig)
{
	struct fm_shared *shared = &rig->shared;
	memcpy(shared->header, &rig->header, sizeof(rig->header));
	memset(&shared->processes[0], 0, sizeof(shared->processes[0]));
	if (rig->is_scribbled)
		memset(shared->base, 0, SCRIBBLED_BYTES);
	rig->is_scribbled = false;
	for (uint32_t i = 0; i < N_SLOTS; i++) {
		fm_shared_free_slot(shared, i);
		memset(&shared->owners[i], 0, sizeof(shared->owners[i]));
	}
	if (shared->sums)
		memset(shared->sums, 0, FM_WIRE_EXACT_HEADER + N_SITES * sizeof(struct fm_wire_site));
}

static void begin(struct rig *rig, const char *path)
{
	struct fm_diag diag;
	FUZZ_CHECK(fm_writer_open(path, &rig->writer, &diag) == FM_OK);
	rig->recorder = fm_recorder_create(rig->registry, rig->writer, &(struct fm_trace_limits){ 0 });
	struct fm_wire_process *process = &rig->shared.processes[0];
	process->pid = rig->pid;
	process->start_ns = fm_now_ns();
	atomic_store(&process->state, FM_WIRE_LIVE);
	for (uint32_t i = 0; i < N_SLOTS; i++) {
		rig->shared.owners[i].pid = rig->pid;
		rig->shared.owners[i].tid = rig->pid + i;
		atomic_store(&rig->shared.owners[i].state, FM_WIRE_LIVE);
	}
	atomic_store(&fm_shared_slot(&rig->shared, 0)->has_trace, rig->trace != NULL);
}

// Type, length in words, whether the size is a lie, the body. Numbers that matter are among the
// first few, so most bodies reach their taker.
static void put_record(struct rig *rig, struct input *in, uint32_t slot_idx)
{
	struct fm_wire_slot *slot = fm_shared_slot(&rig->shared, slot_idx);
	uint64_t head = atomic_load(&slot->head);
	uint32_t type = byte(in) % 20, n = 1 + byte(in) % 24, lie = byte(in);
	if (head % FM_WIRE_RING_BYTES + 8 * (n + 1) > FM_WIRE_RING_BYTES)
		return;
	uint8_t *at = (uint8_t *)slot + FM_WIRE_CONTROL_BYTES + head % FM_WIRE_RING_BYTES;
	struct fm_wire_record rec = { .size = lie >= 0xf0 ? (uint32_t)(lie - 0xf0) << (lie & 7) : 8 * (n + 1),
				      .type = (uint16_t)type };
	memcpy(at, &rec, sizeof(rec));
	for (uint32_t i = 0; i < 8 * n; i++)
		at[8 + i] = byte(in);
	atomic_store(&slot->head, head + 8 * (n + 1));
}

static void put_event(struct rig *rig, struct input *in)
{
	if (!rig->trace)
		return;
	uint64_t head = atomic_load(&rig->trace->head);
	struct fm_wire_event *events = (void *)((uint8_t *)rig->trace + FM_WIRE_CONTROL_BYTES);
	struct fm_wire_event e = { .kind = byte(in) % 14,
				   .id = byte(in),
				   .stamp = (uint64_t)byte(in) << (byte(in) % 40) };
	// A loss may say that a million calls are open, which are then written: true, and slow.
	if (e.kind == FM_WIRE_VALUE)
		e.stamp &= 0x000000ff000000ffu;
	events[head & (FM_WIRE_TRACE_EVENTS - 1)] = e;
	atomic_store(&rig->trace->head, head + 1);
}

// A word anywhere in what every target maps: counts, processes, owners, the first frame tables.
// Which process is looked at may be another one then.
static void scribble(struct rig *rig, struct input *in)
{
	uint32_t where = (byte(in) | (uint32_t)byte(in) << 8 | (uint32_t)byte(in) << 16) % (SCRIBBLED_BYTES - 8);
	uint64_t value = (uint64_t)byte(in) * (byte(in) % 2 ? 0x0101010101010101u : 1) << byte(in) % 64;
	memcpy(rig->shared.base + where, &value, sizeof(value));
	rig->is_scribbled = true;
}

// A byte of the tables that say who is who, but not of those that say which process is looked at.
static void poke(struct rig *rig, struct input *in)
{
	uint8_t where = byte(in), value = byte(in);
	struct fm_wire_owner *owner = &rig->shared.owners[where % N_SLOTS];
	struct fm_wire_slot *slot = fm_shared_slot(&rig->shared, where % N_SLOTS);
	if (where < 32)
		((uint8_t *)&owner->process_idx)[where / 2 % 4] = value;
	else if (where < 64)
		((uint8_t *)&owner->tid)[where / 2 % 4] = value;
	else if (where < 128)
		((uint8_t *)&slot->head)[where / 2 % 8] = value;
	else if (where < 160)
		((uint8_t *)&slot->cpu_ns)[where / 2 % 8] = value;
	else if (where < 192 && rig->trace)
		((uint8_t *)&rig->trace->head)[where / 2 % 8] = value;
	else if (where < 224)
		((uint8_t *)&rig->shared.processes[0].python_version)[where / 2 % 4] = value;
	else
		((uint8_t *)&rig->shared.processes[0].parent_pid)[where / 2 % 4] = value;
}

static void put_site(struct rig *rig, struct input *in)
{
	struct fm_diag diag;
	if (!rig->shared.sums)
		FUZZ_CHECK(fm_shared_map_sums(&rig->shared, &diag) == FM_OK);
	struct fm_wire_exact *e = (void *)rig->shared.sums;
	rig->shared.header->memory = FM_WIRE_MEMORY_EXACT;
	atomic_store(&e->process_idx1, 1);
	uint32_t idx = byte(in);
	struct fm_wire_site *site = &fm_wire_exact_sites(e)[idx];
	atomic_store(&e->n_sites, byte(in) < 255 ? idx + 1 : UINT32_MAX);
	site->n_allocs = byte(in);
	site->alloc_bytes = (uint64_t)byte(in) << (byte(in) % 64);
	site->live_bytes = (uint64_t)byte(in) << (byte(in) % 64);
}

static void step(struct rig *rig, struct input *in)
{
	switch (byte(in) % 8) {
	case 0:
	case 1:
	case 2:
		put_record(rig, in, 0);
		break;
	case 3:
		put_record(rig, in, 1);
		break;
	case 4:
		put_event(rig, in);
		break;
	case 5:
		if (byte(in) & 1)
			scribble(rig, in);
		else
			poke(rig, in);
		break;
	case 6:
		put_site(rig, in);
		break;
	case 7:
		fm_recorder_drain(rig->recorder);
		break;
	}
}

static void check_file(const char *path)
{
	struct fm_reader *reader;
	struct fm_diag diag;
	struct fm_event ev;
	FUZZ_CHECK(fm_reader_open(path, &reader, &diag) == FM_OK);
	const struct fm_profile *p = fm_reader_profile(reader);
	while (fm_reader_next(reader, &ev) == FM_OK)
		if (ev.type == FM_EVENT_SAMPLE)
			FUZZ_CHECK(ev.sample.thread_id < p->threads.n && ev.sample.stack_id < p->stacks.n);
	FUZZ_CHECK(!p->damage[0]); // whatever was in the rings: what we write is whole
	fm_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rig rig;
	static char path[64];
	struct input in = { data, data + size };
	struct fm_diag diag;
	struct fm_recorder_totals totals;
	if (!rig.pid) {
		make(&rig);
		snprintf(path, sizeof(path), "/dev/shm/fathom-fuzz-%d", (int)getpid());
	}
	begin(&rig, path);
	for (unsigned n = 0, n_drains = 0; in.at < in.end && n < 512; n++) {
		n_drains += *in.at % 8 == 7;
		if (n_drains > 4 && *in.at % 8 == 7)
			in.at++; // each costs a look at /proc
		else
			step(&rig, &in);
	}
	fm_recorder_finish(rig.recorder, &totals);
	fm_recorder_destroy(rig.recorder);
	FUZZ_CHECK(fm_writer_close(rig.writer, &diag) == FM_OK);
	check_file(path);
	unlink(path);
	clear(&rig);
	return 0;
}
