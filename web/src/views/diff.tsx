// SPDX-License-Identifier: Apache-2.0
// What changed between two captures: the totals, then functions and lines, with what chance does not explain marked. The figures of CPU
// time and memory are those of `fathom diff`.
import { useMemo } from "preact/hooks";
import { changesOf, countedChanges, LISTS, type ChangeRow, type List } from "../data/changes";
import type { Capture } from "../data/capture";
import { amount } from "../data/format";
import { CPU } from "../data/metrics";
import type { Report } from "../data/report";
import { matcherOf } from "../data/search";
import { wholeOf } from "../data/weights";
import { useApp, type App } from "../ui/app_context";
import { Change, percentChange, signed, type Unit } from "../ui/change";
import { functionMenu } from "../ui/function_menu";
import { Table, type Column } from "../ui/table";

const LIST_NAMES: Record<List, string> = {
	functions: "Functions",
	lines: "Lines",
	memory: "Memory of functions",
	memory_lines: "Memory of lines",
};
const isMemory = (list: List) => list === "memory" || list === "memory_lines";
const isLines = (list: List) => list === "lines" || list === "memory_lines";

// Wall time, CPU time and memory of both, and what is chosen at the top where that is none of these.
function Totals({ app }: { app: App }) {
	const { capture, metric, steps } = app;
	const { report, base = {} as Report } = capture.head;
	const rows: [string, number, number, Unit][] = [
		["Wall time", base.wall_s ?? 0, report.wall_s ?? 0, "s"],
		["CPU time", base.cpu_s ?? 0, report.cpu_s ?? 0, "s"],
		["Most memory (RSS)", base.max_rss_bytes ?? 0, report.max_rss_bytes ?? 0, "bytes"],
	];
	if (metric.id !== CPU.id && metric.unit === "s")
		rows.push([`${metric.label}, sampled`, wholeOf(capture, metric, steps, true), app.whole, "s"]);
	return (
		<table class="table slim totals" aria-label="Totals">
			<thead>
				<tr>
					<th scope="col">{""}</th>
					{["Before", "After", "Change", ""].map((title) => (
						<th scope="col" class="number">
							{title}
						</th>
					))}
				</tr>
			</thead>
			<tbody>
				{rows
					.filter(([, before, after]) => before > 0 || after > 0)
					.map(([name, before, after, unit]) => (
						<tr>
							<th scope="row">{name}</th>
							<td class="number">{amount(before, unit)}</td>
							<td class="number">{amount(after, unit)}</td>
							<td class="number strong">{signed(after - before, unit)}</td>
							<td class="number">{percentChange(before, after)}</td>
						</tr>
					))}
			</tbody>
		</table>
	);
}

function columnsOf(list: List, unit: Unit, most: number, hasMarks: boolean): Column<ChangeRow>[] {
	const place = (r: ChangeRow) => (r.file ? `${r.file}${r.line > 0 ? `:${r.line}` : ""}` : "");
	const columns: Column<ChangeRow>[] = [
		{
			id: "name",
			title: isLines(list) ? "Line" : "Function",
			value: (r) => (isLines(list) ? place(r) : r.name),
			cell: (r) => (
				<span class="function">
					<b>{isLines(list) ? place(r) : r.name}</b> <small>{isLines(list) ? r.name : place(r)}</small>
					{r.text && <code class="snippet">{r.text}</code>}
				</span>
			),
		},
		{ id: "before", title: "Before", isNumber: true, value: (r) => r.before, cell: (r) => amount(r.before, unit) },
		{ id: "after", title: "After", isNumber: true, value: (r) => r.after, cell: (r) => amount(r.after, unit) },
		{
			id: "delta",
			title: "Change",
			isNumber: true,
			value: (r) => r.after - r.before,
			cell: (r) => <Change delta={r.after - r.before} most={most} unit={unit} />,
		},
		{
			id: "size",
			title: "Size",
			hint: "sort by the size of the change, whichever way",
			isNumber: true,
			value: (r) => Math.abs(r.after - r.before),
			cell: (r) => percentChange(r.before, r.after),
		},
	];
	if (!hasMarks) return columns;
	return [
		...columns,
		{
			id: "pm",
			title: "±",
			hint: "half the 95% interval of the change",
			isNumber: true,
			value: (r) => r.plusMinus,
			cell: (r) => (r.plusMinus > 0 ? amount(r.plusMinus, unit) : ""),
		},
		{
			id: "sure",
			title: "More than noise",
			hint: "chance does not explain it, although so many were compared",
			value: (r) => (r.isSignificant ? 0 : 1),
			cell: (r) => (r.isSignificant ? "yes" : ""),
		},
	];
}

