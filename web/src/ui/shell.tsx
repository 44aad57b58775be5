// SPDX-License-Identifier: Apache-2.0
// Everything around the views: tabs, metric, thread, search, the filter's chips, keys, help.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Step } from "../data/filter";
import { amount, seconds } from "../data/format";
import { matcherOf, matchingFunctions } from "../data/search";
import { useApp } from "./app_context";
import { bookmarkMenu, nameOfRange } from "./bookmarks";
import { StateLink } from "./state_link";
import { stepName, threadName } from "./names";
import { Overview } from "./overview";
import { availableViews, canCompare, hasOverview, hasSearch, VIEW_NAMES } from "./view_list";

// Of functions; other views say themselves what they found.
function useHits(): number | null {
	const { capture, state } = useApp();
	return useMemo(() => {
		const isOwn = ["tree", "source", "assembly", "diff", "zones"].includes(state.view);
		const matcher = isOwn ? null : matcherOf(state.search);
		return matcher ? matchingFunctions(capture, matcher).reduce((n, hit) => n + hit, 0) : null;
	}, [capture, state.search, state.view]);
}

function Search() {
	const { state, set } = useApp();
	const hits = useHits();
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
		<span class="search-box">
			<input
				ref={box}
				class="search"
				type="search"
				placeholder="Search"
				title="Ctrl-F or /"
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
			{hits === 0 && (
				<span class="no-hit" role="status">
					nothing matches
				</span>
			)}
		</span>
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
	const app = useApp();
	const { capture, state, set, isExact, metric } = app;
	if (state.steps.length === 0) return null;
	const hasRange = state.steps.some((s) => s.kind === "range");
	const isRough = !isExact && hasRange && (capture.head.limits?.samples_left_out ?? 0) > 0;
	const isMemory = !isExact && hasRange && metric.column !== null;
	const isUnlimited = isMemory && capture.blocks === null;
	const named = (s: Step) => {
		const name = s.kind === "range" ? nameOfRange(state.kept, [s.from, s.to]) : "";
		return name && <b class="chip-name">{name}</b>;
	};
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
					{named(step)}
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
			<button class="plain" title="Keep this place as a bookmark (b)" onClick={() => app.keep()}>
				Name it…
			</button>
			{state.steps.length > 1 && (
				<button class="plain" onClick={() => set({ steps: [], zoom: null })}>
					Reset
				</button>
			)}
		</div>
	);
}

function BookmarkButton() {
	const app = useApp();
	const n = app.state.kept.length;
	return (
		<button
			class="icon"
			aria-haspopup="menu"
			aria-label={n > 0 ? `Bookmarks, ${n}` : "Bookmarks"}
			title="Bookmarks (b keeps this place)"
			onClick={(e) => {
				const box = e.currentTarget.getBoundingClientRect();
				app.openMenu({ x: box.left, y: box.bottom + 4, title: "Bookmarks", items: bookmarkMenu(app) });
			}}
		>
			<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" class={n > 0 ? undefined : "hollow"}>
				<path d="M4 1.5h8v13L8 11l-4 3.5z" stroke="currentColor" stroke-width="1.4" />
			</svg>
		</button>
	);
}

function ThemeButton({ onTheme }: { onTheme: () => void }) {
	const { theme } = useApp();
	return (
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
	const { state, set, metrics, metric } = app;
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
				<div class="tools">
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
					{isAboutTotals && app.whole > 0 && (
						<span class="whole" title={`Percentages are shares of this: all ${metric.label} that the filter leaves`}>
							100% = {amount(app.whole, metric.unit)}
						</span>
					)}
					{canCompare(app) && (
						<label class="toggle" title="Before and after, beside each other">
							<input type="checkbox" checked={state.both} onChange={(e) => set({ both: e.currentTarget.checked })} />{" "}
							Compare
						</label>
					)}
					{isAboutTotals && hasSearch(app) && <Search />}
					<BookmarkButton />
					<ThemeButton onTheme={onTheme} />
					<button class="icon" onClick={onHelp} aria-label="Help and keys" title="Help and keys (?)">
						?
					</button>
				</div>
			</header>
			{hasOverview(app) && <Overview />}
			<Chips />
			<main>{children}</main>
		</>
	);
}
