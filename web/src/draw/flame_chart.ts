// SPDX-License-Identifier: Apache-2.0
// A flame graph on a canvas: viewport, mouse, wheel and keys. Knows spans and pixels; names, colours and what a click means
// come from outside.
import { firstAfter, spanAt } from "../data/layout";
import { paint, type Picture, type Viewport } from "./flame_painter";
import { recordFrame } from "./stats";

export interface ChartEvents {
	label: (node: number) => string;
	onHover: (node: number, span: number) => void;
	onSelect: (node: number) => void;
	onWalk: (node: number) => void; // chosen by keys; -1: none any more
	onMenu: (node: number, x: number, y: number) => void;
	onZoom: (zoom: [number, number] | null) => void;
}

export interface ChartColours {
	background: number;
	outline: number;
	text: string;
	textFaded: string;
}

const ROW_CSS_PX = 19;
const FONT_CSS_PX = 11.5;
const LETTER_CSS_PX = 13; // of the page, where it is not enlarged (style/page.css)
const MIN_LABEL_CSS_PX = 26;
const ANIMATION_MS = 140;
const LEAST_WALKED_PX = 4; // narrower frames are zoomed to when one walks there

export class FlameChart {
	picture: Picture;
	view: Viewport = { from: 0, to: 1, scroll: 0 };
	private readonly context: CanvasRenderingContext2D;
	private image: ImageData | null = null;
	private buffer = new Uint32Array(0);
	private frame = 0;
	private widths = new Map<string, number>();
	private letters = 1;
	private dragFrom: { x: number; y: number; view: Viewport; moved: boolean } | null = null;
	private animation: { from: Viewport; to: Viewport; start: number } | null = null;
	private readonly observer: ResizeObserver;
	private readonly abort = new AbortController();

	constructor(
		private readonly canvas: HTMLCanvasElement,
		picture: Picture,
		private colours: ChartColours,
		public events: ChartEvents,
	) {
		const context = canvas.getContext("2d", { alpha: false });
		if (!context) throw new Error("This browser has no canvas; use a current Firefox, Chromium or Safari.");
		this.context = context;
		this.picture = picture;
		this.reset();
		this.observer = new ResizeObserver(() => this.resize());
		this.observer.observe(canvas);
		this.listen();
		this.resize();
	}

	destroy(): void {
		this.abort.abort();
		this.observer.disconnect();
		cancelAnimationFrame(this.frame);
	}

	private get ratio(): number {
		return window.devicePixelRatio || 1;
	}
	// A pixel of the usual letters: on very large screens the page's are larger, and so are the chart's.
	private get unit(): number {
		return this.ratio * this.letters;
	}
	private get rowHeight(): number {
		return Math.round(ROW_CSS_PX * this.unit);
	}

	show(picture: Picture, colours: ChartColours, keepView: boolean): void {
		this.picture = picture;
		this.colours = colours;
		if (!keepView) this.reset();
		this.draw();
	}

	mark(selected: number, matches: Uint8Array | null): void {
		this.picture.selected = selected;
		this.picture.matches = matches;
		this.draw();
	}

	reset(): void {
		const { from, to } = this.picture.layout;
		this.animation = null;
		this.view = { from, to, scroll: 0 };
		this.draw();
	}

	// In shares of the whole, so that a link means the same after the data grew.
	get zoom(): [number, number] | null {
		const { from, to } = this.picture.layout;
		const whole = to - from;
		const zoom: [number, number] = [(this.view.from - from) / whole, (this.view.to - from) / whole];
		return zoom[0] <= 0 && zoom[1] >= 1 ? null : zoom;
	}

	set zoom(zoom: [number, number] | null) {
		const { from, to } = this.picture.layout;
		const whole = to - from;
		const next = zoom
			? { from: from + zoom[0] * whole, to: from + zoom[1] * whole, scroll: this.view.scroll }
			: { from, to, scroll: this.view.scroll };
		if (Math.abs(next.from - this.view.from) + Math.abs(next.to - this.view.to) > whole * 1e-9) {
			this.animation = null;
			this.view = this.clamp(next);
			this.draw();
		}
	}

