// Figures of zones: of all of them as the program counted, and of a part as the page does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBundle } from "../src/data/bundle";
import { readCapture, type Capture } from "../src/data/capture";
import { bucketFrom, bucketOf } from "../src/data/histogram";
import { sharedBars, countsOf } from "../src/data/shared_bars";
import { byThread, overTime, zonePairs, zoneStats } from "../src/data/zone_stats";
import { isPartial } from "../src/data/zone_mask";
import { dice } from "./dice";
import { shop } from "./shop";

const read = (w: ReturnType<typeof shop>): Capture =>
	readCapture(decodeBundle(w.bytes().slice().buffer as ArrayBuffer));

function durationsOf({ zones }: Capture, what: number, isIn: (i: number) => boolean = () => true): number[] {
	assert.ok(zones);
	return Array.from({ length: zones.n }, (_, i) => i)
		.filter((i) => zones.what[i] === what && isIn(i))
		.map((i) => zones.duration[i])
		.sort((a, b) => a - b);
}

const near = (a: number, b: number, share = 1e-9) =>
	assert.ok(Math.abs(a - b) <= share * b + 1e-15, `${a} is not ${b}`);

test("every zone is counted, with its mean, percentiles and spread", () => {
	const c = read(shop());
	const rows = zoneStats(c, []);
	assert.ok(rows.length > 0);
	for (const r of rows) {
		const all = durationsOf(c, r.what);
		assert.equal(r.n, all.length);
		const mean = all.reduce((a, b) => a + b, 0) / all.length;
		near(r.mean, mean);
		near(r.min, all[0]);
		near(r.max, all[all.length - 1]);
		near(r.p50, all[Math.max(1, Math.floor(all.length / 2)) - 1]);
		near(r.cv * mean, Math.sqrt(all.reduce((a, b) => a + (b - mean) ** 2, 0) / all.length), 1e-6);
		assert.ok(r.p50 <= r.p99 && r.p99 <= r.p999 && r.p999 <= r.max);
	}
});

test("a range or a thread leaves its own zones", () => {
	const c = read(shop());
	assert.ok(c.zones);
	const { start, duration, thread } = c.zones;
	const [from, to] = [c.end * 0.2, c.end * 0.4];
	for (const r of zoneStats(c, [{ kind: "range", from, to }]))
		assert.equal(r.n, durationsOf(c, r.what, (i) => start[i] <= to && start[i] + duration[i] >= from).length);
	for (const r of zoneStats(c, [{ kind: "thread", keep: true, id: 0 }]))
		assert.equal(r.n, durationsOf(c, r.what, (i) => thread[i] === 0).length);
	assert.equal(isPartial(c, []), false);
});

test("the program's counts give its percentiles, and the spread to some per cent", () => {
	const w = shop();
	const random = dice(5);
	const all = Array.from({ length: 5000 }, () => Math.round(1e5 * Math.exp(3 * random()))).sort((a, b) => a - b); // ns
	const buckets = new Map<number, number>();
	for (const ns of all) buckets.set(bucketOf(ns), (buckets.get(bucketOf(ns)) ?? 0) + 1);
	const n = read(shop()).whats.n;
	const only = (v: number) => Array.from({ length: n }, (_, i) => (i === 0 ? v : 0));
	const sum = all.reduce((a, b) => a + b, 0) * 1e-9;
	w.u32(
		"duration.what",
		[...buckets.keys()].map(() => 0),
	);
	w.f64(
		"duration.from_s",
		[...buckets.keys()].map((b) => bucketFrom(b) * 1e-9),
	);
	w.f64(
		"duration.to_s",
		[...buckets.keys()].map((b) => bucketFrom(b + 1) * 1e-9),
	);
	w.u32("duration.n", [...buckets.values()]);
	w.f64("what.calls", only(5000));
	w.f64("what.spans", only(5000));
	w.f64("what.sum_s", only(sum));
	w.f64("what.min_s", only(all[0] * 1e-9));
	w.f64("what.max_s", only(all[4999] * 1e-9));
	const [r, ...rest] = zoneStats(read(w), []);
	assert.equal(rest.length, 0);
	assert.equal(r.n, 5000);
	near(r.mean, sum / 5000, 1e-5);
	near(r.p50, all[2499] * 1e-9, 0.07);
	near(r.p99, all[4949] * 1e-9, 0.07);
	near(r.p999, all[4994] * 1e-9, 0.07);
	const mean = (sum / 5000) * 1e9;
	const sd = Math.sqrt(all.reduce((a, b) => a + (b - mean) ** 2, 0) / 5000);
	near(r.cv, sd / mean, 0.03);
});

