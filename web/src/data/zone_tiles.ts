// SPDX-License-Identifier: Apache-2.0
// A trace too large for the page, asked for as it is looked at. Time is cut into tiles: level 0 is the whole run, each level halves
// them. A view is at the level whose tiles are not wider than itself, so it needs two or three; moving finds most of them known.
import type { Capture, Zones } from "./capture";
import { zoneRows, type ZoneRows } from "./zone_rows";

const THREADS_IN_GROUP = 16; // a program with hundreds is asked for what is in sight
const MAX_LEVEL = 40;
const MAX_KEPT = 3_000_000; // spans in all tiles that are kept: some 100 MB
const PIXEL_STEP = 512; // so that a window a little wider finds the same tiles

export interface TileKey {
	level: number;
	index: number;
	group: number;
}

interface Tile extends TileKey {
	zones: Zones;
	lastUse: number;
}

// What stands in place of the coarser picture below it, between two times and for some threads.
export interface ZoneLayer {
	rows: ZoneRows;
	from: number;
	to: number;
	has: (thread: number) => boolean;
}

export const nameOf = (k: TileKey) => `${k.level}/${k.index}/${k.group}`;

export function levelFor(span: number, end: number): number {
	return Math.min(MAX_LEVEL, Math.max(0, Math.ceil(Math.log2(end / span) - 1e-9)));
}

export function tilesFor(from: number, to: number, end: number, groups: readonly number[]): TileKey[] {
	const level = levelFor(to - from, end);
	const width = end / 2 ** level;
	const last = 2 ** level - 1;
	const keys: TileKey[] = [];
	const first = Math.max(0, Math.floor(from / width));
	for (let index = first; index <= Math.min(last, Math.floor(to / width)); index++)
		for (const group of groups) keys.push({ level, index, group });
	return keys;
}

// Tiles side by side as one: a zone that reaches over an edge is in both, and is one.
export function joined(parts: readonly Zones[]): Zones {
	if (parts.length === 1) return parts[0];
	const total = parts.reduce((sum, p) => sum + p.n, 0);
	const hasCounts = parts.some((p) => p.count);
	const all: Zones = {
		n: 0,
		thread: new Uint32Array(total),
		start: new Float64Array(total),
		duration: new Float64Array(total),
		what: new Uint32Array(total),
		depth: new Uint16Array(total),
		count: hasCounts ? new Uint32Array(total) : null,
		busy: hasCounts ? new Float64Array(total) : null,
	};
	const ends = new Map<number, number>(); // by row: how far it is filled
	for (const p of parts)
		for (let i = 0; i < p.n; i++) {
			const row = p.thread[i] * 65536 + p.depth[i];
			const end = p.start[i] + p.duration[i];
			const start = Math.max(p.start[i], ends.get(row) ?? 0);
			if (start > p.start[i] && (end <= start || !((p.count?.[i] ?? 1) > 1))) continue;
			ends.set(row, end);
			const at = all.n++;
			all.thread[at] = p.thread[i];
			all.start[at] = start;
			all.duration[at] = end - start;
			all.what[at] = p.what[i];
			all.depth[at] = p.depth[i];
			if (all.count) all.count[at] = p.count?.[i] ?? 1;
			if (all.busy) all.busy[at] = p.busy?.[i] ?? p.duration[i];
		}
	return all;
}

export class ZoneTiles {
	private readonly known = new Map<string, Tile>();
	private readonly asked = new Set<string>();
	private readonly layers = new Map<string, ZoneLayer>();
	private wanted: TileKey[] = [];
	private pixels = PIXEL_STEP;
	private clock = 0;
	private timer = 0;
	private isAsking = false;
	private isEnded = false;

	constructor(
		private readonly capture: Capture,
		private readonly ask: (question: string) => Promise<Zones | null>,
		private readonly onArrival: () => void,
	) {}

	static groupOf(thread: number): number {
		return Math.floor(thread / THREADS_IN_GROUP);
	}

	// The bundle's own rows are fine enough for a view of this width.
	isEnough(from: number, to: number, width: number): boolean {
		const pixels = this.capture.head.limits?.zone_pixels ?? 0;
		return pixels === 0 || pixels / this.capture.end >= width / (to - from);
	}

