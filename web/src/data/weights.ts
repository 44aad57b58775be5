// SPDX-License-Identifier: Apache-2.0
// How much of a metric ends in each node, under the user's filter. Everything else is sums of this.
import type { Capture } from "./capture";
import { N_CLASSES } from "./classes";
import { nodeMask, rangeOf, threadMask, type Step } from "./filter";
import { heapOf } from "./heap_range";
import type { HeapColumn, Metric } from "./metrics";

// Calls visit(node, class, seconds, thread) for all time that the filter leaves. With a range it comes from the samples (each
// counts for the part of it inside the range), else from the cells, which are exact.
export function eachTime(
	capture: Capture,
	steps: readonly Step[],
	useBase: boolean,
	visit: (node: number, cls: number, seconds: number, thread: number) => void,
): void {
	const range = rangeOf(steps);
	const { cells, samples } = capture;
	if (range && samples && !useBase) {
		const [from, to] = range;
		const threads = threadMask(capture, steps);
		const nodes = nodeMask(capture, steps);
		for (let i = 0; i < samples.n; i++) {
			if ((threads && !threads[samples.thread[i]]) || (nodes && !nodes[samples.node[i]])) continue;
			const weight = samples.weight[i];
			const inside = Math.min(to, samples.time[i] + weight) - Math.max(from, samples.time[i]);
			if (inside > 0) visit(samples.node[i], samples.class[i], Math.min(inside, weight), samples.thread[i]);
		}
		return;
	}
	const weights = useBase && cells.base ? cells.base : cells.weight;
	eachCell(capture, steps, (i) => visit(cells.node[i], cells.class[i], weights[i], cells.thread[i]));
}

// Calls visit(cell) for those of the filter's threads and functions.
export function eachCell(capture: Capture, steps: readonly Step[], visit: (cell: number) => void): void {
	const threads = threadMask(capture, steps);
	const nodes = nodeMask(capture, steps);
	const { n, thread, node } = capture.cells;
	for (let i = 0; i < n; i++) if ((!threads || threads[thread[i]]) && (!nodes || nodes[node[i]])) visit(i);
}

// How many bytes end in each node.
export function heapWeights(
	capture: Capture,
	column: HeapColumn,
	steps: readonly Step[],
	ofBase = false,
): Float64Array {
	const self = new Float64Array(capture.nodes.n);
	const heap = heapOf(capture, steps);
	if (!heap) return self;
	const { n, node, thread } = heap;
	const values = ofBase ? heap.base?.[column] : heap[column];
	if (!values) return self;
	const threads = threadMask(capture, steps);
	const nodes = nodeMask(capture, steps);
	for (let i = 0; i < n; i++)
		if ((!threads || threads[thread[i]]) && (!nodes || nodes[node[i]])) self[node[i]] += values[i];
	return self;
}

export function selfWeights(capture: Capture, metric: Metric, steps: readonly Step[], useBase = false): Float64Array {
	const self = new Float64Array(capture.nodes.n);
	if (metric.column) return heapWeights(capture, metric.column, steps, useBase);
	const wanted = new Uint8Array(256);
	for (const c of metric.classes) wanted[c] = 1;
	eachTime(capture, steps, useBase, (node, cls, seconds) => {
		if (wanted[cls]) self[node] += seconds;
	});
	return self;
}

// All of a metric that the filter leaves, in every thread: what each percentage of the page is of.
export function wholeOf(capture: Capture, metric: Metric, steps: readonly Step[], ofBase = false): number {
	if (metric.column) return heapWeights(capture, metric.column, steps, ofBase).reduce((a, b) => a + b, 0);
	let sum = 0;
	eachTime(capture, steps, ofBase, (_node, cls, seconds) => {
		if (metric.classes.includes(cls)) sum += seconds;
	});
	return sum;
}

// Seconds of each class in all that the filter leaves.
export function classTotals(capture: Capture, steps: readonly Step[]): Float64Array {
	const totals = new Float64Array(N_CLASSES);
	eachTime(capture, steps, false, (_node, cls, seconds) => {
		if (cls < N_CLASSES) totals[cls] += seconds;
	});
	return totals;
}

// Sums up the tree: parents come before children, so one pass backwards is enough.
export function totalsOf(parent: ArrayLike<number>, self: Float64Array): Float64Array {
	const total = self.slice();
	for (let i = total.length - 1; i > 0; i--) total[parent[i]] += total[i];
	return total;
}
