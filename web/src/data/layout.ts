// SPDX-License-Identifier: Apache-2.0
// Where the frames of a flame graph are: rows of spans, each row sorted, so that drawing and finding are binary searches
// and the cost of a frame on the screen depends on its pixels, not on the capture.
import type { Samples } from "./capture";
import type { Tree } from "./tree";

export interface Layout {
	rows: number;
	rowStart: Uint32Array; // rows + 1
	node: Uint32Array; // of the tree
	x0: Float64Array;
	x1: Float64Array;
	from: number;
	to: number;
	leftOut: number; // spans that did not fit
}

// The heaviest child to the left. With a base, a frame is as wide as the larger of its two totals, so that what vanished is seen.
export function leftHeavy(tree: Tree): Layout {
	const { n, parent } = tree;
	const width = tree.base ? widest(tree) : tree.total;
	const first = new Uint32Array(n + 1);
	for (let i = 1; i < n; i++) if (width[i] > 0) first[parent[i] + 1]++;
	for (let i = 0; i < n; i++) first[i + 1] += first[i];
	const list = new Uint32Array(first[n]);
	const fill = first.slice(0, n);
	for (let i = 1; i < n; i++) if (width[i] > 0) list[fill[parent[i]]++] = i;
	for (let i = 0; i < n; i++) sortByWidth(list, first[i], first[i + 1], width);

	// Level by level: a row is the children of the row above, in its order.
	const node = new Uint32Array(list.length + 1);
	const x0 = new Float64Array(list.length + 1);
	const x1 = new Float64Array(list.length + 1);
	const starts: number[] = [0];
	let made = 0;
	if (n > 0) {
		x1[0] = width[0];
		made = 1;
	}
	for (let rowFrom = 0; rowFrom < made; ) {
		const rowTo = made;
		starts.push(rowTo);
		for (let s = rowFrom; s < rowTo; s++) {
			const above = node[s];
			let x = x0[s];
			for (let c = first[above]; c < first[above + 1]; c++) {
				const child = list[c];
				node[made] = child;
				x0[made] = x;
				x += width[child];
				x1[made] = x;
				made++;
			}
		}
		rowFrom = rowTo;
	}
	return {
		rows: starts.length - 1,
		rowStart: Uint32Array.from(starts),
		node: node.subarray(0, made),
		x0,
		x1,
		from: 0,
		to: n > 0 && width[0] > 0 ? width[0] : 1,
		leftOut: 0,
	};
}

// Most frames have a few callees, and for those a call of sort() costs more than the sorting.
function sortByWidth(list: Uint32Array, from: number, to: number, width: Float64Array): void {
	if (to - from > 24) {
		list.subarray(from, to).sort((a, b) => width[b] - width[a] || a - b);
		return;
	}
	for (let i = from + 1; i < to; i++) {
		const child = list[i];
		const w = width[child];
		let j = i - 1;
		for (; j >= from && width[list[j]] < w; j--) list[j + 1] = list[j];
		list[j + 1] = child;
	}
}

function widest(tree: Tree): Float64Array {
	const { n, parent, self, total, base } = tree;
	if (!base) return total;
	const baseSelf = base.slice();
	for (let i = n - 1; i > 0; i--) baseSelf[parent[i]] -= base[i];
	const width = new Float64Array(n);
	for (let i = 0; i < n; i++) width[i] = Math.max(self[i], baseSelf[i], 0);
	for (let i = n - 1; i > 0; i--) width[parent[i]] += width[i];
	return width;
}

// The same without the row of the root, where the first frame says all that it would.
export function withoutRoot(layout: Layout): Layout {
	if (layout.rows < 2) return layout;
	return { ...layout, rows: layout.rows - 1, rowStart: layout.rowStart.subarray(1) };
}

const MAX_SPANS = 6_000_000;

