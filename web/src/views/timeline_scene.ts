// SPDX-License-Identifier: Apache-2.0
// Which lanes the timeline has, and where.
import { NONE, type Capture, type Zones } from "../data/capture";
import { CLASS_NAMES } from "../data/classes";
import { classColour, HUES, oklch, pixel, type Theme } from "../draw/colour";
import { ACTIVITY_PX, ZONE_PX, type Curve, type Lane, type TimelineColours } from "../draw/timeline_painter";
import { spanAt } from "../data/layout";
import type { ZoneRows } from "../data/zone_rows";
import type { ZoneLayer } from "../data/zone_tiles";

const PROCESS_PX = 22;
const CURVE_PX = 52;
const MOST_CURVE_PX = 120;
const MOST_ACTIVITY_PX = 72;
const GAP_PX = 4;
const MOST_ABOVE = 0.5; // of the room: so much may curves take above the threads

const most = (values: ArrayLike<number>) =>
	Array.prototype.reduce.call(values, (a: unknown, b: unknown) => Math.max(a as number, b as number), 0) as number;

// Of two captures: what each used at the same time since its begin.
function comparedCurves({ series }: Capture): Curve[] {
	const curves: Curve[] = [];
	const put = (name: string, unit: Curve["unit"], now: string, before: string) => {
		const values = [series.column(now) ?? [], series.column(before) ?? []];
		const top = Math.max(...values.map(most));
		if (top > 0) curves.push({ name, note: "before: line", unit, time: series.column("time_s") ?? [], values, top });
	};
	put("CPUs in use", "cores", "cpu", "base_cpu");
	const hasHeap = most(series.column("heap") ?? []) > 0 || most(series.column("base_heap") ?? []) > 0;
	if (hasHeap) put("heap", "bytes", "heap", "base_heap");
	else put("memory (RSS)", "bytes", "rss", "base_rss");
	return curves;
}

export function curvesOf(capture: Capture, diff: Capture | null = null): Curve[] {
	const curves: Curve[] = diff ? comparedCurves(diff) : [];
	const { memory, counters } = capture;
	if (memory.n > 0) {
		const time = memory.column("time_s") ?? [];
		const heap = memory.column("heap") ?? [];
		const rss = memory.column("rss") ?? [];
		const values = [rss, heap].filter((v) => most(v) > 0);
		const name = most(rss) > 0 && most(heap) > 0 ? "RSS (area), heap (line)" : most(rss) > 0 ? "memory (RSS)" : "heap";
		if (values.length > 0) curves.push({ name, unit: "bytes", time, values, top: Math.max(...values.map(most)) });
	}
	const names = counters.column("name");
	if (names) {
		const rows = new Map<number, number[]>();
		for (let i = 0; i < counters.n; i++) {
			const known = rows.get(names[i]);
			if (known) known.push(i);
			else rows.set(names[i], [i]);
		}
		for (const [name, at] of rows) {
			const time = Float64Array.from(at, (i) => counters.get("time_s", i));
			const values = Float64Array.from(at, (i) => counters.get("value", i));
			curves.push({ name: capture.strings.get(name), unit: "", time, values: [values], top: most(values) });
		}
	}
	return curves;
}

// How high lanes of n things are that share some pixels.
const heightOf = (pixels: number, n: number, least: number, most: number) =>
	Math.max(least, Math.min(most, Math.floor(pixels / Math.max(1, n))));

