// Everything around the views: tabs, metric, thread, search, the filter's chips, keys, help.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ViewName } from "../state/state";
import { seconds } from "../data/format";
import { useApp, type App } from "./app_context";
import { StateLink } from "./state_link";
import { stepName, threadName } from "./names";

export const VIEW_NAMES: Record<ViewName, string> = {
	summary: "Summary",
	flame: "Flame graph",
	timeline: "Timeline",
	source: "Source",
	functions: "Functions",
	graph: "Call graph",
	diff: "Diff",
	live: "Live",
};

export function availableViews(app: App): ViewName[] {
	const { capture } = app;
	const has: Record<ViewName, boolean> = {
		summary: true,
		flame: true,
		timeline: capture.samples !== null || capture.zones !== null || capture.memory.n > 0,
		source: capture.files.n > 0 || capture.lines.n > 0,
		functions: true,
		graph: true,
		diff: app.hasDiff,
		live: app.live !== null,
	};
	return (Object.keys(has) as ViewName[]).filter((v) => has[v]);
}

function Search() {
	const { state, set } = useApp();
	const box = useRef<HTMLInputElement>(null);
	useEffect(() => {
		const focus = () => {
			box.current?.focus();
			box.current?.select();
		};
		addEventListener("fathom-search", focus);
		return () => removeEventListener("fathom-search", focus);
	}, []);
	return (
		<input
			ref={box}
			class="search"
			type="search"
			placeholder="Search  (Ctrl-F)"
			aria-label="Search functions by name, file or module; a regular expression"
			value={state.search}
			onInput={(e) => set({ search: e.currentTarget.value }, true)}
			onKeyDown={(e) => {
				if (e.key === "Enter") dispatchEvent(new CustomEvent("fathom-next", { detail: e.shiftKey ? -1 : 1 }));
				else if (e.key === "Escape") {
					if (state.search) set({ search: "" }, true);
					e.currentTarget.blur();
				}
				e.stopPropagation();
			}}
		/>
	);
}

function ThreadPicker() {
	const { capture, state, set } = useApp();
	const { threads } = capture;
	if (threads.n < 2) return null;
	const order = Array.from({ length: threads.n }, (_, t) => t).sort((a, b) => threads.cpu[b] - threads.cpu[a]);
	return (
		<select
			id="thread-picker"
			aria-label="Thread"
			title="Show one thread (t; n and p for next and previous)"
			value={state.thread}
			onChange={(e) => set({ thread: Number(e.currentTarget.value), zoom: null })}
		>
			<option value={-1}>All threads</option>
			{order.slice(0, 500).map((t) => (
				<option value={t}>
					{threadName(capture, t)} · {seconds(threads.cpu[t])}
				</option>
			))}
		</select>
	);
}

function Chips() {
	const { capture, state, set, isExact, metric } = useApp();
	if (state.steps.length === 0) return null;
	const hasRange = state.steps.some((s) => s.kind === "range");
	const isRough = !isExact && hasRange && (capture.head.limits?.samples_left_out ?? 0) > 0;
	const isMemory = !isExact && hasRange && metric.column !== null;
	const isUnlimited = isMemory && capture.blocks === null;
	const step = isMemory ? Math.max(capture.blocks?.grain ?? 0, capture.head.limits?.block_step_s ?? 0) : 0;
	return (
		<div class="chips bar" role="group" aria-label="Filter">
			<span class="faint">Limited to</span>
			{state.steps.map((step, i) => (
				<button
					class="chip"
					title="Take this one away"
					onClick={() => set({ steps: state.steps.filter((_, j) => j !== i), zoom: null })}
				>
					{stepName(capture, step)} <b aria-hidden="true">×</b>
				</button>
			))}
			{isRough && <span class="faint">≈ short samples were merged to fit; a range is near, not exact</span>}
			{step > capture.end / 200 && (
				<span class="faint">≈ this page knows the memory of a range in steps of {seconds(step)}</span>
			)}
			{isUnlimited && <span class="faint">memory is that of the whole run: this capture has no times for it</span>}
			<button class="plain" onClick={() => set({ steps: state.steps.slice(0, -1), zoom: null })}>
				Undo last
			</button>
			{state.steps.length > 1 && (
				<button class="plain" onClick={() => set({ steps: [], zoom: null })}>
					Reset
				</button>
			)}
		</div>
	);
}

export function Shell({
	children,
	onTheme,
	onHelp,
	isLive,
	isStale,
}: {
	children: ComponentChildren;
	onTheme: () => void;
	onHelp: () => void;
	isLive: boolean;
	isStale: boolean;
}) {
	const app = useApp();
	const { state, set, metrics, metric, theme } = app;
	const isAboutTotals = state.view !== "live" || app.live === null; // what runs now is not filtered
	return (
		<>
			<header class={isLive ? "top is-live" : "top"}>
				<span class="brand" aria-hidden="true">
					fathom
				</span>
				<nav aria-label="Views">
					{availableViews(app).map((view) => (
						<StateLink patch={{ view }} class="tab" aria-current={state.view === view ? "page" : undefined}>
							{VIEW_NAMES[view]}
						</StateLink>
					))}
				</nav>
				<span class="space" />
				{isLive && (
					<span class={isStale ? "live stale" : "live"} role="status">
						live
					</span>
				)}
				{isAboutTotals && <ThreadPicker />}
				{isAboutTotals && metrics.length > 1 && (
					<select
						aria-label="Metric"
						title="What is counted"
						value={metric.id}
						onChange={(e) => set({ metric: e.currentTarget.value, zoom: null })}
					>
						{metrics.map((m) => (
							<option value={m.id}>{m.label}</option>
						))}
					</select>
				)}
				{isAboutTotals && <Search />}
				<button
					class="icon"
					onClick={onTheme}
					aria-label={theme === "light" ? "Dark colours" : "Light colours"}
					title={theme === "light" ? "Dark colours" : "Light colours"}
				>
					<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
						{theme === "light" ? (
							<path d="M6 1a7 7 0 1 0 9 9A6 6 0 0 1 6 1z" />
						) : (
							<>
								<circle cx="8" cy="8" r="3.5" />
								<path
									d="M8 0v2.4M8 13.6V16M0 8h2.4M13.6 8H16M2.3 2.3l1.7 1.7M12 12l1.7 1.7M2.3 13.7L4 12M12 4l1.7-1.7"
									stroke="currentColor"
									stroke-width="1.5"
								/>
							</>
						)}
					</svg>
				</button>
				<button class="icon" onClick={onHelp} aria-label="Help and keys" title="Help and keys (?)">
					?
				</button>
			</header>
			<Chips />
			<main>{children}</main>
		</>
	);
}

