// SPDX-License-Identifier: Apache-2.0
// What each node of the user's tree took or held in each of a few equal parts of the run (or of the range): small pictures beside rows.
import { BLOCK_COPIED, BLOCK_LEAKED, NEVER_DIED, type Capture } from "./capture";
import { nodeMask, rangeOf, threadMask, type Step } from "./filter";
import type { Metric } from "./metrics";
import type { OwnTree } from "./own_tree";

export const PARTS = 32;

export interface OverTime {
	self: Float32Array; // PARTS of each node
	total: Float32Array;
}

// Adds `value` over [from, to), both in parts, to the row that begins at `at`; as an average over each part.
function spread(sums: Float32Array, at: number, from: number, to: number, value: number): void {
	const last = Math.min(PARTS - 1, Math.ceil(to) - 1);
	for (let p = Math.max(0, Math.floor(from)); p <= last; p++)
		sums[at + p] += value * Math.max(0, Math.min(to, p + 1) - Math.max(from, p));
}

export function overTime(c: Capture, tree: OwnTree, metric: Metric, steps: readonly Step[]): OverTime | null {
	const [from, to] = rangeOf(steps) ?? [0, c.end];
	const [threads, nodes] = [threadMask(c, steps), nodeMask(c, steps)];
	const isOut = (thread: number, node: number) => (threads && !threads[thread]) || (nodes && !nodes[node]);
	const part = (to - from) / PARTS;
	if (!(part > 0) || tree.n * PARTS > 1 << 24) return null;
	const self = new Float32Array(tree.n * PARTS);
	if (metric.column) {
		const { blocks } = c;
		if (!blocks) return null;
		const isHeld = metric.column === "peak" || metric.column === "leak"; // else what comes, not what stays
		for (let i = 0; i < blocks.n; i++) {
			const isCopy = blocks.kind[i] === BLOCK_COPIED;
			if (isCopy !== (metric.column === "copy") || isOut(blocks.thread[i], blocks.node[i])) continue;
			if (metric.column === "leak" && blocks.kind[i] !== BLOCK_LEAKED) continue;
			const born = (blocks.born[i] * blocks.grain - from) / part;
			const died = isHeld ? (blocks.died[i] === NEVER_DIED ? PARTS : (blocks.died[i] * blocks.grain - from) / part) : 0;
			const end = isHeld ? Math.max(died, born + blocks.grain / part) : born + 1e-9;
			const at = tree.of[blocks.node[i]] * PARTS;
			if (isHeld) spread(self, at, born, end, blocks.bytes[i]);
			else if (born >= 0 && born < PARTS) self[at + Math.floor(born)] += blocks.bytes[i];
		}
	} else {
		const { samples } = c;
		if (!samples) return null;
		const wanted = new Uint8Array(256);
		for (const cls of metric.classes) wanted[cls] = 1;
		for (let i = 0; i < samples.n; i++) {
			if (!wanted[samples.class[i]] || isOut(samples.thread[i], samples.node[i])) continue;
			const begin = (samples.time[i] - from) / part;
			spread(self, tree.of[samples.node[i]] * PARTS, begin, begin + samples.weight[i] / part, 1);
		}
	}
	const total = self.slice();
	for (let i = tree.n - 1; i > 0; i--)
		for (let p = 0; p < PARTS; p++) total[tree.parent[i] * PARTS + p] += total[i * PARTS + p];
	return { self, total };
}

// The sum over some nodes.
export function partsOf(values: Float32Array, nodes: readonly number[]): Float32Array {
	const sum = new Float32Array(PARTS);
	for (const i of nodes) for (let p = 0; p < PARTS; p++) sum[p] += values[i * PARTS + p];
	return sum;
}
