// SPDX-License-Identifier: Apache-2.0
// The picture of the lanes and what the mouse does on it: a range by dragging, moving with Shift, zooming with Ctrl and the wheel.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { seconds } from "../data/format";
import type { Lane } from "../draw/timeline_painter";
import { useApp, type App } from "../ui/app_context";
import { functionMenu } from "../ui/function_menu";
import { functionName, threadName } from "../ui/names";
import { threadMenu } from "../ui/thread_menu";
import type { Contents, Size, Span } from "./timeline_hooks";
import { zoneAt } from "./timeline_scene";
import { describe } from "./timeline_tip";

const LEAST_DRAG_PX = 4;

interface Tip {
	x: number;
	y: number;
	lines: string[];
}

interface Drag {
	mode: "range" | "pan";
	x: number;
	from: number;
	to: number;
	moved: boolean;
}

function useWheel(canvas: RefObject<HTMLCanvasElement>, span: Span): void {
	useEffect(() => {
		const element = canvas.current;
		if (!element) return undefined;
		const onWheel = (e: WheelEvent) => {
			const box = element.getBoundingClientRect();
			const { from: a, to: b } = span.now();
			if (e.ctrlKey || e.metaKey || e.altKey) {
				e.preventDefault();
				const t = a + ((e.clientX - box.left) / box.width) * (b - a);
				const f = Math.exp(e.deltaY * 0.004);
				span.change(t - (t - a) * f, t + (b - t) * f);
			} else if (e.deltaX !== 0 || e.shiftKey) {
				e.preventDefault();
				const d = ((e.deltaX || e.deltaY) * (b - a)) / box.width;
				span.change(a + d, b + d);
			}
		};
		element.addEventListener("wheel", onWheel, { passive: false });
		return () => element.removeEventListener("wheel", onWheel);
	});
}

const timeAt = (e: MouseEvent & { currentTarget: HTMLElement }, { from, to }: Span) => {
	const box = e.currentTarget.getBoundingClientRect();
	return from + ((e.clientX - box.left) / box.width) * (to - from);
};

function laneAt(e: MouseEvent & { currentTarget: HTMLElement }, lanes: Lane[], scroll: number) {
	const y = e.clientY - e.currentTarget.getBoundingClientRect().top + scroll;
	const lane = lanes.find((l) => y >= l.top && y < l.top + l.height);
	return lane ? { lane, y: y - lane.top } : null;
}

// Dragging over a range limits every view to it; with Shift it moves the picture.
function useDrag(app: App, span: Span, endTip: () => void) {
	const { state, set, capture } = app;
	const [range, setRange] = useState<[number, number] | null>(null);
	const dragging = useRef<Drag | null>(null);
	const begin = (e: PointerEvent & { currentTarget: HTMLElement }) => {
		if (e.button !== 0) return;
		e.currentTarget.setPointerCapture(e.pointerId);
		dragging.current = {
			mode: e.shiftKey ? "pan" : "range",
			x: e.clientX,
			from: span.from,
			to: span.to,
			moved: false,
		};
		endTip();
	};
	// False: nothing is dragged.
	const move = (e: PointerEvent & { currentTarget: HTMLElement }): boolean => {
		const d = dragging.current;
		if (!d) return false;
		if (Math.abs(e.clientX - d.x) > LEAST_DRAG_PX) d.moved = true;
		if (!d.moved) return true;
		const box = e.currentTarget.getBoundingClientRect();
		if (d.mode === "pan") {
			const by = ((e.clientX - d.x) * (d.to - d.from)) / box.width;
			span.change(d.from - by, d.to - by);
		} else {
			const start = d.from + ((d.x - box.left) / box.width) * (d.to - d.from);
			const end = Math.max(0, Math.min(capture.end, timeAt(e, span)));
			setRange([Math.min(start, end), Math.max(start, end)]);
		}
		return true;
	};
	const end = () => {
		const d = dragging.current;
		dragging.current = null;
		if (d?.mode === "range" && d.moved && range && range[1] > range[0]) {
			const others = state.steps.filter((s) => s.kind !== "range");
			set({ steps: [...others, { kind: "range", from: range[0], to: range[1] }] });
			app.say(`Limited to ${seconds(range[0])} to ${seconds(range[1])}`);
		}
		setRange(null);
	};
	return { range, begin, move, end };
}

