// SPDX-License-Identifier: Apache-2.0
// The call graph as a drawing, pruned to what matters, and the same calls as a sunburst.
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { FLAG_PLUMBING, isMine, KIND_THREAD } from "../data/capture";
import { amount, share } from "../data/format";
import { edgesOf, functionSums, type FunctionSums } from "../data/functions";
import { matcherOf, matchingFunctions } from "../data/search";
import { css, heat } from "../draw/colour";
import { layered, type Drawing, type Line } from "../draw/layered";
import { useApp, type App } from "../ui/app_context";
import { functionMenu } from "../ui/function_menu";
import { functionName, functionPlace } from "../ui/names";
import { Sunburst } from "./sunburst";

interface View {
	x: number;
	y: number;
	w: number;
	h: number;
}

const LEAST_SCALE = 0.7;
const MAX_BOXES = 120;
const EDGE_SHARE = 0.1; // per cent

function useGraph(app: App) {
	const { capture, metric, steps, state } = app;
	return useMemo(() => {
		const sums = functionSums(capture, metric, steps);
		const { flags, kind } = capture.functions;
		const least = (state.prune / 100) * app.whole;
		const chosen: number[] = [];
		for (let f = 0; f < capture.functions.n; f++)
			if (
				sums.total[f] > 0 &&
				sums.total[f] >= least &&
				!(flags[f] & FLAG_PLUMBING) &&
				kind[f] !== KIND_THREAD &&
				(!state.mine || isMine(capture.functions, f))
			)
				chosen.push(f);
		chosen.sort((a, b) => sums.total[b] - sums.total[a]);
		const kept = new Set(chosen.slice(0, MAX_BOXES));
		const edges = edgesOf(capture, metric, steps)
			.filter((e) => kept.has(e.caller) && kept.has(e.callee) && e.weight >= (EDGE_SHARE / 100) * app.whole)
			.map((e) => ({ from: e.caller, to: e.callee, weight: e.weight }));
		const sizes = [...kept].map((id) => ({
			id,
			width: Math.min(
				260,
				Math.max(110, Math.max(functionName(capture, id).length, functionPlace(capture, id).length * 0.85) * 7 + 18),
			),
			height: 52,
		}));
		return {
			drawing: layered(sizes, edges),
			sums,
			loops: edges.filter((e) => e.from === e.to),
			leftOut: chosen.length - kept.size,
		};
	}, [capture, metric.id, JSON.stringify(steps), state.prune, state.mine]);
}

function path({ points }: Line): string {
	let d = `M${points[0].x.toFixed(1)},${points[0].y.toFixed(1)}`;
	for (let i = 1; i < points.length; i++) {
		const a = points[i - 1];
		const b = points[i];
		const bend = (b.y - a.y) / 2;
		d += `C${a.x.toFixed(1)},${(a.y + bend).toFixed(1)} ${b.x.toFixed(1)},${(b.y - bend).toFixed(1)} ${b.x.toFixed(1)},${b.y.toFixed(1)}`;
	}
	return d;
}

function centred(whole: View, w: number, h: number): View {
	return { x: whole.x + (whole.w - w) / 2, y: whole.h < h ? whole.y : whole.y + (whole.h - h) / 2, w, h };
}

function clip(text: string, chars: number): string {
	return text.length > chars ? `${text.slice(0, chars - 1)}…` : text;
}

