// SPDX-License-Identifier: Apache-2.0
/*
 * fathom.h: zones, marks and plots of C and C++ code in a Fathom profile. GNU C99 or C++11, Linux; nothing to link.
 *
 *     #include <fathom.h>
 *
 *     void load(void)
 *     {
 *             FATHOM_ZONE("load");                    // until the end of the block
 *             FATHOM_MARK("cache is warm");           // a moment
 *             FATHOM_PLOT("rows", n);                 // a value over time
 *             fathom_zone parse = fathom_begin("parse");
 *             ...
 *             fathom_end(parse);                      // on the same thread
 *     }
 *
 * Names are literals; fathom_begin_text() and kin take texts made at run time. They go into whatever capture runs
 * (fathom run, fathom record, python -m fathom, Profiler), zones with the file and line where they begin. Without one a
 * zone is two loads and a branch. Any thread may use it; signal handlers may not. FATHOM_DISABLE leaves nothing of it
 * in the program.
 *
 * How it is found: the agent, if it is in the process, is looked up at the first use; one that comes later finds
 * fathom_api_slot_v1 of every loaded library. (It cannot see that of an executable, which therefore has to be started
 * under Fathom.)
 */
#ifndef FATHOM_H
#define FATHOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fathom_name {
	const char *text;
	uint64_t told;    /* the agent's */
	const char *file; /* where the zone begins; NULL for texts made at run time */
	uint32_t line;
};
typedef struct fathom_name *fathom_zone; /* NULL: nobody records it */

/* Table of the agent. Later versions of it only append. */
struct fathom_api {
	uint32_t version; /* 1 */
	uint32_t bytes;
	const volatile uint32_t *is_recording;
	int (*begin)(struct fathom_name *name); /* 0: not recorded */
	void (*end)(struct fathom_name *name);
	void (*mark)(struct fathom_name *name);
	void (*plot)(struct fathom_name *name, double value);
	fathom_zone (*begin_text)(const char *text, size_t len);
	void (*mark_text)(const char *text, size_t len);
	void (*plot_text)(const char *text, size_t len, double value);
};

#define FATHOM_JOIN_(a, b) a##b
#define FATHOM_JOIN(a, b) FATHOM_JOIN_(a, b)
#define FATHOM_HERE(stem) FATHOM_JOIN(stem, __LINE__)

#ifndef FATHOM_DISABLE

#include <dlfcn.h>
#include <string.h>
#include <sys/prctl.h>

#define FATHOM_ABSENT_ ((const struct fathom_api *)1) /* looked for, not there */

/* One for all files of a library. The agent writes to it by this name, which is why it is not hidden. */
extern const struct fathom_api *fathom_api_slot_v1;
__attribute__((weak, visibility("default"))) const struct fathom_api *fathom_api_slot_v1 = 0;

static __attribute__((noinline, cold, unused)) const struct fathom_api *fathom_find_(void)
{
	const struct fathom_api *expected = 0;
	/* Preloaded it is in view of everyone; imported by Python only by its name. */
	const struct fathom_api *api = (const struct fathom_api *)dlsym((void *)0, "fathom_api_v1");
	void *agent = api ? 0 : dlopen("fathom-agent.so", RTLD_LAZY | RTLD_NOLOAD);
	if (agent) {
		api = (const struct fathom_api *)dlsym(agent, "fathom_api_v1");
		dlclose(agent);
	}
	if (!api || api->version < 1)
		api = FATHOM_ABSENT_;
	/* Only over "not looked for": the agent may have written meanwhile. */
	__atomic_compare_exchange_n(&fathom_api_slot_v1, &expected, api, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&fathom_api_slot_v1, __ATOMIC_ACQUIRE);
}

/* The table while somebody records, else NULL. */
static inline __attribute__((unused)) const struct fathom_api *fathom_recording_(void)
{
	const struct fathom_api *api = __atomic_load_n(&fathom_api_slot_v1, __ATOMIC_ACQUIRE);
	if (__builtin_expect(api == FATHOM_ABSENT_, 1))
		return 0;
	if (__builtin_expect(!api, 0) && (api = fathom_find_()) == FATHOM_ABSENT_)
		return 0;
	return __builtin_expect(*api->is_recording != 0, 0) ? api : 0;
}

static inline __attribute__((unused)) fathom_zone fathom_begin_name_(struct fathom_name *name)
{
	const struct fathom_api *api = fathom_recording_();
	return api && api->begin(name) ? name : 0;
}

