import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBundle } from "../src/data/bundle";
import { readCapture, type Capture, type Zones } from "../src/data/capture";
import { bucketFrom, bucketOf, histogramOf, whatsOf } from "../src/data/histogram";
import { zoneRows } from "../src/data/zone_rows";
import { joined, levelFor, tilesFor, ZoneTiles, type ZoneLayer } from "../src/data/zone_tiles";
import { paintTimeline, ZONE_PX, type Scene } from "../src/draw/timeline_painter";
import { whatPlace } from "../src/ui/names";
import { curvesOf, lanesOf } from "../src/views/timeline_scene";
import { shop } from "./shop";

const capture = readCapture(decodeBundle(shop().bytes().buffer as ArrayBuffer));

test("a zone of C code says where it begins, and nothing else does", () => {
	const places = Array.from(capture.whats.name, (name, what) => [capture.strings.get(name), whatPlace(capture, what)]);
	assert.ok(places.some(([name, place]) => name === "ranking" && place.endsWith("rank.c:12")));
	assert.deepEqual(new Set(places.filter(([name]) => name !== "ranking").map(([, place]) => place)), new Set([""]));
});

type Row = [start: number, duration: number, count?: number];
function zonesOf(rows: Row[]): Zones {
	const counts = rows.map((r) => r[2] ?? 1);
	const isMerged = counts.some((n) => n > 1);
	return {
		n: rows.length,
		thread: new Uint32Array(rows.length),
		start: Float64Array.from(rows, (r) => r[0]),
		duration: Float64Array.from(rows, (r) => r[1]),
		what: new Uint32Array(rows.length),
		depth: new Uint16Array(rows.length),
		count: isMerged ? Uint32Array.from(counts) : null,
		busy: isMerged ? Float64Array.from(rows, (r) => r[1] / 2) : null,
	};
}

test("two or three tiles cover any view, and none is wider than it", () => {
	for (const [from, to] of [
		[0, 100],
		[3, 4],
		[49.9, 50.1],
		[99.9999, 100],
		[12.3, 71],
	]) {
		const keys = tilesFor(from, to, 100, [0]);
		const width = 100 / 2 ** levelFor(to - from, 100);
		assert.ok(width <= to - from + 1e-9 && width * 2 > (to - from) * (1 - 1e-9));
		assert.ok(keys.length >= 1 && keys.length <= 4);
		assert.ok(keys[0].index * width <= from + 1e-9);
		assert.ok((keys[keys.length - 1].index + 1) * width >= to - 1e-9);
	}
	assert.deepEqual(
		tilesFor(0, 100, 100, [0, 2]).map((k) => k.group),
		[0, 2],
	);
});

test("a zone that reaches over the edge of tiles is one", () => {
	const left = zonesOf([
		[0, 3],
		[4, 3],
	]);
	const right = zonesOf([
		[4, 3],
		[7.5, 1, 5],
	]);
	const both = joined([left, right]);
	assert.equal(both.n, 3);
	assert.deepEqual(Array.from(both.start.subarray(0, both.n)), [0, 4, 7.5]);
	assert.deepEqual(Array.from((both.count as Uint32Array).subarray(0, both.n)), [1, 1, 5]);
});

test("tiles are asked for once, neighbours after what is in sight, and close up no more", async () => {
	const big: Capture = { ...capture, end: 100, head: { ...capture.head, limits: { zone_pixels: 512 } } };
	const asked: string[] = [];
	let arrivals = 0;
	const tiles = new ZoneTiles(
		big,
		(question) => {
			asked.push(question);
			const [from, to] = [/from_s=([\d.]+)/, /to_s=([\d.]+)/].map((r) => Number(r.exec(question)?.[1]));
			// Wider than 10 s something is merged; below, each zone has its own row.
			return Promise.resolve(zonesOf([[from, to - from, to - from > 10 ? 7 : 1]]));
		},
		() => arrivals++,
	);
	const settled = () => new Promise((done) => setTimeout(done, 80));
	assert.deepEqual(tiles.look(0, 100, 400, [0]), [], "the bundle is fine enough");
	assert.deepEqual(tiles.look(25, 50, 1000, [0]), []);
	await settled();
	assert.equal(asked.length, 4, "25 to 50 touches two tiles of 25 s and has two neighbours");
	assert.match(asked[0], /^from_s=25&to_s=50&pixels=1024&threads=0,1,/);
	assert.equal(arrivals, 4);
	const [layer] = tiles.look(25, 50, 1000, [0]);
	assert.ok(layer.from === 25 && layer.to === 75 && layer.has(3) && !layer.has(16));
	await settled();
	assert.equal(asked.length, 4);
	tiles.look(30, 36, 1000, [0]);
	await settled();
	const before = asked.length;
	assert.ok(before > 4);
	const [closer] = tiles.look(31, 31.5, 1000, [0]);
	await settled();
	assert.equal(asked.length, before, "nothing was merged there: closer there is no more to see");
	assert.ok(closer.from <= 31 && closer.to >= 31.5);
	tiles.end();
});

