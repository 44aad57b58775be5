import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBundle } from "../src/data/bundle";
import { readCapture, type Capture } from "../src/data/capture";
import { METRICS } from "../src/data/metrics";
import { overTime, PARTS, partsOf } from "../src/data/over_time";
import { readToggles, shownRows, writeToggles, type Shown } from "../src/data/own_rows";
import { OWN_ELSEWHERE, OWN_IMPORTS, OWN_PACKAGE, OWN_START, ownTree, ownWeights } from "../src/data/own_tree";
import { selfWeights } from "../src/data/weights";
import { big } from "./big";
import { CaptureBuilder } from "./capture_builder";
import { shop } from "./shop";

const CPU = METRICS[0];
const open = (bytes: Uint8Array): Capture => readCapture(decodeBundle(bytes.slice().buffer as ArrayBuffer));
const near = (a: number, b: number, what = "") =>
	assert.ok(Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b)), `${what}: ${a} is not ${b}`);

// A program that imports, recurses, and calls a package that calls it back.
function made(): Capture {
	const b = new CaptureBuilder();
	b.threads.push({ process: 0, tid: 1, name: "main", cpu: 0, wall: 0, start: 0, end: 10 });
	const own = (name: string, line: number) => b.function({ name, file: "/app/a.py", module: "a", line, kind: 1 });
	const body = own("<module>", 1);
	const [run, walk, callback] = [own("run", 3), own("walk", 9), own("callback", 20)];
	const comprehension = b.function({
		name: "run.<locals>.<listcomp>",
		file: "/app/a.py",
		module: "a",
		line: 5,
		kind: 1,
		roles: 3,
	});
	const library = (name: string, module: string) =>
		b.function({ name, file: `/lib/site-packages/${module}.py`, module, line: 1, kind: 1, flags: 1 });
	const [solve, step, plot] = [
		library("solve", "numlib.core"),
		library("step", "numlib.inner"),
		library("plot", "plotlib"),
	];
	const fast = b.function({ name: "kernel", module: "numlib", library: "/lib/site-packages/numlib/x.so", kind: 0 });
	const load = b.function({
		name: "_find_and_load",
		file: "<frozen importlib._bootstrap>",
		module: "importlib",
		kind: 1,
		flags: 1,
		roles: 4 | 16,
		package: "",
	});
	const plotBody = b.function({
		name: "<module>",
		file: "/lib/site-packages/plotlib.py",
		module: "plotlib",
		kind: 1,
		flags: 1,
	});
	const put = (at: number, weight: number, ...frames: number[]) =>
		b.sample(at, 0, b.stack(frames.map((f) => [f, f + 1])), 0, weight);
	put(1, 1, load, load); // before the program's first line
	put(3, 2, body, load, load, plotBody, load, plotBody); // imports within imports are part of what was asked for
	put(4, 1, body, run, comprehension);
	put(6, 2, body, run, walk, walk, walk);
	put(8, 2, body, run, solve, step, fast); // three modules, one package
	put(9, 1, body, run, solve, callback, step); // back in the user's code and away again
	put(10, 1, body, plot);
	put(11, 0.5); // without a frame
	return open(b.finish().bytes());
}

const c = made();
const tree = ownTree(c);
const { self, total } = ownWeights(tree, selfWeights(c, CPU, []));
const nameOf = (i: number) =>
	tree.kind[i] === OWN_IMPORTS
		? "(imports)"
		: tree.kind[i] === OWN_START
			? "(start)"
			: tree.kind[i] === OWN_ELSEWHERE
				? "(elsewhere)"
				: c.strings.get(tree.kind[i] === OWN_PACKAGE ? tree.id[i] : c.functions.name[tree.id[i]]);
const pathOf = (i: number): string => (i === 0 ? "" : `${pathOf(tree.parent[i])}/${nameOf(i)}`);

test("packages, imports, recursion and comprehensions are one node each", () => {
	const totals = Object.fromEntries(Array.from({ length: tree.n }, (_, i) => [pathOf(i), total[i]]));
	assert.deepEqual(totals, {
		"": 10.5,
		"/(start)": 1,
		"/(elsewhere)": 0.5,
		"/<module>": 9,
		"/<module>/(imports)": 2,
		"/<module>/(imports)/plotlib": 2,
		"/<module>/run": 6,
		"/<module>/run/walk": 2,
		"/<module>/run/numlib": 3,
		"/<module>/run/numlib/callback": 1,
		"/<module>/run/numlib/callback/numlib": 1,
		"/<module>/plotlib": 1,
	});
	const run = tree.id.findIndex((_, i) => nameOf(i) === "run");
	near(self[run], 1, "the comprehension is the function's own");
});

