// How long the calls of one function took: counts in buckets that grow by a constant factor, for times that differ by
// factors.
import type { Zones } from "./capture";

export interface Histogram {
	calls: Uint32Array; // zone indices, shortest first
	counts: Uint32Array;
	edges: Float64Array; // one more than counts
	median: number;
	p95: number;
	p99: number;
}

export function histogramOf(zones: Zones, fn: number, range: [number, number] | null, buckets = 48): Histogram | null {
	const found: number[] = [];
	for (let i = 0; i < zones.n; i++) {
		if (zones.fn[i] !== fn || zones.kind[i] === 2) continue;
		if (range && (zones.start[i] + zones.duration[i] < range[0] || zones.start[i] > range[1])) continue;
		found.push(i);
	}
	if (found.length === 0) return null;
	const calls = Uint32Array.from(found).sort((a, b) => zones.duration[a] - zones.duration[b]);
	const at = (q: number) => zones.duration[calls[Math.min(calls.length - 1, Math.floor(q * calls.length))]];
	const low = Math.max(1e-9, at(0));
	const high = Math.max(low * 1.0001, at(1));
	const edges = Float64Array.from({ length: buckets + 1 }, (_, i) => low * (high / low) ** (i / buckets));
	const counts = new Uint32Array(buckets);
	const scale = buckets / Math.log(high / low);
	for (const c of calls)
		counts[Math.max(0, Math.min(buckets - 1, Math.floor(Math.log(Math.max(low, zones.duration[c]) / low) * scale)))]++;
	return { calls, counts, edges, median: at(0.5), p95: at(0.95), p99: at(0.99) };
}
