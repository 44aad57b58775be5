import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decodeBundle } from "../src/data/bundle";
import { readCapture } from "../src/data/capture";
import { bytes, niceStep, seconds, share } from "../src/data/format";
import { highlightLine } from "../src/data/highlight";
import { leftHeavy } from "../src/data/layout";
import { METRICS } from "../src/data/metrics";
import { arcsOf } from "../src/data/rings";
import { buildTree, PLAIN } from "../src/data/tree";
import { selfWeights } from "../src/data/weights";
import { classColour, heat, oklch } from "../src/draw/colour";
import { paint } from "../src/draw/flame_painter";
import { layered } from "../src/draw/layered";
import { DEFAULTS, readHash, writeHash, type State } from "../src/state/state";
import { big } from "./big";
import { shop } from "./shop";

const open = (b: Uint8Array) => readCapture(decodeBundle(b.slice().buffer as ArrayBuffer));

function painted(nNodes: number, width: number, height: number) {
	const c = open(big(nNodes, 800).bytes());
	const tree = buildTree(c, selfWeights(c, METRICS[0], []), PLAIN);
	const layout = leftHeavy(tree);
	const pixels = Uint32Array.from({ length: tree.n }, (_, i) => 0xff000000 + i);
	const buffer = new Uint32Array(width * height);
	const picture = { layout, pixels, matches: null, selected: -1, hovered: -1, isUp: false };
	const result = paint(
		buffer,
		{ width, height, rowHeight: 10, background: 1, outline: 2 },
		picture,
		{ from: layout.from, to: layout.to, scroll: 0 },
		26,
	);
	return { layout, buffer, result, width };
}

test("what is drawn is what lies there: each wide span in its colour, all the way down", () => {
	const { layout, buffer, width } = painted(3000, 900, 200);
	const scale = width / (layout.to - layout.from);
	let checked = 0;
	for (let row = 0; row < 20 && row < layout.rows; row++)
		for (let s = layout.rowStart[row]; s < layout.rowStart[row + 1]; s++) {
			const left = Math.round(layout.x0[s] * scale);
			const right = Math.round(layout.x1[s] * scale);
			if (right - left < 4) continue;
			for (const y of [row * 10, row * 10 + 8])
				for (const x of [left, right - 2]) assert.equal(buffer[y * width + x], 0xff000000 + layout.node[s]);
			assert.equal(buffer[(row * 10 + 9) * width + left], 1, "a line between rows");
			checked++;
		}
	assert.ok(checked > 20);
});

test("the work of a frame is bounded by its pixels, not by the capture", () => {
	const { result, layout, width } = painted(300_000, 1000, 400);
	assert.ok(layout.node.length > 290_000);
	assert.ok(result.spans <= 40 * width, `${result.spans} spans`);
});

test("the address holds the whole state", () => {
	const state: State = {
		...DEFAULTS,
		view: "flame",
		search: "a&b=c #?é",
		zoom: [0.125, 0.5],
		hidden: [3, 4],
		steps: [{ kind: "range", from: 1, to: 2 }],
		fn: 7,
		mine: true,
		prune: 0.1,
		colour: "class",
	};
	assert.deepEqual(readHash(writeHash(state)), state);
	assert.equal(writeHash(DEFAULTS), "#view=tree");
	assert.deepEqual(readHash("#view=nonsense&fn=1e9&zoom=5~1&hidden=x&up=2"), DEFAULTS);
});

test("boxes of a call graph do not overlap, and calls go down", () => {
	const sizes = Array.from({ length: 14 }, (_, id) => ({ id, width: 100 + (id % 3) * 40, height: 50 }));
	const edges = [
		[0, 1],
		[0, 2],
		[1, 3],
		[2, 3],
		[3, 4],
		[4, 1],
		[0, 5],
		[5, 6],
		[6, 7],
		[0, 7],
		[8, 9],
		[9, 9],
		[10, 11],
		[11, 12],
		[10, 12],
	].map(([from, to]) => ({ from, to, weight: 1 + ((from * 7) % 5) }));
	const d = layered(sizes, edges);
	assert.equal(d.boxes.length, 14);
	for (const a of d.boxes)
		for (const b of d.boxes)
			if (a.id < b.id)
				assert.ok(
					Math.abs(a.x - b.x) >= (a.width + b.width) / 2 - 1e-6 || Math.abs(a.y - b.y) >= 50,
					`${a.id} and ${b.id} overlap`,
				);
	const at = new Map(d.boxes.map((b) => [b.id, b]));
	for (const l of d.lines) assert.ok(l.isBack || (at.get(l.to)?.y ?? 0) > (at.get(l.from)?.y ?? 0));
	assert.equal(d.lines.filter((l) => l.isBack).length, 1);
	assert.deepEqual(layered([], []).boxes, []);
});

test("a sunburst's rings fill their share of a turn", () => {
	const c = open(shop().bytes());
	const tree = buildTree(c, selfWeights(c, METRICS[0], []), PLAIN);
	const arcs = arcsOf(tree, 0, 5, 0);
	const first = arcs.filter((a) => a.depth === 1).reduce((sum, a) => sum + a.to - a.from, 0);
	assert.ok(Math.abs(first - 1) < 1e-9);
	assert.ok(arcs.every((a) => a.depth <= 5 && a.to <= 1 + 1e-9));
});