const KEYS: [string, string][] = [
	["1  2  3", "time order, left heavy, sandwich"],
	["w  s  or  +  −", "zoom in, out"],
	["a  d  or  ←  →", "move left, right"],
	["↑  ↓", "scroll"],
	["0", "show all"],
	["r", "collapse recursion"],
	["n  p", "next, previous thread"],
	["t", "choose a thread"],
	["Ctrl-F  or  /", "search; Enter and Shift-Enter go to the next and previous match"],
	["u", "undo the last filter"],
	["g then s f t o n c d l", "go to Summary, Flame graph, Timeline, sOurce, fuNctions, Call graph, Diff, Live"],
	["Space", "in Live: hold the picture, follow again"],
	["Esc", "close"],
	["?", "this list"],
];

export function Help({ close }: { close: () => void }) {
	const dialog = useRef<HTMLDialogElement>(null);
	useEffect(() => dialog.current?.showModal(), []);
	return (
		<dialog
			ref={dialog}
			class="help"
			onClose={close}
			onClick={(e) => e.target === e.currentTarget && close()}
			aria-label="Help"
		>
			<div>
				<h2>Keys</h2>
				<table class="table slim">
					<tbody>
						{KEYS.map(([keys, what]) => (
							<tr>
								<td>
									<kbd>{keys}</kbd>
								</td>
								<td>{what}</td>
							</tr>
						))}
					</tbody>
				</table>
				<h2>Mouse</h2>
				<p>
					Drag a flame graph to move it, double-click a frame to zoom to it, right-click for what can be done with it.
					Wheel scrolls, Ctrl-wheel zooms. In the timeline, drag over a range to limit every view to it.
				</p>
				<h2>Numbers</h2>
				<p>
					Self is what ends in a function itself, total is with all it calls. CPU time is sampled; ± is the half-width
					of its 95% interval. Every view is a link: copy the address to come back to it.
				</p>
				<button onClick={close}>Close</button>
			</div>
		</dialog>
	);
}

const GO: Record<string, ViewName> = {
	s: "summary",
	f: "flame",
	t: "timeline",
	o: "source",
	n: "functions",
	c: "graph",
	d: "diff",
	l: "live",
};

// Keys that work wherever the focus is, unless it is where one types.
export function useKeys(app: App, openHelp: () => void): void {
	const latest = useRef(app);
	latest.current = app;
	const [, setGoing] = useState(false);
	const going = useRef(false);
	useEffect(() => {
		const onKey = (e: KeyboardEvent) => {
			const { state, set, capture } = latest.current;
			if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "f") {
				e.preventDefault();
				dispatchEvent(new Event("fathom-search"));
				return;
			}
			const target = e.target as HTMLElement;
			if (
				e.ctrlKey ||
				e.metaKey ||
				e.altKey ||
				/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) ||
				target.closest("dialog, .menu")
			)
				return;
			if (going.current) {
				going.current = false;
				const view = GO[e.key];
				if (view && availableViews(latest.current).includes(view)) set({ view });
				e.preventDefault();
				return;
			}
			const step = (by: number) => {
				const order = Array.from({ length: capture.threads.n }, (_, t) => t).sort(
					(a, b) => capture.threads.cpu[b] - capture.threads.cpu[a],
				);
				if (order.length === 0) return;
				const at = order.indexOf(state.thread);
				set({ thread: order[(at + by + order.length + (at < 0 && by < 0 ? 1 : 0)) % order.length], zoom: null });
			};
			switch (e.key) {
				case "1":
					set({ view: "flame", mode: "time", zoom: null });
					break;
				case "2":
					set({ view: "flame", mode: "left", zoom: null });
					break;
				case "3":
					set({ view: "flame", mode: "sandwich", zoom: null });
					break;
				case "r":
					set({ recursion: !state.recursion, zoom: null });
					break;
				case "n":
					step(1);
					break;
				case "p":
					step(-1);
					break;
				case "t":
					document.getElementById("thread-picker")?.focus();
					break;
				case "/":
					dispatchEvent(new Event("fathom-search"));
					break;
				case "u":
					if (state.steps.length > 0) set({ steps: state.steps.slice(0, -1), zoom: null });
					break;
				case "g":
					going.current = true;
					setGoing(true);
					break;
				case "?":
					openHelp();
					break;
				default:
					// Enter and arrows belong to the focused row or button.
					if (/^(w|a|s|d|0|\+|-|=|Arrow.*)$/.test(e.key) && !target.closest("tr, button, .code, .table-box")) {
						dispatchEvent(new CustomEvent("fathom-key", { detail: e }));
						if (state.view === "flame" || state.view === "timeline") e.preventDefault();
					}
					return;
			}
			e.preventDefault();
		};
		addEventListener("keydown", onKey);
		return () => removeEventListener("keydown", onKey);
	}, []);
}
