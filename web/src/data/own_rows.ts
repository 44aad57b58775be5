// SPDX-License-Identifier: Apache-2.0
// Which rows of the user's tree are in sight: what is large is open, until somebody opens or closes a row.
import type { Sampled } from "./bundle";
import type { Looks } from "./capture";
import { changePlusMinus } from "./intervals";
import {
	OWN_IMPORTS,
	OWN_START,
	rowsBelow,
	rowsInverted,
	sumOver,
	topRow,
	type OwnRow,
	type OwnTree,
	type OwnWeights,
} from "./own_tree";

const OPEN_SHARE = 0.02; // of the whole: as much is open by itself
const SHOWN_SHARE = 0.005; // smaller ones are listed on demand, if they are several
const FEW = 2;
const IDLE_SHARE = 0.95; // of a row
const MOST_ROWS = 3000; // also how deep the walk below may call itself

export interface Figures {
	self: Float64Array;
	total: Float64Array;
	baseSelf: Float64Array | null; // of the other capture
	baseTotal: Float64Array | null;
	wait: Float64Array | null; // beside CPU time, where there is much of it
	waitSelf: Float64Array | null;
	sure: Sure | null; // of two captures, where it is known how sure a change is
	idle: OwnWeights | null; // of it, what threads waited that did next to nothing else
	muchWait: number; // seconds: a row that waited as long is listed, however little else it did
}

export interface Sure {
	self: Record<keyof Looks, Float64Array>; // by node
	total: Record<keyof Looks, Float64Array>;
	now: Sampled;
	base: Sampled;
}

export interface Shown {
	row: OwnRow;
	self: number;
	total: number;
	baseTotal: number;
	plusMinus: number; // of the change; 0: not known
	wait: number;
	isIdle: boolean; // nearly all of it is waiting of threads that did next to nothing else
	parent: number; // index among the shown, -1 for the first level
	hasChildren: boolean;
	isOpen: boolean;
	rest: number; // smaller ones that are not listed below it
	isRest: boolean; // this row stands for those of its parent
}

export const OPEN_ALL = "**";

// Rows that somebody opened, "-" before those that somebody closed, "*" before those with all their small ones listed; OPEN_ALL: all that
// are listed at all.
export const readToggles = (text: string): Set<string> => new Set(text.split(".").filter(Boolean));
export const writeToggles = (toggles: Set<string>): string => [...toggles].slice(-200).join(".");

interface Options {
	isInverted: boolean;
	whole: number; // of both captures, where there are two: the larger
	toggles: Set<string>;
	matches: Uint8Array | null; // nodes that are searched for
	sort: (a: Shown, b: Shown) => number;
}

function sureOf(sure: Sure, nodes: number[], isSelf: boolean, after: number, before: number): number {
	const looks = isSelf ? sure.self : sure.total;
	const sum = (key: keyof Looks) => sumOver(nodes, looks[key]);
	const part = { before, after, n: sum("n"), baseN: sum("baseN"), sq: sum("sq"), baseSq: sum("baseSq") };
	return changePlusMinus(part, sure.now, sure.base);
}

