// SPDX-License-Identifier: Apache-2.0
// The run at a glance: what is counted in each of a few hundred equal parts of it, over all threads that the filter leaves.
import type { Capture } from "./capture";
import { nodeMask, threadMask, type Step } from "./filter";
import type { Metric } from "./metrics";

export const COLUMNS = 720;

export interface Overview {
	layers: { cls: number; values: Float64Array }[]; // drawn upon one another, the first at the bottom
	top: number; // the most of any column
	at: number; // when that is, seconds
}

function timeOverview(capture: Capture, metric: Metric, steps: readonly Step[]): Overview | null {
	const { samples, end } = capture;
	if (!samples) return null;
	const threads = threadMask(capture, steps);
	const nodes = nodeMask(capture, steps);
	const byClass = new Map(metric.classes.map((cls) => [cls, new Float64Array(COLUMNS)]));
	const width = end / COLUMNS;
	for (let i = 0; i < samples.n; i++) {
		const values = byClass.get(samples.class[i]);
		if (!values || (threads && !threads[samples.thread[i]]) || (nodes && !nodes[samples.node[i]])) continue;
		const from = samples.time[i];
		const to = from + samples.weight[i];
		const last = Math.min(COLUMNS - 1, Math.floor(to / width));
		for (let c = Math.max(0, Math.floor(from / width)); c <= last; c++)
			values[c] += Math.max(0, Math.min(to, (c + 1) * width) - Math.max(from, c * width)) / width;
	}
	const layers = [...byClass].map(([cls, values]) => ({ cls, values })).filter((l) => l.values.some((v) => v > 0));
	return withTop(layers, end);
}

// The most memory in each part; where the heap was not watched, that of the whole process.
function memoryOverview({ memory, end }: Capture): Overview | null {
	const time = memory.column("time_s");
	const heap = memory.column("heap");
	const values = heap?.some((v) => v > 0) ? heap : memory.column("rss");
	if (!time || !values || memory.n === 0) return null;
	const columns = new Float64Array(COLUMNS);
	for (let i = 0; i < memory.n; i++) {
		const first = Math.max(0, Math.floor((time[i] / end) * COLUMNS));
		const last = Math.min(COLUMNS - 1, i + 1 < memory.n ? Math.floor((time[i + 1] / end) * COLUMNS) : COLUMNS - 1);
		for (let c = first; c <= last; c++) columns[c] = Math.max(columns[c], values[i]);
	}
	return withTop([{ cls: -1, values: columns }], end);
}

function withTop(layers: Overview["layers"], end: number): Overview | null {
	let top = 0;
	let best = 0;
	for (let c = 0; c < COLUMNS; c++) {
		const sum = layers.reduce((s, l) => s + l.values[c], 0);
		if (sum > top) [top, best] = [sum, c];
	}
	return top > 0 ? { layers, top, at: ((best + 0.5) / COLUMNS) * end } : null;
}

// Of the filter, the range is left aside: it is what is chosen here.
export function overviewOf(capture: Capture, metric: Metric, steps: readonly Step[]): Overview | null {
	if (metric.column) return memoryOverview(capture);
	return timeOverview(
		capture,
		metric,
		steps.filter((s) => s.kind !== "range"),
	);
}

// A layer as the outline of its steps, `height` high in all, upon those below it.
export function outlineOf(overview: Overview, layer: number, height: number): string {
	const y = (c: number, layers: number) => {
		let sum = 0;
		for (let l = 0; l < layers; l++) sum += overview.layers[l].values[c];
		return +(height * (1 - sum / overview.top)).toFixed(2);
	};
	const parts: string[] = [];
	for (let c = 0; c < COLUMNS; c++) parts.push(`${c === 0 ? "M" : "L"}${c} ${y(c, layer + 1)}H${c + 1}`);
	for (let c = COLUMNS - 1; c >= 0; c--) parts.push(`L${c + 1} ${y(c, layer)}H${c}`);
	return `${parts.join("")}Z`;
}
