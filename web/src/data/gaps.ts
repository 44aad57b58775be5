// SPDX-License-Identifier: Apache-2.0
// Where a thread neither ran nor waited it was ready, and had no CPU, or nobody knows what it did. The capture says how long it had no
// CPU in all, as the kernel counts it; when that was is what lies between two samples, where most of that was time without a CPU.
import type { Capture, Samples } from "./capture";
import { CLASS_NO_CPU } from "./classes";

const LEAST = 2e-6; // times are known to the microsecond

const known = new WeakMap<Capture, Samples>();

// All that lies between the samples of a thread.
function gapsOf(capture: Capture, samples: Samples, t: number): number {
	let done = capture.threads.start[t];
	let sum = 0;
	for (let i = samples.first[t]; i < samples.first[t + 1]; i++) {
		sum += Math.max(samples.time[i] - done, 0);
		done = Math.max(done, samples.time[i] + samples.weight[i]);
	}
	return sum + Math.max(capture.threads.end[t] - done, 0);
}

// The samples with those gaps as records of their own, for the timeline.
export function withGaps(capture: Capture): Samples | null {
	const { samples, threads } = capture;
	if (!samples || !threads.noCpu.some((s) => s > 0)) return samples;
	const before = known.get(capture);
	if (before) return before;
	const time: number[] = [];
	const thread: number[] = [];
	const node: number[] = [];
	const cls: number[] = [];
	const weight: number[] = [];
	const add = (at: number, t: number, n: number, c: number, w: number) => {
		time.push(at);
		thread.push(t);
		node.push(n);
		cls.push(c);
		weight.push(w);
	};
	const first = new Uint32Array(threads.n + 1);
	for (let t = 0; t < threads.n; t++) {
		const hasGaps = threads.noCpu[t] > 0 && threads.noCpu[t] > gapsOf(capture, samples, t) / 2;
		let done = threads.start[t];
		for (let i = samples.first[t]; i < samples.first[t + 1]; i++) {
			if (hasGaps && samples.time[i] - done > LEAST) add(done, t, 0, CLASS_NO_CPU, samples.time[i] - done);
			add(samples.time[i], t, samples.node[i], samples.class[i], samples.weight[i]);
			done = Math.max(done, samples.time[i] + samples.weight[i]);
		}
		if (hasGaps && threads.end[t] - done > LEAST) add(done, t, 0, CLASS_NO_CPU, threads.end[t] - done);
		first[t + 1] = time.length;
	}
	const made: Samples = {
		n: time.length,
		time: Float64Array.from(time),
		thread: Uint32Array.from(thread),
		node: Uint32Array.from(node),
		class: Uint8Array.from(cls),
		weight: Float32Array.from(weight),
		first,
	};
	known.set(capture, made);
	return made;
}
