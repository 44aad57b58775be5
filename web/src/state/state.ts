// SPDX-License-Identifier: Apache-2.0
// All that a link to a view says. One flat record, written into the address after `#`; what is at its default is left out.
import { LISTS, type List } from "../data/changes";
import { readSteps, writeSteps, type Step } from "../data/filter";
import { readBookmarks, writeBookmarks, type Bookmark } from "./bookmarks";

export const VIEWS = [
	"tree",
	"summary",
	"flame",
	"timeline",
	"source",
	"functions",
	"assembly",
	"zones",
	"graph",
	"diff",
	"live",
] as const;
export type ViewName = (typeof VIEWS)[number];
export const MODES = ["left", "time", "sandwich"] as const;
export type Mode = (typeof MODES)[number];
export const COLOURS = ["module", "class", "change"] as const;
export type Colour = (typeof COLOURS)[number];
export const DRAWINGS = ["graph", "sunburst"] as const;

export interface State {
	view: ViewName;
	metric: string; // "": as what stands out suggests
	steps: Step[];
	thread: number; // shown alone, or -1 for all
	mode: Mode;
	up: boolean; // root at the bottom
	colour: Colour;
	search: string;
	fn: number; // the function that is looked at, or -1
	focus: number;
	hidden: number[];
	recursion: boolean; // collapsed
	mine: boolean;
	fold: boolean;
	plumbing: boolean;
	byLine: boolean;
	zoom: [number, number] | null; // of the flame graph: shares of its width
	time: [number, number] | null; // of the timeline: shares of the run
	frame: number; // the chosen one of the flame graph: a node of its tree, or -1
	file: number; // string index, or -1
	line: number;
	sort: string;
	order: string; // of the lines to look at first; "": as what stands out suggests
	rows: List; // of the comparison
	noise: boolean; // what chance explains is listed, too
	dsort: string;
	drawing: (typeof DRAWINGS)[number];
	prune: number; // per cent
	root: number; // of the sunburst: a node of its tree
	what: number; // the zone that is looked at, or -1
	pick: [number, number] | null; // of its lengths, seconds
	other: number; // the zone that it is compared with, or -1
	zsort: string; // "": as there are one or two captures
	calls: boolean; // calls stand beside zones
	invert: boolean; // of the tree: who calls it
	open: string; // of the tree: rows that somebody opened or closed
	row: string; // of the tree: the chosen one
	tsort: string; // "": as there are one or two captures
	both: boolean; // of two captures, both beside each other
	kept: Bookmark[];
}

export const DEFAULTS: State = {
	view: "tree",
	metric: "",
	steps: [],
	thread: -1,
	mode: "left",
	up: false,
	colour: "module",
	search: "",
	fn: -1,
	focus: -1,
	hidden: [],
	recursion: false,
	mine: false,
	fold: false,
	plumbing: false,
	byLine: false,
	zoom: null,
	time: null,
	frame: -1,
	file: -1,
	line: 0,
	sort: "",
	order: "",
	rows: "functions",
	noise: false,
	dsort: "-size",
	drawing: "graph",
	prune: 0.5,
	root: 0,
	what: -1,
	pick: null,
	other: -1,
	zsort: "",
	calls: false,
	invert: false,
	open: "",
	row: "",
	tsort: "",
	both: true,
	kept: [],
};

type Codec<T> = { write: (value: T) => string; read: (text: string) => T | undefined };

const oneOf = <T extends string>(allowed: readonly T[]): Codec<T> => ({
	write: (v) => v,
	read: (t) => allowed.find((a) => a === t),
});
const flag: Codec<boolean> = {
	write: (v) => (v ? "1" : "0"),
	read: (t) => (t === "1" ? true : t === "0" ? false : undefined),
};
const whole: Codec<number> = { write: String, read: (t) => (/^-?\d{1,10}$/.test(t) ? Number(t) : undefined) };
const real: Codec<number> = { write: String, read: (t) => (/^\d{1,4}(\.\d{1,6})?$/.test(t) ? Number(t) : undefined) };
const text: Codec<string> = { write: (v) => v, read: (t) => t.slice(0, 400) };
const list: Codec<number[]> = {
	write: (v) => v.join(","),
	read: (t) => (/^\d+(,\d+)*$/.test(t) ? t.split(",").map(Number) : undefined),
};
const span: Codec<[number, number] | null> = {
	write: (v) => (v ? v.map((x) => +x.toPrecision(12)).join("~") : ""),
	read: (t) => {
		const parts = t.split("~").map(Number);
		return parts.length === 2 && parts.every(Number.isFinite) && parts[1] > parts[0] ? [parts[0], parts[1]] : undefined;
	},
};

const CODECS: { [K in keyof State]: Codec<State[K]> } = {
	view: oneOf(VIEWS),
	metric: text,
	steps: { write: writeSteps, read: readSteps },
	thread: whole,
	mode: oneOf(MODES),
	up: flag,
	colour: oneOf(COLOURS),
	search: text,
	fn: whole,
	focus: whole,
	hidden: list,
	recursion: flag,
	mine: flag,
	fold: flag,
	plumbing: flag,
	byLine: flag,
	zoom: span,
	time: span,
	frame: whole,
	file: whole,
	line: whole,
	sort: text,
	order: text,
	rows: oneOf(LISTS),
	noise: flag,
	dsort: text,
	drawing: oneOf(DRAWINGS),
	prune: real,
	root: whole,
	what: whole,
	pick: span,
	other: whole,
	zsort: text,
	calls: flag,
	invert: flag,
	open: { write: (v) => v, read: (t) => (/^[-*a-z0-9.]{0,3000}$/.test(t) ? t : undefined) },
	row: { write: (v) => v, read: (t) => (/^[*a-z0-9]{0,12}$/.test(t) ? t : undefined) },
	tsort: text,
	both: flag,
	kept: { write: writeBookmarks, read: readBookmarks },
};

export function writeHash(state: State): string {
	const parts = new URLSearchParams();
	const put = <K extends keyof State>(key: K) => {
		const written = CODECS[key].write(state[key]);
		if (key === "view" || written !== CODECS[key].write(DEFAULTS[key])) parts.set(key, written);
	};
	for (const key of Object.keys(CODECS) as (keyof State)[]) put(key);
	return `#${parts}`;
}

export function readHash(hash: string): State {
	const parts = new URLSearchParams(hash.replace(/^#/, ""));
	const state = { ...DEFAULTS };
	const take = <K extends keyof State>(key: K) => {
		const written = parts.get(key);
		const value = written === null ? undefined : CODECS[key].read(written);
		if (value !== undefined) state[key] = value;
	};
	for (const key of Object.keys(CODECS) as (keyof State)[]) take(key);
	return state;
}

// The address of a place, for a bookmark.
export const placeOf = (state: State): string => writeHash({ ...state, kept: [] }).slice(1);
