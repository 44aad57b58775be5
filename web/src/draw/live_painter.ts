// SPDX-License-Identifier: Apache-2.0
// The lanes of the Live view: for each thread how busy it was and with what, and its zones and calls below.
import { KEPT_BUCKETS, NO_CLASS, type Lane, type LiveFeed, type LiveSpan } from "../data/live";
import { niceStep } from "../data/format";
import { classColour, css, HUES, oklch, type Theme } from "./colour";

export const LABEL_PX = 150;
const AXIS_PX = 26; // numbers, and marks below them
const ACTIVITY_PX = 26;
const SPAN_PX = 16;
const GAP_PX = 8;
const MAX_DEPTH = 12;

export interface LiveLook {
	from: number;
	to: number;
	width: number;
	theme: Theme;
	lanes: Lane[];
}

function rowsOf(lane: Lane): number {
	return Math.min(MAX_DEPTH, lane.maxDepth + 1);
}

export function heightOf(lanes: Lane[]): number {
	return lanes.reduce((sum, lane) => sum + ACTIVITY_PX + rowsOf(lane) * SPAN_PX + GAP_PX, AXIS_PX);
}

function spanColour(name: string, theme: Theme): string {
	let hash = 0;
	for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) >>> 0;
	return css(oklch(theme === "light" ? 0.84 : 0.46, 0.09, HUES[hash % HUES.length]));
}

function xOf(look: LiveLook, t: number): number {
	return LABEL_PX + ((t - look.from) / (look.to - look.from)) * (look.width - LABEL_PX);
}

function paintAxis(c: CanvasRenderingContext2D, look: LiveLook, height: number, ink: string, line: string): void {
	const step = niceStep(look.to - look.from, (look.width - LABEL_PX) / 90);
	c.textAlign = "center";
	for (let i = Math.max(0, Math.ceil(look.from / step)); i * step <= look.to; i++) {
		const x = Math.round(xOf(look, i * step)) + 0.5;
		c.fillStyle = line;
		c.fillRect(x, AXIS_PX, 1, height);
		c.fillStyle = ink;
		c.fillText(`${+(i * step).toFixed(2)} s`, x, 12);
	}
	c.textAlign = "left";
}

function paintActivity(c: CanvasRenderingContext2D, feed: LiveFeed, look: LiveLook, lane: Lane, top: number): void {
	const now = feed.now;
	if (!now) return;
	const first = Math.floor(feed.bucketAt(look.from));
	const last = Math.ceil(feed.bucketAt(look.to));
	for (let b = Math.max(first, last - KEPT_BUCKETS); b < last; b++) {
		const at = ((b % KEPT_BUCKETS) + KEPT_BUCKETS) % KEPT_BUCKETS;
		if (lane.stamps[at] !== b || lane.doing[at] === NO_CLASS) continue;
		const t = now.first_bucket_s + (b - now.first_bucket) * now.bucket_s;
		const x = Math.max(LABEL_PX, xOf(look, t));
		const right = Math.min(look.width, xOf(look, t + now.bucket_s));
		if (right <= x) continue;
		// A thread that waits is a low line: it is there, and idle.
		const tall = Math.max(2, Math.min(1, lane.busy[at]) * ACTIVITY_PX);
		c.fillStyle = css(classColour(lane.doing[at], look.theme));
		c.fillRect(x, top + ACTIVITY_PX - tall, Math.max(1, right - x - 0.5), tall);
	}
}

function paintSpan(c: CanvasRenderingContext2D, look: LiveLook, span: LiveSpan, top: number, ink: string): void {
	const x = Math.max(LABEL_PX, xOf(look, span.begin));
	const right = Math.min(look.width, xOf(look, Math.min(span.end, look.to)));
	if (right < x || span.depth >= MAX_DEPTH) return;
	const y = top + span.depth * SPAN_PX;
	c.fillStyle = spanColour(span.name, look.theme);
	c.fillRect(x, y, Math.max(1, right - x - 0.5), SPAN_PX - 1);
	if (right - x < 26) return;
	const letters = Math.floor((right - x - 8) / 6.4);
	c.fillStyle = ink;
	c.fillText(
		span.name.length <= letters ? span.name : `${span.name.slice(0, Math.max(0, letters - 1))}…`,
		x + 4,
		y + 11.5,
	);
}

export function paintLive(c: CanvasRenderingContext2D, feed: LiveFeed, look: LiveLook, height: number): void {
	const isLight = look.theme === "light";
	const [ink, faint, line] = isLight ? ["#16202b", "#5b6874", "#e7eaee"] : ["#e6ebf0", "#98a4b0", "#232a32"];
	c.fillStyle = isLight ? "#ffffff" : "#171c22";
	c.fillRect(0, 0, look.width, height);
	c.font = "11px system-ui, sans-serif";
	paintAxis(c, look, height, faint, line);
	let top = AXIS_PX;
	const tops = new Map<number, number>();
	for (const lane of look.lanes) {
		c.fillStyle = ink;
		c.fillText(lane.name.length > 22 ? `${lane.name.slice(0, 21)}…` : lane.name, 8, top + 17);
		paintActivity(c, feed, look, lane, top);
		tops.set(lane.thread, top + ACTIVITY_PX + 2);
		top += ACTIVITY_PX + rowsOf(lane) * SPAN_PX + GAP_PX;
	}
	const paint = (span: LiveSpan) => {
		const y = tops.get(span.thread);
		if (y !== undefined && span.end >= look.from && span.begin <= look.to) paintSpan(c, look, span, y, ink);
	};
	for (const span of feed.spans.values()) paint(span);
	for (const span of feed.open) paint(span);
	c.fillStyle = isLight ? "#9a4a00" : "#f0b070";
	for (const mark of feed.marks)
		if (mark.t >= look.from && mark.t <= look.to) {
			const x = Math.round(xOf(look, mark.t));
			c.beginPath();
			c.moveTo(x - 3, AXIS_PX - 6);
			c.lineTo(x + 3, AXIS_PX - 6);
			c.lineTo(x, AXIS_PX);
			c.fill();
		}
}

// The mark under the pointer, which is in the line of the axis.
export function markUnder(feed: LiveFeed, look: LiveLook, x: number, y: number): string | null {
	if (y > AXIS_PX + 2) return null;
	return feed.marks.filter((m) => Math.abs(xOf(look, m.t) - x) < 5).pop()?.text ?? null;
}

// The zone or call under the pointer, the innermost that was drawn there.
export function spanUnder(feed: LiveFeed, look: LiveLook, x: number, y: number): LiveSpan | null {
	const t = look.from + ((x - LABEL_PX) / (look.width - LABEL_PX)) * (look.to - look.from);
	let top = AXIS_PX;
	for (const lane of look.lanes) {
		const depth = Math.floor((y - top - ACTIVITY_PX - 2) / SPAN_PX);
		if (depth >= 0 && depth < rowsOf(lane))
			for (const spans of [feed.open, feed.spans.values()])
				for (const s of spans)
					if (s.thread === lane.thread && s.depth === depth && s.begin <= t && t <= s.end) return s;
		top += ACTIVITY_PX + rowsOf(lane) * SPAN_PX + GAP_PX;
	}
	return null;
}