	private clamp(view: Viewport): Viewport {
		const { from, to, rows } = this.picture.layout;
		const whole = to - from;
		const span = Math.min(whole, Math.max(view.to - view.from, whole * 1e-10));
		const start = Math.min(to - span, Math.max(from, view.from));
		const most = Math.max(0, (rows + 1) * this.rowHeight - this.canvas.height);
		return { from: start, to: start + span, scroll: Math.min(most, Math.max(0, Math.round(view.scroll))) };
	}

	private change(view: Viewport, animate = false): void {
		const next = this.clamp(view);
		if (animate && !matchMedia("(prefers-reduced-motion: reduce)").matches)
			this.animation = { from: this.view, to: next, start: performance.now() };
		else {
			this.animation = null;
			this.view = next;
		}
		this.draw();
		if (!this.animation) this.events.onZoom(this.zoom);
	}

	pan(pixels: number): void {
		const d = (pixels * (this.view.to - this.view.from)) / this.canvas.width;
		this.change({ ...this.view, from: this.view.from + d, to: this.view.to + d });
	}

	scrollBy(pixels: number): void {
		this.change({ ...this.view, scroll: this.view.scroll + pixels });
	}

	zoomBy(factor: number, atPixel = this.canvas.width / 2): void {
		const x = this.view.from + ((this.view.to - this.view.from) * atPixel) / this.canvas.width;
		this.change({ ...this.view, from: x - (x - this.view.from) * factor, to: x + (this.view.to - x) * factor });
	}

	zoomToSpan(span: number, row: number): void {
		const { x0, x1 } = this.picture.layout;
		const above = (row - 1) * this.rowHeight;
		const rowsShown = this.canvas.height / this.rowHeight;
		// Keep the callers in sight when they fit; else put the frame near the top.
		this.change({ from: x0[span], to: x1[span], scroll: row < rowsShown / 2 ? 0 : above }, true);
	}

	zoomToNode(node: number): void {
		const found = this.find(node);
		if (found) this.zoomToSpan(found.span, found.row);
	}

	private find(node: number): { span: number; row: number } | null {
		const { node: nodes, rowStart, rows } = this.picture.layout;
		const span = nodes.indexOf(node);
		if (span < 0) return null;
		let row = 0;
		while (row + 1 < rows && rowStart[row + 1] <= span) row++;
		return { span, row };
	}

	private resize(): void {
		const letters = parseFloat(getComputedStyle(document.documentElement).fontSize) / LETTER_CSS_PX || 1;
		if (letters !== this.letters) this.widths.clear();
		this.letters = letters;
		const width = Math.max(1, Math.round(this.canvas.clientWidth * this.ratio));
		const height = Math.max(1, Math.round(this.canvas.clientHeight * this.ratio));
		if (this.canvas.width !== width || this.canvas.height !== height || !this.image) {
			this.canvas.width = width;
			this.canvas.height = height;
			this.image = this.context.createImageData(width, height);
			this.buffer = new Uint32Array(this.image.data.buffer);
			this.view = this.clamp(this.view);
		}
		this.draw();
	}

	draw(): void {
		if (!this.frame) this.frame = requestAnimationFrame(() => this.drawNow());
	}

	private drawNow(): void {
		this.frame = 0;
		if (!this.image) return;
		const started = performance.now();
		if (this.animation) {
			const { from, to, start } = this.animation;
			const t = Math.min(1, (started - start) / ANIMATION_MS);
			const e = 1 - (1 - t) ** 3;
			const mix = (a: number, b: number) => a + (b - a) * e;
			this.view = {
				from: mix(from.from, to.from),
				to: mix(from.to, to.to),
				scroll: Math.round(mix(from.scroll, to.scroll)),
			};
			if (t < 1) this.draw();
			else {
				this.view = to;
				this.animation = null;
				this.events.onZoom(this.zoom);
			}
		}
		const { width, height } = this.canvas;
		const geometry = {
			width,
			height,
			rowHeight: this.rowHeight,
			background: this.colours.background,
			outline: this.colours.outline,
		};
		const { labels, spans } = paint(this.buffer, geometry, this.picture, this.view, MIN_LABEL_CSS_PX * this.unit);
		this.context.putImageData(this.image, 0, 0);
		this.write(labels);
		this.scrollbar();
		recordFrame(performance.now() - started, spans);
	}

