// SPDX-License-Identifier: Apache-2.0
// How long the zones of each name and the calls of each function took, in figures. Of the whole run the program counted them, and the
// percentiles are those of `fathom report`, right to 7%; of a range or some threads they are counted from the zones that are here. Of two
// captures there are the program's counts alone.
import type { Capture } from "./capture";
import type { Step } from "./filter";
import { bucketFrom, bucketOf } from "./histogram";
import { isOfPart, zoneMask } from "./zone_mask";

export const KIND_ZONE = 1;

export interface ZoneStats {
	what: number;
	n: number; // zones, or stretches of a generator
	sum: number; // seconds
	min: number;
	mean: number;
	max: number;
	p50: number;
	p99: number;
	p999: number;
	cv: number; // the coefficient of variation: standard deviation by mean
}

// The share-th of them, as the program counts (core/aggregate/trace/durations.h).
const rankOf = (share: number, n: number) => Math.max(1, Math.floor(share * n));

function fromDurations(what: number, durations: Float64Array): ZoneStats {
	const sorted = durations.sort();
	const n = sorted.length;
	const sum = sorted.reduce((a, b) => a + b, 0);
	const mean = sum / n;
	const variance = sorted.reduce((a, b) => a + (b - mean) ** 2, 0) / n;
	const at = (share: number) => sorted[rankOf(share, n) - 1];
	const cv = mean > 0 ? Math.sqrt(variance) / mean : 0;
	return { what, n, sum, min: sorted[0], mean, max: sorted[n - 1], p50: at(0.5), p99: at(0.99), p999: at(0.999), cv };
}

// Of the zones that are here.
function countedStats(capture: Capture, steps: readonly Step[]): ZoneStats[] {
	const { zones, whats } = capture;
	if (!zones) return [];
	const mask = zoneMask(capture, steps);
	const first = new Uint32Array(whats.n + 1);
	for (let i = 0; i < zones.n; i++) if (mask[i]) first[zones.what[i] + 1]++;
	for (let w = 0; w < whats.n; w++) first[w + 1] += first[w];
	const durations = new Float64Array(first[whats.n]);
	const fill = first.slice(0, whats.n);
	for (let i = 0; i < zones.n; i++) if (mask[i]) durations[fill[zones.what[i]]++] = zones.duration[i];
	const rows: ZoneStats[] = [];
	for (let w = 0; w < whats.n; w++)
		if (first[w + 1] > first[w]) rows.push(fromDurations(w, durations.subarray(first[w], first[w + 1])));
	return rows;
}

export type Side = "" | "base_"; // of two captures: what columns of the other one begin with

interface Bucket {
	bucket: number;
	n: number;
}

function fromBuckets(capture: Capture, what: number, buckets: Bucket[], side: Side): ZoneStats {
	const t = capture.whatRows;
	const [n, sum] = [t.get(`${side}spans`, what), t.get(`${side}sum_s`, what)];
	const [min, max] = [t.get(`${side}min_s`, what), t.get(`${side}max_s`, what)];
	const middle = (bucket: number) => {
		const width = bucketFrom(bucket + 1) - bucketFrom(bucket);
		return Math.min(max, Math.max(min, (bucketFrom(bucket) + (bucket < 8 ? 0 : Math.floor(width / 2))) * 1e-9));
	};
	const at = (share: number) => {
		let seen = 0;
		for (const b of buckets) {
			seen += b.n;
			if (seen >= rankOf(share, n)) return middle(b.bucket);
		}
		return max;
	};
	const mean = n > 0 ? Math.floor(Math.round(sum * 1e9) / n) * 1e-9 : 0; // in whole nanoseconds, as the report has it
	// Within a bucket they differ by 7% at most, which adds next to nothing to how far they are from the mean.
	const near = buckets.reduce((a, b) => a + b.n * middle(b.bucket), 0) / n;
	const variance = buckets.reduce((a, b) => a + b.n * (middle(b.bucket) - near) ** 2, 0) / n;
	const cv = near > 0 ? Math.sqrt(variance) / near : 0;
	return { what, n, sum, min, mean, max, p50: at(0.5), p99: at(0.99), p999: at(0.999), cv };
}

// Of all zones, as the program counted them.
function programStats(capture: Capture, side: Side = ""): ZoneStats[] {
	const { durations } = capture;
	const byWhat = new Map<number, Bucket[]>();
	for (let i = 0; i < durations.n; i++) {
		const what = durations.get("what", i);
		const bucket = { bucket: bucketOf(Math.round(durations.get("from_s", i) * 1e9)), n: durations.get(`${side}n`, i) };
		if (bucket.n === 0) continue;
		const known = byWhat.get(what);
		if (known) known.push(bucket);
		else byWhat.set(what, [bucket]);
	}
	return [...byWhat].map(([what, buckets]) =>
		fromBuckets(
			capture,
			what,
			buckets.sort((a, b) => a.bucket - b.bucket),
			side,
		),
	);
}

export interface ZonePair {
	what: number; // of the comparison
	before: ZoneStats | null; // null: not there
	after: ZoneStats | null;
}

// Of two captures.
export function zonePairs(diff: Capture): ZonePair[] {
	const pairs = new Map<number, ZonePair>();
	for (const after of programStats(diff)) pairs.set(after.what, { what: after.what, before: null, after });
	for (const before of programStats(diff, "base_")) {
		const known = pairs.get(before.what);
		if (known) known.before = before;
		else pairs.set(before.what, { what: before.what, before, after: null });
	}
	return [...pairs.values()];
}

export function zoneStats(capture: Capture, steps: readonly Step[]): ZoneStats[] {
	const isCounted = isOfPart(steps) || !capture.whatRows.has("sum_s") || capture.durations.n === 0;
	return isCounted ? countedStats(capture, steps) : programStats(capture);
}

export interface ThreadSum {
	thread: number;
	n: number;
	sum: number;
	max: number;
}

// Zones of a list by thread, the most time first.
export function byThread(capture: Capture, list: ArrayLike<number>): ThreadSum[] {
	const { zones } = capture;
	const sums = new Map<number, ThreadSum>();
	for (let i = 0; zones && i < list.length; i++) {
		const thread = zones.thread[list[i]];
		let sum = sums.get(thread);
		if (!sum) sums.set(thread, (sum = { thread, n: 0, sum: 0, max: 0 }));
		sum.n++;
		sum.sum += zones.duration[list[i]];
		sum.max = Math.max(sum.max, zones.duration[list[i]]);
	}
	return [...sums.values()].sort((a, b) => b.sum - a.sum);
}

// The longest of a list that begins in each of `columns` equal parts of the run.
export function overTime(capture: Capture, list: ArrayLike<number>, columns: number): Float64Array {
	const { zones, end } = capture;
	const longest = new Float64Array(columns);
	for (let i = 0; zones && i < list.length; i++) {
		const c = Math.max(0, Math.min(columns - 1, Math.floor((zones.start[list[i]] / end) * columns)));
		longest[c] = Math.max(longest[c], zones.duration[list[i]]);
	}
	return longest;
}
