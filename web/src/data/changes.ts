// SPDX-License-Identifier: Apache-2.0
// What changed between two captures: the rows of `fathom diff`, and what the tree says of kinds of time that these do not count.
import { KIND_THREAD, type Capture } from "./capture";
import { functionSums, outermost } from "./functions";
import type { Step } from "./filter";
import type { Metric } from "./metrics";
import { selfWeights, totalsOf } from "./weights";

export const LISTS = ["functions", "lines", "memory", "memory_lines"] as const;
export type List = (typeof LISTS)[number];

export interface ChangeRow {
	key: string;
	fn: number; // of the comparison's functions; -1: not among them
	name: string;
	file: string; // its last part
	line: number;
	text: string; // of a line
	before: number;
	after: number;
	plusMinus: number; // of the change; 0: not known
	isSignificant: boolean;
	isGone: boolean; // the new capture does not have it
	isNew: boolean; // the other one did not
}

const lastPart = (path: string) => path.slice(path.lastIndexOf("/") + 1);

function functionsByName(c: Capture): Map<string, number> {
	const found = new Map<string, number>();
	const { n, name, file, library } = c.functions;
	for (let f = n - 1; f >= 0; f--)
		found.set(`${c.strings.get(name[f])}\0${lastPart(c.strings.get(file[f]) || c.strings.get(library[f]))}`, f);
	return found;
}

export function changesOf(c: Capture, list: List): ChangeRow[] {
	const t = c.changes;
	const wanted = LISTS.indexOf(list);
	const byName = functionsByName(c);
	const rows: ChangeRow[] = [];
	for (let i = 0; i < t.n; i++) {
		if (t.get("list", i) !== wanted) continue;
		const name = c.strings.get(t.get("name", i));
		const file = c.strings.get(t.get("file", i));
		rows.push({
			key: String(i),
			fn: byName.get(`${name}\0${file}`) ?? -1,
			name,
			file,
			line: t.get("line", i),
			text: c.strings.get(t.get("text", i)),
			before: t.get("base", i),
			after: t.get("new", i),
			plusMinus: t.get("plus_minus", i),
			isSignificant: t.get("significant", i) !== 0,
			isGone: (t.get("sides", i) & 2) === 0,
			isNew: (t.get("sides", i) & 1) === 0,
		});
	}
	return rows;
}

// By function: what each had before, with all that it calls.
export function baseTotals(c: Capture, metric: Metric, steps: readonly Step[]): Float64Array {
	const total = totalsOf(c.nodes.parent, selfWeights(c, metric, steps, true));
	const counts = outermost(c);
	const base = new Float64Array(c.functions.n);
	for (let i = 1; i < c.nodes.n; i++) if (counts[i]) base[c.nodes.fn[i]] += total[i];
	return base;
}

// By thread: the CPU time of the thread of that name in the other capture; of several of one name the busiest are the same.
export function threadsBefore(capture: Capture, diff: Capture): Map<number, number> {
	const before = new Map<string, number[]>();
	for (const t of diff.head.base?.threads ?? []) {
		const name = t.name ?? "";
		before.set(name, [...(before.get(name) ?? []), t.cpu_s ?? 0]);
	}
	for (const list of before.values()) list.sort((a, b) => b - a);
	const { threads, strings } = capture;
	const order = Array.from({ length: threads.n }, (_, t) => t).sort((a, b) => threads.cpu[b] - threads.cpu[a]);
	const found = new Map<number, number>();
	for (const t of order) {
		const was = before.get(strings.get(threads.name[t]))?.shift();
		if (was !== undefined) found.set(t, was);
	}
	return found;
}

export interface LineChange {
	time: ChangeRow | null;
	memory: ChangeRow | null;
}

// The lines of a file that were compared, by their number in the new capture.
export function lineChanges(c: Capture, file: string): Map<number, LineChange> {
	const lines = new Map<number, LineChange>();
	for (const [list, key] of [
		["lines", "time"],
		["memory_lines", "memory"],
	] as const)
		for (const row of changesOf(c, list)) {
			if (row.file !== lastPart(file) || row.isGone) continue;
			const known = lines.get(row.line) ?? { time: null, memory: null };
			known[key] ??= row;
			lines.set(row.line, known);
		}
	return lines;
}

// Of kinds of time other than all CPU time, counted here; how sure they are is not known.
export function countedChanges(c: Capture, metric: Metric, steps: readonly Step[]): ChangeRow[] {
	const sums = functionSums(c, metric, steps);
	const base = baseTotals(c, metric, steps);
	const rows: ChangeRow[] = [];
	for (let fn = 0; fn < c.functions.n; fn++) {
		if (!(sums.total[fn] > 0 || base[fn] > 0) || c.functions.kind[fn] === KIND_THREAD) continue;
		rows.push({
			key: `f${fn}`,
			fn,
			name: c.strings.get(c.functions.name[fn]),
			file: lastPart(c.strings.get(c.functions.file[fn]) || c.strings.get(c.functions.library[fn])),
			line: c.functions.line[fn],
			text: "",
			before: base[fn],
			after: sums.total[fn],
			plusMinus: 0,
			isSignificant: false,
			isGone: !(sums.total[fn] > 0),
			isNew: !(base[fn] > 0),
		});
	}
	return rows;
}
