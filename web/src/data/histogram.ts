// SPDX-License-Identifier: Apache-2.0
// How long the calls of one function took: counts in buckets that grow by a constant factor, for times that differ by
// factors.
import type { Capture } from "./capture";
import type { Step } from "./filter";
import { isOfPart, zoneMask } from "./zone_mask";

export interface Histogram {
	calls: Uint32Array; // zones that the page has one by one, shortest first
	n: number; // calls in all
	counts: Uint32Array;
	edges: Float64Array; // one more than counts
	median: number;
	p95: number;
	p99: number;
}

const BARS = 48;

// The program counts durations by eight buckets an octave (core/aggregate/trace/duration_buckets.h).
export function bucketOf(ns: number): number {
	if (ns < 8) return Math.floor(ns);
	const octave = Math.floor(Math.log2(ns));
	return (octave - 2) * 8 + (Math.floor(ns / 2 ** (octave - 3)) & 7);
}
export function bucketFrom(bucket: number): number {
	return bucket < 8 ? bucket : (8 + (bucket % 8)) * 2 ** (Math.floor(bucket / 8) - 1);
}

// 1 for what is of this function: several codes may be one.
export const whatsOf = (capture: Capture, fn: number) => Uint8Array.from(capture.whats.fn, (f) => (f === fn ? 1 : 0));

// isOf says of what: 1 for each that counts.
export function histogramOf(capture: Capture, isOf: Uint8Array, steps: readonly Step[]): Histogram | null {
	const { zones, head } = capture;
	if (!zones) return null;
	const mask = zoneMask(capture, steps);
	const found: number[] = [];
	for (let i = 0; i < zones.n; i++) if (mask[i] && isOf[zones.what[i]]) found.push(i);
	const calls = Uint32Array.from(found).sort((a, b) => zones.duration[a] - zones.duration[b]);
	const { zones_merged: merged = 0, zones_left_out: missing = 0 } = head.limits ?? {};
	if (!isOfPart(steps) && merged + missing > 0) return fromCounts(capture, isOf, calls);
	return calls.length > 0 ? fromCalls(zones.duration, calls) : null;
}

function fromCalls(duration: Float64Array, calls: Uint32Array): Histogram {
	const at = (q: number) => duration[calls[Math.min(calls.length - 1, Math.floor(q * calls.length))]];
	const low = Math.max(1e-9, at(0));
	const high = Math.max(low * 1.0001, at(1));
	const edges = Float64Array.from({ length: BARS + 1 }, (_, i) => low * (high / low) ** (i / BARS));
	const counts = new Uint32Array(BARS);
	const scale = BARS / Math.log(high / low);
	for (const c of calls)
		counts[Math.max(0, Math.min(BARS - 1, Math.floor(Math.log(Math.max(low, duration[c]) / low) * scale)))]++;
	return { calls, n: calls.length, counts, edges, median: at(0.5), p95: at(0.95), p99: at(0.99) };
}

// Equal numbers of buckets for each bar, as few as fit.
export function barsOver(first: number, last: number): { edges: Float64Array; barOf: (bucket: number) => number } {
	const inBar = Math.max(1, Math.ceil((last - first + 1) / BARS));
	const bars = Math.ceil((last - first + 1) / inBar);
	const edges = Float64Array.from({ length: bars + 1 }, (_, i) => Math.max(1e-9, bucketFrom(first + i * inBar) * 1e-9));
	return { edges, barOf: (bucket) => Math.floor((bucket - first) / inBar) };
}

// Of all calls, counted by the program: also of those that the page has not one by one.
function fromCounts(capture: Capture, isOf: Uint8Array, calls: Uint32Array): Histogram | null {
	const { durations } = capture;
	const all = new Map<number, number>();
	let n = 0;
	for (let i = 0; i < durations.n; i++) {
		if (!isOf[durations.get("what", i)]) continue;
		const bucket = bucketOf(Math.round(durations.get("from_s", i) * 1e9));
		all.set(bucket, (all.get(bucket) ?? 0) + durations.get("n", i));
		n += durations.get("n", i);
	}
	if (n === 0) return null;
	const buckets = [...all.keys()].sort((a, b) => a - b);
	const { edges, barOf } = barsOver(buckets[0], buckets[buckets.length - 1]);
	const bars = edges.length - 1;
	const counts = new Uint32Array(bars);
	for (const b of buckets) counts[barOf(b)] += all.get(b) ?? 0;
	const at = (q: number) => {
		let seen = 0;
		for (const b of buckets) {
			seen += all.get(b) ?? 0;
			if (seen > q * n) return ((bucketFrom(b) + bucketFrom(b + 1)) / 2) * 1e-9;
		}
		return edges[bars];
	};
	return { calls, n, counts, edges, median: at(0.5), p95: at(0.95), p99: at(0.99) };
}