// Few threads on a tall screen have high lanes: what is drawn in them has room. Zones take it where there are any.
export function lanesOf(
	capture: Capture,
	curves: Curve[],
	zones: ZoneRows | null,
	room: number,
): { lanes: Lane[]; height: number } {
	const { threads, processes } = capture;
	const rest = room - GAP_PX - (processes.n > 1 ? processes.n * PROCESS_PX : 0);
	const activity = zones
		? ACTIVITY_PX
		: heightOf(rest - curves.length * (CURVE_PX + GAP_PX), threads.n, ACTIVITY_PX, MOST_ACTIVITY_PX);
	const curve = zones
		? CURVE_PX
		: heightOf(rest - threads.n * activity, curves.length, CURVE_PX + GAP_PX, MOST_CURVE_PX) - GAP_PX;
	const lanes: Lane[] = [];
	let top = 0;
	const putCurve = (_: Curve, index: number) => {
		lanes.push({ kind: "curve", top, height: curve, index, zoneTop: 0 });
		top += curve + GAP_PX;
	};
	// Many counters would leave no thread in sight: they come last.
	const isMany = threads.n > 0 && curves.length * (CURVE_PX + GAP_PX) > MOST_ABOVE * room;
	const isAbove = (c: Curve) => !isMany || c.unit !== "";
	curves.forEach((c, index) => isAbove(c) && putCurve(c, index));
	const byProcess = new Map<number, number[]>();
	for (let t = 0; t < threads.n; t++) {
		const known = byProcess.get(threads.process[t]);
		if (known) known.push(t);
		else byProcess.set(threads.process[t], [t]);
	}
	for (const [process, list] of byProcess) {
		if (processes.n > 1 && process !== NONE) {
			lanes.push({ kind: "process", top, height: PROCESS_PX, index: process, zoneTop: 0 });
			top += PROCESS_PX;
		}
		list.sort((a, b) => threads.cpu[b] - threads.cpu[a] || threads.start[a] - threads.start[b]);
		for (const t of list) {
			const depth = zones?.depth[t] ?? 0;
			const height = activity + depth * ZONE_PX + (depth > 0 ? GAP_PX : 0);
			lanes.push({ kind: "thread", top, height, index: t, zoneTop: activity });
			top += height;
		}
	}
	curves.forEach((c, index) => isAbove(c) || putCurve(c, index));
	return { lanes, height: top + GAP_PX };
}

export function coloursOf(theme: Theme): TimelineColours {
	const isLight = theme === "light";
	return {
		classes: CLASS_NAMES.map((_, c) => pixel(classColour(c, theme))),
		background: pixel(isLight ? [255, 255, 255] : oklch(0.21, 0.008, 250)),
		laneBackground: pixel(isLight ? oklch(0.975, 0.003, 250) : oklch(0.24, 0.008, 250)),
		curves: [
			pixel(isLight ? oklch(0.87, 0.04, 250) : oklch(0.4, 0.05, 250)),
			pixel(isLight ? oklch(0.55, 0.13, 175) : oklch(0.75, 0.12, 175)),
		],
	};
}

// A zone has the colour of its function, and of its name where it has one of its own.
export function whatColours(capture: Capture, theme: Theme): (what: number) => number {
	const { n, fn, name } = capture.whats;
	const colours = Uint32Array.from({ length: n }, (_, i) => {
		const key = fn[i] + 7 * name[i];
		const lightness = (theme === "light" ? 0.82 : 0.46) + (key % 5) * 0.01;
		return pixel(oklch(lightness, 0.08, HUES[(Math.imul(key, 0x9e3779b1) >>> 8) % HUES.length]));
	});
	return (what) => colours[what];
}

// The zone at a place of a lane: of the closest picture there.
export function zoneAt(
	zones: ZoneRows | null,
	layers: readonly ZoneLayer[],
	thread: number,
	y: number,
	t: number,
): { zones: Zones; zone: number } | null {
	if (!zones || y < ACTIVITY_PX) return null;
	const layer = layers.find((l) => l.has(thread) && t >= l.from && t < l.to);
	const rows = layer?.rows ?? zones;
	const depth = Math.floor((y - ACTIVITY_PX) / ZONE_PX);
	if (rows.first[thread] < 0 || depth >= rows.depth[thread]) return null;
	const span = spanAt(rows.layout, rows.first[thread] + depth, t);
	return span < 0 ? null : { zones: rows.zones, zone: rows.layout.node[span] };
}
