// SPDX-License-Identifier: Apache-2.0
/*
 * TracyCompat.h: code that is marked for Tracy, recorded by Fathom. Include it where <tracy/Tracy.hpp> or
 * <tracy/TracyC.h> was.
 *
 * Zones, frame marks, plots, messages and thread names are recorded. Colours, depths, texts and values of zones, locks,
 * memory and GPU zones are not: their macros are there and do nothing, as far as they are listed below.
 */
#ifndef FATHOM_TRACY_COMPAT_H
#define FATHOM_TRACY_COMPAT_H

#include <string.h>

#include "fathom.h"

#ifndef FATHOM_DISABLE
#define FATHOM_TRACY_BEGIN_(text, active)                                          \
	__extension__({                                                            \
		FATHOM_NAME_(fathom_name_here, text);                              \
		(active) ? fathom_begin_name_(&fathom_name_here) : (fathom_zone)0; \
	})
#else
#define FATHOM_TRACY_BEGIN_(text, active) ((void)(active), (fathom_zone)0)
#endif

/* ---- frames, plots, messages: the same in C and C++, whose C forms have a C in their names ---- */
#define FrameMark FATHOM_MARK("frame")
#define FrameMarkNamed(name) fathom_mark_text(name, strlen(name))
#define TracyPlot(name, value) fathom_plot_text(name, (double)(value))
#define TracyPlotConfig(...) ((void)0)
#define TracyMessage(text, size) fathom_mark_text(text, size)
#define TracyMessageL(text) fathom_mark_text(text, strlen(text))
#define TracyMessageC(text, size, color) TracyMessage(text, size)
#define TracyMessageLC(text, color) TracyMessageL(text)
#define TracyAppInfo(text, size) ((void)sizeof(text), (void)sizeof(size))

#define TracyCFrameMark FrameMark
#define TracyCFrameMarkNamed(name) FrameMarkNamed(name)
#define TracyCPlot(name, value) TracyPlot(name, value)
#define TracyCPlotF(name, value) TracyPlot(name, value)
#define TracyCPlotI(name, value) TracyPlot(name, value)
#define TracyCMessage(text, size) TracyMessage(text, size)
#define TracyCMessageL(text) TracyMessageL(text)
#define TracyCMessageC(text, size, color) TracyMessage(text, size)
#define TracyCMessageLC(text, color) TracyMessageL(text)
#define TracyCSetThreadName(name) fathom_name_thread(name)

/* ---- zones of C ---- */
typedef fathom_zone TracyCZoneCtx;
#define TracyCZone(ctx, active) TracyCZoneCtx ctx = FATHOM_TRACY_BEGIN_(__func__, active)
#define TracyCZoneN(ctx, name, active) TracyCZoneCtx ctx = FATHOM_TRACY_BEGIN_("" name, active)
#define TracyCZoneC(ctx, color, active) TracyCZone(ctx, active)
#define TracyCZoneNC(ctx, name, color, active) TracyCZoneN(ctx, name, active)
#define TracyCZoneS(ctx, depth, active) TracyCZone(ctx, active)
#define TracyCZoneNS(ctx, name, depth, active) TracyCZoneN(ctx, name, active)
#define TracyCZoneEnd(ctx) fathom_end(ctx)
#define TracyCZoneText(ctx, text, size) ((void)sizeof(ctx), (void)sizeof(text), (void)sizeof(size))
#define TracyCZoneName(ctx, text, size) ((void)sizeof(ctx), (void)sizeof(text), (void)sizeof(size))
#define TracyCZoneColor(ctx, color) ((void)sizeof(ctx), (void)sizeof(color))
#define TracyCZoneValue(ctx, value) ((void)sizeof(ctx), (void)sizeof(value))

/* ---- zones of C++ (and, of what has no object in it, of GNU C) ---- */
#define ZoneScoped FATHOM_FUNCTION_ZONE
#define ZoneScopedN(name) FATHOM_ZONE(name)
#define ZoneScopedC(color) ZoneScoped
#define ZoneScopedNC(name, color) ZoneScopedN(name)
#define ZoneScopedS(depth) ZoneScoped
#define ZoneScopedNS(name, depth) ZoneScopedN(name)
#define ZoneText(text, size) ((void)sizeof(text), (void)sizeof(size))
#define ZoneName(text, size) ((void)sizeof(text), (void)sizeof(size))
#define ZoneColor(color) ((void)sizeof(color))
#define ZoneValue(value) ((void)sizeof(value))

#define TracyAlloc(pointer, size) ((void)sizeof(pointer), (void)sizeof(size))
#define TracyFree(pointer) ((void)sizeof(pointer))
#define TracyCAlloc(pointer, size) ((void)sizeof(pointer), (void)sizeof(size))
#define TracyCFree(pointer) ((void)sizeof(pointer))
#define TracyLockable(type, name) type name
#define TracyLockableN(type, name, text) type name
#define TracySharedLockable(type, name) type name
#define TracySharedLockableN(type, name, text) type name
#define LockableBase(type) type
#define SharedLockableBase(type) type
#define LockMark(name) ((void)sizeof(name))

#ifdef __cplusplus
namespace tracy
{
static inline __attribute__((unused)) void SetThreadName(const char *name)
{
	fathom_name_thread(name);
}
} // namespace tracy
#endif

#endif
