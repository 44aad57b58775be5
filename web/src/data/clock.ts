// SPDX-License-Identifier: Apache-2.0
// What one thread did with the wall time. Sums over all threads answer another question: a pool that waits adds its hours to them.
import type { Capture } from "./capture";
import { CLASS_GIL_WAIT, CLASS_NO_CPU, CLASS_WAIT } from "./classes";
import type { Step } from "./filter";
import { classTotals } from "./weights";

const IDLE_SHARE = 0.95; // of a thread's life

// The first process's first thread, or the busiest where that is not known.
export function mainThread(capture: Capture): number {
	const { threads, processes } = capture;
	let busiest = threads.n > 0 ? 0 : -1;
	for (let t = 0; t < threads.n; t++) {
		if (threads.process[t] === 0 && processes.n > 0 && threads.tid[t] === processes.get("pid", 0)) return t;
		if (threads.cpu[t] > threads.cpu[busiest]) busiest = t;
	}
	return busiest;
}

export interface Clock {
	thread: number;
	wall: number; // seconds
	values: number[]; // by class
}

// Under a range, how much of it had no CPU is not known.
export function clockOf(capture: Capture, thread: number, steps: readonly Step[]): Clock {
	const rest = steps.filter((s) => s.kind !== "thread" && s.kind !== "process");
	const values = Array.from(classTotals(capture, [...rest, { kind: "thread", keep: true, id: thread }]));
	if (rest.length === 0 && !capture.isPart) values[CLASS_NO_CPU] = capture.threads.noCpu[thread];
	return { thread, wall: capture.threads.wall[thread], values };
}

export interface Idle {
	n: number; // threads that waited nearly all their life
	waited: number; // seconds of these, added up
}

export function idleThreads(capture: Capture, but: number): Idle {
	const { cells, threads } = capture;
	const waited = new Float64Array(threads.n);
	for (let i = 0; i < cells.n; i++)
		if (cells.class[i] === CLASS_WAIT || cells.class[i] === CLASS_GIL_WAIT) waited[cells.thread[i]] += cells.weight[i];
	const idle = { n: 0, waited: 0 };
	for (let t = 0; t < threads.n; t++) {
		if (t === but || !(waited[t] > IDLE_SHARE * (waited[t] + threads.cpu[t] + threads.noCpu[t]))) continue;
		idle.n++;
		idle.waited += waited[t];
	}
	return idle;
}
