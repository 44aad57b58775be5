// SPDX-License-Identifier: Apache-2.0
// The call tree of your code: what calls what with packages and imports folded, or upside down where time ends and who called it. The
// figures are those of `fathom report --tree`; with two captures each row says what it was before.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Capture } from "../data/capture";
import { idleWaits, mainThread } from "../data/clock";
import { CLASS_GIL_WAIT, CLASS_WAIT } from "../data/classes";
import { amount, count, seconds, share } from "../data/format";
import { cpuOf, linesOf, type LineRow } from "../data/lines";
import { rangeOf, type Step } from "../data/filter";
import { looksByNode } from "../data/intervals";
import { metricById, type Metric } from "../data/metrics";
import { overTime, partsOf } from "../data/over_time";
import {
	hottestPath,
	OPEN_ALL,
	readToggles,
	shownRows,
	writeToggles,
	type Figures,
	type Shown,
	type Sure,
} from "../data/own_rows";
import {
	OWN_FUNCTION,
	OWN_ELSEWHERE,
	OWN_IMPORTS,
	OWN_PACKAGE,
	OWN_START,
	ownTree,
	ownWeights,
	type OwnRow,
	type OwnTree,
	type OwnWeights,
} from "../data/own_tree";
import { matcherOf, matchingFunctions } from "../data/search";
import { sourceLine } from "../data/source_lines";
import { selfWeights } from "../data/weights";
import { useApp, type App } from "../ui/app_context";
import { Meter, Sparkline } from "../ui/bars";
import { Change, percentChange } from "../ui/change";
import { functionMenu } from "../ui/function_menu";
import { bodyName, functionPlace } from "../ui/names";
import { StateLink } from "../ui/state_link";
import { Verdicts } from "./verdicts";

const MUCH_WAITING = 0.05; // of the run: below it the column says nothing
const WORTH_TEXT = 0.02; // of the whole: a line that takes as much is shown
const MOST_OPENED = 100; // rows by one key

function nameOf(capture: Capture, row: OwnRow): string {
	if (row.kind === OWN_IMPORTS) return "(imports)";
	if (row.kind === OWN_START) return "(Python's own start and end)";
	if (row.kind === OWN_ELSEWHERE) return "(elsewhere)";
	return row.kind === OWN_PACKAGE ? capture.strings.get(row.id) : bodyName(capture, row.id);
}

// How sure the changes of rows are.
function sureOf(capture: Capture, tree: OwnTree, steps: readonly Step[]): Sure | null {
	const { sampled: now, base_sampled: base } = capture.head;
	const { looks } = capture.cells;
	if (!looks || !now || !base) return null;
	const byNode = looksByNode(capture, looks, steps);
	const [n, baseN, sq, baseSq] = [byNode.n, byNode.baseN, byNode.sq, byNode.baseSq].map((v) => ownWeights(tree, v));
	const pick = (part: keyof OwnWeights) => ({ n: n[part], baseN: baseN[part], sq: sq[part], baseSq: baseSq[part] });
	return { self: pick("self"), total: pick("total"), now, base };
}

// What pools that had nothing to do add to waiting. Whoever queues in the user's code does not idle, and where somebody chose threads,
// they meant these.
function idleOf(app: App, tree: OwnTree): OwnWeights | null {
	const { capture, metric, steps, filter, first } = app;
	const isWaiting = metric.column === null && metric.classes.some((c) => c === CLASS_WAIT || c === CLASS_GIL_WAIT);
	if (!isWaiting || capture.isDiff || filter.some((s) => s.kind === "thread" || s.kind === "process")) return null;
	const waits = idleWaits(capture, mainThread(capture), steps, first, rangeOf(filter));
	const idle: Step[] = [];
	waits.forEach((w, id) => w > 0 && idle.push({ kind: "thread", keep: true, id }));
	if (idle.length === 0) return null;
	const self = selfWeights(capture, metric, [...steps, ...idle]);
	const isUsers = new Uint8Array(tree.n); // or below what is
	for (let i = 1; i < tree.n; i++) isUsers[i] = Number(tree.kind[i] === OWN_FUNCTION) | isUsers[tree.parent[i]];
	return ownWeights(
		tree,
		self.map((v, node) => (isUsers[tree.of[node]] ? 0 : v)),
	);
}

