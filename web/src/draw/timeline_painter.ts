// SPDX-License-Identifier: Apache-2.0
// Paints the lanes of a timeline into pixels: what each thread did as stacked columns, zones as spans, curves as areas.
import { activityIn, type Activity } from "../data/activity";
import type { Samples } from "../data/capture";
import { N_CLASSES } from "../data/classes";
import type { ZoneRows } from "../data/zone_rows";
import type { ZoneLayer } from "../data/zone_tiles";
import { fillRow, mix } from "./row_painter";

export interface Lane {
	kind: "process" | "thread" | "curve";
	top: number; // css pixels, before scrolling
	height: number;
	index: number; // process, thread, or curve
	zoneTop: number; // where what it did ends and its zones begin, relative to top
}

export interface Curve {
	name: string;
	note?: string;
	unit: "bytes" | "cores" | "";
	time: ArrayLike<number>;
	values: ArrayLike<number>[]; // drawn over one another, the first at the back
	top: number;
}

export const ACTIVITY_PX = 24; // at least
export const ZONE_PX = 14;

export interface Scene {
	lanes: Lane[];
	activity: Activity;
	samples: Samples | null;
	nodes: Uint8Array | null;
	zones: ZoneRows | null;
	layers: ZoneLayer[]; // closer looks, in place of what zones has there
	colourOfWhat: (what: number) => number;
	curves: Curve[];
}

export interface TimelineColours {
	classes: number[];
	background: number;
	laneBackground: number;
	curves: number[];
}

export interface ZoneLabel {
	x: number;
	y: number;
	width: number;
	what: number;
	count: number; // zones that it stands for
}

export function paintTimeline(
	buffer: Uint32Array,
	width: number,
	height: number,
	ratio: number,
	scene: Scene,
	from: number,
	to: number,
	scroll: number,
	colours: TimelineColours,
): ZoneLabel[] {
	buffer.fill(colours.background);
	const columns = new Float32Array(width * N_CLASSES);
	const labels: ZoneLabel[] = [];
	const column = (to - from) / width;
	for (const lane of scene.lanes) {
		const top = Math.round((lane.top - scroll) * ratio);
		const bottom = Math.round((lane.top + lane.height - scroll) * ratio);
		if (bottom <= 0 || top >= height) continue;
		if (lane.kind === "curve")
			paintCurve(buffer, width, height, top + 2, bottom - 2, scene.curves[lane.index], from, to, colours);
		if (lane.kind !== "thread") continue;
		activityIn(scene.activity, scene.samples, scene.nodes, lane.index, from, to, width, columns);
		const barBottom = Math.round((lane.top + lane.zoneTop - scroll) * ratio) - 2;
		const full = Math.round((lane.zoneTop - 5) * ratio);
		paintBars(buffer, width, height, barBottom, full, columns, column, colours);
		if (scene.zones && scene.zones.first[lane.index] >= 0)
			for (let d = 0; d < scene.zones.depth[lane.index]; d++) {
				const y0 = Math.round((lane.top + lane.zoneTop + d * ZONE_PX - scroll) * ratio);
				const y1 = Math.min(height, Math.round((lane.top + lane.zoneTop + (d + 1) * ZONE_PX - scroll) * ratio) - 1);
				const start = Math.max(0, y0);
				if (y1 <= start) continue;
				const line = buffer.subarray(start * width, (start + 1) * width);
				paintZones(line, scene, lane.index, d, from, to, colours.background, (x, right, what, count) => {
					if (right - x > 30 * ratio) labels.push({ x, y: y0, width: right - x, what, count });
				});
				for (let y = start + 1; y < y1; y++) buffer.copyWithin(y * width, start * width, (start + 1) * width);
			}
	}
	return labels;
}