// One thread as it ran: a frame lasts from the first sample that has it to the last before one that has not.
export function timeOrder(
	tree: Tree,
	samples: Samples,
	thread: number,
	range: [number, number] | null,
	wanted: Uint8Array,
	jitter = 0.003,
): Layout {
	const depthOf = new Int32Array(tree.n);
	for (let i = 1; i < tree.n; i++) depthOf[i] = depthOf[tree.parent[i]] + 1;
	let size = 1 << 16;
	let count = 0;
	let depths = new Int32Array(size);
	let nodes = new Uint32Array(size);
	let starts = new Float64Array(size);
	let ends = new Float64Array(size);
	let leftOut = 0;
	const open: number[] = []; // nodes of the stack, outermost first
	const openedAt: number[] = [];
	let lastEnd = 0;
	let leaf = -1;

	const close = (to: number) => {
		while (open.length > to) {
			const node = open.pop() as number;
			const start = openedAt.pop() as number;
			if (count >= MAX_SPANS) {
				leftOut++;
				continue;
			}
			if (count === size) {
				size *= 2;
				const grow = <T extends Int32Array | Uint32Array | Float64Array>(old: T, fresh: T) => (fresh.set(old), fresh);
				depths = grow(depths, new Int32Array(size));
				nodes = grow(nodes, new Uint32Array(size));
				starts = grow(starts, new Float64Array(size));
				ends = grow(ends, new Float64Array(size));
			}
			depths[count] = open.length;
			nodes[count] = node;
			starts[count] = start;
			ends[count] = lastEnd;
			count++;
		}
	};
	const path: number[] = [];
	for (let i = samples.first[thread]; i < samples.first[thread + 1]; i++) {
		const node = tree.of[samples.node[i]] ?? -1;
		let start = samples.time[i];
		let end = start + samples.weight[i];
		if (node < 0 || !wanted[samples.class[i]]) continue;
		if (range) {
			start = Math.max(start, range[0]);
			end = Math.min(end, range[1]);
			if (end <= start) continue;
		}
		// Samples are ticks: a gap of a few of them is the schedule's jitter, not a pause of the program.
		const isGap = leaf >= 0 && start - lastEnd > jitter;
		if (leaf >= 0 && !isGap) {
			lastEnd = Math.max(lastEnd, Math.min(start, end));
			start = lastEnd;
		}
		if (isGap || leaf < 0) {
			close(0);
			leaf = -1;
		}
		if (node !== leaf) {
			// Climb both to their nearest common ancestor; only what differs is closed and opened.
			let a = leaf < 0 ? 0 : leaf;
			let b = node;
			path.length = 0;
			while (depthOf[a] > depthOf[b]) a = tree.parent[a];
			while (depthOf[b] > depthOf[a]) {
				path.push(b);
				b = tree.parent[b];
			}
			while (a !== b) {
				path.push(b);
				a = tree.parent[a];
				b = tree.parent[b];
			}
			close(leaf < 0 ? 0 : depthOf[a] + 1);
			if (open.length === 0) {
				open.push(0);
				openedAt.push(start);
			}
			for (let p = path.length - 1; p >= 0; p--) {
				open.push(path[p]);
				openedAt.push(start);
			}
			leaf = node;
		}
		lastEnd = Math.max(end, start);
	}
	close(0);

	let rows = 0;
	for (let i = 0; i < count; i++) if (depths[i] >= rows) rows = depths[i] + 1;
	const rowStart = new Uint32Array(rows + 1);
	for (let i = 0; i < count; i++) rowStart[depths[i] + 1]++;
	for (let d = 0; d < rows; d++) rowStart[d + 1] += rowStart[d];
	const fill = rowStart.slice(0, rows);
	const node = new Uint32Array(count);
	const x0 = new Float64Array(count);
	const x1 = new Float64Array(count);
	let from = Infinity;
	let to = 0;
	for (let i = 0; i < count; i++) {
		const at = fill[depths[i]]++;
		node[at] = nodes[i];
		x0[at] = starts[i];
		x1[at] = ends[i];
		from = Math.min(from, starts[i]);
		to = Math.max(to, ends[i]);
	}
	if (!(to > from)) [from, to] = [0, 1];
	return { rows, rowStart, node, x0, x1, from, to, leftOut };
}

// The first span of a row that ends after x; rowStart[row + 1] when there is none.
export function firstAfter(layout: Layout, row: number, x: number, from = layout.rowStart[row]): number {
	let lo = from;
	let hi = layout.rowStart[row + 1];
	const { x1 } = layout;
	while (lo < hi) {
		const mid = (lo + hi) >>> 1;
		if (x1[mid] > x) hi = mid;
		else lo = mid + 1;
	}
	return lo;
}

// The span at x, or -1.
export function spanAt(layout: Layout, row: number, x: number): number {
	if (row < 0 || row >= layout.rows) return -1;
	const s = firstAfter(layout, row, x);
	return s < layout.rowStart[row + 1] && layout.x0[s] <= x ? s : -1;
}
