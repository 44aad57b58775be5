// What changed between two captures: functions and lines, with what is more than noise marked.
import { useMemo, useState } from "preact/hooks";
import { seconds, shortPath } from "../data/format";
import { KIND_THREAD } from "../data/capture";
import { cpuOf, linesOf } from "../data/lines";
import { functionSums } from "../data/functions";
import { selfWeights, totalsOf } from "../data/weights";
import { outermost } from "../data/functions";
import { matcherOf, matchingFunctions } from "../data/search";
import { useApp } from "../ui/app_context";
import { functionMenu } from "../ui/function_menu";
import { functionName, functionPlace } from "../ui/names";
import { Table, type Column } from "../ui/table";

interface Row {
	key: string;
	fn: number;
	label: string;
	place: string;
	before: number;
	after: number;
	isSignificant: boolean;
	file: number;
	line: number;
}

function signed(v: number): string {
	return v === 0 ? "0 s" : `${v > 0 ? "+" : "−"}${seconds(Math.abs(v))}`;
}

const HALF = 36; // percent of the cell for bars to either side; what is left is the number's

function Change({ row, most }: { row: Row; most: number }) {
	const delta = row.after - row.before;
	const width = most > 0 ? (HALF * Math.abs(delta)) / most : 0;
	return (
		<span class="change" title={row.isSignificant ? "more than noise" : "within noise"}>
			<i
				class={delta > 0 ? "slower" : "faster"}
				style={{ width: `${width}%`, marginLeft: `${delta > 0 ? HALF : HALF - width}%` }}
			/>
			<span>{signed(delta)}</span>
		</span>
	);
}

export function DiffView() {
	const app = useApp();
	const { capture, set, state, metric, steps } = app;
	const [sort, setSort] = useState("-size");
	const [isAll, setAll] = useState(false);
	const [byLine, setByLine] = useState(false);
	const table = capture.functionRows;
	const functions = useMemo<Row[]>(() => {
		const sums = functionSums(capture, metric, steps);
		const baseTotal = totalsOf(capture.nodes.parent, selfWeights(capture, metric, steps, true));
		const counts = outermost(capture);
		const base = new Float64Array(capture.functions.n);
		for (let i = 1; i < capture.nodes.n; i++) if (counts[i]) base[capture.nodes.fn[i]] += baseTotal[i];
		const significant = new Uint8Array(capture.functions.n);
		for (let i = 0; i < table.n; i++) significant[table.get("function", i)] = table.get("significant", i);
		const rows: Row[] = [];
		for (let fn = 0; fn < capture.functions.n; fn++)
			if ((sums.total[fn] > 0 || base[fn] > 0) && capture.functions.kind[fn] !== KIND_THREAD)
				rows.push({
					key: String(fn),
					fn,
					label: functionName(capture, fn),
					place: functionPlace(capture, fn),
					before: base[fn],
					after: sums.total[fn],
					isSignificant: significant[fn] !== 0,
					file: capture.functions.file[fn],
					line: capture.functions.line[fn],
				});
		return rows;
	}, [capture, metric.id, JSON.stringify(steps)]);
	const lines = useMemo<Row[]>(
		() =>
			linesOf(capture, []).map((r) => ({
				key: `${r.file}:${r.line}:${r.fn}`,
				fn: r.fn,
				label: `${shortPath(capture.strings.get(r.file))}:${r.line}`,
				place: functionName(capture, r.fn),
				before: r.base,
				after: cpuOf(r),
				isSignificant: r.isSignificant,
				file: r.file,
				line: r.line,
			})),
		[capture],
	);
	const hits = useMemo(() => {
		const matcher = matcherOf(state.search);
		return matcher ? matchingFunctions(capture, matcher) : null;
	}, [capture, state.search]);
	const hasMarks = table.has("significant");
	const rows = (byLine ? lines : functions).filter(
		(r) => (isAll || !hasMarks || r.isSignificant) && (!hits || hits[r.fn]),
	);
	const most = rows.reduce((top, r) => Math.max(top, Math.abs(r.after - r.before)), 0);
	const before = capture.cells.base?.reduce((a, b) => a + b, 0) ?? 0;
	const after = capture.cells.weight.reduce((a, b) => a + b, 0);
	const columns: Column<Row>[] = [
		{
			id: "name",
			title: byLine ? "Line" : "Function",
			value: (r) => r.label,
			cell: (r) => (
				<span class="function">
					<b>{r.label}</b> <small>{r.place}</small>
				</span>
			),
		},
		{ id: "before", title: "Before", isNumber: true, value: (r) => r.before, cell: (r) => seconds(r.before) },
		{ id: "after", title: "After", isNumber: true, value: (r) => r.after, cell: (r) => seconds(r.after) },
		{
			id: "delta",
			title: "Change",
			isNumber: true,
			value: (r) => r.after - r.before,
			cell: (r) => <Change row={r} most={most} />,
		},
		{
			id: "size",
			title: "Size",
			hint: "sort by the size of the change, whichever way",
			isNumber: true,
			value: (r) => Math.abs(r.after - r.before),
			cell: (r) =>
				r.before > 0
					? `${r.after >= r.before ? "+" : "−"}${Math.abs((100 * (r.after - r.before)) / r.before).toFixed(0)}%`
					: "new",
		},
		{
			id: "sure",
			title: "More than noise",
			value: (r) => (r.isSignificant ? 0 : 1),
			cell: (r) => (r.isSignificant ? "yes" : ""),
		},
	];
	return (
		<section class="view diff" aria-label="Diff">
			<div class="controls">
				<p>
					<b>{seconds(before)}</b> before, <b>{seconds(after)}</b> after: <b>{signed(after - before)}</b>
				</p>
				<div class="segments" role="group" aria-label="Rows">
					<button aria-pressed={!byLine} onClick={() => setByLine(false)}>
						Functions
					</button>
					<button aria-pressed={byLine} onClick={() => setByLine(true)}>
						Lines
					</button>
				</div>
				{hasMarks && (
					<label class="toggle">
						<input type="checkbox" checked={isAll} onChange={(e) => setAll(e.currentTarget.checked)} /> Show what is
						within noise, too
					</label>
				)}
				<button onClick={() => set({ view: "flame", mode: "left", colour: "change", zoom: null })}>
					Flame graph of the change
				</button>
			</div>
			{rows.length === 0 ? (
				<p class="nothing">{hasMarks && !isAll ? "Nothing changed by more than noise." : "Nothing to compare."}</p>
			) : (
				<Table
					label="Changes"
					columns={columns}
					rows={rows}
					sort={sort}
					onSort={setSort}
					keyOf={(r) => r.key}
					onRow={(r) =>
						byLine
							? set({ view: "source", file: r.file, line: r.line, fn: r.fn })
							: set({ view: "functions", fn: r.fn })
					}
					onMenu={(r, x, y) => app.openMenu({ x, y, title: r.label, items: functionMenu(app, r.fn) })}
				/>
			)}
		</section>
	);
}
