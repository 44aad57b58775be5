// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/memory/alloc.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "base/clock.h"
#include "sigsafe/python/ahead.h"
#include "sigsafe/base/budget.h"
#include "sigsafe/memory/exact.h"
#include "sigsafe/base/fault.h"
#include "sigsafe/python/merge.h"
#include "sigsafe/python/python.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/claim.h"
#include "sigsafe/base/ring.h"
#include "sigsafe/python/stack.h"
#include "sigsafe/unwind/unwind.h"

#include "sigsafe/base/sigsafe.h"

// Blocks from this size on are always sampled, copies from that size on.
#define CERTAIN_ALLOC_BYTES (256u << 10)
#define CERTAIN_COPY_BYTES (1u << 20)
#define COPY_MEAN_BYTES (8u << 20)
// A thread that allocates little is sampled at up to 1/8 of the mean.
#define N_FINER 3u
// While nothing may be sampled. Late hooks are taken away then, and the next capture wants every
// byte.
#define LOOK_AGAIN_BYTES (fm_sig.is_late ? 0u : 1u << 20)
// Allocations leave so much of the ring to what must not be lost: a block whose freeing is not told
// of seems to live on.
#define RING_KEPT_FOR_FREES (256u << 10)

__thread struct fm_sig_alloc_thread fm_sig_alloc __attribute__((tls_model("initial-exec")));
_Atomic bool fm_sig_alloc_is_on;
static _Atomic uint64_t last_id;

