// SPDX-License-Identifier: Apache-2.0
// What each thread did in each slice of time, for drawing at any zoom. The whole run is counted once into a fixed number of slices;
// closer than that, the few samples in sight are counted directly.
import type { Capture, Samples } from "./capture";
import { N_CLASSES } from "./classes";

const MAX_SLICES = 8192;
const MAX_NUMBERS = 12_000_000; // 48 MB

export interface Activity {
	slices: number;
	sums: Float32Array; // [thread][slice][class], seconds
	end: number;
}

// Adds the time of a sample to the slices that it covers.
function spread(
	sums: Float32Array,
	at: number,
	slices: number,
	width: number,
	origin: number,
	from: number,
	to: number,
	cls: number,
): void {
	const first = Math.max(0, Math.floor((from - origin) / width));
	const last = Math.min(slices - 1, Math.floor((to - origin) / width));
	for (let s = first; s <= last; s++) {
		const inside = Math.min(to, origin + (s + 1) * width) - Math.max(from, origin + s * width);
		if (inside > 0) sums[at + s * N_CLASSES + cls] += inside;
	}
}

export function activityOf(capture: Capture, samples: Samples | null, nodes: Uint8Array | null): Activity {
	const { threads, end } = capture;
	const slices = Math.max(64, Math.min(MAX_SLICES, Math.floor(MAX_NUMBERS / N_CLASSES / Math.max(1, threads.n))));
	const sums = new Float32Array(threads.n * slices * N_CLASSES);
	if (samples)
		for (let i = 0; i < samples.n; i++) {
			if (samples.class[i] >= N_CLASSES || (nodes && !nodes[samples.node[i]])) continue;
			spread(
				sums,
				samples.thread[i] * slices * N_CLASSES,
				slices,
				end / slices,
				0,
				samples.time[i],
				samples.time[i] + samples.weight[i],
				samples.class[i],
			);
		}
	return { slices, sums, end };
}

// Seconds of each class in each of `columns` equal parts of [from, to]; out has columns * N_CLASSES numbers.
export function activityIn(
	activity: Activity,
	samples: Samples | null,
	nodes: Uint8Array | null,
	thread: number,
	from: number,
	to: number,
	columns: number,
	out: Float32Array,
): void {
	out.fill(0);
	const width = (to - from) / columns;
	const slice = activity.end / activity.slices;
	if (slice > width && samples) {
		for (let i = sampleAt(samples, thread, from); i < samples.first[thread + 1] && samples.time[i] <= to; i++)
			if (samples.class[i] < N_CLASSES && (!nodes || nodes[samples.node[i]]))
				spread(
					out,
					0,
					columns,
					width,
					from,
					Math.max(from, samples.time[i]),
					Math.min(to, samples.time[i] + samples.weight[i]),
					samples.class[i],
				);
		return;
	}
	const base = thread * activity.slices * N_CLASSES;
	const first = Math.max(0, Math.floor(from / slice));
	const last = Math.min(activity.slices - 1, Math.ceil(to / slice));
	for (let s = first; s <= last; s++) {
		// A slice is narrower than a column here, so it lies in one or in two; by share, or the sums would beat.
		const place = (s * slice - from) / width;
		const column = Math.floor(place);
		const second = Math.min(1, Math.max(0, (place + slice / width - column - 1) * (width / slice)));
		for (let c = 0; c < N_CLASSES; c++) {
			const sum = activity.sums[base + s * N_CLASSES + c];
			if (!(sum > 0)) continue;
			if (column >= 0 && column < columns) out[column * N_CLASSES + c] += sum * (1 - second);
			if (second > 0 && column + 1 >= 0 && column + 1 < columns) out[(column + 1) * N_CLASSES + c] += sum * second;
		}
	}
}

// The last sample of a thread that begins at or before a time, or its first: samples of one thread do not overlap.
export function sampleAt(samples: Samples, thread: number, time: number): number {
	const first = samples.first[thread];
	const next = lowerBound(samples.time, first, samples.first[thread + 1], time);
	return next < samples.first[thread + 1] && samples.time[next] === time ? next : Math.max(first, next - 1);
}

export function lowerBound(values: ArrayLike<number>, from: number, to: number, wanted: number): number {
	let lo = from;
	let hi = to;
	while (lo < hi) {
		const mid = (lo + hi) >>> 1;
		if (values[mid] < wanted) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}
