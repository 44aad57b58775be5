// SPDX-License-Identifier: Apache-2.0
// Timeline: a lane for each thread, memory and counters above. Dragging over a range limits every view to it.
import type { ComponentChildren, RefObject } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Capture } from "../data/capture";
import { threadsBefore } from "../data/changes";
import { rangeOf } from "../data/filter";
import { count, seconds } from "../data/format";
import type { Curve, Lane } from "../draw/timeline_painter";
import { useApp, type App } from "../ui/app_context";
import { Ticks } from "../ui/axis";
import { ClassLegend } from "../ui/bars";
import { signed } from "../ui/change";
import { processName, threadName } from "../ui/names";
import { threadMenu } from "../ui/thread_menu";
import { TimelineCanvas } from "./timeline_canvas";
import { curveValue } from "./timeline_tip";
import { useContents, useDrawing, useSize, useSpan, useTimelineKeys, type Size } from "./timeline_hooks";

const TWO_LINES_PX = 40; // of a lane

// What the picture does not have one by one, in sentences; "" when it has all.
function leftOut(capture: Capture, isServed: boolean): string {
	const { zones_merged: merged = 0, zones_left_out: missing = 0, zones = 0 } = capture.head.limits ?? {};
	const { counter_values_left_out: values = 0 } = capture.head.limits ?? {};
	const parts = [];
	if (merged > 0 && !isServed)
		parts.push(
			`${count(merged)} of ${count(zones)} calls are drawn together in this file; fathom view of the profile shows each.`,
		);
	if (missing > 0) parts.push(`${count(missing)} more calls are too deep or too short to be shown.`);
	if (values > 0)
		parts.push(
			`Of counters with many values one in 2, 4 or more is shown: ${count(capture.counters.n)} of ${count(capture.counters.n + values)}.`,
		);
	return parts.join(" ");
}

// To the counters, where these come after the threads.
function CountersButton({ lanes, scroller }: { lanes: Lane[]; scroller: RefObject<HTMLDivElement> }) {
	const last = lanes.map((l) => l.kind).lastIndexOf("thread");
	const below = lanes.slice(last + 1);
	if (last < 0 || below.length === 0) return null;
	return (
		<button onClick={() => scroller.current?.scrollTo(0, below[0].top)}>
			{count(below.length)} {below.length === 1 ? "counter" : "counters"} below
		</button>
	);
}

function Controls({ app, children }: { app: App; children: ComponentChildren }) {
	const { capture, state, set } = app;
	const range = rangeOf(state.steps);
	return (
		<div class="controls">
			<ClassLegend />
			{children}
			<span class="space" />
			<span class="faint">{leftOut(capture, app.source.isServed)}</span>
			{!state.time && !range && (
				<span class="faint">Drag to limit every view to a range, Shift-drag to move, Ctrl-wheel to zoom.</span>
			)}
			{state.time && <button onClick={() => set({ time: null })}>Show all</button>}
			{range && (
				<button onClick={() => set({ time: [range[0] / capture.end, range[1] / capture.end] })}>
					Zoom in on range
				</button>
			)}
			{range && <button onClick={() => set({ view: "flame", zoom: null })}>Flame graph of range</button>}
			{range && (
				<button onClick={() => set({ steps: state.steps.filter((s) => s.kind !== "range") })}>Whole run</button>
			)}
		</div>
	);
}

function ThreadButton({ app, thread, height }: { app: App; thread: number; height: number }) {
	const name = threadName(app.capture, thread);
	const cpu = app.capture.threads.cpu[thread];
	const before = useMemo(
		() => (app.diff && app.state.both ? threadsBefore(app.capture, app.diff) : null),
		[app.capture, app.diff, app.state.both],
	);
	const was = before?.get(thread);
	const open = (e: MouseEvent) => {
		e.preventDefault();
		app.openMenu({ x: e.clientX, y: e.clientY, title: name, items: threadMenu(app, thread) });
	};
	const change = before && (was === undefined ? "not there before" : `${signed(cpu - was, "s")}, was ${seconds(was)}`);
	return (
		<button title={change ? `${name}: ${change}` : name} onClick={open} onContextMenu={open}>
			<span>{name}</span>
			<small>{seconds(cpu)}</small>
			{change && height >= TWO_LINES_PX && <small class="was">{change}</small>}
		</button>
	);
}

function LaneName({ app, lane, curves }: { app: App; lane: Lane; curves: Curve[] }) {
	if (lane.kind === "thread") return <ThreadButton app={app} thread={lane.index} height={lane.height} />;
	const curve = lane.kind === "curve" ? curves[lane.index] : null;
	const name = curve ? curve.name : processName(app.capture, lane.index);
	return (
		<span title={name}>
			{name}
			{curve && (
				<small>
					{curve.note && `${curve.note}, `}up to {curve.unit === "" ? count(curve.top) : curveValue(curve, curve.top)}
				</small>
			)}
		</span>
	);
}

export function TimelineView() {
	const app = useApp();
	const scroller = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const [scroll, setScroll] = useState(0);
	const span = useSpan(app);
	const size: Size = useSize(canvas, scroller);
	const contents = useContents(app, span, size, scroll);
	useDrawing(canvas, app, contents.scene, span, size, scroll);
	useTimelineKeys(app, span, scroller);
	return (
		<section class="view timeline" aria-label="Timeline">
			<Controls app={app}>
				<CountersButton lanes={contents.scene.lanes} scroller={scroller} />
			</Controls>
			<div class="lanes">
				<div class="axis">
					<div class="gutter" />
					<Ticks from={span.from} to={span.to} width={size.width} />
				</div>
				<div class="lane-scroll" ref={scroller} onScroll={(e) => setScroll(e.currentTarget.scrollTop)}>
					<div class="lane-space" style={{ height: `${Math.max(contents.height, size.height)}px` }}>
						<div class="gutter">
							{contents.visible.map((lane) => (
								<div class={`lane-name ${lane.kind}`} style={{ top: `${lane.top}px`, height: `${lane.height}px` }}>
									<LaneName app={app} lane={lane} curves={contents.scene.curves} />
								</div>
							))}
						</div>
						<TimelineCanvas canvas={canvas} contents={contents} span={span} size={size} scroll={scroll} />
					</div>
				</div>
			</div>
		</section>
	);
}
