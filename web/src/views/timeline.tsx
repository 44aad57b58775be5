// Timeline: a lane for each thread, memory and counters above. Dragging over a range limits every view to it.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { activityOf } from "../data/activity";
import type { Capture } from "../data/capture";
import { nodeMask, rangeOf, threadMask } from "../data/filter";
import { bytes, count, niceStep, seconds } from "../data/format";
import { zoneRows } from "../data/zone_rows";
import { ZoneTiles, type ZoneLayer } from "../data/zone_tiles";
import { drawMarks } from "../draw/marks";
import { recordFrame } from "../draw/stats";
import { paintTimeline, ZONE_PX, type Lane, type Scene } from "../draw/timeline_painter";
import { useApp } from "../ui/app_context";
import { ClassLegend } from "../ui/bars";
import { functionMenu } from "../ui/function_menu";
import { functionName, processName, threadName, whatName } from "../ui/names";
import { threadMenu } from "../ui/thread_menu";
import { coloursOf, curvesOf, lanesOf, whatColours, zoneAt } from "./timeline_scene";
import { describe } from "./timeline_tip";

const AXIS_PX = 24;
const TICK_PX = 48; // what stands beside a tick takes
const NO_LAYERS: ZoneLayer[] = [];

// One sentence on calls that the picture does not have one by one; "" when it has all.
function leftOut(capture: Capture, isServed: boolean): string {
	const { zones_merged: merged = 0, zones_left_out: missing = 0, zones = 0 } = capture.head.limits ?? {};
	const parts = [];
	if (merged > 0 && !isServed)
		parts.push(
			`${count(merged)} of ${count(zones)} calls are drawn together in this file; fathom view of the profile shows each.`,
		);
	if (missing > 0) parts.push(`${count(missing)} more calls are too deep or too short to be shown.`);
	return parts.join(" ");
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

interface Tip {
	x: number;
	y: number;
	lines: string[];
}

export function TimelineView() {
	const app = useApp();
	const { capture, state, set, theme, steps } = app;
	const holder = useRef<HTMLDivElement>(null);
	const scroller = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const [tip, setTip] = useState<Tip | null>(null);
	const [drag, setDrag] = useState<[number, number] | null>(null);
	const dragging = useRef<{ mode: "range" | "pan"; x: number; from: number; to: number; moved: boolean } | null>(null);
	const [size, setSize] = useState({ width: 800, height: 400 });
	const [scroll, setScroll] = useState(0);

	const maskKey = JSON.stringify(steps.filter((s) => s.kind === "function" || s.kind === "module"));
	const nodes = useMemo(() => nodeMask(capture, steps), [capture, maskKey]);
	const activity = useMemo(() => activityOf(capture, nodes), [capture, nodes]);
	const zones = useMemo(
		() => (capture.zones ? zoneRows(capture.zones, capture.threads.n, capture.end) : null),
		[capture],
	);
	const curves = useMemo(() => curvesOf(capture), [capture]);
	const { lanes, height } = useMemo(
		() => lanesOf(capture, curves, zones, size.height),
		[capture, curves, zones, size.height],
	);
	const colours = useMemo(() => coloursOf(theme), [theme]);
	const kept = useMemo(() => threadMask(capture, steps), [capture, JSON.stringify(steps)]);
	const range = rangeOf(state.steps);
	const colourOfWhat = useMemo(() => whatColours(capture, theme), [capture, theme]);

	const view = state.zoom ?? [0, 1];
	const from = view[0] * capture.end;
	const to = view[1] * capture.end;
	const visible = lanes.filter((l) => l.top + l.height > scroll - 40 && l.top < scroll + size.height + 40);
	const [, setArrivals] = useState(0);
	const tiles = useMemo(
		() =>
			new ZoneTiles(
				capture,
				(question) => app.source.zones(question, capture),
				() => setArrivals((n) => n + 1),
			),
		[capture],
	);
	useEffect(() => () => tiles.end(), [tiles]);
	const groups = [
		...new Set(
			visible.filter((l) => l.kind === "thread" && zones?.depth[l.index]).map((l) => ZoneTiles.groupOf(l.index)),
		),
	];
	const layers =
		zones && groups.length > 0 ? tiles.look(from, to, size.width * (devicePixelRatio || 1), groups) : NO_LAYERS;
	const layerKey = layers.map((l) => `${l.from}~${l.to}:${l.rows.zones.n}`).join(" ");
	const scene: Scene = useMemo(
		() => ({ lanes, activity, samples: capture.samples, nodes, zones, layers, curves, colourOfWhat }),
		[lanes, activity, zones, layerKey, curves, colourOfWhat],
	);
	const look = useRef({ from, to });
	look.current = { from, to };
	const change = (a: number, b: number) => {
		const span = Math.min(capture.end, Math.max(b - a, capture.end * 1e-9));
		const start = Math.min(capture.end - span, Math.max(0, a));
		look.current = { from: start, to: start + span }; // the next event may come before the next drawing
		const zoom: [number, number] = [start / capture.end, (start + span) / capture.end];
		set({ zoom: zoom[0] <= 0 && zoom[1] >= 1 ? null : zoom }, true);
	};

	useEffect(() => {
		const box = holder.current;
		if (!box) return undefined;
		const observer = new ResizeObserver(() =>
			setSize({
				width: Math.max(50, canvas.current?.clientWidth ?? 800),
				height: Math.max(50, scroller.current?.clientHeight ?? 400),
			}),
		);
		observer.observe(box);
		return () => observer.disconnect();
	}, []);

	useEffect(() => {
		const onKey = (event: Event) => {
			const e = (event as CustomEvent<KeyboardEvent>).detail;
			const { from: a, to: b } = look.current;
			const step = (b - a) / 8;
			const zoomBy = (f: number) => change((a + b) / 2 - ((b - a) / 2) * f, (a + b) / 2 + ((b - a) / 2) * f);
			if (e.key === "w" || e.key === "+" || e.key === "=") zoomBy(0.75);
			else if (e.key === "s" || e.key === "-") zoomBy(1.33);
			else if (e.key === "a" || e.key === "ArrowLeft") change(a - step, b - step);
			else if (e.key === "d" || e.key === "ArrowRight") change(a + step, b + step);
			else if (e.key === "0") set({ zoom: null });
			else if (e.key === "ArrowDown") scroller.current?.scrollBy(0, 60);
			else if (e.key === "ArrowUp") scroller.current?.scrollBy(0, -60);
		};
		addEventListener("fathom-key", onKey);
		return () => removeEventListener("fathom-key", onKey);
	}, [capture]);

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
		const image = context.createImageData(width, tall);
		const labels = paintTimeline(
			new Uint32Array(image.data.buffer),
			width,
			tall,
			ratio,
			scene,
			from,
			to,
			scroll,
			colours,
		);
		context.putImageData(image, 0, 0);
		const isLight = theme === "light";
		context.font = `${11 * ratio}px system-ui, sans-serif`;
		context.textBaseline = "middle";
		context.fillStyle = isLight ? "#16202b" : "#f3f6f9";
		for (const l of labels.slice(0, 800)) {
			const name = l.count > 1 ? `${count(l.count)} calls` : whatName(capture, l.what);
			const text = fitted(context, name, l.width - 6 * ratio, 6 * ratio);
			if (text) context.fillText(text, l.x + 3 * ratio, l.y + (ZONE_PX * ratio) / 2);
		}
		drawMarks(capture, context, lanes, from, to, scroll, ratio, width, isLight);
		// What the filter leaves out fades.
		context.fillStyle = isLight ? "rgb(255 255 255 / 0.72)" : "rgb(22 27 33 / 0.72)";
		if (range) {
			const x = (t: number) => ((t - from) / (to - from)) * width;
			context.fillRect(0, 0, Math.max(0, x(range[0])), tall);
			context.fillRect(x(range[1]), 0, Math.max(0, width - x(range[1])), tall);
		}
		if (kept)
			for (const lane of lanes)
				if (lane.kind === "thread" && !kept[lane.index])
					context.fillRect(0, (lane.top - scroll) * ratio, width, lane.height * ratio);
		recordFrame(performance.now() - started, labels.length);
	}, [scene, from, to, scroll, size, colours, JSON.stringify(range), capture]);

	const timeAt = (e: MouseEvent) => {
		const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
		return from + ((e.clientX - box.left) / box.width) * (to - from);
	};
	const laneAt = (e: MouseEvent): { lane: Lane; y: number } | null => {
		const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
		const y = e.clientY - box.top + scroll;
		const lane = lanes.find((l) => y >= l.top && y < l.top + l.height);
		return lane ? { lane, y: y - lane.top } : null;
	};
	const onWheel = (e: WheelEvent) => {
		const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
		const { from: a, to: b } = look.current;
		if (e.ctrlKey || e.metaKey || e.altKey) {
			e.preventDefault();
			const t = a + ((e.clientX - box.left) / box.width) * (b - a);
			const f = Math.exp(e.deltaY * 0.004);
			change(t - (t - a) * f, t + (b - t) * f);
		} else if (e.deltaX !== 0 || e.shiftKey) {
			e.preventDefault();
			const d = ((e.deltaX || e.deltaY) * (b - a)) / box.width;
			change(a + d, b + d);
		}
	};
	useEffect(() => {
		const element = canvas.current;
		if (!element) return undefined;
		element.addEventListener("wheel", onWheel, { passive: false });
		return () => element.removeEventListener("wheel", onWheel);
	});

	const ticks: number[] = [];
	const step = niceStep(to - from, size.width / 110);
	for (let t = Math.ceil(from / step) * step; t <= to && ticks.length < 60; t += step) ticks.push(t);
	const x = (t: number) => ((t - from) / (to - from)) * 100;
	const shown = drag ?? null;
	return (
		<section class="view timeline" aria-label="Timeline">
			<div class="controls">
				<ClassLegend />
				<span class="space" />
				<span class="faint">{leftOut(capture, app.source.isServed)}</span>
				{!state.zoom && !range && (
					<span class="faint">Drag to limit every view to a range, Shift-drag to move, Ctrl-wheel to zoom.</span>
				)}
				{state.zoom && <button onClick={() => set({ zoom: null })}>Show all</button>}
				{range && (
					<button onClick={() => set({ zoom: [range[0] / capture.end, range[1] / capture.end] })}>
						Zoom in on range
					</button>
				)}
				{range && <button onClick={() => set({ view: "flame", zoom: null })}>Flame graph of range</button>}
				{range && (
					<button onClick={() => set({ steps: state.steps.filter((s) => s.kind !== "range") })}>Whole run</button>
				)}
			</div>
			<div class="lanes" ref={holder}>
				<div class="axis">
					<div class="gutter" />
					<div class="ticks" style={{ height: `${AXIS_PX}px` }}>
						{ticks.map((t) => (
							<span style={{ left: `${x(t)}%` }}>
								{size.width * (1 - x(t) / 100) < TICK_PX
									? "" // it would be cut off
									: +t.toPrecision(10) === 0
										? "0"
										: step >= 0.1
											? `${+t.toFixed(2)} s`
											: step >= 1e-4
												? `${+(t * 1e3).toFixed(3)} ms`
												: `${+(t * 1e6).toFixed(3)} µs`}
							</span>
						))}
					</div>
				</div>
				<div class="lane-scroll" ref={scroller} onScroll={(e) => setScroll(e.currentTarget.scrollTop)}>
					<div class="lane-space" style={{ height: `${Math.max(height, size.height)}px` }}>
						<div class="gutter">
							{visible.map((lane) => (
								<div class={`lane-name ${lane.kind}`} style={{ top: `${lane.top}px`, height: `${lane.height}px` }}>
									{lane.kind === "thread" ? (
										<button
											title={threadName(capture, lane.index)}
											onClick={(e) =>
												app.openMenu({
													x: e.clientX,
													y: e.clientY,
													title: threadName(capture, lane.index),
													items: threadMenu(app, lane.index),
												})
											}
											onContextMenu={(e) => {
												e.preventDefault();
												app.openMenu({
													x: e.clientX,
													y: e.clientY,
													title: threadName(capture, lane.index),
													items: threadMenu(app, lane.index),
												});
											}}
										>
											<span>{threadName(capture, lane.index)}</span>
											<small>{seconds(capture.threads.cpu[lane.index])}</small>
										</button>
									) : (
										<span title={lane.kind === "process" ? processName(capture, lane.index) : curves[lane.index].name}>
											{lane.kind === "process" ? processName(capture, lane.index) : curves[lane.index].name}
											{lane.kind === "curve" && (
												<small>
													up to{" "}
													{curves[lane.index].unit === "bytes"
														? bytes(curves[lane.index].top)
														: count(curves[lane.index].top)}
												</small>
											)}
										</span>
									)}
								</div>
							))}
						</div>
						<div class="lane-canvas" style={{ height: `${size.height}px` }}>
							<canvas
								class="chart"
								ref={canvas}
								role="img"
								tabIndex={0}
								aria-label={`What ${capture.threads.n} threads did in ${seconds(capture.end)}. The threads are listed as buttons to the left and as a table in Summary.`}
								onPointerDown={(e) => {
									if (e.button !== 0) return;
									e.currentTarget.setPointerCapture(e.pointerId);
									dragging.current = { mode: e.shiftKey ? "pan" : "range", x: e.clientX, from, to, moved: false };
									setTip(null);
								}}
								onPointerMove={(e) => {
									const d = dragging.current;
									if (!d) {
										const found = laneAt(e);
										const pixel = (to - from) / size.width;
										const t = timeAt(e);
										const zone = found && zoneAt(zones, layers, found.lane.index, found.y, t);
										const isThread = found?.lane.kind === "thread";
										const lines = found ? describe(capture, curves, isThread ? zone : null, found.lane, t, pixel) : [];
										setTip(lines.length > 0 ? { x: e.clientX, y: e.clientY, lines } : null);
										return;
									}
									if (Math.abs(e.clientX - d.x) > 4) d.moved = true;
									if (!d.moved) return;
									const width = e.currentTarget.getBoundingClientRect().width;
									if (d.mode === "pan") {
										const by = ((e.clientX - d.x) * (d.to - d.from)) / width;
										change(d.from - by, d.to - by);
									} else {
										const start =
											d.from + ((d.x - e.currentTarget.getBoundingClientRect().left) / width) * (d.to - d.from);
										const end = Math.max(0, Math.min(capture.end, timeAt(e)));
										setDrag([Math.min(start, end), Math.max(start, end)]);
									}
								}}
								onPointerUp={() => {
									const d = dragging.current;
									dragging.current = null;
									if (d?.mode === "range" && d.moved && drag && drag[1] > drag[0]) {
										set({
											steps: [
												...state.steps.filter((s) => s.kind !== "range"),
												{ kind: "range", from: drag[0], to: drag[1] },
											],
										});
										app.say(`Limited to ${seconds(drag[0])} to ${seconds(drag[1])}`);
									}
									setDrag(null);
								}}
								onPointerLeave={() => setTip(null)}
								onContextMenu={(e) => {
									const found = laneAt(e);
									e.preventDefault();
									if (found?.lane.kind !== "thread") return;
									const at = zoneAt(zones, layers, found.lane.index, found.y, timeAt(e));
									const fn = at ? capture.whats.fn[at.zones.what[at.zone]] : -1;
									app.openMenu(
										fn >= 0 && fn < capture.functions.n
											? { x: e.clientX, y: e.clientY, title: functionName(capture, fn), items: functionMenu(app, fn) }
											: {
													x: e.clientX,
													y: e.clientY,
													title: threadName(capture, found.lane.index),
													items: threadMenu(app, found.lane.index),
												},
									);
								}}
							/>
							{shown && (
								<div class="range" style={{ left: `${x(shown[0])}%`, width: `${x(shown[1]) - x(shown[0])}%` }}>
									<span>{seconds(shown[1] - shown[0])}</span>
								</div>
							)}
						</div>
					</div>
				</div>
			</div>
			{tip && (
				<div
					class="tip"
					style={{
						left: `${Math.min(tip.x + 14, innerWidth - 330)}px`,
						top: `${Math.min(tip.y + 16, innerHeight - 30 - 18 * tip.lines.length)}px`,
					}}
				>
					{tip.lines.map((l, i) => (i === 0 ? <b>{l}</b> : <span>{l}</span>))}
				</div>
			)}
		</section>
	);
}
