// SPDX-License-Identifier: Apache-2.0
// What the timeline is made of, one hook each: which part of the run is in sight, how large the picture is, what is in it, its drawing, and keys.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import { activityOf } from "../data/activity";
import type { Capture, Samples } from "../data/capture";
import { nodeMask, rangeOf, threadMask } from "../data/filter";
import { count } from "../data/format";
import { withGaps } from "../data/gaps";
import { zoneRows } from "../data/zone_rows";
import { ZoneTiles, type ZoneLayer } from "../data/zone_tiles";
import { drawMarks } from "../draw/marks";
import { recordFrame } from "../draw/stats";
import { paintTimeline, ZONE_PX, type Lane, type Scene } from "../draw/timeline_painter";
import type { App } from "../ui/app_context";
import { whatName } from "../ui/names";
import { coloursOf, curvesOf, lanesOf, whatColours } from "./timeline_scene";

const NO_LAYERS: ZoneLayer[] = [];
const MOST_LABELS = 800;

export interface Span {
	from: number; // seconds
	to: number;
	change: (from: number, to: number) => void;
	now: () => { from: number; to: number }; // the next event may come before the next drawing
}

export function useSpan(app: App): Span {
	const { capture, state, set } = app;
	const view = state.time ?? [0, 1];
	const from = view[0] * capture.end;
	const to = view[1] * capture.end;
	const look = useRef({ from, to });
	look.current = { from, to };
	const change = (a: number, b: number) => {
		const span = Math.min(capture.end, Math.max(b - a, capture.end * 1e-9));
		const start = Math.min(capture.end - span, Math.max(0, a));
		look.current = { from: start, to: start + span };
		const time: [number, number] = [start / capture.end, (start + span) / capture.end];
		set({ time: time[0] <= 0 && time[1] >= 1 ? null : time }, true);
	};
	return { from, to, change, now: () => look.current };
}

export interface Size {
	width: number; // css pixels
	height: number;
}

export function useSize(canvas: RefObject<HTMLCanvasElement>, scroller: RefObject<HTMLDivElement>): Size {
	const [size, setSize] = useState({ width: 800, height: 400 });
	useEffect(() => {
		const box = scroller.current;
		if (!box) return undefined;
		const observer = new ResizeObserver(() =>
			setSize({
				width: Math.max(50, canvas.current?.clientWidth ?? 800),
				height: Math.max(50, box.clientHeight),
			}),
		);
		observer.observe(box);
		return () => observer.disconnect();
	}, []);
	return size;
}

export interface Contents {
	scene: Scene;
	samples: Samples | null; // with the gaps in which there was no CPU
	height: number; // of all lanes
	visible: Lane[];
}

// The zones of what is in sight, closer than the capture has them: the server is asked as one looks.
function useLayers(app: App, zones: Scene["zones"], visible: Lane[], span: Span, size: Size): ZoneLayer[] {
	const { capture, source } = app;
	const [, setArrivals] = useState(0);
	const tiles = useMemo(
		() =>
			new ZoneTiles(
				capture,
				(question) => source.zones(question, capture),
				() => setArrivals((n) => n + 1),
			),
		[capture],
	);
	useEffect(() => () => tiles.end(), [tiles]);
	const groups = new Set<number>();
	for (const lane of visible)
		if (lane.kind === "thread" && zones?.depth[lane.index]) groups.add(ZoneTiles.groupOf(lane.index));
	if (!zones || groups.size === 0) return NO_LAYERS;
	return tiles.look(span.from, span.to, size.width * (devicePixelRatio || 1), [...groups]);
}

export function useContents(app: App, span: Span, size: Size, scroll: number): Contents {
	const { capture, theme, steps } = app;
	const maskKey = JSON.stringify(steps.filter((s) => s.kind === "function" || s.kind === "module"));
	const nodes = useMemo(() => nodeMask(capture, steps), [capture, maskKey]);
	const samples = useMemo(() => withGaps(capture), [capture]);
	const activity = useMemo(() => activityOf(capture, samples, nodes), [capture, samples, nodes]);
	const zones = useMemo(
		() => (capture.zones ? zoneRows(capture.zones, capture.threads.n, capture.end) : null),
		[capture],
	);
	const diff = app.state.both ? app.diff : null;
	const curves = useMemo(() => curvesOf(capture, diff), [capture, diff]);
	const { lanes, height } = useMemo(
		() => lanesOf(capture, curves, zones, size.height),
		[capture, curves, zones, size.height],
	);
	const colourOfWhat = useMemo(() => whatColours(capture, theme), [capture, theme]);
	const visible = lanes.filter((l) => l.top + l.height > scroll - 40 && l.top < scroll + size.height + 40);
	const layers = useLayers(app, zones, visible, span, size);
	const layerKey = layers.map((l) => `${l.from}~${l.to}:${l.rows.zones.n}`).join(" ");
	const scene: Scene = useMemo(
		() => ({ lanes, activity, samples, nodes, zones, layers, curves, colourOfWhat }),
		[lanes, activity, zones, layerKey, curves, colourOfWhat],
	);
	return { scene, samples, height, visible };
}

