// The run at a glance, bookmarks in the address, and movements in the history.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBundle } from "../src/data/bundle";
import { readCapture } from "../src/data/capture";
import { COLUMNS, outlineOf, overviewOf } from "../src/data/overview";
import { CPU, METRICS } from "../src/data/metrics";
import { wholeOf } from "../src/data/weights";
import { readBookmarks, writeBookmarks, MOST_BOOKMARKS } from "../src/state/bookmarks";
import { DEFAULTS, placeOf, readHash, writeHash, type State } from "../src/state/state";
import { manyThreads } from "./captures";

const capture = () => readCapture(decodeBundle(manyThreads().bytes().slice().buffer as ArrayBuffer));

test("the columns of the run add up to all that is counted", () => {
	const c = capture();
	for (const metric of [CPU, METRICS[1], METRICS[3]])
		for (const steps of [[], [{ kind: "thread" as const, keep: true, id: 3 }]]) {
			const overview = overviewOf(c, metric, steps);
			assert.ok(overview);
			const sum = overview.layers.reduce((s, l) => s + l.values.reduce((a, b) => a + b, 0), 0) * (c.end / COLUMNS);
			const whole = wholeOf(c, metric, steps);
			assert.ok(Math.abs(sum - whole) < 1e-3 * whole, `${sum} is not ${whole}`);
			for (let layer = 0; layer < overview.layers.length; layer++)
				assert.doesNotMatch(outlineOf(overview, layer, 40), /NaN|Infinity|-/);
		}
});

test("a range limits the views, not the picture that it is chosen in", () => {
	const c = capture();
	const whole = overviewOf(c, CPU, []);
	assert.deepEqual(overviewOf(c, CPU, [{ kind: "range", from: 1, to: 2 }]), whole);
});

test("bookmarks travel in the address, whatever they say", () => {
	const place = placeOf({ ...DEFAULTS, view: "flame", steps: [{ kind: "range", from: 0.5, to: 0.75 }], fn: 3 });
	const kept = [
		{ name: "warm-up", note: 'two\nlines, "quotes" & <b>&amp;</b> ~ % # ü', place },
		{ name: "", note: "", place: "view=summary" },
	];
	const state: State = { ...DEFAULTS, view: "source", kept };
	const read = readHash(writeHash(state));
	assert.deepEqual(read.kept, kept);
	assert.deepEqual(readHash(read.kept[0].place).steps, [{ kind: "range", from: 0.5, to: 0.75 }]);
	assert.doesNotMatch(placeOf(state), /kept/);
	assert.equal(readHash("#view=flame").kept.length, 0);
});

test("what is no bookmark, or too much of one, is left out", () => {
	assert.deepEqual(readBookmarks("only a name"), []);
	assert.deepEqual(readBookmarks(`a\x1fb\x1f${"x".repeat(5000)}`), []);
	const many = Array.from({ length: 80 }, (_, i) => ({ name: `${i}`, note: "", place: "view=flame" }));
	assert.equal(readBookmarks(writeBookmarks(many)).length, MOST_BOOKMARKS);
	const split = readBookmarks(writeBookmarks([{ name: "a\x1eb", note: "c\x1fd", place: "view=flame" }]));
	assert.deepEqual(split, [{ name: "a b", note: "c d", place: "view=flame" }]);
});
