// SPDX-License-Identifier: Apache-2.0
// One file's numbers by line, and what calls into and out of each.
import type { Capture } from "./capture";
import { cpuOf, type LineRow } from "./lines";

export interface FileRow {
	file: number; // string index
	cpu: number;
	wait: number;
	alloc: number;
}

export function filesOf(rows: readonly LineRow[]): FileRow[] {
	const files = new Map<number, FileRow>();
	for (const r of rows) {
		let f = files.get(r.file);
		if (!f) files.set(r.file, (f = { file: r.file, cpu: 0, wait: 0, alloc: 0 }));
		f.cpu += cpuOf(r);
		f.wait += r.wait;
		f.alloc += r.alloc;
	}
	return [...files.values()].sort((a, b) => b.cpu - a.cpu || b.alloc - a.alloc || b.wait - a.wait);
}

// Several functions may share a line (a lambda, a comprehension): the page shows the line once.
export function mergeByLine(rows: readonly LineRow[], file: number): Map<number, LineRow> {
	const lines = new Map<number, LineRow>();
	for (const r of rows) {
		if (r.file !== file) continue;
		const known = lines.get(r.line);
		if (!known) {
			lines.set(r.line, { ...r });
			continue;
		}
		known.python += r.python;
		known.native += r.native;
		known.system += r.system;
		known.gc += r.gc;
		known.wait += r.wait;
		known.gilWait += r.gilWait;
		known.plusMinus = Math.hypot(known.plusMinus, r.plusMinus);
		known.pythonShare =
			known.alloc + r.alloc > 0
				? (known.pythonShare * known.alloc + r.pythonShare * r.alloc) / (known.alloc + r.alloc)
				: 0;
		known.life =
			known.alloc + r.alloc > 0 ? (known.life * known.alloc + r.life * r.alloc) / (known.alloc + r.alloc) : 0;
		known.allocs += r.allocs;
		known.kept += r.kept;
		known.types ||= r.types;
		known.alloc += r.alloc;
		known.peak = Math.max(known.peak, r.peak);
		known.average += r.average;
		known.copy += r.copy;
		known.timeline ??= r.timeline;
	}
	return lines;
}

const textOf = new WeakMap<Capture, Map<number, string[]>>();
const SHOWN_CHARS = 200;

// What a line says, without what it is indented by; "" where the text is not known.
export function sourceLine(capture: Capture, file: number, line: number): string {
	let files = textOf.get(capture);
	if (!files) textOf.set(capture, (files = new Map()));
	let lines = files.get(file);
	if (!lines) {
		const names = capture.files.column("name");
		const row = names ? Array.prototype.indexOf.call(names, file) : -1;
		const text = row >= 0 ? capture.files.get("source", row) : 0;
		files.set(file, (lines = text ? capture.strings.lines(text).split("\n") : []));
	}
	return (lines[line - 1] ?? "").trim().slice(0, SHOWN_CHARS);
}

export interface LineCall {
	fn: number;
	line: number;
	weight: number;
}

// For one line: the lines that its functions were called from, and the functions it calls.
export function callsOfLine(
	capture: Capture,
	nodeTotal: Float64Array,
	file: number,
	line: number,
): { callers: LineCall[]; callees: LineCall[] } {
	const { nodes, functions } = capture;
	const callers = new Map<number, LineCall>();
	const callees = new Map<number, LineCall>();
	const add = (to: Map<number, LineCall>, node: number, weight: number) => {
		const key = nodes.fn[node] * 0x200000 + (nodes.line[node] & 0x1fffff);
		const known = to.get(key);
		if (known) known.weight += weight;
		else to.set(key, { fn: nodes.fn[node], line: nodes.line[node], weight });
	};
	for (let i = 1; i < nodes.n; i++) {
		if (!(nodeTotal[i] > 0)) continue;
		if (nodes.line[i] === line && functions.file[nodes.fn[i]] === file) {
			let above = nodes.parent[i];
			while (above > 0 && functions.flags[nodes.fn[above]] & 2) above = nodes.parent[above];
			if (above > 0 && functions.kind[nodes.fn[above]] < 2) add(callers, above, nodeTotal[i]);
		}
		const parent = nodes.parent[i];
		if (
			parent > 0 &&
			nodes.line[parent] === line &&
			functions.file[nodes.fn[parent]] === file &&
			!(functions.flags[nodes.fn[i]] & 2)
		)
			add(callees, i, nodeTotal[i]);
	}
	const sorted = (m: Map<number, LineCall>) => [...m.values()].sort((a, b) => b.weight - a.weight).slice(0, 30);
	return { callers: sorted(callers), callees: sorted(callees) };
}
