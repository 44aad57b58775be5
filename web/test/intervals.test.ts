// The ± of a change, as the program has it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { changePlusMinus, plusMinus } from "../src/data/intervals";

const close = (a: number, b: number) => assert.ok(Math.abs(a - b) <= 1e-9 * Math.abs(b), `${a} is not ${b}`);
// N samples of w seconds each.
const sampled = (n: number, w: number, misplaced = 0) => ({
	whole_s: n * w,
	n,
	sq: n * w * w,
	heavy_sq: 0,
	misplaced_s: misplaced,
});

test("with equal weights it is the binomial interval, and what is misplaced comes on top", () => {
	const [n, w, p] = [10_000, 0.001, 0.3];
	const of = sampled(n, w);
	close(plusMinus(p * n * w, p * n * w * w, p * n, of), 1.96 * w * Math.sqrt(n * p * (1 - p)));
	close(
		plusMinus(p * n * w, p * n * w * w, p * n, sampled(n, w, 0.1)),
		1.96 * w * Math.sqrt(n * p * (1 - p)) + 2 * p * (1 - p) * 0.1,
	);
	assert.equal(plusMinus(0, 0, 0, sampled(0, 0)), 0);
});

test("one sample that stands for much makes the part that has it less sure, and the others too", () => {
	const of = { whole_s: 2, n: 101, sq: 100 * 0.01 ** 2 + 1, heavy_sq: 1, misplaced_s: 0 };
	assert.ok(plusMinus(1.5, 50 * 0.01 ** 2 + 1, 51, of) > 0.9);
	assert.ok(plusMinus(0.5, 50 * 0.01 ** 2, 50, of) > 0.9);
});

test("a change has the interval of both sides, and none is surer than a sample", () => {
	const [now, base] = [sampled(1000, 0.001), sampled(2000, 0.001)];
	const part = { before: 0.5, baseN: 500, baseSq: 500e-6, after: 0.25, n: 250, sq: 250e-6 };
	close(
		changePlusMinus(part, now, base),
		Math.hypot(plusMinus(0.25, 250e-6, 250, now), plusMinus(0.5, 500e-6, 500, base)),
	);
	const gone = { ...part, after: 0, n: 0, sq: 0 };
	close(changePlusMinus(gone, now, base), Math.hypot(1.96 * 0.001, plusMinus(0.5, 500e-6, 500, base)));
	const all = { before: 2, baseN: 2000, baseSq: 2000e-6, after: 1, n: 1000, sq: 1000e-6 };
	close(changePlusMinus(all, now, base), Math.hypot(1.96 * 0.001, 1.96 * 0.001));
});
