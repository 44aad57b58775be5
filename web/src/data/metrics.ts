// SPDX-License-Identifier: Apache-2.0
// What a flame graph's width can stand for. A metric is offered only when the capture has something of it.
import type { Capture } from "./capture";
import { CLASS_GC, CLASS_GIL_WAIT, CLASS_NATIVE, CLASS_PYTHON, CLASS_SYSTEM, CLASS_WAIT } from "./classes";

export type HeapColumn = "alloc" | "peak" | "leak" | "copy";

export interface Metric {
	id: string;
	label: string;
	unit: "s" | "bytes";
	classes: readonly number[]; // of time; empty for memory
	column: HeapColumn | null;
}

const time = (id: string, label: string, ...classes: number[]): Metric => ({
	id,
	label,
	unit: "s",
	classes,
	column: null,
});
const heap = (id: HeapColumn, label: string): Metric => ({ id, label, unit: "bytes", classes: [], column: id });

export const METRICS: readonly Metric[] = [
	time("cpu", "CPU time", CLASS_PYTHON, CLASS_NATIVE, CLASS_SYSTEM, CLASS_GC),
	time("both", "CPU and waiting", CLASS_PYTHON, CLASS_NATIVE, CLASS_SYSTEM, CLASS_GC, CLASS_GIL_WAIT, CLASS_WAIT),
	time("wait", "Waiting", CLASS_GIL_WAIT, CLASS_WAIT),
	time("gil", "Waiting for the GIL", CLASS_GIL_WAIT),
	time("python", "Python", CLASS_PYTHON),
	time("native", "Native", CLASS_NATIVE),
	time("system", "System", CLASS_SYSTEM),
	time("gc", "Garbage collector", CLASS_GC),
	heap("alloc", "Allocated"),
	heap("peak", "Held at the peak"),
	heap("leak", "Leaked"),
	heap("copy", "Copied"),
];

export const CPU = METRICS[0];

// The metrics with data. With waiting it is CPU time again where nothing waited, and then not offered twice.
export function metricsOf(capture: Capture): Metric[] {
	const seen = new Uint8Array(256);
	for (let i = 0; i < capture.cells.n; i++) seen[capture.cells.class[i]] = 1;
	const some = (column: Float64Array) => column.some((v) => v > 0);
	const waits = seen[CLASS_GIL_WAIT] || seen[CLASS_WAIT];
	const found = METRICS.filter((m) => {
		const { heap } = capture;
		if (m.column)
			return heap !== null && (some(heap[m.column]) || (heap.base !== undefined && some(heap.base[m.column])));
		if (m.id === "cpu") return true;
		if (m.id === "both") return Boolean(waits);
		return m.classes.some((c) => seen[c]);
	});
	return found;
}

export function metricById(capture: Capture, id: string): Metric {
	const metrics = metricsOf(capture);
	return metrics.find((m) => m.id === id) ?? metrics[0];
}
