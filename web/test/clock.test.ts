// The clock, gaps without a CPU, and the rows of a comparison.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBundle } from "../src/data/bundle";
import { readCapture } from "../src/data/capture";
import { changesOf, countedChanges } from "../src/data/changes";
import { CLASS_NO_CPU, CLASS_PYTHON, CLASS_WAIT } from "../src/data/classes";
import { clockOf, cpuByThread, idleThreads, livedIn, mainThread } from "../src/data/clock";
import { withGaps } from "../src/data/gaps";
import { CPU } from "../src/data/metrics";
import { wholeOf } from "../src/data/weights";
import { CaptureBuilder } from "./capture_builder";
import { comparison } from "./captures";

const near = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

// The main thread lives 10 s: it runs 1 s, waits 2 s, and has no CPU for 7 s. A pool of three waits for all its 9 s.
function crowded() {
	const b = new CaptureBuilder();
	const work = b.function({ name: "work", file: "/home/ann/work.py", module: "work", line: 1, kind: 1 });
	const node = b.stack([[work, 2]]);
	b.threads.push({
		process: 0,
		tid: b.processes[0].pid,
		name: "MainThread",
		cpu: 0,
		wall: 10,
		start: 0,
		end: 10,
		noCpu: 7,
	});
	for (let t = 1; t <= 3; t++)
		b.threads.push({ process: 0, tid: 100 + t, name: `pool-${t}`, cpu: 0, wall: 9, start: 1, end: 10 });
	b.sample(2, 0, node, CLASS_PYTHON, 0.5); // time is the end of a sample
	b.sample(6, 0, node, CLASS_WAIT, 2);
	b.sample(9, 0, node, CLASS_PYTHON, 0.5);
	for (let t = 1; t <= 3; t++) b.sample(10, t, node, CLASS_WAIT, 9);
	return readCapture(decodeBundle(b.finish().bytes().slice().buffer as ArrayBuffer));
}

test("the clock is the main thread's, whatever a pool waits", () => {
	const c = crowded();
	assert.equal(mainThread(c), 0);
	const clock = clockOf(c, 0, []);
	near(clock.wall, 10);
	near(clock.values[CLASS_PYTHON], 1);
	near(clock.values[CLASS_WAIT], 2);
	near(clock.values[CLASS_NO_CPU], 7);
	assert.deepEqual(idleThreads(c, 0), { n: 3, waited: 27 });
});

test("what lies between samples had no CPU, and only where that is known", () => {
	const c = crowded();
	const samples = withGaps(c);
	assert.ok(samples);
	const sums = new Float64Array(7);
	for (let i = samples.first[0]; i < samples.first[1]; i++) sums[samples.class[i]] += samples.weight[i];
	near(sums[CLASS_NO_CPU], 7);
	near(
		sums.reduce((a, b) => a + b, 0),
		10,
	);
	for (let i = 1; i < samples.first[1]; i++)
		assert.ok(samples.time[i] >= samples.time[i - 1] + samples.weight[i - 1] - 1e-6, "they overlap");
	for (let i = samples.first[1]; i < samples.n; i++) assert.notEqual(samples.class[i], CLASS_NO_CPU);
});

test("a comparison has the program's rows, and counts other kinds itself", () => {
	const c = readCapture(decodeBundle(comparison().bytes().slice().buffer as ArrayBuffer));
	const rows = new Map(changesOf(c, "functions").map((r) => [r.name, r]));
	near(rows.get("slow")?.after ?? 0, 2.5);
	near(rows.get("slow")?.before ?? 0, 1);
	assert.ok(rows.get("slow")?.isSignificant && !rows.get("same")?.isSignificant);
	near(rows.get("gone")?.after ?? 1, 0);
	assert.ok((rows.get("gone")?.fn ?? -1) >= 0, "a row leads to its function");
	assert.equal(changesOf(c, "lines").length, 3);
	assert.equal(changesOf(c, "memory").length, 0);
	for (const r of countedChanges(c, CPU, []))
		near(r.after - r.before, (rows.get(r.name)?.after ?? 0) - (rows.get(r.name)?.before ?? 0));
	near(wholeOf(c, CPU, []), 3.51);
	near(wholeOf(c, CPU, [], true), 2.75);
});

test("the clock of a range is as long as the range, with what had no CPU", () => {
	const c = crowded();
	const clock = clockOf(c, 0, [{ kind: "range", from: 1, to: 7 }]);
	near(clock.wall, 6);
	near(clock.values[CLASS_PYTHON], 0.5);
	near(clock.values[CLASS_WAIT], 2);
	near(clock.values[CLASS_NO_CPU], 3.5);
	near(livedIn(c, 1, [0, 4]), 3);
});

test("what idle threads waited is counted in what the filter leaves", () => {
	const c = crowded();
	const idle = idleThreads(c, 0, [{ kind: "range", from: 0, to: 3 }]);
	assert.equal(idle.n, 3);
	near(idle.waited, 6);
	near(cpuByThread(c, [{ kind: "range", from: 0, to: 3 }])[0], 0.5);
	near(cpuByThread(c, [{ kind: "thread", keep: true, id: 1 }])[0], 0);
});