test("a closer look is drawn in place of the coarse one", () => {
	const coarse = zoneRows(zonesOf([[0, 100, 1000]]), capture.threads.n, 100);
	const layer: ZoneLayer = {
		rows: zoneRows(
			zonesOf([
				[40, 5],
				[50, 5],
			]),
			capture.threads.n,
			100,
		),
		from: 40,
		to: 60,
		has: () => true,
	};
	const scene: Scene = {
		lanes: [{ kind: "thread", top: 0, height: 50, index: 0, zoneTop: 24 }],
		activity: { slices: 1, sums: new Float32Array(6 * capture.threads.n), end: 100 },
		samples: null,
		nodes: null,
		zones: coarse,
		layers: [layer],
		colourOfWhat: () => 0xff0000ff,
		curves: [],
	};
	const [width, height] = [1000, 50];
	const pixels = new Uint32Array(width * height);
	const none = 0xffffffff;
	const colours = { classes: [0, 0, 0, 0, 0, 0], background: none, laneBackground: none, curves: [] };
	const labels = paintTimeline(pixels, width, height, 1, scene, 0, 100, 0, colours);
	const at = (x: number) => pixels[(24 + ZONE_PX / 2) * width + x];
	assert.ok(at(200) !== none && at(200) !== 0xff0000ff, "several calls as one are paler");
	assert.equal(at(420), 0xff0000ff);
	assert.equal(at(470), none, "between two calls there is nothing");
	assert.equal(at(520), 0xff0000ff);
	assert.equal(at(570), none);
	assert.ok(at(800) !== none);
	assert.deepEqual(
		labels.map((l) => l.count),
		[1000, 1, 1, 1000],
	);
});

test("the program's buckets of durations are the page's", () => {
	for (let b = 0; b < 400; b++) assert.equal(bucketOf(bucketFrom(b)), b);
	for (const ns of [1, 7, 8, 9, 15, 16, 1000, 999999, 123456789])
		assert.ok(bucketFrom(bucketOf(ns)) <= ns && bucketFrom(bucketOf(ns) + 1) > ns);
});

test("a histogram is of all calls, also of those that are drawn together", () => {
	const w = shop();
	const fn = capture.whats.fn[0];
	w.u32("duration.what", [0, 0]);
	w.f64("duration.from_s", [1024e-9, 1048576e-9]);
	w.f64("duration.to_s", [1152e-9, 1179648e-9]);
	w.u32("duration.n", [990, 10]);
	w.head = { ...w.head, limits: { zones_merged: 900, zones: 1000 } };
	const many = readCapture(decodeBundle(w.bytes().buffer as ArrayBuffer));
	const h = histogramOf(many, whatsOf(many, fn), []);
	assert.ok(h);
	assert.equal(h.n, 1000);
	assert.equal(
		h.counts.reduce((a, b) => a + b, 0),
		1000,
	);
	assert.ok(h.median > 1.0e-6 && h.median < 1.2e-6 && h.p95 === h.median);
	assert.ok(h.edges[0] === 1024e-9 && h.edges[h.edges.length - 1] >= 1179647e-9);
});

test("every counter has a curve, and many of them leave the threads in sight", () => {
	const w = shop();
	const n = 300;
	const name = Uint32Array.from({ length: 2 * n }, (_, i) => w.string(`queue ${i >> 1}`));
	w.u32("counter.name", name);
	w.f64(
		"counter.time_s",
		Float64Array.from(name, (_, i) => i % 2),
	);
	w.f64(
		"counter.value",
		Float64Array.from(name, (_, i) => 1 + (i >> 1)),
	);
	const many = readCapture(decodeBundle(w.bytes().buffer as ArrayBuffer));
	const counters = curvesOf(many).filter((c) => c.unit === "");
	assert.deepEqual(
		counters.map((c) => [c.name, c.top]),
		Array.from({ length: n }, (_, i) => [`queue ${i}`, i + 1]),
	);
	const kinds = (curves: ReturnType<typeof curvesOf>) => {
		const { lanes, height } = lanesOf(many, curves, null, 600);
		let top = 0;
		for (const lane of lanes) {
			assert.ok(lane.top >= top, "one below the other");
			top = lane.top + lane.height;
		}
		assert.ok(top <= height);
		return lanes.map((l) => (l.kind === "curve" ? `${l.kind} ${curves[l.index].unit}` : l.kind));
	};
	const few = kinds(curvesOf(many).slice(0, 3));
	assert.equal(few[2], "curve ", "a few stand above");
	const all = kinds(curvesOf(many));
	assert.ok(all.indexOf("curve ") > all.lastIndexOf("thread"));
	assert.equal(all[0], "curve bytes", "memory stays above");
	assert.equal(all.filter((k) => k === "curve ").length, n);
});
