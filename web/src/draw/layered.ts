// SPDX-License-Identifier: Apache-2.0
// A layered drawing of a call graph, callers above callees: layers by longest path, crossings reduced by sweeps of
// barycentres, places by pulling each box to its neighbours. The steps of Sugiyama's method, no more of it than a screen needs.
export interface Box {
	id: number;
	width: number;
	height: number;
	x: number; // centre
	y: number;
	layer: number;
}

export interface Line {
	from: number; // ids
	to: number;
	weight: number;
	isBack: boolean; // against the order of the layers: part of a cycle
	points: { x: number; y: number }[];
}

export interface Drawing {
	boxes: Box[];
	lines: Line[];
	width: number;
	height: number;
}

interface Item {
	box: Box | null; // null where a long line passes a layer
	layer: number;
	order: number;
	x: number;
	width: number;
	up: { item: Item; weight: number }[];
	down: { item: Item; weight: number }[];
}

const GAP_X = 26;
const GAP_Y = 58;
const SWEEPS = 12;

// Edges that close a cycle, found by a walk with its own stack; they are drawn, but do not decide layers.
function backEdges(ids: number[], edges: Edge[]): Set<number> {
	const out = new Map<number, number[]>(ids.map((id) => [id, []]));
	edges.forEach((e, i) => out.get(e.from)?.push(i));
	for (const list of out.values()) list.sort((a, b) => edges[b].weight - edges[a].weight);
	const state = new Map<number, 1 | 2>();
	const back = new Set<number>();
	const hasCaller = new Set(edges.filter((e) => e.from !== e.to).map((e) => e.to));
	for (const start of [...ids.filter((id) => !hasCaller.has(id)), ...ids]) {
		if (state.has(start)) continue;
		const stack = [{ id: start, at: 0 }];
		state.set(start, 1);
		while (stack.length > 0) {
			const top = stack[stack.length - 1];
			const list = out.get(top.id) as number[];
			if (top.at === list.length) {
				state.set(top.id, 2);
				stack.pop();
				continue;
			}
			const edge = list[top.at++];
			const to = edges[edge].to;
			const seen = state.get(to);
			if (seen === 1) back.add(edge);
			else if (!seen) {
				state.set(to, 1);
				stack.push({ id: to, at: 0 });
			}
		}
	}
	return back;
}

interface Size {
	id: number;
	width: number;
	height: number;
}
interface Edge {
	from: number;
	to: number;
	weight: number;
}

const GAP_PARTS = 60;

// Parts that no call connects are drawn one beside the other, the heaviest first: together they would only push each other away.
export function layered(sizes: Size[], edges: Edge[]): Drawing {
	const root = new Map<number, number>(sizes.map((s) => [s.id, s.id]));
	const find = (id: number): number => {
		let r = id;
		while (root.get(r) !== r) r = root.get(r) as number;
		root.set(id, r);
		return r;
	};
	for (const e of edges) root.set(find(e.from), find(e.to));
	const parts = new Map<number, { sizes: Size[]; edges: Edge[]; weight: number }>();
	for (const s of sizes) {
		const known = parts.get(find(s.id));
		if (known) known.sizes.push(s);
		else parts.set(find(s.id), { sizes: [s], edges: [], weight: 0 });
	}
	for (const e of edges) {
		const part = parts.get(find(e.from));
		part?.edges.push(e);
		if (part) part.weight = Math.max(part.weight, e.weight);
	}
	const whole: Drawing = { boxes: [], lines: [], width: 0, height: 0 };
	for (const part of [...parts.values()].sort((a, b) => b.weight - a.weight)) {
		const drawn = layeredPart(part.sizes, part.edges);
		const shift = whole.boxes.length > 0 ? whole.width + GAP_PARTS : 0;
		for (const box of drawn.boxes) box.x += shift;
		for (const line of drawn.lines) for (const point of line.points) point.x += shift;
		whole.boxes.push(...drawn.boxes);
		whole.lines.push(...drawn.lines);
		whole.width = shift + drawn.width;
		whole.height = Math.max(whole.height, drawn.height);
	}
	return whole;
}

