// SPDX-License-Identifier: Apache-2.0
// How long two zones took, or one in two captures, in bars over one axis.
import type { Capture } from "./capture";
import type { Step } from "./filter";
import { barsOver, bucketOf } from "./histogram";
import { isOfPart, zoneMask } from "./zone_mask";
import type { Side } from "./zone_stats";

export type Counts = Map<number, number>; // by bucket

export interface SharedBars {
	edges: Float64Array; // one more than bars
	counts: [Uint32Array, Uint32Array];
}

// The program's counts, or under a filter, and where there are none, those of the zones that are here.
export function countsOf(capture: Capture, what: number, steps: readonly Step[], side: Side = ""): Counts {
	const { zones, durations } = capture;
	const counts: Counts = new Map();
	const add = (s: number, n: number) => {
		const bucket = bucketOf(Math.round(s * 1e9));
		if (n > 0) counts.set(bucket, (counts.get(bucket) ?? 0) + n);
	};
	if (durations.n > 0 && !isOfPart(steps)) {
		for (let i = 0; i < durations.n; i++)
			if (durations.get("what", i) === what) add(durations.get("from_s", i), durations.get(`${side}n`, i));
		return counts;
	}
	const mask = zoneMask(capture, steps);
	for (let i = 0; zones && i < zones.n; i++) if (mask[i] && zones.what[i] === what) add(zones.duration[i], 1);
	return counts;
}

export function sharedBars(one: Counts, other: Counts): SharedBars | null {
	const buckets = [...one.keys(), ...other.keys()];
	if (buckets.length === 0) return null;
	const { edges, barOf } = barsOver(
		buckets.reduce((a, b) => Math.min(a, b)),
		buckets.reduce((a, b) => Math.max(a, b)),
	);
	const counts = [one, other].map((side) => {
		const bars = new Uint32Array(edges.length - 1);
		for (const [bucket, n] of side) bars[barOf(bucket)] += n;
		return bars;
	}) as [Uint32Array, Uint32Array];
	return { edges, counts };
}