/* Ends what the fathom_begin of this thread gave. */
static inline __attribute__((unused)) void fathom_end(fathom_zone zone)
{
	if (zone)
		__atomic_load_n(&fathom_api_slot_v1, __ATOMIC_ACQUIRE)->end(zone);
}

static inline __attribute__((unused)) void fathom_end_at_(fathom_zone *zone)
{
	fathom_end(*zone);
}

static inline __attribute__((unused)) void fathom_mark_name_(struct fathom_name *name)
{
	const struct fathom_api *api = fathom_recording_();
	if (api)
		api->mark(name);
}

static inline __attribute__((unused)) void fathom_plot_name_(struct fathom_name *name, double value)
{
	const struct fathom_api *api = fathom_recording_();
	if (api)
		api->plot(name, value);
}

/* With texts made at run time: 4096 different ones of up to 100 bytes are kept; zones and plots beyond are not
 * recorded. */
static inline __attribute__((unused)) fathom_zone fathom_begin_text(const char *text)
{
	const struct fathom_api *api = fathom_recording_();
	return api ? api->begin_text(text, strlen(text)) : 0;
}

static inline __attribute__((unused)) void fathom_mark_text(const char *text, size_t len)
{
	const struct fathom_api *api = fathom_recording_();
	if (api)
		api->mark_text(text, len);
}

static inline __attribute__((unused)) void fathom_plot_text(const char *text, double value)
{
	const struct fathom_api *api = fathom_recording_();
	if (api)
		api->plot_text(text, strlen(text), value);
}

/* Names the calling thread, for Fathom and everyone else (top, gdb); the system keeps 15 bytes. */
static inline __attribute__((unused)) void fathom_name_thread(const char *name)
{
	prctl(PR_SET_NAME, name, 0, 0, 0);
}

#define FATHOM_NAME_(variable, text) static struct fathom_name variable = { text, 0, __FILE__, __LINE__ }

#define fathom_begin(name)                               \
	__extension__({                                  \
		FATHOM_NAME_(fathom_name_here, "" name); \
		fathom_begin_name_(&fathom_name_here);   \
	})
#define FATHOM_MARK(text)                                \
	do {                                             \
		FATHOM_NAME_(fathom_name_here, "" text); \
		fathom_mark_name_(&fathom_name_here);    \
	} while (0)
#define FATHOM_PLOT(name, value)                                       \
	do {                                                           \
		FATHOM_NAME_(fathom_name_here, "" name);               \
		fathom_plot_name_(&fathom_name_here, (double)(value)); \
	} while (0)

#ifdef __cplusplus
} /* extern "C" */
class fathom_scope_
{
      public:
	explicit fathom_scope_(struct fathom_name *name) : zone(fathom_begin_name_(name))
	{
	}
	~fathom_scope_()
	{
		fathom_end(zone);
	}
	fathom_scope_(const fathom_scope_ &) = delete;
	fathom_scope_ &operator=(const fathom_scope_ &) = delete;

      private:
	fathom_zone zone;
};
extern "C" {
#define FATHOM_SCOPE_(name) fathom_scope_ FATHOM_HERE(fathom_scope_at_)(name)
#else
#define FATHOM_SCOPE_(name)                                                                          \
	__attribute__((cleanup(fathom_end_at_), unused)) fathom_zone FATHOM_HERE(fathom_scope_at_) = \
		fathom_begin_name_(name)
#endif

#define FATHOM_ZONE_(text)                                \
	FATHOM_NAME_(FATHOM_HERE(fathom_name_at_), text); \
	FATHOM_SCOPE_(&FATHOM_HERE(fathom_name_at_))
/* Until the end of the block, however it is left. */
#define FATHOM_ZONE(name) FATHOM_ZONE_("" name)
/* The same, called as the function. */
#define FATHOM_FUNCTION_ZONE FATHOM_ZONE_(__func__)

#else /* FATHOM_DISABLE: arguments are still looked at, so that no variable is unused, and cost nothing */

#define fathom_begin(name) ((void)sizeof(name), (fathom_zone)0)
#define fathom_begin_text(text) ((void)sizeof(text), (fathom_zone)0)
#define fathom_end(zone) ((void)(zone))
#define fathom_mark_text(text, len) ((void)sizeof(text), (void)sizeof(len))
#define fathom_plot_text(text, value) ((void)sizeof(text), (void)sizeof(value))
#define fathom_name_thread(name) ((void)sizeof(name))
#define FATHOM_MARK(text) ((void)0)
#define FATHOM_PLOT(name, value) ((void)sizeof(value))
#define FATHOM_ZONE(name) ((void)0)
#define FATHOM_FUNCTION_ZONE ((void)0)

#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
