import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBundle } from "../src/data/bundle";
import { BLOCK_COPIED, BLOCK_LEAKED, NEVER_DIED, readCapture, type Blocks } from "../src/data/capture";
import type { Step } from "../src/data/filter";
import { heapWithin } from "../src/data/heap_range";
import { linesOf } from "../src/data/lines";
import { heapWeights } from "../src/data/weights";
import { shop } from "./shop";

// Slots of a tenth of a second. Three blocks, one of them leaked, and a copy.
const rows: [node: number, born: number, died: number, kind: number, bytes: number][] = [
	[1, 10, 40, 0, 100],
	[2, 20, NEVER_DIED, BLOCK_LEAKED, 70],
	[3, 30, 30, 0, 500], // came and went within a slot
	[3, 50, 0, BLOCK_COPIED, 9],
];
const column = (i: number) => rows.map((r) => r[i]);
const blocks: Blocks = {
	n: rows.length,
	node: Uint32Array.from(column(0)),
	thread: new Uint32Array(rows.length),
	born: Uint16Array.from(column(1)),
	died: Uint16Array.from(column(2)),
	kind: Uint8Array.from(column(3)),
	bytes: Float64Array.from(column(4)),
	grain: 0.1,
};
const sums = (from: number, to: number) => {
	const h = heapWithin(blocks, [from, to]);
	const all = (v: Float64Array) => v.reduce((a, b) => a + b, 0);
	return { alloc: all(h.alloc), peak: Array.from(h.peak), leak: all(h.leak), copy: all(h.copy) };
};

test("what was allocated in a range, and what was held when most was", () => {
	assert.deepEqual(sums(0, 10), { alloc: 670, peak: [100, 70, 500, 0], leak: 70, copy: 9 });
	assert.deepEqual(sums(0.5, 1.5), { alloc: 100, peak: [100, 0, 0, 0], leak: 0, copy: 0 });
	assert.deepEqual(sums(2.1, 2.9), { alloc: 0, peak: [100, 70, 0, 0], leak: 0, copy: 0 });
	assert.deepEqual(sums(3.5, 9), { alloc: 0, peak: [100, 70, 0, 0], leak: 0, copy: 9 });
	assert.deepEqual(sums(4.5, 9), { alloc: 0, peak: [0, 70, 0, 0], leak: 0, copy: 9 });
	assert.deepEqual(sums(0, 0.5), { alloc: 0, peak: [0, 0, 0, 0], leak: 0, copy: 0 });
});

test("lines and functions are limited to the range, too", () => {
	const w = shop();
	const whole = readCapture(decodeBundle(w.bytes().buffer as ArrayBuffer));
	assert.ok(whole.heap);
	// Each row of heap as one block of its own time: born in the second that its number says.
	const { n, node, thread, alloc } = whole.heap;
	const capture = {
		...whole,
		blocks: {
			n,
			node,
			thread,
			born: Uint16Array.from({ length: n }, (_, i) => 10 * i + 5),
			died: new Uint16Array(n).fill(NEVER_DIED),
			kind: new Uint8Array(n),
			bytes: alloc,
			grain: 0.1,
		},
	};
	for (let i = 0; i < n; i++) {
		const steps: Step[] = [{ kind: "range", from: i, to: i + 1 }];
		const self = heapWeights(capture, "alloc", steps);
		assert.equal(self[node[i]], alloc[i]);
		assert.equal(
			self.reduce((a, b) => a + b, 0),
			alloc[i],
		);
		const lines = linesOf(capture, steps).filter((r) => r.alloc > 0);
		assert.equal(lines.length, 1);
		assert.equal(lines[0].alloc, alloc[i]);
	}
	const all = linesOf(capture, []).reduce((sum, r) => sum + r.alloc, 0);
	assert.equal(
		all,
		alloc.reduce((a, b) => a + b, 0),
	);
	// Without times the memory of a range is not known, and stays the whole run's.
	assert.equal(
		linesOf(whole, [{ kind: "range", from: 0, to: 1 }]).reduce((sum, r) => sum + r.alloc, 0),
		all,
	);
});
