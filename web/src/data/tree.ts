// SPDX-License-Identifier: Apache-2.0
// The call tree as a view wants it: frames of one function merged whatever their line, and libraries, plumbing or
// recursion folded away. Folding never loses time: a frame that is hidden gives what ends in it to its caller.
import { FLAG_LIBRARY, FLAG_PLUMBING, isMine, type Capture } from "./capture";
import { totalsOf } from "./weights";

export interface TreeOptions {
	collapseRecursion: boolean;
	onlyMine: boolean;
	foldLibraries: boolean;
	showPlumbing: boolean;
	byLine: boolean;
	hidden: readonly number[];
	focus: number; // a function, or -1
}

export const PLAIN: TreeOptions = {
	collapseRecursion: false,
	onlyMine: false,
	foldLibraries: false,
	showPlumbing: true,
	byLine: false,
	hidden: [],
	focus: -1,
};

export interface Tree {
	n: number;
	parent: Int32Array;
	fn: Int32Array; // -1 for the root
	module: Int32Array; // string index of a folded library, or -1 for a plain frame
	line: Uint32Array; // of the frame; 0 where several are merged
	self: Float64Array;
	total: Float64Array;
	base: Float64Array | null; // totals of the other capture
	of: Int32Array; // from a node of the capture to one of this tree; -1 when it is not in it
}