function useFigures(app: App, tree: OwnTree): Figures {
	const { capture, metric, steps } = app;
	return useMemo(() => {
		const now = ownWeights(tree, selfWeights(capture, metric, steps));
		const hasBase = capture.isDiff && (metric.column === null || capture.heap?.base !== undefined);
		const base = hasBase ? ownWeights(tree, selfWeights(capture, metric, steps, true)) : null;
		const waiting = { ...metric, classes: [CLASS_GIL_WAIT, CLASS_WAIT] };
		const wait = metric.id === "cpu" ? ownWeights(tree, selfWeights(capture, waiting, steps)) : null;
		const isMuch = wait !== null && wait.total[0] >= MUCH_WAITING * (capture.report.wall_s ?? 0) && wait.total[0] > 0;
		return {
			...now,
			baseSelf: base?.self ?? null,
			baseTotal: base?.total ?? null,
			wait: isMuch ? wait.total : null,
			waitSelf: isMuch ? wait.self : null,
			idle: idleOf(app, tree),
			sure: metric.id === "cpu" ? sureOf(capture, tree, steps) : null,
			muchWait: MUCH_WAITING * (capture.report.wall_s ?? 0),
		};
	}, [capture, tree, metric.id, JSON.stringify(steps)]);
}

// Beside each row, over the run. Of the capture that was opened, whose samples have times; rows are known by their keys in both.
function useOverTime(app: App): ((row: OwnRow, isInverted: boolean) => Float32Array | null) | null {
	const { first, filter } = app;
	const metric = metricById(first, app.metric.id);
	const made = useMemo(() => {
		const tree = ownTree(first);
		const values = overTime(first, tree, metric, filter);
		return values && { values, byKey: new Map(tree.key.map((key, i) => [key, i])) };
	}, [first, metric.id, JSON.stringify(filter)]);
	if (!made || app.capture.isDiff) return null;
	const own = ownTree(app.capture);
	return (row, isInverted) => {
		const isUp = isInverted && row.depth > 0;
		const nodes = (isUp ? row.from : row.at).map((i) => made.byKey.get(own.key[i]) ?? 0);
		return partsOf(isUp ? made.values.self : made.values.total, nodes);
	};
}

function useMatches(app: App, tree: OwnTree): Uint8Array | null {
	const { capture, state } = app;
	return useMemo(() => {
		const matcher = matcherOf(state.search);
		if (!matcher) return null;
		const hits = matchingFunctions(capture, matcher);
		return Uint8Array.from({ length: tree.n }, (_, i) => {
			if (i === 0) return 0;
			if (tree.kind[i] === OWN_FUNCTION) return hits[tree.id[i]];
			const row = { kind: tree.kind[i], id: tree.id[i] } as OwnRow;
			return Number(matcher.test(nameOf(capture, row)));
		});
	}, [capture, tree, state.search]);
}

interface HotLine {
	line: number;
	value: number;
}

// What is counted, of a line.
function valueOf(metric: Metric): (r: LineRow) => number {
	if (metric.column === "alloc" || metric.column === "copy") return (r) => r[metric.column as "alloc" | "copy"];
	if (metric.column) return (r) => r.peak;
	const isWait = (c: number) => c === CLASS_WAIT || c === CLASS_GIL_WAIT;
	const [cpu, wait] = [metric.classes.some((c) => !isWait(c)), metric.classes.some(isWait)];
	return (r) => (cpu ? cpuOf(r) : 0) + (wait ? r.wait : 0);
}

// The line of a function that takes most: that is the one to look at. In the numbering of what is shown.
function useHottestLines(app: App): Map<number, HotLine> {
	const { capture, steps, metric } = app;
	return useMemo(() => {
		const best = new Map<number, HotLine>();
		const of = valueOf(metric);
		for (const r of capture.isDiff ? [] : linesOf(capture, steps)) {
			const value = of(r);
			if (value > (best.get(r.fn)?.value ?? 0)) best.set(r.fn, { line: r.line, value });
		}
		return best;
	}, [capture, metric.id, JSON.stringify(steps)]);
}

const busyOf = ({ total, idle }: Figures) => (idle ? total.map((v, i) => v - idle.total[i]) : total);

