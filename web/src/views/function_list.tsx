// SPDX-License-Identifier: Apache-2.0
// The table of functions, whole or narrow. Unfiltered numbers are the program's own; under a filter they are counted here.
import { useMemo } from "preact/hooks";
import { FLAG_PLUMBING, isMine, KIND_ERROR, KIND_PYTHON, KIND_THREAD } from "../data/capture";
import { baseTotals, changesOf } from "../data/changes";
import { amount, bytes, count, seconds, share } from "../data/format";
import { chargedByFunction, functionSums } from "../data/functions";
import { heapWeights } from "../data/weights";
import { matcherOf, matchingFunctions } from "../data/search";
import { useApp, type App } from "../ui/app_context";
import { ClassBar, Meter } from "../ui/bars";
import { Change, percentChange } from "../ui/change";
import { functionMenu } from "../ui/function_menu";
import { functionName, functionPlace, moduleName } from "../ui/names";
import { Table, type Column } from "../ui/table";

export interface FunctionRow {
	fn: number;
	self: number;
	total: number;
	plusMinus: number;
	classes: number[] | null;
	alloc: number;
	peak: number;
	allocs: number;
	kept: number;
	life: number;
	calls: number;
	tracedOwn: number;
	tracedTotal: number;
	mean: number;
	min: number;
	max: number;
	before: number; // of two captures: the total in the other
	change: number;
	changePlusMinus: number;
	isSignificant: boolean;
}

export interface FunctionTable {
	rows: FunctionRow[];
	hasPlusMinus: boolean;
	hasMemory: boolean;
	hasCalls: boolean;
	hasBase: boolean;
}

export function useFunctionRows(app: App): FunctionTable {
	const { capture, metric, steps } = app;
	return useMemo(() => {
		const t = capture.functionRows;
		const isExact = steps.length === 0 && metric.id === "cpu" && t.n > 0;
		const none = isExact ? new Float64Array(capture.functions.n) : null;
		const sums = none ? { self: none, total: none } : functionSums(capture, metric, steps);
		const at = new Int32Array(capture.functions.n).fill(-1);
		const which = t.column("function");
		for (let i = 0; i < t.n; i++) if (which && which[i] < at.length) at[which[i]] = i;
		// Under a filter memory is counted as time is; what a table of the whole run says is then not it.
		const isLimited = capture.heap !== null && (steps.length > 0 || capture.isPart);
		const [alloc, peak] = (["alloc", "peak"] as const).map((column) =>
			isLimited ? chargedByFunction(capture, heapWeights(capture, column, steps)) : null,
		);
		const isWhole = steps.length === 0 && !capture.isPart; // calls were counted for the whole run only
		const base = capture.isDiff ? baseTotals(capture, metric, steps) : null;
		// How sure a change is, is known of CPU time, and of what memory a function held at its own peak, which is another figure.
		const isJudged = base !== null && metric.id === "cpu" && steps.length === 0;
		const judged = new Map(isJudged ? changesOf(capture, "functions").map((r) => [r.fn, r]) : []);
		const rows: FunctionRow[] = [];
		for (let fn = 0; fn < capture.functions.n; fn++) {
			const r = at[fn];
			const self = isExact && r >= 0 ? t.get("self_s", r) : sums.self[fn];
			const total = isExact && r >= 0 ? t.get("total_s", r) : sums.total[fn];
			const calls = r >= 0 && isWhole ? t.get("calls", r) : 0;
			if (!(total > 0) && !(calls > 0) && !(base && base[fn] > 0)) continue;
			if (capture.functions.kind[fn] === KIND_THREAD) continue;
			rows.push({
				fn,
				self,
				total,
				plusMinus: isExact && r >= 0 ? t.get("self_plus_minus_s", r) : 0,
				classes:
					isExact && r >= 0
						? ["python_s", "native_s", "system_s", "gc_s", "gil_wait_s", "wait_s"].map((c) => t.get(c, r))
						: null,
				alloc: alloc ? alloc[fn] : r >= 0 ? t.get("alloc_bytes", r) : 0,
				peak: peak ? peak[fn] : r >= 0 ? t.get("peak_bytes", r) : 0,
				allocs: r >= 0 && isWhole ? t.get("allocs", r) : 0,
				kept: r >= 0 && isWhole ? t.get("live_bytes", r) : 0,
				life: r >= 0 && isWhole ? t.get("life_s", r) : 0,
				calls,
				tracedOwn: calls > 0 ? t.get("traced_own_s", r) : 0,
				tracedTotal: calls > 0 ? t.get("traced_total_s", r) : 0,
				mean: calls > 0 ? t.get("mean_s", r) : 0,
				min: calls > 0 ? t.get("min_s", r) : 0,
				max: calls > 0 ? t.get("max_s", r) : 0,
				before: base?.[fn] ?? 0,
				change: total - (base?.[fn] ?? 0),
				changePlusMinus: judged.get(fn)?.plusMinus ?? 0,
				isSignificant: judged.get(fn)?.isSignificant ?? false,
			});
		}
		return {
			rows,
			hasPlusMinus: isExact,
			hasMemory: rows.some((r) => r.alloc > 0 || r.peak > 0),
			hasCalls: rows.some((r) => r.calls > 0),
			hasBase: base !== null,
		};
	}, [capture, metric.id, JSON.stringify(steps)]);
}