// What a thread did, one bar of its kinds of time for each column. By scanlines: columns would touch another line of memory with every
// pixel, which on a large screen is most of a frame.
function paintBars(
	buffer: Uint32Array,
	width: number,
	height: number,
	bottom: number,
	full: number,
	columns: Float32Array,
	column: number,
	colours: TimelineColours,
): void {
	const ends = new Int32Array(width * N_CLASSES); // the highest scanline of each part, from the bottom up
	const kinds = new Uint8Array(width * N_CLASSES);
	const parts = new Uint8Array(width);
	for (let x = 0; x < width; x++) {
		let y = bottom;
		for (let c = 0; c < N_CLASSES && y > bottom - full; c++) {
			const seconds = columns[x * N_CLASSES + c];
			if (!(seconds > 0)) continue;
			// Time that is there at all gets a pixel: a short burst must not vanish.
			y -= Math.max(1, Math.min(y - (bottom - full), Math.round((seconds / column) * full)));
			ends[x * N_CLASSES + parts[x]] = y;
			kinds[x * N_CLASSES + parts[x]++] = c;
		}
	}
	const at = new Uint8Array(width);
	for (let y = bottom - 1; y >= Math.max(0, bottom - full); y--) {
		const line = y < height ? buffer.subarray(y * width, (y + 1) * width) : null;
		line?.fill(colours.laneBackground);
		for (let x = 0; x < width; x++) {
			const part = at[x];
			if (part >= parts[x]) continue;
			if (line) line[x] = colours.classes[kinds[x * N_CLASSES + part]];
			if (ends[x * N_CLASSES + part] === y) at[x]++;
		}
	}
}

// One row of one thread: the coarse picture, and closer ones where they are known.
function paintZones(
	line: Uint32Array,
	scene: Scene,
	thread: number,
	depth: number,
	from: number,
	to: number,
	background: number,
	wide: (left: number, right: number, what: number, count: number) => void,
): void {
	const column = (t: number) =>
		Math.min(line.length, Math.max(0, Math.round(((t - from) / (to - from)) * line.length)));
	const timeOf = (x: number) => from + ((to - from) * x) / line.length;
	const paint = (rows: ZoneRows, left: number, right: number) => {
		if (right <= left || rows.first[thread] < 0 || depth >= rows.depth[thread]) return;
		const { what, count, busy, duration } = rows.zones;
		const colourOf = (zone: number) => {
			const colour = scene.colourOfWhat(what[zone]);
			if (!count || !busy || count[zone] < 2) return colour;
			// Several that are too narrow: the fuller, the stronger.
			return mix(colour, background, Math.min(1, 0.35 + (0.65 * busy[zone]) / duration[zone]));
		};
		fillRow(
			line.subarray(left, right),
			rows.layout,
			rows.first[thread] + depth,
			timeOf(left),
			timeOf(right),
			background,
			colourOf,
			(span, x0, x1) => {
				const zone = rows.layout.node[span];
				wide(left + x0, left + x1, what[zone], count?.[zone] ?? 1);
			},
		);
	};
	let done = 0;
	for (const layer of scene.layers) {
		if (!layer.has(thread) || layer.to <= from || layer.from >= to) continue;
		const [left, right] = [column(layer.from), column(layer.to)];
		if (scene.zones && left > done) paint(scene.zones, done, left);
		paint(layer.rows, left, right);
		done = Math.max(done, right);
	}
	if (scene.zones && done < line.length) paint(scene.zones, done, line.length);
}

const LINE_PX = 2;

function paintCurve(
	buffer: Uint32Array,
	width: number,
	height: number,
	top: number,
	bottom: number,
	curve: Curve,
	from: number,
	to: number,
	colours: TimelineColours,
): void {
	const n = curve.time.length;
	if (n === 0 || !(curve.top > 0)) return;
	// The first is an area, any other a line over it: none hides another, whichever is higher.
	const lastY = new Int32Array(curve.values.length).fill(-1);
	let i = 0;
	for (let x = 0; x < width; x++) {
		const t0 = from + ((to - from) * x) / width;
		const t1 = from + ((to - from) * (x + 1)) / width;
		while (i + 1 < n && curve.time[i + 1] <= t0) i++;
		if (curve.time[i] > t1 && i === 0) continue;
		for (let k = 0; k < curve.values.length; k++) {
			// The most of what falls into the column: a peak is what memory is looked at for.
			let v = curve.values[k][i];
			for (let j = i + 1; j < n && curve.time[j] < t1; j++) v = Math.max(v, curve.values[k][j]);
			const y0 = Math.round(bottom - ((bottom - top) * Math.min(v, curve.top)) / curve.top);
			const before = lastY[k] < 0 ? y0 : lastY[k];
			const end = k === 0 ? bottom : Math.min(bottom, Math.max(before, y0) + LINE_PX);
			const colour = colours.curves[k % colours.curves.length];
			for (let y = Math.max(0, k === 0 ? y0 : Math.min(before, y0)); y < Math.min(height, end); y++)
				buffer[y * width + x] = colour;
			lastY[k] = y0;
		}
	}
}