const SORTS: Record<string, (s: Shown) => number> = {
	total: (s) => s.total,
	self: (s) => s.self,
	before: (s) => s.baseTotal,
	change: (s) => Math.abs(s.total - s.baseTotal),
};

function sortOf(id: string, isDiff: boolean): (a: Shown, b: Shown) => number {
	const by = SORTS[id] ?? SORTS[isDiff ? "change" : "total"];
	return (a, b) =>
		Number(a.isIdle) - Number(b.isIdle) || by(b) - by(a) || b.total - a.total || a.row.at[0] - b.row.at[0];
}

interface RowProps {
	app: App;
	shown: Shown;
	figures: Figures;
	parts: Float32Array | null;
	hot: Map<number, HotLine>;
	most: number;
	isStop: boolean;
	toggle: (shown: Shown, isOpen: boolean) => void;
}

function Name({ app, shown, hot }: Pick<RowProps, "app" | "shown" | "hot">) {
	const { capture } = app;
	const { row } = shown;
	if (shown.isRest) return <span class="faint">{count(shown.rest)} smaller</span>;
	const isFunction = row.kind === OWN_FUNCTION;
	const place = isFunction ? functionPlace(capture, row.id) : row.kind === OWN_PACKAGE ? "package" : "";
	const file = isFunction ? capture.functions.file[row.id] : 0;
	const canGo = isFunction && file !== 0 && capture.functions.kind[row.id] === 1;
	const hottest = isFunction ? hot.get(row.id) : undefined;
	const line = hottest?.line ?? capture.functions.line[row.id];
	const text = hottest && hottest.value >= WORTH_TEXT * app.whole ? sourceLine(capture, file, line) : "";
	return (
		<>
			<b class={isFunction ? undefined : "folded"}>{nameOf(capture, row)}</b>{" "}
			{canGo ? (
				<StateLink class="link place" patch={{ view: "source", file, line, fn: row.id }}>
					{place}
				</StateLink>
			) : (
				<small>{place}</small>
			)}
			{shown.isIdle && <small title="threads that did next to nothing but wait"> · idle threads</small>}
			{text && (
				<code class="snippet" title={`line ${line} takes most of it`}>
					{line} {text}
				</code>
			)}
		</>
	);
}

function Row({ app, shown, figures, parts, hot, most, isStop, toggle }: RowProps) {
	const { capture, state, set, metric, whole } = app;
	const { row, isOpen, hasChildren } = shown;
	const unit = metric.unit;
	const choose = () => {
		if (shown.isRest) toggle(shown, true);
		else set({ row: row.key });
	};
	return (
		<tr
			data-key={row.key}
			aria-level={row.depth}
			aria-expanded={hasChildren ? isOpen : undefined}
			aria-selected={state.row === row.key}
			class={[state.row === row.key ? "selected" : "", shown.isRest ? "rest" : ""].join(" ").trim() || undefined}
			tabIndex={isStop ? 0 : -1}
			onClick={choose}
			onDblClick={() => hasChildren && toggle(shown, !isOpen)}
			onContextMenu={(e) => {
				if (row.kind !== OWN_FUNCTION || shown.isRest) return;
				e.preventDefault();
				app.openMenu({
					x: e.clientX,
					y: e.clientY,
					title: bodyName(capture, row.id),
					items: functionMenu(app, row.id),
				});
			}}
		>
			{figures.baseTotal && <td class="number">{amount(shown.baseTotal, unit)}</td>}
			<td class="number">
				<Meter value={shown.total} whole={whole}>
					{amount(shown.total, unit)}
					<small>{share(shown.total, whole)}</small>
				</Meter>
			</td>
			{figures.baseTotal && (
				<>
					<td class="number">
						<Change delta={shown.total - shown.baseTotal} most={most} unit={unit} />
					</td>
					<td class="number">{percentChange(shown.baseTotal, shown.total)}</td>
				</>
			)}
			{figures.sure && (
				<td class="number">{shown.plusMinus > 0 && <small>± {amount(shown.plusMinus, unit)}</small>}</td>
			)}
			{!state.invert && <td class="number">{shown.self > 0 ? amount(shown.self, unit) : ""}</td>}
			{figures.wait && <td class="number">{shown.wait > 0 ? seconds(shown.wait) : ""}</td>}
			<td class="spark">
				{parts && <Sparkline values={parts} label={`${metric.label} of ${nameOf(capture, row)} over time`} />}
			</td>
			<th scope="row" class="name" style={{ "--depth": row.depth - 1 }}>
				{hasChildren ? (
					<button
						class="twist"
						tabIndex={-1}
						aria-label={isOpen ? "Close" : "Open"}
						onClick={(e) => {
							e.stopPropagation();
							toggle(shown, !isOpen);
						}}
					>
						{isOpen ? "▾" : "▸"}
					</button>
				) : (
					<span class="twist" />
				)}
				<Name app={app} shown={shown} hot={hot} />
			</th>
		</tr>
	);
}