// As much of a name as fits, "" when that is next to nothing. `usual` is the width of a usual letter.
function fitted(context: CanvasRenderingContext2D, name: string, room: number, usual: number): string {
	let chars = Math.floor(room / usual);
	let text = name;
	for (; chars >= 3; chars--) {
		text = name.length > chars ? `${name.slice(0, chars - 1)}…` : name;
		if (context.measureText(text).width <= room) return text;
		chars = Math.min(chars, name.length);
	}
	return "";
}

type Labels = ReturnType<typeof paintTimeline>;

function writeLabels(context: CanvasRenderingContext2D, capture: Capture, labels: Labels, ratio: number): void {
	for (const l of labels.slice(0, MOST_LABELS)) {
		const name = l.count > 1 ? `${count(l.count)} calls` : whatName(capture, l.what);
		const text = fitted(context, name, l.width - 6 * ratio, 6 * ratio);
		if (text) context.fillText(text, l.x + 3 * ratio, l.y + (ZONE_PX * ratio) / 2);
	}
}

// What the filter leaves out fades.
function fade(
	context: CanvasRenderingContext2D,
	app: App,
	scene: Scene,
	span: Span,
	scroll: number,
	ratio: number,
): void {
	const { width, height } = context.canvas;
	const range = rangeOf(app.state.steps);
	const kept = threadMask(app.capture, app.steps);
	context.fillStyle = app.theme === "light" ? "rgb(255 255 255 / 0.72)" : "rgb(22 27 33 / 0.72)";
	if (range) {
		const x = (t: number) => ((t - span.from) / (span.to - span.from)) * width;
		context.fillRect(0, 0, Math.max(0, x(range[0])), height);
		context.fillRect(x(range[1]), 0, Math.max(0, width - x(range[1])), height);
	}
	if (!kept) return;
	for (const lane of scene.lanes)
		if (lane.kind === "thread" && !kept[lane.index])
			context.fillRect(0, (lane.top - scroll) * ratio, width, lane.height * ratio);
}

export function useDrawing(
	canvas: RefObject<HTMLCanvasElement>,
	app: App,
	scene: Scene,
	span: Span,
	size: Size,
	scroll: number,
): void {
	const { capture, theme, steps } = app;
	const { from, to } = span;
	const colours = useMemo(() => coloursOf(theme), [theme]);
	const kept = useRef<ImageData | null>(null);
	useLayoutEffect(() => {
		const element = canvas.current;
		const context = element?.getContext("2d", { alpha: false });
		if (!element || !context) return;
		// At once, not in the next frame: browsers give wheel and pointer events once a frame anyway.
		const started = performance.now();
		const ratio = devicePixelRatio || 1;
		const width = Math.max(1, Math.round(size.width * ratio));
		const tall = Math.max(1, Math.round(size.height * ratio));
		if (element.width !== width || element.height !== tall) {
			element.width = width;
			element.height = tall;
		}
		// Kept: a large screen has 33 MB of it, which would be cleared and thrown away with every frame.
		if (kept.current?.width !== width || kept.current.height !== tall)
			kept.current = context.createImageData(width, tall);
		const image = kept.current;
		const pixels = new Uint32Array(image.data.buffer);
		const labels = paintTimeline(pixels, width, tall, ratio, scene, from, to, scroll, colours);
		context.putImageData(image, 0, 0);
		const isLight = theme === "light";
		context.font = `${11 * ratio}px system-ui, sans-serif`;
		context.textBaseline = "middle";
		context.fillStyle = isLight ? "#16202b" : "#f3f6f9";
		writeLabels(context, capture, labels, ratio);
		drawMarks(capture, context, scene.lanes, from, to, scroll, ratio, width, isLight);
		fade(context, app, scene, span, scroll, ratio);
		recordFrame(performance.now() - started, labels.length);
	}, [scene, from, to, scroll, size, colours, JSON.stringify(steps), capture]);
}

export function useTimelineKeys(app: App, span: Span, scroller: RefObject<HTMLDivElement>): void {
	const latest = useRef(span);
	latest.current = span;
	useEffect(() => {
		const onKey = (event: Event) => {
			const e = (event as CustomEvent<KeyboardEvent>).detail;
			const { from: a, to: b } = latest.current.now();
			const { change } = latest.current;
			const step = (b - a) / 8;
			const zoomBy = (f: number) => change((a + b) / 2 - ((b - a) / 2) * f, (a + b) / 2 + ((b - a) / 2) * f);
			if (e.key === "w" || e.key === "+" || e.key === "=") zoomBy(0.75);
			else if (e.key === "s" || e.key === "-") zoomBy(1.33);
			else if (e.key === "a" || e.key === "ArrowLeft") change(a - step, b - step);
			else if (e.key === "d" || e.key === "ArrowRight") change(a + step, b + step);
			else if (e.key === "0") app.set({ time: null });
			else if (e.key === "ArrowDown") scroller.current?.scrollBy(0, 60);
			else if (e.key === "ArrowUp") scroller.current?.scrollBy(0, -60);
		};
		addEventListener("fathom-key", onKey);
		return () => removeEventListener("fathom-key", onKey);
	}, [app.capture]);
}