type Columns = Column<FunctionRow>[];

function nameColumn({ capture }: App): Column<FunctionRow> {
	const kindOf = (fn: number) => {
		const kind = capture.functions.kind[fn];
		return kind === KIND_ERROR ? "error" : kind === KIND_PYTHON ? "python" : "native";
	};
	return {
		id: "name",
		title: "Function",
		value: (r) => functionName(capture, r.fn),
		cell: (r) => (
			<span class={`function kind-${kindOf(r.fn)}`} title={functionName(capture, r.fn)}>
				<b>{functionName(capture, r.fn)}</b> <small>{functionPlace(capture, r.fn)}</small>
			</span>
		),
	};
}

function shareColumn(
	app: App,
	id: "self" | "total",
	title: string,
	hint: string,
	isNarrow: boolean,
): Column<FunctionRow> {
	return {
		id,
		title,
		hint,
		isNumber: true,
		value: (r) => r[id],
		cell: (r) => (
			<Meter value={r[id]} whole={app.whole}>
				{amount(r[id], app.metric.unit)}
				{!isNarrow && <small>{share(r[id], app.whole)}</small>}
			</Meter>
		),
	};
}

// A figure that is left empty where it is nothing.
function figure(
	id:
		| "plusMinus"
		| "calls"
		| "tracedOwn"
		| "tracedTotal"
		| "mean"
		| "min"
		| "max"
		| "alloc"
		| "peak"
		| "allocs"
		| "kept"
		| "life",
	title: string,
	hint: string,
	write: (value: number) => string,
): Column<FunctionRow> {
	return { id, title, hint, isNumber: true, value: (r) => r[id], cell: (r) => (r[id] > 0 ? write(r[id]) : "") };
}

function sureColumns(isBeside: boolean): Columns {
	const columns: Columns = [figure("plusMinus", "±", "95 in 100 runs lie within this much of the self time", seconds)];
	if (!isBeside)
		columns.push({
			id: "kind",
			title: "Kind of time",
			isMinor: true,
			hint: "Python, native, system, waiting",
			value: (r) => (r.classes?.[1] ?? 0) / (r.self || 1),
			cell: (r) => r.classes?.some((v) => v > 0) && <ClassBar values={r.classes} />,
		});
	return columns;
}

const CALL_COLUMNS: Columns = [
	figure("calls", "Calls", "every one was traced", count),
	figure("tracedOwn", "Own, traced", "elapsed while it was the innermost, waiting included", seconds),
	figure("tracedTotal", "Total, traced", "elapsed from its calls to their ends, waiting included", seconds),
	figure("mean", "Mean", "of one call, or of one stretch of a generator", seconds),
	{ ...figure("min", "Fastest", "of one call, or of one stretch of a generator", seconds), isMinor: true },
	figure("max", "Slowest", "of one call, or of one stretch of a generator", seconds),
];

const SPARE = ["plusMinus", "tracedOwn", "mean", "min", "max"];

const MEMORY_COLUMNS: Columns = [
	figure("alloc", "Allocated", "in all, freed or not", bytes),
	{ ...figure("allocs", "Blocks", "how many were allocated", count), isMinor: true },
	{
		...figure("life", "Lived", "how long a byte was held, as a mean; to the end if it was not freed", seconds),
		isMinor: true,
	},
	figure("peak", "Peak", "the most that its blocks held at one time", bytes),
	{ ...figure("kept", "Kept", "held at the end of the run", bytes), isMinor: true },
];