test("threads and parts of the run add up", () => {
	const c = read(shop());
	assert.ok(c.zones);
	const list = Array.from({ length: c.zones.n }, (_, i) => i);
	const threads = byThread(c, list);
	assert.equal(
		threads.reduce((a, t) => a + t.n, 0),
		c.zones.n,
	);
	const longest = overTime(c, list, 50);
	near(
		Math.max(...longest),
		c.zones.duration.reduce((a, b) => Math.max(a, b), 0),
	);
});

// Of each zone so many of so many microseconds, in the other capture and in the new one.
type Known = { name: string; base: [n: number, us: number][]; now: [n: number, us: number][] };

function compared(known: Known[]): Capture {
	const w = shop({});
	w.table("what", known, {
		name: ["u32", (z) => w.string(z.name)],
		function: ["u32", () => 0xffffffff],
		kind: ["u8", () => 1],
		file: ["u32", () => 0],
		line: ["u32", () => 0],
	});
	const sums = (lists: [number, number][][], prefix: string) => {
		const of = (f: (list: [number, number][]) => number) => lists.map((list) => (list.length > 0 ? f(list) : 0));
		w.f64(`what.${prefix}spans`, of((l) => l.reduce((a, [n]) => a + n, 0))); // prettier-ignore
		w.f64(`what.${prefix}sum_s`, of((l) => l.reduce((a, [n, us]) => a + n * us * 1e-6, 0))); // prettier-ignore
		w.f64(`what.${prefix}min_s`, of((l) => Math.min(...l.map(([, us]) => us * 1e-6)))); // prettier-ignore
		w.f64(`what.${prefix}max_s`, of((l) => Math.max(...l.map(([, us]) => us * 1e-6)))); // prettier-ignore
	};
	sums(known.map((z) => z.base), "base_"); // prettier-ignore
	sums(known.map((z) => z.now), ""); // prettier-ignore
	const rows = known.flatMap((z, what) => [
		...z.base.map(([n, us]) => ({ what, us, n: 0, base: n })),
		...z.now.map(([n, us]) => ({ what, us, n, base: 0 })),
	]);
	w.table("duration", rows, {
		what: ["u32", (r) => r.what],
		from_s: ["f64", (r) => bucketFrom(bucketOf(r.us * 1000)) * 1e-9],
		to_s: ["f64", (r) => bucketFrom(bucketOf(r.us * 1000) + 1) * 1e-9],
		n: ["u32", (r) => r.n],
		base_n: ["u32", (r) => r.base],
	});
	return read(w);
}

test("zones of two captures have the figures of each, and none where they were not", () => {
	const c = compared([
		{ name: "parse", base: [[90, 2000], [10, 8000]], now: [[40, 3000], [10, 8000]] }, // prettier-ignore
		{ name: "gone", base: [[5, 700]], now: [] },
		{ name: "fresh", base: [], now: [[1, 1]] },
	]);
	const [parse, gone, fresh] = zonePairs(c).sort((a, b) => a.what - b.what);
	assert.deepEqual([parse.before?.n, parse.after?.n], [100, 50]);
	near(parse.before?.sum ?? 0, 0.26);
	near(parse.after?.sum ?? 0, 0.2);
	near(parse.before?.p50 ?? 0, 0.002, 0.07);
	near(parse.after?.p50 ?? 0, 0.003, 0.07);
	near(parse.before?.p99 ?? 0, 0.008, 0.07);
	near(parse.before?.mean ?? 0, 0.0026, 1e-6);
	assert.ok(gone.before?.n === 5 && gone.after === null);
	assert.ok(fresh.before === null && fresh.after?.n === 1);
	// Each is in one bar of the axis that both share, and a bar has those that it says.
	const bars = sharedBars(countsOf(c, 0, [], "base_"), countsOf(c, 0, []));
	assert.ok(bars);
	const inBar = (us: number) => bars.edges.findIndex((e) => e > us * 1e-6) - 1;
	const { counts } = bars;
	assert.deepEqual([counts[0][inBar(2000)], counts[0][inBar(3000)], counts[0][inBar(8000)]], [90, 0, 10]);
	assert.deepEqual([counts[1][inBar(2000)], counts[1][inBar(3000)], counts[1][inBar(8000)]], [0, 40, 10]);
	assert.deepEqual(counts.map((side) => side.reduce((a, b) => a + b, 0)), [100, 50]); // prettier-ignore
	assert.equal(sharedBars(new Map(), new Map()), null);
});

test("two zones of a range share an axis, and have what the range leaves", () => {
	const c = read(shop());
	const range = [{ kind: "range" as const, from: c.end * 0.2, to: c.end * 0.4 }];
	const rows = zoneStats(c, range);
	assert.ok(rows.length >= 2);
	const bars = sharedBars(countsOf(c, rows[0].what, range), countsOf(c, rows[1].what, range));
	assert.deepEqual(bars?.counts.map((side) => side.reduce((a, b) => a + b, 0)), [rows[0].n, rows[1].n]); // prettier-ignore
});
