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
function spread(sums: Float32Array, at: number, slices: number, width: number, origin: number, from: number, to: number, cls: number): void {
	const first = Math.max(0, Math.floor((from - origin) / width));
	const last = Math.min(slices - 1, Math.floor((to - origin) / width));
	for (let s = first; s <= last; s++) {
		const inside = Math.min(to, origin + (s + 1) * width) - Math.max(from, origin + s * width);
		if (inside > 0) sums[at + s * N_CLASSES + cls] += inside;
	}
}

export function activityOf(capture: Capture, nodes: Uint8Array | null): Activity {
	const { samples, threads, end } = capture;
	const slices = Math.max(64, Math.min(MAX_SLICES, Math.floor(MAX_NUMBERS / N_CLASSES / Math.max(1, threads.n))));
	const sums = new Float32Array(threads.n * slices * N_CLASSES);
	if (samples)
		for (let i = 0; i < samples.n; i++) {
			if (samples.class[i] >= N_CLASSES || (nodes && !nodes[samples.node[i]])) continue;
			spread(sums, samples.thread[i] * slices * N_CLASSES, slices, end / slices, 0, samples.time[i] - samples.weight[i], samples.time[i], samples.class[i]);
		}
	return { slices, sums, end };
}

// Seconds of each class in each of `columns` equal parts of [from, to]; out has columns * N_CLASSES numbers.
export function activityIn(activity: Activity, samples: Samples | null, nodes: Uint8Array | null, thread: number, from: number, to: number, columns: number, out: Float32Array): void {
	out.fill(0);
	const width = (to - from) / columns;
	const slice = activity.end / activity.slices;
	if (slice > width && samples) {
		const low = lowerBound(samples.time, samples.first[thread], samples.first[thread + 1], from);
		for (let i = low; i < samples.first[thread + 1]; i++) {
			const start = samples.time[i] - samples.weight[i];
			// Samples of one thread do not overlap: the first that starts after the window ends the search.
			if (start > to) break;
			if (samples.class[i] < N_CLASSES && (!nodes || nodes[samples.node[i]])) spread(out, 0, columns, width, from, Math.max(from, start), Math.min(to, samples.time[i]), samples.class[i]);
		}
		return;
	}
	const base = thread * activity.slices * N_CLASSES;
	const first = Math.max(0, Math.floor(from / slice));
	const last = Math.min(activity.slices - 1, Math.ceil(to / slice));
	for (let s = first; s <= last; s++) {
		// A slice is narrower than a column here: it goes to the one that has its middle.
		const column = Math.floor(((s + 0.5) * slice - from) / width);
		if (column < 0 || column >= columns) continue;
		for (let c = 0; c < N_CLASSES; c++) out[column * N_CLASSES + c] += activity.sums[base + s * N_CLASSES + c];
	}
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
