// SPDX-License-Identifier: Apache-2.0
// Numbers per source line. Time that ends in native code or in a library belongs to the nearest line of the user's own
// code above it: that is the line one can change.
import type { Capture } from "./capture";
import { CLASS_GC, CLASS_GIL_WAIT, CLASS_NATIVE, CLASS_PYTHON, CLASS_SYSTEM, CLASS_WAIT } from "./classes";
import { rangeOf, type Step } from "./filter";
import { ownersOf } from "./functions";
import { eachTime, heapWeights } from "./weights";

export interface LineRow {
	file: number; // string index
	line: number;
	fn: number;
	python: number;
	native: number;
	system: number;
	gc: number; // the cycle collector, which an allocation of this line set off
	wait: number; // for the GIL or anything else
	gilWait: number; // the part of it for the GIL
	plusMinus: number;
	alloc: number;
	pythonShare: number;
	peak: number;
	average: number;
	copy: number;
	allocs: number; // how many blocks
	kept: number; // bytes that are held at the end
	types: string; // of Python objects that are kept, most first; "" when not known
	life: number; // seconds that a byte lived, as a mean
	timeline: Float32Array | null;
}

export const TIMELINE_POINTS = 32;

// By class, for a bar.
export const classesOf = (r: LineRow) => [r.python, r.native, r.system, r.gc, r.gilWait, r.wait - r.gilWait];

export const cpuOf = (row: LineRow) => row.python + row.native + row.system + row.gc;

function timelineOf(capture: Capture, row: number): Float32Array | null {
	const { lineTimeline, lines } = capture;
	// A line that never held memory has none, whatever its index says.
	if (!lineTimeline || !lines.has("timeline") || !(lines.get("peak_bytes", row) + lines.get("alloc_bytes", row) > 0))
		return null;
	const first = lines.get("timeline", row);
	return first + TIMELINE_POINTS <= lineTimeline.length ? lineTimeline.subarray(first, first + TIMELINE_POINTS) : null;
}

// The program's own rows.
function exactLines(capture: Capture): LineRow[] {
	const rows: LineRow[] = [];
	const t = capture.lines;
	for (let i = 0; i < t.n; i++)
		rows.push({
			file: fileName(capture, t.get("file", i)),
			line: t.get("line", i),
			fn: t.get("function", i),
			python: t.has("python_s") ? t.get("python_s", i) : t.get("total_s", i),
			native: t.get("native_s", i),
			system: t.get("system_s", i),
			gc: t.get("gc_s", i),
			wait: t.get("wait_s", i) + t.get("gil_wait_s", i),
			gilWait: t.get("gil_wait_s", i),
			plusMinus: t.get("plus_minus_s", i),
			alloc: t.get("alloc_bytes", i),
			pythonShare: t.get("python_share", i),
			peak: t.get("peak_bytes", i),
			average: t.get("avg_bytes", i),
			copy: t.get("copy_bytes", i),
			allocs: t.get("allocs", i),
			kept: t.get("live_bytes", i),
			types: capture.strings.get(t.get("types", i)),
			life: t.get("life_s", i),
			timeline: timelineOf(capture, i),
		});
	return rows;
}

// line.file is an index into the table of files; other tables name files by string.
export function fileName(capture: Capture, file: number): number {
	return capture.files.get("name", file);
}

// Under a filter all is counted anew from the tree.
export function linesOf(capture: Capture, steps: readonly Step[]): LineRow[] {
	const exact = exactLines(capture);
	const isWhole = steps.length === 0 && exact.length > 0;
	if (isWhole && !capture.isPart) return exact;
	const { nodes, functions } = capture;
	const owner = ownersOf(capture);
	const found = new Map<string, LineRow>();
	const key = (file: number, line: number, fn: number) => `${file}:${line}:${fn}`;
	const rowOf = (node: number): LineRow | null => {
		const at = owner[node];
		if (at === 0) return null;
		const fn = nodes.fn[at];
		const file = functions.file[fn];
		const k = key(file, nodes.line[at], fn);
		let row = found.get(k);
		if (!row) found.set(k, (row = emptyRow(file, nodes.line[at], fn)));
		return row;
	};
	for (const row of exact) {
		if (!isWhole) row.python = row.native = row.system = row.gc = row.wait = row.gilWait = row.plusMinus = 0;
		if (hasMemoryOf(capture, steps)) {
			row.alloc = row.peak = row.copy = row.average = row.pythonShare = 0;
			row.allocs = row.kept = row.life = 0; // of the whole run only
			row.types = "";
			row.timeline = null;
		}
		found.set(key(row.file, row.line, row.fn), row);
	}
	if (!isWhole)
		eachTime(capture, steps, false, (node, cls, seconds) => {
			const row = rowOf(node);
			if (!row) return;
			if (cls === CLASS_PYTHON) row.python += seconds;
			else if (cls === CLASS_NATIVE) row.native += seconds;
			else if (cls === CLASS_SYSTEM) row.system += seconds;
			else if (cls === CLASS_GC) row.gc += seconds;
			else if (cls === CLASS_WAIT || cls === CLASS_GIL_WAIT) row.wait += seconds;
			if (cls === CLASS_GIL_WAIT) row.gilWait += seconds;
		});
	if (hasMemoryOf(capture, steps)) {
		for (const column of ["alloc", "peak", "copy"] as const) {
			const self = heapWeights(capture, column, steps);
			for (let node = 1; node < nodes.n; node++) {
				const row = self[node] > 0 ? rowOf(node) : null;
				if (row) row[column] += self[node];
			}
		}
	}
	return [...found.values()];
}

// Whether the memory of what the filter leaves is known: that of a range is when the capture has its blocks, or was counted for it.
function hasMemoryOf(capture: Capture, steps: readonly Step[]): boolean {
	return capture.heap !== null && (capture.isPart || capture.blocks !== null || rangeOf(steps) === null);
}

function emptyRow(file: number, line: number, fn: number): LineRow {
	return {
		file,
		line,
		fn,
		python: 0,
		native: 0,
		system: 0,
		gc: 0,
		wait: 0,
		gilWait: 0,
		plusMinus: 0,
		alloc: 0,
		pythonShare: 0,
		peak: 0,
		average: 0,
		copy: 0,
		allocs: 0,
		kept: 0,
		types: "",
		life: 0,
		timeline: null,
	};
}
