// SPDX-License-Identifier: Apache-2.0
// Flame graph: left heavy, in the order of time, or a sandwich of one function's callers and callees.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { FLAG_PLUMBING } from "../data/capture";
import { busiestThread } from "../data/clock";
import type { App } from "../ui/app_context";
import { useApp } from "../ui/app_context";
import { amount, share } from "../data/format";
import type { FlameChart } from "../draw/flame_chart";
import { Ticks } from "../ui/axis";
import { FlameCanvas } from "../ui/flame_canvas";
import { useWidth } from "../ui/width";
import { functionMenu, hideFunction } from "../ui/function_menu";
import { functionName, functionPlace, moduleName, nodeName, threadName } from "../ui/names";
import { ClassLegend } from "../ui/bars";
import { useFlame, useSandwich, type FlameData } from "./flame_data";
import { FunctionList } from "./function_list";
import type { Colour, Mode } from "../state/state";

const MODE_NAMES: Record<Mode, string> = { time: "Time order", left: "Left heavy", sandwich: "Sandwich" };

function Toggle({
	label,
	hint,
	isOn,
	onChange,
}: {
	label: string;
	hint: string;
	isOn: boolean;
	onChange: (on: boolean) => void;
}) {
	return (
		<label class="toggle" title={hint}>
			<input type="checkbox" checked={isOn} onChange={(e) => onChange(e.currentTarget.checked)} /> {label}
		</label>
	);
}

function Controls({ app, matches }: { app: App; matches: FlameData["matches"] }) {
	const { state, set, capture } = app;
	const hasTime = capture.samples !== null && !app.metric.column;
	const hasPlumbing = useMemo(() => capture.functions.flags.some((f) => (f & FLAG_PLUMBING) !== 0), [capture]);
	return (
		<div class="controls" role="toolbar" aria-label="Flame graph">
			<div class="segments" role="group" aria-label="Order">
				{(["time", "left", "sandwich"] as const).map((mode, i) => (
					<button
						aria-pressed={state.mode === mode}
						disabled={mode === "time" && !hasTime}
						title={`${MODE_NAMES[mode]} (${i + 1})`}
						onClick={() => set({ mode, zoom: null })}
					>
						{MODE_NAMES[mode]}
					</button>
				))}
			</div>
			<div class="segments" role="group" aria-label="Direction">
				<button aria-pressed={!state.up} title="Root at the top" onClick={() => set({ up: false })}>
					Icicle
				</button>
				<button aria-pressed={state.up} title="Root at the bottom" onClick={() => set({ up: true })}>
					Flame
				</button>
			</div>
			<label class="field">
				Colour{" "}
				<select value={state.colour} onChange={(e) => set({ colour: e.currentTarget.value as Colour })}>
					<option value="module">by module</option>
					<option value="class">by kind of time</option>
					{app.diff && <option value="change">by change</option>}
				</select>
			</label>
			<Toggle
				label="Only my code"
				hint="Libraries and native code give their time to the line of yours that called them"
				isOn={state.mine}
				onChange={(mine) => set({ mine, zoom: null })}
			/>
			<Toggle
				label="Fold libraries"
				hint="Each library is one frame"
				isOn={state.fold}
				onChange={(fold) => set({ fold, zoom: null })}
			/>
			<Toggle
				label="Collapse recursion"
				hint="A function that calls itself is one frame (r)"
				isOn={state.recursion}
				onChange={(recursion) => set({ recursion, zoom: null })}
			/>
			<Toggle
				label="Lines"
				hint="A frame for each line that calls, not each function"
				isOn={state.byLine}
				onChange={(byLine) => set({ byLine, zoom: null })}
			/>
			{hasPlumbing && (
				<Toggle
					label="Interpreter"
					hint="Show the interpreter's own frames"
					isOn={state.plumbing}
					onChange={(plumbing) => set({ plumbing, zoom: null })}
				/>
			)}
			{matches && (
				<span class="found" role="status">
					{share(matches.weight, app.whole)} in {matches.count} frames match
				</span>
			)}
		</div>
	);
}