test("highlighting changes no character and knows strings over lines", () => {
	let mark = "";
	for (const line of [
		'def f(x): # "no string"',
		's = """open',
		"still # in it",
		'done""" + f"{x}" if x else 0x1F',
		"y = 'a\\'b' ",
		"\t\u00e9 = 1_000",
		"'unclosed",
		'r"\\d+"',
	]) {
		const { tokens, open: next } = highlightLine(line, mark, true);
		assert.equal(tokens.map((t) => t.text).join(""), line);
		if (line === "still # in it")
			assert.deepEqual(
				tokens.map((t) => t.kind),
				["string"],
			);
		mark = next;
	}
	assert.equal(mark, "");
	assert.equal(highlightLine("int a; /* x", "", false).open, "*/");
	const words = (line: string, isPython: boolean) =>
		highlightLine(line, "", isPython)
			.tokens.filter((t) => t.kind === "word")
			.map((t) => t.text);
	assert.deepEqual(words("if int(x) or re.match(use, auto): return None", true), ["if", "or", "return", "None"]);
	assert.deepEqual(words("return (int)x->auto_ == None;", false), ["return", "int"]);
});

test("numbers read well", () => {
	assert.equal(seconds(0), "0 s");
	assert.equal(seconds(1.234), "1.23 s");
	assert.equal(seconds(0.0123), "12.3 ms");
	assert.equal(seconds(0.00000045), "450 ns");
	assert.equal(bytes(1536), "1.54 kB");
	assert.equal(share(1, 8), "12.5%");
	assert.equal(share(1, 0), "–");
	assert.equal(niceStep(10, 10), 1);
});

// Machado and others, 2009: what the commonest colour blindnesses make of a colour, in linear light.
const BLIND: Record<string, number[][]> = {
	protan: [
		[0.152286, 1.052583, -0.204868],
		[0.114503, 0.786281, 0.099216],
		[-0.003882, -0.048116, 1.051998],
	],
	deutan: [
		[0.367322, 0.860646, -0.227968],
		[0.280085, 0.672501, 0.047413],
		[-0.01182, 0.04294, 0.968881],
	],
};

test("the kinds of time stay apart for colour-blind eyes, in both themes", () => {
	const linear = (v: number) => (v <= 10.3 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
	for (const theme of ["light", "dark"] as const)
		for (const [name, m] of Object.entries(BLIND)) {
			const seen = Array.from({ length: 7 }, (_, c) => {
				const rgb = classColour(c, theme).map(linear);
				const [r, g, b] = m.map((row) => row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]);
				const cube = [
					0.4122 * r + 0.5363 * g + 0.0514 * b,
					0.2119 * r + 0.6807 * g + 0.1074 * b,
					0.0883 * r + 0.2817 * g + 0.63 * b,
				].map((v) => Math.cbrt(Math.max(0, v)));
				return [
					0.21 * cube[0] + 0.794 * cube[1] - 0.004 * cube[2],
					1.978 * cube[0] - 2.429 * cube[1] + 0.451 * cube[2],
					0.026 * cube[0] + 0.783 * cube[1] - 0.809 * cube[2],
				];
			});
			for (let a = 0; a < 7; a++)
				for (let b = a + 1; b < 7; b++) {
					const distance = Math.hypot(...seen[a].map((v, i) => v - seen[b][i]));
					assert.ok(distance > 0.05, `${theme}, ${name}: classes ${a} and ${b} are ${distance.toFixed(3)} apart`);
				}
		}
	assert.deepEqual(oklch(1, 0, 0), [255, 255, 255]);
});

test("text stands out by 4.5 to 1 from whatever it may stand on, in both themes", () => {
	const sheet = readFileSync(`${process.env.FATHOM_WEB}/src/style/page.css`, "utf8");
	const light = sheet.slice(0, sheet.indexOf(":root[data-theme"));
	const dark = sheet.slice(light.length);
	const shine = (rgb: readonly number[]) => {
		const [r, g, b] = rgb.map((v) => (v <= 10.3 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
	};
	const contrast = (a: number, b: number) => Math.max(a, b) / Math.min(a, b);
	const codes = ["word", "string", "comment", "number", "name"].map((c) => `code-${c}`);
	for (const [name, part] of Object.entries({ light, dark })) {
		const colour = (key: string) => {
			const hex = new RegExp(`--${key}: #([0-9a-f]{6});`).exec(part)?.[1];
			assert.ok(hex, `${name} has no ${key}`);
			return shine([0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));
		};
		for (const key of ["text", "faint", "accent", "warn", "good", ...codes])
			for (const ground of ["bg", "panel", "raised", "accent-soft"]) {
				const found = contrast(colour(key), colour(ground));
				assert.ok(found >= 4.5, `${name}: ${key} on ${ground} is ${found.toFixed(2)}`);
			}
		const theme = name as "light" | "dark";
		const hottest = heat(theme === "light" ? 0.7 : 0.35, theme);
		assert.ok(contrast(colour("text"), shine(hottest)) >= 4.5, `${name}: figures of the hottest line`);
		for (let share = 0; share <= 1; share += 0.01) {
			const found = contrast(colour("text"), shine(heat(share, theme)));
			assert.ok(found >= 4.5, `${name}: a box of the call graph that has ${share.toFixed(2)} is ${found.toFixed(2)}`);
		}
	}
});