function openMenuAt(
	app: App,
	contents: Contents,
	span: Span,
	scroll: number,
	e: MouseEvent & { currentTarget: HTMLElement },
) {
	const { capture } = app;
	const found = laneAt(e, contents.scene.lanes, scroll);
	e.preventDefault();
	if (found?.lane.kind !== "thread") return;
	const thread = found.lane.index;
	const at = zoneAt(contents.scene.zones, contents.scene.layers, thread, found.y, timeAt(e, span));
	const fn = at ? capture.whats.fn[at.zones.what[at.zone]] : -1;
	const isFunction = fn >= 0 && fn < capture.functions.n;
	app.openMenu({
		x: e.clientX,
		y: e.clientY,
		title: isFunction ? functionName(capture, fn) : threadName(capture, thread),
		items: isFunction ? functionMenu(app, fn) : threadMenu(app, thread),
	});
}

function TipBox({ tip }: { tip: Tip }) {
	const style = {
		left: `${Math.min(tip.x + 14, innerWidth - 330)}px`,
		top: `${Math.min(tip.y + 16, innerHeight - 30 - 18 * tip.lines.length)}px`,
	};
	return (
		<div class="tip" style={style}>
			{tip.lines.map((l, i) => (i === 0 ? <b>{l}</b> : <span>{l}</span>))}
		</div>
	);
}

interface Props {
	canvas: RefObject<HTMLCanvasElement>;
	contents: Contents;
	span: Span;
	size: Size;
	scroll: number;
}

export function TimelineCanvas({ canvas, contents, span, size, scroll }: Props) {
	const app = useApp();
	const { capture } = app;
	const [tip, setTip] = useState<Tip | null>(null);
	const drag = useDrag(app, span, () => setTip(null));
	useWheel(canvas, span);
	const { scene, samples } = contents;
	const x = (t: number) => ((t - span.from) / (span.to - span.from)) * 100;
	const point = (e: PointerEvent & { currentTarget: HTMLElement }) => {
		const found = laneAt(e, scene.lanes, scroll);
		const t = timeAt(e, span);
		const isThread = found?.lane.kind === "thread";
		const zone = found && isThread ? zoneAt(scene.zones, scene.layers, found.lane.index, found.y, t) : null;
		const pixel = (span.to - span.from) / size.width;
		const lines = found ? describe(capture, samples, scene.curves, zone, found.lane, t, pixel) : [];
		setTip(lines.length > 0 ? { x: e.clientX, y: e.clientY, lines } : null);
	};
	return (
		<div class="lane-canvas" style={{ height: `${size.height}px` }}>
			<canvas
				class="chart"
				ref={canvas}
				role="img"
				tabIndex={0}
				aria-label={`What ${capture.threads.n} threads did in ${seconds(capture.end)}. The threads are listed as buttons to the left and as a table in Summary.`}
				onPointerDown={drag.begin}
				onPointerMove={(e) => drag.move(e) || point(e)}
				onPointerUp={drag.end}
				onPointerLeave={() => setTip(null)}
				onContextMenu={(e) => openMenuAt(app, contents, span, scroll, e)}
			/>
			{drag.range && (
				<div class="range" style={{ left: `${x(drag.range[0])}%`, width: `${x(drag.range[1]) - x(drag.range[0])}%` }}>
					<span>{seconds(drag.range[1] - drag.range[0])}</span>
				</div>
			)}
			{tip && <TipBox tip={tip} />}
		</div>
	);
}