// (parent, key) -> child, by open addressing: a Map of a million strings would take seconds.
class Children {
	private slots: Int32Array;
	private mask: number;
	private used = 0;
	constructor(
		private readonly parents: number[] | Int32Array,
		private readonly keys: number[] | Int32Array,
		expected: number,
	) {
		let size = 1024;
		while (size < expected * 2) size *= 2;
		this.slots = new Int32Array(size).fill(-1);
		this.mask = size - 1;
	}
	private start(parent: number, key: number): number {
		let h = Math.imul(parent ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(key + 0x7f4a7c15, 0xc2b2ae35);
		h ^= h >>> 15;
		h = Math.imul(h, 0x2c1b3c6d);
		return (h ^ (h >>> 13)) & this.mask;
	}
	// The child, or -1 after which add(child) must follow.
	find(parent: number, key: number): number {
		let i = this.start(parent, key);
		for (; this.slots[i] >= 0; i = (i + 1) & this.mask) {
			const child = this.slots[i];
			if (this.parents[child] === parent && this.keys[child] === key) return child;
		}
		this.free = i;
		return -1;
	}
	private free = 0;
	add(child: number): void {
		this.slots[this.free] = child;
		if (++this.used * 2 > this.mask) this.grow();
	}
	private grow(): void {
		const old = this.slots;
		this.slots = new Int32Array(old.length * 2).fill(-1);
		this.mask = this.slots.length - 1;
		for (const child of old) {
			if (child < 0) continue;
			let i = this.start(this.parents[child], this.keys[child]);
			while (this.slots[i] >= 0) i = (i + 1) & this.mask;
			this.slots[i] = child;
		}
	}
}

// Keys are functions from 0 up, folded libraries from -2 down (-1 is the root's), lines above all functions.
export function buildTree(
	capture: Capture,
	self: Float64Array,
	options: TreeOptions,
	base: Float64Array | null = null,
): Tree {
	const { nodes, functions } = capture;
	const n = nodes.n;
	const hidden = new Uint8Array(functions.n);
	const folded = new Uint8Array(functions.n);
	for (let f = 0; f < functions.n; f++) {
		const isLibrary = (functions.flags[f] & FLAG_LIBRARY) !== 0 && !isMine(functions, f);
		if (!options.showPlumbing && functions.flags[f] & FLAG_PLUMBING) hidden[f] = 1;
		if (options.onlyMine && !isMine(functions, f) && functions.kind[f] < 2) hidden[f] = 1;
		if (options.foldLibraries && isLibrary) folded[f] = 1;
	}
	for (const f of options.hidden) if (f < functions.n) hidden[f] = 1;

	const parent = new Int32Array(Math.max(1, n));
	const key = new Int32Array(Math.max(1, n));
	const fn = new Int32Array(Math.max(1, n));
	const module = new Int32Array(Math.max(1, n));
	const line = new Uint32Array(Math.max(1, n));
	const of = new Int32Array(n);
	parent[0] = -1;
	key[0] = -1;
	fn[0] = -1;
	module[0] = -1;
	let made = 1;
	const children = new Children(parent, key, Math.min(n, 1 << 22));
	const lineKeys = new Map<number, number>();
	const focus = options.focus;
	if (n > 0) of[0] = focus >= 0 ? -1 : 0;
	for (let i = 1; i < n; i++) {
		const f = nodes.fn[i];
		let above = of[nodes.parent[i]];
		if (above < 0) {
			// Outside the focus; the function that is focused on starts a stack of its own.
			if (f !== focus) {
				of[i] = -1;
				continue;
			}
			above = 0;
		}
		if (hidden[f] && f !== focus) {
			of[i] = above;
			continue;
		}
		let k = f;
		if (folded[f]) k = -2 - functions.module[f];
		else if (options.byLine && nodes.line[i] > 0) {
			const at = f * 0x100000 + (nodes.line[i] & 0xfffff);
			k = lineKeys.get(at) ?? functions.n + lineKeys.size;
			lineKeys.set(at, k);
		}
		if (
			above > 0 &&
			((options.collapseRecursion && fn[above] === f && module[above] < 0) || (folded[f] && key[above] === k))
		) {
			of[i] = above;
			continue;
		}
		let child = children.find(above, k);
		if (child < 0) {
			child = made++;
			parent[child] = above;
			key[child] = k;
			fn[child] = f;
			module[child] = folded[f] ? functions.module[f] : -1;
			line[child] = nodes.line[i];
			children.add(child);
		} else if (line[child] !== nodes.line[i]) line[child] = 0;
		of[i] = child;
	}
	const sum = (weights: Float64Array) => {
		const sums = new Float64Array(made);
		for (let i = 0; i < n; i++) if (of[i] >= 0) sums[of[i]] += weights[i];
		return sums;
	};
	const ownSelf = sum(self);
	const cut = <T extends Int32Array | Uint32Array>(column: T) => column.subarray(0, made) as T;
	return {
		n: made,
		parent: cut(parent),
		fn: cut(fn),
		module: cut(module),
		line: cut(line),
		self: ownSelf,
		total: totalsOf(cut(parent), ownSelf),
		base: base ? totalsOf(cut(parent), sum(base)) : null,
		of,
	};
}

// Steps up that are worth a picture; recursion 100,000 deep has more callers than a screen has lines.
const MAX_CALLER_DEPTH = 400;

// Who calls a function, upside down: the function is the first frame, its callers above it. Of recursion only the
// outermost call counts, so that the total is the function's own.
export function buildCallers(capture: Capture, self: Float64Array, target: number, options: TreeOptions): Tree {
	const { nodes, functions } = capture;
	const total = totalsOf(nodes.parent, self);
	const inside = new Uint8Array(nodes.n);
	const parent: number[] = [-1];
	const key: number[] = [-1];
	const sums: number[] = [0];
	const children = new Children(parent, key, 1024);
	for (let i = 1; i < nodes.n; i++) {
		const above = nodes.parent[i];
		inside[i] = inside[above] | Number(nodes.fn[above] === target && above > 0);
		if (nodes.fn[i] !== target || inside[i] || !(total[i] > 0)) continue;
		let at = 0;
		for (let node = i, depth = 0; node > 0 && depth < MAX_CALLER_DEPTH; node = nodes.parent[node]) {
			const f = nodes.fn[node];
			if (!options.showPlumbing && functions.flags[f] & FLAG_PLUMBING && f !== target) continue;
			if (options.collapseRecursion && at > 0 && key[at] === f) continue;
			let child = children.find(at, f);
			if (child < 0) {
				child = parent.length;
				parent.push(at);
				key.push(f);
				sums.push(0);
				children.add(child);
			}
			sums[child] += total[i];
			at = child;
			depth++;
		}
	}
	const n = parent.length;
	const totals = Float64Array.from(sums);
	for (let i = 1; i < n; i++) if (parent[i] === 0) totals[0] += totals[i];
	const rest = totals.slice();
	for (let i = 1; i < n; i++) rest[parent[i]] -= totals[i];
	return {
		n,
		parent: Int32Array.from(parent),
		fn: Int32Array.from(key),
		module: new Int32Array(n).fill(-1),
		line: new Uint32Array(n),
		self: rest,
		total: totals,
		base: null,
		of: new Int32Array(0),
	};
}