function layeredPart(sizes: Size[], edges: Edge[]): Drawing {
	const boxes = new Map<number, Box>(sizes.map((s) => [s.id, { ...s, x: 0, y: 0, layer: 0 }]));
	const back = backEdges([...boxes.keys()], edges);
	const forward = edges.filter((e, i) => !back.has(i) && e.from !== e.to);
	// Longest path: at most one pass for each layer that there can be.
	for (let pass = 0, moved = true; moved && pass < boxes.size; pass++) {
		moved = false;
		for (const e of forward) {
			const a = boxes.get(e.from) as Box;
			const b = boxes.get(e.to) as Box;
			if (b.layer <= a.layer) {
				b.layer = a.layer + 1;
				moved = true;
			}
		}
	}
	const nLayers = 1 + Math.max(0, ...[...boxes.values()].map((b) => b.layer));
	const layers: Item[][] = Array.from({ length: nLayers }, () => []);
	const items = new Map<number, Item>();
	const add = (layer: number, box: Box | null, width: number): Item => {
		const item: Item = { box, layer, order: layers[layer].length, x: 0, width, up: [], down: [] };
		layers[layer].push(item);
		return item;
	};
	for (const box of boxes.values()) items.set(box.id, add(box.layer, box, box.width));
	const link = (a: Item, b: Item, weight: number) => {
		a.down.push({ item: b, weight });
		b.up.push({ item: a, weight });
	};
	const lines: { line: Line; via: Item[] }[] = [];
	edges.forEach((e, i) => {
		if (e.from === e.to) return;
		const isBack = back.has(i);
		const top = items.get(isBack ? e.to : e.from) as Item;
		const bottom = items.get(isBack ? e.from : e.to) as Item;
		const via: Item[] = [top];
		for (let l = top.layer + 1; l < bottom.layer; l++) via.push(add(l, null, 8));
		via.push(bottom);
		for (let k = 1; k < via.length; k++) if (via[k].layer > via[k - 1].layer) link(via[k - 1], via[k], e.weight);
		lines.push({ line: { from: e.from, to: e.to, weight: e.weight, isBack, points: [] }, via });
	});

	const middle = (list: { item: Item; weight: number }[], of: (item: Item) => number) => {
		let sum = 0;
		let weight = 0;
		for (const n of list) {
			sum += of(n.item) * (n.weight + 1e-9);
			weight += n.weight + 1e-9;
		}
		return weight > 0 ? sum / weight : null;
	};
	for (let s = 0; s < SWEEPS; s++) {
		const isDown = s % 2 === 0;
		for (let k = 0; k < nLayers; k++) {
			const layer = layers[isDown ? k : nLayers - 1 - k];
			const place = new Map(
				layer.map((item) => [
					item,
					middle(isDown ? item.up : item.down, (n) => n.order / Math.max(1, layers[n.layer].length)) ??
						item.order / Math.max(1, layer.length),
				]),
			);
			layer.sort((a, b) => (place.get(a) as number) - (place.get(b) as number));
			layer.forEach((item, i) => (item.order = i));
		}
	}
	// Packed first, then pulled to the neighbours as far as the order allows.
	for (const layer of layers) {
		let x = 0;
		for (const item of layer) {
			item.x = x + item.width / 2;
			x += item.width + GAP_X;
		}
	}
	const widest = Math.max(...layers.map((l) => (l.length > 0 ? l[l.length - 1].x : 0)));
	for (const layer of layers) {
		const shift = (widest - (layer.length > 0 ? layer[layer.length - 1].x : 0)) / 2;
		for (const item of layer) item.x += shift;
	}
	for (let s = 0; s < SWEEPS * 2; s++) {
		const isDown = s % 2 === 0;
		for (let k = 0; k < nLayers; k++) {
			const layer = layers[isDown ? k : nLayers - 1 - k];
			const wish = layer.map((item) => middle(isDown ? item.up : item.down, (n) => n.x) ?? item.x);
			settle(layer, wish);
		}
	}
	let left = Infinity;
	let right = -Infinity;
	for (const layer of layers)
		for (const item of layer) {
			left = Math.min(left, item.x - item.width / 2);
			right = Math.max(right, item.x + item.width / 2);
		}
	if (!Number.isFinite(left)) [left, right] = [0, 1];
	let y = 0;
	const middleY: number[] = [];
	const half: number[] = [];
	for (const layer of layers) {
		const height = Math.max(20, ...layer.map((i) => i.box?.height ?? 0));
		middleY.push(y + height / 2);
		half.push(height / 2);
		y += height + GAP_Y;
	}
	for (const layer of layers)
		for (const item of layer) {
			item.x -= left;
			if (item.box) {
				item.box.x = item.x;
				item.box.y = middleY[item.layer];
			}
		}
	for (const { line, via } of lines) {
		const points = via.map((item, i) => ({
			x: item.x,
			y: middleY[item.layer] + (i === 0 ? half[item.layer] : i === via.length - 1 ? -half[item.layer] : 0),
		}));
		line.points = line.isBack ? points.reverse() : points;
	}
	return { boxes: [...boxes.values()], lines: lines.map((l) => l.line), width: right - left, height: y - GAP_Y };
}

// Moves each item towards its wish and keeps order and gaps: groups that would overlap share the mean of their wishes.
function settle(layer: Item[], wish: number[]): void {
	interface Group {
		first: number;
		last: number;
		sum: number; // of wishes, each less its offset in the group
		size: number;
		width: number;
		x: number; // of the first item's centre
	}
	const groups: Group[] = [];
	layer.forEach((_, i) => {
		let group: Group = { first: i, last: i, sum: wish[i], size: 1, width: 0, x: wish[i] };
		for (;;) {
			const before = groups[groups.length - 1];
			if (!before) break;
			const gap = (layer[before.last].width + layer[group.first].width) / 2 + GAP_X;
			if (group.x >= before.x + before.width + gap) break;
			groups.pop();
			const offset = before.width + gap;
			const size = before.size + group.size;
			const sum = before.sum + group.sum - offset * group.size;
			group = { first: before.first, last: group.last, sum, size, width: offset + group.width, x: sum / size };
		}
		groups.push(group);
	});
	for (const g of groups) {
		let x = g.x;
		for (let i = g.first; i <= g.last; i++) {
			if (i > g.first) x += (layer[i - 1].width + layer[i].width) / 2 + GAP_X;
			layer[i].x = x;
		}
	}
}