// Where an option hides or focuses, it says so and can be taken back.
function Notes({ app, data }: { app: App; data: FlameData }) {
	const { state, set, capture } = app;
	const limits = capture.head.limits;
	return (
		<>
			{(state.focus >= 0 || state.hidden.length > 0) && (
				<div class="chips">
					{state.focus >= 0 && state.focus < capture.functions.n && (
						<button class="chip" onClick={() => set({ focus: -1, zoom: null })} title="Show everything again">
							focus: {functionName(capture, state.focus)} <b aria-hidden="true">×</b>
						</button>
					)}
					{state.hidden
						.filter((f) => f < capture.functions.n)
						.map((f) => (
							<button
								class="chip"
								onClick={() => set({ hidden: state.hidden.filter((h) => h !== f), zoom: null })}
								title="Show it again"
							>
								hidden: {functionName(capture, f)} <b aria-hidden="true">×</b>
							</button>
						))}
				</div>
			)}
			{(limits?.nodes_left_out ?? 0) > 0 && (
				<p class="note">
					{limits?.nodes_left_out} of the lightest frames are folded into their callers; every total is whole.
				</p>
			)}
			{data.layout.leftOut > 0 && (
				<p class="note">{data.layout.leftOut} short frames did not fit; limit the range in the timeline to see them.</p>
			)}
		</>
	);
}

function Actions({ app, fn, line }: { app: App; fn: number; line: number }) {
	const { capture, set } = app;
	return (
		<div class="actions">
			<button onClick={() => set({ focus: fn, zoom: null, mode: app.state.mode === "time" ? "time" : "left" })}>
				Focus
			</button>
			<button onClick={() => set({ mode: "sandwich", fn, zoom: null })}>Callers</button>
			<button onClick={() => hideFunction(app, fn)}>Hide</button>
			{capture.functions.kind[fn] === 1 && (
				<button
					onClick={() =>
						set({
							view: "source",
							file: capture.functions.file[fn],
							line: line || capture.functions.line[fn],
							fn,
						})
					}
				>
					Source
				</button>
			)}
			<button
				aria-haspopup="menu"
				onClick={(e) =>
					app.openMenu({
						x: e.clientX,
						y: e.clientY,
						title: functionName(capture, fn),
						items: functionMenu(app, fn),
					})
				}
			>
				More…
			</button>
		</div>
	);
}

function Details({ app, data, node }: { app: App; data: FlameData; node: number }) {
	const { capture, metric, whole } = app;
	const { tree } = data;
	if (node < 0 || node >= tree.n) {
		return (
			<div class="details empty">
				Hover for numbers, click to keep a frame, double-click to zoom, right-click for what can be done with it. Wheel
				scrolls, Ctrl-wheel zooms, <kbd>0</kbd> shows all, <kbd>?</kbd> lists the keys.
			</div>
		);
	}
	const total = tree.total[node];
	const fn = tree.fn[node];
	const base = tree.base?.[node];
	return (
		<div class="details">
			<div class="details-name">
				<b>{nodeName(capture, tree, node, app.state.byLine)}</b>
				{node > 0 && tree.module[node] < 0 && (
					<span>
						{" "}
						{functionPlace(capture, fn)}
						{tree.line[node] > 0 && capture.functions.kind[fn] === 1 ? `, at line ${tree.line[node]}` : ""}{" "}
						<small>{moduleName(capture, fn)}</small>
					</span>
				)}
			</div>
			<dl>
				<div>
					<dt>Total</dt>
					<dd>
						{amount(total, metric.unit)} <small>{share(total, whole)}</small>
					</dd>
				</div>
				<div>
					<dt>Self</dt>
					<dd>
						{amount(Math.max(0, tree.self[node]), metric.unit)}{" "}
						<small>{share(Math.max(0, tree.self[node]), whole)}</small>
					</dd>
				</div>
				{base !== undefined && (
					<div>
						<dt>Before</dt>
						<dd>
							{amount(base, metric.unit)}{" "}
							<small>
								{total >= base ? "+" : "−"}
								{amount(Math.abs(total - base), metric.unit)}
							</small>
						</dd>
					</div>
				)}
			</dl>
			{node > 0 && <Actions app={app} fn={fn} line={tree.line[node]} />}
		</div>
	);
}