export function shownRows(tree: OwnTree, f: Figures, o: Options): Shown[] {
	const list: Shown[] = [];
	const below = o.matches ? matchesBelow(tree, o.matches) : null;
	const isAllOpen = o.toggles.has(OPEN_ALL) && !o.isInverted;
	const endsIn = (i: number) => f.self[i] > 0 || (f.baseSelf?.[i] ?? 0) > 0 || (f.waitSelf?.[i] ?? 0) > 0;
	const childrenOf = (row: OwnRow) => (o.isInverted ? rowsInverted(tree, row, endsIn) : rowsBelow(tree, row));
	const figuresOf = (row: OwnRow): Shown => {
		const isUp = o.isInverted && row.depth > 0;
		const total = isUp ? sumOver(row.from, f.self) : f.total[row.at[0]];
		const self = isUp && row.depth > 1 ? 0 : sumOver(row.at, f.self);
		const base = isUp ? f.baseSelf : f.baseTotal;
		const baseTotal = base ? sumOver(isUp ? row.from : row.at, base) : 0;
		const waits = isUp ? f.waitSelf : f.wait;
		const wait = waits ? sumOver(isUp ? row.from : row.at, waits) : 0;
		const plusMinus = f.sure ? sureOf(f.sure, isUp ? row.from : row.at, isUp, total, baseTotal) : 0;
		const idle = f.idle ? sumOver(isUp ? row.from : row.at, isUp ? f.idle.self : f.idle.total) : 0;
		const isIdle = idle > 0 && idle >= IDLE_SHARE * total;
		const open = { parent: -1, hasChildren: false, isOpen: false, rest: 0, isRest: false };
		return { row, self, total, baseTotal, plusMinus, wait, isIdle, ...open };
	};
	const isLarge = (s: Shown, share: number) =>
		Math.max(s.total, s.baseTotal) >= share * o.whole || (f.wait !== null && s.wait >= f.muchWait);
	const isAny = (s: Shown) => s.total > 0 || s.baseTotal > 0 || s.wait > 0;
	const isFound = (row: OwnRow) =>
		!o.matches || !below || (o.isInverted ? row.depth > 1 || o.matches[row.at[0]] > 0 : below[row.at[0]] > 0);
	const listBelow = (row: OwnRow, parent: number): number => {
		const all = childrenOf(row)
			.map(figuresOf)
			.filter((s) => isAny(s) && isFound(s.row))
			.sort(o.sort);
		const isAll = o.toggles.has(`*${row.key}`) || o.matches !== null;
		const large = all.filter((s) => isLarge(s, SHOWN_SHARE));
		const shown = isAll || all.length - large.length <= FEW ? all : large;
		for (const s of shown) {
			if (list.length >= MOST_ROWS) break;
			s.parent = parent;
			const children = childrenOf(s.row);
			s.hasChildren = children.some((c) => isAny(figuresOf(c)) && isFound(c));
			const isShut = o.isInverted || s.row.kind === OWN_IMPORTS || s.row.kind === OWN_START;
			const isLargeEnough = isAllOpen ? isLarge(s, SHOWN_SHARE) : !isShut && isLarge(s, OPEN_SHARE);
			const isSought = o.matches !== null && !o.isInverted;
			const isWanted = o.toggles.has(s.row.key) || isSought || isLargeEnough;
			s.isOpen = s.hasChildren && isWanted && !o.toggles.has(`-${s.row.key}`);
			const at = list.push(s) - 1;
			if (s.isOpen) s.rest = listBelow(s.row, at);
		}
		const rest = all.length - shown.length;
		if (rest > 0) {
			const small = all.filter((s) => !shown.includes(s));
			const sum = (pick: (s: Shown) => number) => small.reduce((a, s) => a + pick(s), 0);
			list.push({
				...figuresOf(row),
				row: { ...row, key: `*${row.key}`, depth: row.depth + 1 },
				self: sum((s) => s.self),
				total: sum((s) => s.total),
				baseTotal: sum((s) => s.baseTotal),
				plusMinus: 0,
				wait: sum((s) => s.wait),
				parent,
				rest,
				isRest: true,
			});
		}
		return rest;
	};
	listBelow(topRow(), -1);
	return list;
}

function matchesBelow(tree: OwnTree, matches: Uint8Array): Uint8Array {
	const below = matches.slice();
	for (let i = tree.n - 1; i > 0; i--) if (below[i]) below[tree.parent[i]] = 1;
	// What a match calls stays in sight.
	const above = matches.slice();
	for (let i = 1; i < tree.n; i++) if (above[tree.parent[i]]) above[i] = 1;
	return below.map((b, i) => b | above[i]);
}

// The largest row at each step down from one, as far as it is most of the one above it.
export function hottestPath(tree: OwnTree, total: Float64Array, from: number): string[] {
	const keys: string[] = [];
	for (let at = from; ; ) {
		let best = -1;
		for (const child of tree.children[at]) if (best < 0 || total[child] > total[best]) best = child;
		if (best < 0 || !(total[best] > 0)) return keys;
		if (at > 0) keys.push(tree.key[at]);
		at = best;
	}
}