// Which of the lists there is something in, for what is counted.
function listsOf(capture: Capture, isCpu: boolean): List[] {
	const seen = new Set(capture.changes.column("list") ?? []);
	return LISTS.filter((l, i) => (l === "functions" ? true : seen.has(i)) && (isCpu || l !== "lines"));
}

function useRows(app: App, list: List, isCpu: boolean): ChangeRow[] {
	const { capture, metric, steps, state } = app;
	const isCounted = list === "functions" && (!isCpu || steps.length > 0);
	const rows = useMemo(
		() => (isCounted ? countedChanges(capture, metric, steps) : changesOf(capture, list)),
		[capture, list, isCounted, metric.id, JSON.stringify(steps)],
	);
	return useMemo(() => {
		const matcher = matcherOf(state.search);
		return matcher ? rows.filter((r) => matcher.test(r.name) || matcher.test(r.file) || matcher.test(r.text)) : rows;
	}, [rows, state.search]);
}

function Choices({ app, lists, list, hasMarks }: { app: App; lists: List[]; list: List; hasMarks: boolean }) {
	const { state, set } = app;
	return (
		<div class="controls">
			<div class="segments" role="group" aria-label="Rows">
				{lists.map((l) => (
					<button aria-pressed={l === list} onClick={() => set({ rows: l })}>
						{LIST_NAMES[l]}
					</button>
				))}
			</div>
			{hasMarks ? (
				<label class="toggle">
					<input type="checkbox" checked={state.noise} onChange={(e) => set({ noise: e.currentTarget.checked })} /> Show
					what is within noise, too
				</label>
			) : (
				<span class="faint">Whether chance explains a change is known of CPU time and memory only.</span>
			)}
			<button onClick={() => set({ view: "flame", mode: "left", colour: "change", zoom: null })}>
				Flame graph of the change
			</button>
		</div>
	);
}

export function DiffView() {
	const app = useApp();
	const { capture, set, state, metric } = app;
	const isCpu = metric.id === CPU.id;
	const lists = listsOf(capture, isCpu);
	const list = lists.includes(state.rows) ? state.rows : "functions";
	const hasMarks = isMemory(list) || (isCpu && app.steps.length === 0);
	const all = useRows(app, list, isCpu);
	const rows = useMemo(() => (hasMarks && !state.noise ? all.filter((r) => r.isSignificant) : all), [all, state.noise]);
	const most = rows.reduce((top, r) => Math.max(top, Math.abs(r.after - r.before)), 0);
	const unit: Unit = isMemory(list) ? "bytes" : "s";
	return (
		<section class="view diff" aria-label="Diff">
			<Totals app={app} />
			<Choices app={app} lists={lists} list={list} hasMarks={hasMarks} />
			{rows.length === 0 ? (
				<p class="nothing">
					{state.search && all.length === 0
						? "No change matches the search."
						: hasMarks && all.length > 0
							? `Nothing changed by more than noise; ${all.length} rows are within it.`
							: "Nothing to compare."}
				</p>
			) : (
				<Table
					label="Changes"
					columns={columnsOf(list, unit, most, hasMarks)}
					rows={rows}
					sort={state.dsort}
					onSort={(dsort) => set({ dsort })}
					keyOf={(r) => r.key}
					onRow={(r) => r.fn >= 0 && set(targetOf(capture, r, isLines(list)))}
					onMenu={(r, x, y) => r.fn >= 0 && app.openMenu({ x, y, title: r.name, items: functionMenu(app, r.fn) })}
				/>
			)}
		</section>
	);
}

function targetOf(capture: Capture, r: ChangeRow, isLine: boolean) {
	if (isLine) return { view: "source", file: capture.functions.file[r.fn], line: r.line, fn: r.fn } as const;
	return { view: "functions", fn: r.fn } as const;
}
