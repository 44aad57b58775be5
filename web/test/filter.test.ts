import assert from "node:assert/strict";
import { test } from "node:test";
import { adopt } from "../src/data/adopt";
import { activityIn, activityOf, sampleAt } from "../src/data/activity";
import { decodeBundle } from "../src/data/bundle";
import { readCapture } from "../src/data/capture";
import { N_CLASSES } from "../src/data/classes";
import { readSteps, writeSteps, type Step } from "../src/data/filter";
import { cpuOf, linesOf } from "../src/data/lines";
import { METRICS, metricsOf } from "../src/data/metrics";
import { classTotals, selfWeights } from "../src/data/weights";
import { filesOf, mergeByLine } from "../src/data/source_lines";
import { histogramOf, whatsOf } from "../src/data/histogram";
import { comparison, manyThreads } from "./captures";
import { shop } from "./shop";

const open = (bytes: Uint8Array) => readCapture(decodeBundle(bytes.slice().buffer as ArrayBuffer));
const capture = open(shop().bytes());
const CPU = METRICS[0];
const total = (steps: Step[], metric = CPU) => selfWeights(capture, metric, steps).reduce((a, b) => a + b, 0);
const near = (a: number, b: number, by = 1e-6) => assert.ok(Math.abs(a - b) <= by, `${a} is not ${b}`);
const parse = Array.from(capture.functions.name).findIndex((s) => capture.strings.get(s) === "parse_price");

test("in and out of a function, a module, a thread are the two parts of the whole", () => {
	for (const kind of ["function", "module", "thread", "process"] as const) {
		const id = kind === "module" ? capture.functions.module[parse] : kind === "function" ? parse : 0;
		near(total([{ kind, keep: true, id }]) + total([{ kind, keep: false, id }]), total([]));
	}
});

test("several threads filtered in add up", () => {
	const only = (id: number) => total([{ kind: "thread", keep: true, id }]);
	near(
		total([
			{ kind: "thread", keep: true, id: 1 },
			{ kind: "thread", keep: true, id: 2 },
		]),
		only(1) + only(2),
	);
});

test("ranges add up, and a sample across the border counts for its part", () => {
	const wall = METRICS[1];
	const range = (from: number, to: number) => total([{ kind: "range", from, to }], wall);
	near(range(0, 3.33) + range(3.33, 100), total([], wall), 1e-4);
	const main: Step = { kind: "thread", keep: true, id: 0 };
	near(total([main, { kind: "range", from: 0.1, to: 0.3 }], wall), 0.2, 1e-6);
});

test("steps survive the address, and nonsense does not", () => {
	const steps: Step[] = [
		{ kind: "thread", keep: true, id: 3 },
		{ kind: "function", keep: false, id: 12 },
		{ kind: "range", from: 1.25, to: 2.5 },
		{ kind: "module", keep: true, id: 9 },
	];
	assert.deepEqual(readSteps(writeSteps(steps)), steps);
	assert.deepEqual(readSteps("x+1,t*3,r5~1,t+-1,<script>,r1~2"), [{ kind: "range", from: 1, to: 2 }]);
});

test("classes sum to the report's", () => {
	const sums = classTotals(capture, []);
	const t = capture.report.time;
	near(sums[0], t?.python_s ?? -1);
	near(sums[5], t?.wait_s ?? -1);
});

test("metrics are offered when there is something of them", () => {
	const ids = metricsOf(capture).map((m) => m.id);
	for (const id of ["cpu", "both", "wait", "gil", "native", "alloc", "peak", "leak", "copy"])
		assert.ok(ids.includes(id), id);
	assert.deepEqual(
		metricsOf(open(comparison().bytes())).map((m) => m.id),
		["cpu", "python"],
	);
});

test("lines: the program's own without a filter, the same counted here with one that keeps all", () => {
	const exact = linesOf(capture, []);
	const counted = linesOf(capture, [{ kind: "range", from: 0, to: 1000 }]);
	const file = filesOf(exact)[0].file;
	const a = mergeByLine(exact, file);
	const b = mergeByLine(counted, file);
	assert.ok(a.size > 5);
	for (const [line, row] of a) near(cpuOf(row), cpuOf(b.get(line) ?? row), 1e-4);
	assert.ok([...a.values()].some((r) => r.timeline !== null && r.copy > 0));
});

test("activity: the same seconds from far and from near", () => {
	const activity = activityOf(capture, capture.samples, null);
	const sum = (from: number, to: number, columns: number, thread: number) => {
		const out = new Float32Array(columns * N_CLASSES);
		activityIn(activity, capture.samples, null, thread, from, to, columns, out);
		return out.reduce((a, b) => a + b, 0);
	};
	near(sum(0, capture.end, 1000, 0), 5.8, 0.01);
	near(sum(1, 1.01, 1000, 0), 0.01, 1e-4);
	near(sum(1, 2, 100, 0), sum(1, 1.5, 40000, 0) + sum(1.5, 2, 40000, 0), 0.01);
	assert.ok(capture.samples);
	const at = sampleAt(capture.samples, 0, 1);
	assert.ok(capture.samples.time[at] <= 1 && capture.samples.time[at + 1] > 1);
});

test("fifty threads each keep their own activity", () => {
	const many = open(manyThreads().bytes());
	const activity = activityOf(many, many.samples, null);
	const out = new Float32Array(500 * N_CLASSES);
	for (let t = 0; t < 50; t += 7) {
		activityIn(activity, many.samples, null, t, 0, many.end, 500, out);
		const own = Array.from(many.cells.weight).reduce((a, w, i) => a + (many.cells.thread[i] === t ? w : 0), 0);
		near(
			out.reduce((a, b) => a + b, 0),
			own,
			0.01,
		);
	}
});

test("a histogram has every call once, shortest first", () => {
	assert.ok(capture.zones);
	const h = histogramOf(capture, whatsOf(capture, parse), []);
	assert.ok(h);
	assert.equal(
		h.counts.reduce((a, b) => a + b, 0),
		h.calls.length,
	);
	assert.ok(h.calls.length > 300 && h.median <= h.p95 && h.p95 <= h.p99);
	assert.equal(histogramOf(capture, whatsOf(capture, 1), []), null);
});

test("a part counted elsewhere keeps its figures in the numbering of the whole", () => {
	const same = adopt(open(shop({}).bytes()), capture);
	assert.deepEqual(same.nodes.fn.slice(1), capture.nodes.fn.slice(1));
	assert.equal(same.functions.n, capture.functions.n);
	assert.equal(same.lines.n, capture.lines.n);
	assert.equal(same.report.time, undefined);

	const other = open(comparison().bytes());
	const adopted = adopt(other, capture);
	assert.equal(adopted.functions.n, capture.functions.n + 4, "all are other functions, by their file");
	const name = (fn: number) => adopted.strings.get(adopted.functions.name[fn]);
	const rows = adopted.functionRows;
	const slow = Array.from({ length: rows.n }, (_, i) => i).find((i) => name(rows.get("function", i)) === "slow");
	assert.ok(slow !== undefined);
	near(rows.get("self_s", slow), 2.5);
	for (let i = 1; i < adopted.nodes.n; i++)
		assert.equal(name(adopted.nodes.fn[i]), other.strings.get(other.functions.name[other.nodes.fn[i]]));
	near(
		selfWeights(adopted, CPU, []).reduce((a, b) => a + b, 0),
		3.51,
	);
	assert.equal(adopted.lines.n, 0, "no file of the whole has them");
});
