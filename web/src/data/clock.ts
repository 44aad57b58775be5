// SPDX-License-Identifier: Apache-2.0
// What one thread did with the wall time. Sums over all threads answer another question: a pool that waits adds its hours to them.
import type { Capture } from "./capture";
import { CLASS_GIL_WAIT, CLASS_NO_CPU, CLASS_WAIT } from "./classes";
import { rangeOf, type Step } from "./filter";
import { withGaps } from "./gaps";
import { classTotals, eachTime } from "./weights";

const IDLE_SHARE = 0.95; // of a thread's life

// The first process's first thread, or the busiest where that is not known. A shell that has become the program by exec had the same
// number: the one that lived longer is meant.
export function mainThread(capture: Capture): number {
	const { threads, processes } = capture;
	let busiest = threads.n > 0 ? 0 : -1;
	let main = -1;
	for (let t = 0; t < threads.n; t++) {
		const isFirst = processes.n > 0 && threads.tid[t] === processes.get("pid", 0);
		if (isFirst && (main < 0 || threads.wall[t] > threads.wall[main])) main = t;
		if (threads.cpu[t] > threads.cpu[busiest]) busiest = t;
	}
	return main >= 0 ? main : busiest;
}

// The chosen one, or the one with the most CPU time, or with the most samples.
export function busiestThread(capture: Capture, chosen: number): number {
	const { samples, threads } = capture;
	if (chosen >= 0 && chosen < threads.n) return chosen;
	let best = 0;
	for (let t = 1; t < threads.n; t++) {
		const size = (i: number) => (samples ? samples.first[i + 1] - samples.first[i] : 0);
		if (threads.cpu[t] > threads.cpu[best] || (threads.cpu[t] === threads.cpu[best] && size(t) > size(best))) best = t;
	}
	return best;
}

// From a thread's begin to its end, or of the run where neither is known.
export function lifeOf({ threads, end }: Capture, thread: number): [number, number] {
	return threads.end[thread] > threads.start[thread] ? [threads.start[thread], threads.end[thread]] : [0, end];
}

export interface Clock {
	thread: number;
	wall: number; // seconds
	values: number[]; // by class
}

// How much of a range a thread lived.
export function livedIn(capture: Capture, thread: number, range: [number, number] | null): number {
	const { start, end, wall } = capture.threads;
	return range ? Math.max(0, Math.min(range[1], end[thread]) - Math.max(range[0], start[thread])) : wall[thread];
}

function withoutCpu(capture: Capture, thread: number, range: [number, number] | null): number {
	if (!range) return capture.threads.noCpu[thread];
	const samples = withGaps(capture);
	let sum = 0;
	for (let i = samples?.first[thread] ?? 0; samples && i < samples.first[thread + 1]; i++)
		if (samples.class[i] === CLASS_NO_CPU)
			sum += Math.max(0, Math.min(range[1], samples.time[i] + samples.weight[i]) - Math.max(range[0], samples.time[i]));
	return sum;
}

// `first` has the samples and `range` is the filter's, where the capture is what the server counted for it. Of some functions only, the
// clock is what was seen of them.
export function clockOf(
	capture: Capture,
	thread: number,
	steps: readonly Step[],
	first = capture,
	range = rangeOf(steps),
): Clock {
	const rest = steps.filter((s) => s.kind !== "thread" && s.kind !== "process");
	const values = Array.from(classTotals(capture, [...rest, { kind: "thread", keep: true, id: thread }]));
	if (rest.some((s) => s.kind !== "range")) return { thread, wall: 0, values };
	values[CLASS_NO_CPU] = withoutCpu(first, thread, range);
	return { thread, wall: livedIn(first, thread, range), values };
}

// CPU time of each thread, of what the filter leaves.
export function cpuByThread(capture: Capture, steps: readonly Step[]): Float64Array {
	if (steps.length === 0 && !capture.isPart) return capture.threads.cpu;
	const cpu = new Float64Array(capture.threads.n);
	eachTime(capture, steps, false, (_node, cls, seconds, thread) => {
		if (cls < CLASS_GIL_WAIT) cpu[thread] += seconds;
	});
	return cpu;
}

export interface Idle {
	n: number; // threads that waited nearly all the time that the filter leaves of them
	waited: number; // seconds of these, added up
}

// How long each of those waited that did next to nothing else; 0 for the others.
export function idleWaits(
	capture: Capture,
	but: number,
	steps: readonly Step[] = [],
	first = capture,
	range = rangeOf(steps),
): Float64Array {
	const { threads } = capture;
	const waited = new Float64Array(threads.n);
	const rest = cpuByThread(capture, steps).map((s, t) => s + withoutCpu(first, t, range));
	eachTime(capture, steps, false, (_node, cls, seconds, thread) => {
		if (cls === CLASS_WAIT || cls === CLASS_GIL_WAIT) waited[thread] += seconds;
	});
	return waited.map((w, t) => (t !== but && w > IDLE_SHARE * (w + rest[t]) ? w : 0));
}

export function idleThreads(...of: Parameters<typeof idleWaits>): Idle {
	const waited = idleWaits(...of).filter((w) => w > 0);
	return { n: waited.length, waited: waited.reduce((a, b) => a + b, 0) };
}