const rowsOf = (change: Partial<Parameters<typeof shownRows>[2]> = {}): Shown[] =>
	shownRows(
		tree,
		{ self, total, baseSelf: null, baseTotal: null, wait: null, waitSelf: null, idle: null, sure: null, muchWait: 0 },
		{
			isInverted: false,
			whole: total[0],
			toggles: new Set(),
			matches: null,
			sort: (a, b) => b.total - a.total,
			...change,
		},
	);

test("what is large is open, imports are not, and a row can be opened and closed", () => {
	const names = (rows: Shown[]) => rows.map((s) => nameOf(s.row.at[0]));
	assert.deepEqual(names(rowsOf()), [
		"<module>",
		"run",
		"numlib",
		"callback",
		"numlib",
		"walk",
		"(imports)",
		"plotlib",
		"(start)",
		"(elsewhere)",
	]);
	const imports = rowsOf().find((s) => s.row.kind === OWN_IMPORTS) as Shown;
	assert.ok(imports.hasChildren && !imports.isOpen);
	const opened = rowsOf({ toggles: new Set([imports.row.key]) });
	assert.equal(opened.filter((s) => nameOf(s.row.at[0]) === "plotlib").length, 2);
	const run = rowsOf().find((s) => nameOf(s.row.at[0]) === "run") as Shown;
	assert.ok(!names(rowsOf({ toggles: new Set([`-${run.row.key}`]) })).includes("walk"));
	assert.deepEqual(readToggles(writeToggles(new Set(["a", "-b"]))), new Set(["a", "-b"]));
});

test("upside down the first rows are where time ends, their callers add up to them", () => {
	const rows = rowsOf({ isInverted: true });
	near(
		rows.reduce((sum, s) => sum + s.total, 0),
		total[0],
		"all",
	);
	const numlib = rows.find((s) => nameOf(s.row.at[0]) === "numlib") as Shown;
	near(numlib.total, 3, "wherever it was called");
	const all = rowsOf({ isInverted: true, toggles: new Set([numlib.row.key]) });
	const callers = all.filter((s) => s.parent === all.findIndex((r) => r.row.key === numlib.row.key));
	assert.deepEqual(
		callers.map((s) => [nameOf(s.row.at[0]), s.total]),
		[
			["run", 2],
			["callback", 1],
		],
	);
});

test("of a search, what leads to a match and what a match calls stay", () => {
	const matches = Uint8Array.from({ length: tree.n }, (_, i) => Number(nameOf(i) === "callback"));
	const names = rowsOf({ matches }).map((s) => nameOf(s.row.at[0]));
	assert.deepEqual(names, ["<module>", "run", "numlib", "callback", "numlib"]);
});

test("what a row took over time adds up to its total", () => {
	for (const capture of [c, open(shop().bytes()), open(big(3000, 2000).bytes())]) {
		const own = ownTree(capture);
		const sums = ownWeights(own, selfWeights(capture, CPU, []));
		const times = overTime(capture, own, CPU, []);
		assert.ok(times && capture.samples);
		const part = capture.end / PARTS;
		const sampled = new Float64Array(own.n);
		for (let i = 0; i < capture.samples.n; i++)
			if (capture.samples.class[i] < 4) sampled[own.of[capture.samples.node[i]]] += capture.samples.weight[i];
		for (let i = 0; i < Math.min(own.n, 200); i++) {
			const sum = partsOf(times.self, [i]).reduce((a, b) => a + b, 0) * part;
			assert.ok(Math.abs(sum - sampled[i]) <= 1e-3 * Math.max(0.01, sampled[i]), `${sum} is not ${sampled[i]}`);
		}
		near(
			sums.total[0],
			sums.self.reduce((a, b) => a + b, 0),
		);
	}
});

test("a row of pools that had nothing to do is told apart", () => {
	const at = tree.id.findIndex((_, i) => nameOf(i) === "numlib" && nameOf(tree.parent[i]) === "run");
	const idle = { self: self.map((v, i) => (isBelow(i, at) ? v : 0)), total: new Float64Array(tree.n) };
	for (let i = tree.n - 1; i > 0; i--) {
		idle.total[i] += idle.self[i];
		idle.total[tree.parent[i]] += idle.total[i];
	}
	const figures = { self, total, baseSelf: null, baseTotal: null, wait: null, waitSelf: null, sure: null, muchWait: 0 };
	const options = { isInverted: false, whole: total[0], toggles: new Set<string>(), matches: null };
	const rows = shownRows(tree, { ...figures, idle }, { ...options, sort: (a, b) => b.total - a.total });
	for (const s of rows) assert.equal(s.isIdle, isBelow(s.row.at[0], at), pathOf(s.row.at[0]));
	assert.ok(rows.some((s) => s.isIdle) && rows.some((s) => !s.isIdle));
});

function isBelow(node: number, above: number): boolean {
	for (let i = node; i > 0; i = tree.parent[i]) if (i === above) return true;
	return false;
}