	// What is known of a view, and asks for the rest when the view stands still for a moment.
	look(from: number, to: number, width: number, groups: readonly number[]): ZoneLayer[] {
		if (this.isEnough(from, to, width)) {
			this.wanted = [];
			return [];
		}
		this.pixels = Math.ceil(width / PIXEL_STEP) * PIXEL_STEP;
		const keys = tilesFor(from, to, this.capture.end, groups);
		const missing: TileKey[] = [];
		const found: Tile[] = [];
		for (const key of keys) {
			const tile = this.find(key);
			if (tile) found.push(tile);
			else missing.push(key);
		}
		const { level } = keys[0];
		const last = 2 ** level - 1;
		// The neighbours come after what is in sight: where the view goes next.
		for (const group of groups)
			for (const index of [keys[0].index - 1, keys[keys.length - 1].index + 1])
				if (index >= 0 && index <= last && !this.find({ level, index, group })) missing.push({ level, index, group });
		this.wanted = missing;
		if (missing.length > 0 && !this.timer)
			this.timer = setTimeout(() => {
				this.timer = 0;
				void this.askNext();
			}, 30) as unknown as number;
		return this.layersOf(found);
	}

	end(): void {
		this.isEnded = true;
		clearTimeout(this.timer);
	}

	// The tile, or one around it in which nothing was merged: closer there is no more to see.
	private find(key: TileKey): Tile | undefined {
		for (let level = key.level, index = key.index; level >= 0; level--, index = Math.floor(index / 2)) {
			const tile = this.known.get(nameOf({ level, index, group: key.group }));
			if (tile && (level === key.level || !tile.zones.count)) {
				tile.lastUse = ++this.clock;
				return tile;
			}
		}
		return undefined;
	}

	// Tiles that touch, as one layer.
	private layersOf(found: Tile[]): ZoneLayer[] {
		const runs: Tile[][] = [];
		const inOrder = [...new Set(found)].sort(
			(a, b) => a.group - b.group || a.index / 2 ** a.level - b.index / 2 ** b.level,
		);
		for (const tile of inOrder) {
			const run = runs[runs.length - 1];
			const before = run?.[run.length - 1];
			const isNext =
				before && before.group === tile.group && before.level === tile.level && before.index + 1 === tile.index;
			if (isNext) run.push(tile);
			else runs.push([tile]);
		}
		return runs.map((run) => {
			const name = run.map(nameOf).join(" ");
			let layer = this.layers.get(name);
			if (!layer) {
				const width = this.capture.end / 2 ** run[0].level;
				const group = run[0].group;
				const rows = zoneRows(joined(run.map((t) => t.zones)), this.capture.threads.n, this.capture.end);
				layer = {
					rows,
					from: run[0].index * width,
					to: (run[run.length - 1].index + 1) * width,
					has: (thread) => ZoneTiles.groupOf(thread) === group,
				};
				if (this.layers.size > 8) this.layers.clear();
				this.layers.set(name, layer);
			}
			return layer;
		});
	}

	private async askNext(): Promise<void> {
		if (this.isAsking) return;
		this.isAsking = true;
		for (let key = this.wanted.shift(); key && !this.isEnded; key = this.wanted.shift()) {
			const name = nameOf(key);
			if (this.known.has(name) || this.asked.has(name)) continue;
			this.asked.add(name);
			const width = this.capture.end / 2 ** key.level;
			const threads = Array.from({ length: THREADS_IN_GROUP }, (_, i) => key.group * THREADS_IN_GROUP + i);
			const from = key.index * width;
			const zones = await this.ask(
				`from_s=${from}&to_s=${from + width}&pixels=${this.pixels}&threads=${threads.join(",")}`,
			).catch(() => null);
			if (!zones) break; // the server has ended; the coarse picture stays
			this.asked.delete(name);
			this.known.set(name, { ...key, zones, lastUse: ++this.clock });
			this.forget();
			if (!this.isEnded) this.onArrival();
		}
		this.isAsking = false;
	}

	private forget(): void {
		let kept = 0;
		for (const tile of this.known.values()) kept += tile.zones.n;
		if (kept <= MAX_KEPT) return;
		for (const tile of [...this.known.values()].sort((a, b) => a.lastUse - b.lastUse)) {
			if (kept <= MAX_KEPT / 2) break;
			kept -= tile.zones.n;
			this.known.delete(nameOf(tile));
		}
	}
}