	private write(labels: { x: number; y: number; width: number; span: number }[]): void {
		const c = this.context;
		const { matches, layout } = this.picture;
		c.font = `${FONT_CSS_PX * this.unit}px system-ui, sans-serif`;
		c.textBaseline = "middle";
		const pad = 4 * this.unit;
		let faded: boolean | null = null;
		for (const { x, y, width, span } of labels) {
			const node = layout.node[span];
			const isFaded = matches !== null && !matches[node];
			if (isFaded !== faded) {
				c.fillStyle = isFaded ? this.colours.textFaded : this.colours.text;
				faded = isFaded;
			}
			const text = this.fit(this.events.label(node), width - 2 * pad);
			if (text) c.fillText(text, x + pad, y + this.rowHeight / 2);
		}
	}

	// The text, cut to a width. Widths are kept per text: measuring is most of the cost of writing.
	private fit(text: string, room: number): string {
		const short = text.length > 300 ? text.slice(0, 300) : text;
		let width = this.widths.get(short);
		if (width === undefined) {
			if (this.widths.size > 20000) this.widths.clear();
			width = this.context.measureText(short).width;
			this.widths.set(short, width);
		}
		if (width <= room) return short;
		const keep = Math.floor((room / width) * short.length * 0.95 - 1.2);
		return keep < 2 ? "" : `${short.slice(0, keep)}…`;
	}

	private scrollbar(): void {
		const { height, width } = this.canvas;
		const whole = (this.picture.layout.rows + 1) * this.rowHeight;
		if (whole <= height) return;
		const size = Math.max(24 * this.ratio, (height * height) / whole);
		const place = ((height - size) * this.view.scroll) / (whole - height);
		this.context.fillStyle = this.colours.textFaded;
		this.context.globalAlpha = 0.5;
		this.context.fillRect(
			width - 6 * this.ratio,
			this.picture.isUp ? height - size - place : place,
			4 * this.ratio,
			size,
		);
		this.context.globalAlpha = 1;
	}

	private at(event: MouseEvent): { span: number; row: number } {
		const box = this.canvas.getBoundingClientRect();
		const px = (event.clientX - box.left) * this.ratio;
		const py = (event.clientY - box.top) * this.ratio;
		const y = this.picture.isUp ? this.canvas.height - py + this.view.scroll : py + this.view.scroll;
		const row = Math.floor(y / this.rowHeight);
		const x = this.view.from + (px / this.canvas.width) * (this.view.to - this.view.from);
		return { span: spanAt(this.picture.layout, row, x), row };
	}

	private listen(): void {
		const { canvas } = this;
		const options = { signal: this.abort.signal };
		const node = (span: number) => (span >= 0 ? this.picture.layout.node[span] : -1);
		canvas.addEventListener(
			"pointerdown",
			(e) => {
				if (e.button !== 0) return;
				canvas.setPointerCapture(e.pointerId);
				this.dragFrom = { x: e.clientX, y: e.clientY, view: this.view, moved: false };
			},
			options,
		);
		canvas.addEventListener(
			"pointermove",
			(e) => {
				const drag = this.dragFrom;
				if (drag) {
					const dx = (e.clientX - drag.x) * this.ratio;
					const dy = (e.clientY - drag.y) * this.ratio;
					if (Math.abs(dx) + Math.abs(dy) > 4) drag.moved = true;
					if (!drag.moved) return;
					const d = (dx * (drag.view.to - drag.view.from)) / canvas.width;
					this.change({
						from: drag.view.from - d,
						to: drag.view.to - d,
						scroll: drag.view.scroll + (this.picture.isUp ? dy : -dy),
					});
					return;
				}
				this.hover(this.at(e).span);
			},
			options,
		);
		canvas.addEventListener(
			"pointerup",
			(e) => {
				const moved = this.dragFrom?.moved;
				this.dragFrom = null;
				if (!moved && e.button === 0) this.events.onSelect(node(this.at(e).span));
			},
			options,
		);
		canvas.addEventListener("pointercancel", () => (this.dragFrom = null), options);
		canvas.addEventListener("pointerleave", () => this.hover(-1), options);
		canvas.addEventListener(
			"dblclick",
			(e) => {
				const { span, row } = this.at(e);
				if (span >= 0) this.zoomToSpan(span, row);
			},
			options,
		);
		canvas.addEventListener(
			"contextmenu",
			(e) => {
				const { span } = this.at(e);
				e.preventDefault();
				if (span >= 0) this.events.onMenu(node(span), e.clientX, e.clientY);
			},
			options,
		);
		canvas.addEventListener(
			"wheel",
			(e) => {
				e.preventDefault();
				const unit = e.deltaMode === 1 ? 16 : 1;
				const box = canvas.getBoundingClientRect();
				if (e.ctrlKey || e.metaKey || e.altKey)
					this.zoomBy(Math.exp(e.deltaY * unit * 0.004), (e.clientX - box.left) * this.ratio);
				else {
					const sideways = e.shiftKey && e.deltaX === 0 ? e.deltaY : e.deltaX;
					const down = e.shiftKey && e.deltaX === 0 ? 0 : e.deltaY;
					if (sideways) this.pan(sideways * unit * this.ratio);
					if (down) this.scrollBy(down * unit * this.ratio * (this.picture.isUp ? -1 : 1));
				}
			},
			{ passive: false, signal: this.abort.signal },
		);
	}

