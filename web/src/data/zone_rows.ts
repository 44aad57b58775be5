// SPDX-License-Identifier: Apache-2.0
// Zones by thread and depth, each row sorted by its start: the same shape as a flame graph, so the same search serves both.
import type { Zones } from "./capture";
import type { Layout } from "./layout";

export const SHOWN_DEPTH = 24;

export interface ZoneRows {
	zones: Zones;
	layout: Layout; // layout.node is a zone
	first: Int32Array; // of each thread: its first row, -1 without zones
	depth: Int32Array; // of each thread: rows
}

export function zoneRows(zones: Zones, nThreads: number, end: number): ZoneRows {
	const depth = new Int32Array(nThreads);
	for (let i = 0; i < zones.n; i++)
		depth[zones.thread[i]] = Math.max(depth[zones.thread[i]], Math.min(SHOWN_DEPTH, zones.depth[i] + 1));
	const first = new Int32Array(nThreads);
	let rows = 0;
	for (let t = 0; t < nThreads; t++) {
		first[t] = depth[t] > 0 ? rows : -1;
		rows += depth[t];
	}
	const rowOf = (i: number) => (zones.depth[i] < SHOWN_DEPTH ? first[zones.thread[i]] + zones.depth[i] : -1);
	const rowStart = new Uint32Array(rows + 1);
	for (let i = 0; i < zones.n; i++) if (rowOf(i) >= 0) rowStart[rowOf(i) + 1]++;
	for (let r = 0; r < rows; r++) rowStart[r + 1] += rowStart[r];
	const node = new Uint32Array(rowStart[rows]);
	const fill = rowStart.slice(0, rows);
	for (let i = 0; i < zones.n; i++) if (rowOf(i) >= 0) node[fill[rowOf(i)]++] = i;
	for (let r = 0; r < rows; r++) {
		const part = node.subarray(rowStart[r], rowStart[r + 1]);
		let isSorted = true;
		for (let i = 1; i < part.length && isSorted; i++) isSorted = zones.start[part[i]] >= zones.start[part[i - 1]];
		if (!isSorted) part.sort((a, b) => zones.start[a] - zones.start[b]);
	}
	const x0 = Float64Array.from(node, (z) => zones.start[z]);
	const x1 = Float64Array.from(node, (z) => zones.start[z] + zones.duration[z]);
	return { zones, layout: { rows, rowStart, node, x0, x1, from: 0, to: end, leftOut: 0 }, first, depth };
}