// As in a tree of files: arrows walk, right opens, left closes or goes to whom it belongs.
function useWalk(app: App, rows: Shown[], hot: Map<number, HotLine>, toggle: (s: Shown, isOpen: boolean) => void) {
	return (e: KeyboardEvent) => {
		const tr = (e.target as HTMLElement).closest("tr");
		if (!tr || e.target !== tr || e.ctrlKey || e.metaKey || e.altKey) return;
		const at = rows.findIndex((s) => s.row.key === tr.dataset.key);
		const shown = rows[at];
		if (!shown) return;
		const go = (to: number) => rows[to] && app.set({ row: rows[to].row.key }, true);
		const { row } = shown;
		if (e.key === "ArrowDown") go(at + 1);
		else if (e.key === "ArrowUp") go(at - 1);
		else if (e.key === "Home") go(0);
		else if (e.key === "End") go(rows.length - 1);
		else if (e.key === "ArrowRight") {
			if (shown.isOpen) go(at + 1);
			else if (shown.hasChildren || shown.isRest) toggle(shown, true);
		} else if (e.key === "ArrowLeft") {
			if (shown.isOpen) toggle(shown, false);
			else go(shown.parent);
		} else if (e.key === "Enter") {
			if (shown.isRest) toggle(shown, true);
			else if (row.kind === OWN_FUNCTION && app.capture.functions.kind[row.id] === 1)
				app.set({
					view: "source",
					file: app.capture.functions.file[row.id],
					line: hot.get(row.id)?.line ?? app.capture.functions.line[row.id],
					fn: row.id,
				});
			else toggle(shown, !shown.isOpen);
		} else return;
		e.preventDefault();
		e.stopPropagation();
	};
}

function Controls({ app, openPath, openAll }: { app: App; openPath: () => void; openAll: () => void }) {
	const { state, set } = app;
	return (
		<div class="controls">
			<div class="segments" role="group" aria-label="Way to read it">
				<button aria-pressed={!state.invert} onClick={() => set({ invert: false, row: "", open: "" })}>
					What it calls
				</button>
				<button aria-pressed={state.invert} onClick={() => set({ invert: true, row: "", open: "" })}>
					Who calls it
				</button>
			</div>
			{!state.invert && (
				<>
					<button onClick={openPath}>Open the hottest path</button>
					<button onClick={openAll}>Open all</button>
				</>
			)}
			{state.open !== "" && <button onClick={() => set({ open: "" })}>As it was</button>}
			<span class="faint">
				Packages, imports and recursion are one row each; time of libraries is below who called them.
			</span>
		</div>
	);
}

interface HeadProps {
	app: App;
	id: string;
	title: string;
	hint: string;
	isBy: boolean;
}

function Head({ app, id, title, hint, isBy }: HeadProps) {
	return (
		<th scope="col" class="number" aria-sort={isBy ? "descending" : "none"}>
			<button title={hint} onClick={() => app.set({ tsort: id })}>
				<span class="arrow" aria-hidden="true">
					{isBy && "▾"}
				</span>
				{title}
			</button>
		</th>
	);
}

