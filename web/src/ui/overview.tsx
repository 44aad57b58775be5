// SPDX-License-Identifier: Apache-2.0
// The run above every view: what is counted over time. Dragging over it limits all views to a range, at once; the range can be moved and
// its ends dragged, with keys as well. What the view below has in sight, and bookmarks, are marked.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { busiestThread, lifeOf } from "../data/clock";
import { COLUMNS, outlineOf, overviewOf } from "../data/overview";
import { rangeOf } from "../data/filter";
import { bytes, seconds } from "../data/format";
import { wholeOf } from "../data/weights";
import { classColour, css } from "../draw/colour";
import { readHash } from "../state/state";
import { useApp, type App } from "./app_context";
import { Ticks } from "./axis";
import { useWidth } from "./width";

type Range = [number, number];

const HEIGHT = 40;
const LEAST_DRAG_PX = 3;
const LEAST_SHARE = 1e-4; // of the run, by keys
const STEP = 0.01;
const SLOW_MS = 250; // a view that takes longer follows when the hand is still

// What is asked for more often than the views can follow waits: the last word counts.
function useFollowing(app: App): (range: Range | null, isLast: boolean) => void {
	const { state, set } = app;
	const latest = useRef({ state, set });
	latest.current = { state, set };
	const pace = useRef({ timer: 0, at: 0, cost: 0, isOn: false });
	useEffect(() => () => clearTimeout(pace.current.timer), []);
	const apply = (range: Range | null, isLast: boolean) => {
		const others = latest.current.state.steps.filter((s) => s.kind !== "range");
		const steps = range ? [...others, { kind: "range" as const, from: range[0], to: range[1] }] : others;
		const began = performance.now();
		latest.current.set({ steps, zoom: null, frame: -1 }, pace.current.isOn ? "goes on" : !isLast);
		pace.current.isOn = !isLast;
		pace.current.at = began;
		requestAnimationFrame(() => setTimeout(() => (pace.current.cost = performance.now() - began)));
	};
	return (range, isLast) => {
		const p = pace.current;
		clearTimeout(p.timer);
		if (isLast) return apply(range, true);
		if (p.cost > SLOW_MS) return undefined;
		const wait = p.at + 2 * p.cost - performance.now();
		p.timer = window.setTimeout(() => apply(range, false), Math.max(0, wait));
		return undefined;
	};
}

interface Drag {
	kind: "new" | "move" | "from" | "to";
	x: number;
	range: Range;
	isMoved: boolean;
}

function useRangeDrag(app: App, range: Range | null, end: number) {
	const follow = useFollowing(app);
	const [shown, setShown] = useState<Range | null>(null);
	const drag = useRef<Drag | null>(null);
	const boxOf = (e: PointerEvent) => (e.currentTarget as HTMLElement).getBoundingClientRect();
	const timeAt = (e: PointerEvent) => {
		const box = boxOf(e);
		return Math.max(0, Math.min(end, ((e.clientX - box.left) / box.width) * end));
	};
	const begin = (e: PointerEvent) => {
		if (e.button !== 0) return;
		const kind = (e.target as HTMLElement).dataset.part as Drag["kind"] | undefined;
		(e.currentTarget as HTMLElement).setPointerCapture(e.pointerId);
		const at = timeAt(e);
		drag.current = { kind: kind ?? "new", x: e.clientX, range: kind && range ? range : [at, at], isMoved: false };
	};
	const move = (e: PointerEvent) => {
		const d = drag.current;
		if (!d) return;
		if (Math.abs(e.clientX - d.x) > LEAST_DRAG_PX) d.isMoved = true;
		if (!d.isMoved) return;
		const by = ((e.clientX - d.x) / boxOf(e).width) * end;
		const [a, b] = d.range;
		const length = b - a;
		const start = Math.max(0, Math.min(end - length, a + by));
		const at = timeAt(e);
		const next: Range =
			d.kind === "move"
				? [start, start + length]
				: d.kind === "from"
					? [Math.min(at, b), Math.max(at, b)]
					: [Math.min(a, at), Math.max(a, at)];
		if (!(next[1] > next[0])) return;
		setShown(next);
		follow(next, false);
	};
	const finish = () => {
		const d = drag.current;
		drag.current = null;
		if (d?.isMoved && shown) {
			follow(shown, true);
			app.say(`Limited to ${seconds(shown[0])} to ${seconds(shown[1])}`, true);
		} else if (d?.kind === "new" && !d.isMoved && range) follow(null, true);
		setShown(null);
	};
	return { shown, begin, move, finish };
}

interface HandleProps {
	app: App;
	side: "from" | "to";
	range: Range | null;
	end: number;
}