static FM_SIGSAFE void bump(_Atomic uint64_t *counter, uint64_t by)
{
	// Relaxed and unshared: only this thread writes its slot's counters.
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

// A sample that seems to take longer was put off the CPU meanwhile.
#define MAX_SAMPLE_CYCLES 65536u

static FM_SIGSAFE void count_cost(struct fm_sig_thread *t, uint64_t start)
{
	uint64_t cycles = fm_cycles() - start;
	bump(&t->slot->alloc_cycles, cycles < MAX_SAMPLE_CYCLES ? cycles : MAX_SAMPLE_CYCLES);
}

static FM_SIGSAFE bool is_on(void)
{
	return atomic_load_explicit(&fm_sig_alloc_is_on, memory_order_acquire) && !fm_sig_is_over();
}

// A late capture follows others and is followed by others: who is inside is counted, as ticks are
// (agent/late.c).
static FM_SIGSAFE bool come_in(void)
{
	if (FM_LIKELY(!fm_sig.is_late))
		return true;
	atomic_fetch_add_explicit(&fm_sig.n_inside, 1, memory_order_seq_cst); // before header is read
	if (!atomic_load_explicit(&fm_sig.counts->is_over, memory_order_relaxed))
		return true;
	atomic_fetch_sub_explicit(&fm_sig.n_inside, 1, memory_order_release);
	return false;
}

static FM_SIGSAFE void go_out(void)
{
	if (FM_UNLIKELY(fm_sig.is_late))
		atomic_fetch_sub_explicit(&fm_sig.n_inside, 1, memory_order_release);
}

FM_SIGSAFE struct fm_sig_thread *fm_sig_alloc_enter(void)
{
	if (!come_in())
		return NULL;
	struct fm_sig_thread *t = fm_sig_thread_get_in_hook();
	if (!t || t->is_busy) {
		go_out();
		return NULL;
	}
	t->is_busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	return t;
}

FM_SIGSAFE void fm_sig_alloc_leave(struct fm_sig_thread *t)
{
	atomic_signal_fence(memory_order_seq_cst);
	t->is_busy = false;
	go_out();
}

// The registers at this place, as far as unwinding wants them: what a called function keeps.
static inline __attribute__((always_inline)) void capture(ucontext_t *uc)
{
#if defined(__x86_64__)
	greg_t *r = uc->uc_mcontext.gregs;
	for (unsigned i = 0; i < NGREG; i++)
		r[i] = 0;
	uc->uc_mcontext.fpregs = NULL;
	__asm__ volatile("leaq 0(%%rip), %%rax\n\t"
			 "movq %%rax, %c[rip](%0)\n\t"
			 "movq %%rsp, %c[rsp](%0)\n\t"
			 "movq %%rbp, %c[rbp](%0)\n\t"
			 "movq %%rbx, %c[rbx](%0)\n\t"
			 "movq %%r12, %c[r12](%0)\n\t"
			 "movq %%r13, %c[r13](%0)\n\t"
			 "movq %%r14, %c[r14](%0)\n\t"
			 "movq %%r15, %c[r15](%0)\n\t"
			 :
			 : "D"(r), [rip] "i"(REG_RIP * 8), [rsp] "i"(REG_RSP * 8), [rbp] "i"(REG_RBP * 8),
			   [rbx] "i"(REG_RBX * 8), [r12] "i"(REG_R12 * 8), [r13] "i"(REG_R13 * 8),
			   [r14] "i"(REG_R14 * 8), [r15] "i"(REG_R15 * 8)
			 : "rax", "memory");
#else
	for (unsigned i = 0; i < 31; i++)
		uc->uc_mcontext.regs[i] = 0;
	uc->uc_mcontext.pc = (uint64_t)__builtin_return_address(0);
	uc->uc_mcontext.sp = (uint64_t)__builtin_frame_address(0);
#endif
}

static FM_SIGSAFE bool is_in_python(uint64_t pc)
{
	return pc >= fm_sig.python.image_start && pc < fm_sig.python.image_end;
}

// PyMem_RawMalloc is the interpreter's, but anybody calls it: numpy 2.5 makes its arrays by it.
// Then it is malloc by another name.
static FM_SIGSAFE bool is_asked_by_native_code(const struct fm_sig_thread *t)
{
	uint32_t i = 0;
	if (i < t->n_native && t->native[i].pc >= fm_sig.raw_malloc_start && t->native[i].pc < fm_sig.raw_malloc_end)
		i++;
	return i < t->n_native && !is_in_python(t->native[i].pc - 1);
}

FM_SIGSAFE __attribute__((noinline)) void fm_sig_alloc_take_stack(struct fm_sig_thread *t, unsigned *domain,
								  bool is_native_wanted)
{
	ucontext_t uc;
	capture(&uc);
	fm_sig_fault_check(NULL);
	fm_sig_budget_begin(t, fm_cycles());
	fm_sig_ahead(t, &uc);
	bool is_collecting;
	uint32_t leaf_idx, precise_idx;
	fm_sig_python_walk(t, &uc, &is_collecting);
	fm_sig_budget_go_on(t);
	t->n_native = t->native_error = 0;
	t->precise_native = UINT32_MAX;
	if (is_native_wanted || !t->n_python)
		fm_sig_unwind(t, &uc);
	if (*domain == FM_ALLOC_RAW && is_native_wanted && is_asked_by_native_code(t))
		*domain = FM_ALLOC_MALLOC;
	if (!is_native_wanted && t->n_native) { // no Python in it: the caller alone says where it is
		t->n_native = 1;
		t->native_error = 0;
		t->native[0].cfa = UINT64_MAX;
	}
	fm_sig_merge(t, -1, &leaf_idx, &precise_idx);
}

static FM_SIGSAFE bool push(struct fm_sig_thread *t, const void *p, uint64_t id, uint64_t n, uint64_t weight,
			    unsigned domain)
{
	uint32_t n_shared = fm_sig_stack_n_shared(t), n_own = t->n_out - n_shared;
	uint64_t size = sizeof(struct fm_wire_alloc) + (uint64_t)n_own * sizeof(uint64_t);
	uint64_t used = atomic_load_explicit(&t->slot->head, memory_order_relaxed) -
			atomic_load_explicit(&t->slot->tail, memory_order_relaxed);
	if (used + size > FM_WIRE_RING_BYTES - RING_KEPT_FOR_FREES)
		return false;
	struct fm_wire_alloc *rec = fm_sig_ring_reserve(t, FM_WIRE_ALLOC, size);
	if (!rec)
		return false;
	rec->time_ns = t->now_ns;
	rec->id = id;
	rec->addr = (uintptr_t)p;
	rec->size = n;
	rec->weight = weight;
	rec->n_frames = t->n_out;
	rec->n_shared = n_shared;
	rec->domain = (uint8_t)domain;
	for (unsigned i = 0; i < sizeof(rec->reserved); i++)
		rec->reserved[i] = 0;
	for (uint32_t i = 0; i < n_own; i++)
		rec->frames[i] = t->out[i];
	fm_sig_stack_published(t, n_shared);
	fm_sig_ring_commit(t, &rec->rec);
	return true;
}

static FM_SIGSAFE void push_freed(struct fm_sig_thread *t, uint64_t id)
{
	struct fm_wire_free *rec = fm_sig_ring_reserve(t, FM_WIRE_FREED, sizeof(*rec));
	if (rec) {
		rec->time_ns = fm_now_ns();
		rec->id = id;
		fm_sig_ring_commit(t, &rec->rec);
	} else {
		bump(&t->slot->n_free_dropped, 1);
	}
}

// Samples a block, or a copy (p is NULL). Blocks but mappings enter the live table. Returns the id,
// 0 when it was dropped.
static FM_SIGSAFE uint64_t take(struct fm_sig_thread *t, const void *p, uint64_t n, uint64_t weight, unsigned domain)
{
	uint64_t id = 0;
	bool is_in_table = domain < FM_ALLOC_MMAP;
	if (domain != FM_ALLOC_COPY)
		id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
	// Freed where no hook is (by libc itself, by a pointer to free that was taken before a late
	// capture): the address is used anew.
	uint64_t stale = is_in_table && fm_sig_live_may_have(p) ? fm_sig_live_remove(p) : 0;
	if (FM_UNLIKELY(stale != 0))
		push_freed(t, stale);
	if (is_in_table && !fm_sig_live_add(p, id)) {
		bump(&t->slot->n_alloc_dropped, 1);
		return 0;
	}
	fm_sig_stack_refresh(t);
	fm_sig_alloc_take_stack(t, &domain, !(fm_sig.header->flags & FM_WIRE_NO_NATIVE));
	if (push(t, p, id, n, weight, domain)) {
		bump(&t->slot->n_alloc_samples, 1);
		return id;
	}
	if (is_in_table)
		fm_sig_live_remove(p); // nobody else has seen the block yet
	bump(&t->slot->n_alloc_dropped, 1);
	return 0;
}

static FM_SIGSAFE uint64_t new_seed(void)
{
	// Threads that start in one nanosecond still differ in where their memory lies.
	return fm_now_ns() ^ fm_sig_hash((uintptr_t)&fm_sig_alloc) ^ (uint64_t)fm_sig.pid << 40;
}

// The countdown has run out. Samples, or only sets out anew.
static FM_SIGSAFE struct fm_sig_sampled look(struct fm_sig_sampler *s, uint64_t mean, uint64_t certain, const void *p,
					     uint64_t n, unsigned domain)
{
	struct fm_sig_sampled sampled = { 0 };
	unsigned n_finer = domain == FM_ALLOC_COPY ? 0 : N_FINER;
	if (FM_UNLIKELY(s->mean == 0)) {
		fm_sig_sampler_start(s, mean, certain, n_finer, new_seed());
		if (n <= s->left) {
			s->left -= n;
			return sampled;
		}
	}
	sampled.weight = fm_sig_sampler_take(s, n);
	if (!sampled.weight)
		return sampled;
	uint64_t start = fm_cycles();
	struct fm_sig_thread *t = fm_sig_alloc_enter();
	uint64_t now_ns = fm_now_ns();
	fm_sig_sampler_next(s, now_ns,
			    (domain == FM_ALLOC_COPY ? 0 : fm_sig_live_pressure()) + (t ? t->alloc_pressure : 0));
	// Drawn for another capture of this process; so was this sample, with its weight.
	if (FM_UNLIKELY(s->base_mean != mean >> n_finer))
		fm_sig_sampler_start(s, mean, certain, n_finer, new_seed());
	if (!t)
		return sampled; // no slot, or a signal handler of the program inside of this very function
	t->now_ns = now_ns;
	if (!fm_sig_quiet_poll(t, now_ns))
		sampled.id = take(t, p, n, sampled.weight, domain);
	count_cost(t, start);
	fm_sig_budget_end_alloc(t);
	fm_sig_alloc_leave(t);
	return sampled;
}

FM_SIGSAFE struct fm_sig_sampled fm_sig_alloc_sample_for(void *p, uint64_t n, unsigned domain, uintptr_t caller)
{
	struct fm_sig_alloc_thread *a = &fm_sig_alloc;
	struct fm_sig_sampled sampled = { 0 };
	if (!p || a->depth)
		return sampled;
	if (fm_sig_exact) {
		if (is_on())
			sampled = (struct fm_sig_sampled){
				fm_sig_exact_alloc(p, n, domain, caller, domain < FM_ALLOC_MMAP), n
			};
		return sampled;
	}
	if (!is_on()) {
		a->allocs.left = LOOK_AGAIN_BYTES;
		return sampled;
	}
	int saved_errno = errno;
	sampled = look(&a->allocs, fm_sig.header->alloc_mean_bytes, CERTAIN_ALLOC_BYTES, p, n, domain);
	errno = saved_errno;
	return sampled;
}

FM_SIGSAFE void fm_sig_copy_sample(uint64_t n)
{
	struct fm_sig_alloc_thread *a = &fm_sig_alloc;
	if (!is_on()) {
		a->copies.left = LOOK_AGAIN_BYTES;
		return;
	}
	int saved_errno = errno;
	look(&a->copies, COPY_MEAN_BYTES, CERTAIN_COPY_BYTES, NULL, n, FM_ALLOC_COPY);
	errno = saved_errno;
}

FM_SIGSAFE uint64_t fm_sig_alloc_push(const void *p, uint64_t n, uint64_t weight, unsigned domain)
{
	uint64_t start = fm_cycles(), id;
	if (fm_sig_exact)
		return is_on() ? fm_sig_exact_alloc(p, n, domain, (uintptr_t)__builtin_return_address(0), false) : 0;
	struct fm_sig_thread *t = is_on() ? fm_sig_alloc_enter() : NULL;
	if (!t)
		return 0;
	t->now_ns = fm_now_ns();
	id = take(t, p, n, weight, domain);
	count_cost(t, start);
	fm_sig_alloc_leave(t);
	return id;
}

FM_SIGSAFE void fm_sig_alloc_id_freed(uint64_t id)
{
	if (fm_sig_exact) {
		fm_sig_exact_token_freed(id);
		return;
	}
	struct fm_sig_thread *t = is_on() ? fm_sig_alloc_enter() : NULL;
	if (!t) {
		if (fm_sig_is_quiet()) // whoever reads the ring some day does not learn of it
			atomic_fetch_add_explicit(&fm_sig.counts->n_freed_unseen, 1, memory_order_relaxed);
		return;
	}
	push_freed(t, id);
	fm_sig_alloc_leave(t);
}

FM_SIGSAFE void fm_sig_alloc_freed(void *p)
{
	if (fm_sig_exact) {
		fm_sig_exact_free(p);
		return;
	}
	uint64_t id = fm_sig_live_remove(p);
	if (!id)
		return;
	int saved_errno = errno;
	fm_sig_alloc_id_freed(id);
	errno = saved_errno;
}

FM_SIGSAFE uint64_t fm_sig_alloc_take(void *p)
{
	if (!fm_sig_exact)
		return fm_sig_live_remove(p);
	return fm_sig_is_quiet() ? 0 : fm_sig_exact_take(p); // whoever is counted there next puts it right
}

FM_SIGSAFE void fm_sig_alloc_give_back(void *p, uint64_t id)
{
	if (fm_sig_exact)
		fm_sig_exact_give_back(p, id);
	else
		fm_sig_live_add(p, id);
}
