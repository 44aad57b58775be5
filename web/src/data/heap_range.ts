// SPDX-License-Identifier: Apache-2.0
// The memory of a range of time: what was allocated, copied and leaked of what was allocated in it, and what was held when the program
// held most within it.
import { BLOCK_COPIED, BLOCK_LEAKED, NEVER_DIED, type Blocks, type Capture, type Heap } from "./capture";
import { rangeOf, type Step } from "./filter";

// The slot within [from, to] at whose end most was held.
function peakSlot(blocks: Blocks, from: number, to: number): number {
	const change = new Float64Array(to + 2);
	for (let i = 0; i < blocks.n; i++) {
		if (blocks.kind[i] === BLOCK_COPIED || blocks.born[i] > to) continue;
		change[Math.max(from, blocks.born[i])] += blocks.bytes[i];
		// What came and went within one slot was held in it.
		const gone = Math.max(blocks.died[i], blocks.born[i] + 1);
		if (blocks.died[i] !== NEVER_DIED && gone <= to) change[Math.max(from, gone)] -= blocks.bytes[i];
	}
	let live = 0;
	let most = -1;
	let at = from;
	for (let s = from; s <= to; s++) {
		live += change[s];
		if (live > most) [most, at] = [live, s];
	}
	return at;
}

export function heapWithin(blocks: Blocks, range: [number, number]): Heap {
	const from = Math.max(0, Math.floor(range[0] / blocks.grain));
	const to = Math.min(NEVER_DIED - 1, Math.max(from, Math.ceil(range[1] / blocks.grain) - 1));
	const peakAt = peakSlot(blocks, from, to);
	const columns = () => new Float64Array(blocks.n);
	const heap: Heap = {
		n: blocks.n,
		node: blocks.node,
		thread: blocks.thread,
		alloc: columns(),
		peak: columns(),
		leak: columns(),
		copy: columns(),
	};
	for (let i = 0; i < blocks.n; i++) {
		const isBorn = blocks.born[i] >= from && blocks.born[i] <= to;
		if (blocks.kind[i] === BLOCK_COPIED) {
			if (isBorn) heap.copy[i] = blocks.bytes[i];
			continue;
		}
		if (isBorn) heap.alloc[i] = blocks.bytes[i];
		if (isBorn && blocks.kind[i] === BLOCK_LEAKED) heap.leak[i] = blocks.bytes[i];
		const gone = Math.max(blocks.died[i], blocks.born[i] + 1);
		if (blocks.born[i] <= peakAt && gone > peakAt) heap.peak[i] = blocks.bytes[i];
	}
	return heap;
}

const last = new WeakMap<Blocks, { key: string; heap: Heap }>(); // every view asks for the same

// The memory that a filter on time leaves; threads and functions are the caller's.
export function heapOf(capture: Capture, steps: readonly Step[]): Heap | null {
	const range = rangeOf(steps);
	const { blocks } = capture;
	if (!range || !blocks) return capture.heap;
	const key = range.join();
	const known = last.get(blocks);
	if (known?.key === key) return known.heap;
	const heap = heapWithin(blocks, range);
	last.set(blocks, { key, heap });
	return heap;
}