// One end of the range: a slider for keys and screen readers.
function Handle({ app, side, range, end }: HandleProps) {
	const now: Range = range ?? [0, end];
	const value = side === "from" ? now[0] : now[1];
	const change = (to: number) => {
		const least = end * LEAST_SHARE;
		const next: Range =
			side === "from"
				? [Math.max(0, Math.min(to, now[1] - least)), now[1]]
				: [now[0], Math.min(end, Math.max(to, now[0] + least))];
		const others = app.state.steps.filter((s) => s.kind !== "range");
		const isWhole = next[0] <= 0 && next[1] >= end;
		const steps = isWhole ? others : [...others, { kind: "range" as const, from: next[0], to: next[1] }];
		app.set({ steps, zoom: null, frame: -1 }, true);
	};
	const onKey = (e: KeyboardEvent) => {
		const by = end * STEP * (e.shiftKey ? 10 : 1);
		if (e.key === "ArrowLeft" || e.key === "ArrowDown") change(value - by);
		else if (e.key === "ArrowRight" || e.key === "ArrowUp") change(value + by);
		else if (e.key === "PageDown") change(value - 10 * by);
		else if (e.key === "PageUp") change(value + 10 * by);
		else if (e.key === "Home") change(0);
		else if (e.key === "End") change(end);
		else if ((e.key === "Escape" || e.key === "Delete") && range)
			app.set({ steps: app.state.steps.filter((s) => s.kind !== "range"), zoom: null });
		else return;
		e.preventDefault();
		e.stopPropagation();
	};
	return (
		<div
			class={`handle ${side}`}
			data-part={range ? side : undefined}
			role="slider"
			tabIndex={0}
			aria-label={side === "from" ? "Begin of the range" : "End of the range"}
			aria-valuemin={0}
			aria-valuemax={+end.toPrecision(6)}
			aria-valuenow={+value.toPrecision(6)}
			aria-valuetext={seconds(value)}
			style={{ left: `${(100 * value) / end}%` }}
			onKeyDown={onKey}
		/>
	);
}

// The part of the run that the view below has in sight, where it shows time from left to right.
function sightOf(app: App): Range | null {
	const { state, first } = app;
	if (state.view === "timeline" && state.time) return [state.time[0] * first.end, state.time[1] * first.end];
	if (state.view !== "flame" || state.mode !== "time" || !first.samples || app.metric.column) return null;
	const [from, to] = rangeOf(state.steps) ?? lifeOf(first, busiestThread(first, state.thread));
	const zoom = state.zoom ?? [0, 1];
	return [from + zoom[0] * (to - from), from + zoom[1] * (to - from)];
}

function Flags({ app, end }: { app: App; end: number }) {
	const places = useMemo(
		() => app.state.kept.map((b) => ({ ...b, state: readHash(b.place), range: rangeOf(readHash(b.place).steps) })),
		[app.state.kept],
	);
	return (
		<>
			{places.map(
				(b) =>
					b.range && (
						<button
							class="flag"
							style={{ left: `${(100 * b.range[0]) / end}%`, width: `${(100 * (b.range[1] - b.range[0])) / end}%` }}
							title={[b.name, b.note].filter(Boolean).join("\n")}
							onPointerDown={(e) => e.stopPropagation()}
							onClick={() => app.go(b.state)}
						>
							{b.name}
						</button>
					),
			)}
		</>
	);
}

export function Overview() {
	const app = useApp();
	const { first, metric, state, theme } = app;
	const { end } = first;
	const steps = app.filter.filter((s) => s.kind !== "range");
	const overview = useMemo(() => overviewOf(first, metric, steps), [first, metric.id, JSON.stringify(steps)]);
	const outlines = useMemo(() => overview?.layers.map((_, i) => outlineOf(overview, i, HEIGHT)) ?? [], [overview]);
	const range = rangeOf(state.steps);
	const drag = useRangeDrag(app, range, end);
	const { box, width } = useWidth();
	const now = drag.shown ?? range;
	const sight = sightOf(app);
	const x = (t: number) => `${(100 * Math.max(0, Math.min(end, t))) / end}%`;
	const name = metric.column ? "Memory" : metric.label;
	const sum = useMemo(() => (metric.column ? 0 : wholeOf(first, metric, steps)), [overview]);
	const some = metric.column ? `up to ${bytes(overview?.top ?? 0)}` : range ? `of ${seconds(sum)}` : seconds(sum);
	const said = `${name} over the run, ${some}${overview ? `, most at ${seconds(overview.at)}` : ""}`;
	return (
		<div class="overview" role="group" aria-label="The run">
			<div class="gutter">
				<b>{name}</b>
				<small>
					{range && !metric.column && `${seconds(app.whole)} `}
					{some}
				</small>
			</div>
			<div
				class="track"
				ref={box}
				title={now ? undefined : "Drag to limit every view to a range"}
				onPointerDown={drag.begin}
				onPointerMove={drag.move}
				onPointerUp={drag.finish}
				onPointerCancel={drag.finish}
			>
				<svg viewBox={`0 0 ${COLUMNS} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={said}>
					{outlines.map((d, i) => {
						const { cls } = overview?.layers[i] ?? { cls: -1 };
						return <path d={d} class="layer" style={cls < 0 ? {} : { fill: css(classColour(cls, theme)) }} />;
					})}
				</svg>
				<Ticks from={0} to={end} width={width} />
				{sight && <div class="sight" style={{ left: x(sight[0]), width: x(sight[1] - sight[0]) }} />}
				{now && <div class="out" style={{ left: 0, width: x(now[0]) }} />}
				{now && <div class="out" style={{ left: x(now[1]), right: 0 }} />}
				{now && (
					<div class="kept-range" data-part="move" style={{ left: x(now[0]), width: x(now[1] - now[0]) }}>
						<span>{seconds(now[1] - now[0])}</span>
					</div>
				)}
				<Handle app={app} side="from" range={now} end={end} />
				<Handle app={app} side="to" range={now} end={end} />
				<Flags app={app} end={end} />
			</div>
		</div>
	);
}
