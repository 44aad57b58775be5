// SPDX-License-Identifier: Apache-2.0
// How sure a change of CPU time between two captures is: the ± of `fathom diff`, for any part of the tree (docs/sampling-math.md).
import type { Sampled } from "./bundle";
import type { Capture, Looks } from "./capture";
import type { Step } from "./filter";
import { eachCell } from "./weights";

const Z = 1.96; // 95 %

// fm_plus_minus_s of core/aggregate/tally/weight.h: half of the interval of a part with this time, squares and samples.
export function plusMinus(part: number, sq: number, n: number, of: Sampled): number {
	if (!(of.whole_s > 0)) return 0;
	const variance = (p: number) => sq * (1 - 2 * p) + p * p * of.sq;
	const p = part / of.whole_s;
	const looked = of.n > 0 ? n / of.n : 0;
	const widest = Math.max(variance(p), variance(looked), looked * (1 - looked) * of.heavy_sq);
	return Z * Math.sqrt(Math.max(0, widest)) + (p < 1 ? 2 * p * (1 - p) * of.misplaced_s : 0);
}

export interface Part {
	before: number;
	after: number;
	n: number;
	baseN: number;
	sq: number;
	baseSq: number;
}

// Of a change: nothing is surer than a single sample (core/aggregate/compare/diff.c).
export function changePlusMinus(part: Part, now: Sampled, base: Sampled): number {
	const least = (of: Sampled) => (of.n > 0 ? Z * Math.sqrt(of.sq / of.n) : 0);
	return Math.hypot(
		Math.max(plusMinus(part.after, part.sq, part.n, now), least(now)),
		Math.max(plusMinus(part.before, part.baseSq, part.baseN, base), least(base)),
	);
}

// By node, what of each ends in it.
export function looksByNode(capture: Capture, looks: Looks, steps: readonly Step[]): Record<keyof Looks, Float64Array> {
	const make = () => new Float64Array(capture.nodes.n);
	const sums = { n: make(), baseN: make(), sq: make(), baseSq: make() };
	eachCell(capture, steps, (i) => {
		for (const key of ["n", "baseN", "sq", "baseSq"] as const) sums[key][capture.cells.node[i]] += looks[key][i];
	});
	return sums;
}