// A drawing that stands alone: the styles of the page are written into it.
function exportSvg(svg: SVGSVGElement, width: number, height: number): void {
	const copy = svg.cloneNode(true) as SVGSVGElement;
	copy.setAttribute("viewBox", `-20 -20 ${width + 40} ${height + 40}`);
	copy.setAttribute("width", String(Math.ceil(width + 40)));
	copy.setAttribute("height", String(Math.ceil(height + 40)));
	const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
	style.textContent =
		"text{font:12px sans-serif;fill:#16202b}text.small{font-size:10.5px;fill:#4d5a67}path{fill:none;stroke:#6b7783}rect{stroke:#6b7783}";
	copy.insertBefore(style, copy.firstChild);
	const text = new XMLSerializer().serializeToString(copy);
	const link = document.createElement("a");
	link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
	link.download = "callgraph.svg";
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Where one looks, in the drawing's own units; a large graph opens where it is heaviest, at a size that can be read.
function useView(svg: RefObject<SVGSVGElement>, drawing: Drawing, total: Float64Array) {
	const [view, setView] = useState<View | null>(null);
	const [opening, setOpening] = useState<View | null>(null);
	const whole = { x: -20, y: -20, w: drawing.width + 40, h: drawing.height + 40 };
	const box = view ?? opening ?? whole;
	useLayoutEffect(() => {
		const size = svg.current?.getBoundingClientRect();
		setView(null);
		if (!size || size.width === 0) return;
		const fit = Math.min(size.width / whole.w, size.height / whole.h);
		if (fit >= LEAST_SCALE) return setOpening(fit > 1.2 ? centred(whole, size.width / 1.2, size.height / 1.2) : null);
		const top = drawing.boxes.reduce((best, b) => (total[b.id] > total[best.id] ? b : best));
		const [w, h] = [size.width / LEAST_SCALE, size.height / LEAST_SCALE];
		setOpening({
			x: Math.max(whole.x, Math.min(top.x - w / 2, whole.x + whole.w - w)),
			y: Math.max(whole.y, top.y - 60),
			w,
			h,
		});
	}, [drawing]);
	const scaled = (factor: number, cx = box.x + box.w / 2, cy = box.y + box.h / 2) =>
		setView({ x: cx - (cx - box.x) * factor, y: cy - (cy - box.y) * factor, w: box.w * factor, h: box.h * factor });
	return { box, scaled, move: setView, fit: () => setView(whole) };
}
type Looking = ReturnType<typeof useView>;

interface Drag {
	x: number;
	y: number;
	view: View;
	moved: boolean;
}

// The wheel zooms where the pointer is, dragging moves.
function useMouse({ box, scaled, move }: Looking) {
	const drag = useRef<Drag | null>(null);
	type At<E> = E & { currentTarget: SVGSVGElement };
	return {
		drag,
		onWheel: (e: At<WheelEvent>) => {
			e.preventDefault();
			const r = e.currentTarget.getBoundingClientRect();
			const scale = Math.max(box.w / r.width, box.h / r.height);
			const cx = box.x + box.w / 2 + (e.clientX - r.left - r.width / 2) * scale;
			const cy = box.y + box.h / 2 + (e.clientY - r.top - r.height / 2) * scale;
			scaled(Math.exp(e.deltaY * 0.0015), cx, cy);
		},
		onPointerDown: (e: PointerEvent) => {
			if (e.button === 0) drag.current = { x: e.clientX, y: e.clientY, view: box, moved: false };
		},
		onPointerMove: (e: At<PointerEvent>) => {
			const d = drag.current;
			if (!d || e.buttons === 0) return;
			const r = e.currentTarget.getBoundingClientRect();
			const scale = Math.max(d.view.w / r.width, d.view.h / r.height);
			if (Math.abs(e.clientX - d.x) + Math.abs(e.clientY - d.y) > 4) d.moved = true;
			if (d.moved)
				move({ ...d.view, x: d.view.x - (e.clientX - d.x) * scale, y: d.view.y - (e.clientY - d.y) * scale });
		},
	};
}

interface ControlProps {
	app: App;
	looking: Looking;
	leftOut: number;
	onSave: () => void;
}

function Controls({ app, looking, leftOut, onSave }: ControlProps) {
	const { state, set } = app;
	return (
		<div class="controls">
			<DrawingSwitch app={app} />
			<label class="field">
				Leave out functions below{" "}
				<select value={state.prune} onChange={(e) => set({ prune: Number(e.currentTarget.value) })}>
					{[0, 0.1, 0.5, 1, 2, 5, 10].map((p) => (
						<option value={p}>{p}%</option>
					))}
				</select>
			</label>
			<label class="toggle">
				<input type="checkbox" checked={state.mine} onChange={(e) => set({ mine: e.currentTarget.checked })} /> Only my
				code
			</label>
			<button onClick={() => looking.scaled(0.75)} aria-label="Zoom in">
				+
			</button>
			<button onClick={() => looking.scaled(1.33)} aria-label="Zoom out">
				−
			</button>
			<button onClick={looking.fit}>Fit</button>
			<button onClick={onSave}>Save as SVG</button>
			{leftOut > 0 && <span class="faint">{leftOut} lighter functions left out</span>}
		</div>
	);
}

function ArrowHead() {
	return (
		<defs>
			<marker
				id="tip"
				viewBox="0 0 8 8"
				refX="7"
				refY="4"
				markerWidth="7"
				markerHeight="7"
				orient="auto-start-reverse"
				markerUnits="userSpaceOnUse"
			>
				<path d="M0,0L8,4L0,8z" class="arrow-head" />
			</marker>
		</defs>
	);
}

function Edge({ app, line }: { app: App; line: Line }) {
	const { capture, metric, whole } = app;
	const names = `${functionName(capture, line.from)} → ${functionName(capture, line.to)}`;
	return (
		<path
			d={path(line)}
			class={line.isBack ? "edge back" : "edge"}
			fill="none"
			stroke-width={(0.8 + 5 * Math.sqrt(line.weight / (whole || 1))).toFixed(2)}
			marker-end="url(#tip)"
		>
			<title>{`${names}: ${amount(line.weight, metric.unit)} ${share(line.weight, whole)}`}</title>
		</path>
	);
}

interface BoxProps {
	app: App;
	box: Drawing["boxes"][number];
	sums: FunctionSums;
	isFaded: boolean;
	isDragged: () => boolean;
}

function Box({ app, box: b, sums, isFaded, isDragged }: BoxProps) {
	const { capture, theme, state, set, whole } = app;
	const name = functionName(capture, b.id);
	const place = functionPlace(capture, b.id);
	const kind = [state.fn === b.id ? "selected" : "", isFaded ? "faded" : ""].join(" ").trim();
	return (
		<g
			transform={`translate(${(b.x - b.width / 2).toFixed(1)},${(b.y - b.height / 2).toFixed(1)})`}
			class={`box ${kind}`.trim()}
			onClick={() => !isDragged() && set({ fn: b.id })}
			onDblClick={() => set({ view: "functions", fn: b.id })}
			onContextMenu={(e) => {
				e.preventDefault();
				app.openMenu({ x: e.clientX, y: e.clientY, title: name, items: functionMenu(app, b.id) });
			}}
		>
			<title>{`${name} ${place}`}</title>
			<rect width={b.width} height={b.height} rx="5" fill={css(heat(sums.total[b.id] / (whole || 1), theme))} />
			<text x={b.width / 2} y="16" text-anchor="middle">
				{clip(name, Math.floor((b.width - 10) / 7))}
			</text>
			<text x={b.width / 2} y="31" text-anchor="middle" class="small">
				{clip(place, Math.floor((b.width - 10) / 6))}
			</text>
			<text x={b.width / 2} y="45" text-anchor="middle" class="small">
				{`${share(sums.total[b.id], whole)} (self ${share(sums.self[b.id], whole)})`}
			</text>
		</g>
	);
}

function Graph({ app }: { app: App }) {
	const { capture, state } = app;
	const { drawing, sums, leftOut } = useGraph(app);
	const svg = useRef<SVGSVGElement>(null);
	const looking = useView(svg, drawing, sums.total);
	const { drag, ...mouse } = useMouse(looking);
	const hits = useMemo(() => {
		const matcher = matcherOf(state.search);
		return matcher ? matchingFunctions(capture, matcher) : null;
	}, [capture, state.search]);
	const { box } = looking;
	const save = () => svg.current && exportSvg(svg.current, drawing.width, drawing.height);
	const isDragged = () => drag.current?.moved ?? false;
	return (
		<>
			<Controls app={app} looking={looking} leftOut={leftOut} onSave={save} />
			{drawing.boxes.length === 0 ? (
				<p class="nothing">No function is above that share.</p>
			) : (
				<svg
					ref={svg}
					class="graph"
					xmlns="http://www.w3.org/2000/svg"
					viewBox={`${box.x} ${box.y} ${box.w} ${box.h}`}
					role="img"
					aria-label={`Call graph of ${drawing.boxes.length} functions; the same numbers are a table in Functions`}
					{...mouse}
				>
					<ArrowHead />
					{drawing.lines.map((line) => (
						<Edge app={app} line={line} />
					))}
					{drawing.boxes.map((b) => (
						<Box app={app} box={b} sums={sums} isFaded={hits !== null && !hits[b.id]} isDragged={isDragged} />
					))}
				</svg>
			)}
		</>
	);
}

export function DrawingSwitch({ app }: { app: App }) {
	const { state, set } = app;
	return (
		<div class="segments" role="group" aria-label="Drawing">
			<button aria-pressed={state.drawing === "graph"} onClick={() => set({ drawing: "graph" })}>
				Call graph
			</button>
			<button aria-pressed={state.drawing === "sunburst"} onClick={() => set({ drawing: "sunburst", root: 0 })}>
				Sunburst
			</button>
		</div>
	);
}

export function GraphView() {
	const app = useApp();
	return (
		<section class="view graphs" aria-label="Call graph">
			{app.state.drawing === "sunburst" ? <Sunburst app={app} Switch={DrawingSwitch} /> : <Graph app={app} />}
		</section>
	);
}
