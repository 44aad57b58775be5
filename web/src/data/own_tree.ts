// SPDX-License-Identifier: Apache-2.0
// The call tree of the user's own code, as `fathom report --tree` has it (core/aggregate/tree/own_tree.c, whose rules these are): a
// package is one node, however many of its modules and libraries are on the stack; imports are one node; a recursive function is its
// outermost call. Nodes do not depend on what is counted, so that a link to one of them stays right under every filter.
import {
	ROLE_BEGINS,
	ROLE_COMPREHENSION,
	ROLE_GENERATED,
	ROLE_IMPORT,
	ROLE_MODULE,
	ROLE_USERS,
	type Capture,
} from "./capture";
import { totalsOf } from "./weights";

export const OWN_FUNCTION = 0;
export const OWN_PACKAGE = 1;
export const OWN_IMPORTS = 2;
export const OWN_START = 3;
export const OWN_ELSEWHERE = 4; // what ends in no code that has a place in the tree

export interface OwnTree {
	n: number;
	parent: Uint32Array; // below the own index; node 0 is the root
	kind: Uint8Array;
	id: Uint32Array; // a function, or the string index of a package
	key: string[]; // of the way from the root: what an address calls it by
	of: Uint32Array; // by node of the capture
	children: number[][];
}

const known = new WeakMap<Capture, OwnTree>();

// A short name for a place: what is in the address has to mean the same when the page is opened again.
export function hashKey(above: string, kind: number, id: number): string {
	let h = 0x811c9dc5;
	for (const c of `${above}/${kind}:${id}`) h = Math.imul(h ^ c.charCodeAt(0), 0x01000193);
	return (h >>> 0).toString(36);
}

export function ownTree(capture: Capture): OwnTree {
	const made = known.get(capture);
	if (made) return made;
	const { nodes, functions } = capture;
	const { roles, package: packages } = functions;
	const parent: number[] = [0];
	const kind: number[] = [OWN_FUNCTION];
	const id: number[] = [0];
	const key: string[] = [""];
	const children: number[][] = [[]];
	const index = new Map<string, number>();
	const child = (above: number, k: number, i: number): number => {
		const name = `${above}:${k}:${i}`;
		let at = index.get(name);
		if (at === undefined) {
			at = parent.length;
			index.set(name, at);
			parent.push(above);
			kind.push(k);
			id.push(i);
			key.push(hashKey(key[above], k, i));
			children.push([]);
			children[above].push(at);
		}
		return at;
	};
	// Among those that led here without leaving the user's code, or, for packages, without coming back to it.
	const amongCallers = (from: number, k: number, i: number): number => {
		for (let at = from; at > 0 && kind[at] === k; at = parent[at]) if (id[at] === i) return at;
		return 0;
	};
	const isImporting = (at: number) =>
		at > 0 &&
		(kind[at] === OWN_IMPORTS || (kind[at] === OWN_PACKAGE && parent[at] > 0 && kind[parent[at]] === OWN_IMPORTS));
	const place = (above: number, fn: number): number => {
		const role = roles[fn];
		if (role & ROLE_COMPREHENSION && above > 0 && kind[above] === OWN_FUNCTION) return above;
		if (role & ROLE_USERS) return amongCallers(above, OWN_FUNCTION, fn) || child(above, OWN_FUNCTION, fn);
		if (above === 0 && role & ROLE_BEGINS) return child(0, OWN_START, 0);
		if (above > 0 && kind[above] === OWN_START) return above;
		if (role & ROLE_IMPORT) return isImporting(above) ? above : child(above, OWN_IMPORTS, 0);
		const name = packages[fn];
		if (name === 0 || (above > 0 && role & ROLE_GENERATED)) return above;
		if (isImporting(above))
			return kind[above] === OWN_PACKAGE || !(role & ROLE_MODULE) ? above : child(above, OWN_PACKAGE, name);
		return amongCallers(above, OWN_PACKAGE, name) || child(above, OWN_PACKAGE, name);
	};
	const of = new Uint32Array(nodes.n);
	for (let i = 1; i < nodes.n; i++) of[i] = place(of[nodes.parent[i]], nodes.fn[i]);
	const elsewhere = child(0, OWN_ELSEWHERE, 0);
	for (let i = 0; i < nodes.n; i++) if (of[i] === 0) of[i] = elsewhere;
	const tree: OwnTree = {
		n: parent.length,
		parent: Uint32Array.from(parent),
		kind: Uint8Array.from(kind),
		id: Uint32Array.from(id),
		key,
		of,
		children,
	};
	known.set(capture, tree);
	return tree;
}

export interface OwnWeights {
	self: Float64Array;
	total: Float64Array;
}

// What ends in nodes of the capture, in those of the tree.
export function ownWeights(tree: OwnTree, nodeSelf: Float64Array): OwnWeights {
	const self = new Float64Array(tree.n);
	for (let i = 0; i < nodeSelf.length; i++) self[tree.of[i]] += nodeSelf[i];
	return { self, total: totalsOf(tree.parent, self) };
}

// A row of either way to read the tree: what a node calls, or, upside down, what calls it. Upside down a row is all nodes that lead to
// the same frame the same way; `at` has where each of them stands now, and `from` where its time ends.
export interface OwnRow {
	key: string;
	depth: number;
	kind: number;
	id: number;
	at: number[];
	from: number[];
}

export function topRow(): OwnRow {
	return { key: "", depth: 0, kind: OWN_FUNCTION, id: 0, at: [0], from: [0] };
}

export function rowsBelow(tree: OwnTree, row: OwnRow): OwnRow[] {
	return tree.children[row.at[0]].map((i) => ({
		key: tree.key[i],
		depth: row.depth + 1,
		kind: tree.kind[i],
		id: tree.id[i],
		at: [i],
		from: [i],
	}));
}

function grouped(tree: OwnTree, row: OwnRow, pairs: [at: number, from: number][]): OwnRow[] {
	const rows = new Map<string, OwnRow>();
	for (const [at, from] of pairs) {
		const key = hashKey(`^${row.key}`, tree.kind[at], tree.id[at]);
		let found = rows.get(key);
		if (!found)
			rows.set(key, (found = { key, depth: row.depth + 1, kind: tree.kind[at], id: tree.id[at], at: [], from: [] }));
		found.at.push(at);
		found.from.push(from);
	}
	return [...rows.values()];
}

// Where time ends, whatever led there.
export function rowsInverted(tree: OwnTree, row: OwnRow, has: (node: number) => boolean): OwnRow[] {
	if (row.depth === 0) {
		const pairs: [number, number][] = [];
		for (let i = 1; i < tree.n; i++) if (has(i)) pairs.push([i, i]);
		return grouped(tree, row, pairs);
	}
	const pairs: [number, number][] = [];
	row.at.forEach((at, k) => tree.parent[at] > 0 && pairs.push([tree.parent[at], row.from[k]]));
	return grouped(tree, row, pairs);
}

export const sumOver = (nodes: readonly number[], values: Float64Array): number =>
	nodes.reduce((sum, i) => sum + values[i], 0);
