// SPDX-License-Identifier: Apache-2.0
// One row of spans as one line of pixels. Spans narrower than a pixel are jumped over by search, so the cost is that of the
// pixels, whether the row has ten spans or ten million.
import { firstAfter, type Layout } from "../data/layout";

export function mix(colour: number, background: number, share: number): number {
	const part = (shift: number) => {
		const from = (background >>> shift) & 255;
		return Math.round(from + share * (((colour >>> shift) & 255) - from)) << shift;
	};
	return ((255 << 24) | part(16) | part(8) | part(0)) >>> 0;
}

export const fade = (colour: number, background: number) => mix(colour, background, 0.25);

// Fills `line` and calls wide(span, left, right) for each span of two pixels or more. Returns how many spans were drawn.
export function fillRow(
	line: Uint32Array,
	layout: Layout,
	row: number,
	from: number,
	to: number,
	background: number,
	colourOf: (node: number, span: number) => number,
	wide: (span: number, left: number, right: number) => void,
): number {
	const width = line.length;
	const scale = width / (to - from);
	const { node, x0, x1 } = layout;
	const end = layout.rowStart[row + 1];
	let drawn = 0;
	for (let s = firstAfter(layout, row, from); s < end && x0[s] < to; ) {
		const left = Math.max(0, Math.round((x0[s] - from) * scale));
		const right = Math.min(width, Math.round((x1[s] - from) * scale));
		const colour = colourOf(node[s], s);
		drawn++;
		if (right - left >= 2) {
			line.fill(colour, left, right - 1);
			// The last pixel is the border to the neighbour; without one, equal colours run together.
			line[right - 1] = right - left > 3 ? background : fade(colour, background);
			wide(s, left, right);
			s++;
			continue;
		}
		const column = Math.min(width - 1, left);
		line[column] = colour;
		s = gallop(layout, s + 1, end, from + (column + 1) / scale);
	}
	return drawn;
}

// The first span from `s` on that ends after x: mostly the next one, so search in growing steps first.
function gallop(layout: Layout, s: number, end: number, x: number): number {
	const { x1 } = layout;
	let step = 1;
	let lo = s;
	while (lo < end && x1[Math.min(end - 1, lo + step - 1)] <= x) {
		lo += step;
		step *= 2;
	}
	if (lo >= end) return end;
	let hi = Math.min(end, lo + step);
	while (lo < hi) {
		const mid = (lo + hi) >>> 1;
		if (x1[mid] > x) hi = mid;
		else lo = mid + 1;
	}
	return lo;
}