export function TreeView() {
	const app = useApp();
	const { capture, state, set, metric } = app;
	const tree = useMemo(() => ownTree(capture), [capture]);
	const figures = useFigures(app, tree);
	const timesOf = useOverTime(app);
	const matches = useMatches(app, tree);
	const hot = useHottestLines(app);
	const isDiff = figures.baseTotal !== null;
	const whole = Math.max(figures.total[0], figures.baseTotal?.[0] ?? 0);
	const sort = state.tsort || (isDiff ? "change" : "total");
	const rows = useMemo(
		() =>
			shownRows(tree, figures, {
				isInverted: state.invert,
				whole,
				toggles: readToggles(state.open),
				matches,
				sort: sortOf(sort, isDiff),
			}),
		[tree, figures, state.invert, state.open, matches, sort],
	);
	const most = isDiff ? rows.reduce((top, s) => Math.max(top, Math.abs(s.total - s.baseTotal)), 0) : 0;
	const toggle = (shown: Shown, isOpen: boolean) => {
		const toggles = readToggles(app.state.open);
		const { key } = shown.row;
		if (shown.isRest) toggles.add(key);
		else if (isOpen) {
			toggles.delete(`-${key}`);
			toggles.add(key);
		} else {
			toggles.delete(key);
			toggles.add(`-${key}`);
		}
		set({ open: writeToggles(toggles), row: shown.isRest ? state.row : key });
	};
	const openThese = (keys: string[], row: string) => {
		const closed = new Set(keys.map((k) => `-${k}`));
		const kept = [...readToggles(state.open)].filter((k) => !closed.has(k));
		set({ open: writeToggles(new Set([...kept, ...keys])), row });
	};
	const openPath = () => {
		const keys = hottestPath(tree, busyOf(figures), 0).slice(0, MOST_OPENED);
		openThese(keys, keys[keys.length - 1] ?? "");
	};
	const openAll = () => set({ open: OPEN_ALL });
	const walk = useWalk(app, rows, hot, toggle);
	const body = useRef<HTMLTableSectionElement>(null);
	useEffect(() => {
		const tr = state.row && body.current?.querySelector<HTMLElement>(`tr[data-key="${CSS.escape(state.row)}"]`);
		if (!tr) return;
		tr.scrollIntoView({ block: "nearest" });
		// Whoever walks by keys goes along; nobody's focus is taken.
		if (body.current?.contains(document.activeElement) && document.activeElement !== tr) tr.focus();
	}, [state.row, rows]);
	const stop = rows.some((s) => s.row.key === state.row) ? state.row : rows[0]?.row.key;
	const total = state.invert ? "Ends in it" : "Total";
	const head = (id: string, title: string, hint: string) => (
		<Head app={app} id={id} title={title} hint={hint} isBy={sort === id} />
	);
	return (
		<section class="view tree-view" aria-label="Call tree">
			{app.steps.length === 0 && !capture.isDiff && <Verdicts app={app} />}
			<Controls app={app} openPath={openPath} openAll={openAll} />
			{rows.length === 0 ? (
				<p class="nothing">{state.search ? "Nothing in the tree matches the search." : "The filter leaves nothing."}</p>
			) : (
				<div class="table-box">
					<table class="table tree" role="treegrid" aria-label="Call tree">
						<thead>
							<tr>
								{isDiff && head("before", "Before", "in the other capture")}
								{head("total", isDiff ? "After" : total, `${metric.label}, with all that it calls`)}
								{isDiff && head("change", "Change", "sorted by its size, whichever way")}
								{isDiff && <th scope="col">{""}</th>}
								{figures.sure && (
									<th scope="col" class="number" title="half the 95% interval of the change, as fathom diff has it">
										±
									</th>
								)}
								{!state.invert && head("self", "Own", `${metric.label} of its own lines, or of the package itself`)}
								{figures.wait && (
									<th scope="col" class="number" title="waiting, with all that it calls">
										Waiting
									</th>
								)}
								<th scope="col" class="spark">
									{timesOf && "Over time"}
								</th>
								<th scope="col" class="name">
									{state.invert ? "Where it ends, and who called it" : "Your code, and what it calls"}
								</th>
							</tr>
						</thead>
						<tbody ref={body} onKeyDown={walk}>
							{rows.map((shown) => (
								<Row
									key={shown.row.key}
									app={app}
									shown={shown}
									figures={figures}
									parts={timesOf && !shown.isRest ? timesOf(shown.row, state.invert) : null}
									hot={hot}
									most={most}
									isStop={shown.row.key === stop}
									toggle={toggle}
								/>
							))}
						</tbody>
					</table>
				</div>
			)}
		</section>
	);
}