function Single({ app }: { app: App }) {
	const { state, set, capture } = app;
	const data = useFlame(app);
	const selected = state.frame < data.tree.n ? state.frame : -1;
	const setSelected = (frame: number) => set({ frame });
	const [hovered, setHovered] = useState(-1);
	const chart = useRef<FlameChart | null>(null);
	useEffect(() => setHovered(-1), [data.tree]);
	useEffect(() => {
		const onKey = (e: Event) => chart.current?.key((e as CustomEvent<KeyboardEvent>).detail);
		const onNext = (e: Event) => {
			// The next frame that matches, in the order of the screen.
			const mask = data.matches?.mask;
			if (!mask) return;
			const nodes = data.layout.node;
			const hits: number[] = [];
			for (let i = 0; i < nodes.length && hits.length < 5000; i++) if (mask[nodes[i]]) hits.push(nodes[i]);
			if (hits.length === 0) return;
			const at = hits.indexOf(selected);
			const next =
				hits[(at + ((e as CustomEvent<number>).detail > 0 ? 1 : hits.length - (at < 0 ? 0 : 1))) % hits.length];
			setSelected(next);
			chart.current?.zoomToNode(next);
		};
		addEventListener("fathom-key", onKey);
		addEventListener("fathom-next", onNext);
		return () => {
			removeEventListener("fathom-key", onKey);
			removeEventListener("fathom-next", onNext);
		};
	}, [data, selected]);
	const isTimed = state.mode === "time" && capture.samples !== null && !app.metric.column;
	const current = selected >= 0 ? selected : hovered;
	return (
		<>
			<Controls app={app} matches={data.matches} />
			<Notes app={app} data={data} />
			{state.colour === "class" && <ClassLegend />}
			{data.tree.base && (
				<p class="note">
					Orange takes more than before, blue less, grey the same. A frame is as wide as the larger of the two, so that
					what is gone shows.
				</p>
			)}
			{isTimed && (
				<p class="note">
					{threadName(capture, busiestThread(capture, state.thread))}, as it ran. <kbd>n</kbd> and <kbd>p</kbd> go to
					the next and previous thread.
				</p>
			)}
			{isTimed && <TimeAxis layout={data.layout} zoom={state.zoom} />}
			{data.tree.total[0] > 0 || data.tree.base ? (
				<FlameCanvas
					data={data}
					label={`Flame graph of ${app.metric.label}`}
					isUp={state.up}
					selected={selected}
					keepsZoom
					onSelect={(node) => setSelected(node === selected ? -1 : node)}
					onWalk={(frame) => set({ frame }, true)}
					onHover={setHovered}
					chartRef={(c) => (chart.current = c)}
				/>
			) : (
				<p class="nothing">
					Nothing of {app.metric.label.toLowerCase()} is left by the filter.{" "}
					<button onClick={() => set({ steps: [], focus: -1, hidden: [], thread: -1 })}>Show everything</button>
				</p>
			)}
			<Details app={app} data={data} node={hovered >= 0 ? hovered : current} />
		</>
	);
}

function TimeAxis({ layout: { from, to }, zoom }: { layout: FlameData["layout"]; zoom: [number, number] | null }) {
	const { box, width } = useWidth();
	const [a, b] = zoom ?? [0, 1];
	return (
		<div class="time-axis" ref={box}>
			<Ticks from={from + a * (to - from)} to={from + b * (to - from)} width={width} />
		</div>
	);
}

function SandwichCharts({ app, fn }: { app: App; fn: number }) {
	const { callers, callees } = useSandwich(app, fn);
	const [at, setAt] = useState<{ which: FlameData; node: number } | null>(null);
	useEffect(() => setAt(null), [fn]);
	const pick = (which: FlameData) => (node: number) => {
		if (node > 0) setAt({ which, node });
	};
	const go = (which: FlameData) => (node: number) => {
		if (node > 0 && which.tree.fn[node] !== fn) app.set({ fn: which.tree.fn[node] });
	};
	if (!(callees.tree.total[0] > 0) && !((callees.tree.base?.[0] ?? 0) > 0))
		return (
			<p class="nothing">
				{functionName(app.capture, fn)} has nothing of what is counted ({app.metric.label}). Choose another function, or
				count something else.
			</p>
		);
	const current = at && (at.which.tree === callers.tree || at.which.tree === callees.tree) ? at : null;
	return (
		<div class="sandwich-charts">
			<div class="half">
				<h3>Callers</h3>
				<FlameCanvas
					data={callers}
					label="Callers"
					isUp={true}
					selected={-1}
					onSelect={go(callers)}
					onHover={pick(callers)}
				/>
			</div>
			<div class="half">
				<h3>Callees</h3>
				<FlameCanvas
					data={callees}
					label="Callees"
					isUp={false}
					selected={-1}
					onSelect={go(callees)}
					onHover={pick(callees)}
				/>
			</div>
			<Details app={app} data={current?.which ?? callees} node={current?.node ?? 1} />
		</div>
	);
}

function Sandwich({ app }: { app: App }) {
	const { state, capture } = app;
	const fn = state.fn >= 0 && state.fn < capture.functions.n ? state.fn : -1;
	return (
		<>
			<Controls app={app} matches={null} />
			<div class="sandwich">
				<div class="sandwich-list">
					<FunctionList isNarrow />
				</div>
				{fn >= 0 ? (
					<SandwichCharts app={app} fn={fn} />
				) : (
					<p class="nothing">Choose a function to see who calls it and what it calls.</p>
				)}
			</div>
		</>
	);
}

export function FlameView() {
	const app = useApp();
	return (
		<section class="view flame" aria-label="Flame graph">
			{app.state.mode === "sandwich" ? <Sandwich app={app} /> : <Single app={app} />}
		</section>
	);
}
