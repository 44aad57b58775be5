import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBundle } from "../src/data/bundle";
import { readCapture, type Capture } from "../src/data/capture";
import { functionSums, edgesOf } from "../src/data/functions";
import { firstAfter, leftHeavy, spanAt, timeOrder, withoutRoot } from "../src/data/layout";
import { METRICS } from "../src/data/metrics";
import { matcherOf, matchingFunctions, matchTree } from "../src/data/search";
import { buildCallers, buildTree, PLAIN, type Tree } from "../src/data/tree";
import { selfWeights } from "../src/data/weights";
import { big } from "./big";
import { comparison, hostile } from "./captures";
import { shop } from "./shop";

const CPU = METRICS[0];
const open = (bytes: Uint8Array): Capture => readCapture(decodeBundle(bytes.slice().buffer as ArrayBuffer));
const capture = open(shop().bytes());
const self = selfWeights(capture, CPU, []);
const whole = self.reduce((a, b) => a + b, 0);
const near = (a: number, b: number, what = "") =>
	assert.ok(Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b)), `${what}: ${a} is not ${b}`);
const named = (name: string) => Array.from(capture.functions.name).findIndex((s) => capture.strings.get(s) === name);
const nodesOf = (tree: Tree, name: string) =>
	Array.from({ length: tree.n }, (_, i) => i).filter((i) => i > 0 && tree.fn[i] === named(name));
const totalOf = (tree: Tree, name: string) => nodesOf(tree, name).reduce((sum, i) => sum + tree.total[i], 0);

test("every way of folding keeps the whole", () => {
	for (const change of [
		{},
		{ onlyMine: true },
		{ foldLibraries: true },
		{ collapseRecursion: true },
		{ showPlumbing: false },
		{ byLine: true },
		{ hidden: [named("parse_price"), named("fib")] },
	]) {
		const tree = buildTree(capture, self, { ...PLAIN, ...change });
		near(tree.total[0], whole, JSON.stringify(change));
		near(
			tree.self.reduce((a, b) => a + b, 0),
			whole,
		);
		for (let i = 1; i < tree.n; i++) assert.ok(tree.parent[i] < i);
	}
});

test("a hidden function gives its time to the caller", () => {
	const tree = buildTree(capture, self, { ...PLAIN, hidden: [named("unicode_split")] });
	const plain = buildTree(capture, self, PLAIN);
	assert.equal(nodesOf(tree, "unicode_split").length, 0);
	const selfOf = (t: Tree, name: string) => nodesOf(t, name).reduce((sum, i) => sum + t.self[i], 0);
	near(selfOf(tree, "parse_price"), selfOf(plain, "parse_price") + selfOf(plain, "unicode_split"));
});

test("recursion collapses into one frame with the whole time", () => {
	const tree = buildTree(capture, self, { ...PLAIN, collapseRecursion: true });
	assert.equal(nodesOf(tree, "fib").length, 1);
	near(totalOf(tree, "fib"), 1.1);
});

test("only my code leaves no library and no native frame", () => {
	const tree = buildTree(capture, self, { ...PLAIN, onlyMine: true });
	for (let i = 1; i < tree.n; i++)
		assert.ok(capture.functions.kind[tree.fn[i]] === 1 && !(capture.functions.flags[tree.fn[i]] & 1));
});

test("focus and callers agree with the function's total, recursion counted once", () => {
	const sums = functionSums(capture, CPU, []);
	for (const name of ["fib", "rank", "parse_price", "malloc"]) {
		const fn = named(name);
		near(buildTree(capture, self, { ...PLAIN, focus: fn }).total[0], sums.total[fn], `focus on ${name}`);
		near(buildCallers(capture, self, fn, PLAIN).total[0], sums.total[fn], `callers of ${name}`);
	}
});

test("functions counted here are those the program counted", () => {
	const sums = functionSums(capture, CPU, []);
	const t = capture.functionRows;
	for (let i = 0; i < t.n; i++) {
		near(sums.self[t.get("function", i)], t.get("self_s", i));
		near(sums.total[t.get("function", i)], t.get("total_s", i));
	}
});

test("calls add up: what main calls is main without itself", () => {
	const sums = functionSums(capture, CPU, []);
	const main = named("main");
	const called = edgesOf(capture, CPU, [])
		.filter((e) => e.caller === main)
		.reduce((a, e) => a + e.weight, 0);
	near(called + sums.self[main], sums.total[main]);
});

