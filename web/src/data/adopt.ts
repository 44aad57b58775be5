// SPDX-License-Identifier: Apache-2.0
// A part of a capture that the server counted anew (a range of time, some threads) in the numbering of the whole: what the state
// and the address say of functions and files means the same in both.
import { Table, type Capture, type Functions } from "./capture";
import type { Column } from "./bundle";

function keyOf(c: Capture, fn: number): string {
	const f = c.functions;
	const text = (s: number) => c.strings.get(s);
	return JSON.stringify([
		text(f.fullName[fn]) || text(f.name[fn]),
		text(f.file[fn]),
		text(f.library[fn]),
		f.line[fn],
		f.kind[fn],
	]);
}

function extended<T extends Uint32Array | Uint8Array>(column: T, more: number[]): T {
	const longer = new (column.constructor as new (n: number) => T)(column.length + more.length);
	longer.set(column);
	more.forEach((v, i) => (longer[column.length + i] = v));
	return longer;
}

export function adopt(part: Capture, whole: Capture): Capture {
	const known = new Map<string, number>();
	for (let f = 0; f < whole.functions.n; f++) known.set(keyOf(whole, f), f);
	const to = new Uint32Array(part.functions.n);
	const fresh: number[] = []; // functions that the whole had no room for
	for (let f = 0; f < part.functions.n; f++) {
		const found = known.get(keyOf(part, f));
		to[f] = found ?? whole.functions.n + fresh.length;
		if (found === undefined) fresh.push(f);
	}
	const texts = (column: Uint32Array) => fresh.map((f) => whole.strings.add(part.strings.get(column[f])));
	const numbers = (column: Uint32Array | Uint8Array) => fresh.map((f) => column[f]);
	const [w, p] = [whole.functions, part.functions];
	const functions: Functions = {
		n: w.n + fresh.length,
		name: extended(w.name, texts(p.name)),
		fullName: extended(w.fullName, texts(p.fullName)),
		file: extended(w.file, texts(p.file)),
		module: extended(w.module, texts(p.module)),
		library: extended(w.library, texts(p.library)),
		line: extended(w.line, numbers(p.line)),
		kind: extended(w.kind, numbers(p.kind)),
		flags: extended(w.flags, numbers(p.flags)),
		roles: extended(w.roles, numbers(p.roles)),
		package: extended(w.package, texts(p.package)),
	};
	const fn = part.nodes.fn.map((f) => to[f] ?? 0);
	const files = new Map<string, number>();
	for (let i = 0; i < whole.files.n; i++) files.set(whole.strings.get(whole.files.get("name", i)), i);
	const fileOf = (i: number) => files.get(part.strings.get(part.files.get("name", i)));
	const renumbered = (table: Table, prefix: string) => {
		const columns = new Map<string, Column>();
		// Lines of a file that the whole does not have cannot be shown there.
		const rows: number[] = [];
		for (let i = 0; i < table.n; i++) if (prefix !== "line" || fileOf(table.get("file", i)) !== undefined) rows.push(i);
		for (const name of table.names()) {
			const column = table.column(name) as Column;
			const value = (i: number) =>
				name === "function"
					? to[column[i]]
					: prefix === "line" && name === "file"
						? (fileOf(column[i]) ?? 0)
						: column[i];
			columns.set(
				`${prefix}.${name}`,
				(column.constructor as unknown as { from: (rows: number[], f: (i: number) => number) => Column }).from(
					rows,
					value,
				),
			);
		}
		return new Table(columns, prefix);
	};
	const { time: _ofTheWhole, ...report } = whole.report; // of the part, the cells say it
	return {
		...whole,
		report,
		functions,
		nodes: { ...part.nodes, fn },
		cells: part.cells,
		heap: part.heap,
		blocks: null,
		isPart: true,
		functionRows: renumbered(part.functionRows, "func_row"),
		lines: renumbered(part.lines, "line"),
	};
}
