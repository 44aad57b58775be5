// SPDX-License-Identifier: Apache-2.0
// Colours for light and dark, the same distance apart for every eye: they differ in lightness as well as in hue, and the
// hues are those that the common colour blindnesses keep apart (blue, orange, teal, pink).
import { FLAG_PLUMBING, isMine, KIND_ERROR, KIND_THREAD, type Capture } from "../data/capture";
import { N_CLASSES } from "../data/classes";
import type { Tree } from "../data/tree";

export type Theme = "light" | "dark";
export type Rgb = [number, number, number];

// OKLCH to sRGB (Björn Ottosson's matrices): equal steps of lightness look equal, in HSL they do not.
export function oklch(lightness: number, chroma: number, hue: number): Rgb {
	const a = chroma * Math.cos((hue * Math.PI) / 180);
	const b = chroma * Math.sin((hue * Math.PI) / 180);
	const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
	const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
	const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
	const linear = [
		4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
		-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
		-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
	];
	return linear.map((v) => {
		const c = Math.min(1, Math.max(0, v));
		return Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));
	}) as Rgb;
}

// As a pixel of an ImageData on a little-endian machine, and every machine with a browser is one.
export function pixel([r, g, b]: Rgb): number {
	return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

export function css([r, g, b]: Rgb): string {
	return `rgb(${r} ${g} ${b})`;
}

// lightness in the light theme and in the dark one, chroma, hue
const CLASSES: readonly [number, number, number, number][] = [
	[0.7, 0.58, 0.12, 250], // Python: blue
	[0.79, 0.68, 0.14, 70], // native: orange
	[0.62, 0.52, 0.16, 35], // system: vermilion
	[0.72, 0.6, 0.13, 345], // garbage collector: pink
	[0.88, 0.8, 0.14, 105], // GIL: yellow
	[0.86, 0.4, 0.012, 250], // waiting: grey
	[0.5, 0.76, 0.14, 300], // no CPU was free: violet
];

export function classColour(cls: number, theme: Theme): Rgb {
	const [light, dark, chroma, hue] = CLASSES[cls < N_CLASSES ? cls : N_CLASSES - 1];
	return oklch(theme === "light" ? light : dark, chroma, hue);
}

export const HUES = [245, 65, 175, 345, 95, 215, 30, 290, 130];

function hash(n: number): number {
	let h = Math.imul(n ^ 0x5bd1e995, 0x9e3779b1);
	h = Math.imul(h ^ (h >>> 15), 0x85ebca6b);
	return (h ^ (h >>> 13)) >>> 0;
}

// The user's own code is vivid, libraries paler, the interpreter grey: the eye goes where one can change something.
function moduleColour(capture: Capture, fn: number, theme: Theme, rank: Map<number, number>): Rgb {
	const { module, kind, flags } = capture.functions;
	const shade = ((hash(fn) & 7) - 3.5) * 0.009;
	const lightness = (theme === "light" ? 0.84 : 0.46) + shade;
	if (kind[fn] === KIND_ERROR) return oklch(theme === "light" ? 0.72 : 0.45, 0.14, 25);
	if (kind[fn] === KIND_THREAD || flags[fn] & FLAG_PLUMBING) return oklch(theme === "light" ? 0.88 : 0.36, 0.008, 250);
	const place = rank.get(module[fn]) ?? hash(module[fn]);
	const isOwn = isMine(capture.functions, fn);
	return oklch(lightness, isOwn ? 0.1 : 0.05, HUES[place % HUES.length]);
}

function changeColour(change: number, theme: Theme): Rgb {
	// -1 gone .. 0 as before .. 1 new: blue, neutral, orange.
	const strength = Math.min(1, Math.abs(change) * 2);
	const lightness = theme === "light" ? 0.93 - 0.2 * strength : 0.34 + 0.22 * strength;
	return oklch(lightness, 0.005 + 0.13 * strength, change < 0 ? 245 : 50);
}

const ranksOf = new WeakMap<Capture, Map<number, number>>();

// The modules with the most time get hues that differ; by chance alone two big ones would often share one. Counted over the
// whole capture, so that a filter does not change what a colour means.
function ranks(capture: Capture): Map<number, number> {
	const known = ranksOf.get(capture);
	if (known) return known;
	const { cells, nodes, functions } = capture;
	const byFunction = new Float64Array(functions.n);
	for (let i = 0; i < cells.n; i++) if (cells.node[i] > 0) byFunction[nodes.fn[cells.node[i]]] += cells.weight[i];
	const sums = new Map<number, number>();
	for (let f = 0; f < functions.n; f++)
		sums.set(functions.module[f], (sums.get(functions.module[f]) ?? 0) + byFunction[f]);
	const order = [...sums].sort((a, b) => b[1] - a[1]);
	const ranks = new Map(order.slice(0, HUES.length).map(([m], place) => [m, place]));
	ranksOf.set(capture, ranks);
	return ranks;
}

export function modulePixels(capture: Capture, tree: Tree, theme: Theme): Uint32Array {
	const rank = ranks(capture);
	const known = new Uint32Array(capture.functions.n);
	const pixels = new Uint32Array(tree.n);
	pixels[0] = pixel(rootColour(theme));
	for (let i = 1; i < tree.n; i++) {
		const f = tree.fn[i];
		pixels[i] = known[f] ||= pixel(moduleColour(capture, f, theme, rank));
	}
	return pixels;
}

export function classPixels(dominant: Uint8Array, theme: Theme): Uint32Array {
	const colours = Array.from({ length: N_CLASSES }, (_, c) => pixel(classColour(c, theme)));
	const pixels = Uint32Array.from(dominant, (c) => colours[c < N_CLASSES ? c : N_CLASSES - 1]);
	if (pixels.length > 0) pixels[0] = pixel(rootColour(theme));
	return pixels;
}

export function changePixels(tree: Tree, theme: Theme): Uint32Array {
	const pixels = new Uint32Array(tree.n);
	const base = tree.base;
	for (let i = 0; i < tree.n; i++) {
		const before = base ? base[i] : tree.total[i];
		const larger = Math.max(before, tree.total[i]);
		pixels[i] = pixel(changeColour(larger > 0 ? (tree.total[i] - before) / larger : 0, theme));
	}
	return pixels;
}

export function rootColour(theme: Theme): Rgb {
	return oklch(theme === "light" ? 0.91 : 0.33, 0.006, 250);
}

// For the legend of a call graph: how hot a share is.
export function heat(share: number, theme: Theme): Rgb {
	const s = Math.sqrt(Math.min(1, Math.max(0, share)));
	return theme === "light"
		? oklch(0.97 - 0.25 * s, 0.01 + 0.13 * s, 85 - 40 * s)
		: oklch(0.3 + 0.22 * s, 0.015 + 0.12 * s, 85 - 40 * s);
}