test("left heavy: heaviest first, children inside their parent", () => {
	const tree = buildTree(capture, self, PLAIN);
	const l = leftHeavy(tree);
	for (let row = 0; row < l.rows; row++)
		for (let s = l.rowStart[row]; s < l.rowStart[row + 1]; s++) {
			near(l.x1[s] - l.x0[s], tree.total[l.node[s]]);
			if (s > l.rowStart[row]) {
				assert.ok(l.x0[s] >= l.x1[s - 1] - 1e-12);
				if (tree.parent[l.node[s]] === tree.parent[l.node[s - 1]])
					assert.ok(tree.total[l.node[s]] <= tree.total[l.node[s - 1]]);
			}
			if (row > 0) {
				const above = spanAt(l, row - 1, (l.x0[s] + l.x1[s]) / 2);
				assert.equal(l.node[above], tree.parent[l.node[s]]);
			}
		}
	assert.equal(withoutRoot(l).rows, l.rows - 1);
});

test("time order: one thread's time, in order, none of it twice", () => {
	assert.ok(capture.samples);
	const tree = buildTree(capture, self, PLAIN);
	const wanted = new Uint8Array(256).fill(1);
	const l = timeOrder(tree, capture.samples, 0, null, wanted);
	const row = (r: number) => Array.from({ length: l.rowStart[r + 1] - l.rowStart[r] }, (_, i) => l.rowStart[r] + i);
	near(
		row(0).reduce((sum, s) => sum + l.x1[s] - l.x0[s], 0),
		0.5 + 5.3,
		"thread 0",
	);
	for (let r = 0; r < l.rows; r++)
		for (const s of row(r)) if (s > l.rowStart[r]) assert.ok(l.x0[s] >= l.x1[s - 1] - 1e-9);
	const fib = row(4).filter((s) => tree.fn[l.node[s]] === named("fib"));
	near(
		fib.reduce((sum, s) => sum + l.x1[s] - l.x0[s], 0),
		0,
		"fib is not in the row of plumbing",
	);
	const cut = timeOrder(tree, capture.samples, 0, [1, 2], wanted);
	near(cut.from, 1);
	near(cut.to, 2);
});

test("a stack 100,000 deep is laid out without recursion", () => {
	const deep = open(hostile().bytes());
	const weights = selfWeights(deep, METRICS[1], []);
	const tree = buildTree(deep, weights, PLAIN);
	const l = leftHeavy(tree);
	assert.ok(l.rows > 100_000);
	assert.ok(functionSums(deep, CPU, []).all > 0);
	assert.ok(deep.samples && timeOrder(tree, deep.samples, 0, null, new Uint8Array(256).fill(1)).rows > 100_000);
	buildCallers(deep, weights, 0, PLAIN);
	assert.equal(buildTree(deep, weights, { ...PLAIN, collapseRecursion: true }).total[0], tree.total[0]);
});

test("searching a row finds what looking at every span finds", () => {
	const many = open(big(20_000, 8_000).bytes());
	const tree = buildTree(many, selfWeights(many, CPU, []), PLAIN);
	const l = leftHeavy(tree);
	for (let k = 0; k < 500; k++) {
		const row = k % l.rows;
		const x = (((k * 7919) % 1000) / 1000) * l.to;
		let expected = l.rowStart[row];
		while (expected < l.rowStart[row + 1] && l.x1[expected] <= x) expected++;
		assert.equal(firstAfter(l, row, x), expected);
	}
});

test("search: the share is of stacks that have a match, by name, file or module", () => {
	const tree = buildTree(capture, self, PLAIN);
	const share = (text: string) => {
		const matcher = matcherOf(text);
		assert.ok(matcher);
		return matchTree(tree, matchingFunctions(capture, matcher)).weight / whole;
	};
	const sums = functionSums(capture, CPU, []);
	near(share("^fib$"), sums.total[named("fib")] / whole);
	near(share("_start"), 1);
	assert.ok(share("numpy") > 0.3);
	assert.equal(share("no such thing"), 0);
	assert.ok(share("npy_aquicksort<double>") > 0, "not a pattern, still found");
	assert.ok(matcherOf("(a+)+$")?.test("x(a+)+$y"), "a pattern that could take for ever is text");
	assert.equal(matcherOf(""), null);
});

test("a comparison is as wide as the larger side, and keeps both totals", () => {
	const c = open(comparison().bytes());
	assert.ok(c.isDiff);
	const tree = buildTree(c, selfWeights(c, CPU, []), PLAIN, selfWeights(c, CPU, [], true));
	near(tree.total[0], 3.51);
	near(tree.base?.[0] ?? 0, 2.75);
	const l = leftHeavy(tree);
	near(l.to, 2.5 + 1.01 + 0.75);
});