function columnsOf(app: App, table: FunctionTable, isNarrow: boolean, isBeside: boolean): Columns {
	const { capture, metric } = app;
	const columns: Columns = [
		nameColumn(app),
		shareColumn(app, "self", "Self", `${metric.label} that ends in the function itself`, isNarrow),
		shareColumn(app, "total", "Total", "with all that it calls; each function once per stack", isNarrow),
	];
	if (isNarrow) return columns;
	if (table.hasBase) return comparedColumns(app, table, columns);
	if (table.hasPlusMinus) columns.push(...sureColumns(isBeside));
	if (table.hasCalls) columns.push(...CALL_COLUMNS);
	if (table.hasMemory) columns.push(...MEMORY_COLUMNS);
	if (!isBeside && !table.hasCalls)
		columns.push({ id: "module", title: "Module", isMinor: true, value: (r) => moduleName(capture, r.fn) });
	// What the chosen one has beside the table gives way to it.
	const isSpare = (c: Column<FunctionRow>) => isBeside && table.hasCalls && SPARE.includes(c.id);
	return columns.map((c) => (isSpare(c) ? { ...c, isSpare: true } : c));
}

// Before, after, and what changed.
function comparedColumns(app: App, table: FunctionTable, [name, self, total]: Columns): Columns {
	const { unit } = app.metric;
	const most = table.rows.reduce((top, r) => Math.max(top, Math.abs(r.change)), 0);
	return [
		name,
		{
			id: "before",
			title: "Before",
			hint: "with all that it calls, in the other capture",
			isNumber: true,
			value: (r) => r.before,
			cell: (r) => amount(r.before, unit),
		},
		{ ...total, title: "After" },
		{
			id: "change",
			title: "Change",
			hint: "sorted by its size, whichever way",
			isNumber: true,
			value: (r) => Math.abs(r.change),
			cell: (r) => <Change delta={r.change} most={most} unit={unit} />,
		},
		{
			id: "percent",
			title: "",
			isNumber: true,
			isMinor: true,
			value: (r) => Math.abs(r.change),
			cell: (r) => percentChange(r.before, r.total),
		},
		{
			id: "changePlusMinus",
			title: "±",
			hint: "half the 95% interval of the change, where it was judged; bold: more than noise",
			isNumber: true,
			value: (r) => r.changePlusMinus,
			cell: (r) =>
				r.changePlusMinus > 0 &&
				(r.isSignificant ? <b>± {amount(r.changePlusMinus, unit)}</b> : `± ${amount(r.changePlusMinus, unit)}`),
		},
		{ ...self, title: "Self" },
	];
}

interface Props {
	isNarrow?: boolean;
	isBeside?: boolean; // the chosen function stands to the right and takes part of the room
}

export function FunctionList({ isNarrow = false, isBeside = false }: Props) {
	const app = useApp();
	const { capture, state, set } = app;
	const table = useFunctionRows(app);
	const hits = useMemo(() => {
		const matcher = matcherOf(state.search);
		return matcher ? matchingFunctions(capture, matcher) : null;
	}, [capture, state.search]);
	const rows = useMemo(() => {
		const { flags } = capture.functions;
		return table.rows.filter(
			(r) =>
				(!hits || hits[r.fn]) &&
				(state.plumbing || !(flags[r.fn] & FLAG_PLUMBING) || hits) &&
				(!state.mine || isMine(capture.functions, r.fn)),
		);
	}, [table, hits, state.plumbing, state.mine]);
	if (rows.length === 0)
		return <p class="nothing">{hits ? "No function matches the search." : "The filter leaves no function."}</p>;
	return (
		<Table
			label="Functions"
			columns={columnsOf(app, table, isNarrow, isBeside)}
			rows={rows}
			sort={state.sort || (table.hasBase && !isNarrow ? "-change" : "-self")}
			onSort={(sort) => set({ sort })}
			keyOf={(r) => r.fn}
			selected={state.fn}
			onRow={(r) => set({ fn: r.fn })}
			onMenu={(r, x, y) => app.openMenu({ x, y, title: functionName(capture, r.fn), items: functionMenu(app, r.fn) })}
		/>
	);
}