	private hover(span: number): void {
		if (span === this.picture.hovered) return;
		this.picture.hovered = span;
		this.events.onHover(span >= 0 ? this.picture.layout.node[span] : -1, span);
		this.draw();
	}

	// From the chosen frame to its caller, its first callee, or the next frame beside it.
	private walk(key: string): boolean {
		const { layout, selected, isUp } = this.picture;
		if (key === "Enter" && selected < 0) return this.walkTo(layout.rowStart[Math.min(1, layout.rows - 1)]);
		const found = selected >= 0 ? this.find(selected) : null;
		if (!found) return false;
		if (key === "Escape") {
			this.events.onWalk(-1);
			return true;
		}
		const { span, row } = found;
		const isIn = (s: number, r: number) =>
			r >= 0 && r < layout.rows && s >= layout.rowStart[r] && s < layout.rowStart[r + 1];
		const middle = (layout.x0[span] + layout.x1[span]) / 2;
		const inner = isUp ? "ArrowUp" : "ArrowDown";
		if (key === "ArrowLeft") return !isIn(span - 1, row) || this.walkTo(span - 1);
		if (key === "ArrowRight") return !isIn(span + 1, row) || this.walkTo(span + 1);
		if (key !== "ArrowUp" && key !== "ArrowDown") return false;
		if (key !== inner) return row === 0 || this.walkTo(spanAt(layout, row - 1, middle));
		const below = row + 1 < layout.rows ? firstAfter(layout, row + 1, layout.x0[span]) : -1;
		return !isIn(below, row + 1) || layout.x0[below] >= layout.x1[span] || this.walkTo(below);
	}

	private walkTo(span: number): boolean {
		const { layout } = this.picture;
		if (span < 0 || span >= layout.node.length) return true;
		const { from, to } = this.view;
		const isInSight = layout.x0[span] < to && layout.x1[span] > from;
		const pixels = ((layout.x1[span] - layout.x0[span]) * this.canvas.width) / (to - from);
		this.events.onWalk(layout.node[span]);
		if (!isInSight || pixels < LEAST_WALKED_PX) this.zoomToNode(layout.node[span]);
		return true;
	}

	// True when the key meant something here.
	key(e: KeyboardEvent): boolean {
		if (this.walk(e.key)) return true;
		const step = this.canvas.width / 12;
		switch (e.key) {
			case "w":
			case "+":
			case "=":
				this.zoomBy(0.8);
				return true;
			case "s":
			case "-":
				this.zoomBy(1.25);
				return true;
			case "a":
			case "ArrowLeft":
				this.pan(-step);
				return true;
			case "d":
			case "ArrowRight":
				this.pan(step);
				return true;
			case "ArrowUp":
				this.scrollBy((this.picture.isUp ? 4 : -4) * this.rowHeight);
				return true;
			case "ArrowDown":
				this.scrollBy((this.picture.isUp ? -4 : 4) * this.rowHeight);
				return true;
			case "0":
				this.change({ from: this.picture.layout.from, to: this.picture.layout.to, scroll: 0 }, true);
				return true;
			default:
				return false;
		}
	}
}
