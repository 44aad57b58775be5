// SPDX-License-Identifier: Apache-2.0
// Paints the visible part of a flame graph: each row's first scanline is filled span by span and copied down.
import type { Layout } from "../data/layout";
import { fade, fillRow } from "./row_painter";

export interface Label {
	x: number;
	y: number;
	width: number;
	span: number;
}

export interface Picture {
	layout: Layout;
	pixels: Uint32Array; // colour of each tree node
	matches: Uint8Array | null; // nodes that stay bright while the rest fades
	selected: number; // tree node, or -1
	hovered: number; // span, or -1
	isUp: boolean;
}

export interface Viewport {
	from: number;
	to: number;
	scroll: number; // rows of pixels hidden before the root
}

export interface Geometry {
	width: number;
	height: number;
	rowHeight: number; // all in device pixels
	background: number;
	outline: number;
}

const MAX_LABELS = 1500;

// Returns the spans wide enough for a name; the caller writes them, text is beyond pixels.
export function paint(
	buffer: Uint32Array,
	g: Geometry,
	picture: Picture,
	view: Viewport,
	minLabel: number,
): { labels: Label[]; spans: number } {
	const { width, height, rowHeight, background, outline } = g;
	const { layout, pixels, matches, selected, hovered, isUp } = picture;
	const labels: Label[] = [];
	let spans = 0;
	const colourOf = (node: number, span: number) => {
		if (node === selected) return outline;
		if (span === hovered) return fade(outline, pixels[node]);
		return matches && !matches[node] ? fade(pixels[node], background) : pixels[node];
	};
	const firstRow = Math.max(0, Math.floor(view.scroll / rowHeight));
	const lastRow = Math.min(layout.rows, Math.ceil((view.scroll + height) / rowHeight));
	// Each line of pixels is written once: on a large screen that is what a frame costs.
	const topOf = (row: number) => (isUp ? height - (row + 1) * rowHeight + view.scroll : row * rowHeight - view.scroll);
	const clear = (from: number, to: number) => {
		const [y0, y1] = [Math.max(0, Math.min(height, from)), Math.max(0, Math.min(height, to))];
		if (y1 > y0) buffer.fill(background, y0 * width, y1 * width);
	};
	if (lastRow <= firstRow) clear(0, height);
	else {
		const [first, last] = [topOf(isUp ? lastRow - 1 : firstRow), topOf(isUp ? firstRow : lastRow - 1)];
		clear(0, first);
		clear(last + rowHeight, height);
	}
	for (let row = firstRow; row < lastRow; row++) {
		const top = topOf(row);
		clear(top + rowHeight - 1, top + rowHeight);
		const y0 = Math.max(0, top);
		const y1 = Math.min(height, top + rowHeight - 1); // one line of background between rows
		if (y1 <= y0) continue;
		const line = buffer.subarray(y0 * width, (y0 + 1) * width);
		line.fill(background);
		spans += fillRow(line, layout, row, view.from, view.to, background, colourOf, (span, left, right) => {
			if (right - left >= minLabel && labels.length < MAX_LABELS)
				labels.push({ x: left, y: top, width: right - left, span });
		});
		for (let y = y0 + 1; y < y1; y++) buffer.copyWithin(y * width, y0 * width, (y0 + 1) * width);
	}
	return { labels, spans };
}
